"""Products of JAX on a daemon, in functions that jax.jit, jax.grad and jax.vmap transform.

>>> from gemmd_client.jax import matmul
>>> jax.jit(jax.grad(lambda w: matmul(x, w, client).sum()))(w)
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .client import Client

_TYPES = ("float64", "float32", "float16", "bfloat16")


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(a: Any, b: Any, client: Client) -> Any:
    """Two matrices, or two stacks of as many."""
    return jax.pure_callback(lambda left, right: client.gemm(np.asarray(left), np.asarray(right)),
                             jax.ShapeDtypeStruct((*a.shape[:-1], b.shape[-1]), a.dtype), a, b, vmap_method="expand_dims")


def _forward(a: Any, b: Any, client: Client) -> tuple[Any, tuple[Any, Any]]:
    return _product(a, b, client), (a, b)


def _backward(client: Client, saved: tuple[Any, Any], grad: Any) -> tuple[Any, Any]:
    a, b = saved
    return _product(grad, b.swapaxes(-1, -2), client), _product(a.swapaxes(-1, -2), grad, client)


_product.defvjp(_forward, _backward)


def matmul(a: Any, b: Any, client: Client) -> Any:
    """Returns a @ b, computed by the daemon of `client` in a callback of JAX, with the shapes of jax.numpy.matmul. Both
    gradients are products that the daemon computes. The types are float64, float32, float16 and bfloat16; arrays on a GPU
    are copied to the host.

    Raises:
        TypeError: the types differ, or are none of these.
        ValueError: the shapes do not fit.
        GemmdError: one of its subclasses, by the error code of the daemon; a transformed function raises JAX's own error,
            with that one in its text.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    if a.dtype != b.dtype or a.dtype.name not in _TYPES:
        raise TypeError(f"a has the type {a.dtype} and b has the type {b.dtype}; both must have one type of "
                        f"{', '.join(_TYPES)}: convert them with astype()")
    if not a.ndim or not b.ndim:
        raise ValueError(f"a has {a.ndim} dimensions and b has {b.ndim}; each must have one at least")
    row, column = a.ndim == 1, b.ndim == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"a has {a.shape[-1]} columns and b has {b.shape[-2]} rows; the numbers must be equal")
    if b.ndim == 2:  # The rows of all matrices of a meet one b.
        rows = a.reshape(int(np.prod(a.shape[:-1])), a.shape[-1])
        product = _product(rows, b, client).reshape(*a.shape[:-1], b.shape[-1])
    else:
        leads = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        product = _product(*(jnp.broadcast_to(each, (*leads, *each.shape[-2:])) for each in (a, b)), client)
    if column:
        product = product[..., 0]
    return product[..., 0] if row and column else product[..., 0, :] if row else product

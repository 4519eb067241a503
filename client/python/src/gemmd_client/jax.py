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

from .arrays import as_matrices, without_added
from .client import Client

_TYPES = (jnp.dtype(jnp.float64), jnp.dtype(jnp.float32), jnp.dtype(jnp.float16), jnp.dtype(jnp.bfloat16))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(a: Any, b: Any, client: Client) -> Any:
    """Two matrices, or two stacks of as many."""
    return jax.pure_callback(lambda left, right: client.gemm(np.asarray(left), np.asarray(right)),
                             jax.ShapeDtypeStruct((*a.shape[:-1], b.shape[-1]), a.dtype), a, b,
                             vmap_method="expand_dims")


def _forward(a: Any, b: Any, client: Client) -> tuple[Any, tuple[Any, Any]]:
    return _product(a, b, client), (a, b)


def _backward(client: Client, saved: tuple[Any, Any], grad: Any) -> tuple[Any, Any]:
    a, b = saved
    return _product(grad, b.swapaxes(-1, -2), client), _product(a.swapaxes(-1, -2), grad, client)


_product.defvjp(_forward, _backward)


def matmul(a: Any, b: Any, client: Client) -> Any:
    """Returns a @ b, computed by the daemon of `client` in a callback of JAX, with the shapes of jax.numpy.matmul. Both
    gradients are products that the daemon computes. The types are float64, float32, float16 and bfloat16; arrays on a
    GPU are copied to the host.

    Raises:
        TypeError: the types differ, or are none of these.
        ValueError: the shapes do not fit.
        GemmdError: one of its subclasses, by the error code of the daemon; a transformed function raises JAX's own
            error, with that one in its text.
    """
    a, b = jnp.asarray(a), jnp.asarray(b)
    a, b, row, column = as_matrices(a, b, _TYPES, "astype")
    if b.ndim == 2:  # The rows of all matrices of a meet one b.
        rows = a.reshape(int(np.prod(a.shape[:-1])), a.shape[-1])
        product = _product(rows, b, client).reshape(*a.shape[:-1], b.shape[-1])
    else:
        leads = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        product = _product(*(jnp.broadcast_to(each, (*leads, *each.shape[-2:])) for each in (a, b)), client)
    return without_added(product, row, column)

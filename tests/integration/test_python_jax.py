"""gemmd_client.jax with the real JAX, in a process of its own: JAX starts threads, and other tests fork."""

import importlib.util
import os
import subprocess
import sys

import pytest

from daemon import PATIENCE_S
from test_python_client import CLIENT

PROGRAM = """
import sys

import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

from gemmd_client import Client
from gemmd_client.errors import GemmdError
from gemmd_client.jax import matmul

client = Client(sys.argv[1])
rng = np.random.default_rng(1)
SHAPES = [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
          ((2, 3, 4), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 4), (4, 5))]
for dtype in ("float64", "float32", "float16", "bfloat16"):
    for shapes in SHAPES if dtype == "float32" else SHAPES[:1]:
        a, b = (jnp.asarray(rng.integers(-2, 3, shape), dtype) for shape in shapes)
        for one, other in ((matmul(a, b, client), a @ b), (jax.jit(lambda a, b: matmul(a, b, client))(a, b), a @ b)):
            assert one.dtype == other.dtype and one.shape == other.shape and (one == other).all(), (dtype, shapes)
        weights = jnp.asarray(rng.integers(-2, 3, (a @ b).shape), dtype)
        found = jax.jit(jax.grad(lambda a, b: (matmul(a, b, client) * weights).sum(), (0, 1)))(a, b)
        wanted = jax.grad(lambda a, b: ((a @ b) * weights).sum(), (0, 1))(a, b)
        assert all((one == other).all() for one, other in zip(found, wanted)), (dtype, shapes)
a, b = rng.random((3, 4)), rng.random((4, 2))
check_grads(lambda a, b: matmul(a, b, client), (a, b), order=2, modes=["rev"])
stack = jnp.asarray(rng.integers(-2, 3, (5, 3, 4)), "float64")
for axes, inputs in (((0, None), (stack, b)), ((None, 0), (stack[0], stack.swapaxes(1, 2))),
                     ((0, 0), (stack, stack.swapaxes(1, 2)))):
    found = jax.vmap(lambda a, b: matmul(a, b, client), axes)(*inputs)
    assert np.allclose(found, jax.vmap(jnp.matmul, axes)(*inputs))
    found = jax.vmap(jax.grad(lambda a, b: matmul(a, b, client).sum(), (0, 1)), axes)(*inputs)
    wanted = jax.vmap(jax.grad(lambda a, b: (a @ b).sum(), (0, 1)), axes)(*inputs)
    assert all(np.allclose(one, other) for one, other in zip(found, wanted))
big = jnp.ones((1500, 1500), "float32")
assert (jax.jit(lambda a: matmul(a, a, client))(big) == 1500).all()
for call, kind, sentence in ((lambda: matmul(a, a, client), ValueError, "a has 4 columns and b has 3 rows"),
                             (lambda: matmul(a, b.astype("f4"), client), TypeError, "both must have one type"),
                             (lambda: matmul(a, 2.0, client), ValueError, "b has 0"),
                             (lambda: matmul(stack, stack[:2].swapaxes(1, 2), client), ValueError, "roadcast"),
                             (lambda: jax.jit(lambda a: client.gemm(a, b))(a), Exception, "racer")):
    try:
        call()
    except kind as error:
        assert sentence in str(error), error
    else:
        raise AssertionError(sentence)
client.close()
try:
    jax.jit(lambda a: matmul(a, b, client))(a).block_until_ready()
except Exception as error:
    assert "the client is closed" in str(error), error
else:
    raise AssertionError("the client is closed")
"""


def test_products_of_jax(url):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = subprocess.run([sys.executable, "-c", PROGRAM, url], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(CLIENT)}, timeout=8 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

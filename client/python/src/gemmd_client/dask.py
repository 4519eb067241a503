"""Products of Dask arrays, of which the daemons of a list compute the blocks."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import dask
import dask.array as da
import numpy as np

from .arrays import DTYPES, Array, dtype_name, octets
from .client import _DEFAULT_OUT, Client
from .errors import (
    ConnectionFailed,
    DeviceLost,
    Draining,
    Forbidden,
    NoRoom,
    NotFound,
    QueueFull,
)
from .tensors import Tensor

_clients: dict[tuple[str, str | None], Client] = {}
_tensors: dict[tuple[str, str], Tensor] = {}
_lock = threading.Lock()


def _client(url: str, token: str | None) -> Client:
    with _lock:
        if (url, token) not in _clients:
            _clients[url, token] = Client(url, token=token, retries=2)
        return _clients[url, token]


def _order(daemons: Sequence[str], key: str) -> list[str]:
    """The daemons in the order in which a block tries them, by rendezvous hashing."""
    return sorted(daemons, key=lambda url: hashlib.sha256(f"{key} {url}".encode()).digest())


def _name(b: Array) -> str:
    """The name of the resident tensor with the content of a block."""
    content = hashlib.sha256(f"{b.dtype} {b.shape} ".encode())
    content.update(octets(np.ascontiguousarray(b)))
    return f"dask-{content.hexdigest()}"


def _resident(client: Client, b: Array, name: str) -> Tensor | Array:
    """Returns the resident tensor with the content of `b`, which is put there if it is not, or `b`
    if the daemon has no room for it."""
    with _lock:
        known = _tensors.get((client.url, name))
    if known is None:
        try:
            known = client.put(name, b, evictable=True)
        except (NoRoom, Forbidden):
            return b
        with _lock:
            _tensors[client.url, name] = known
    return known


def _product(client: Client, a: Array, b: Array, name: str, out: str) -> Array:
    if not a.size or not b.size:
        product: Array = client.gemm(a, b, out=out)
        return product
    operand = _resident(client, b, name)
    try:
        product = client.gemm(a, operand, out=out)
    except NotFound:  # The daemon was started again, or the tensor was evicted.
        with _lock:
            if isinstance(operand, Tensor):
                _tensors.pop((client.url, operand.name), None)
        product = client.gemm(a, b, out=out)
    return product.astype(DTYPES[out], copy=False)


def _block(a: Array, b: Array, name: str, daemons: Sequence[str], key: str, out: str,
           token: str | None) -> Array:
    failure: Exception | None = None
    for url in _order(daemons, key):
        try:
            return _product(_client(url, token), a, b, name, out)
        except (ConnectionFailed, Draining, DeviceLost, QueueFull) as error:
            failure = error
    raise ConnectionFailed(
        f"none of the {len(daemons)} daemons computed the block: {failure}") from failure


def _sum(products: list[Array]) -> Array:
    return reduce(add, products)


def matmul(x: Any, y: Any, *, daemons: Sequence[str], token: str | None = None) -> Any:
    """Returns the Dask array x @ y, whose blocks are computed by gemmd daemons.

    Each product of two blocks goes to the daemon that a hash of the position of y's block chooses,
    where y's block stays as an evictable tensor while there is room for it. It goes to the
    next daemon in the order of the hash if that daemon is down, draining or full. The products
    along the inner dimension are added in their order, so that the result does not depend on
    which daemon computed which block.

    Args:
        x: a Dask array of the shape (m, k).
        y: a Dask array of the shape (k, n), of the type of ``x``.
        daemons: the addresses of the daemons, as the workers reach them.
        token: the bearer token for all daemons; default: the workers' environment's GEMMD_TOKEN.

    Raises:
        ValueError: the shapes do not fit, a chunk's size is not known, or the list is empty.
        TypeError: the types differ, or the daemons do not compute with them.
        ConnectionFailed: when it is computed, if no daemon of the list is left.
    """
    daemons = list(daemons)
    if not daemons:
        raise ValueError("the list of daemons is empty")
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(f"x has {x.ndim} and y has {y.ndim} dimensions; both must have two")
    if any(math.isnan(length) for array in (x, y) for sizes in array.chunks for length in sizes):
        raise ValueError("the size of a chunk is not known; call compute_chunk_sizes() first")
    if x.shape[1] != y.shape[0]:
        raise ValueError(f"x has {x.shape[1]} columns and y has {y.shape[0]} rows; the numbers must "
                         "be equal")
    dtype = dtype_name(x.dtype)
    if dtype_name(y.dtype) != dtype:
        raise TypeError(f"x has the type {x.dtype} and y has the type {y.dtype}; both must have the "
                        "same type")
    out = "f32" if dtype in ("f16", "bf16", "f8_e4m3") else _DEFAULT_OUT.get(dtype, dtype)
    final = DTYPES[_DEFAULT_OUT.get(dtype, dtype)]
    if x.chunks[1] != y.chunks[0]:
        y = y.rechunk({0: x.chunks[1]})
    left, right = x.to_delayed(), y.to_delayed()
    block, total = dask.delayed(_block, pure=True), dask.delayed(_sum, pure=True)
    name = dask.delayed(_name, pure=True)
    names = [[name(part) for part in parts] for parts in right]
    rows = []
    for i, height in enumerate(x.chunks[0]):
        row = []
        for j, width in enumerate(y.chunks[1]):
            products = [block(left[i, p], right[p, j], names[p][j], daemons, f"{p} {j}", out, token)
                        for p in range(len(x.chunks[1]))]
            row.append(da.from_delayed(total(products), (height, width), DTYPES[out]))
        rows.append(row)
    result = da.block(rows)
    return result if DTYPES[out] == final else result.astype(final)


__all__ = ["matmul"]

"""Products of Dask arrays, of which the daemons of a list compute the blocks."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from dask.utils import parse_bytes

from .arrays import DTYPES, Array, dtype_name, octets
from .client import Client
from .errors import (
    ConnectionFailed,
    DeviceLost,
    Draining,
    Forbidden,
    GemmdError,
    NoRoom,
    NotFound,
    QueueFull,
)
from .products import OUTS
from .tensors import Tensor

_AVOIDED_SECONDS = 2.0  # for how long blocks avoid a daemon that failed, unless it names a time
_TENSORS_MAX = 10_000  # tensors that a worker remembers

_lock = threading.Lock()
_clients: dict[tuple[str, str | None], Client] = {}
_in_flight: dict[str, int] = {}  # this worker's requests, by address
_avoided: dict[str, float] = {}  # until when a daemon that failed is avoided, by address
_tensors: dict[tuple[str, str], Future[Tensor | None]] = {}  # None: the daemon has no room


def _client(url: str, token: str | None) -> Client:
    with _lock:
        if (url, token) not in _clients:
            _clients[url, token] = Client(url, token=token, retries=2)
        return _clients[url, token]


def _take(daemons: Sequence[str], first: str, name: str) -> str:
    """Chooses a daemon for a request with the block `name`, and counts the request: one that has not
    failed lately, of those one with the fewest requests of this worker. Where the block would have
    to be sent first, that counts as a request more, unless it belongs to the daemon `first`."""
    now = time.monotonic()

    def cost(url: str) -> tuple[bool, int, bool]:
        strange = url != first and (url, name) not in _tensors
        return _avoided.get(url, 0) > now, _in_flight.get(url, 0) + strange, url != first

    with _lock:
        url = min(daemons, key=cost)
        _in_flight[url] = _in_flight.get(url, 0) + 1
        return url


def _give(url: str) -> None:
    with _lock:
        _in_flight[url] -= 1


def _name(b: Array) -> str:
    """The name of the resident tensor with the content of a block."""
    content = hashlib.sha256(f"{b.dtype} {b.shape} ".encode())
    content.update(octets(np.ascontiguousarray(b)))
    return f"dask-{content.hexdigest()}"


def _resident(client: Client, b: Array, name: str) -> Tensor | None:
    """Returns the resident tensor with the content of `b`, which one thread of the worker puts there.
    None: the daemon has no room for it."""
    with _lock:
        found = _tensors.get((client.url, name))
        if found is None:
            if len(_tensors) >= _TENSORS_MAX:
                _tensors.clear()
            sent = _tensors[client.url, name] = Future()
    if found is not None:
        return found.result()
    try:
        sent.set_result(client.put(name, b, evictable=True))
    except (NoRoom, Forbidden):
        sent.set_result(None)
    except BaseException as error:
        _forget(client, name)
        sent.set_exception(error)
    return sent.result()


def _forget(client: Client, name: str) -> None:
    with _lock:
        _tensors.pop((client.url, name), None)


def _product(client: Client, a: Array, b: Array, name: str, c: Array | None, out: str) -> Array:
    gemm = partial(client.gemm, out_dtype=out, beta=0.0 if c is None else 1.0, c=c)
    product: Array
    for _ in range(2 if a.size and b.size else 0):
        tensor = _resident(client, b, name)
        if tensor is None:
            break
        try:
            product = gemm(a, tensor)
            return product
        except NotFound:  # The daemon was started again, or the tensor was evicted.
            _forget(client, name)
    product = gemm(a, b)
    return product


def _block(a: Array, b: Array, name: str, c: Array | None, first: int, *, daemons: Sequence[str],
           out: str, token: str | None) -> Array:
    """Returns a @ b + c, computed by the daemon at the index `first` or by another."""
    left = [*daemons[first:], *daemons[:first]]
    failure: GemmdError | None = None
    while left:
        url = _take(left, daemons[first], name)
        try:
            return _product(_client(url, token), a, b, name, c, out)
        except (ConnectionFailed, Draining, DeviceLost, QueueFull) as error:
            failure = error
            with _lock:
                _avoided[url] = time.monotonic() + (error.retry_after or _AVOIDED_SECONDS)
        finally:
            _give(url)
        left.remove(url)
    raise ConnectionFailed(
        f"none of the {len(daemons)} daemons computed the block: {failure}") from failure


def _depths(x: Any, y: Any) -> tuple[int, ...]:
    """Returns the chunks of the inner dimension: those of x, of which neighbours are merged while a
    block of either array stays within Dask's array.chunk-size."""
    side = max((*x.chunks[0], *y.chunks[1]), default=0)
    longest = parse_bytes(dask.config.get("array.chunk-size")) // max(1, side * x.dtype.itemsize)
    depths: list[int] = []
    for depth in x.chunks[1]:
        if depths and depths[-1] + depth <= longest:
            depths[-1] += depth
        else:
            depths.append(depth)
    return tuple(depths)


def matmul(x: Any, y: Any, *, daemons: Sequence[str], token: str | None = None) -> Any:
    """Returns the Dask array x @ y, whose blocks are computed by gemmd daemons.

    A block of the result is one request if the row of x's blocks and the column of y's blocks that
    it needs are within Dask's ``array.chunk-size`` (128 MiB unless configured). Longer rows and
    columns are divided, and the daemons add the products in their order. The chunks alone decide
    where, so that the result does not depend on which daemon computes which block.

    A column of y's blocks stays on the daemon as an evictable tensor, named by a hash of its
    content, while there is room for it. Its position chooses the daemon; a worker whose requests
    keep that daemon busy takes the one with the fewest of its requests. At least two threads of
    workers for each daemon keep all daemons busy. A block goes to another daemon if one is down,
    draining or full, and the following blocks avoid that daemon for some seconds.

    Args:
        x: a Dask array of the shape (m, k).
        y: a Dask array of the shape (k, n), of the type of ``x``.
        daemons: the addresses of the daemons, as the workers reach them.
        token: the bearer token for all daemons; default: the workers' environment's GEMMD_TOKEN.

    Raises:
        ValueError: the shapes do not fit, a chunk's size is not known, or the list is empty.
        TypeError: x or y is no Dask array, the types differ, the daemons do not compute with them,
            or ``daemons`` is one string.
        ConnectionFailed: when it is computed, if no daemon of the list is left.
    """
    if isinstance(daemons, str):
        raise TypeError("daemons is a string; it must be a list of addresses")
    urls = sorted(set(daemons))
    if not urls:
        raise ValueError("the list of daemons is empty")
    for name, array in (("x", x), ("y", y)):
        if not isinstance(array, da.Array):
            raise TypeError(f"{name} is a {type(array).__name__}; it must be a Dask array")
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
    if dtype == "i32":
        raise TypeError("the daemons do not multiply int32, which is a type of results only")
    final = OUTS[dtype][0]
    depths = _depths(x, y)
    out = "f32" if final in ("f16", "bf16") and len(depths) > 1 else final
    x, y = x.rechunk({1: depths}), y.rechunk({0: depths})
    mark = dask.base.tokenize(x.name, y.name, urls, token)
    names, product = f"gemmd-name-{mark}", f"gemmd-matmul-{mark}"
    block = partial(_block, daemons=urls, out=out, token=token)
    graph: dict[Any, Any] = {}
    for j in range(len(y.chunks[1])):
        for p in range(len(depths)):
            graph[names, p, j] = _name, (y.name, p, j)
    for i in range(len(x.chunks[0])):
        for j in range(len(y.chunks[1])):
            partial_sum: Any = None
            for p in range(len(depths)):
                last = p == len(depths) - 1
                key = (product, i, j) if last else (f"gemmd-part-{mark}", i, j, p)
                graph[key] = (block, (x.name, i, p), (y.name, p, j), (names, p, j), partial_sum,
                              (j * len(depths) + p) % len(urls))
                partial_sum = key
    result = da.Array(HighLevelGraph.from_collections(product, graph, dependencies=[x, y]), product,
                      (x.chunks[0], y.chunks[1]), DTYPES[out])
    return result if out == final else result.astype(DTYPES[final])


__all__ = ["matmul"]

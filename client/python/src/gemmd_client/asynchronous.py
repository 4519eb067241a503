"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Unpack

import numpy as np

from .arrays import Array
from .attention import Layout
from .client import Client
from .reductions import ReduceName
from .signatures import (
    AttentionOptions,
    ConvOptions,
    GemmOptions,
    Operand,
    ProductOptions,
    ReduceOptions,
    SequenceOptions,
    SoftmaxOptions,
)
from .sequences import Sequence
from .tensors import Tensor


class AsyncClient:
    """A Client whose methods are coroutines. At most `in_flight` requests are sent at once; further
    requests wait. The other arguments are those of Client.

    A request that has been sent goes on after its coroutine was cancelled, until the daemon answers or
    the request's timeout is over; close() waits for it.
    """

    def __init__(self, url: str | None = None, *, in_flight: int = 16, **options: Any) -> None:
        self._client = Client(url, **options)
        self._threads = ThreadPoolExecutor(in_flight, thread_name_prefix="gemmd")
        self._closed = False

    async def _call(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self._closed:
            raise RuntimeError("the client is closed")
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, partial(method, *arguments, **options))

    async def gemm(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Any:
        """Computes a product; the arguments and errors are those of Client.gemm()."""
        return await self._call(self._client.gemm, a, b, **options)

    async def matmul(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Any:
        """Computes a product, like Client.matmul()."""
        return await self._call(self._client.matmul, a, b, **options)

    async def tensordot(self, a: Operand, b: Operand, axes: Any = 2, **options: Unpack[ProductOptions]) -> Any:
        """Sums products over dimensions, like Client.tensordot()."""
        return await self._call(self._client.tensordot, a, b, axes, **options)

    async def einsum(self, subscripts: str, a: Operand, b: Operand, **options: Unpack[ProductOptions]) -> Any:
        """Sums the products that subscripts name, like Client.einsum()."""
        return await self._call(self._client.einsum, subscripts, a, b, **options)

    async def attention(self, q: Operand, k: Operand, v: Operand, *, lse: bool = False,
                        **options: Unpack[AttentionOptions]) -> Any:
        """Computes an attention; the arguments and errors are those of Client.attention()."""
        return await self._call(self._client.attention, q, k, v, lse=lse, **options)

    async def conv2d(self, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Any:
        """Computes a convolution; the arguments and errors are those of Client.conv2d()."""
        return await self._call(self._client.conv2d, x, w, **options)

    async def reduce(self, x: Operand, op: ReduceName = "sum", **options: Unpack[ReduceOptions]) -> Any:
        """Reduces an array; the arguments and errors are those of Client.reduce()."""
        return await self._call(self._client.reduce, x, op, **options)

    async def softmax(self, x: Operand, **options: Unpack[SoftmaxOptions]) -> Any:
        """Computes a softmax; the arguments and errors are those of Client.softmax()."""
        return await self._call(self._client.softmax, x, **options)

    async def gemm_store(self, name: str, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Tensor:
        """Computes a product that stays on the device, like Client.gemm_store()."""
        tensor: Tensor = await self._call(self._client.gemm_store, name, a, b, **options)
        return tensor

    async def conv2d_store(self, name: str, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Tensor:
        """Computes a convolution that stays on the device, like Client.conv2d_store()."""
        tensor: Tensor = await self._call(self._client.conv2d_store, name, x, w, **options)
        return tensor

    async def reduce_store(self, name: str, x: Operand, op: ReduceName = "sum",
                           **options: Unpack[ReduceOptions]) -> Tensor:
        """Reduces an array to one that stays on the device, like Client.reduce_store()."""
        tensor: Tensor = await self._call(self._client.reduce_store, name, x, op, **options)
        return tensor

    async def softmax_store(self, name: str, x: Operand, **options: Unpack[SoftmaxOptions]) -> Tensor:
        """Computes a softmax that stays on the device, like Client.softmax_store()."""
        tensor: Tensor = await self._call(self._client.softmax_store, name, x, **options)
        return tensor

    async def put(self, name: str, array: Operand, *, evictable: bool = False, scale: Operand | None = None,
                  contiguous: bool = False) -> Tensor:
        """Makes an array resident, like Client.put()."""
        tensor: Tensor = await self._call(self._client.put, name, array, evictable=evictable,
                                          scale=scale, contiguous=contiguous)
        return tensor

    async def get(self, tensor: Tensor | str) -> Array:
        """Fetches a resident tensor, like Client.get()."""
        array: Array = await self._call(self._client.get, tensor)
        return array

    async def get_scaled(self, tensor: Tensor | str) -> tuple[Array, Array | None]:
        """Fetches a resident tensor and its scales, like Client.get_scaled()."""
        found: tuple[Array, Array | None] = await self._call(self._client.get_scaled, tensor)
        return found

    async def put_packed(self, name: str, file: bytes | os.PathLike[str], form: str, *, bits: int | None = None,
                         evictable: bool = False) -> Tensor:
        """Makes packed weights resident, like Client.put_packed()."""
        tensor: Tensor = await self._call(self._client.put_packed, name, file, form, bits=bits, evictable=evictable)
        return tensor

    async def get_packed(self, tensor: Tensor | str) -> bytes:
        """Fetches packed weights as a safetensors file, like Client.get_packed()."""
        file: bytes = await self._call(self._client.get_packed, tensor)
        return file

    async def delete(self, tensor: Tensor | str) -> None:
        """Deletes a resident tensor, like Client.delete()."""
        await self._call(self._client.delete, tensor)

    async def sequence(self, name: str, kv_heads: int, d: int, *, dv: int | None = None, dtype: Any = np.float16,
                       layers: int = 1) -> AsyncSequence:
        """Creates a sequence, like Client.sequence()."""
        return AsyncSequence(self, await self._call(self._client.sequence, name, kv_heads, d, dv=dv, dtype=dtype,
                                                    layers=layers))

    async def close(self) -> None:
        """Waits for the requests in flight and closes the connections. The client makes no more requests."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSequence:
    """A Sequence whose methods are coroutines. `sequence` has its attributes."""

    def __init__(self, client: AsyncClient, sequence: Sequence) -> None:
        self._client = client
        self.sequence = sequence

    async def refresh(self) -> None:
        """Asks for the lengths, like Sequence.refresh()."""
        await self._client._call(self.sequence.refresh)

    async def append(self, k: Operand, v: Operand, *, layer: int = 0, position: int | None = None,
                     layout: Layout = "bhsd") -> None:
        """Appends positions, like Sequence.append()."""
        await self._client._call(self.sequence.append, k, v, layer=layer, position=position, layout=layout)

    async def attention(self, q: Operand, k: Operand | None = None, v: Operand | None = None,
                        **options: Unpack[SequenceOptions]) -> Any:
        """Computes an attention to the sequence, like Sequence.attention()."""
        return await self._client._call(self.sequence.attention, q, k, v, **options)

    async def kv(self, position: int = 0, count: int | None = None, *, layer: int = 0,
                 layout: Layout = "bhsd") -> tuple[Array, Array]:
        """Fetches positions, like Sequence.kv()."""
        found: tuple[Array, Array] = await self._client._call(self.sequence.kv, position, count, layer=layer,
                                                              layout=layout)
        return found

    async def truncate(self, length: int) -> None:
        """Drops the last positions, like Sequence.truncate()."""
        await self._client._call(self.sequence.truncate, length)

    async def fork(self, name: str, length: int | None = None) -> AsyncSequence:
        """Creates a sequence that shares positions, like Sequence.fork()."""
        return AsyncSequence(self._client, await self._client._call(self.sequence.fork, name, length))

    async def delete(self) -> None:
        """Deletes the sequence, like Sequence.delete()."""
        await self._client._call(self.sequence.delete)

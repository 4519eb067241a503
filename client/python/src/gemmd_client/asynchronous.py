"""The client for asyncio."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Unpack

import numpy as np

from .arrays import Array
from .attention import Layout
from .client import Client
from .contractions import Contraction, einsum, tensordot
from .http import Plan, T
from .jobs import AsyncJob, JobStatus
from .reductions import ReduceName
from .sequences import Sequence
from .signatures import (
    AttentionOptions,
    ConvOptions,
    ExpertsOptions,
    GemmOptions,
    Operand,
    ProductOptions,
    ReduceOptions,
    SequenceOptions,
    SoftmaxOptions,
)
from .streams import AsyncTransport
from .tables import table
from .tensors import Tensor


class AsyncClient:
    """A Client whose methods are coroutines, which wait for the daemon on the event loop and need no threads. At most
    `in_flight` calls are carried out at once; further ones wait. The other arguments are those of Client; all calls use
    HTTP, whatever the transport of a Client would be.

    The connection of a coroutine that is cancelled is closed, and the daemon then drops the request. Resident tensors
    are handles as those of a Client: what NumPy does with them, such as ``a @ tensor``, blocks.

    Raises:
        ValueError: an argument is wrong, or transport is "library".
    """

    def __init__(self, url: str | None = None, *, in_flight: int = 16, **options: Any) -> None:
        if options.get("transport") == "library":
            raise ValueError("transport is 'library'; an AsyncClient sends its requests by HTTP")
        self._client = Client(url, **{**options, "transport": "http"})
        self._plans = self._client._plans
        self._progress = self._client._progress
        self._transport = AsyncTransport(self._client._http.address, in_flight, self._progress)
        self._options = {"in_flight": in_flight, **self._client._options}
        self._closed = False

    @property
    def url(self) -> str:
        """The daemon's address."""
        return self._client.url

    @property
    def timeout(self) -> float:
        """The longest time of a request with all its repeats, in seconds."""
        return self._client.timeout

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(AsyncClient, **self._options), ()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.url}, {'closed' if self._closed else 'open'}>"

    def _repr_html_(self) -> str:
        return table("AsyncClient", {"address": self.url, "state": "closed" if self._closed else "open"})

    async def _run(self, plan: Plan[T]) -> T:
        return await self._transport.run(plan)

    async def _wait(self, plan: Plan[T]) -> T:
        """Carries out a plan that waits for a job, and does not count among those in flight."""
        return await self._transport.wait(plan)

    async def _contract(self, contraction: Contraction) -> Any:
        return contraction.of(await self.gemm(contraction.a, contraction.b, **contraction.options))

    async def gemm(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Any:
        """Computes a product; the arguments and errors are those of Client.gemm()."""
        return await self._run(self._plans.gemm(a, b, **options))

    async def matmul(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Any:
        """Computes a product, like Client.matmul()."""
        return await self._run(self._plans.gemm(a, b, **options))

    async def tensordot(self, a: Operand, b: Operand, axes: Any = 2, **options: Unpack[ProductOptions]) -> Any:
        """Sums products over dimensions, like Client.tensordot()."""
        return await self._contract(tensordot(a, b, axes, options.pop("out", None), {**options}))

    async def einsum(self, subscripts: str, a: Operand, b: Operand, **options: Unpack[ProductOptions]) -> Any:
        """Sums the products that subscripts name, like Client.einsum()."""
        return await self._contract(einsum(subscripts, a, b, options.pop("out", None), {**options}))

    async def attention(self, q: Operand, k: Operand, v: Operand, *, lse: bool = False,
                        **options: Unpack[AttentionOptions]) -> Any:
        """Computes an attention; the arguments and errors are those of Client.attention()."""
        return await self._run(self._plans.attention(q, k, v, lse=lse, **options))

    async def conv2d(self, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Any:
        """Computes a convolution; the arguments and errors are those of Client.conv2d()."""
        return await self._run(self._plans.conv2d(x, w, **options))

    async def reduce(self, x: Operand, op: ReduceName = "sum", **options: Unpack[ReduceOptions]) -> Any:
        """Reduces an array; the arguments and errors are those of Client.reduce()."""
        return await self._run(self._plans.reduce(x, op, **options))

    async def softmax(self, x: Operand, **options: Unpack[SoftmaxOptions]) -> Any:
        """Computes a softmax; the arguments and errors are those of Client.softmax()."""
        return await self._run(self._plans.softmax(x, **options))

    async def experts(self, a: Operand, w: Operand, experts: Operand, **options: Unpack[ExpertsOptions]) -> Any:
        """Computes a mixture of experts; the arguments and errors are those of Client.experts()."""
        return await self._run(self._plans.experts(a, w, experts, **options))

    async def gemm_job(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> AsyncJob:
        """Hands a product in as a job, like Client.gemm_job()."""
        return AsyncJob(self, *await self._run(self._plans.gemm_job(a, b, **options)))

    async def attention_job(self, q: Operand, k: Operand, v: Operand, **options: Unpack[AttentionOptions]) -> AsyncJob:
        """Hands an attention in as a job, like Client.attention_job()."""
        return AsyncJob(self, *await self._run(self._plans.attention_job(q, k, v, **options)))

    async def conv2d_job(self, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> AsyncJob:
        """Hands a convolution in as a job, like Client.conv2d_job()."""
        return AsyncJob(self, *await self._run(self._plans.conv2d_job(x, w, **options)))

    async def reduce_job(self, x: Operand, op: ReduceName = "sum", **options: Any) -> AsyncJob:
        """Hands a reduction in as a job, like Client.reduce_job()."""
        return AsyncJob(self, *await self._run(self._plans.reduce_job(x, op, **options)))

    async def softmax_job(self, x: Operand, **options: Unpack[SoftmaxOptions]) -> AsyncJob:
        """Hands a softmax in as a job, like Client.softmax_job()."""
        return AsyncJob(self, *await self._run(self._plans.softmax_job(x, **options)))

    async def experts_job(self, a: Operand, w: Operand, experts: Operand,
                          **options: Unpack[ExpertsOptions]) -> AsyncJob:
        """Hands a mixture of experts in as a job, like Client.experts_job()."""
        return AsyncJob(self, *await self._run(self._plans.experts_job(a, w, experts, **options)))

    async def jobs(self) -> list[JobStatus]:
        """Lists the jobs of the client's tenant, like Client.jobs()."""
        return await self._run(self._plans.jobs())

    def job(self, id: str) -> AsyncJob:
        """Returns a job that was handed in elsewhere, like Client.job()."""
        return AsyncJob(self, id)

    async def gemm_store(self, name: str, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Tensor:
        """Computes a product that stays on the device, like Client.gemm_store()."""
        return await self._run(self._plans.gemm_store(name, a, b, **options))

    async def conv2d_store(self, name: str, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Tensor:
        """Computes a convolution that stays on the device, like Client.conv2d_store()."""
        return await self._run(self._plans.conv2d_store(name, x, w, **options))

    async def reduce_store(self, name: str, x: Operand, op: ReduceName = "sum",
                           **options: Unpack[ReduceOptions]) -> Tensor:
        """Reduces an array to one that stays on the device, like Client.reduce_store()."""
        return await self._run(self._plans.reduce_store(name, x, op, **options))

    async def softmax_store(self, name: str, x: Operand, **options: Unpack[SoftmaxOptions]) -> Tensor:
        """Computes a softmax that stays on the device, like Client.softmax_store()."""
        return await self._run(self._plans.softmax_store(name, x, **options))

    async def experts_store(self, name: str, a: Operand, w: Operand, experts: Operand,
                            **options: Unpack[ExpertsOptions]) -> Tensor:
        """Computes a mixture of experts that stays on the device, like Client.experts_store()."""
        return await self._run(self._plans.experts_store(name, a, w, experts, **options))

    async def put(self, name: str, array: Operand, *, evictable: bool = False, scale: Operand | None = None,
                  contiguous: bool = False) -> Tensor:
        """Makes an array resident, like Client.put()."""
        return await self._run(self._plans.put(name, array, evictable=evictable, scale=scale, contiguous=contiguous))

    async def get(self, tensor: Tensor | str, *, row: int = 0, rows: int | None = None) -> Array:
        """Fetches a resident tensor or some of its rows, like Client.get()."""
        return await self._run(self._plans.get(tensor, row, rows))

    async def get_scaled(self, tensor: Tensor | str) -> tuple[Array, Array | None]:
        """Fetches a resident tensor and its scales, like Client.get_scaled()."""
        return await self._run(self._plans.get_scaled(tensor))

    async def put_packed(self, name: str, file: bytes | str | os.PathLike[str], form: str, *, bits: int | None = None,
                         evictable: bool = False) -> Tensor:
        """Makes packed weights resident, like Client.put_packed()."""
        return await self._run(self._plans.put_packed(name, file, form, bits=bits, evictable=evictable))

    async def get_packed(self, tensor: Tensor | str) -> bytes:
        """Fetches packed weights as a safetensors file, like Client.get_packed()."""
        return await self._run(self._plans.get_packed(tensor))

    async def delete(self, tensor: Tensor | str) -> None:
        """Deletes a resident tensor, like Client.delete()."""
        await self._run(self._plans.delete(tensor))

    async def tensors(self) -> list[Tensor]:
        """Lists the resident tensors, like Client.tensors()."""
        return await self._run(self._plans.tensors())

    async def sequence(self, name: str, kv_heads: int, d: int, *, dv: int | None = None, dtype: Any = np.float16,
                       layers: int = 1) -> AsyncSequence:
        """Creates a sequence, like Client.sequence()."""
        return AsyncSequence(self, await self._run(self._plans.sequence(name, kv_heads, d, dv=dv, dtype=dtype,
                                                                        layers=layers)))

    async def sequences(self) -> list[AsyncSequence]:
        """Lists the sequences, like Client.sequences()."""
        return [AsyncSequence(self, found) for found in await self._run(self._plans.sequences())]

    async def info(self) -> dict[str, Any]:
        """Returns the daemon's description, like Client.info()."""
        return await self._run(self._plans.json("GET", "/info"))

    async def close(self) -> None:
        """Waits for the calls that have begun and closes the connections. The client makes no more requests."""
        self._closed = True
        await self._transport.close()
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

    def __repr__(self) -> str:
        return f"<Async{repr(self.sequence)[1:]}"

    def _repr_html_(self) -> str:
        return self.sequence._repr_html_()

    async def refresh(self) -> None:
        """Asks for the lengths, like Sequence.refresh()."""
        await self._client._run(self.sequence._ask("GET"))

    async def append(self, k: Operand, v: Operand, *, layer: int = 0, position: int | None = None,
                     layout: Layout = "bhsd") -> None:
        """Appends positions, like Sequence.append()."""
        await self._client._run(self.sequence._append(k, v, layer, position, layout))

    async def attention(self, q: Operand, k: Operand | None = None, v: Operand | None = None,
                        **options: Unpack[SequenceOptions]) -> Any:
        """Computes an attention to the sequence, like Sequence.attention()."""
        return await self._client._run(self.sequence._attention(q, k, v, **options))

    async def kv(self, position: int = 0, count: int | None = None, *, layer: int = 0,
                 layout: Layout = "bhsd") -> tuple[Array, Array]:
        """Fetches positions, like Sequence.kv()."""
        return await self._client._run(self.sequence._kv(position, count, layer, layout))

    async def truncate(self, length: int) -> None:
        """Drops the last positions, like Sequence.truncate()."""
        await self._client._run(self.sequence._ask("POST", "/truncate", parameters={"length": length}))

    async def fork(self, name: str, length: int | None = None) -> AsyncSequence:
        """Creates a sequence that shares positions, like Sequence.fork()."""
        return AsyncSequence(self._client, await self._client._run(self.sequence._fork(name, length)))

    async def delete(self) -> None:
        """Deletes the sequence, like Sequence.delete()."""
        await self._client._run(self.sequence._delete())

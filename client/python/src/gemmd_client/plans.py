"""What the methods of clients do, for the Client, which blocks, and the AsyncClient: plans, which yield requests and
take their answers. The arguments and the errors are those of the methods of Client."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from .arrays import NAMES, Array, dtype_name, like, to_numpy
from .attention import Attention, attention_parameters
from .convolution import Convolution
from .errors import ProtocolError
from .http import Answer, Plan, Request, computed, description
from .jobs import JobStatus, job_status
from .mixture import Mixture
from .products import Product, product_parameters
from .reductions import Axis, ReduceName, Reduction, Softmax, deviation, needs_elements, product as host_product
from .results import Result
from .seconds import milliseconds
from .sequences import Sequence, sequence_path
from .tensors import Tensor, before, entity_tag, from_safetensors, safetensors_header

if TYPE_CHECKING:
    from .client import Client


class Plans:
    """The plans of one client, whose timeout applies where there is no other, and of whom the tensors are."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def timeout(self, timeout: float | None) -> float:
        """Returns the seconds that a request may take."""
        return self._client.timeout if timeout is None else timeout

    def answer(self, method: str, path: str, **options: Any) -> Plan[Answer]:
        """Sends one request, whose other attributes are `options`."""
        answer: Answer = yield Request(method, path, **{"timeout": self._client.timeout, **options})
        return answer

    def json(self, method: str, path: str, **options: Any) -> Plan[dict[str, Any]]:
        """Sends one request, whose answer is a JSON object."""
        return description((yield from self.answer(method, path, **options)))

    def pages(self, path: str) -> Plan[list[dict[str, Any]]]:
        """Returns the descriptions on all pages of a list. The member that has them is called as its path."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = yield from self.json("GET", path, parameters={"after": after} if after else {})
            found += page[path[1:]]
            after = page["next"]
        return found

    def compute(self, path: str, parameters: dict[str, Any], sent: list[Array], timeout: float) -> Plan[Array]:
        """Sends the operands of an operation, whose answer is an array."""
        return computed((yield from self.answer("POST", path, parameters=parameters, operands=sent, timeout=timeout,
                                                result=True)))

    def job(self, path: str, parameters: dict[str, Any], sent: list[Array], result: Result) -> Plan[tuple[str, Result]]:
        """Hands an operation in as a job and returns the job's id, and what becomes of the answer."""
        answer = yield from self.answer("POST", path, parameters=parameters, operands=sent,
                                        headers={"Prefer": "respond-async"}, repeatable=False)
        if answer.status != 202:
            raise ProtocolError("the daemon keeps no jobs", status=answer.status)
        return str(description(answer)["id"]), result

    def store(self, name: str, path: str, parameters: dict[str, Any], sent: list[Array], result: Result,
              timeout: float | None) -> Plan[Tensor]:
        """Computes an operation whose result stays on the device."""
        if result.out is not None:
            raise TypeError("out is an array; a result that stays on the daemon's device fills none")
        timeout = self.timeout(timeout)
        parameters = {"timeout_ms": milliseconds("timeout", timeout), **parameters, "store": name}
        found = yield from self.json("POST", path, parameters=parameters, operands=sent, timeout=timeout)
        return Tensor.described(found, self._client)

    def product(self, product: Product, precision: str = "full", verify: bool = False, priority: int = 4,
                timeout: float | None = None, kernel: str | None = None) -> Plan[Any]:
        """Computes a product that is not empty."""
        timeout = self.timeout(timeout)
        parameters = product_parameters(product, precision, verify, priority, timeout, kernel)
        return product.result.of((yield from self.compute("/gemm", parameters, product.sent, timeout)))

    def gemm(self, a: Any, b: Any, **options: Any) -> Plan[Any]:
        product, others = _product(a, b, options)
        if product.is_empty:
            return product.result.of(product.empty())
        return (yield from self.product(product, **others))

    def gemm_job(self, a: Any, b: Any, **options: Any) -> Plan[tuple[str, Result]]:
        product, others = _product(a, b, options)
        if product.is_empty:
            raise ValueError("a dimension is 0, and such a product cannot be a job")
        return (yield from self.job("/gemm", product_parameters(product, **others), product.sent, product.result))

    def gemm_store(self, name: str, a: Any, b: Any, **options: Any) -> Plan[Tensor]:
        product, others = _product(a, b, options)
        if product.is_empty:
            raise ValueError("a dimension is 0, and such a product cannot be stored")
        if product.result.dtype != product.out_type:
            raise TypeError(f"the product would have the type {product.result.dtype}, which no resident tensor has; "
                            "convert a and b with astype()")
        return (yield from self.store(name, "/gemm", product_parameters(product, **others), product.sent,
                                      product.result, others.get("timeout")))

    def attention(self, q: Any, k: Any, v: Any, *, lse: bool = False, timeout: float | None = None,
                  **options: Any) -> Plan[Any]:
        operands, options = _attention(q, k, v, options)
        timeout = self.timeout(timeout)
        parameters = attention_parameters(operands.parameters(), timeout=timeout, **options)
        shape = (operands.entries_apart, operands.heads, operands.sq) if lse else None
        return (yield from self.attend(q, parameters, operands.sent, operands.shape, shape, timeout))

    def attention_job(self, q: Any, k: Any, v: Any, **options: Any) -> Plan[tuple[str, Result]]:
        operands, options = _attention(q, k, v, options)
        return (yield from self.job("/attention", attention_parameters(operands.parameters(), **options), operands.sent,
                                    Result(operands.shape, operands.result_type, None, q)))

    def attend(self, q: Any, parameters: dict[str, Any], sent: list[Array], shape: tuple[int, ...],
               lse_shape: tuple[int, ...] | None, timeout: float) -> Plan[Any]:
        """Computes an attention from its parameters, with lse unless its shape is None."""
        if lse_shape is None:
            return like(q)((yield from self.compute("/attention", parameters, sent, timeout)).reshape(shape))
        answer = yield from self.answer("POST", "/attention", parameters={**parameters, "lse": 1}, operands=sent,
                                        timeout=timeout, headers={"Accept": "application/vnd.safetensors"})
        found = from_safetensors(bytes(answer.body))
        return like(q)(found["o"].reshape(shape)), like(q)(found["lse"].reshape(lse_shape))

    def conv2d(self, x: Any, w: Any, *, timeout: float | None = None, **options: Any) -> Plan[Any]:
        timeout = self.timeout(timeout)
        convolution = Convolution(x, w, timeout=timeout, **options)
        return convolution.result.of(
            (yield from self.compute("/conv2d", convolution.parameters, convolution.sent, timeout)))

    def conv2d_job(self, x: Any, w: Any, **options: Any) -> Plan[tuple[str, Result]]:
        convolution = Convolution(x, w, **options)
        return (yield from self.job("/conv2d", convolution.parameters, convolution.sent, convolution.result))

    def conv2d_store(self, name: str, x: Any, w: Any, **options: Any) -> Plan[Tensor]:
        convolution = Convolution(x, w, **options)
        return (yield from self.store(name, "/conv2d", convolution.parameters, convolution.sent, convolution.result,
                                      options.get("timeout")))

    def reduction(self, x: Any, op: ReduceName, axis: Axis = -1, **options: Any) -> Plan[Reduction]:
        """Prepares a reduction, for which a resident tensor may have to be fetched."""
        elements = x
        if needs_elements(x, op, axis):
            elements = yield from self.get(x)
        return Reduction(elements, op, axis=axis, **options)

    def reduce(self, x: Any, op: ReduceName = "sum", *, axis: Axis = -1, keepdims: bool = False, ddof: float = 0,
               out: Any = None, out_dtype: Any = None, priority: int = 4, timeout: float | None = None,
               kernel: str | None = None) -> Plan[Any]:
        options = {"axis": axis, "keepdims": keepdims, "out": out, "out_dtype": out_dtype}
        settings: dict[str, Any] = {"priority": priority, "timeout": self.timeout(timeout), "kernel": kernel}
        if op in ("std", "var", "prod") and isinstance(x, Tensor):
            x = yield from self.get(x)
        if op in ("std", "var"):
            return (yield from deviation(partial(self.reduce, **settings), x, op, ddof=ddof, **options))
        if ddof:
            raise ValueError(f"ddof is {ddof}; it belongs to std and var")
        if op == "prod":
            return host_product(x, **options)
        reduction = yield from self.reduction(x, op, **options, **settings)
        return reduction.result.of(reduction.empty() if reduction.is_empty else (yield from self.compute(
            "/reduce", reduction.parameters, reduction.sent, settings["timeout"])))

    def reduce_job(self, x: Any, op: ReduceName = "sum", **options: Any) -> Plan[tuple[str, Result]]:
        reduction = yield from self.reduction(x, op, **options)
        return (yield from self.job("/reduce", reduction.parameters, reduction.sent, reduction.result))

    def reduce_store(self, name: str, x: Any, op: ReduceName = "sum", **options: Any) -> Plan[Tensor]:
        reduction = yield from self.reduction(x, op, stays=True, **options)
        return (yield from self.store(name, "/reduce", reduction.parameters, reduction.sent, reduction.result,
                                      options.get("timeout")))

    def softmax(self, x: Any, *, timeout: float | None = None, **options: Any) -> Plan[Any]:
        timeout = self.timeout(timeout)
        softmax = Softmax(x, timeout=timeout, **options)
        return softmax.result.of(softmax.empty() if softmax.is_empty else (yield from self.compute(
            "/softmax", softmax.parameters, softmax.sent, timeout)))

    def softmax_job(self, x: Any, **options: Any) -> Plan[tuple[str, Result]]:
        softmax = Softmax(x, **options)
        return (yield from self.job("/softmax", softmax.parameters, softmax.sent, softmax.result))

    def softmax_store(self, name: str, x: Any, **options: Any) -> Plan[Tensor]:
        softmax = Softmax(x, stays=True, **options)
        return (yield from self.store(name, "/softmax", softmax.parameters, softmax.sent, softmax.result,
                                      options.get("timeout")))

    def experts(self, a: Any, w: Any, experts: Any, *, timeout: float | None = None, **options: Any) -> Plan[Any]:
        timeout = self.timeout(timeout)
        mixture = Mixture(a, w, experts, timeout=timeout, **options)
        return mixture.result.of((yield from self.compute("/experts", mixture.parameters, mixture.sent, timeout)))

    def experts_job(self, a: Any, w: Any, experts: Any, **options: Any) -> Plan[tuple[str, Result]]:
        mixture = Mixture(a, w, experts, **options)
        return (yield from self.job("/experts", mixture.parameters, mixture.sent, mixture.result))

    def experts_store(self, name: str, a: Any, w: Any, experts: Any, **options: Any) -> Plan[Tensor]:
        mixture = Mixture(a, w, experts, **options)
        return (yield from self.store(name, "/experts", mixture.parameters, mixture.sent, mixture.result,
                                      options.get("timeout")))

    def jobs(self) -> Plan[list[JobStatus]]:
        return [job_status(one) for one in (yield from self.pages("/jobs"))]

    def put(self, name: str, array: Any, *, evictable: bool = False, scale: Any = None,
            contiguous: bool = False) -> Plan[Tensor]:
        found = np.ascontiguousarray(to_numpy("array", array))
        if not found.size or not found.ndim:
            raise ValueError(f"the array has the shape {found.shape}; each dimension must be at "
                             "least 1")
        scales = None if scale is None else np.ascontiguousarray(to_numpy("scale", scale))
        held = None if contiguous else (yield from self._held(name, found, scales, evictable))
        if held is not None:
            return held
        parameters: dict[str, Any] = {"dtype": NAMES[found.dtype],
                                      "shape": ",".join(map(str, found.shape))}
        body: list[Array] = [found]
        headers: dict[str, str] = {}
        if scales is not None:
            parameters, headers = {}, {"Content-Type": "application/vnd.safetensors"}
            arrays = {"tensor": found, "scale": scales}
            body = [safetensors_header(arrays), *arrays.values()]
        if evictable:
            parameters["evictable"] = 1
        if contiguous:
            parameters["contiguous"] = 1
        return Tensor.described((yield from self.json("PUT", tensor_path(name), parameters=parameters, operands=body,
                                                      headers=headers)), self._client)

    def put_packed(self, name: str, file: bytes | str | os.PathLike[str], form: str, *, bits: int | None = None,
                   evictable: bool = False) -> Plan[Tensor]:
        is_path = isinstance(file, (str, os.PathLike))
        body = np.fromfile(file, np.uint8) if is_path else np.frombuffer(file, np.uint8)  # type: ignore[arg-type]
        parameters: dict[str, Any] = {"format": form}
        if bits is not None:
            parameters["bits"] = bits
        if evictable:
            parameters["evictable"] = 1
        found = yield from self.json("PUT", tensor_path(name), parameters=parameters, operands=[body],
                                     headers={"Content-Type": "application/vnd.safetensors"})
        return Tensor.described(found, self._client)

    def get_packed(self, tensor: Tensor | str) -> Plan[bytes]:
        answer = yield from self.answer("GET", tensor_path(tensor), headers={"Accept": "application/vnd.safetensors"})
        return bytes(answer.body)

    def _held(self, name: str, array: Array, scale: Array | None, evictable: bool) -> Plan[Tensor | None]:
        """Returns the resident tensor if the name has this one already."""
        path = tensor_path(name)
        page = yield from self.json("GET", path.rpartition("/")[0], parameters={"limit": 1, **before(name)})
        for found in page["tensors"]:
            if (found["name"] == name and found["dtype"] == NAMES[array.dtype] and "format" not in found
                    and tuple(found["shape"]) == array.shape and found["evictable"] == evictable
                    and found["etag"] is not None and found["etag"] == (yield partial(entity_tag, array, scale))):
                return Tensor.described(found, self._client)
        return None

    def get(self, tensor: Tensor | str, row: int = 0, rows: int | None = None) -> Plan[Array]:
        if isinstance(tensor, Tensor) and tensor.format is not None:
            raise TypeError(f"the tensor {tensor.name} has packed weights, which are several arrays; get_packed() "
                            "returns their file")
        if row == 0 and rows is None:
            if isinstance(tensor, Tensor) and tensor.is_transposed:
                return (yield from self.get(tensor.T)).T
            return computed((yield from self.answer("GET", tensor_path(tensor), result=True)))
        path = tensor_path(tensor.parameter() if isinstance(tensor, Tensor) else tensor)
        parameters = {"row": row, **({} if rows is None else {"rows": rows})}
        found = computed((yield from self.answer("GET", path, parameters=parameters, result=True)))
        if rows is not None and len(found) != rows:  # gemmd 0.1 sends all of them.
            raise ProtocolError(f"the daemon sent {len(found)} rows in place of {rows}; it may be older than this "
                                "client")
        return found

    def get_scaled(self, tensor: Tensor | str) -> Plan[tuple[Array, Array | None]]:
        answer = yield from self.answer("GET", tensor_path(tensor), headers={"Accept": "application/vnd.safetensors"})
        found = from_safetensors(bytes(answer.body))
        return found["tensor"], found.get("scale")

    def delete(self, tensor: Tensor | str) -> Plan[None]:
        yield from self.answer("DELETE", tensor_path(tensor))

    def tensors(self) -> Plan[list[Tensor]]:
        return [Tensor.described(one, self._client) for one in (yield from self.pages("/tensors"))]

    def sequence(self, name: str, kv_heads: int, d: int, *, dv: int | None = None, dtype: Any = np.float16,
                 layers: int = 1) -> Plan[Sequence]:
        parameters = {"kv_heads": kv_heads, "d": d, "dv": d if dv is None else dv, "dtype": dtype_name(dtype),
                      "layers": layers}
        return Sequence(self._client, (yield from self.json("PUT", sequence_path(name), parameters=parameters)))

    def sequences(self) -> Plan[list[Sequence]]:
        return [Sequence(self._client, one) for one in (yield from self.pages("/sequences"))]


def _product(a: Any, b: Any, options: dict[str, Any]) -> tuple[Product, dict[str, Any]]:
    """Returns a product, and those of the arguments of gemm() that concern how it is computed."""
    others = {name: value for name, value in options.items()
              if name in ("precision", "verify", "priority", "timeout", "kernel")}
    return Product(a, b, **{name: value for name, value in options.items() if name not in others}), others


def _attention(q: Any, k: Any, v: Any, options: dict[str, Any]) -> tuple[Attention, dict[str, Any]]:
    """Returns the operands of an attention, and those of the arguments of attention() that are none."""
    own = {name: options.get(name) for name in ("lens_q", "lens_kv", "mask", "slopes", "sinks")}
    operands = Attention(q, k, v, layout=options.get("layout", "bhsd"), ragged=options.get("ragged", False), **own)
    return operands, {name: value for name, value in options.items() if name not in (*own, "layout", "ragged")}


def tensor_path(tensor: Tensor | str) -> str:
    """Returns the path of a resident tensor. TypeError: the name is no string; ValueError: it is a transposed
    tensor."""
    name = tensor.parameter() if isinstance(tensor, Tensor) else tensor
    if not isinstance(name, str):
        raise TypeError(f"the name of a tensor is a {type(name).__name__}; it must be a string")
    return f"/tensors/{quote(name, safe='')}"

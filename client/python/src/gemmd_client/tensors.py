"""Resident tensors, and arrays in the format safetensors."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from .arrays import DTYPES, NAMES, Array, octets
from .errors import ProtocolError
from .tables import table

if TYPE_CHECKING:
    from .client import Client

_LETTERS = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # of names, in their order
_NAME_MAX = 128
_SAFETENSORS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16), "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I8": np.dtype(np.int8), "I32": np.dtype(np.int32)}


# The types of packed weights, with which NumPy does not compute.
_DTYPES = {**DTYPES, "i4": np.dtype(ml_dtypes.int4), "u4": np.dtype(ml_dtypes.uint4), "u8": np.dtype(np.uint8),
           "f4_e2m1": np.dtype(getattr(ml_dtypes, "float4_e2m1fn", np.void))}
_REDUCTIONS = {np.add: "sum", np.maximum: "max", np.minimum: "min"}


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy as a method."""
    def method(self: Tensor, axis: Any = None, **options: Any) -> Any:
        return function(self, axis=axis, **options)
    method.__name__, method.__doc__ = function.__name__, f"The same as numpy.{function.__name__}(tensor, axis)."
    return method


@dataclass(frozen=True)
class Tensor:
    """A resident tensor, which stays on the daemon's device and can be an operand.

    The daemon computes ``a @ tensor``, ``tensor @ b``, numpy.matmul(), numpy.dot(), numpy.inner(), numpy.tensordot()
    and numpy.einsum() of two operands, and numpy.sum(), mean(), max(), min() and argmax() over one axis. These five
    are methods of the tensor too. Functions such as numpy.shape() and numpy.zeros_like() need no elements. An index
    that begins with a number or a slice, such as ``tensor[5]`` and ``tensor[10:20, :3]``, fetches these elements of the
    first dimension only. Of Python's operators, a tensor has @ and ==, which compares handles. Everything else that
    NumPy does with a tensor fetches all of its elements first: numpy.asarray(tensor), other indices, iteration, and all
    other functions.

    Attributes:
        dtype: a NumPy type.
        nbytes: the bytes of its elements.
        etag: the entity tag of its content; None for a result whose bytes were not requested yet.
        format: of packed weights, which are b of products only; None for all other tensors.
        is_transposed: whether this is the transposed of the daemon's tensor.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    etag: str | None
    format: str | None
    is_transposed: bool
    _client: Client = field(repr=False, compare=False)

    @classmethod
    def described(cls, found: dict[str, Any], client: Client) -> Tensor:
        """Reads the daemon's description of a tensor."""
        return cls(found["name"], _DTYPES.get(found["dtype"], np.dtype(np.void)), tuple(found["shape"]), found["bytes"],
                   found["etag"], found.get("format"), False, client)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> Tensor:
        """The transposed matrix, which is an operand of products. Nothing is sent or copied."""
        if self.ndim != 2:
            raise ValueError(f"the tensor {self.name} has {self.ndim} dimensions; only a matrix has T")
        return replace(self, shape=self.shape[::-1], is_transposed=not self.is_transposed)

    def parameter(self) -> str:
        """Returns the name for an operation that has no transposed tensors. ValueError: this is one."""
        if self.is_transposed:
            raise ValueError(f"the transposed tensor {self.name} is an operand of products only; get() returns its "
                             "elements")
        return self.name

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"the elements of the tensor {self.name} are on the daemon; an array of them is a copy")
        found = self._client.get(self)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (None,), **options: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not options:
            return self._client.matmul(*inputs, out=out[0])
        if (ufunc in _REDUCTIONS and method == "reduce" and inputs[0] is self and options.get("dtype") is None
                and set(options) <= {"axis", "keepdims", "dtype"}):
            return self._client.reduce(self, _REDUCTIONS[ufunc], axis=options.get("axis", 0),
                                       keepdims=options.get("keepdims", False), out=out[0])
        arrays = [np.asarray(each) if isinstance(each, Tensor) else each for each in inputs]
        return getattr(ufunc, method)(*arrays, **({"out": out} if out[0] is not None else {}), **options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function in _OF_DAEMON:
            found = _OF_DAEMON[function](self._client, *arguments, **options)
            if found is not NotImplemented:
                return found
        make = Tensor._without_elements if function in _OF_SHAPES else np.asarray
        return function(*_replaced(arguments, make), **_replaced(options, make))

    def _without_elements(self) -> Array:
        """An array of the same type and shape, whose elements are all the same one."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    sum, mean, max = _method(np.sum), _method(np.mean), _method(np.max)
    min, argmax = _method(np.min), _method(np.argmax)

    def __matmul__(self, other: Any) -> Any:
        return self._client.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._client.matmul(other, self)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        first, *others = key if isinstance(key, tuple) and key else (key,)
        is_number = isinstance(first, (int, np.integer)) and not isinstance(first, bool)
        if self.is_transposed or not (is_number or isinstance(first, slice)):
            return np.asarray(self)[key]
        if is_number and not -len(self) <= first < len(self):
            raise IndexError(f"index {first} is out of bounds for axis 0 with size {len(self)}")
        chosen = range(len(self))[first]
        if isinstance(chosen, int):
            return self._client.get(self, row=chosen, rows=1)[(0, *others)]
        if not chosen:
            return np.empty((0, *self.shape[1:]), self.dtype)[(slice(None), *others)]
        low, high = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
        return self._client.get(self, row=low, rows=high - low + 1)[(slice(None, None, chosen.step), *others)]

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __repr__(self) -> str:
        return (f"<Tensor {self.name} of {self._client.url}, {self.format or self.dtype}, shape {self.shape}"
                f"{', transposed' if self.is_transposed else ''}, {self.nbytes:,} bytes>")

    def _repr_html_(self) -> str:
        return table("tensor", {"name": self.name, "type": self.format or self.dtype, "shape": self.shape,
                                "bytes": f"{self.nbytes:,}", "address": self._client.url})


def _replaced(value: Any, make: Callable[[Tensor], Array]) -> Any:
    """Returns the arguments of a function of NumPy with arrays in place of resident tensors."""
    if isinstance(value, Tensor):
        return make(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(each, make) for each in value)
    if isinstance(value, dict):
        return {name: _replaced(each, make) for name, each in value.items()}
    return value


# The functions of NumPy that the daemon computes. They return NotImplemented for arguments with which it does not.


def _reduction(op: str) -> Callable[..., Any]:
    def reduce(client: Any, a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
               keepdims: Any = False, **options: Any) -> Any:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        if (not isinstance(a, Tensor) or a.is_transposed or dtype is not None or options or None in given
                or len(given) != 1):
            return NotImplemented
        found = client.reduce(a, op, axis=axis, keepdims=bool(keepdims), out=out)
        return found.astype(np.intp) if op == "argmax" and out is None else found
    return reduce


def _without_dtype(op: str) -> Callable[..., Any]:
    """The reductions whose third argument is `out`."""
    def reduce(client: Any, a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **options: Any) -> Any:
        return _reduction(op)(client, a, axis, None, out, keepdims, **options)
    return reduce


def _dot(client: Any, a: Any, b: Any, out: Any = None) -> Any:
    return client.matmul(a, b, out=out) if 0 not in (np.ndim(a), np.ndim(b)) and np.ndim(b) <= 2 else NotImplemented


def _inner(client: Any, a: Any, b: Any) -> Any:
    return client.matmul(a, b.T) if np.ndim(b) == 2 and np.ndim(a) != 0 else NotImplemented


def _tensordot(client: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    try:
        return client.tensordot(a, b, axes)
    except ValueError:  # The dimensions of a resident tensor would have to be reordered; or NumPy says what is wrong.
        return NotImplemented


def _einsum(client: Any, *operands: Any, **options: Any) -> Any:
    if len(operands) != 3 or not isinstance(operands[0], str) or not set(options) <= {"out", "optimize"}:
        return NotImplemented
    try:
        return client.einsum(*operands, out=options.get("out"))
    except ValueError:
        return NotImplemented


_OF_DAEMON: dict[Any, Callable[..., Any]] = {
    np.sum: _reduction("sum"), np.mean: _reduction("mean"), np.max: _without_dtype("max"),
    np.amax: _without_dtype("max"), np.min: _without_dtype("min"), np.amin: _without_dtype("min"),
    np.argmax: _without_dtype("argmax"), np.dot: _dot, np.inner: _inner, np.tensordot: _tensordot, np.einsum: _einsum}
_OF_SHAPES = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.empty_like, np.zeros_like, np.ones_like,
              np.full_like, np.iscomplexobj, np.isrealobj, np.broadcast_shapes}


def before(name: str) -> dict[str, str]:
    """Returns the parameter with which a list of tensors begins at a name: the greatest name that is less. ValueError:
    no tensor can have the name."""
    if not 0 < len(name) <= _NAME_MAX or not set(name) <= set(_LETTERS):
        raise ValueError(f"the name is {name!r}; a tensor's name is 1 to {_NAME_MAX} of the characters A-Z a-z 0-9 . "
                         "_ -")
    letter = name[-1:]
    if letter == _LETTERS[0]:
        return {"after": name[:-1]} if name[:-1] else {}
    return {"after": (name[:-1] + _LETTERS[_LETTERS.index(letter) - 1]).ljust(_NAME_MAX, _LETTERS[-1])}


def entity_tag(array: Array, scale: Array | None) -> str:
    """Returns the entity tag of a tensor, as the daemon computes it."""
    content = hashlib.sha256(f"{NAMES[array.dtype]}:{_lengths(array)}\n".encode())
    content.update(octets(array))
    if scale is not None:
        content.update(f"scale:{_lengths(scale)}\n".encode())
        content.update(octets(scale))
    return f'"{content.hexdigest()}"'


def _lengths(array: Array) -> str:
    return ",".join(map(str, array.shape))


def safetensors_header(arrays: dict[str, Array]) -> Array:
    """Returns the bytes of a safetensors document before those of its arrays."""
    entries, at = {}, 0
    for name, array in arrays.items():
        dtype = next(key for key, known in _SAFETENSORS.items() if known == array.dtype)
        entries[name] = {"dtype": dtype, "shape": list(array.shape),
                         "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)


def from_safetensors(body: bytes) -> dict[str, Array]:
    """Reads the arrays of a safetensors document, without a copy. ProtocolError: it is none."""
    try:
        start = 8 + int.from_bytes(body[:8], "little")
        header = json.loads(body[8:start])
        arrays = {}
        for name, entry in header.items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                arrays[name] = np.frombuffer(
                    body, np.uint8, end - first, start + first).view(
                        _SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
        return arrays
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError("the answer is not a safetensors document") from error

"""The requests for reductions and softmaxes as they are sent, with NumPy's manners."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from .arrays import DTYPES, NAMES, Array, refuse_subclass, to_numpy
from .http import Plan
from .results import EXACT, Result, wanted
from .seconds import milliseconds
from .tensors import Tensor

ReduceOp = Literal["sum", "mean", "max", "min", "norm2", "logsumexp", "argmax"]
ReduceName = Literal[ReduceOp, "amax", "amin", "argmin", "std", "var", "prod"]
Axis = int | Sequence[int] | None

REDUCE_TYPES = ("f64", "f32", "f16", "bf16", "i8", "i32")
SOFTMAX_TYPES = REDUCE_TYPES[:4]
_OPERATIONS: dict[str, ReduceOp] = {"amax": "max", "amin": "min", "argmin": "argmax"}
_DIMENSIONS_MAX = 8


def _axes(axis: Axis, dimensions: int) -> tuple[int, ...]:
    """Returns the places of dimensions in their order. AxisError, a ValueError and an IndexError: there is no
    such dimension; ValueError: one is named twice; TypeError: an axis is not a whole number."""
    if axis is None:
        return tuple(range(dimensions))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = []
    for each in given:
        place = operator.index(each)
        if not dimensions and place in (0, -1):  # NumPy takes these axes of a single number.
            continue
        if not -dimensions <= place < dimensions:
            raise np.exceptions.AxisError(place, dimensions)
        found.append(place % dimensions)
    if len(set(found)) < len(found):
        raise ValueError(f"axis is {axis}, which names a dimension twice")
    return tuple(sorted(found))


def _sent_shape(before: Sequence[int], length: int, after: Sequence[int] = ()) -> tuple[int, ...]:
    """Returns the shape of an array whose dimensions before and after the reduced one are joined if there are
    more than the daemon takes."""
    if len(before) + 1 + len(after) > _DIMENSIONS_MAX:
        before, after = [math.prod(before)], [math.prod(after)] if after else []
    return (*before, length, *after)


def _settings(priority: int, timeout: float | None, kernel: str | None) -> dict[str, Any]:
    chosen = {"priority": (priority, 4), "kernel": (kernel, None),
              "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
    return {name: value for name, (value, usual) in chosen.items() if value != usual}


def _operand(x: Any, types: Sequence[str]) -> Array | Tensor:
    return x if isinstance(x, Tensor) else to_numpy("x", x, types, "iub")


def _narrow(x: Array) -> Array:
    """Returns whole numbers in the first type of int8, int32 and float64 that has all of them. OverflowError: none
    has."""
    least, most = (int(x.min()), int(x.max())) if x.size else (0, 0)
    for dtype in (np.int8, np.int32):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return x.astype(dtype)
    if max(-least, most) > EXACT:
        raise OverflowError(f"x has the type {x.dtype} and a number beyond 2^53, up to which the daemon computes "
                            "with whole numbers; convert x with astype(float64), which rounds it")
    return x.astype(np.float64)


def needs_elements(x: Any, op: str, axis: Axis) -> bool:
    """Whether this is a resident tensor, and the daemon has no such reduction of a tensor."""
    return isinstance(x, Tensor) and (op == "argmin" or len(_axes(axis, x.ndim)) != 1)


class Reduction:
    """An array as it is sent, or a resident tensor of which the daemon has this reduction, and what becomes of the
    answer. With `stays` the result is to be a tensor: its type is one that the daemon has."""

    def __init__(self, x: Any, op: ReduceName = "sum", *, axis: Axis = -1,
                 keepdims: bool = False, out: Any = None, out_dtype: Any = None, priority: int = 4,
                 timeout: float | None = None, kernel: str | None = None, stays: bool = False) -> None:
        filled, chosen = wanted(out, out_dtype)
        self.parameters = _settings(priority, timeout, kernel)
        if op not in get_args(ReduceName):
            raise ValueError(f"op is {op!r}; it must be one of {', '.join(get_args(ReduceName))}")
        self.parameters["op"] = self._op = _OPERATIONS.get(op, op)
        if op in ("std", "var", "prod"):
            raise ValueError(f"{op} is made of several requests or of none; it is returned by reduce() only")
        operand = _operand(x, REDUCE_TYPES)
        axes = _axes(axis, len(operand.shape))
        if self._op == "argmax" and axis is not None and len(axes) != 1 and operand.shape:
            raise TypeError(f"axis is {axis}; {op} takes one axis, or None for the index in the flattened array")
        shape: tuple[int, ...] = operand.shape
        self._length = math.prod(shape[place] for place in axes)
        kept = tuple(1 if place in axes else size for place, size in enumerate(shape)
                     if keepdims or place not in axes)
        self.is_empty = 0 in shape
        if self.is_empty and not self._length and 0 not in kept and self._op in ("max", "min", "argmax"):
            raise ValueError(f"x has the shape {shape}; {op} is not defined where there are no elements")
        original = operand.dtype
        final = self._final(original)
        if isinstance(operand, np.ndarray):
            operand = self._prepared(operand, op)
        dtype = operand.dtype
        if chosen is not None:
            final = DTYPES[chosen]
        if dtype.kind == "f" and original.kind in "iub" and not stays:  # The client converts the result.
            chosen = None
        elif chosen is None and self._op == "sum" and dtype.kind == "i" and not stays:
            chosen = "f64"
        if chosen is not None:
            self.parameters["out"] = chosen
        self.sent: list[Array] = []
        if isinstance(operand, Tensor):
            self.parameters |= {"x": operand.parameter(), "axis": axes[0]}
        else:
            self._send(operand, axes, keepdims, stays)
        if keepdims and axes:
            self.parameters["keepdims"] = 1
        self.shape = kept
        self.result = Result(kept, final, filled, x)

    def _final(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The type that NumPy gives the result; that of an index is the daemon's."""
        if self._op == "argmax":
            return np.dtype(np.int32)
        if dtype.kind not in "iub" or self._op in ("max", "min"):
            return dtype
        if self._op == "sum":
            return np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
        return np.dtype(np.float64)

    def _prepared(self, x: Array, op: str) -> Array:
        """Returns the elements in a type with which the daemon computes the operation; for the least element with
        their order reversed."""
        if x.dtype == np.bool_:
            x = x.view(np.int8)
        if x.dtype.kind in "iu":
            if self._op in ("norm2", "logsumexp"):
                return x.astype(np.float64)
            if x.dtype not in NAMES:
                x = _narrow(x)
                if self._op == "sum" and x.dtype.kind == "f" and self._length * float(np.abs(x).max()) > EXACT:
                    raise OverflowError("a sum of x can be beyond 2^53, up to which the daemon computes with whole "
                                        "numbers; convert x with astype(float64), with which it is rounded")
        if op == "argmin":
            return np.invert(x) if x.dtype.kind == "i" else np.negative(x)
        return x

    def _send(self, x: Array, axes: tuple[int, ...], keepdims: bool, stays: bool) -> None:
        """Joins the reduced dimensions at the place of the last one: to one request of one axis."""
        end = axes[-1] + 1 if axes else x.ndim
        order = ([place for place in range(end) if place not in axes], axes, range(end, x.ndim))
        x = np.ascontiguousarray(x.transpose([place for part in order for place in part]))
        before, after = x.shape[:len(order[0])], x.shape[len(order[0]) + len(axes):]
        axis = len(before)
        if keepdims and axes:  # The daemon keeps one dimension; the others are 1 already.
            places = iter(before)
            before = tuple(1 if place in axes else next(places) for place in range(end - 1))
            axis = end - 1
        shape = (*before, self._length, *after) if stays else _sent_shape(before, self._length, after)
        self.parameters |= {"dtype": NAMES[x.dtype], "shape": ",".join(map(str, shape)),
                            "axis": axis if len(shape) == len(before) + 1 + len(after) else 1}
        self.sent.append(x)

    def empty(self) -> Array:
        """The result for an array without elements, which needs no daemon."""
        value = {"sum": 0.0, "norm2": 0.0, "mean": math.nan, "logsumexp": -math.inf}.get(self._op, 0.0)
        return np.full(self.shape, value, self.result.dtype)


def product(x: Any, *, axis: Axis = -1, keepdims: bool = False,
            out: Any = None, out_dtype: Any = None) -> Any:
    """Returns the product over dimensions of an array, which NumPy computes on the host."""
    filled, chosen = wanted(out, out_dtype)
    array = to_numpy("x", x, REDUCE_TYPES, "iub")
    narrow = array.dtype.kind not in "iub" and array.dtype != np.float64
    found = np.asarray(np.prod(array, axis=_axes(axis, array.ndim), keepdims=keepdims,
                               dtype=np.float32 if narrow else None))
    final = DTYPES[chosen] if chosen else array.dtype if narrow else found.dtype
    return Result(found.shape, final, filled, x).of(found.astype(final))


def deviation(reduce: Callable[..., Plan[Any]], x: Any, op: str, *, axis: Axis,
              keepdims: bool, ddof: float, out: Any, out_dtype: Any) -> Plan[Any]:
    """Returns the standard deviation or the variance over dimensions of an array: the mean, and the norm of the
    differences from it, both computed by `reduce`."""
    filled, chosen = wanted(out, out_dtype)
    array = to_numpy("x", x, REDUCE_TYPES, "iub")
    whole = array.dtype.kind in "iub"
    final = DTYPES[chosen] if chosen else np.dtype(np.float64) if whole else array.dtype
    array = array.astype(np.float64 if whole or array.dtype == np.float64 else np.float32, copy=False)
    places = _axes(axis, array.ndim)
    mean = yield from reduce(array, "mean", axis=places, keepdims=True)
    norm = np.asarray((yield from reduce(array - mean, "norm2", axis=places, keepdims=keepdims)))
    free = norm.dtype.type(max(math.prod(array.shape[place] for place in places) - ddof, 0))
    found = np.asarray(norm / np.sqrt(free) if op == "std" else norm * norm / free)
    return Result(found.shape, final, filled, x).of(found.astype(final))


class Softmax:
    """An array as it is sent, with the dimensions of the softmax at its end, and what becomes of the answer."""

    def __init__(self, x: Any, *, axis: Axis = -1, scale: float = 1.0, log: bool = False, lens: Any = None,
                 out: Any = None, out_dtype: Any = None, priority: int = 4, timeout: float | None = None,
                 kernel: str | None = None, stays: bool = False) -> None:
        filled, chosen = wanted(out, out_dtype)
        operand = _operand(x, SOFTMAX_TYPES)
        shape = operand.shape
        axes = _axes(axis, len(shape))
        order = [*(place for place in range(len(shape)) if place not in axes), *axes]
        is_last = len(axes) == 1 and axes[0] == len(shape) - 1
        if not is_last and (stays or isinstance(operand, Tensor)):
            raise ValueError(f"axis is {axis}; a softmax of a resident tensor, or one that stays on the device, is "
                             "over the last dimension")
        if lens is not None and len(axes) != 1:
            raise ValueError(f"axis is {axis}; with lens it is one dimension")
        self.parameters = _settings(priority, timeout, kernel)
        if chosen is not None and (stays or operand.dtype.kind not in "iub"):
            self.parameters["out"] = chosen
        self.parameters |= {"scale": repr(float(scale))} if scale != 1 else {}
        self.parameters |= {"log": 1} if log else {}
        self.sent: list[Array] = []
        if lens is not None:
            self._send_lengths(lens)
        dtype = operand.dtype
        if isinstance(operand, Tensor):
            self.parameters["x"] = operand.parameter()
        else:
            if dtype.kind in "iub":
                operand = operand.astype(np.float64)
                dtype = operand.dtype
            sent = np.ascontiguousarray(operand.transpose(order))
            length = math.prod(shape[place] for place in axes)
            rows = sent.shape[:len(shape) - len(axes)]
            sizes = (*rows, length) if lens is not None or stays else _sent_shape(rows, length)
            self.parameters |= {"dtype": NAMES[dtype], "shape": ",".join(map(str, sizes))}
            self.sent.append(sent)
        self.is_empty = 0 in shape
        self._shape = tuple(shape[place] for place in order)
        self.result = Result(self._shape, DTYPES[chosen] if chosen else dtype, filled, x,
                             None if is_last else tuple(map(int, np.argsort(order))))

    def _send_lengths(self, lens: Any) -> None:
        refuse_subclass("lens", lens)
        given = np.asarray(lens)
        if given.dtype.kind not in "iu":
            raise TypeError(f"lens has the type {given.dtype}; it must have whole numbers")
        if given.size and not 0 <= given.min() <= given.max() < 2**31:
            raise ValueError("lens has a number that is less than 0 or greater than the length of a row")
        lengths = np.ascontiguousarray(given, np.int32)
        self.parameters["lens"] = lengths.ndim
        self.sent.append(lengths)

    def empty(self) -> Array:
        """The result for an array without elements, which needs no daemon."""
        return np.empty(self._shape, self.result.dtype)

"""The requests for reductions and softmaxes as they are sent."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .arrays import NAMES, Array, dtype_name, to_numpy
from .seconds import milliseconds
from .tensors import Tensor

ReduceOp = Literal["sum", "mean", "max", "min", "norm2", "logsumexp", "argmax"]


def _operand(x: Any, out: Any, priority: int, timeout: float | None,
             kernel: str | None) -> tuple[dict[str, Any], list[Array]]:
    """Returns the parameters that an array has in every operation, and the operands to send."""
    parameters: dict[str, Any] = {}
    sent: list[Array] = []
    if isinstance(x, Tensor):
        parameters["x"] = x.name
    else:
        array = np.ascontiguousarray(to_numpy("x", x))
        parameters |= {"dtype": NAMES[array.dtype], "shape": ",".join(map(str, array.shape))}
        sent.append(array)
    if out is not None:
        parameters["out"] = dtype_name(out)
    if priority != 4:
        parameters["priority"] = priority
    if timeout is not None:
        parameters["timeout_ms"] = milliseconds("timeout", timeout)
    if kernel is not None:
        parameters["kernel"] = kernel
    return parameters, sent


def reduce_request(x: Any, op: ReduceOp, *, axis: int = -1, keepdims: bool = False, out: Any = None,
                   priority: int = 4, timeout: float | None = None,
                   kernel: str | None = None) -> tuple[dict[str, Any], list[Array]]:
    """Returns the parameters and the operands of a request; the arguments are those of
    Client.reduce()."""
    parameters, sent = _operand(x, out, priority, timeout, kernel)
    parameters |= {"op": op, "axis": axis} | ({"keepdims": 1} if keepdims else {})
    return parameters, sent


def softmax_request(x: Any, *, scale: float = 1.0, log: bool = False, lens: Any = None,
                    out: Any = None, priority: int = 4, timeout: float | None = None,
                    kernel: str | None = None) -> tuple[dict[str, Any], list[Array]]:
    """Returns the parameters and the operands of a request; the arguments are those of
    Client.softmax()."""
    parameters, sent = _operand(x, out, priority, timeout, kernel)
    parameters |= {"scale": repr(scale)} if scale != 1 else {}
    parameters |= {"log": 1} if log else {}
    if lens is not None:
        given = np.asarray(lens)
        if given.dtype.kind not in "iu":
            raise TypeError(f"lens has the type {given.dtype}; it must have whole numbers")
        if given.size and not 0 <= given.min() <= given.max() < 2**31:
            raise ValueError("lens has a number that is less than 0 or greater than the length of a row")
        lengths = np.ascontiguousarray(given, np.int32)
        parameters["lens"] = lengths.ndim
        sent = [lengths, *sent]
    return parameters, sent

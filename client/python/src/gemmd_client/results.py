"""What becomes of a result: its shape, its type, and the array that it fills."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from .arrays import Array, dtype_name, like, refuse_subclass

EXACT = 2**53  # f64 has each whole number up to here


def wanted(out: Any, out_dtype: Any) -> tuple[Array | None, str | None]:
    """Returns the array that the result fills, and the daemon's name of the result's type; None where the
    caller leaves the choice. Until version 0.4 `out` can be a type.

    TypeError: `out` is neither, or the daemon has no such type; ValueError: the array cannot be written.
    """
    if isinstance(out, np.ndarray):
        refuse_subclass("out", out)
        if not out.flags.writeable:
            raise ValueError("out cannot be written; it is read-only")
        return out, None if out_dtype is None else dtype_name(out_dtype)
    if out is None:
        return None, None if out_dtype is None else dtype_name(out_dtype)
    if not isinstance(out, type) and any(
            hasattr(out, name) for name in ("__array_interface__", "__array__", "__dlpack__")):
        raise TypeError(f"out is a {type(out).__name__}; only arrays of NumPy are filled")
    name = dtype_name(out)
    if out_dtype is not None:
        raise TypeError("out is a type, and out_dtype is given too; the type of the result is out_dtype")
    warnings.warn(f"out={out!r} names a type; the argument for the type of the result is out_dtype, and out is "
                  "an array from version 0.4 on", DeprecationWarning, stacklevel=_callers_level())
    return None, name


def _callers_level() -> int:
    """The stack level, for warnings.warn() in the calling function, of the first caller outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


class Result:
    """What an answer becomes.

    Args:
        shape: of the answer, whose dimensions are then in the order `axes`, as for numpy.transpose(). None: that
            which the answer has.
        dtype: the type that the caller gets.
        out: the array to fill, or None.
        original: an operand, of whose library the result is.

    Raises:
        ValueError: ``out`` has another shape.
        TypeError: NumPy does not convert the result to the type of ``out``.
    """

    def __init__(self, shape: tuple[int, ...] | None, dtype: np.dtype[Any], out: Array | None, original: Any,
                 axes: tuple[int, ...] | None = None) -> None:
        self._answered, self._axes = shape, axes
        self.dtype, self.out, self._original = dtype, out, original
        if shape is not None:
            self._check_shape(shape if axes is None else tuple(shape[axis] for axis in axes))
        if out is not None and not np.can_cast(dtype, out.dtype, "same_kind"):
            raise TypeError(f"out has the type {out.dtype}, to which NumPy does not convert a result of {dtype}")

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self.out is not None and self.out.shape != shape:
            raise ValueError(f"out has the shape {self.out.shape}; the result has {shape}")

    def room(self, shape: tuple[int, ...], dtype: np.dtype[Any], operands: list[Array]) -> Array:
        """Returns an array for an answer: the caller's, if the answer can stand there while the operands are
        read."""
        out = self.out
        if (out is not None and out.dtype == dtype == self.dtype and out.flags.c_contiguous and self._axes is None
                and not any(np.may_share_memory(out, operand) for operand in operands)):
            return out
        return np.empty(shape, dtype)

    def of(self, answer: Array) -> Any:
        """Returns what the caller gets. OverflowError: whole numbers of the answer were rounded."""
        if answer is self.out:
            return answer
        if self._answered is None:
            self._check_shape(answer.shape)
        else:
            answer = answer.reshape(self._answered)
        if self._axes is not None:
            answer = answer.transpose(self._axes)
        if answer.dtype != self.dtype:
            if self.dtype.kind in "iu" and answer.dtype.kind == "f":
                if answer.size and np.abs(answer).max() > EXACT:
                    raise OverflowError("the result is a whole number beyond 2^53, up to which the daemon computes "
                                        "exactly; out_dtype='f64' returns the rounded number")
                answer = answer.astype(np.int64)  # Whole numbers wrap in a narrower type, as NumPy's do.
            answer = answer.astype(self.dtype)
        if self.out is not None:
            np.copyto(self.out, answer, casting="same_kind")
            return self.out
        return like(self._original)(answer)

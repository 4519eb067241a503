"""The operands of a mixture of experts as they are sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import DTYPES, Array, to_numpy
from .promotion import adjusted, promoted
from .results import Result, wanted
from .seconds import milliseconds
from .tensors import Tensor

EXPERT_TYPES = ("f64", "f32", "f16", "bf16")


def _places(name: str, value: Any, rows: int, dtype: Any) -> Array:
    """Returns the array of an element for each place, as (rows, places)."""
    places = np.asarray(value)
    if places.ndim not in (1, 2) or len(places) != rows or not places.size:
        raise ValueError(f"{name} has the shape {places.shape}; it must be ({rows}, places of a row), or ({rows},)")
    return np.ascontiguousarray(places.reshape(rows, -1), dtype)


class Mixture:
    """A, W, the numbers, weights and bias as they are sent, and what becomes of the answer. A and W may be resident
    tensors. The arguments are those of Client.experts()."""

    def __init__(self, a: Any, w: Any, experts: Any, *, weights: Any = None, bias: Any = None, glu: bool = False,
                 transb: bool = False, act: str = "none", out: Any = None, out_dtype: Any = None,
                 precision: str = "full", priority: int = 4, timeout: float | None = None,
                 kernel: str | None = None) -> None:
        filled, chosen = wanted(out, out_dtype)
        self.a = a if isinstance(a, Tensor) else np.ascontiguousarray(to_numpy("a", a, EXPERT_TYPES))
        self.w = w if isinstance(w, Tensor) else np.ascontiguousarray(to_numpy("w", w, EXPERT_TYPES))
        for name, shape, dimensions in (("a", self.a.shape, 2), ("w", self.w.shape, 3)):
            if len(shape) != dimensions:
                raise ValueError(f"{name} has {len(shape)} dimensions; it must have {dimensions}")
            if 0 in shape:
                raise ValueError(f"{name} has the shape {shape}; it must not be empty")
        dtype, (self.a, self.w) = promoted(EXPERT_TYPES, {"a": self.a, "w": self.w})
        m, k = (int(size) for size in self.a.shape)
        count, columns, depth = (int(self.w.shape[place]) for place in ((0, 1, 2) if transb else (0, 2, 1)))
        if depth != k:
            raise ValueError(f"a has the shape {self.a.shape} and w {self.w.shape}; rows of {k} elements do not fit "
                             f"experts of {depth}")
        if glu and columns % 2:
            raise ValueError(f"w has experts of {columns} columns; with glu the number must be even")
        numbers = to_numpy("experts", experts, ("i32",), "iu")
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"experts has the type {numbers.dtype}; the numbers of experts are whole")
        if numbers.size and not -1 <= numbers.min() <= numbers.max() < count:
            raise ValueError(f"experts has numbers from {numbers.min()} to {numbers.max()}; w has the experts 0 to "
                             f"{count - 1}, and -1 is a place that computes nothing")
        self.experts = _places("experts", numbers, m, np.int32)
        self.weights = None
        if weights is not None:
            self.weights = _places("weights", to_numpy("weights", weights, EXPERT_TYPES), m, np.float32)
            if self.weights.shape != self.experts.shape:
                raise ValueError(f"weights are for {self.weights.shape[1]} places of a row, and experts for "
                                 f"{self.experts.shape[1]}")
        result_type = chosen or dtype
        final = DTYPES[result_type]
        self.bias = None
        if bias is not None:
            self.bias = adjusted("bias", to_numpy("bias", bias, EXPERT_TYPES, "iu"), final)
            if self.bias.shape != (count, columns):
                raise ValueError(f"bias has the shape {self.bias.shape}; it must have {(count, columns)}")
        settings = {
            "glu": (int(glu), 0), "transb": (int(transb), 0), "act": (act, "none"), "precision": (precision, "full"),
            "weights": (int(weights is not None), 0), "bias": (int(bias is not None), 0),
            "priority": (priority, 4), "kernel": (kernel, None),
            "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
        self.parameters: dict[str, Any] = {
            "m": m, "n": columns // 2 if glu else columns, "k": k, "count": count, "topk": self.experts.shape[1],
            "dtype": dtype, "out": result_type,
            **{name: value for name, (value, usual) in settings.items() if value != usual},
            **{name: part.parameter() for name, part in (("a", self.a), ("w", self.w)) if isinstance(part, Tensor)}}
        self.result = Result(None, final, filled, w if isinstance(a, Tensor) else a)

    @property
    def sent(self) -> list[Array]:
        """The operands of a raw body, in their order."""
        operands = (self.a, self.w, self.experts, self.weights, self.bias)
        return [part for part in operands if isinstance(part, np.ndarray)]

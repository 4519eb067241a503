"""The operands of an attention as they are sent."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from .arrays import DTYPES, Array, refuse_subclass, to_numpy
from .promotion import promoted
from .seconds import milliseconds
from .tensors import Tensor

Layout = Literal["bhsd", "bshd"]
ATTENTION_TYPES = ("f32", "f16", "bf16")


def _sizes(shape: tuple[int, ...], layout: str) -> tuple[int, int, int, int]:
    """Returns batch, heads, length and head size."""
    batch, second, third, size = shape
    return (batch, second, third, size) if layout == "bhsd" else (batch, third, second, size)


def check_layout(layout: str) -> None:
    """ValueError: there is no such layout."""
    if layout not in get_args(Layout):
        raise ValueError(f"layout is '{layout}'; it must be bhsd or bshd")


def masked(value: Any, dtype: np.dtype[Any], whole: tuple[int, ...]) -> tuple[Array, dict[str, Any]]:
    """Returns a mask with four dimensions, one of truth values as bytes, and the parameters that describe it. `dtype`
    is the type of Q, and `whole` has the numbers of entries, heads, queries and keys."""
    mask = to_numpy("mask", value, ATTENTION_TYPES, "b")
    if mask.dtype == np.bool_:
        mask = mask.view(np.int8)
    if mask.dtype not in (np.int8, dtype):
        raise TypeError(f"the mask has the type {mask.dtype}; it must be bool, int8 or the type of q")
    shape = (1,) * (4 - mask.ndim) + mask.shape
    if len(shape) != 4 or shape[3] != whole[3] or any(have not in (1, full) for have, full in zip(shape, whole)):
        raise ValueError(f"the mask has the shape {mask.shape}; it must be {whole}, in which any but the last may be 1")
    return np.ascontiguousarray(mask.reshape(shape)), {
        "mask": "bool" if mask.dtype == np.int8 else "add", "mask_batch": shape[0], "mask_heads": shape[1],
        "mask_sq": shape[2]}


def of_heads(name: str, value: Any, heads: int) -> Array | None:
    """Returns an operand that has a number for each head of Q, as f32."""
    if value is None:
        return None
    found = to_numpy(name, value, ("f32",), "iu")
    if found.shape != (heads,):
        raise ValueError(f"{name} has the shape {found.shape}; it must be ({heads},), a number for each head of q")
    return np.ascontiguousarray(found, np.float32)


class Attention:
    """Q, K and V with their sizes, and the lengths of the entries of the batch. K and V may be
    resident tensors. If the entries are ragged, `batch` is their number."""

    def __init__(self, q: Any, k: Any, v: Any, lens_q: Any, lens_kv: Any, layout: Layout,
                 mask: Any = None, slopes: Any = None, sinks: Any = None, ragged: bool = False) -> None:
        check_layout(layout)
        self.layout = layout
        self.q = self._operand("q", q)
        self.k = k if isinstance(k, Tensor) else self._operand("k", k)
        self.v = v if isinstance(v, Tensor) else self._operand("v", v)
        shapes = {"q": self.q.shape, "k": self.k.shape, "v": self.v.shape}
        for name, shape in shapes.items():
            if len(shape) != 4:
                raise ValueError(f"{name} has {len(shape)} dimensions; it must have four: batch, "
                                 "heads, sequence and head size, in the order of the layout")
            if 0 in shape:
                raise ValueError(f"{name} has the shape {shape}; it must not be empty")
        self.dtype, (self.q, self.k, self.v) = promoted(
            ATTENTION_TYPES, {"q": self.q, "k": self.k, "v": self.v})
        self.batch, self.heads, self.sq, self.d = _sizes(self.q.shape, layout)
        batch_k, self.kv_heads, self.skv, size_k = _sizes(self.k.shape, layout)
        batch_v, heads_v, length_v, self.dv = _sizes(self.v.shape, layout)
        if (batch_k, size_k) != (self.batch, self.d):
            raise ValueError(f"k has the shape {self.k.shape}, and q has {self.q.shape}; they must have the same batch "
                             f"and head size: {self.batch} and {self.d}")
        if (batch_v, heads_v, length_v) != (batch_k, self.kv_heads, self.skv):
            raise ValueError(f"v has the shape {self.v.shape}, and k has {self.k.shape}; they must have the same "
                             f"batch, heads and length: {batch_k}, {self.kv_heads} and {self.skv}")
        self.entries_apart, self.ragged = self.batch, ragged
        if ragged and (lens_q is None or lens_kv is None or self.batch != 1 or mask is not None):
            raise ValueError("ragged entries have lens_q and lens_kv, no mask, and q, k and v with a first dimension "
                             "of 1")
        if lens_q is None and lens_kv is not None:
            lens_q = np.full(self.batch, self.sq)
        if lens_kv is None and lens_q is not None:
            lens_kv = np.full(self.batch, self.skv)
        self.lens_q = self._lengths("lens_q", lens_q, self.sq)
        self.lens_kv = self._lengths("lens_kv", lens_kv, self.skv)
        if ragged and self.lens_q is not None:
            self.batch = len(self.lens_q) - 1
        self.slopes, self.sinks = (of_heads(name, value, self.heads)
                                   for name, value in (("slopes", slopes), ("sinks", sinks)))
        self.mask: Array | None = None
        self._mask_parameters: dict[str, Any] = {}
        if mask is not None:
            whole = (self.batch, self.heads, self.sq, self.skv)
            self.mask, self._mask_parameters = masked(mask, DTYPES[self.dtype], whole)

    @staticmethod
    def _operand(name: str, value: Any) -> Array:
        return np.ascontiguousarray(to_numpy(name, value, ATTENTION_TYPES))

    def _lengths(self, name: str, value: Any, most: int) -> Array | None:
        if value is None:
            return None
        refuse_subclass(name, value)
        given = np.asarray(value)
        if self.ragged:
            return self._first_rows(name, given, most)
        if given.shape != (self.batch,) or given.dtype.kind not in "iu":
            raise ValueError(f"{name} must be {self.batch} whole numbers, one for each entry of the "
                             "batch")
        if given.min() < 0 or given.max() > most:
            raise ValueError(f"{name} must be from 0 to {most}")
        return np.ascontiguousarray(given, np.int32)

    @staticmethod
    def _first_rows(name: str, given: Array, rows: int) -> Array:
        if (given.ndim != 1 or given.size < 2 or given.dtype.kind not in "iu" or given[0] != 0 or given[-1] != rows
                or np.any(given[1:] < given[:-1])):
            raise ValueError(f"{name} of ragged entries must be whole numbers that ascend from 0 to {rows}: the first "
                             "row of each entry, and the number of all rows")
        return np.ascontiguousarray(given, np.int32)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (*self.q.shape[:-1], self.dv)

    @property
    def result_type(self) -> np.dtype[Any]:
        return DTYPES[self.dtype]

    @property
    def sent(self) -> list[Array]:
        """The operands of a raw body, in their order."""
        return [part for part in (self.lens_q, self.lens_kv, self.slopes, self.sinks, self.q, self.k,
                                 self.v, self.mask)
                if isinstance(part, np.ndarray)]

    def parameters(self) -> dict[str, Any]:
        """The parameters of the sizes, as the daemon takes them in a query."""
        found: dict[str, Any] = {
            "batch": self.batch, "heads": self.heads, "kv_heads": self.kv_heads, "sq": self.sq,
            "skv": self.skv, "d": self.d, "dv": self.dv, "dtype": self.dtype, "layout": self.layout}
        if self.lens_q is not None:
            found["lens"] = "ragged" if self.ragged else 1
        found |= {name: 1 for name, array in (("alibi", self.slopes), ("sinks", self.sinks)) if array is not None}
        found |= self._mask_parameters
        for name, part in (("k", self.k), ("v", self.v)):
            if isinstance(part, Tensor):
                found[name] = part.parameter()
        return found


def attention_parameters(sizes: dict[str, Any], causal: bool = False, window: int | None = None,
                         scale: float | None = None, softcap: float = 0.0, priority: int = 4,
                         timeout: float | None = None, kernel: str | None = None,
                         offset: int | None = None, window_right: int | None = None) -> dict[str, Any]:
    """Returns the parameters of a request, which has the parameters `sizes` too; the other arguments are those of
    Client.attention()."""
    chosen = {
        "causal": (int(causal), 0), "window": (window, None), "window_right": (window_right, None),
        "offset": (offset, None),
        "scale": (None if scale is None else repr(float(scale)), None),
        "softcap": (float(softcap), 0.0), "priority": (priority, 4), "kernel": (kernel, None),
        "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
    return {**sizes,
            **{name: value for name, (value, usual) in chosen.items() if value != usual}}

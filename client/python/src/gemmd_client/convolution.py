"""The operands of a convolution as they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from .arrays import NAMES, Array, dtype_name, to_numpy
from .seconds import milliseconds
from .tensors import Tensor

ConvLayout = Literal["nchw", "nhwc"]
ConvWLayout = Literal["kcrs", "krsc"]
Padding = int | Sequence[int] | Literal["same"]


def _numbers(value: int | Sequence[int]) -> str:
    return str(value) if isinstance(value, int) else ",".join(str(int(part)) for part in value)


class Convolution:
    """X, W and the bias with their sizes. X and W may be resident tensors."""

    def __init__(self, x: Any, w: Any, bias: Any, out: Any, layout: ConvLayout,
                 w_layout: ConvWLayout, groups: int) -> None:
        if layout not in get_args(ConvLayout):
            raise ValueError(f"layout is '{layout}'; it must be nchw or nhwc")
        if w_layout not in get_args(ConvWLayout):
            raise ValueError(f"w_layout is '{w_layout}'; it must be kcrs or krsc")
        self.layout, self.w_layout, self.groups = layout, w_layout, groups
        self.x = x if isinstance(x, Tensor) else np.ascontiguousarray(to_numpy("x", x))
        self.w = w if isinstance(w, Tensor) else np.ascontiguousarray(to_numpy("w", w))
        for name, shape in (("x", self.x.shape), ("w", self.w.shape)):
            if len(shape) != 4:
                raise ValueError(f"{name} has {len(shape)} dimensions; it must have four")
            if 0 in shape:
                raise ValueError(f"{name} has the shape {shape}; it must not be empty")
        self.dtype, w_dtype = (part.dtype if isinstance(part, Tensor) else NAMES[part.dtype]
                               for part in (self.x, self.w))
        if w_dtype != self.dtype:
            raise TypeError("x and w must have the same type")
        default = "i32" if self.dtype == "i8" else self.dtype
        self.out: str = default if out is None else dtype_name(out)
        batch, *sizes = (int(size) for size in self.x.shape)
        self.batch = batch
        self.channels, self.height, self.width = (
            sizes if layout == "nchw" else (sizes[2], sizes[0], sizes[1]))
        filters, *taps = (int(size) for size in self.w.shape)
        self.filters: int = filters
        per_group, r, s = taps if w_layout == "kcrs" else (taps[2], taps[0], taps[1])
        self.r: int = r
        self.s: int = s
        if per_group * groups != self.channels:
            raise ValueError(f"w has filters of {per_group} channels, and x has {self.channels} "
                             f"channels in {groups} groups")
        self.bias: Array | None = None
        if bias is not None:
            self.bias = np.ascontiguousarray(to_numpy("bias", bias))
            if self.bias.shape != (self.filters,) or NAMES[self.bias.dtype] != self.out:
                raise ValueError(f"bias must be one vector of {self.filters} elements of {self.out}")

    @property
    def sent(self) -> list[Array]:
        """The operands of a raw body, in their order."""
        return [part for part in (self.x, self.w, self.bias) if isinstance(part, np.ndarray)]

    def parameters(self, stride: int | Sequence[int], padding: Padding,
                   dilation: int | Sequence[int]) -> dict[str, Any]:
        """The parameters of the sizes, as the daemon takes them in a query."""
        found: dict[str, Any] = {
            "batch": self.batch, "channels": self.channels, "height": self.height,
            "width": self.width, "filters": self.filters, "filter_h": self.r, "filter_w": self.s,
            "groups": self.groups, "layout": self.layout, "w_layout": self.w_layout,
            "dtype": self.dtype, "out": self.out, "stride": _numbers(stride),
            "dilation": _numbers(dilation),
            "padding": padding if isinstance(padding, str) else _numbers(padding)}
        if self.bias is not None:
            found["bias"] = 1
        for name, part in (("x", self.x), ("w", self.w)):
            if isinstance(part, Tensor):
                found[name] = part.name
        return found


def conv2d_request(x: Any, w: Any, *, stride: int | Sequence[int] = 1, padding: Padding = 0,
                   dilation: int | Sequence[int] = 1, groups: int = 1, layout: ConvLayout = "nchw",
                   w_layout: ConvWLayout = "kcrs", bias: Any = None, out: Any = None,
                   alpha: float = 1.0, act: str = "none", precision: str = "full", priority: int = 4,
                   timeout: float | None = None,
                   kernel: str | None = None) -> tuple[dict[str, Any], list[Array]]:
    """Returns the parameters and the operands of a request; the arguments are those of
    Client.conv2d()."""
    operands = Convolution(x, w, bias, out, layout, w_layout, groups)
    chosen = {
        "alpha": (float(alpha), 1.0), "act": (act, "none"), "precision": (precision, "full"),
        "priority": (priority, 4), "kernel": (kernel, None),
        "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
    return {**operands.parameters(stride, padding, dilation),
            **{name: value for name, (value, usual) in chosen.items() if value != usual}
            }, operands.sent

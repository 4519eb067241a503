"""The operands of a convolution as they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from .arrays import DTYPES, Array, to_numpy
from .promotion import adjusted, common_type, described, fits, promoted
from .results import Result, wanted
from .seconds import milliseconds
from .tensors import Tensor

ConvLayout = Literal["nchw", "nhwc"]
ConvWLayout = Literal["kcrs", "krsc"]
CONV_TYPES = ("f32", "f16", "bf16", "i8")
Padding = int | Sequence[int] | Literal["same"]


def _numbers(value: int | Sequence[int]) -> str:
    return str(value) if isinstance(value, int) else ",".join(str(int(part)) for part in value)


def _bias(value: Any, filters: int, final: np.dtype[Any], is_chosen: bool) -> Array:
    """Returns the bias in the type of the result, which NumPy's promotion leaves as it is, or the caller has
    chosen."""
    bias = to_numpy("bias", value, CONV_TYPES, "iu")
    types = {"the convolution": final, "bias": bias.dtype}
    if not is_chosen and not fits(bias, final) and common_type(types) != final:
        raise TypeError(f"{described(types)}, which together are {common_type(types)}; the daemon has no such "
                        "convolution: out_dtype is the type of the result, to which bias is converted")
    if bias.shape != (filters,):
        raise ValueError(f"bias has the shape {bias.shape}; it must have {(filters,)}")
    return adjusted("bias", bias, final)


class Convolution:
    """X, W and the bias as they are sent, and what becomes of the answer. X and W may be resident tensors. The
    arguments are those of Client.conv2d()."""

    def __init__(self, x: Any, w: Any, *, stride: int | Sequence[int] = 1, padding: Padding = 0,
                 dilation: int | Sequence[int] = 1, groups: int = 1, layout: ConvLayout = "nchw",
                 w_layout: ConvWLayout = "kcrs", bias: Any = None, out: Any = None, out_dtype: Any = None,
                 alpha: float = 1.0, act: str = "none", precision: str = "full", priority: int = 4,
                 timeout: float | None = None, kernel: str | None = None) -> None:
        filled, chosen = wanted(out, out_dtype)
        if layout not in get_args(ConvLayout):
            raise ValueError(f"layout is '{layout}'; it must be nchw or nhwc")
        if w_layout not in get_args(ConvWLayout):
            raise ValueError(f"w_layout is '{w_layout}'; it must be kcrs or krsc")
        self.x = x if isinstance(x, Tensor) else np.ascontiguousarray(to_numpy("x", x, CONV_TYPES))
        self.w = w if isinstance(w, Tensor) else np.ascontiguousarray(to_numpy("w", w, CONV_TYPES))
        for name, shape in (("x", self.x.shape), ("w", self.w.shape)):
            if len(shape) != 4:
                raise ValueError(f"{name} has {len(shape)} dimensions; it must have four")
            if 0 in shape:
                raise ValueError(f"{name} has the shape {shape}; it must not be empty")
        dtype, (self.x, self.w) = promoted(CONV_TYPES, {"x": self.x, "w": self.w})
        result_type = chosen or ("i32" if dtype == "i8" else dtype)
        batch, *sizes = (int(size) for size in self.x.shape)
        channels, height, width = sizes if layout == "nchw" else (sizes[2], sizes[0], sizes[1])
        filters, *taps = (int(size) for size in self.w.shape)
        per_group, r, s = taps if w_layout == "kcrs" else (taps[2], taps[0], taps[1])
        if per_group * groups != channels:
            raise ValueError(f"w has filters of {per_group} channels, and x has {channels} channels in {groups} "
                             "groups")
        final = DTYPES[result_type]
        self.bias = None if bias is None else _bias(bias, filters, final, chosen is not None)
        settings = {
            "alpha": (float(alpha), 1.0), "act": (act, "none"), "precision": (precision, "full"),
            "priority": (priority, 4), "kernel": (kernel, None), "bias": (int(bias is not None), 0),
            "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
        self.parameters: dict[str, Any] = {
            "batch": batch, "channels": channels, "height": height, "width": width, "filters": filters,
            "filter_h": r, "filter_w": s, "groups": groups, "layout": layout, "w_layout": w_layout, "dtype": dtype,
            "out": result_type, "stride": _numbers(stride), "dilation": _numbers(dilation),
            "padding": padding if isinstance(padding, str) else _numbers(padding),
            **{name: value for name, (value, usual) in settings.items() if value != usual},
            **{name: part.parameter() for name, part in (("x", self.x), ("w", self.w)) if isinstance(part, Tensor)}}
        self.result = Result(None, final, filled, w if isinstance(x, Tensor) else x)

    @property
    def sent(self) -> list[Array]:
        """The operands of a raw body, in their order."""
        return [part for part in (self.x, self.w, self.bias) if isinstance(part, np.ndarray)]

"""What type checkers know of arguments: which operands there are, and the keywords of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar

from .arrays import Array
from .attention import Layout
from .convolution import ConvLayout, ConvWLayout, Padding
from .library import Act
from .reductions import Axis
from .tensors import Tensor

Precision = Literal["full", "tf32", "f8"]
Scales = Literal["none", "rowcol", "block"]


class SupportsDlpack(Protocol):
    """An array of another library, such as PyTorch, JAX and CuPy."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...


class SupportsArray(Protocol):
    """An object that NumPy makes an array of."""

    def __array__(self, *arguments: Any, **options: Any) -> Any: ...


Numbers = list[Any] | tuple[Any, ...]
Host = Array | Numbers
"""Operands whose result is an array of NumPy, whatever the others are."""
Operand = Array | Numbers | SupportsDlpack | SupportsArray | Tensor
Foreign = TypeVar("Foreign", bound=SupportsDlpack)


class Options(TypedDict, total=False):
    """The keywords of every operation."""

    priority: int
    timeout: float | None
    kernel: str | None


class ResultOptions(Options, total=False):
    """The keywords of operations whose result has a type to choose. `out` is typed Any because of types in it, which
    are deprecated."""

    out: Any
    out_dtype: Any


class ProductOptions(ResultOptions, total=False):
    """The keywords of tensordot() and einsum()."""

    alpha: float
    act: Act
    precision: Precision
    verify: bool


class GemmOptions(ProductOptions, total=False):
    """The keywords of gemm()."""

    beta: float
    c: Operand | None
    bias: Operand | None
    scales: Scales
    a_scale: Operand | None
    b_scale: Operand | None


class AttentionOptions(Options, total=False):
    """The keywords of attention() without lse."""

    causal: bool
    window: int | None
    scale: float | None
    softcap: float
    layout: Layout
    lens_q: Operand | None
    lens_kv: Operand | None
    mask: Operand | None
    offset: int | None
    window_right: int | None
    slopes: Operand | None
    sinks: Operand | None
    ragged: bool


class SequenceOptions(Options, total=False):
    """The keywords of attention() of a sequence."""

    layer: int
    position: int | None
    skv: int | None
    causal: bool
    window: int | None
    scale: float | None
    softcap: float
    layout: Layout
    mask: Operand | None
    offset: int | None
    window_right: int | None
    slopes: Operand | None
    sinks: Operand | None
    lse: bool


class ConvOptions(ResultOptions, total=False):
    """The keywords of conv2d()."""

    stride: int | Sequence[int]
    padding: Padding
    dilation: int | Sequence[int]
    groups: int
    layout: ConvLayout
    w_layout: ConvWLayout
    bias: Operand | None
    alpha: float
    act: Act
    precision: Literal["full", "tf32"]


class ReduceOptions(ResultOptions, total=False):
    """The keywords of reduce()."""

    axis: Axis
    keepdims: bool
    ddof: float


class SoftmaxOptions(ResultOptions, total=False):
    """The keywords of softmax()."""

    axis: Axis
    scale: float
    log: bool
    lens: Operand | None


class ExpertsOptions(ResultOptions, total=False):
    """The keywords of experts()."""

    weights: Operand | None
    bias: Operand | None
    glu: bool
    transb: bool
    act: Act
    precision: Literal["full", "tf32"]

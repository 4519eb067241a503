"""The operands of a product as they are sent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arrays import DTYPES, NAMES, Array, dtype_name, stored, to_numpy
from .seconds import milliseconds
from .tensors import Tensor

DEFAULT_OUT = {"f8_e4m3": "bf16", "i8": "i32"}


class Product:
    """The operands of a product as they are sent."""

    def __init__(self, a: Any, b: Any, out: Any, bias: Any, c: Any, beta: float,
                 scales: str = "none", a_scale: Any = None, b_scale: Any = None) -> None:
        self.a, self.transa, shape_a = _operand("a", a)
        self.b, self.transb, shape_b = _operand("b", b)
        self.dtype = a.dtype if isinstance(a, Tensor) else NAMES[self.a.dtype]
        dtype_b = b.dtype if isinstance(b, Tensor) else NAMES[self.b.dtype]
        if self.dtype != dtype_b:
            raise TypeError(f"a has the type {self.dtype} and b has the type {dtype_b}; both must "
                            "have the same type")
        row, column = len(shape_a) == 1, len(shape_b) == 1
        if row:
            shape_a = (1, *shape_a)
            self.a = self.a.reshape(shape_a)
        if column:
            shape_b = (*shape_b, 1)
            self.b = self.b.reshape(shape_b)
        if shape_a[-1] != shape_b[-2]:
            raise ValueError(f"a has {shape_a[-1]} columns and b has {shape_b[-2]} rows; the "
                             "numbers must be equal")
        leads: tuple[int, ...] = ()
        if len(shape_a) > 2 or len(shape_b) > 2:
            try:
                leads = np.broadcast_shapes(shape_a[:-2], shape_b[:-2])
            except ValueError:
                raise ValueError(f"the leading dimensions of a, {shape_a[:-2]}, and of b, {shape_b[:-2]}, "
                                 "cannot be broadcast to each other") from None
        self.m, self.k, self.n = shape_a[-2], shape_a[-1], shape_b[-1]
        self.batch = math.prod(leads)
        full = (*leads, self.m, self.n)
        self.shape = tuple(
            length for at, length in enumerate(full)
            if not (row and at == len(full) - 2) and not (column and at == len(full) - 1))
        default = DEFAULT_OUT.get(self.dtype, self.dtype) if scales == "none" else "bf16"
        self.out = dtype_name(out) if out is not None else default
        if leads and len(shape_b) == 2 and not isinstance(a, Tensor) and not self.transa:
            self.m, self.batch = self.m * self.batch, 1  # The rows of all problems meet one B.
        else:
            self.a = self._spread(self.a, leads, shape_a, self.transa)
            self.b = self._spread(self.b, leads, shape_b, self.transb)
        self.bias = self._typed("bias", bias, (self.n,), (1, self.n))
        self.beta = beta
        if beta and c is None:
            raise ValueError("beta is not 0, but c is missing")
        self.c0 = self._typed("c", c if beta else None, self.shape, full)
        self.scales = scales
        self.a_scale = self._scale("a_scale", a_scale, self.a, self.transa,
                                   leads, (full[-2], _blocks(self.k)))
        self.b_scale = self._scale("b_scale", b_scale, self.b, self.transb,
                                   leads if self.batch > 1 and not self._is_matrix(b) else (),
                                   (_blocks(self.k), _blocks(self.n)))

    @staticmethod
    def _spread(array: Any, leads: tuple[int, ...], shape: tuple[int, ...], turned: bool) -> Any:
        if isinstance(array, Tensor) or shape[:-2] == leads:
            return array
        matrix = (shape[-1], shape[-2]) if turned else shape[-2:]
        return np.ascontiguousarray(np.broadcast_to(array, (*leads, *matrix)))

    def _typed(self, name: str, value: Any, *shapes: tuple[int, ...]) -> Array | None:
        if value is None:
            return None
        array = to_numpy(name, value)
        if array.dtype != DTYPES[self.out]:
            raise TypeError(f"{name} has the type {array.dtype}; it must have the type of the "
                            f"result, {DTYPES[self.out]}")
        if array.shape not in shapes:
            raise ValueError(f"{name} has the shape {array.shape}; it must have {shapes[0]}")
        return np.ascontiguousarray(array)

    @staticmethod
    def _is_matrix(operand: Any) -> bool:
        """Whether a resident tensor is one matrix, which all problems of a batch use."""
        return isinstance(operand, Tensor) and len(operand.shape) == 2

    def _scale(self, name: str, value: Any, operand: Any, turned: bool, leads: tuple[int, ...],
               blocks: tuple[int, int]) -> Array | None:
        """The scales of an operand as they are sent: as the operand lies in memory."""
        if value is None:
            if self.scales != "none" and not isinstance(operand, Tensor):
                raise ValueError(f"scales is '{self.scales}', but {name} is missing")
            return None
        if self.scales == "none":
            raise ValueError(f"{name} is given, but scales is 'none'")
        array = to_numpy(name, value)
        if array.dtype != np.float32:
            raise TypeError(f"{name} has the type {array.dtype}; scales must be float32")
        block = self.scales == "block"
        shape = blocks if block else (blocks[0] if name == "a_scale" else self.n,)
        try:
            array = np.broadcast_to(array, (*leads, *shape))
        except ValueError:
            raise ValueError(f"{name} has the shape {array.shape}; with scales='{self.scales}' it "
                             f"must be {(*leads, *shape)}") from None
        return np.ascontiguousarray(array.swapaxes(-1, -2) if block and turned else array)

    def sends(self, a: Any, b: Any) -> bool:
        """Whether the operands are sent as they lie in the memory of `a` and `b`, without a copy."""
        return (type(a) is np.ndarray and self.a.ctypes.data == a.ctypes.data
                and (isinstance(b, Tensor)
                     or (type(b) is np.ndarray and self.b.ctypes.data == b.ctypes.data)))

    @property
    def sent(self) -> list[Array]:
        return [part for part in (self.a, self.b, self.bias, self.c0, self.a_scale, self.b_scale)
                if isinstance(part, np.ndarray)]

    def empty(self, act: str) -> Array:
        """The result of a product of which a dimension is 0, which needs no daemon."""
        total = np.zeros((self.batch, self.m, self.n), np.float64)
        if self.c0 is not None:
            total += self.beta * self.c0.astype(np.float64).reshape(total.shape)
        if self.bias is not None:
            total += self.bias.astype(np.float64).reshape(-1)
        if act == "relu":
            total = np.maximum(total, 0)
        elif act != "none" and total.any():
            raise ValueError(f"k is 0; the activation '{act}' is then not offered")
        return total.astype(DTYPES[self.out]).reshape(self.shape)


def _blocks(extent: int) -> int:
    """The blocks of 128 that have one scale each."""
    return -(-extent // 128)


def _operand(name: str, value: Any) -> tuple[Any, bool, tuple[int, ...]]:
    if isinstance(value, Tensor):
        if len(value.shape) not in (2, 3):
            raise ValueError(f"the tensor {value.name} has {len(value.shape)} dimensions; an "
                             "operand has two or three")
        return value, False, value.shape
    array = to_numpy(name, value)
    if array.ndim == 0:
        raise ValueError(f"{name} is a single number; an operand has a dimension at least")
    if array.ndim == 1:
        return np.ascontiguousarray(array), False, array.shape
    kept, turned = stored(array)
    return kept, turned, array.shape


def product_parameters(product: Product, alpha: float, act: str, precision: str, verify: bool,
                       priority: int, timeout: float | None, kernel: str | None) -> dict[str, Any]:
    """Returns the parameters of a request; the arguments are those of Client.gemm()."""
    parameters: dict[str, Any] = {"m": product.m, "n": product.n, "k": product.k,
                                  "dtype": product.dtype, "out": product.out}
    chosen = {
        "batch": (product.batch, 1), "transa": (int(product.transa), 0),
        "transb": (int(product.transb), 0), "alpha": (float(alpha), 1.0),
        "beta": (float(product.beta), 0.0), "bias": (int(product.bias is not None), 0),
        "act": (act, "none"), "precision": (precision, "full"),
        "scales": (product.scales, "none"), "priority": (priority, 4),
        "verify": ("freivalds" if verify else None, None), "kernel": (kernel, None),
        "a": (product.a.name if isinstance(product.a, Tensor) else None, None),
        "b": (product.b.name if isinstance(product.b, Tensor) else None, None),
        "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
    parameters.update((name, value) for name, (value, usual) in chosen.items() if value != usual)
    return parameters

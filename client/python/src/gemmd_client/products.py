"""The operands of a product as they are sent."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arrays import DTYPES, NAMES, Array, stored, to_numpy
from .promotion import adjusted, common_type, converted, described, fits, promoted
from .results import EXACT, Result, wanted
from .seconds import milliseconds
from .tensors import Tensor

# The types of operands, and of results: the first is that of a product without scales that asks for none.
OUTS = {"f64": ("f64",), "f32": ("f32", "f16", "bf16"), "f16": ("f16", "f32"), "bf16": ("bf16", "f32"),
        "f8_e4m3": ("bf16", "f16", "f32"), "i8": ("i32", "f32")}


class Product:
    """The operands of a product as they are sent."""

    def __init__(self, a: Any, b: Any, out: Any = None, out_dtype: Any = None, bias: Any = None, c: Any = None,
                 alpha: float = 1.0, beta: float = 0.0, act: str = "none", scales: str = "none",
                 a_scale: Any = None, b_scale: Any = None) -> None:
        filled, chosen = wanted(out, out_dtype)
        self.alpha, self.beta, self.act, self.scales = alpha, beta, act, scales
        self.a, self.transa, shape_a = _operand("a", a)
        self.b, self.transb, shape_b = _operand("b", b)
        if beta and c is None:
            raise ValueError("beta is not 0, but c is missing")
        added = {name: to_numpy(name, value, tuple(OUTS), "iu") for name, value in
                 (("bias", bias), ("c", c if beta else None)) if value is not None}
        self.dtype: str
        final: np.dtype[Any] | None = None
        if isinstance(self.b, Tensor) and self.b.format is not None:
            self.dtype = NAMES.get(self.a.dtype, "")
            if self.dtype not in ("f16", "bf16"):
                raise TypeError(f"a has the type {self.a.dtype}, and {self.b.name} has packed weights, by which "
                                "float16 and bfloat16 are multiplied: convert a with astype()")
        elif self._is_of_whole_numbers():
            if added or alpha != 1 or act != "none" or scales != "none":
                raise TypeError(f"{described(self._types())}; products of such whole numbers have no alpha, beta, "
                                "bias, activation and scales: convert a and b with astype() to float64 or float32")
            final = self._hold_whole_numbers(shape_a[-1])
            if chosen in OUTS[self.dtype]:
                final = None
        else:
            self.dtype, (self.a, self.b) = promoted(tuple(OUTS), {"a": self.a, "b": self.b})
        default = OUTS[self.dtype][0] if scales == "none" else "bf16"
        if final is not None:
            self.out, final = default, DTYPES[chosen] if chosen else final
        else:
            self.out = chosen or self._promoted_by(added, default)
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
        self.result = Result(self.shape, final or DTYPES[self.out], filled, b if isinstance(a, Tensor) else a)
        if leads and len(shape_b) == 2 and not isinstance(a, Tensor) and not self.transa:
            self.m, self.batch = self.m * self.batch, 1  # The rows of all problems meet one B.
        else:
            self.a = self._spread(self.a, leads, shape_a, self.transa)
            self.b = self._spread(self.b, leads, shape_b, self.transb)
        self.bias = self._typed("bias", added.get("bias"), (self.n,), (1, self.n))
        self.c0 = self._typed("c", added.get("c"), self.shape, full)
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

    def _types(self) -> dict[str, np.dtype[Any]]:
        return {"a": self.a.dtype, "b": self.b.dtype}

    def _is_of_whole_numbers(self) -> bool:
        """Whether the operands are whole numbers, and not both of int8, with which the daemon computes."""
        types = set(self._types().values())
        return types != {np.dtype(np.int8)} and all(dtype.kind in "iu" for dtype in types)

    def _hold_whole_numbers(self, k: int) -> np.dtype[Any]:
        """Converts operands of whole numbers to a type in which the product is exact, and returns the type that
        NumPy's product has."""
        final = common_type(self._types())
        least, most, bound = 0, 0, k
        for operand in (self.a, self.b):
            if isinstance(operand, Tensor):
                if operand.dtype != np.int8:
                    raise TypeError(f"the resident tensor {operand.name} has the type {operand.dtype}, which the "
                                    "daemon does not multiply")
                ends = -128, 127
            else:
                ends = (int(operand.min()), int(operand.max())) if operand.size else (0, 0)
            least, most, bound = min(least, ends[0]), max(most, ends[1]), bound * max(map(abs, ends))
        if least >= -128 and most <= 127 and bound < 2**31:
            self.dtype = "i8"
        elif bound <= EXACT:
            self.dtype = "f64"
        else:
            raise OverflowError(f"{described(self._types())}, and a sum of their products can be beyond 2^53, up to "
                                "which the daemon computes with whole numbers; convert a and b with "
                                "astype(float64), with which it is rounded")
        types = self._types()
        self.a, self.b = (converted(name, operand, DTYPES[self.dtype], types)
                          for name, operand in (("a", self.a), ("b", self.b)))
        return final

    def _promoted_by(self, added: dict[str, Array], default: str) -> str:
        """Returns the type of a result for which the caller names none: the one to which NumPy promotes the
        products and what is added to them. Converts a and b if it needs products in that type."""
        types = {"the product": DTYPES[default]} | {
            name: array.dtype for name, array in added.items()
            if not fits(array, DTYPES[default])}
        common = common_type(types)
        name = NAMES.get(common, "")
        if name == default or name in OUTS[self.dtype]:
            return name
        if name not in OUTS or self.scales != "none":
            raise TypeError(f"{described(types)}, which together are {common}; the daemon has no such product: "
                            "out_dtype is the type of the result, to which bias and c are converted")
        operands = self._types()
        self.dtype = name
        self.a, self.b = (converted(which, operand, common, {**operands, **types})
                          for which, operand in (("a", self.a), ("b", self.b)))
        return name

    def _typed(self, name: str, array: Array | None, *shapes: tuple[int, ...]) -> Array | None:
        if array is None:
            return None
        if array.shape not in shapes:
            raise ValueError(f"{name} has the shape {array.shape}; it must have {shapes[0]}")
        return adjusted(name, array, DTYPES[self.out])

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

    @property
    def out_type(self) -> np.dtype[Any]:
        """The type in which the daemon answers."""
        return DTYPES[self.out]

    @property
    def is_empty(self) -> bool:
        """Whether a dimension is 0."""
        return not (self.m and self.n and self.k and self.batch)

    def empty(self) -> Array:
        """The result of a product of which a dimension is 0, which needs no daemon."""
        total = np.zeros((self.batch, self.m, self.n), np.float64)
        if self.c0 is not None:
            total += self.beta * self.c0.astype(np.float64).reshape(total.shape)
        if self.bias is not None:
            total += self.bias.astype(np.float64).reshape(-1)
        if self.act == "relu":
            total = np.maximum(total, 0)
        elif self.act != "none" and total.any():
            raise ValueError(f"k is 0; the activation '{self.act}' is then not offered")
        return total.astype(DTYPES[self.out]).reshape(self.shape)


def _blocks(extent: int) -> int:
    """The blocks of 128 that have one scale each."""
    return -(-extent // 128)


def _operand(name: str, value: Any) -> tuple[Any, bool, tuple[int, ...]]:
    if isinstance(value, Tensor):
        if len(value.shape) not in (2, 3):
            raise ValueError(f"the tensor {value.name} has {len(value.shape)} dimensions; an "
                             "operand has two or three")
        return value, value.is_transposed, value.shape
    array = to_numpy(name, value, tuple(OUTS), "iu")
    if array.ndim == 0:
        raise ValueError(f"{name} is a single number; an operand has a dimension at least")
    if array.ndim == 1:
        return np.ascontiguousarray(array), False, array.shape
    kept, turned = stored(array)
    return kept, turned, array.shape


def product_parameters(product: Product, precision: str = "full", verify: bool = False, priority: int = 4,
                       timeout: float | None = None, kernel: str | None = None) -> dict[str, Any]:
    """Returns the parameters of a request; the arguments are those of Client.gemm()."""
    parameters: dict[str, Any] = {"m": product.m, "n": product.n, "k": product.k,
                                  "dtype": product.dtype, "out": product.out}
    chosen = {
        "batch": (product.batch, 1), "transa": (int(product.transa), 0),
        "transb": (int(product.transb), 0), "alpha": (float(product.alpha), 1.0),
        "beta": (float(product.beta), 0.0), "bias": (int(product.bias is not None), 0),
        "act": (product.act, "none"), "precision": (precision, "full"),
        "scales": (product.scales, "none"), "priority": (priority, 4),
        "verify": ("freivalds" if verify else None, None), "kernel": (kernel, None),
        "a": (product.a.name if isinstance(product.a, Tensor) else None, None),
        "b": (product.b.name if isinstance(product.b, Tensor) else None, None),
        "timeout_ms": (milliseconds("timeout", timeout) if timeout is not None else None, None)}
    parameters.update((name, value) for name, (value, usual) in chosen.items() if value != usual)
    return parameters

"""Arrays of any library as operands, and results as arrays of the same library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NAMES: dict[np.dtype[Any], str] = {
    np.dtype(np.float64): "f64", np.dtype(np.float32): "f32", np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(ml_dtypes.float8_e4m3fn): "f8_e4m3",
    np.dtype(np.int8): "i8", np.dtype(np.int32): "i32",
}
DTYPES: dict[str, np.dtype[Any]] = {name: dtype for dtype, name in NAMES.items()}


def dtype_name(dtype: Any) -> str:
    """Returns the daemon's name of a type, given by that name or as a NumPy type. TypeError: the
    daemon has no such type."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    try:
        name = NAMES.get(np.dtype(dtype).newbyteorder("="))
    except TypeError:  # NumPy knows no such type either.
        name = None
    if name is None:
        raise TypeError(f"the daemon has no type {dtype}; its types are "
                        f"{', '.join(f'{known} ({short})' for known, short in NAMES.items())}")
    return name


def library_of(array: Any) -> str:
    """Returns the name of the library whose array this is, for example "torch"."""
    return type(array).__module__.partition(".")[0].removesuffix("lib")


def refuse_subclass(name: str, array: Any) -> None:
    """TypeError: the array, or one in a list, is of a subclass of NumPy's arrays, which would lose what it is."""
    if isinstance(array, (list, tuple)):
        for each in array:
            refuse_subclass(name, each)
    if not isinstance(array, np.ndarray) or type(array) in (np.ndarray, np.memmap):
        return
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, and the daemon does not know which elements are masked; "
                        f"{name}.filled(0) has a number in their place")
    raise TypeError(f"{name} is a {type(array).__name__}, a subclass of numpy.ndarray, which the result would not "
                    f"be; numpy.asarray({name}) is a plain array")


def to_numpy(name: str, array: Any, types: Sequence[str] = tuple(DTYPES), kinds: str = "") -> Array:
    """Returns the elements of an array in host memory, without a copy where they are there already. An array may
    have any of the daemon's types, or another of `kinds` of types: "i", "u" and "b", as NumPy calls whole
    numbers and bool. `types` are those that the error advises.

    TypeError: this is not an array, or its type is none of these.
    """
    if type(array) is np.ndarray and array.dtype in NAMES and array.dtype.isnative:
        return array
    refuse_subclass(name, array)
    library = library_of(array)
    if isinstance(array, np.ndarray):
        found = array
    elif library == "torch":
        torch = sys.modules["torch"]
        if array.requires_grad and torch.is_grad_enabled():
            raise TypeError(f"{name} requires a gradient, and the result would have none; gemmd_client.torch has "
                            f"products with gradients, and {name}.detach() requires none")
        host = array.detach().resolve_conj().cpu()
        if host.dtype == torch.bfloat16:
            found = host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        elif host.dtype == getattr(torch, "float8_e4m3fn", None):
            found = host.view(torch.int8).numpy().view(ml_dtypes.float8_e4m3fn)
        else:
            found = host.numpy()
    elif hasattr(array, "__cuda_array_interface__") and hasattr(array, "get"):
        found = array.get()
    elif hasattr(array, "__array_interface__") or hasattr(array, "__array__"):
        found = np.asarray(array)
    elif hasattr(array, "__dlpack__"):
        found = np.from_dlpack(array)
    elif isinstance(array, (list, tuple)):
        found = np.asarray(array)
    elif isinstance(array, str):
        raise TypeError(f"{name} is a string; a resident tensor is passed as a Tensor, which put() and "
                        "tensors() return")
    else:
        raise TypeError(f"{name} is a {type(array).__name__}, which is not an array")
    if found.dtype.newbyteorder("=") not in NAMES and found.dtype.kind not in kinds:
        raise TypeError(f"{name} has the type {found.dtype}, with which the daemon does not compute; convert "
                        f"it with astype() to one of {', '.join(str(DTYPES[known]) for known in types)}")
    if not found.dtype.isnative:
        found = found.astype(found.dtype.newbyteorder("="))
    return found


def like(array: Any) -> Callable[[Array], Any]:
    """Returns the function that makes an array of `array`'s library, on its device, of a result."""
    library = library_of(array)
    if library == "torch":
        torch = sys.modules["torch"]

        def to_torch(result: Array) -> Any:
            if result.dtype == ml_dtypes.bfloat16:
                return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16).to(array.device)
            return torch.from_numpy(result).to(array.device)
        return to_torch
    if library == "cupy":
        return lambda result: sys.modules["cupy"].asarray(result)
    if library in ("jax", "jaxlib"):
        return lambda result: sys.modules["jax"].numpy.asarray(result)
    return lambda result: result


def as_matrices(a: Any, b: Any, types: Collection[Any], converter: str) -> tuple[Any, Any, bool, bool]:
    """Returns the operands of a product of PyTorch or JAX as matrices or stacks of them, and whether a row was made of
    `a` and a column of `b`. TypeError: the types differ, or are none of `types`, to which `converter` converts;
    ValueError: the shapes do not fit."""
    if a.dtype != b.dtype or a.dtype not in types:
        raise TypeError(f"a has the type {a.dtype} and b has the type {b.dtype}; both must have one type of "
                        f"{', '.join(map(str, types))}: convert them with {converter}()")
    if not a.ndim or not b.ndim:
        raise ValueError(f"a has {a.ndim} dimensions and b has {b.ndim}; each must have one at least")
    row, column = a.ndim == 1, b.ndim == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"a has {a.shape[-1]} columns and b has {b.shape[-2]} rows; the numbers must be equal")
    return a, b, row, column


def without_added(product: Any, row: bool, column: bool) -> Any:
    """Returns the product of as_matrices() without the dimensions that were added to the operands."""
    product = product[..., 0] if column else product
    return product[..., 0] if row and column else product[..., 0, :] if row else product


def stored(array: Array) -> tuple[Array, bool]:
    """Returns the matrices of an array as they lie in memory, and whether each is transposed there.
    Copies only what is neither row-major nor column-major."""
    if array.flags.c_contiguous:
        return array, False
    turned = array.swapaxes(-1, -2)
    if turned.flags.c_contiguous:
        return turned, True
    return np.ascontiguousarray(array), False


def octets(array: Array) -> memoryview:
    """Returns the bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data

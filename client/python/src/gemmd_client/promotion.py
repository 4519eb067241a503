"""The type in which operands are computed: the one to which NumPy promotes their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .arrays import DTYPES, NAMES, Array
from .tensors import Tensor

_F8 = np.dtype(ml_dtypes.float8_e4m3fn)


def common_type(dtypes: dict[str, np.dtype[Any]]) -> np.dtype[Any]:
    """Returns the type to which NumPy promotes the types of several arrays, by their names. TypeError: there is
    none. That of float8_e4m3fn and int8, which would be float8_e4m3fn, rounds, and is none here."""
    kinds = set(dtypes.values())
    if len(kinds) == 1:
        return kinds.pop()
    try:
        common = np.result_type(*kinds)
    except TypeError:
        common = _F8
    if common == _F8:
        raise TypeError(f"{described(dtypes)}, and these types have no common one; convert one of them with "
                        "astype()")
    return common


def described(dtypes: dict[str, np.dtype[Any]]) -> str:
    """Says which array has which type."""
    return " and ".join(f"{name} has the type {dtype}" for name, dtype in dtypes.items())


def promoted(types: Sequence[str], operands: dict[str, Array | Tensor]) -> tuple[str, list[Any]]:
    """Returns the daemon's name of the type in which operands of several types are computed, and the operands,
    converted to it. `types` are those of the operation.

    TypeError: the types have no common one, the operation is not offered in it, or a resident tensor would have
    to be converted.
    """
    dtypes = {name: operand.dtype for name, operand in operands.items()}
    common = common_type(dtypes)
    is_one = len(set(dtypes.values())) == 1
    if NAMES.get(common) not in types:
        found = f"{' and '.join(operands)} have the type {common}" if is_one else f"{described(dtypes)}, which together are {common}"
        raise TypeError(f"{found}; the daemon does this with {', '.join(str(DTYPES[name]) for name in types)}: convert "
                        "the operands with astype()")
    if is_one:
        return NAMES[common], list(operands.values())
    return NAMES[common], [converted(name, operand, common, dtypes) for name, operand in operands.items()]


def converted(name: str, operand: Array | Tensor, common: np.dtype[Any],
              dtypes: dict[str, np.dtype[Any]]) -> Any:
    """Returns an operand in the type `common`. TypeError: it is a resident tensor of another type."""
    if not isinstance(operand, Tensor):
        return operand.astype(common, copy=False)
    if dtypes[name] != common:
        raise TypeError(f"{described(dtypes)}, which together are {common}; the resident tensor {operand.name} "
                        f"cannot be converted: convert the other operands with astype() to {dtypes[name]}")
    return operand


def fits(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether an array is of whole numbers that the integer type `dtype` has."""
    if array.dtype.kind not in "iu" or dtype.kind not in "iu":
        return False
    info = np.iinfo(dtype)
    return not array.size or bool(array.min() >= info.min and array.max() <= info.max)


def adjusted(name: str, array: Array, dtype: np.dtype[Any]) -> Array:
    """Returns an array that is added to a result of the type `dtype`, in that type. TypeError: NumPy does not
    convert it."""
    if not (np.can_cast(array.dtype, dtype, "same_kind") or fits(array, dtype)):
        raise TypeError(f"{name} has the type {array.dtype}, which NumPy does not convert to the type of the "
                        f"result, {dtype}")
    return np.ascontiguousarray(array, dtype)

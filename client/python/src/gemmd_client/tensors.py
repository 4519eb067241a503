"""Resident tensors, and arrays in the format safetensors."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .arrays import NAMES, Array, octets
from .errors import ProtocolError

_LETTERS = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"  # of names, in their order
_NAME_MAX = 128
_SAFETENSORS: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16), "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I8": np.dtype(np.int8), "I32": np.dtype(np.int32)}


@dataclass(frozen=True)
class Tensor:
    """A resident tensor, which stays on the daemon's device and can be an operand."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    etag: str | None

    @classmethod
    def described(cls, found: dict[str, Any]) -> Tensor:
        """Reads the daemon's description of a tensor."""
        return cls(found["name"], found["dtype"], tuple(found["shape"]), found["bytes"],
                   found["etag"])


def before(name: str) -> dict[str, str]:
    """Returns the parameter with which a list of tensors begins at a name: the greatest name that is less."""
    letter = name[-1:]
    if letter not in _LETTERS[1:]:  # The first letter, or none that a name has.
        return {"after": name[:-1]} if name[:-1] else {}
    return {"after": (name[:-1] + _LETTERS[_LETTERS.index(letter) - 1]).ljust(_NAME_MAX, _LETTERS[-1])}


def entity_tag(array: Array, scale: Array | None) -> str:
    """Returns the entity tag of a tensor, as the daemon computes it."""
    content = hashlib.sha256(f"{NAMES[array.dtype]}:{_lengths(array)}\n".encode())
    content.update(octets(array))
    if scale is not None:
        content.update(f"scale:{_lengths(scale)}\n".encode())
        content.update(octets(scale))
    return f'"{content.hexdigest()}"'


def _lengths(array: Array) -> str:
    return ",".join(map(str, array.shape))


def safetensors_header(arrays: dict[str, Array]) -> Array:
    """Returns the bytes of a safetensors document before those of its arrays."""
    entries, at = {}, 0
    for name, array in arrays.items():
        dtype = next(key for key, known in _SAFETENSORS.items() if known == array.dtype)
        entries[name] = {"dtype": dtype, "shape": list(array.shape),
                         "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return np.frombuffer(len(text).to_bytes(8, "little") + text, np.uint8)


def from_safetensors(body: bytes) -> dict[str, Array]:
    """Reads the arrays of a safetensors document, without a copy. ProtocolError: it is none."""
    try:
        start = 8 + int.from_bytes(body[:8], "little")
        header = json.loads(body[8:start])
        arrays = {}
        for name, entry in header.items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                arrays[name] = np.frombuffer(
                    body, np.uint8, end - first, start + first).view(
                        _SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
        return arrays
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError("the answer is not a safetensors document") from error

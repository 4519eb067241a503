"""Sequences: keys and values of attentions that stay on the daemon's device and grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from .arrays import DTYPES, Array, to_numpy
from .attention import ATTENTION_TYPES, Layout, attention_parameters, check_layout, masked, of_heads
from .http import Plan
from .tables import table

if TYPE_CHECKING:
    from .client import Client


class Sequence:
    """Keys and values of the positions of one or several layers, which stay on the daemon's device. Client.sequence()
    creates one, and fork() another one that shares the positions.

    Arrays of queries, keys and values have three dimensions: heads, positions and head size, or with the layout "bshd"
    positions, heads and head size. They have the type of the sequence.

    Attributes:
        name: the name by which other programs find the sequence.
        dtype: a NumPy type: float32, float16 or ml_dtypes.bfloat16.
        kv_heads, d, dv: the heads of keys and values, and the sizes of a head's key and value.
        lengths: the positions of each layer that this object knows of; refresh() asks the daemon.
        nbytes: the bytes of device memory that the sequence took, with those that it shares with forks, when this
            object last asked.
    """

    name: str
    dtype: np.dtype[Any]
    kv_heads: int
    d: int
    dv: int
    lengths: list[int]
    nbytes: int

    def __init__(self, client: Client, found: dict[str, Any]) -> None:
        self._client = client
        self._take(found)

    def _take(self, found: dict[str, Any]) -> None:
        self.name, self.dtype = found["name"], DTYPES[found["dtype"]]
        self.kv_heads, self.d, self.dv = found["kv_heads"], found["d"], found["dv"]
        self.lengths, self.nbytes = list(found["lengths"]), found["memory_bytes"]

    def __repr__(self) -> str:
        return f"<Sequence {self.name} of {self._client.url}, lengths: {self.lengths}>"

    def _repr_html_(self) -> str:
        return table("sequence", {"name": self.name, "type": self.dtype, "heads": self.kv_heads,
                                  "sizes": f"{self.d}, {self.dv}", "lengths": self.lengths,
                                  "bytes": f"{self.nbytes:,}", "address": self._client.url})

    def __len__(self) -> int:
        """The positions of the shortest layer."""
        return min(self.lengths)

    def _path(self, part: str = "") -> str:
        return sequence_path(self.name) + part

    def _operand(self, name: str, value: Any, heads: int | None, size: int, layout: Layout) -> Array:
        """Returns a contiguous array of queries, keys or values. `heads` is None for any number."""
        check_layout(layout)
        array = to_numpy(name, value, ATTENTION_TYPES)
        if array.dtype != self.dtype:
            raise TypeError(f"{name} has the type {array.dtype}, and the sequence {self.name} has {self.dtype}; "
                            f"convert {name} with astype()")
        found = array.shape if layout == "bhsd" else (*array.shape[1::-1], *array.shape[2:])
        if len(found) != 3 or 0 in found or found[2] != size or heads not in (None, found[0]):
            wanted = (heads or "heads", "positions", size)
            raise ValueError(f"{name} has the shape {array.shape}; in the layout bhsd it must be "
                             f"({', '.join(map(str, wanted))})")
        return np.ascontiguousarray(array)

    def _pair(self, k: Any, v: Any, layout: Layout) -> tuple[Array, Array, int]:
        """Returns keys and values of the same positions, and how many positions they have."""
        keys = self._operand("k", k, self.kv_heads, self.d, layout)
        values = self._operand("v", v, self.kv_heads, self.dv, layout)
        if keys.shape[:2] != values.shape[:2]:
            raise ValueError(f"k and v have the shapes {keys.shape} and {values.shape}; they must have as many "
                             "positions")
        return keys, values, keys.shape[1 if layout == "bhsd" else 0]

    def refresh(self) -> None:
        """Asks the daemon for the lengths. NotFound: there is no sequence of the name."""
        self._client._run(self._ask("GET"))

    def _ask(self, method: str, part: str = "", **options: Any) -> Plan[None]:
        """Sends one request, and takes the description that is its answer."""
        self._take((yield from self._client._plans.json(method, self._path(part), **options)))

    def _length(self, layer: int) -> int:
        """The positions of a layer that this object knows of. ValueError: there is no such layer."""
        if layer not in range(len(self.lengths)):
            raise ValueError(f"layer is {layer}; the layers of the sequence {self.name} are 0 to "
                             f"{len(self.lengths) - 1}")
        return self.lengths[layer]

    def append(self, k: Any, v: Any, *, layer: int = 0, position: int | None = None, layout: Layout = "bhsd") -> None:
        """Appends the keys and values of positions to a layer, all of them or none.

        Args:
            position: how many positions precede the new ones; default: those that this object knows of. Positions
                that the layer has already, with the same bytes, are not appended again.

        Raises:
            errors.PreconditionFailed: the layer has another length, or other bytes at these positions.
            errors.Conflict: another request is appending to the layer.
            errors.NoRoom: the device has no room for the positions.
        """
        self._client._run(self._append(k, v, layer, position, layout))

    def _append(self, k: Any, v: Any, layer: int, position: int | None, layout: Layout) -> Plan[None]:
        keys, values, _ = self._pair(k, v, layout)
        parameters = {"position": self._length(layer) if position is None else position, "layer": layer,
                      "layout": layout}
        yield from self._ask("POST", "/append", parameters=parameters, operands=[keys, values])

    def attention(self, q: Any, k: Any = None, v: Any = None, *, layer: int = 0, position: int | None = None,
                  skv: int | None = None, causal: bool = False, window: int | None = None,
                  scale: float | None = None, softcap: float = 0.0, layout: Layout = "bhsd", mask: Any = None,
                  offset: int | None = None, lse: bool = False, priority: int = 4, timeout: float | None = None,
                  kernel: str | None = None, window_right: int | None = None, slopes: Any = None,
                  sinks: Any = None) -> Any:
        """Returns the attention of queries to the positions of a layer, an array of the library of ``q``. With ``k``
        and ``v``, which are the keys and values of as many positions as there are queries, appends these positions
        first, in the same request: all of them or, on an error, none.

        Args:
            position: of an append, as for append().
            skv: without ``k`` and ``v``, how many of the positions the queries see; default: all.

        The other arguments are those of Client.attention(), and the errors also those of append().
        """
        return self._client._run(self._attention(
            q, k, v, layer=layer, position=position, skv=skv, layout=layout, mask=mask, lse=lse, timeout=timeout,
            causal=causal, window=window, scale=scale, softcap=softcap, offset=offset, priority=priority, kernel=kernel,
            window_right=window_right, slopes=slopes, sinks=sinks))

    def _attention(self, q: Any, k: Any = None, v: Any = None, *, layer: int = 0, position: int | None = None,
                   skv: int | None = None, layout: Layout = "bhsd", mask: Any = None, slopes: Any = None,
                   sinks: Any = None, lse: bool = False, timeout: float | None = None, **options: Any) -> Plan[Any]:
        if (k is None) != (v is None):
            raise ValueError("k and v must be given together")
        queries = self._operand("q", q, None, self.d, layout)
        heads, sq = queries.shape[:2] if layout == "bhsd" else queries.shape[1::-1]
        sizes: dict[str, Any] = {"heads": heads, "sq": sq, "sequence": self.name, "layer": layer, "layout": layout}
        vectors = {"alibi": of_heads("slopes", slopes, heads), "sinks": of_heads("sinks", sinks, heads)}
        sizes |= {name: 1 for name, vector in vectors.items() if vector is not None}
        sent = [vector for vector in vectors.values() if vector is not None] + [queries]
        if k is not None:
            keys, values, count = self._pair(k, v, layout)
            if count != sq or skv is not None:
                raise ValueError(f"q has {sq} positions, and k and v have {count}; they must have as many, and skv "
                                 "cannot be given")
            position = self._length(layer) if position is None else position
            sizes |= {"append": 1, "position": position}
            sent += [keys, values]
            seen = position + sq
        elif position is not None:
            raise ValueError("position belongs to an append, with k and v")
        else:
            seen = self._length(layer) if skv is None else skv
            sizes["skv"] = seen
        if mask is not None:
            bias, settings = masked(mask, self.dtype, (1, heads, sq, seen))
            sizes |= settings
            sent.append(bias)
        parameters = attention_parameters(sizes, timeout=timeout, **options)
        plans = self._client._plans
        found = yield from plans.attend(q, parameters, sent, (*queries.shape[:2], self.dv),
                                        (heads, sq) if lse else None, plans.timeout(timeout))
        if k is not None:
            self.lengths[layer] = max(self.lengths[layer], seen)
        return found

    def kv(self, position: int = 0, count: int | None = None, *, layer: int = 0,
           layout: Layout = "bhsd") -> tuple[Array, Array]:
        """Fetches the keys and values of `count` positions; default: of all from `position` on.

        Raises:
            errors.PreconditionFailed: the layer has no such positions.
        """
        return self._client._run(self._kv(position, count, layer, layout))

    def _kv(self, position: int, count: int | None, layer: int, layout: Layout) -> Plan[tuple[Array, Array]]:
        check_layout(layout)
        parameters = {"position": position, "layer": layer, "layout": layout}
        if count is not None:
            parameters["count"] = count
        answer = yield from self._client._plans.answer("GET", self._path("/kv"), parameters=parameters)
        both = np.frombuffer(bytearray(answer.body), self.dtype)
        found = both.size // (self.kv_heads * (self.d + self.dv))
        parts = np.split(both, [self.kv_heads * found * self.d])
        order = (self.kv_heads, found) if layout == "bhsd" else (found, self.kv_heads)
        return parts[0].reshape(*order, self.d), parts[1].reshape(*order, self.dv)

    def truncate(self, length: int) -> None:
        """Shortens all layers that are longer to `length` positions.

        Raises:
            errors.PreconditionFailed: no layer has so many positions.
            errors.Conflict: a request is appending to the sequence.
        """
        self._client._run(self._ask("POST", "/truncate", parameters={"length": length}))

    def fork(self, name: str, length: int | None = None) -> Sequence:
        """Creates a sequence with the first `length` positions of each layer, which shares their memory; default: all
        positions. Replaces the sequence that had the name. PreconditionFailed: a layer has fewer positions."""
        return self._client._run(self._fork(name, length))

    def _fork(self, name: str, length: int | None) -> Plan[Sequence]:
        parameters: dict[str, Any] = {"fork": self.name}
        if length is not None:
            parameters["length"] = length
        found = yield from self._client._plans.json("PUT", sequence_path(name), parameters=parameters)
        return Sequence(self._client, found)

    def delete(self) -> None:
        """Deletes the sequence. NotFound: there is no sequence of the name."""
        self._client._run(self._delete())

    def _delete(self) -> Plan[None]:
        yield from self._client._plans.answer("DELETE", self._path())


def sequence_path(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a sequence is a {type(name).__name__}; it must be a string")
    return f"/sequences/{quote(name, safe='')}"

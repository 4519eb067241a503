"""Attentions, their operands, and what a right answer is.

The rule: the error against f64 is at most twice that of the same three steps in the precision that
gemmd promises (f32, sums one after another, rounded once to the operands' type) on operands of the
same kind, plus one rounding to that type.
"""

from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from matrices import NUMPY, ROUNDING

# The three steps' error is the largest over at least this many results, so that it says what the
# arithmetic does and not what luck a few rows had.
RESULTS = 4096


@dataclass(frozen=True)
class Attention:
    heads: int
    sq: int
    d: int
    batch: int = 1
    kv_heads: Optional[int] = None
    skv: Optional[int] = None
    dv: Optional[int] = None
    layout: str = "bhsd"
    dtype: str = "f16"
    causal: bool = False
    window: Optional[int] = None
    scale: Optional[float] = None
    softcap: Optional[float] = None
    offset: Optional[int] = None
    window_right: Optional[int] = None
    kernel: str = "auto"

    def sizes(self):
        """batch, heads, kv_heads, sq, skv, d, dv, with the defaults filled in."""
        return (self.batch, self.heads, self.kv_heads or self.heads, self.sq, self.skv or self.sq,
                self.d, self.dv or self.d)

    def parameters(self, sizes=True):
        """The query; without what self-describing bodies say themselves if not `sizes`."""
        said = ("batch", "heads", "kv_heads", "sq", "skv", "d", "dv", "dtype")
        values = {}
        for name, field in self.__dataclass_fields__.items():
            value = getattr(self, name)
            if value != field.default and value is not None and (sizes or name not in said):
                values[name] = int(value) if isinstance(value, bool) else value
        return values

    def __str__(self):
        return " ".join(f"{name}={value}" for name, value in self.parameters().items())

    def stored(self, array):
        """[batch, heads, sequence, width] as it lies in the request's layout."""
        return np.ascontiguousarray(array if self.layout == "bhsd" else array.swapaxes(1, 2))


def random_operands(problem, random, spread=1.0):
    """q, k, v as [batch, heads, sequence, width]."""
    batch, heads, kv_heads, sq, skv, d, dv = problem.sizes()
    shapes = ((batch, heads, sq, d), (batch, kv_heads, skv, d), (batch, kv_heads, skv, dv))
    return [random.uniform(-spread, spread, shape).astype(NUMPY[problem.dtype])
            for shape in shapes]


def random_mask(problem, random, shape, boolean):
    """An array of the given shape that hides a third of the keys, and all keys of the last query."""
    seen = random.random(shape) < 2 / 3
    seen[..., -1, :] &= shape[-2] == 1
    if boolean:
        return seen.view(np.int8)
    return np.where(seen, random.uniform(-2, 2, shape), -np.inf).astype(NUMPY[problem.dtype])


def mask_parameters(mask):
    return dict(mask="bool" if mask.dtype == np.int8 else "add", mask_batch=mask.shape[0],
                mask_heads=mask.shape[1], mask_sq=mask.shape[2])


def raw(problem, operands, lens=None, vectors=None):
    """`vectors`: slopes and sinks, by their names in that order."""
    head = b"" if lens is None else b"".join(np.asarray(x, "<i4").tobytes() for x in lens)
    head += b"".join(np.asarray(x, "<f4").tobytes() for x in (vectors or {}).values())
    return head + b"".join(problem.stored(array).tobytes() for array in operands)


def multiply(a, b):
    """a @ b; in f32, each sum is taken one term after another."""
    if a.dtype == np.float64:
        return a @ b
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for i in range(a.shape[1]):
        total += a[:, i, None] * b[i]
    return total


def three_steps(problem, operands, precision, lens=None, mask=None, vectors=None):
    """O and lse in `precision`, [batch, heads, sq, dv] and [batch, heads, sq]."""
    slopes, sinks = ((vectors or {}).get(name) for name in ("slopes", "sinks"))
    batch, heads, kv_heads, sq, skv, d, dv = problem.sizes()
    q, k, v = (array.astype(precision) for array in operands)
    if mask is not None:
        mask = np.where(mask, 0, -np.inf) if mask.dtype == np.int8 else mask
        mask = np.broadcast_to(mask.astype(precision), (batch, heads, sq, skv))
    scale = precision(problem.scale if problem.scale is not None else 1 / np.sqrt(d))
    out = np.zeros((batch, heads, sq, dv), precision)
    lse = np.full((batch, heads, sq), -np.inf, precision)
    for b in range(batch):
        nq, nkv = (sq, skv) if lens is None else (lens[0][b], lens[1][b])
        position = np.arange(nq)[:, None] + (nkv - nq if problem.offset is None else problem.offset)
        key = np.arange(nkv)[None, :]
        seen = np.ones((nq, nkv), bool)
        if problem.causal:
            seen &= key <= position
        if problem.window is not None:
            seen &= key >= position - problem.window
        if problem.window_right is not None:
            seen &= key <= position + problem.window_right
        if sinks is not None:
            lse[b, :, :nq] = sinks[:, None]
        unmasked = seen
        for h in range(heads):
            seen = unmasked if mask is None else unmasked & ~np.isneginf(mask[b, h, :nq, :nkv])
            rows = seen.any(axis=1)
            if not rows.any():
                continue
            seen = seen[rows]
            g = h // (heads // kv_heads)
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                scores = multiply(q[b, h, :nq][rows], k[b, g, :nkv].T) * scale
                if problem.softcap:
                    cap = precision(problem.softcap)
                    scores = cap * np.tanh(scores / cap)
                if mask is not None:
                    scores = scores + mask[b, h, :nq, :nkv][rows]
                if slopes is not None:
                    scores = scores - precision(slopes[h]) * np.abs(key - position[rows]).astype(precision)
                scores = np.where(seen, scores, precision(-np.inf))
                top = scores.max(axis=1, keepdims=True)
                if sinks is not None:
                    top = np.maximum(top, precision(sinks[h]))
                weights = np.exp(scores - top)
                total = multiply(weights, np.ones((nkv, 1), precision))
                if sinks is not None:
                    total = total + np.exp(precision(sinks[h]) - top)
                weights = weights / total
                values = v[b, g, :nkv]
                if np.isfinite(values).all():
                    result = multiply(weights, values)
                else:  # what a row does not see is not multiplied with 0
                    result = np.array([weights[i, seen[i]] @ values[seen[i]]
                                       for i in range(len(weights))])
                out[b, h, :nq][rows] = result
                lse[b, h, :nq][rows] = (top + np.log(total))[:, 0]
    return out, lse


def error_of(got, exact):
    """The largest error, and the largest number, where that is one."""
    finite = np.isfinite(exact) & np.isfinite(got)
    if not finite.any():
        return 0.0, 0.0
    return np.abs(got[finite].astype(np.float64) - exact[finite]).max(), np.abs(exact[finite]).max()


def errors_in_f32(problem, operands, lens, mask, vectors):
    """What the three steps in f32 make of O and lse: their largest errors."""
    batch, heads, _, sq, _, _, dv = problem.sizes()
    spread = max(np.abs(array[np.isfinite(array)].astype(np.float64)).max() for array in operands)
    larger = replace(problem, batch=min(64, -(-RESULTS // (heads * sq * dv))))
    more = random_operands(larger, np.random.default_rng(1), spread)
    worst = np.zeros(2)
    for case in ((problem, operands, lens, mask, vectors), (larger, more, None, None, vectors)):
        exact = three_steps(case[0], case[1], np.float64, *case[2:])
        same = three_steps(case[0], case[1], np.float32, *case[2:])
        with np.errstate(over="ignore"):
            same = (same[0].astype(NUMPY[problem.dtype]), same[1])
        worst = np.maximum(worst, [error_of(s, e)[0] for s, e in zip(same, exact)])
    return worst


def assert_near(got, exact, error_in_f32, rounding, what):
    got = got.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact), f"{what}: NaN")
    infinite = np.isinf(exact)
    np.testing.assert_array_equal(got[infinite], exact[infinite], f"{what}: infinities")
    error, largest = error_of(got, exact)
    allowed = 2 * error_in_f32 + rounding[0] * largest + rounding[1]
    assert error <= allowed, f"{what}: an error of {error:.3g}, allowed are {allowed:.3g}"


def assert_right(problem, operands, content, lens=None, lse=None, mask=None, vectors=None):
    """The raw bytes of O, and lse if it is there."""
    batch, heads, _, sq, _, _, dv = problem.sizes()
    stored = (batch, heads, sq, dv) if problem.layout == "bhsd" else (batch, sq, heads, dv)
    got = np.frombuffer(content, NUMPY[problem.dtype]).reshape(stored)
    got = got if problem.layout == "bhsd" else got.swapaxes(1, 2)
    exact = three_steps(problem, operands, np.float64, lens, mask, vectors)
    errors = errors_in_f32(problem, operands, lens, mask, vectors)
    assert_near(got, exact[0], errors[0], ROUNDING[problem.dtype], str(problem))
    if lse is not None:
        assert_near(lse, exact[1], errors[1], ROUNDING["f32"], f"lse of {problem}")

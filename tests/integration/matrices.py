"""Problems, their operands, and what a right answer is.

The rule for floating point is the second bound of proto/PROTOCOL.md ("Errors"): the error against a
computation in twice the accumulator's precision is at most twice the largest error that a chain of FMAs in the
accumulator's type makes on operands of the same kind, plus one rounding to the result's type. Integers are
exact, modulo 2^32.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

import ml_dtypes
import numpy as np
from scipy import special

NUMPY = {
    "f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16), "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "i8": np.dtype(np.int8), "i32": np.dtype(np.int32),
}
ACCUMULATOR = {"f64": np.float64, "f32": np.float32, "f16": np.float32, "bf16": np.float32,
               "f8_e4m3": np.float32, "i8": np.int32}
# Half the distance from 1 to the next number, and half the smallest number above 0.
ROUNDING = {"f64": (2.0**-53, 0.0), "f32": (2.0**-24, 2.0**-150), "f16": (2.0**-11, 2.0**-25),
            "bf16": (2.0**-8, 2.0**-134)}
OUTS = {"f64": ("f64",), "f32": ("f32", "f16", "bf16"), "f16": ("f16", "f32"),
        "bf16": ("bf16", "f32"), "f8_e4m3": ("bf16", "f16", "f32"), "i8": ("i32", "f32")}
DEFAULT_OUT = {dtype: outs[0] for dtype, outs in OUTS.items()}
ACTS = ("none", "relu", "gelu", "gelu_tanh", "silu")

# The chain's error is the largest over at least this many results, so that it says what the
# arithmetic does and not what luck one small matrix had; and over all of the problem's (the largest
# of more is larger) as long as that is no more than so many multiply-adds.
CHAIN_RESULTS = 16384
CHAIN_WORK = 1 << 28


def chain_results(problem):
    return max(CHAIN_RESULTS, CHAIN_WORK // problem.k)


@dataclass(frozen=True)
class Problem:
    m: int
    n: int
    k: int
    dtype: str = "f32"
    out: Optional[str] = None
    transa: bool = False
    transb: bool = False
    alpha: float = 1
    beta: float = 0
    batch: int = 1
    bias: bool = False
    act: str = "none"
    precision: str = "full"
    kernel: str = "auto"

    @property
    def result(self):
        return self.out or DEFAULT_OUT[self.dtype]

    def parameters(self):
        """The query, with what is not the default."""
        values = {"m": self.m, "n": self.n, "k": self.k}
        default = Problem(1, 1, 1)
        for name in ("dtype", "out", "transa", "transb", "alpha", "beta", "batch", "bias", "act",
                     "precision", "kernel"):
            value = getattr(self, name)
            if value != getattr(default, name):
                values[name] = int(value) if isinstance(value, bool) else value
        return values

    def __str__(self):
        return " ".join(f"{name}={value}" for name, value in self.parameters().items())


class Operands(NamedTuple):
    """As they are stored and sent: a [batch, m, k] or [batch, k, m] if transa, and so on."""
    a: np.ndarray
    b: np.ndarray
    bias: Optional[np.ndarray]
    c0: Optional[np.ndarray]

    def raw(self):
        return b"".join(array.tobytes() for array in self if array is not None)


def random_array(random, dtype, shape):
    if dtype in ("i8", "i32"):
        limits = np.iinfo(NUMPY[dtype])
        return random.integers(limits.min, limits.max, shape, NUMPY[dtype], endpoint=True)
    return random.uniform(-1, 1, shape).astype(NUMPY[dtype])


def random_operands(problem, random):
    p = problem
    a = (p.batch, p.k, p.m) if p.transa else (p.batch, p.m, p.k)
    b = (p.batch, p.n, p.k) if p.transb else (p.batch, p.k, p.n)
    return Operands(
        random_array(random, p.dtype, a), random_array(random, p.dtype, b),
        random_array(random, p.result, (p.n,)) if p.bias else None,
        random_array(random, p.result, (p.batch, p.m, p.n)) if p.beta else None)


def erf(x):
    """In x's own precision; scipy knows no long double. All terms have one sign (DLMF 7.6.2)."""
    if x.dtype != np.longdouble:
        return special.erf(x)
    inside = np.clip(x, -7, 7)  # beyond, 1 - |erf| is less than long double can tell from 0
    term = inside.copy()
    total = term.copy()
    for i in range(1, 400):
        term = term * (2 * inside * inside) / (2 * i + 1)
        total += term
        if np.all(np.abs(term) <= np.finfo(np.longdouble).eps * np.abs(total) / 4):
            break
    return total * np.exp(-inside * inside) * 2 / np.sqrt(np.arccos(np.longdouble(-1)))


def activate(act, x):
    one = x.dtype.type
    if act == "relu":
        return np.maximum(x, one(0))
    if act == "gelu":
        return one(0.5) * x * (one(1) + erf(x / np.sqrt(one(2))))
    if act == "gelu_tanh":
        inner = np.sqrt(one(2) / np.arccos(one(-1))) * (x + one(0.044715) * x * x * x)
        return one(0.5) * x * (one(1) + np.tanh(inner))
    if act == "silu":
        with np.errstate(over="ignore"):
            return x / (one(1) + np.exp(-x))
    return x


def finish(problem, total, c0, bias):
    """What follows the sum, in the type of `total`."""
    kind = total.dtype.type
    if kind is np.int64:  # i8 to i32: wide enough for every step, wrapped once
        value = int(problem.alpha) * total
        if c0 is not None:
            value += int(problem.beta) * c0.astype(np.int64)
        if bias is not None:
            value += bias.astype(np.int64)
        return activate(problem.act, value.astype(np.int32))
    value = kind(problem.alpha) * total
    if c0 is not None:
        value = value + kind(problem.beta) * c0.astype(kind)
    if bias is not None:
        value = value + bias.astype(kind)
    return activate(problem.act, value)


def oriented(problem, operands):
    a = operands.a.swapaxes(1, 2) if problem.transa else operands.a
    b = operands.b.swapaxes(1, 2) if problem.transb else operands.b
    return a, b


def truth(problem, operands):
    """The product [batch, m, n] in twice the accumulator's precision; int32 where C is."""
    wide = np.longdouble if problem.dtype == "f64" else np.float64
    a, b = oriented(problem, operands)
    total = a.astype(wide) @ b.astype(wide)
    if problem.result == "i32":
        total = total.astype(np.int64)  # sums of 8-bit products are exact in float64
    return finish(problem, total, operands.c0, operands.bias)


def to_tf32(array):
    """As tensor cores read float32: the low 13 bits are not there."""
    return (np.ascontiguousarray(array).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def chain(problem, operands, index):
    """One product of the batch as a chain of FMAs in the accumulator's type, in k's order.

    The wider type holds a product exactly, so that its sum with the accumulator is rounded to the
    accumulator's type as an FMA does it.
    """
    kind = ACCUMULATOR[problem.dtype]
    a, b = (array[index] for array in oriented(problem, operands))
    if kind is np.int32:
        total = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
        kind = np.float32
    else:
        wide = np.longdouble if kind is np.float64 else np.float64
        if problem.precision == "tf32":
            a, b = to_tf32(a), to_tf32(b)
        a, b = a.astype(wide), b.astype(wide)
        total = np.zeros((problem.m, problem.n), kind)
        for i in range(problem.k):
            total = (total + a[:, i, None] * b[None, i, :]).astype(kind)
    return finish(problem, total, None if operands.c0 is None else operands.c0[index],
                  operands.bias)


def largest_error(problem, operands):
    right = truth(problem, operands)
    return max(float(np.max(np.abs(chain(problem, operands, index) - right[index])))
               for index in range(problem.batch))


def lost_by_f8(problem, operands):
    """What precision=f8 loses besides: of random operands at most 2^-10 of the sum of the
    magnitudes of the products."""
    if problem.precision != "f8":
        return 0.0
    a, b = (np.abs(array.astype(np.float64)) for array in oriented(problem, operands))
    return abs(problem.alpha) * 2.0 ** -10 * (a @ b)


def some_rows(problem, operands):
    """The problem, thinned out to about as many results as a chain may have."""
    step = max(1, problem.batch * problem.m * problem.n // chain_results(problem))
    rows = slice(None, None, step)
    a = operands.a[:, :, rows] if problem.transa else operands.a[:, rows]
    c0 = None if operands.c0 is None else operands.c0[:, rows]
    sample = replace(problem, m=-(-problem.m // step))
    return sample, Operands(a, operands.b, operands.bias, c0)


def chain_error(problem, operands, random):
    """The largest error of the chain on the problem's own operands and, where these make too few
    results to tell, on fresh ones like them."""
    error = largest_error(*some_rows(problem, operands))
    if random is not None and problem.batch * problem.m * problem.n < CHAIN_RESULTS:
        n = max(problem.n, 64)
        sample = replace(problem, m=-(-CHAIN_RESULTS // n), n=n, batch=1)
        error = max(error, largest_error(sample, random_operands(sample, random)))
    return error


def decode(problem, payload):
    shape = (problem.batch, problem.m, problem.n)
    return np.frombuffer(payload, NUMPY[problem.result]).reshape(shape)


def assert_right(problem, operands, payload, random):
    """`payload` is the raw answer to `problem` on `operands`. `random` is None where the operands
    are not from random_operands, so that there are no others like them."""
    kind = NUMPY[problem.result]
    count = problem.batch * problem.m * problem.n
    assert len(payload) == count * kind.itemsize, "the answer has the wrong length"
    got = decode(problem, payload)
    expected = truth(problem, operands)
    if problem.result == "i32":
        wrong = got != expected
        allowed = np.zeros(1)
    else:
        unit, smallest = ROUNDING[problem.result]
        scale = 2 * chain_error(problem, operands, random)
        scale = scale + lost_by_f8(problem, operands)
        allowed = scale + unit * (np.abs(expected) + scale) + smallest
        difference = np.abs(got.astype(expected.dtype) - expected)
        wrong = ~(difference <= allowed)
    if not wrong.any():
        return
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    bound = np.broadcast_to(allowed, expected.shape)[first]
    raise AssertionError(
        f"{problem}: {int(wrong.sum())} of {count} results are wrong; at [batch, row, column] "
        f"{list(first)} it is {got[first]}, not {expected[first]} +- {bound:.3g}")

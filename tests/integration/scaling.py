"""Products with scales: their operands, and what a right answer is.

Right is within what any order of additions keeps: k + 8 roundings of the accumulator's type on the
sum of the magnitudes of the scaled products, and one rounding to the result's type.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Optional

import numpy as np

from matrices import NUMPY, ROUNDING, Operands, Problem, activate, oriented, random_operands

BLOCK = 128
F16_OVERFLOW = 65520  # the least magnitude that is rounded to infinity


def blocks(extent):
    return -(-extent // BLOCK)


class Scaled(NamedTuple):
    """Operands as they are stored and sent; scales always have the batch first."""
    operands: Operands
    a_scale: Optional[np.ndarray]
    b_scale: Optional[np.ndarray]

    def raw(self):
        return self.operands.raw() + b"".join(
            scale.tobytes() for scale in (self.a_scale, self.b_scale) if scale is not None)


@dataclass(frozen=True)
class ScaledProblem(Problem):
    scales: str = "rowcol"

    @property
    def result(self):
        return self.out or "bf16"

    def parameters(self):
        return super().parameters() | {"scales": self.scales}

    def shapes(self):
        """Of a_scale and b_scale."""
        if self.scales == "rowcol":
            return (self.batch, self.m), (self.batch, self.n)
        a, b = (self.m, blocks(self.k)), (blocks(self.k), blocks(self.n))
        return ((self.batch, *(a[::-1] if self.transa else a)),
                (self.batch, *(b[::-1] if self.transb else b)))


def random_scaled(problem, random):
    """Scales spread over several powers of two, as those of weights and activations are."""
    scales = [np.exp2(random.uniform(-6, 2, shape)).astype(np.float32)
              for shape in problem.shapes()]
    return Scaled(random_operands(problem, random), *scales)


def exact_scaled(problem, random):
    """Small whole numbers and scales that are powers of two: no sum is rounded in f32."""
    numbers = random_operands(problem, random)
    small = [random.integers(-2, 3, array.shape).astype(array.dtype) for array in numbers[:2]]
    scales = [np.exp2(random.integers(-2, 3, shape)).astype(np.float32)
              for shape in problem.shapes()]
    return Scaled(Operands(*small, numbers.bias, numbers.c0), *scales)


def spread(problem, scaled):
    """The scales as factors of the elements of op(A) and op(B)."""
    a, b = (scale.astype(np.float64) for scale in (scaled.a_scale, scaled.b_scale))
    if problem.scales == "rowcol":
        return a[:, :, None], b[:, None, :]
    if problem.transa:
        a = a.swapaxes(1, 2)
    if problem.transb:
        b = b.swapaxes(1, 2)
    a = np.repeat(a, BLOCK, axis=2)[:, :, :problem.k]
    b = np.repeat(np.repeat(b, BLOCK, axis=1), BLOCK, axis=2)[:, :problem.k, :problem.n]
    return a, b


def truth(problem, scaled):
    """The result and the error that it may have before it is rounded, in f64."""
    of_a, of_b = spread(problem, scaled)
    a, b = (array.astype(np.float64) for array in oriented(problem, scaled.operands))
    a, b = a * of_a, b * of_b
    total = problem.alpha * (a @ b)
    size = abs(problem.alpha) * (np.abs(a) @ np.abs(b))
    if scaled.operands.c0 is not None:
        c0 = problem.beta * scaled.operands.c0.astype(np.float64)
        total, size = total + c0, size + np.abs(c0)
    if scaled.operands.bias is not None:
        bias = scaled.operands.bias.astype(np.float64)
        total, size = total + bias, size + np.abs(bias)
    unit = ROUNDING["f32"][0]
    error = (problem.k + 8) * unit * size
    if problem.precision == "f8":
        error = error + 2.0 ** -10 * size
    return activate(problem.act, total), 1.2 * error + 32 * unit * np.abs(total)


def decode(problem, payload):
    return np.frombuffer(payload, NUMPY[problem.result]).reshape(
        problem.batch, problem.m, problem.n).astype(np.float64)


def assert_scaled(problem, scaled, payload):
    got = decode(problem, payload)
    expected, error = truth(problem, scaled)
    unit, smallest = ROUNDING[problem.result]
    allowed = error + unit * (np.abs(expected) + error) + smallest
    right = np.abs(got - expected) <= allowed
    if problem.result == "f16":
        right |= (np.abs(expected) + allowed >= F16_OVERFLOW) & (got == np.copysign(np.inf, expected))
    wrong = ~right
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(f"{problem}: {int(wrong.sum())} of {got.size} results are wrong; at "
                             f"{list(first)} it is {got[first]}, not {expected[first]} +- "
                             f"{allowed[first]:.3g}")


def unscaled(problem, scaled):
    """The same operands without scales."""
    return replace(problem, scales="none"), scaled.operands

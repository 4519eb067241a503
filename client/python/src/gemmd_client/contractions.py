"""Sums of products over dimensions of two arrays, as NumPy's tensordot and einsum have them, by one product."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from .arrays import Array, to_numpy
from .products import OUTS
from .results import Result, wanted
from .tensors import Tensor

_OPTIONS = ("out_dtype", "alpha", "act", "precision", "verify", "priority", "timeout", "kernel")
Label = Hashable  # of a dimension; dimensions of both arrays with one label are multiplied


class Contraction:
    """The product of matrices that a sum of products is: its operands `a` and `b`, the `options` of gemm() for it, and
    in `of()` what becomes of the product."""

    def __init__(self, a: Array | Tensor, b: Array | Tensor, options: dict[str, Any], shape: tuple[int, ...],
                 axes: tuple[int, ...], original: Any, out: Array | None) -> None:
        self.a, self.b, self.options = a, b, options
        self._shape, self._axes, self._original, self._out = shape, axes, original, out

    def of(self, product: Any) -> Any:
        """Returns the sums, in an array of the library of the operands or in the one to fill."""
        found = np.asarray(product)
        return Result(self._shape, found.dtype, self._out, self._original, self._axes).of(found)


def tensordot(a: Any, b: Any, axes: Any, out: Any, options: dict[str, Any]) -> Contraction:
    """Returns what numpy.tensordot(a, b, axes) is computed by."""
    left, right = _operand("a", a), _operand("b", b)
    rank_a, rank_b = len(left.shape), len(right.shape)
    try:
        count = operator.index(axes)
        if not 0 <= count <= min(rank_a, rank_b):
            raise ValueError(f"axes is {axes}; a has {rank_a} dimensions and b has {rank_b}")
        summed_a, summed_b = list(range(rank_a - count, rank_a)), list(range(count))
    except TypeError:
        summed_a, summed_b = (list(each) if isinstance(each, (tuple, list)) else [each] for each in axes)
    if len(summed_a) != len(summed_b):
        raise ValueError(f"axes is {axes}, which names {len(summed_a)} dimensions of a and {len(summed_b)} of b; the "
                         "numbers must be equal")
    labels_a: list[Label] = [("a", place) for place in range(rank_a)]
    labels_b: list[Label] = [("b", place) for place in range(rank_b)]
    for place_a, place_b in zip(summed_a, summed_b):
        for place, rank in ((place_a, rank_a), (place_b, rank_b)):
            if not -rank <= operator.index(place) < rank:
                raise np.exceptions.AxisError(place, rank)
        labels_b[place_b] = labels_a[place_a]
    if len(set(labels_b)) < rank_b or len({place % rank_a for place in summed_a}) < len(summed_a):
        raise ValueError(f"axes is {axes}, which names a dimension twice")
    kept = [label for label in (*labels_a, *labels_b) if not (label in labels_a and label in labels_b)]
    return _contract(left, labels_a, right, labels_b, kept, b if isinstance(a, Tensor) else a, out, options)


def einsum(subscripts: str, a: Any, b: Any, out: Any, options: dict[str, Any]) -> Contraction:
    """Returns what numpy.einsum(subscripts, a, b) is computed by."""
    if not isinstance(subscripts, str):
        raise TypeError(f"subscripts is a {type(subscripts).__name__}; it must be a string such as 'ij,jk->ik'")
    left, right = _operand("a", a), _operand("b", b)
    terms, arrow, named = subscripts.replace(" ", "").partition("->")
    if terms.count(",") != 1 or "," in named:
        raise ValueError(f"subscripts is '{subscripts}'; it must name two arrays, as 'ij,jk->ik' does")
    term_a, term_b = terms.split(",")
    left, labels_a = _labelled("a", left, term_a)
    right, labels_b = _labelled("b", right, term_b)
    both = [*labels_a, *(label for label in labels_b if label not in labels_a)]
    around = sorted(label for label in both if isinstance(label, int))
    if arrow:
        kept: list[Label] = _split(named, around)
    else:  # the letters that are there once, in their order
        letters = sorted(set(term_a + term_b) - {"."})
        kept = [*around, *(letter for letter in letters if (term_a + term_b).count(letter) == 1)]
    if len(set(kept)) < len(kept) or not set(kept) <= set(both):
        raise ValueError(f"subscripts is '{subscripts}'; the result must have letters of the arrays, each once")
    return _contract(left, labels_a, right, labels_b, kept, b if isinstance(a, Tensor) else a, out, options)


def _operand(name: str, value: Any) -> Array | Tensor:
    return value if isinstance(value, Tensor) else to_numpy(name, value, tuple(OUTS), "iu")


def _split(term: str, around: Sequence[Label]) -> list[Label]:
    """Returns the labels of a term: its letters, and those of the dimensions that its "..." stands for."""
    before, dots, after = term.partition("...")
    if not (before + after).isalpha() and before + after:
        raise ValueError(f"'{term}' has another character than letters and one '...'")
    return [*before, *(around if dots else ()), *after]


def _labelled(name: str, operand: Array | Tensor, term: str) -> tuple[Array | Tensor, list[Label]]:
    """Returns an operand and the labels of its dimensions. Those of "..." are numbers, which end at -1. The dimensions
    of a letter that is there twice become one, the diagonal."""
    rank = len(operand.shape)
    count = rank - len(term.replace("...", ""))
    if count < 0 or (count and "..." not in term):
        raise ValueError(f"{name} has {rank} dimensions, and '{term}' names {rank - count}")
    labels = _split(term, range(-count, 0))
    for letter in dict.fromkeys(labels):
        while labels.count(letter) > 1:
            if isinstance(operand, Tensor):
                raise ValueError(f"'{term}' names a diagonal, which a resident tensor does not have")
            first = labels.index(letter)
            second = labels.index(letter, first + 1)
            if operand.shape[first] != operand.shape[second]:
                raise ValueError(f"{name} has the shape {operand.shape}, and '{term}' names two different dimensions "
                                 f"{letter}")
            operand = np.diagonal(operand, axis1=first, axis2=second)
            del labels[second], labels[first]
            labels.append(letter)
    return operand, labels


def _contract(a: Array | Tensor, labels_a: list[Label], b: Array | Tensor, labels_b: list[Label], kept: list[Label],
              original: Any, out: Any, options: dict[str, Any]) -> Contraction:
    """Returns what computes the array with the dimensions `kept`: products over all labels, summed over the others."""
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise TypeError(f"{unknown[0]} is no argument; those are out, {', '.join(_OPTIONS)}")
    filled, chosen = wanted(out, options.get("out_dtype"))
    sizes: dict[Label, int] = {}
    for label, size in (*zip(labels_a, a.shape), *zip(labels_b, b.shape)):
        known = sizes.setdefault(label, size)
        if known != size and (label not in kept or 1 not in (known, size)):
            raise ValueError(f"a has the shape {a.shape} and b has the shape {b.shape}; dimensions that are multiplied "
                             f"have the lengths {known} and {size}")
        sizes[label] = known if size == 1 else size
    alone = [label for label in sizes if label not in kept and not (label in labels_a and label in labels_b)]
    if alone:
        raise ValueError(f"'{alone[0]}' is in one array alone and not in the result; sum over it first, with reduce()")
    batch = [label for label in kept if label in labels_a and label in labels_b]
    summed = [label for label in labels_a if label in labels_b and label not in kept]
    rows = [label for label in labels_a if label not in labels_b]
    columns = [label for label in labels_b if label not in labels_a]
    order = [*batch, *rows, *columns]
    return Contraction(_matrices("a", a, labels_a, batch, rows, summed),
                       _matrices("b", b, labels_b, batch, summed, columns),
                       {**options, "out_dtype": chosen}, tuple(sizes[label] for label in order),
                       tuple(order.index(label) for label in kept), original, filled)


def _matrices(name: str, operand: Array | Tensor, labels: list[Label], batch: list[Label], rows: list[Label],
              columns: list[Label]) -> Array | Tensor:
    """Returns an operand as matrices whose rows and columns are several dimensions each."""
    order = [*batch, *rows, *columns]
    if isinstance(operand, Tensor):
        if labels != order or len(rows) != 1 or len(columns) != 1 or len(batch) > 1:
            raise ValueError(f"the resident tensor {operand.name} is {name}, and its dimensions are not those of a "
                             "matrix, or of a batch of them, with rows and columns in place; get() it first")
        return operand
    turned = operand.transpose([labels.index(label) for label in order])
    sizes = turned.shape
    first, second = len(batch), len(batch) + len(rows)
    return turned.reshape(*sizes[:first], math.prod(sizes[first:second]), math.prod(sizes[second:]))

"""Resident matrices as operators of SciPy.

>>> from gemmd_client.scipy import linear_operator
>>> scipy.sparse.linalg.svds(linear_operator(client.put("A", a)), k=3)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .tensors import Tensor


def linear_operator(tensor: Tensor) -> LinearOperator:
    """Returns a resident matrix as an operator of scipy.sparse.linalg, for solvers such as cg(), eigsh() and svds(),
    which then send vectors only. Each product with a vector or a matrix is one request. Vectors are converted to the
    type of the tensor, in which the results are.

    Raises:
        TypeError: the tensor is not of float64 or float32.
        ValueError: the tensor is no matrix.
    """
    if tensor.dtype not in (np.float64, np.float32):
        raise TypeError(f"the tensor {tensor.name} has the type {tensor.format or tensor.dtype}; SciPy's solvers "
                        "compute with float64 and float32")
    if tensor.ndim != 2:
        raise ValueError(f"the tensor {tensor.name} has {tensor.ndim} dimensions; an operator is a matrix")

    def times(x: Any) -> Any:
        return tensor @ np.asarray(x, tensor.dtype)

    def times_transposed(x: Any) -> Any:
        return tensor.T @ np.asarray(x, tensor.dtype)

    return LinearOperator(tensor.shape, matvec=times, rmatvec=times_transposed, matmat=times, rmatmat=times_transposed,
                          dtype=tensor.dtype)

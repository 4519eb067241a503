"""Real data: scikit-learn's 1797 handwritten digits of 8 x 8 pixels."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from matrices import NUMPY, Operands, Problem, assert_right

COMPONENTS = 10


@pytest.fixture(scope="module")
def digits():
    return load_digits().data  # 1797 x 64, whole numbers from 0 to 16


def multiply(post, problem, *operands):
    arrays = [np.ascontiguousarray(array)[None] for array in operands]
    answer = post(problem.parameters(), b"".join(array.tobytes() for array in arrays))
    assert answer.status_code == 200, answer.text
    return answer.content, Operands(arrays[0], arrays[1], None, None)


@pytest.mark.parametrize("dtype", ["f64", "f32", "i8"])
def test_gram_matrix_of_whole_numbers_is_exact(dtype, digits, post):
    """Sums of 64 products up to 256 are exact in every one of these types."""
    kind = {"f64": np.float64, "f32": np.float32, "i8": np.int8}[dtype]
    x = digits.astype(kind)
    payload, _ = multiply(post, Problem(1797, 1797, 64, dtype=dtype, transb=True), x, x)
    got = np.frombuffer(payload, np.int32 if dtype == "i8" else kind).reshape(1797, 1797)
    np.testing.assert_array_equal(got, digits @ digits.T)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_projection_on_the_principal_components(dtype, digits, post):
    """By the daemon's own covariance matrix; against NumPy in float64 and scikit-learn's PCA."""
    centred = digits - digits.mean(axis=0)
    payload, _ = multiply(post, Problem(64, 64, 1797, dtype="f64", transa=True), centred, centred)
    covariance = np.frombuffer(payload, np.float64).reshape(64, 64) / (1797 - 1)
    np.testing.assert_allclose(covariance, np.cov(digits, rowvar=False), rtol=0,
                               atol=1e-12 * np.abs(covariance).max())
    variances, vectors = np.linalg.eigh(covariance)
    components = vectors[:, ::-1][:, :COMPONENTS]

    kind = NUMPY[dtype]
    problem = Problem(1797, COMPONENTS, 64, dtype=dtype)
    payload, operands = multiply(post, problem, centred.astype(kind), components.astype(kind))
    assert_right(problem, operands, payload, None)

    pca = PCA(COMPONENTS, svd_solver="full").fit(digits)
    np.testing.assert_allclose(variances[::-1][:COMPONENTS], pca.explained_variance_, rtol=1e-9)
    if dtype == "f64":
        got = np.frombuffer(payload, np.float64).reshape(1797, COMPONENTS)
        expected = pca.transform(digits)
        signs = np.sign((got * expected).sum(axis=0))  # a component's sign is free
        np.testing.assert_allclose(got * signs, expected, atol=1e-9 * np.abs(expected).max())

"""The values of parameters, such as the names of activations, in documents, clients and tests: those that
openapi.json lists, which tests/unit/test_openapi.c compares with the daemon's tables of parameters."""

import re
import sys
from typing import get_args

import http_grammar
import pytest
from matrices import ACTS, OUTS
from test_operations import OPENAPI, ROOT, query_parameters, read, resolve

sys.path[:0] = [str(ROOT / "client/python/src"), str(ROOT / "tests/bench")]

import corpus.products  # noqa: E402
from gemmd_client import arrays, attention, convolution, library, mixture, products, reductions  # noqa: E402

OPERATIONS = [path for path, methods in OPENAPI["paths"].items()
              if methods.get("post", {}).get("tags") == ["products"]]


def values(path, name):
    """The words that a parameter can be; empty if it is no word."""
    return [value for value in resolve(query_parameters(path)[name]).get("enum", []) if isinstance(value, str)]


# Which `out` there is depends on dtype, and the documents say that in other ways.
CHOICES = [(path, name) for path in OPERATIONS for name in query_parameters(path)
           if values(path, name) and name != "out"]


def section(path):
    return re.search(rf"^## POST {path}\n(.*?)(?=^## )", read("proto/PROTOCOL.md"), re.M | re.S)[1]


def rows(text, name):
    """The rows of tables about a parameter."""
    return [line for line in text.splitlines() if re.match(rf"\|[^|]*`{name}`", line)]


def test_there_are_choices():
    assert {("/gemm", "act"), ("/conv2d", "act"), ("/attention", "layout"), ("/reduce", "op")} <= set(CHOICES)


@pytest.mark.parametrize("path, name", CHOICES)
def test_the_protocol_lists_each_value(path, name):
    text = "\n".join(rows(section(path), name))
    assert text, f"proto/PROTOCOL.md has no row about {name} of {path}"
    if "as for `/gemm`" in text:
        text += "\n".join(rows(section("/gemm"), name))
    missing = [value for value in values(path, name) if f"`{value}`" not in text]
    assert missing == [], f"{name} of {path} in proto/PROTOCOL.md lacks {missing}"


@pytest.mark.parametrize("name", [name for path, name in CHOICES if path == "/gemm" and name != "dtype"])
def test_the_readme_lists_each_value(name):
    text = "\n".join(rows(read("README.md"), name))
    missing = [value for value in values("/gemm", name) if f"`{value}`" not in text]
    assert missing == [], f"{name} in README.md lacks {missing}"


@pytest.mark.parametrize("listed, path, name, where", [
    (get_args(library.Act), "/gemm", "act", "Act in gemmd_client/library.py"),
    (get_args(library.Act), "/conv2d", "act", "Act in gemmd_client/library.py"),
    (library.PRECISIONS, "/gemm", "precision", "PRECISIONS in gemmd_client/library.py"),
    (library.SCALES, "/gemm", "scales", "SCALES in gemmd_client/library.py"),
    (get_args(attention.Layout), "/attention", "layout", "Layout in gemmd_client/attention.py"),
    (get_args(convolution.ConvLayout), "/conv2d", "layout", "ConvLayout in gemmd_client/convolution.py"),
    (get_args(convolution.ConvWLayout), "/conv2d", "w_layout", "ConvWLayout in gemmd_client/convolution.py"),
    (get_args(reductions.ReduceOp), "/reduce", "op", "ReduceOp in gemmd_client/reductions.py"),
    (products.OUTS, "/gemm", "dtype", "OUTS in gemmd_client/products.py"),
    (attention.ATTENTION_TYPES, "/attention", "dtype", "ATTENTION_TYPES in gemmd_client/attention.py"),
    (convolution.CONV_TYPES, "/conv2d", "dtype", "CONV_TYPES in gemmd_client/convolution.py"),
    (reductions.REDUCE_TYPES, "/reduce", "dtype", "REDUCE_TYPES in gemmd_client/reductions.py"),
    (reductions.SOFTMAX_TYPES, "/softmax", "dtype", "SOFTMAX_TYPES in gemmd_client/reductions.py"),
    (mixture.EXPERT_TYPES, "/experts", "dtype", "EXPERT_TYPES in gemmd_client/mixture.py"),
    (get_args(library.Act), "/experts", "act", "Act in gemmd_client/library.py"),
    (ACTS, "/gemm", "act", "ACTS in tests/integration/matrices.py"),
    (http_grammar.PARAMETERS["act"], "/gemm", "act", "PARAMETERS in tests/integration/http_grammar.py"),
    (corpus.products.ACTS, "/gemm", "act", "ACTS in tests/bench/corpus/products.py"),
])
def test_a_list_has_each_value_in_order(listed, path, name, where):
    assert list(listed) == values(path, name), where


def test_the_manual_of_gemmctl_names_each_activation():
    [sentence] = re.findall(r"^The activations ([^.]*?) make that", read("client/man/options.roff"), re.M | re.S)
    assert set(re.split(r", | and ", sentence)) | {"none", "relu"} == set(ACTS)


def test_the_python_client_has_the_pairs_of_types_of_products():
    assert products.OUTS == OUTS, "OUTS in gemmd_client/products.py"


def test_the_python_client_has_the_types_and_errors_of_the_library():
    """In the order of their constants."""
    types = re.findall(r'^    X\(\w+, "(\w+)",', read("proto/include/gemmd/dtypes.h"), re.M)
    assert len(types) > 5 and list(arrays.NAMES.values()) == types, "NAMES in gemmd_client/arrays.py"
    errors = re.findall(r'^    X\(\w+, "([\w-]+)",', read("proto/include/gemmd/errors.h"), re.M)
    assert len(errors) > 30
    # A wrong argument of a call of the library is a malformed request to a caller of the client.
    wanted = ["malformed" if error == "usage" else error for error in errors]
    assert list(library._CODES) == wanted, "_CODES in gemmd_client/library.py"

"""Which resident tensors are layers, and bodies that register no shared memory."""

import uuid

import numpy as np
import pytest

from daemon import PATIENCE_S
from oip import infer, split
from problem import assert_problem
from test_tensors import Tensors


@pytest.fixture
def daemon(start):
    return start("--shm-system", "--shm-cuda")


SHAPES = {(3,): (), (3, 4): ("linear",), (2, 3, 4): ("linear",), (4, 2, 3, 3): ("conv",),
          (2, 2, 2, 2, 2): ()}


def test_a_layer_has_a_shape_and_a_type(daemon):
    """A right operand has two or three dimensions, and filters have four."""
    tensors = Tensors(daemon.url)
    for dtype in (np.float64, np.float32, np.float16, np.int8, np.int32):
        for shape in SHAPES:
            name = f"{np.dtype(dtype).name}.{len(shape)}"
            assert tensors.put(name, np.ones(shape, dtype)).status_code == 201
    answer = daemon.session.post(f"{daemon.url}/v2/repository/index", timeout=PATIENCE_S)
    listed = {entry["name"] for entry in answer.json()}
    for dtype in (np.float64, np.float32, np.float16, np.int8, np.int32):
        for shape, kinds in SHAPES.items():
            name = f"{np.dtype(dtype).name}.{len(shape)}"
            for kind in ("linear", "conv"):
                # No product and no convolution is offered in i32, and no convolution in f64.
                there = kind in kinds and dtype is not np.int32 and (kind, dtype) != ("conv", np.float64)
                model = f"{kind}.{name}"
                assert (model in listed) == there, model
                described = daemon.session.get(f"{daemon.url}/v2/models/{model}", timeout=PATIENCE_S)
                assert (described.status_code == 200) == there, model


X = np.arange(2 * 3 * 5 * 5, dtype=np.float32).reshape(2, 3, 5, 5) / 100
W = np.linspace(-1, 1, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3)


@pytest.mark.parametrize("model, path, parameters", [
    ("reduce_fp32", "/reduce", {"op": "max", "axis": 1}), ("softmax_fp32", "/softmax", {"scale": 0.5}),
    ("conv2d_fp32", "/conv2d", {"w": "filters", "padding": "1"}), ("conv.filters", "/conv2d", {"w": "filters"}),
])
def test_no_inputs_if_all_operands_are_resident(model, path, parameters, daemon):
    """The result is that of the operation's own path, in binary and in JSON."""
    tensors = Tensors(daemon.url)
    assert tensors.put("x", X).status_code == tensors.put("filters", W).status_code == 201
    own = daemon.session.post(f"{daemon.url}{path}", params={"x": "x", **parameters}, timeout=PATIENCE_S)
    assert own.status_code == 200, own.text
    if model == "conv.filters":
        parameters = {}
    for binary in (True, False):
        answer = infer(daemon.url, model, [], parameters={"x": "x", "binary_data_output": binary, **parameters})
        assert answer.status_code == 200, answer.text
        described, data = split(answer)
        got = data if binary else np.array(described["outputs"][0]["data"], np.float32).tobytes()
        assert got == own.content
    answer = infer(daemon.url, model, [], parameters=parameters)
    assert_problem(answer, 400, "expected the input 'X', which is missing")


KEY = f"/gemmd-test-{uuid.uuid4().hex}"
HANDLE = {"b64": "AAAA"}


BODIES = [
    ("system", {"key": 1, "byte_size": 1}), ("system", {"byte_size": 1}),
    ("system", {"key": "/" + 300 * "k", "byte_size": 1}), ("system", {"key": KEY}),
    ("system", {"key": KEY, "byte_size": 0}), ("system", {"key": KEY, "byte_size": -1}),
    ("system", {"key": KEY, "byte_size": "1"}), ("system", {"key": KEY, "byte_size": 1, "offset": -1}),
    ("system", {"key": KEY, "byte_size": 1, "offset": 0.5}),
    ("cuda", {"device_id": 0, "byte_size": 1}), ("cuda", {"raw_handle": {}, "device_id": 0, "byte_size": 1}),
    ("cuda", {"raw_handle": {"b64": 1}, "device_id": 0, "byte_size": 1}),
    ("cuda", {"raw_handle": HANDLE, "byte_size": 1}), ("cuda", {"raw_handle": HANDLE, "device_id": 0}),
    ("cuda", {"raw_handle": HANDLE, "device_id": -1, "byte_size": 1}),
    ("cuda", {"raw_handle": HANDLE, "device_id": 1 << 31, "byte_size": 1}),
    ("cuda", {"raw_handle": HANDLE, "device_id": 0, "byte_size": 0}),
    ("cuda", {"raw_handle": HANDLE, "device_id": 0, "byte_size": 1}),
]


def test_a_body_that_registers_nothing(daemon):
    for kind, body in BODIES:
        answer = daemon.session.post(f"{daemon.url}/v2/{kind}sharedmemory/region/r/register", json=body,
                                     timeout=PATIENCE_S)
        assert answer.status_code == 400, (kind, body, answer.text)
        status = daemon.session.get(f"{daemon.url}/v2/{kind}sharedmemory/status", timeout=PATIENCE_S)
        assert status.json() == [], (kind, body)

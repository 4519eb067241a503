"""POST /conv2d: numbers, formats, layouts, resident filters, models and bad input."""

import io

import numpy as np
import pytest
import requests
import safetensors.numpy

from conv2d import Conv2d, assert_right, random_operands, raw
from daemon import PATIENCE_S
from matrices import NUMPY
from problem import assert_problem
from test_formats import NPY, RAW, SAFETENSORS, npy
from test_leaving import OCTETS
from wire import exchange, request

TYPES = [("f32", None, None), ("f32", None, "tf32"), ("f16", None, None), ("bf16", None, None),
         ("i8", None, None), ("i8", "f32", None)]
SHAPES = [
    dict(channels=3, height=9, width=11, filters=5, r=3, s=3, padding=(1, 1, 1, 1), batch=2),
    dict(channels=8, height=12, width=10, filters=16, r=3, s=2, stride=(2, 3), padding=(0, 3, 2, 1)),
    dict(channels=16, height=14, width=15, filters=8, r=3, s=3, dilation=(2, 3), padding="same"),
    dict(channels=24, height=7, width=8, filters=17, r=1, s=1, batch=3),
    dict(channels=12, height=9, width=9, filters=12, r=5, s=5, groups=12, padding="same"),
    dict(channels=6, height=8, width=9, filters=9, r=3, s=3, groups=3, stride=(1, 2)),
]


@pytest.fixture
def convolve(url, session):
    def send(parameters, body, media_type=RAW, **headers):
        return session.post(f"{url}/conv2d", params=parameters, data=body, timeout=PATIENCE_S,
                            headers={"Content-Type": media_type, **headers})
    return send


# --- Numbers

@pytest.mark.matrix
@pytest.mark.parametrize("dtype, out, precision", TYPES, ids=str)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("layouts", [("nchw", "kcrs"), ("nhwc", "krsc"), ("nhwc", "kcrs")], ids=str)
def test_types_shapes_and_layouts(dtype, out, precision, shape, layouts, convolve, rng):
    act = "relu" if dtype == "i8" and out is None else ("none", "gelu", "silu")[shape % 3]
    problem = Conv2d(**SHAPES[shape], dtype=dtype, out=out, precision=precision, act=act,
                     bias=shape % 2 == 1, alpha=1 if shape % 3 else -2, layout=layouts[0],
                     w_layout=layouts[1])
    operands = random_operands(problem, rng)
    answer = convolve(problem.parameters(), raw(operands))
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content)


def test_every_kernel(url, session, convolve, rng):
    kernels = [kernel["name"] for kernel in
               session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
               if kernel["op"] == "conv2d"]
    assert "naive" in kernels
    for kernel in kernels:
        groups = 16 if kernel.startswith("depthwise") else 1
        problem = Conv2d(16, 13, 12, 16, 3, 3, batch=2, groups=groups, padding="same", dtype="bf16",
                         layout="nhwc", w_layout="krsc", kernel=kernel, bias=True)
        operands = random_operands(problem, rng)
        answer = convolve(problem.parameters(), raw(operands))
        assert answer.status_code == 200, answer.text
        assert answer.headers["Gemmd-Kernel"] == kernel
        assert_right(problem, operands, answer.content)


@pytest.mark.parametrize("dtype", ("f32", "f16", "i8"))
def test_an_image_has_the_same_bytes_in_any_batch(dtype, convolve, rng):
    problem = Conv2d(20, 17, 13, 33, 3, 3, batch=5, padding="same", dtype=dtype, layout="nhwc",
                     w_layout="krsc", bias=True)
    x, w, bias = random_operands(problem, rng)
    together = convolve(problem.parameters(), raw((x, w, bias))).content
    problem.batch = 1
    alone = b"".join(convolve(problem.parameters(), raw((x[i:i + 1], w, bias))).content
                     for i in range(5))
    assert together == alone


# --- Formats

def test_npy_and_safetensors(convolve, rng):
    problem = Conv2d(4, 9, 8, 6, 3, 3, batch=2, padding=(1, 0, 2, 0), bias=True)
    x, w, bias = operands = random_operands(problem, rng)
    options = problem.options()
    answer = convolve(options, npy(x) + npy(w) + npy(bias), NPY)
    assert answer.status_code == 200, answer.text
    y = np.load(io.BytesIO(answer.content))
    assert y.shape == (2, 6, 8, 8)
    assert_right(problem, operands, y.tobytes())
    del options["bias"]
    body = safetensors.numpy.save({"x": x, "w": w, "bias": bias})
    answer = convolve(options, body, SAFETENSORS)
    assert answer.status_code == 200, answer.text
    assert np.array_equal(safetensors.numpy.load(answer.content)["y"], y)
    answer = convolve(options, npy(np.asfortranarray(x)) + npy(w), NPY)
    problem.bias = False
    assert_right(problem, (x, w, None), np.load(io.BytesIO(answer.content)).tobytes())


# --- Resident filters

@pytest.mark.parametrize("w_layout", ("kcrs", "krsc"))
@pytest.mark.parametrize("dtype", ("f32", "bf16", "i8"))
def test_resident_w(dtype, w_layout, url, session, convolve, rng):
    problem = Conv2d(10, 9, 8, 6, 3, 3, batch=2, padding="same", dtype=dtype, w_layout=w_layout)
    x, w, _ = operands = random_operands(problem, rng)
    shape = ",".join(map(str, w.shape))
    put = session.put(f"{url}/tensors/conv-w", params={"dtype": dtype, "shape": shape},
                      data=w.tobytes(), timeout=PATIENCE_S)
    assert put.status_code in (200, 201), put.text
    parameters = {**problem.parameters(), "w": "conv-w"}
    for derived in ("channels", "filters", "filter_h", "filter_w", "dtype"):
        del parameters[derived]
    answer = convolve(parameters, x.tobytes())
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content)
    parameters["filters"] = 7
    assert_problem(convolve(parameters, x.tobytes()), 400, "filters", "filters")
    assert session.delete(f"{url}/tensors/conv-w", timeout=PATIENCE_S).status_code == 204
    assert_problem(convolve({**problem.parameters(), "w": "conv-w"}, x.tobytes()), 404, field="w")


# --- Resident images

@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
@pytest.mark.parametrize("dtype", ("f32", "bf16", "i8"))
def test_resident_x(dtype, layout, url, session, convolve, rng):
    problem = Conv2d(10, 9, 8, 6, 3, 3, batch=2, padding="same", dtype=dtype, layout=layout)
    x, w, _ = operands = random_operands(problem, rng)
    put = session.put(f"{url}/tensors/conv-x", data=x.tobytes(), timeout=PATIENCE_S, params={
        "dtype": dtype, "shape": ",".join(map(str, x.shape)), "contiguous": 1})
    assert put.status_code in (200, 201), put.text
    parameters = {**problem.parameters(), "x": "conv-x"}
    for derived in ("batch", "channels", "height", "width", "dtype"):
        del parameters[derived]
    answer = convolve(parameters, w.tobytes())
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content)
    parameters["height"] = 7
    assert_problem(convolve(parameters, w.tobytes()), 400, "height", "height")
    assert session.delete(f"{url}/tensors/conv-x", timeout=PATIENCE_S).status_code == 204
    assert_problem(convolve({**problem.parameters(), "x": "conv-x"}, w.tobytes()), 404, field="x")


def test_layers_one_after_another(url, session, convolve, rng):
    """Y of one layer is X of the next, whose W is resident too, so that nothing is sent."""
    first = Conv2d(3, 9, 7, 5, 3, 3, batch=2, padding="same", act="relu")
    second = Conv2d(5, 9, 7, 4, 3, 3, batch=2, stride=(2, 2))
    x, w, _ = random_operands(first, rng)
    between = convolve(first.parameters(), x.tobytes() + w.tobytes()).content
    w2 = random_operands(second, rng)[1]
    expected = convolve(second.parameters(), between + w2.tobytes())
    assert convolve({**first.parameters(), "store": "layer"}, x.tobytes() + w.tobytes()).status_code == 201
    session.put(f"{url}/tensors/conv-w2", params={"shape": "4,5,3,3"}, data=w2.tobytes(),
                timeout=PATIENCE_S).raise_for_status()
    answer = convolve({"stride": 2, "x": "layer", "w": "conv-w2"}, b"")
    assert answer.status_code == 200, answer.text
    assert answer.content == expected.content
    model = session.post(f"{url}/v2/models/conv2d_fp32/infer", timeout=PATIENCE_S, json={
        "inputs": [{"name": "W", "datatype": "FP32", "shape": list(w2.shape), "data": w2.ravel().tolist()}],
        "parameters": {"stride": 2, "x": "layer"}})
    assert model.status_code == 200, model.text
    assert np.array(model.json()["outputs"][0]["data"], np.float32).tobytes() == expected.content
    for name in ("layer", "conv-w2"):
        session.delete(f"{url}/tensors/{name}", timeout=PATIENCE_S)


def test_the_rows_of_a_resident_x(url, session, convolve, rng):
    """Where the device leaves room between rows, the answer says how to upload X without."""
    problem = Conv2d(3, 5, 7, 4, 3, 3)
    x, w, _ = operands = random_operands(problem, rng)
    for contiguous in (0, 1):
        session.put(f"{url}/tensors/conv-x", data=x.tobytes(), timeout=PATIENCE_S, params={
            "shape": "1,3,5,7", "contiguous": contiguous}).raise_for_status()
        answer = convolve({**problem.parameters(), "x": "conv-x"}, w.tobytes())
        if not contiguous and answer.status_code != 200:
            assert_problem(answer, 422, "contiguous=1", "x")
        else:
            assert_right(problem, operands, answer.content)
    session.delete(f"{url}/tensors/conv-x", timeout=PATIENCE_S)


# --- Results that stay

@pytest.mark.parametrize("layout", ("nchw", "nhwc"))
@pytest.mark.parametrize("dtype, out", [("f32", None), ("f16", None), ("i8", "f32")], ids=str)
def test_a_stored_result(dtype, out, layout, url, session, convolve, rng):
    """Its bytes are those of the answer, whatever becomes of the rows of other tensors."""
    problem = Conv2d(5, 9, 7, 11, 3, 3, batch=2, dtype=dtype, out=out, layout=layout, bias=True)
    body = raw(random_operands(problem, rng))
    plain = convolve(problem.parameters(), body)
    answer = convolve({**problem.parameters(), "store": "conv-y"}, body, Accept="text/html")
    assert answer.status_code == 201, answer.text
    shape = [2, 11, 7, 5] if layout == "nchw" else [2, 7, 5, 11]
    described = answer.json()
    assert (described["name"], described["shape"]) == ("conv-y", shape)
    assert described["dtype"] == plain.headers["Gemmd-Dtype"]
    assert answer.headers["Gemmd-Kernel"] == plain.headers["Gemmd-Kernel"]
    got = session.get(f"{url}/tensors/conv-y", timeout=PATIENCE_S)
    assert got.content == plain.content
    assert session.delete(f"{url}/tensors/conv-y", timeout=PATIENCE_S).status_code == 204


def test_operations_take_a_stored_result(url, session, convolve, rng):
    problem = Conv2d(3, 8, 9, 4, 3, 3, layout="nhwc", padding="same")
    body = raw(random_operands(problem, rng))
    y = np.frombuffer(convolve(problem.parameters(), body).content, np.float32).reshape(1, 8, 9, 4)
    # Y of one layer is W of another: one filter of 9 x 4 taps over 8 channels.
    assert convolve({**problem.parameters(), "store": "conv-w"}, body).status_code == 201
    layer = Conv2d(8, 20, 10, 1, 9, 4, dtype="f32")
    x = random_operands(layer, rng)[0]
    answer = convolve({"height": 20, "width": 10, "w": "conv-w"}, x.tobytes())
    assert answer.status_code == 200, answer.text
    assert_right(layer, (x, y, None), answer.content)
    answer = session.post(f"{url}/reduce", params={"x": "conv-w", "op": "max", "axis": 2},
                          timeout=PATIENCE_S)
    assert answer.content == y.max(2).tobytes()
    session.delete(f"{url}/tensors/conv-w", timeout=PATIENCE_S)


def test_a_job_whose_result_is_stored(url, session, convolve, rng):
    problem = Conv2d(3, 8, 9, 4, 3, 3)
    body = raw(random_operands(problem, rng))
    plain = convolve(problem.parameters(), body)
    job = convolve({**problem.parameters(), "store": "conv-job"}, body, Prefer="respond-async")
    assert job.status_code == 202, job.text
    result = session.get(f"{url}{job.headers['Location']}/result", params={"wait_ms": 10000},
                         timeout=PATIENCE_S)
    assert result.status_code == 201 and result.json()["name"] == "conv-job"
    assert session.get(f"{url}/tensors/conv-job", timeout=PATIENCE_S).content == plain.content
    session.delete(f"{url}/tensors/conv-job", timeout=PATIENCE_S)
    session.delete(f"{url}{job.headers['Location']}", timeout=PATIENCE_S)


def test_results_that_cannot_be_stored(start, tmp_path):
    """A wrong name, another tenant's name, and a result that has no room: before the body is sent."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\nbob:the-token-of-bob\n")
    tokens.chmod(0o600)
    daemon = start("--backend", "cpu", "--token-file", tokens, "--tensor-bytes", "1M", ready=False)
    daemon.wait_until_listening().wait_until_ready()
    sizes = dict(channels=1, height=4, width=4, filters=1, filter_h=1, filter_w=1)

    def ask(status, store, says, field=None, token="alice", **more):
        parameters = "&".join(f"{name}={value}" for name, value in
                              {**sizes, **more, "store": store}.items())
        head = [OCTETS, ("Authorization", f"Bearer the-token-of-{token}"), ("Content-Length", 68),
                ("Expect", "100-continue")]
        answer = exchange(daemon.address, request("POST", f"/conv2d?{parameters}", head))
        assert_problem(answer, status, says, field)

    ask(400, "a%20name", "store", "store")
    ask(507, "y", "1462272 bytes. needed", padding=300)
    ask(422, "y", "kernel", "kernel", kernel="fast")
    put = requests.post(f"{daemon.url}/conv2d", params={**sizes, "store": "hers"}, data=bytes(68),
                        headers={"Authorization": "Bearer the-token-of-alice"}, timeout=PATIENCE_S)
    assert put.status_code == 201, put.text
    ask(403, "hers", "another tenant", "store", token="bob")


# --- Jobs and models

def test_a_job(url, session, convolve, rng):
    problem = Conv2d(3, 20, 20, 8, 5, 5)
    operands = random_operands(problem, rng)
    answer = convolve(problem.parameters(), raw(operands), Prefer="respond-async")
    assert answer.status_code == 202, answer.text
    result = session.get(f"{url}{answer.headers['Location']}/result", params={"wait_ms": 10000},
                         timeout=PATIENCE_S)
    assert result.status_code == 200, result.text
    assert_right(problem, operands, result.content)
    session.delete(f"{url}{answer.headers['Location']}", timeout=PATIENCE_S)


def test_models(url, session, rng):
    problem = Conv2d(2, 5, 6, 3, 3, 3, stride=(2, 1), bias=True)
    x, w, bias = operands = random_operands(problem, rng)
    inputs = [{"name": name, "datatype": "FP32", "shape": list(array.shape),
               "data": array.ravel().tolist()}
              for name, array in (("X", x), ("W", w), ("BIAS", bias))]
    answer = session.post(f"{url}/v2/models/conv2d_fp32/infer", timeout=PATIENCE_S,
                          json={"inputs": inputs, "parameters": {"stride": "2,1"}})
    assert answer.status_code == 200, answer.text
    output = answer.json()["outputs"][0]
    assert (output["name"], output["shape"]) == ("Y", [1, 3, 2, 4])
    assert_right(problem, operands, np.array(output["data"], np.float32).tobytes())
    described = session.get(f"{url}/v2/models/conv2d_int8", timeout=PATIENCE_S).json()
    assert [tensor["datatype"] for tensor in described["outputs"]] == ["INT32"]


def test_a_resident_tensor_is_a_model(url, session, rng):
    problem = Conv2d(2, 5, 6, 3, 3, 3, padding="same", layout="nhwc", w_layout="krsc")
    x, w, _ = operands = random_operands(problem, rng)
    session.put(f"{url}/tensors/edges", params={"dtype": "f32", "shape": "3,3,3,2"},
                data=w.tobytes(), timeout=PATIENCE_S).raise_for_status()
    listed = session.post(f"{url}/v2/repository/index", json={}, timeout=PATIENCE_S).json()
    assert "conv.edges" in [model["name"] for model in listed]
    assert "linear.edges" not in [model["name"] for model in listed]
    inputs = [{"name": "X", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}]
    options = {"layout": "nhwc", "w_layout": "krsc", "padding": "same"}
    answer = session.post(f"{url}/v2/models/conv.edges/infer", timeout=PATIENCE_S,
                          json={"inputs": inputs, "parameters": options})
    assert answer.status_code == 200, answer.text
    output = answer.json()["outputs"][0]
    assert_right(problem, operands, np.array(output["data"], np.float32).tobytes())
    answer = session.post(f"{url}/v2/models/conv.edges/infer", timeout=PATIENCE_S,
                          json={"inputs": inputs, "parameters": {"w": "edges"}})
    assert answer.status_code == 400
    session.delete(f"{url}/tensors/edges", timeout=PATIENCE_S)
    assert session.get(f"{url}/v2/models/conv.edges", timeout=PATIENCE_S).status_code == 404


# --- Bad input

SMALL = dict(channels=4, height=5, width=6, filters=8, filter_h=3, filter_w=3)
BAD = [
    (dict(filter_h=6), 400, "covers 6 x 3", "filter_h"),
    (dict(dilation="1,3"), 400, "covers 3 x 7", "filter_w"),
    (dict(groups=3), 400, "multiple of groups", "groups"),
    (dict(groups=0), 400, "groups", "groups"),
    (dict(padding="-1"), 400, "padding", "padding"),
    (dict(padding="1,2,3"), 400, "padding", "padding"),
    (dict(padding="valid"), 400, "padding", "padding"),
    (dict(stride="0"), 400, "stride", "stride"),
    (dict(stride="1,1,1"), 400, "stride", "stride"),
    (dict(padding="2147483647"), 413, "output", "padding"),
    (dict(channels="2147483647", filter_h=2), 413, "filter", "channels"),
    (dict(layout="chwn"), 400, "nchw", "layout"),
    (dict(dtype="f64"), 400, "f32, f16, bf16, i8", "dtype"),
    (dict(out="f16"), 422, "out=f16", "out"),
    (dict(dtype="f16", precision="tf32"), 422, "tf32", "precision"),
    (dict(dtype="i8", alpha=0.5), 422, "alpha", "alpha"),
    (dict(alpha=1e39), 400, "f32 can hold", "alpha"),
    (dict(dtype="i8", act="gelu"), 422, "act", "act"),
    (dict(kernel="fast"), 422, "kernel", "kernel"),
    (dict(stripe=2), 400, "did you mean stride", "stripe"),
    (dict(precisions="full"), 400, "did you mean precision", "precisions"),
    (dict(store="a b"), 400, "store", "store"),
]


@pytest.mark.parametrize("change, status, says, field", BAD, ids=str)
def test_bad_parameters(change, status, says, field, convolve):
    body = np.zeros(4 * 5 * 6 + 8 * 4 * 9, np.float32).tobytes()
    assert_problem(convolve({**SMALL, **change}, body), status, says, field)


def test_missing_sizes_and_wrong_lengths(convolve):
    for name in SMALL:
        left = {key: value for key, value in SMALL.items() if key != name}
        assert_problem(convolve(left, b"1234"), 400, f"{name} is missing", name)
    half = np.zeros(4 * 5 * 6 + 8 * 4 * 9, np.float16).tobytes()
    assert_problem(convolve(SMALL, half), 400, "are the operands f16 or bf16")
    more = np.zeros(4 * 5 * 6 + 8 * 4 * 9 + 8, np.float32).tobytes()
    assert_problem(convolve(SMALL, more), 400, "is bias=1 missing")


def test_arrays_that_contradict_each_other(convolve):
    x, w = np.zeros((2, 4, 5, 6), np.float32), np.zeros((8, 2, 3, 3), np.float32)
    assert_problem(convolve({}, npy(x) + npy(w), NPY), 400, "filters of 2 channels", "groups")
    assert convolve({"groups": 2}, npy(x) + npy(w), NPY).status_code == 200
    assert_problem(convolve({"groups": 2}, npy(x[0]) + npy(w), NPY), 400, "must have 4")
    assert_problem(convolve({"groups": 2}, npy(x) + npy(w.astype(np.float16)), NPY), 400, "f16",
                   "dtype")
    assert_problem(convolve({"groups": 2, "bias": 1}, npy(x) + npy(w) + npy(np.zeros(7, "<f4")), NPY),
                   400, "filters=8", "bias")
    assert_problem(convolve({}, npy(x.astype(np.float64)) + npy(w), NPY), 422, "f64", "dtype")

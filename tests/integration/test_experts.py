"""POST /experts against f64: types, places, gates, formats, resident stacks, models and bad input."""

import io
import itertools
import re

import numpy as np
import pytest
import safetensors.numpy

import oip
from daemon import PATIENCE_S, Daemon
from failing_cuda import program_of
from matrices import ACTS, NUMPY, ROUNDING, activate, random_array
from problem import assert_problem
from test_formats import NPY, RAW, SAFETENSORS, npy

UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-24, "bf16": 2.0**-24}
TYPES = [("f64", "f64"), ("f32", "f32"), ("f32", "f16"), ("f32", "bf16"), ("f16", "f16"), ("f16", "f32"),
         ("bf16", "bf16"), ("bf16", "f32")]
SLOPE = 1.13  # of an activation, at most


class Experts:
    """A request with random operands."""

    def __init__(self, rng, m, n, k, count, topk=1, *, dtype="f32", out=None, transb=False, glu=False,
                 weights=False, bias=False, act="none", padding=0.2, **others):
        columns = 2 * n if glu else n
        self.dtype, self.out, self.transb, self.glu, self.act = dtype, out or dtype, transb, glu, act
        self.n, self.count, self.topk = n, count, topk
        self.parameters = {"m": m, "n": n, "k": k, "count": count, "topk": topk, "dtype": dtype, "out": self.out,
                           "transb": int(transb), "glu": int(glu), "weights": int(weights), "bias": int(bias),
                           "act": act, **others}
        self.a = random_array(rng, dtype, (m, k))
        self.w = random_array(rng, dtype, (count, columns, k) if transb else (count, k, columns))
        self.experts = rng.integers(0, count, (m, topk)).astype(np.int32)
        self.experts[rng.random((m, topk)) < padding] = -1
        self.weights = rng.random((m, topk)).astype(np.float32) if weights else None
        self.bias = random_array(rng, self.out, (count, columns)) if bias else None

    def arrays(self):
        named = {"a": self.a, "w": self.w, "experts": self.experts, "weights": self.weights, "bias": self.bias}
        return {name: array for name, array in named.items() if array is not None}

    def raw(self):
        return b"".join(array.tobytes() for array in self.arrays().values())

    def reference(self):
        """C and how far rounding can be from it: a sum of k products and the bias in any order, the activation, the
        gate, and a chain over the places."""
        unit, wide = UNIT[self.dtype], np.longdouble if self.dtype == "f64" else np.float64
        a = self.a.astype(wide)
        w = self.w.astype(wide)
        w = w.transpose(0, 2, 1) if self.transb else w
        total, error = np.zeros((2, a.shape[0], self.n), wide)
        for row, place in itertools.product(range(a.shape[0]), range(self.topk)):
            expert = self.experts[row, place]
            if expert < 0:
                continue
            bias = self.bias[expert].astype(wide) if self.bias is not None else 0
            sums = a[row] @ w[expert] + bias
            errors = (a.shape[1] + 8) * unit * (np.abs(a[row]) @ np.abs(w[expert]) + np.abs(bias))
            weight = wide(self.weights[row, place]) if self.weights is not None else wide(1)
            value = activate(self.act, sums[:self.n])
            value_error = SLOPE * errors[:self.n] + 16 * unit * (np.abs(sums[:self.n]) + errors[:self.n])
            if self.glu:
                up, up_error = sums[self.n:], errors[self.n:]
                value_error = value_error * (np.abs(up) + up_error) + np.abs(value) * up_error
                value = value * up
            total[row] += weight * value
            error[row] += weight * value_error + 4 * self.topk * unit * np.abs(weight * value)
        relative, least = ROUNDING[self.out]
        return total, error + relative * (np.abs(total) + error) + least

    def assert_right(self, answer):
        assert answer.status_code == 200, answer.text
        assert answer.headers["Gemmd-Shape"] == f"{len(self.a)},{self.n}"
        assert answer.headers["Gemmd-Dtype"] == self.out
        self.assert_close(np.frombuffer(answer.content, NUMPY[self.out]).reshape(-1, self.n))

    def assert_close(self, c):
        expected, error = self.reference()
        assert np.all(np.abs(c.astype(expected.dtype) - expected) <= error)
        assert np.all(c[(self.experts < 0).all(1)] == 0)


@pytest.fixture
def ask(url, session):
    def send(parameters, body, media_type=RAW, **headers):
        return session.post(f"{url}/experts", params=parameters, data=body, timeout=PATIENCE_S,
                            headers={"Content-Type": media_type, **headers})
    return send


@pytest.fixture
def stack(url, session):
    """Puts a tensor under a name that is removed afterwards."""
    names = []

    def put(name, array):
        names.append(name)
        dtype = next(key for key, value in NUMPY.items() if value == array.dtype)
        answer = session.put(f"{url}/tensors/{name}", data=array.tobytes(),
                             params={"dtype": dtype, "shape": ",".join(map(str, array.shape))})
        assert answer.status_code in (200, 201), answer.text
    yield put
    for name in names:
        session.delete(f"{url}/tensors/{name}")


# --- Numbers

@pytest.mark.parametrize("dtype, out", TYPES, ids=str)
@pytest.mark.parametrize("kernel", ("gathered", "naive"))
def test_types_and_variants(dtype, out, kernel, ask, rng):
    for number, (transb, glu, weights, bias) in enumerate(itertools.product((False, True), repeat=4)):
        problem = Experts(rng, 9, 13, 21, 4, 1 + number % 3, dtype=dtype, out=out, transb=transb, glu=glu,
                          weights=weights, bias=bias, act=ACTS[number % len(ACTS)], kernel=kernel)
        answer = ask(problem.parameters, problem.raw())
        problem.assert_right(answer)
        assert answer.headers["Gemmd-Kernel"] == kernel


@pytest.mark.parametrize("m, count, topk", [(1, 1, 1), (1, 256, 8), (70, 256, 1), (300, 1, 2), (40, 5, 8)], ids=str)
def test_places(m, count, topk, ask, rng):
    """Empty experts, one expert for all rows, more places than experts."""
    problem = Experts(rng, m, 33, 40, count, topk, dtype="bf16", out="f32", weights=True)
    problem.assert_right(ask(problem.parameters, problem.raw()))


@pytest.mark.parametrize("act", ACTS)
def test_every_activation_is_that_of_the_gate(act, ask, rng):
    problem = Experts(rng, 12, 20, 16, 3, 2, glu=True, bias=True, act=act)
    problem.assert_right(ask(problem.parameters, problem.raw()))


@pytest.mark.parametrize("precision", ("full", "tf32"))
def test_precision_of_f32(precision, ask, rng):
    """The CPU's sums are exact enough for either."""
    problem = Experts(rng, 12, 20, 300, 3, 2, precision=precision)
    problem.assert_right(ask(problem.parameters, problem.raw()))


def test_the_sum_of_the_places_has_their_order(ask):
    """In f32, 1 + 2^-24 + 2^-24 is 1, and 2^-24 + 2^-24 + 1 is more."""
    w = np.array([[[1.0]], [[2.0**-24]]], np.float32)
    a = np.ones((2, 1), np.float32)
    experts = np.array([[0, 1, 1], [1, 1, 0]], np.int32)
    answer = ask({"m": 2, "n": 1, "k": 1, "count": 2, "topk": 3}, a.tobytes() + w.tobytes() + experts.tobytes())
    assert np.frombuffer(answer.content, np.float32).tolist() == [1.0, 1.0 + 2.0**-23]


def test_a_place_that_computes_nothing_hides_what_is_not_finite(ask):
    w = np.array([[[np.inf]], [[np.nan]], [[3.0]]], np.float32)
    a = np.ones((3, 1), np.float32)
    experts = np.array([[-1, 2], [2, -1], [-1, -1]], np.int32)
    answer = ask({"m": 3, "n": 1, "k": 1, "count": 3, "topk": 2}, a.tobytes() + w.tobytes() + experts.tobytes())
    assert np.frombuffer(answer.content, np.float32).tolist() == [3.0, 3.0, 0.0]


@pytest.mark.parametrize("dtype", ("f32", "f16", "bf16"))
def test_a_row_has_the_same_bytes_whatever_the_others_are(dtype, ask, stack, rng):
    whole = Experts(rng, 60, 45, 70, 6, 2, dtype=dtype, glu=True, weights=True, act="silu")
    stack("experts.bits", whole.w)
    parameters = {"w": "experts.bits", "topk": 2, "glu": 1, "act": "silu", "weights": 1}

    def rows(chosen):
        body = b"".join(array[chosen].tobytes() for array in (whole.a, whole.experts, whole.weights))
        answer = ask({**parameters, "m": len(chosen)}, body)
        assert answer.status_code == 200, answer.text
        return np.frombuffer(answer.content, np.uint8).reshape(len(chosen), -1)
    everything = rows(np.arange(60))
    for chosen in (np.arange(60)[::-1], rng.permutation(60)[:17], np.repeat(7, 40)):
        assert np.array_equal(rows(chosen), everything[chosen])
    for row in range(0, 60, 7):
        assert np.array_equal(rows(np.array([row])), everything[[row]])


# --- Formats and residents

def test_formats(ask, rng):
    problem = Experts(rng, 10, 12, 14, 3, 2, transb=True, weights=True, bias=True)
    wanted = ask(problem.parameters, problem.raw()).content
    arrays = problem.arrays()
    own = {"transb": 1}
    answers = [
        ask({**own, "weights": 1, "bias": 1}, b"".join(map(npy, arrays.values())), NPY),
        ask({**own, "weights": 1, "bias": 1}, b"".join(npy(np.asfortranarray(each)) for each in arrays.values()), NPY),
        ask(own, safetensors.numpy.save(arrays), SAFETENSORS),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200], [answer.text for answer in answers]
    found = [np.load(io.BytesIO(answers[0].content)), np.load(io.BytesIO(answers[1].content)),
             safetensors.numpy.load(answers[2].content)["c"]]
    assert [each.tobytes() for each in found] == [wanted] * 3


def test_one_place_needs_no_second_dimension(ask, rng):
    problem = Experts(rng, 10, 12, 14, 3, weights=True)
    arrays = {name: array.ravel() if name in ("experts", "weights") else array
              for name, array in problem.arrays().items()}
    answer = ask({}, safetensors.numpy.save(arrays), SAFETENSORS)
    assert answer.status_code == 200, answer.text
    problem.assert_close(safetensors.numpy.load(answer.content)["c"])


def test_residents_and_a_stored_result(url, session, ask, stack, rng):
    """The two layers of experts, of which the first result stays on the daemon."""
    up = Experts(rng, 21, 30, 37, 4, glu=True, act="silu", dtype="f16", padding=0)
    down = rng.uniform(-1, 1, (4, 30, 11)).astype(np.float16)
    stack("experts.a", up.a)
    stack("experts.up", up.w)
    stack("experts.down", down)
    first = {"a": "experts.a", "w": "experts.up", "glu": 1, "act": "silu"}
    answer = ask(first, up.experts.tobytes())
    up.assert_right(answer)
    stored = ask({**first, "store": "experts.h"}, up.experts.tobytes())
    assert stored.status_code == 201 and stored.json()["shape"] == [21, 30], stored.text
    try:
        hidden = session.get(f"{url}/tensors/experts.h", timeout=PATIENCE_S).content
        assert hidden == answer.content
        second = ask({"a": "experts.h", "w": "experts.down"}, up.experts.tobytes())
        sent = ask({"m": 21, "w": "experts.down"}, hidden + up.experts.tobytes())
        assert second.status_code == sent.status_code == 200, second.text + sent.text
        assert second.content == sent.content
    finally:
        session.delete(f"{url}/tensors/experts.h")


def test_a_job(url, session, ask, rng):
    problem = Experts(rng, 10, 12, 14, 3, 2)
    answer = ask(problem.parameters, problem.raw(), Prefer="respond-async")
    assert answer.status_code == 202, answer.text
    result = session.get(f"{url}{answer.headers['Location']}/result", params={"wait_ms": 60000}, timeout=PATIENCE_S)
    problem.assert_right(result)
    session.delete(f"{url}{answer.headers['Location']}")


def test_models(url, session, stack, rng):
    problem = Experts(rng, 10, 12, 14, 3, 2, glu=True, weights=True, act="silu", dtype="f16", out="f32")
    inputs = [oip.Input("A", problem.a, "f16"), oip.Input("W", problem.w, "f16"),
              oip.Input("EXPERTS", problem.experts, "i32"), oip.Input("WEIGHTS", problem.weights, "f32")]
    options = {"glu": True, "act": "silu", "out": "f32", "binary_data_output": True}
    answer = oip.infer(url, "experts_fp16", inputs, session, parameters=options)
    assert answer.status_code == 200, answer.text
    described, data = oip.split(answer)
    assert described["outputs"][0]["name"] == "C" and described["outputs"][0]["shape"] == [10, 12]
    problem.assert_close(np.frombuffer(data, np.float32).reshape(10, 12))
    stack("experts.model", problem.w)
    resident = oip.infer(url, "experts_fp16", [inputs[0], *inputs[2:]], session,
                         parameters={**options, "w": "experts.model"})
    assert resident.status_code == 200, resident.text
    assert oip.split(resident)[1] == data
    wrong = oip.Input("EXPERTS", np.full((10, 2), 3, np.int32), "i32")
    refused = oip.infer(url, "experts_fp16", [*inputs[:2], wrong, inputs[3]], session, parameters=options)
    assert refused.status_code == 400 and "row 0 has expert 3 at place 0" in refused.text


def test_a_request_is_explained_and_counted(url, session, ask, rng):
    problem = Experts(rng, 10, 12, 14, 3, 2)
    assert ask(problem.parameters, problem.raw()).status_code == 200
    found = session.get(f"{url}/info", params={"explain": "experts", **problem.parameters}, timeout=PATIENCE_S).json()
    assert found["explanation"]["kernel"] == "gathered"
    metrics = session.get(f"{url}/metrics", timeout=PATIENCE_S).text
    assert 'gemmd_requests_total{op="experts"' in metrics


def test_a_gpu_has_no_kernel_yet(gemmd):
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    daemon = Daemon(program, "--backend", "cuda")
    try:
        url = daemon.wait_until_listening().wait_until_ready().url
        answer = daemon.session.post(f"{url}/experts", params=GOOD, data=BODY, timeout=PATIENCE_S)
        assert_problem(answer, 422, "^experts in f32 is not offered on the cuda backend; these types are: none$", "dtype")
        daemon.stop()
    finally:
        daemon.close()


# --- Bad input

GOOD = {"m": 2, "n": 2, "k": 2, "count": 2}
BODY = bytes(2 * 2 * 4 + 2 * 2 * 2 * 4) + np.array([0, -1], np.int32).tobytes()


@pytest.mark.parametrize("change, status, field, text", [
    ({"m": 0}, 400, "m", "m is '0'; it must be a whole number from 1"),
    ({"m": None}, 400, "m", "m is missing; raw bodies need m, n, k and count"),
    ({"count": None}, 400, "count", "count is missing"),
    ({"topk": 0}, 400, "topk", "topk is '0'; it must be a whole number from 1"),
    ({"topk": 2}, 400, None, "56 bytes"),
    ({"glu": 2}, 400, "glu", "it must be 0 or 1"),
    ({"glu": 1}, 400, None, "is glu=1 wrong"),
    ({"weights": 1}, 400, None, "are the weights missing"),
    ({"bias": 1}, 400, None, "is the bias missing"),
    ({"dtype": "i8"}, 400, "dtype", "f64, f32, f16, bf16"),
    ({"dtype": "f64"}, 400, None, "are the operands f32"),
    ({"out": "f64"}, 422, "out", "experts of f32 to f64 are not offered"),
    ({"dtype": "f16", "precision": "tf32"}, 422, "precision", "precision=tf32 is offered for operands of f32"),
    ({"act": "swish"}, 400, "act", "silu"),
    ({"kernel": "best"}, 422, "kernel", "gathered, naive"),
    ({"w": "nothing.there"}, 404, "w", "nothing.there"),
    ({"x": "t"}, 400, "x", "those of /experts are"),
    ({"n": 2147483647, "glu": 1}, 413, "n", "2*n columns"),
    ({"n": 2147483647, "k": 2147483647, "count": 2147483647}, 413, None, ""),
], ids=str)
def test_bad_parameters(change, status, field, text, ask):
    parameters = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    assert ask(GOOD, BODY).status_code == 200
    answer = ask(parameters, BODY)
    assert_problem(answer, status, re.escape(text), field)


@pytest.mark.parametrize("number", (2, -2, 2147483647, -2147483648))
@pytest.mark.parametrize("kernel", ("gathered", "naive"))
def test_a_number_that_no_expert_has(number, kernel, ask, rng):
    """The message names the row and nothing is computed."""
    problem = Experts(rng, 40, 5, 7, 2, 3, padding=0, kernel=kernel)
    problem.experts[33, 2] = number
    answer = ask(problem.parameters, problem.raw())
    assert_problem(answer, 400, f"^row 33 has expert {number} at place 2; W has the experts 0 to 1, ", "experts")
    arrays = safetensors.numpy.save(problem.arrays())
    assert_problem(ask({}, arrays, SAFETENSORS), 400, "row 33", "experts")
    problem.experts[33, 2] = -1
    problem.assert_right(ask(problem.parameters, problem.raw()))


@pytest.mark.parametrize("change, status, text", [
    ({"experts": np.zeros((4, 2), np.int64)}, 422, "I64"),
    ({"experts": np.zeros((3, 2), np.int32)}, 400, "m"),
    ({"experts": np.zeros((4, 3), np.int32)}, 400, "topk"),
    ({"experts": np.zeros((4, 2, 1), np.int32)}, 400, "m, topk"),
    ({"experts": np.zeros((4, 2), np.float32)}, 400, "i32"),
    ({"experts": None}, 400, "the tensor 'experts' is missing"),
    ({"weights": np.zeros((4, 2), np.float16)}, 400, "f32"),
    ({"weights": np.zeros(4, np.float32)}, 400, "topk"),
    ({"w": np.zeros((3, 5), np.float32)}, 400, "3: count, k, columns"),
    ({"w": np.zeros((3, 6, 5), np.float32)}, 400, "k"),
    ({"w": np.zeros((3, 5, 7), np.float16)}, 400, "both must be the same"),
    ({"w": None}, 400, "the tensor 'w' is missing"),
    ({"a": np.zeros(5, np.float32)}, 400, "2: m, k"),
    ({"bias": np.zeros((3, 6), np.float32)}, 400, "shape 3,7"),
    ({"bias": np.zeros(7, np.float32)}, 400, "shape 3,7"),
    ({"extra": np.zeros(7, np.float32), "bias": None}, 400, "extra"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_bad_arrays(change, status, text, ask):
    arrays = {"a": np.zeros((4, 5), np.float32), "w": np.zeros((3, 5, 7), np.float32),
              "experts": np.zeros((4, 2), np.int32), "weights": np.zeros((4, 2), np.float32),
              "bias": np.zeros((3, 7), np.float32)}
    assert ask({}, safetensors.numpy.save(arrays), SAFETENSORS).status_code == 200
    arrays = {name: array for name, array in {**arrays, **change}.items() if array is not None}
    answer = ask({}, safetensors.numpy.save(arrays), SAFETENSORS)
    assert answer.status_code == status and text in answer.json()["detail"], answer.text


def test_an_odd_number_of_columns_has_no_gate(ask):
    arrays = {"a": np.zeros((4, 5), np.float32), "w": np.zeros((3, 5, 7), np.float32),
              "experts": np.zeros((4, 2), np.int32)}
    answer = ask({"glu": 1}, safetensors.numpy.save(arrays), SAFETENSORS)
    assert_problem(answer, 400, "the number must be even", "glu")


def test_residents_that_do_not_fit(ask, stack):
    stack("experts.flat", np.zeros((4, 5), np.float32))
    stack("experts.i8", np.zeros((2, 4, 5), np.int8))
    stack("experts.stack", np.zeros((2, 4, 5), np.float32))
    assert_problem(ask({"m": 1, "w": "experts.flat"}, bytes(20)), 400)
    answer = ask({"m": 1, "w": "experts.i8"}, bytes(20))
    assert_problem(answer, 422, "experts are offered in f64, f32, f16 and bf16", "dtype")
    assert_problem(ask({"m": 1, "k": 5, "w": "experts.stack"}, bytes(20)), 400, field="k")
    assert_problem(ask({"m": 1, "count": 3, "w": "experts.stack"}, bytes(20)), 400, field="count")
    assert ask({"m": 1, "w": "experts.stack"}, bytes(20)).status_code == 200
    assert_problem(ask({"m": 1, "w": "experts.stack", "a": "experts.stack"}, bytes(4)), 400)

"""Bodies that do not hold what their parameters or headers say."""

import io
import json
import re
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest

from daemon import PATIENCE_S
from problem import assert_problem

pytestmark = pytest.mark.hostile

A = np.array([[0, 1], [2, 3]], np.float32)
B = np.array([[4, 5], [6, 7]], np.float32)
GOOD = {"m": 2, "n": 2, "k": 2}
RAW = A.tobytes() + B.tobytes()
NPY = "application/x-npy"
SAFETENSORS = "application/vnd.safetensors"


@pytest.fixture(autouse=True)
def goes_on(post):
    """Whatever was refused, the next request is answered."""
    yield
    answer = post(GOOD, RAW)
    assert answer.status_code == 200, answer.text
    np.testing.assert_array_equal(np.frombuffer(answer.content, np.float32), [6, 7, 26, 31])


# ---- raw ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("length", [0, 1, 31, 33, 64, 4096])
def test_raw_of_wrong_length(length, post):
    body = (RAW * 200)[:length]
    assert_problem(post(GOOD, body), 400, rf"{length} bytes.*take 32")


@pytest.mark.parametrize("extra", [{"bias": 1}, {"beta": 1}, {"batch": 2}])
def test_raw_without_an_operand(extra, post):
    assert_problem(post({**GOOD, **extra}, RAW), 400, r"32 bytes.*take \d+")


def body_of(m, n, k, dtype, extra=0):
    return bytes((m * k + k * n + extra) * np.dtype(dtype).itemsize)


@pytest.mark.parametrize("parameters, body, asks", [
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "f8"), "are the operands f64 [(]dtype[)]"),
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "f2"), "are the operands f16 or bf16 [(]dtype[)]"),
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "i1"), "are the operands f8_e4m3 or i8 [(]dtype[)]"),
    ({"m": 3, "n": 5, "k": 7, "dtype": "f64"}, body_of(3, 5, 7, "f4"), "are the operands f32 [(]dtype[)]"),
    ({"m": 3, "n": 5, "k": 7}, bytes(3 * 7 * 4), "is B missing"),
    ({"m": 3, "n": 5, "k": 7}, bytes(5 * 7 * 4), "is A missing"),
    ({"m": 3, "n": 5, "k": 7, "bias": 1}, body_of(3, 5, 7, "f4"), "is bias missing"),
    ({"m": 3, "n": 5, "k": 7, "beta": 2}, body_of(3, 5, 7, "f4"), "is C0 missing"),
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "f4", 5), "is bias=1 missing"),
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "f4", 15), "is beta missing"),
    ({"m": 7, "n": 5, "k": 3}, body_of(3, 5, 7, "f4"), "are m and k swapped"),
    ({"m": 3, "n": 7, "k": 5}, body_of(3, 5, 7, "f4"), "are n and k swapped"),
    ({"m": 3, "n": 5, "k": 7}, body_of(3, 5, 7, "f4") * 9, "is batch=9 missing"),
    (GOOD, RAW[:16], "are the operands f16 or bf16 [(]dtype[)], or is A or B missing"),
])
def test_a_wrong_length_that_has_an_explanation(parameters, body, asks, post):
    assert_problem(post(parameters, body), 400, f"{len(body)} bytes; m=.* take [0-9]+; {asks}[?]$")


@pytest.mark.parametrize("length", [0, 1, 33])
def test_a_wrong_length_that_nothing_explains(length, post):
    """No guess is better than a wrong one."""
    assert_problem(post(GOOD, bytes(length)), 400, "take 32$")


def test_a_wrong_length_of_other_bodies(session, url):
    sizes = {"heads": 1, "sq": 2, "d": 4}
    body = bytes(3 * 2 * 4 * 4)
    assert_problem(session.post(f"{url}/attention", params=sizes, data=body), 400,
                   "take 48; are the operands f32 [(]dtype[)][?]$")
    sizes["dtype"] = "f32"
    assert_problem(session.post(f"{url}/attention", params=sizes, data=body + bytes(8)), 400,
                   "take 96; is lens=1 missing[?]$")
    assert_problem(session.put(f"{url}/tensors/x?shape=2,3", data=bytes(48)), 400,
                   "takes 24; are the operands f64 [(]dtype[)][?]$")


# ---- JSON ---------------------------------------------------------------------------------------

JSON = b'{"a": [[1, 2], [3, 4]], "b": [[1, 2], [3, 4]]}'


@pytest.mark.parametrize("path, query, field, says", [
    ("gemm", "", "m", "m is missing; raw bodies need m, n and k, .*; .npy and safetensors need their "
                      "Content-Type; the body is JSON, which"),
    ("conv2d", "?channels=1&height=2&width=2&filters=1", "filter_h",
     "filter_h is missing; .*; .npy and safetensors need their Content-Type; the body is JSON, which"),
    ("gemm", "?m=2&n=2&k=2", None, "the body is JSON, and /gemm takes the bytes"),
    ("gemm", "?m=2&n=2&k=2&act=x", "act", "act is 'x'; .*; the body is JSON, which"),
    ("attention", "", "heads", "heads .*; the body is JSON, which"),
    ("attention", "?heads=1&sq=1&d=4", None, "the body is JSON, and /attention takes the bytes")])
@pytest.mark.parametrize("lead", [b"", b"\n  "])
def test_json_is_pointed_to_the_inference_protocol(path, query, field, says, lead, session, url):
    model = f"{path}_fp32"
    answer = session.post(f"{url}/{path}{query}", data=lead + JSON)
    assert_problem(answer, 400, f"^{says}.* POST /v2/models/{model}/infer takes", field=field)
    answer = session.post(f"{url}/{path}{query}", data=JSON,
                          headers={"Content-Type": "application/json; charset=utf-8"})
    assert_problem(answer, 415, f"octet-stream.*; POST /v2/models/{model}/infer takes JSON$")
    assert session.get(f"{url}/v2/models/{model}").status_code == 200, "which is there"


def test_bytes_that_only_begin_as_json_does(post):
    assert_problem(post(GOOD, b"{\x00" + bytes(60)), 400, "62 bytes; m=2")
    answer = post(GOOD, b'{"' + bytes(30))
    assert answer.status_code == 200, "of the right length"


# ---- npy ----------------------------------------------------------------------------------------

def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version=version, allow_pickle=True)
    return out.getvalue()


def npy_with(header, data=b"", version=1, length=None):
    text = header.encode("latin-1") if isinstance(header, str) else header
    size = len(text) if length is None else length
    packed = struct.pack("<H" if version == 1 else "<I", size)
    return b"\x93NUMPY" + bytes([version, 0]) + packed + text + data


HEADER = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n"

BAD_NPY = {
    "empty": (b"", 400, "A is missing"),
    "only A": (npy(A), 400, "B is missing"),
    "surplus": (npy(A) + npy(B) + b"\0", 400, "arrays take"),
    "a third array": (npy(A) + npy(B) + npy(A), 400, "arrays take"),
    "not npy": (b"PK\x03\x04" + bytes(100), 400, "NUMPY"),
    "text": (b"1 2 3 4\n", 400, "NUMPY"),
    "cut in the magic": (npy(A) + b"\x93NU", 400, "cut short"),
    "cut in the header": (npy(A) + npy(B)[:40], 400, "cut short"),
    "cut in the data": (npy(A) + npy(B)[:-1], 400, "take|there are"),
    "header runs past the end": (npy_with(HEADER, length=60000), 400, "cut short"),
    "header of 4 GiB": (npy_with(HEADER, version=2, length=0xFFFFFFFF), 400, "at most"),
    "version 9": (npy_with(HEADER, A.tobytes(), version=9), 400, "version"),
    "no dict": (npy_with("[1, 2]\n"), 400, "dict"),
    "code": (npy_with("{'descr': __import__('os').system('true')}\n"), 400, "dict"),
    "no shape": (npy_with("{'descr': '<f4', 'fortran_order': False}\n", A.tobytes()), 400, "dict"),
    "shape twice": (npy_with(HEADER.replace("}", "'shape': (2, 2)}"), A.tobytes()), 400, "dict"),
    "unknown key": (npy_with(HEADER.replace("}", "'x': (2, 2)}"), A.tobytes()), 400, "dict"),
    "negative shape": (npy_with(HEADER.replace("(2, 2)", "(-2, -2)"), A.tobytes()), 400, "dict"),
    "zero rows": (npy(np.zeros((0, 2), np.float32)) + npy(B), 400, "m is 0"),
    "shape beyond 64 bits": (npy_with(HEADER.replace("(2, 2)", "(%d, 2)" % 2**64)), 400, "dict"),
    "size beyond 63 bits": (npy_with(HEADER.replace("(2, 2)", "(%d, %d)" % (2**40, 2**40))), 400,
                            "63 bits"),
    "more than there is": (npy_with(HEADER.replace("(2, 2)", "(1000, 1000)"), A.tobytes()), 400,
                           "4000000 bytes"),
    "nine dimensions": (npy(np.zeros((1,) * 9, np.float32)) + npy(B), 400, "dimensions"),
    "four dimensions": (npy(np.zeros((1, 1, 2, 2), np.float32)) + npy(B), 400, "dimensions"),
    "a vector": (npy(A[0]) + npy(B), 400, "dimensions"),
    "a scalar": (npy(np.float32(1)) + npy(B), 400, "scalar"),
    "big-endian": (npy(A.astype(">f4")) + npy(B.astype(">f4")), 422, "big-endian"),
    "objects": (npy(np.array([[1, "x"]], object)) + npy(B), 422, "not offered"),
    "structured": (npy(np.zeros((2, 2), [("x", "<f4")])) + npy(B), 422, "structured"),
    "strings": (npy(np.array([["x"]])) + npy(B), 422, "not offered"),
    "complex": (npy(A.astype(np.complex64)) + npy(B.astype(np.complex64)), 422, "not offered"),
    "bool": (npy(A > 1) + npy(B > 1), 422, "not offered"),
    "int64": (npy(A.astype(np.int64)) + npy(B.astype(np.int64)), 422, "not offered"),
    "int32": (npy(A.astype(np.int32)) + npy(B.astype(np.int32)), 422, "not offered"),
    "two types": (npy(A) + npy(B.astype(np.float64)), 400, "the same"),
    "inner sizes": (npy(np.zeros((2, 3), np.float32)) + npy(B), 400, "k is 2"),
    "batches": (npy(np.zeros((2, 2, 2), np.float32)) + npy(np.zeros((3, 2, 2), np.float32)), 400,
                "batch is 3"),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_bad_npy(name, post):
    body, status, says = BAD_NPY[name]
    answer = post({}, body, NPY)
    document = assert_problem(answer, status, says, field=json.loads(answer.content).get("field"))
    assert document.get("field") in (None, "m", "n", "k", "batch", "dtype")


@pytest.mark.parametrize("parameters, field", [
    ({"m": 3}, "m"), ({"n": 3}, "n"), ({"k": 3}, "k"), ({"batch": 2}, "batch"),
    ({"dtype": "f64"}, "dtype")])
def test_npy_against_its_parameters(parameters, field, post):
    assert_problem(post(parameters, npy(A) + npy(B), NPY), 400, field, field=field)


def test_npy_bias_of_the_wrong_length(post):
    body = npy(A) + npy(B) + npy(np.zeros(3, np.float32))
    assert_problem(post({"bias": 1}, body, NPY), 400, "length n=2", field="bias")


def test_npy_c0_of_the_wrong_type(post):
    body = npy(A) + npy(B) + npy(np.zeros((2, 2), np.float64))
    assert_problem(post({"beta": 1}, body, NPY), 400, "C0", field="beta")


# ---- safetensors --------------------------------------------------------------------------------

def safetensors(header, data=RAW, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape=(2, 2), begin=0, end=16, dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


FINE = {"a": entry(), "b": entry(begin=16, end=32)}
PLAIN = json.dumps(FINE).encode()

BAD_SAFETENSORS = {
    "empty": (b"", 400, "8 bytes"),
    "cut in the length": (safetensors(FINE)[:7], 400, "8 bytes"),
    "cut in the header": (safetensors(FINE)[:40], 400, "header takes"),
    "cut in the data": (safetensors(FINE)[:-1], 400, "past the 31 bytes"),
    "surplus": (safetensors(FINE) + b"\0", 400, "take 32 bytes"),
    "length of 2^64-1": (safetensors(FINE, length=2**64 - 1), 400, "at most"),
    "length of 2^63": (safetensors(FINE, length=2**63), 400, "at most"),
    "length beyond the end": (safetensors(FINE, length=60000), 400, "header takes"),
    "not JSON": (safetensors(b"{'a': 1}"), 400, "not JSON"),
    "not UTF-8": (safetensors(b'{"\xff": 1}'), 400, "not JSON"),
    "not an object": (safetensors([1, 2]), 400, "object"),
    "deep JSON": (safetensors(b'{"a":' + b"[" * 20000 + b"]" * 20000 + b"}"), 400, "deeper"),
    "duplicate names": (safetensors(PLAIN[:-1] + b"," + PLAIN[1:]), 400, "[Dd]uplicate"),
    "no b": (safetensors({"a": entry()}, A.tobytes()), 400, "a and b"),
    "unknown name": (safetensors({**FINE, "x": entry((0,), 32, 32)}), 400, "'x'"),
    "no dtype": (safetensors({**FINE, "b": {"shape": [2, 2], "data_offsets": [16, 32]}}), 400,
                 "dtype"),
    "no shape": (safetensors({**FINE, "b": {"dtype": "F32", "data_offsets": [16, 32]}}), 400,
                 "shape"),
    "unknown dtype": (safetensors({**FINE, "b": entry(begin=16, end=32, dtype="F4")}), 422, "F4"),
    "int64": (safetensors({"a": entry((1, 2), 0, 16, "I64"), "b": entry((2, 1), 16, 32, "I64")}),
              422, "I64"),
    "two types": (safetensors({**FINE, "b": entry((2, 4), 16, 32, "F16")}), 400, "the same"),
    "offsets overlap": (safetensors({**FINE, "b": entry(begin=8, end=24)}), 400, "overlaps"),
    "offsets the same": (safetensors({**FINE, "b": entry()}), 400, "overlaps"),
    "offsets leave a hole": (safetensors({**FINE, "b": entry(begin=20, end=36)}, RAW + bytes(4)),
                             400, "hole"),
    "offsets backwards": (safetensors({**FINE, "b": entry(begin=32, end=16)}), 400, "backwards"),
    "offsets past the end": (safetensors({**FINE, "b": entry(begin=16, end=48)}), 400, "past"),
    "offsets of 2^63": (safetensors({**FINE, "b": entry(begin=2**63, end=2**63 + 16)}), 400, ""),
    "offsets negative": (safetensors({**FINE, "b": entry(begin=-16, end=0)}), 400, "whole numbers"),
    "offsets fractional": (safetensors({**FINE, "b": entry(begin=16.5, end=32.5)}), 400,
                           "whole numbers"),
    "offsets and shape disagree": (safetensors({**FINE, "b": entry((2, 3), 16, 32)}), 400,
                                   "shape takes"),
    "shape negative": (safetensors({**FINE, "b": entry((-2, -2), 16, 32)}), 400, "whole numbers"),
    "shape overflows": (safetensors({**FINE, "b": entry((2**62, 2**62), 16, 32)}), 400, "shape"),
    "nine dimensions": (safetensors({**FINE, "b": entry((1,) * 8 + (4,), 16, 32)}), 400,
                        "dimensions"),
    "four dimensions": (safetensors({**FINE, "b": entry((1, 1, 2, 2), 16, 32)}), 400, "dimensions"),
    "inner sizes": (safetensors({**FINE, "b": entry((4, 1), 16, 32)}), 400, "k is 4"),
    "metadata": (safetensors({"__metadata__": {"x": 1}, **FINE}), 400, "__metadata__"),
}


@pytest.mark.parametrize("name", BAD_SAFETENSORS)
def test_bad_safetensors(name, post):
    body, status, says = BAD_SAFETENSORS[name]
    answer = post({}, body, SAFETENSORS)
    document = assert_problem(answer, status, says, field=json.loads(answer.content).get("field"))
    assert document.get("field") in (None, "m", "n", "k", "batch", "dtype")


def test_lying_headers_with_ml_dtypes(post):
    """A file that is right but for one dtype name that has another width."""
    fine = {"a": entry((2, 4), 0, 16, "BF16"), "b": entry((4, 2), 16, 32, "BF16")}
    data = np.ones(16, ml_dtypes.bfloat16).tobytes()
    good = post({}, safetensors(fine, data), SAFETENSORS)
    assert good.status_code == 200, good.text
    fine["b"]["dtype"] = "F8_E4M3"
    assert_problem(post({}, safetensors(fine, data), SAFETENSORS), 400, "shape takes")


# ---- what explains a wrong body -------------------------------------------------------------------

@pytest.mark.parametrize("path, query", [
    ("gemm", "m=2&n=2&k=2"), ("attention", "heads=1&sq=1&skv=1&d=16"), ("reduce", "op=sum&shape=8"),
    ("softmax", "shape=8"),
    ("conv2d", "channels=1&height=2&width=2&filters=1&filter_h=2&filter_w=2")])
def test_curl_is_told_how_to_send_bytes(path, query, url, tmp_path):
    """`curl -d @FILE` ends at the first zero byte, and sends the same Content-Type as --data-binary."""
    file = tmp_path / "operands.bin"
    file.write_bytes(bytes(32))
    told = subprocess.run(["curl", "-sS", "-d", f"@{file}", f"{url}/{path}?{query}"], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=True).stdout
    assert re.search("body is 0 bytes.*--data-binary", json.loads(told)["detail"])
    file.write_bytes(bytes(4))
    told = subprocess.run(["curl", "-sS", "--data-binary", f"@{file}", "-H", "Content-Type: application/octet-stream",
                           f"{url}/{path}?{query}"], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=True).stdout
    assert "--data-binary" not in told


@pytest.mark.parametrize("path, arrays, short, name, following", [
    ("gemm", [A, B], 0, "A", "B"), ("gemm?bias=1", [A, B, A[0]], 1, "B", "bias"),
    ("gemm?bias=1", [A, B, A[0]], 0, "A", "B"),
    ("attention", [np.ones((1, 1, 1, 16), np.float16)] * 3, 0, "Q", "K"),
    ("attention", [np.ones((1, 1, 1, 16), np.float16)] * 3, 1, "K", "V"),
    ("softmax?lens=1", [np.ones(2, np.int32), A], 0, "the lengths", "X"),
    ("conv2d", [A.reshape(1, 1, 2, 2), B.reshape(1, 1, 2, 2)], 0, "X", "W")])
@pytest.mark.parametrize("missing", [1, 4, 8])
def test_the_array_that_is_short_is_blamed(path, arrays, short, name, following, missing, url, session):
    """An .npy array that lacks bytes of its shape moves the start of the array behind it."""
    parts = [npy(array) for array in arrays]
    parts[short] = parts[short][:-missing]
    answer = session.post(f"{url}/{path}", data=b"".join(parts), headers={"Content-Type": NPY})
    assert_problem(answer, 400, f"^{name}: the .npy array lacks {missing} bytes .*that of {following} starts too early")

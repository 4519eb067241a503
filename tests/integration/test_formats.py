"""The three body formats, in and out, as NumPy and the safetensors library write and read them."""

import io

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from matrices import NUMPY, OUTS, Problem, assert_right, random_operands

RAW = "application/octet-stream"
NPY = "application/x-npy"
SAFETENSORS = "application/vnd.safetensors"
# Which NumPy cannot name: they travel as void types of the same size.
CARRIER = {"bf16": "V2", "f8_e4m3": "V1"}


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def squeeze(operands):
    """Without the batch dimension where there is one problem."""
    return [array[0] if array is not None and array.ndim == 3 and array.shape[0] == 1 else array
            for array in operands]


def npy_body(operands, order="C", version=None):
    arrays = [array for array in squeeze(operands) if array is not None]
    return b"".join(npy(np.asarray(array, order=order), version) for array in arrays)


def safetensors_body(operands):
    names = zip(("a", "b", "bias", "c"), squeeze(operands))
    return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in names
                                   if array is not None})


def encode(media_type, operands):
    if media_type == RAW:
        return operands.raw()
    return npy_body(operands) if media_type == NPY else safetensors_body(operands)


def shape_of(problem):
    shape = (problem.m, problem.n)
    return shape if problem.batch == 1 else (problem.batch, *shape)


def read(answer, problem):
    """The payload's raw bytes, after checking that the format says what they are."""
    kind = NUMPY[problem.result]
    media_type = answer.headers["Content-Type"]
    if media_type == NPY:
        file = io.BytesIO(answer.content)
        array = np.lib.format.read_array(file)
        assert file.read() == b"", "bytes after the array"
        expected = np.dtype(CARRIER.get(problem.result, kind))
        assert array.dtype == expected
    elif media_type == SAFETENSORS:
        # safetensors.numpy reads no bf16, though it writes it.
        ((name, tensor),) = safetensors.deserialize(answer.content)
        assert (name, tensor["dtype"]) == ("c", problem.result.upper())
        array = np.frombuffer(tensor["data"], kind).reshape(tensor["shape"])
    else:
        assert media_type == RAW
        return answer.content
    assert array.shape == shape_of(problem)
    return array.tobytes()


def parameters_for(media_type, problem):
    """What the format does not say by itself."""
    parameters = problem.parameters()
    if media_type != RAW:
        for name in ("m", "n", "k", "batch", "dtype"):
            parameters.pop(name, None)
        if media_type == SAFETENSORS:
            parameters.pop("bias", None)
    return parameters


@pytest.mark.matrix
@pytest.mark.parametrize("dtype, out", [(d, o) for d, outs in OUTS.items() for o in outs])
@pytest.mark.parametrize("sent", [RAW, NPY, SAFETENSORS])
@pytest.mark.parametrize("wanted", [RAW, NPY, SAFETENSORS])
def test_in_and_out(dtype, out, sent, wanted, post, rng):
    problem = Problem(5, 7, 3, dtype=dtype, out=out, batch=2, bias=True, beta=1)
    operands = random_operands(problem, rng)
    answer = post(parameters_for(sent, problem), encode(sent, operands), sent, Accept=wanted)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == wanted
    assert_right(problem, operands, read(answer, problem), rng)


@pytest.mark.parametrize("media_type", [RAW, NPY, SAFETENSORS])
def test_the_answer_comes_in_the_format_of_the_request(media_type, post, rng):
    problem = Problem(2, 3, 4)
    operands = random_operands(problem, rng)
    answer = post(parameters_for(media_type, problem), encode(media_type, operands), media_type)
    assert answer.headers["Content-Type"] == media_type
    assert_right(problem, operands, read(answer, problem), rng)


@pytest.mark.parametrize("accept, expected", [
    ("*/*", NPY), ("application/*", NPY), (RAW, RAW), (f"{RAW};q=0.5, {SAFETENSORS}", SAFETENSORS),
    (f"text/html, {SAFETENSORS};q=0.1", SAFETENSORS), (f"{NPY};q=0, */*", None),
    ("Application/X-NPY", NPY)])
def test_accept(accept, expected, post, rng):
    problem = Problem(2, 3, 4)
    answer = post({}, npy_body(random_operands(problem, rng)), NPY, Accept=accept)
    assert answer.status_code == 200, answer.text
    if expected is None:
        assert answer.headers["Content-Type"] != NPY
    else:
        assert answer.headers["Content-Type"] == expected


@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_fortran_order(transa, transb, batch, post, rng):
    """Column-major arrays mean the same matrices, in every operand."""
    problem = Problem(5, 7, 3, transa=transa, transb=transb, batch=batch, bias=True, beta=-2)
    operands = random_operands(problem, rng)
    parameters = parameters_for(NPY, problem)
    answer = post(parameters, npy_body(operands, order="F"), NPY)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)


def test_one_fortran_and_one_c_array(post, rng):
    problem = Problem(5, 7, 3)
    operands = random_operands(problem, rng)
    a, b = squeeze(operands)[:2]
    for first, second in (("C", "F"), ("F", "C")):
        body = npy(np.asarray(a, order=first)) + npy(np.asarray(b, order=second))
        assert_right(problem, operands, read(post({}, body, NPY), problem), rng)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(version, post, rng):
    problem = Problem(2, 3, 4)
    operands = random_operands(problem, rng)
    answer = post({}, npy_body(operands, version=version), NPY)
    assert_right(problem, operands, read(answer, problem), rng)


@pytest.mark.parametrize("dtype, carrier", [("bf16", np.uint16), ("f8_e4m3", np.uint8)])
def test_npy_of_unsigned_carriers(dtype, carrier, post, rng):
    """uint16 is bf16 and uint8 is f8 where the request says so, and nothing where it doesn't."""
    problem = Problem(2, 3, 4, dtype=dtype)
    operands = random_operands(problem, rng)
    body = b"".join(npy(array.view(carrier)) for array in squeeze(operands)[:2])
    answer = post({"dtype": dtype}, body, NPY)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)
    assert post({}, body, NPY).status_code == 422


def test_ml_dtypes_arrays_travel_as_numpy_writes_them(post, rng):
    problem = Problem(2, 3, 4, dtype="bf16", out="f32")
    operands = random_operands(problem, rng)
    assert operands.a.dtype == ml_dtypes.bfloat16
    answer = post({"out": "f32"}, npy_body(operands), NPY)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)


def test_parameters_may_repeat_what_the_arrays_say(post, rng):
    problem = Problem(2, 3, 4, dtype="f16", batch=2)
    operands = random_operands(problem, rng)
    answer = post(problem.parameters(), npy_body(operands), NPY)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)


def test_unaligned_tensors(post, rng):
    """A safetensors header of any length: the data after it start at any byte."""
    problem = Problem(5, 7, 3, dtype="f64")
    operands = random_operands(problem, rng)
    body = safetensors_body(operands)
    length = int.from_bytes(body[:8], "little")
    for padding in range(8):
        header = body[8:8 + length].rstrip(b" ") + b" " * padding
        moved = len(header).to_bytes(8, "little") + header + body[8 + length:]
        answer = post({}, moved, SAFETENSORS)
        assert answer.status_code == 200, answer.text
        assert_right(problem, operands, read(answer, problem), rng)


def test_tensors_in_any_order_with_metadata(post, rng):
    problem = Problem(5, 7, 3, bias=True)
    operands = random_operands(problem, rng)
    a, b, bias, _ = squeeze(operands)
    body = safetensors.numpy.save({"bias": bias, "b": b, "a": a}, metadata={"from": "a test"})
    answer = post({}, body, SAFETENSORS)
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)


def test_chunked_npy_of_unknown_length(url, session, rng):
    """A pipe: the body's length is nowhere said, and grows past the first piece of memory."""
    problem = Problem(600, 500, 700)
    operands = random_operands(problem, rng)
    body = npy_body(operands)
    pieces = (body[i:i + 100_000] for i in range(0, len(body), 100_000))
    answer = session.post(f"{url}/gemm", data=pieces, headers={"Content-Type": NPY})
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, read(answer, problem), rng)

"""Properties of the formats and of the protocol, for arrays and requests that Hypothesis makes up from --seed: what
is sent over one connection is answered as it would be alone, an array is the same in every format, and a wrong body
is an error on its own request only. A failure prints the smallest example that Hypothesis has found."""

import gzip
import io
import json
from typing import NamedTuple

import hypothesis
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir

import attention
import conv2d
from matrices import ACTS, NUMPY, OUTS, Problem, random_array, random_operands
from oip import DATATYPE, MODEL, Input
from oip import body as inference
from problem import assert_problem
from test_tensors import DTYPE, NPY, RAW, SAFETENSORS, Tensors, encode
from wire import Wire, exchange, request

FORMATS = (RAW, NPY, SAFETENSORS)
# Headers that say when and how a request was answered, not what the answer is.
OF_THE_MOMENT = {"date", "server-timing", "gemmd-batch"}
REPEATED = ("X-Request-Id", "property")  # answers name the request, which has to be the same one


@pytest.fixture(name="holds")
def holds_for_examples(request, instrumented, tmp_path):
    """holds(check, name=strategy, ...): calls check(name=example, ...) for examples that follow from --seed."""
    set_hypothesis_home_dir(tmp_path)  # or it makes a folder in the current one

    def holds(check, **strategies):
        settings = hypothesis.settings(max_examples=60 if instrumented else 300, deadline=None, database=None,
                                       suppress_health_check=list(hypothesis.HealthCheck))
        hypothesis.seed(request.config.option.seed)(settings(hypothesis.given(**strategies)(check)))()

    return holds


SIZES = st.tuples(*[st.integers(1, 9)] * 3)
CHUNKS = st.sampled_from((0, 0, 0, 1, 7, 1000))  # a chunked request may be the last one of its connection
# Elements follow from one number, since Hypothesis takes long to draw them one by one.
RANDOM = st.integers(0, 2**32 - 1).map(np.random.default_rng)


class Asked(NamedTuple):
    """A request, and how its body is sent."""
    method: str
    target: str
    headers: tuple = ()
    body: bytes = b""
    chunk: int = 0  # 0: the length is announced
    expect: bool = False
    compressed: bool = False

    def data(self):
        headers, body = [*self.headers, REPEATED], self.body
        if self.expect:
            headers.append(("Expect", "100-continue"))
        if self.compressed:
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body)
        if not self.chunk:
            return request(self.method, self.target, [*headers, ("Content-Length", len(body))], body)
        pieces = [body[at:at + self.chunk] for at in range(0, len(body), self.chunk)]
        return request(self.method, self.target, [*headers, ("Transfer-Encoding", "chunked")],
                       b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in [*pieces, b""]))


def query(**parameters):
    return "&".join(f"{name}={value}" for name, value in parameters.items())


def of_format(media_type, arrays):
    """The body of a product in a format."""
    if media_type == SAFETENSORS:
        return safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return b"".join(encode(media_type, array) for array in arrays.values())


@st.composite
def products(draw):
    dtype = draw(st.sampled_from(sorted(OUTS)))
    out = draw(st.sampled_from(OUTS[dtype]))
    problem = Problem(*draw(SIZES), dtype=dtype, out=out, transa=draw(st.booleans()), transb=draw(st.booleans()),
                      batch=draw(st.integers(1, 3)), act=draw(st.sampled_from(ACTS[:2] if out == "i32" else ACTS)))
    operands = random_operands(problem, draw(RANDOM))
    media_type, accepted = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(FORMATS))
    return Asked("POST", f"/gemm?{query(**problem.parameters())}",
                 (("Content-Type", media_type), ("Accept", accepted)),
                 of_format(media_type, {"a": operands.a, "b": operands.b}),
                 draw(CHUNKS), draw(st.booleans()), draw(st.booleans()))


@st.composite
def arrays_to_reduce(draw):
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    array = random_array(draw(RANDOM), "f32", shape)
    path = draw(st.sampled_from(("/reduce?op=mean", "/reduce?op=argmax&axis=0", "/softmax?log=1")))
    return Asked("POST", path, (("Content-Type", NPY),), encode(NPY, array), draw(CHUNKS))


@st.composite
def attentions(draw):
    problem = attention.Attention(heads=draw(st.integers(1, 3)), sq=draw(st.integers(1, 9)), d=draw(st.integers(1, 9)),
                                  batch=draw(st.integers(1, 2)), dtype=draw(st.sampled_from(("f32", "f16", "bf16"))),
                                  layout=draw(st.sampled_from(("bhsd", "bshd"))), causal=draw(st.booleans()))
    operands = [problem.stored(operand) for operand in attention.random_operands(problem, draw(RANDOM))]
    media_type = draw(st.sampled_from(FORMATS))
    return Asked("POST", f"/attention?{query(**problem.parameters(sizes=media_type == RAW))}",
                 (("Content-Type", media_type),), of_format(media_type, dict(zip("qkv", operands))),
                 draw(CHUNKS), draw(st.booleans()), draw(st.booleans()))


@st.composite
def convolutions(draw):
    groups, (filters, channels, height) = draw(st.integers(1, 2)), draw(SIZES)
    problem = conv2d.Conv2d(channels=groups * channels, height=height, width=draw(st.integers(1, 9)),
                            filters=groups * filters, r=draw(st.integers(1, height)), s=1, groups=groups,
                            batch=draw(st.integers(1, 2)), dtype=draw(st.sampled_from(("f32", "f16", "i8"))),
                            layout=draw(st.sampled_from(("nchw", "nhwc"))))
    x, w, _ = conv2d.random_operands(problem, draw(RANDOM))
    media_type = draw(st.sampled_from(FORMATS))
    parameters = problem.parameters() if media_type == RAW else problem.options() | {"dtype": problem.dtype}
    return Asked("POST", f"/conv2d?{query(**parameters)}", (("Content-Type", media_type),),
                 of_format(media_type, {"x": x, "w": w}), draw(CHUNKS), draw(st.booleans()), draw(st.booleans()))


@st.composite
def inferences(draw):
    m, n, k = draw(SIZES)
    random, binary = draw(RANDOM), draw(st.booleans())
    data, headers = inference([Input("A", random_array(random, "f32", (m, k)), binary=binary),
                               Input("B", random_array(random, "f32", (k, n)), binary=True)],
                              parameters={"binary_data_output": draw(st.booleans())})
    return Asked("POST", f"/v2/models/{MODEL['f32']}/infer", tuple(headers.items()), data)


WITHOUT_BODY = st.sampled_from([Asked("GET", target) for target in (
    "/livez", "/openapi.json", "/v2", "/v2/models/gemm_fp32", "/tensors", "/nothing/is/here", "/gemm")])
REQUESTS = st.one_of(products(), attentions(), convolutions(), arrays_to_reduce(), inferences(), WITHOUT_BODY)


def told(answer):
    """What a client is told by an answer."""
    return (answer.status, answer.body,
            {name: value for name, value in answer.headers.items() if name not in OF_THE_MOMENT})


def final(wire):
    """The next answer that is no 100."""
    while (answer := wire.receive()).status < 200:
        pass
    return answer


def exchange_final(address, data):
    with Wire(address) as wire:
        wire.send(data)
        return final(wire)


def test_a_connection_changes_no_answer(holds, address):
    """The requests are sent at once, cut into pieces anywhere. With libmicrohttpd before 1.0 a chunked request is the
    last one of its connection."""
    def check(asked, cuts):
        together = []
        for one in asked:
            together.append((one, exchange_final(address, one.data())))
            assert one.method != "POST" or together[-1][1].status == 200, together[-1]
            if ends(together[-1][1]):
                compare(together, cuts)
                together = []
        if together:
            compare(together, cuts)

    def compare(together, cuts):
        data = b"".join(one.data() for one, _ in together)
        cuts = sorted({0, *(int(cut * len(data)) for cut in cuts), len(data)})
        with Wire(address) as wire:
            for begin, end in zip(cuts, cuts[1:]):
                wire.send(data[begin:end])
            for one, answer in together:
                assert told(final(wire)) == told(answer), one
            assert not ends(answer) or wire.closed(), one

    holds(check, asked=st.lists(REQUESTS, min_size=1, max_size=8), cuts=st.lists(st.floats(0, 1), max_size=4))


def ends(answer):
    """Whether an answer says that its connection ends."""
    return answer.headers.get("connection") == "close"


@st.composite
def arrays(draw, dtypes=tuple(NUMPY), rank=8):
    """An array of any bits."""
    kind = NUMPY[draw(st.sampled_from(dtypes))]
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=rank))
    count = int(np.prod(shape))
    some = draw(st.binary(min_size=kind.itemsize, max_size=8 * kind.itemsize))
    return np.resize(np.frombuffer(some, np.uint8), count * kind.itemsize).view(kind).reshape(shape)


def bytes_in(media_type, body, name="tensor"):
    """The bytes of the elements in an answer."""
    if media_type == RAW:
        return body
    if media_type == NPY:
        return np.lib.format.read_array(io.BytesIO(body)).tobytes()
    length = int.from_bytes(body[:8], "little")
    begin, end = json.loads(body[8:8 + length])[name]["data_offsets"]
    return body[8 + length + begin:8 + length + end]


def test_a_tensor_is_the_same_in_every_format(holds, url):
    tensors = Tensors(url)

    def check(array, sent, fortran):
        stored = np.asfortranarray(array) if fortran and sent == NPY else array
        assert tensors.put("property", stored, sent).status_code in (200, 201)
        for media_type in FORMATS:
            answer = tensors.get("property", Accept=media_type)
            assert answer.headers["Content-Type"] == media_type
            assert (answer.headers["Gemmd-Dtype"], answer.headers["Gemmd-Shape"]) == (
                DTYPE[array.dtype], ",".join(map(str, array.shape)))
            assert bytes_in(media_type, answer.content) == array.tobytes(), media_type

    try:
        holds(check, array=arrays(), sent=st.sampled_from(FORMATS), fortran=st.booleans())
    finally:
        tensors.send("DELETE", "property")


JSON_TYPES = ("f64", "f32", "i8", "i32")


def greatest(address, target, headers, body):
    """The answer to a reduction to the greatest elements."""
    answer = exchange_final(address, request("POST", target, [*headers, ("Content-Length", len(body))], body))
    assert answer.status == 200, answer
    return answer.body


def test_an_operand_is_the_same_in_every_format(holds, address):
    """The greatest of one element is that element. JSON has neither NaN nor infinities."""
    def check(array, fortran):
        dtype, x = DTYPE[array.dtype], array[..., np.newaxis]
        shape = query(dtype=dtype, shape=",".join(map(str, x.shape)))
        for media_type in FORMATS:
            stored = np.asfortranarray(x) if fortran and media_type == NPY else x
            body = safetensors.numpy.save({"x": x}) if media_type == SAFETENSORS else encode(media_type, stored)
            y = greatest(address, f"/reduce?op=max&{shape if media_type == RAW else ''}", [
                ("Content-Type", media_type), ("Accept", media_type)], body)
            assert same_elements(bytes_in(media_type, y, "y"), array), media_type
        if dtype in JSON_TYPES and np.all(np.isfinite(array)):
            body, _ = inference([Input("X", x, dtype, binary=False)], parameters={"op": "max"})
            answer = greatest(address, f"/v2/models/{reduction(dtype)}/infer", [], body)
            (y,) = json.loads(answer, parse_int=float)["outputs"]
            assert same_elements(np.array(y["data"]).astype(array.dtype).tobytes(), array), "JSON"

    holds(check, array=arrays(("f64", "f32", "f16", "bf16", "i8", "i32"), rank=7), fortran=st.booleans())


def reduction(dtype):
    return f"reduce_{DATATYPE[dtype].lower()}"


def same_elements(data, array):
    """Whether the bytes are the elements of an array: NaN for NaN, and otherwise the same bits."""
    got = np.frombuffer(data, array.dtype).reshape(array.shape)
    nan = np.isnan(array.astype(np.float64))
    return np.array_equal(nan, np.isnan(got.astype(np.float64))) and got[~nan].tobytes() == array[~nan].tobytes()


A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(3, 4)
RIGHT = (A @ B).tobytes()
V2_TARGET = f"/v2/models/{MODEL['f32']}/infer"


def sent_as(media_type):
    """A product as (target, headers, body), with a body that says by itself what it is."""
    if media_type == "JSON":
        body, _ = inference([Input("A", A, binary=False), Input("B", B, binary=False)],
                            parameters={"binary_data_output": True})
        return V2_TARGET, (), body
    return "/gemm?m=2&n=4&k=3" if media_type == RAW else "/gemm", (("Content-Type", media_type),), of_format(
        media_type, {"a": A, "b": B})


# Space behind a JSON document is no error.
NO_SPACE = bytes(ord("!") if chr(byte).isspace() else byte for byte in range(256))


class Sent(NamedTuple):
    """A product whose body may have been damaged, and the statuses that its answer may have."""
    data: bytes
    statuses: tuple


@st.composite
def sent_products(draw):
    target, headers, body = sent_as(draw(st.sampled_from((*FORMATS, "JSON"))))
    how, statuses = draw(st.sampled_from(("right", "short", "long", "changed"))), (400,)
    at = draw(st.integers(0, len(body) - 1))
    if how == "right":
        statuses = (200,)
    elif how == "short":
        body = body[:at]
    elif how == "long":
        body += draw(st.binary(min_size=1, max_size=100)).translate(NO_SPACE)
    else:
        body = body[:at] + draw(st.binary(min_size=1, max_size=4)) + body[at + 1:]
        statuses = (200, 400, 413, 422)
    return Sent(request("POST", target, [*headers, ("Content-Length", len(body))], body), statuses)


def test_a_wrong_body_is_an_error_on_its_own_request(holds, address):
    """A body that is changed may still be right. Every other one is answered as it deserves, on the same connection
    unless an answer says that the connection ends."""
    def check(asked):
        wire = Wire(address)
        try:
            for one in asked:
                wire.send(one.data)
                answer = wire.receive()
                assert answer.status in one.statuses, (answer, one)
                if answer.status != 200:
                    assert_problem(answer, answer.status, field=json.loads(answer.body).get("field"))
                elif one.statuses == (200,):
                    assert answer.body.endswith(RIGHT), one
                if ends(answer):
                    assert wire.closed()
                    wire.socket.close()
                    wire = Wire(address)
        finally:
            wire.socket.close()
        assert exchange(address, request("GET", "/livez")).status == 200

    holds(check, asked=st.lists(sent_products(), min_size=1, max_size=6))

"""Convolutions, reductions and softmaxes on memory that a client shares: with its connection (Gemmd-Memory),
and in regions of the inference protocol."""

import numpy as np
import pytest
import tritonclient.http as http

from daemon import PATIENCE_S
from oip import DATATYPE
from problem import assert_problem
from test_memory import Answer, connection, header, memory, query  # noqa: F401 (fixtures)
from test_memory import daemon as memory_daemon  # noqa: F401 (a fixture)
from test_regions import client, given, refused, region, wanted  # noqa: F401 (fixtures)
from test_regions import daemon as region_daemon  # noqa: F401 (a fixture)

SIZE = 1 << 20
RAW = "application/octet-stream"


@pytest.fixture
def daemon(request):
    """The daemon that the fixtures of the test's connection or client use."""
    name = "memory_daemon" if "connection" in request.fixturenames else "region_daemon"
    return request.getfixturevalue(name)


def draw(rng, dtype, *shape):
    if dtype in (np.int8, np.int32):
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.uniform(-1, 1, shape).astype(dtype)


# Path, parameters, and the type and shape of each operand that can be shared, in the order of a raw body.
CASES = {
    "conv2d": ("conv2d", dict(channels=3, height=7, width=9, filters=5, filter_h=3, filter_w=2, batch=2,
                              bias=1, stride="2,1", padding="same"),
               {"x": (np.float32, 2, 3, 7, 9), "w": (np.float32, 5, 3, 3, 2), "bias": (np.float32, 5)}),
    "conv2d i8": ("conv2d", dict(channels=4, height=5, width=5, filters=6, filter_h=3, filter_w=3, dtype="i8",
                                 out="f32", bias=1, layout="nhwc", groups=2),
                  {"x": (np.int8, 1, 5, 5, 4), "w": (np.int8, 6, 2, 3, 3), "bias": (np.float32, 6)}),
    "reduce rows": ("reduce", dict(shape="3,5,131", op="logsumexp"), {"x": (np.float32, 3, 5, 131)}),
    "reduce columns": ("reduce", dict(shape="70,33", op="sum", axis=0, dtype="i32", out="f64"),
                       {"x": (np.int32, 70, 33)}),
    "softmax": ("softmax", dict(shape="4,6,50", scale=0.5, dtype="f16", out="f32"),
                {"x": (np.float16, 4, 6, 50)}),
    "softmax log": ("softmax", dict(shape="3,700", log=1, dtype="f64"), {"x": (np.float64, 3, 700)}),
}


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_same_bytes_as_by_http(case, gap, connection, memory, rng):
    path, parameters, shapes = CASES[case]
    target = f"/{path}?{query(parameters)}"
    operands = {name: draw(rng, *shape) for name, shape in shapes.items()}
    body = b"".join(array.tobytes() for array in operands.values())
    status, _, expected = connection.post(target, body, Content_Type=RAW)
    assert status == 200, expected
    places, at = {}, gap
    for name, array in operands.items():
        memory.put(at, array)
        places[name] = at
        at += array.nbytes + gap
    free = (at + 63) // 64 * 64
    status, headers, body = connection.post(target, **header(places | {"y": free}))
    assert (status, body) == (200, b""), body
    assert memory.map[free:free + len(expected)] == expected
    assert not any(memory.map[free + len(expected):free + len(expected) + 64])
    # The result in the answer, and all operands but the last in the body.
    assert connection.post(target, **header(places))[2] == expected
    last = list(places)[-1]
    rest = b"".join(array.tobytes() for name, array in operands.items() if name != last)
    if rest:
        assert connection.post(target, rest, Content_Type=RAW,
                               **header({last: places[last], "y": free}))[0] == 200
        assert memory.map[free:free + len(expected)] == expected


def test_shared_resident_and_stored(connection, memory, memory_daemon, rng):
    """X in shared memory, W resident, and Y stored; and Y of one request is X of the next in place."""
    x, w = draw(rng, np.float32, 1, 3, 6, 6), draw(rng, np.float32, 4, 3, 3, 3)
    memory_daemon.session.put(f"{memory_daemon.url}/tensors/shared-w", data=w.tobytes(), timeout=PATIENCE_S,
                              params={"dtype": "f32", "shape": "4,3,3,3"}).raise_for_status()
    memory.put(0, x)
    plain = "/conv2d?channels=3&height=6&width=6&filters=4&filter_h=3&filter_w=3"
    expected = connection.post(plain, x.tobytes() + w.tobytes(), Content_Type=RAW)[2]
    target = "/conv2d?height=6&width=6&w=shared-w"
    status, _, body = connection.post(f"{target}&store=shared-y", **header({"x": 0}))
    assert status == 201, body
    got = memory_daemon.session.get(f"{memory_daemon.url}/tensors/shared-y", timeout=PATIENCE_S)
    assert got.content == expected
    assert connection.post(target, **header({"x": 0, "y": 4096}))[0] == 200
    assert memory.map[4096:4096 + len(expected)] == expected
    weights = connection.post("/softmax?shape=16,4", expected, Content_Type=RAW)[2]
    assert connection.post("/softmax?shape=16,4", **header({"x": 4096, "y": 8192}))[0] == 200
    assert memory.map[8192:8192 + len(weights)] == weights
    total = connection.post("/reduce?x=shared-y&axis=1")[2]
    assert connection.post("/reduce?x=shared-y&axis=1", **header({"y": 12288}))[0] == 200
    assert memory.map[12288:12288 + len(total)] == total
    for name in ("shared-w", "shared-y"):
        memory_daemon.session.delete(f"{memory_daemon.url}/tensors/{name}")


CONV = "/conv2d?channels=1&height=2&width=2&filters=1&filter_h=1&filter_w=1"


@pytest.mark.parametrize("target, places, says", [
    (CONV, "x=0, w=64, bias=128", "does not have"), (CONV, "x=0, w=64, c=128", "does not have"),
    (CONV + "&w=nobody", "x=0", None), (CONV, f"x={SIZE - 15}, w=0", "x: 16 bytes from offset"),
    (CONV, f"x=0, w={2**64 - 2}", "w: 4 bytes from offset"), (CONV, "x=0, w=64, y=66", "multiple of the 4"),
    (CONV, "x=0, w=64, y=12", "overwrite an operand"), (CONV, "x=0, w=64, y=52", "overwrite an operand"),
    (CONV + "&bias=1", "x=0, w=64, bias=128, y=116", "overwrite an operand"),
    (CONV, f"x=0, w=64, y={SIZE - 12}", "y: 16 bytes"), (CONV, "x=0", "the body is 0 bytes"),
    (CONV + "&store=y", "x=0, w=64, y=128", "not both"),
    ("/reduce?shape=4,4", "x=0, w=64", "does not have"), ("/reduce?shape=4,4", f"x={SIZE - 63}", "x: 64 bytes"),
    ("/reduce?shape=4,4", "x=0, y=48", "overwrite an operand"),
    ("/reduce?shape=4,4&store=y", "x=0, y=64", "not both"),
    ("/reduce?shape=4,4&op=argmax", "x=0, y=65", "multiple of the 4"),
    ("/softmax?shape=4,4&lens=1", "x=0, lens=64", "only come in the body"),
    ("/softmax?shape=4,4", "x=0, y=0", "overwrite an operand"),
    ("/softmax?shape=4,4", f"x=0, y={SIZE - 60}", "y: 64 bytes"),
    ("/softmax?shape=4,4&store=y", "x=0, y=64", "not both"),
])
def test_wrong_places(target, places, says, connection):
    answer = Answer(connection.post(target, Gemmd_Memory=places))
    if says is None:
        assert_problem(answer, 404, field="w")
    else:
        assert_problem(answer, 400, says, "store" if "store" in target else None)
    assert connection.post(CONV, **header({"x": 0, "w": 0}))[0] == 200


def test_experts_whose_numbers_are_in_the_body(connection, memory, rng):
    """The other operands and the result are in shared memory, where a client could change the numbers later."""
    target = "/experts?m=4&n=5&k=6&count=3&topk=2&weights=1&bias=1"
    operands = {name: draw(rng, np.float32, *shape) for name, shape in
                {"a": (4, 6), "w": (3, 6, 5), "weights": (4, 2), "bias": (3, 5)}.items()}
    numbers = rng.integers(-1, 3, (4, 2)).astype(np.int32)
    body = b"".join(each.tobytes() for each in (operands["a"], operands["w"], numbers, operands["weights"],
                                                operands["bias"]))
    status, _, expected = connection.post(target, body, Content_Type=RAW)
    assert status == 200, expected
    places, at = {}, 0
    for name, array in operands.items():
        memory.put(at, array)
        places[name] = at
        at += (array.nbytes + 63) // 64 * 64
    status, _, body = connection.post(target, numbers.tobytes(), Content_Type=RAW, **header(places | {"c": at}))
    assert (status, body) == (200, b""), body
    assert memory.map[at:at + len(expected)] == expected
    assert_problem(Answer(connection.post(target, Content_Type=RAW, **header(places | {"experts": at}))), 400,
                   "only come in the body")


def test_lengths_in_the_body_of_a_shared_operand(connection, memory, rng):
    x, lens = draw(rng, np.float32, 3, 40), np.array([40, 7, 0], np.int32)
    memory.put(0, x)
    expected = connection.post("/softmax?shape=3,40&lens=1", lens.tobytes() + x.tobytes(), Content_Type=RAW)[2]
    assert connection.post("/softmax?shape=3,40&lens=1", lens.tobytes(), Content_Type=RAW,
                           **header({"x": 0, "y": 4096}))[0] == 200
    assert memory.map[4096:4096 + len(expected)] == expected
    lens[2] = 41
    assert_problem(Answer(connection.post("/softmax?shape=3,40&lens=1", lens.tobytes(), Content_Type=RAW,
                                          **header({"x": 0}))), 400, "from 0 to 40", "lens")


# --- Regions

MODELS = {
    "conv2d_fp32": ({"X": (2, 3, 6, 7), "W": (4, 3, 3, 3), "BIAS": (4,)}, {"padding": "same"}),
    "reduce_fp32": ({"X": (5, 4, 37)}, {"op": "norm2", "axis": 1}),
    "softmax_fp32": ({"X": (5, 4, 37)}, {"scale": 0.25}),
}


def place(client, region, rng, model):
    """The operands of a model behind each other in one region: (the region, arrays, offsets, the end)."""
    arrays = {name: draw(rng, np.float32, *shape) for name, shape in MODELS[model][0].items()}
    here, at, places = region(65536), 64, {}
    for name, array in arrays.items():
        here.put(array, offset=at)
        places[name] = at
        at += array.nbytes
    client.register_system_shared_memory("all", here.key, here.size)
    return here, arrays, places, (at + 63) // 64 * 64


@pytest.mark.parametrize("model", MODELS)
def test_inputs_and_output_in_regions(model, client, region, rng):
    here, arrays, places, end = place(client, region, rng, model)
    parameters = MODELS[model][1]
    plain = [http.InferInput(name, list(array.shape), DATATYPE["f32"]).set_data_from_numpy(array)
             for name, array in arrays.items()]
    expected = client.infer(model, plain, parameters=parameters).as_numpy("Y")
    inputs = [given(name, array.shape, "all", places[name]) for name, array in arrays.items()]
    answer = client.infer(model, inputs, parameters=parameters,
                          outputs=[wanted("Y", expected.nbytes, "all", end)]).get_response()
    assert answer["outputs"] == [{"name": "Y", "datatype": "FP32", "shape": list(expected.shape)}]
    assert here.get(expected.shape, end).tobytes() == expected.tobytes()
    assert client.infer(model, inputs, parameters=parameters).as_numpy("Y").tobytes() == expected.tobytes()
    # A region that ends in the result, and results that lie on an operand or off their elements.
    for says, size, offset in (("Y: ", expected.nbytes, 65536 - expected.nbytes + 4),
                               ("overwrite an operand", expected.nbytes, places["X"]),
                               ("its shared memory has", expected.nbytes - 4, end),
                               ("multiple of the 4 bytes", expected.nbytes, end + 2)):
        assert says in refused(400, client.infer, model, inputs, parameters=parameters,
                               outputs=[wanted("Y", size, "all", offset)])
    beyond = [given(name, array.shape, "all", 65536 - array.nbytes + 4) for name, array in arrays.items()]
    assert "from offset" in refused(400, client.infer, model, beyond, parameters=parameters)


def test_lengths_in_a_region(client, region, rng):
    """They are copied before they are used, and checked."""
    x = draw(rng, np.float32, 3, 40)
    here = region(4096)
    client.register_system_shared_memory("all", here.key, here.size)
    here.put(x)
    for lens, right in (([40, 7, 0], True), ([40, 7, 41], False), ([40, -1, 0], False)):
        here.put(np.array(lens, np.int32), offset=1024)
        inputs = [given("X", (3, 40), "all"), given("LENS", (3,), "all", 1024)]
        inputs[1]._datatype = "INT32"  # pylint: disable=protected-access
        if not right:
            assert "from 0 to 40" in refused(400, client.infer, "softmax_fp32", inputs)
            continue
        plain = [http.InferInput("X", [3, 40], "FP32").set_data_from_numpy(x),
                 http.InferInput("LENS", [3], "INT32").set_data_from_numpy(np.array(lens, np.int32))]
        assert client.infer("softmax_fp32", inputs).as_numpy("Y").tobytes() == (
            client.infer("softmax_fp32", plain).as_numpy("Y").tobytes())

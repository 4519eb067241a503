"""Small convolutions of many requests share one launch. The bytes of each result are the same as for the
request alone, whatever the shapes of the other requests."""

import numpy as np
import pytest

from conv2d import Conv2d, random_operands, raw
from daemon import PATIENCE_S
from test_attention_shared_launch import shared_launches
from test_leaving import OCTETS, wait_until_idle
from test_stacking import Clients, alone, assert_answers
from wire import request

SHAPES = [
    dict(channels=3, height=9, width=11, filters=5, r=3, s=3, padding=(1, 1, 1, 1), batch=2),
    dict(channels=8, height=12, width=10, filters=16, r=3, s=2, stride=(2, 3), layout="nhwc"),
    dict(channels=16, height=14, width=15, filters=8, r=3, s=3, dilation=(2, 3), w_layout="krsc"),
    dict(channels=24, height=7, width=8, filters=17, r=1, s=1, layout="nhwc", w_layout="krsc"),
    dict(channels=6, height=8, width=9, filters=9, r=3, s=3, groups=3, bias=True, act="gelu"),
    dict(channels=1, height=1, width=1, filters=1, r=1, s=1, alpha=-2.5),
]


def asking(problem, rng, **more):
    """A request, as it goes over the wire."""
    body = raw(random_operands(problem, rng))
    query = "&".join(f"{name}={value}" for name, value in {**problem.parameters(), **more}.items())
    return request("POST", f"/conv2d?{query}", [OCTETS, ("Content-Length", len(body))], body)


@pytest.fixture
def daemon(start):
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--io-threads", "2")
    yield daemon
    wait_until_idle(daemon)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("kernel", ["implicit", "product", "naive"])
def test_any_shapes_share_a_launch(dtype, kernel, daemon, rng):
    shapes = [SHAPES[i] for i in (0, 2, 3)] if kernel == "implicit" else SHAPES
    requests = [asking(Conv2d(**shape, dtype=dtype, out="f32" if dtype == "i8" else None,
                              kernel=kernel), rng) for shape in shapes]
    expected = [alone(daemon, data) for data in requests]
    before = shared_launches(daemon)
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [len(requests)] * len(requests))
    after = shared_launches(daemon)
    assert [new - old for new, old in zip(after, before)] == [1, len(requests)]


def test_resident_filters_share_too(daemon, rng):
    problem = Conv2d(4, 8, 8, 6, 3, 3)
    w = random_operands(problem, rng)[1]
    put = daemon.session.put(f"{daemon.url}/tensors/w", data=w.tobytes(), timeout=PATIENCE_S,
                             params={"dtype": "f32", "shape": "6,4,3,3"})
    assert put.status_code == 201, put.text
    requests = []
    for _ in range(10):
        x = random_operands(problem, rng)[0]
        requests.append(request("POST", "/conv2d?height=8&width=8&w=w",
                                [OCTETS, ("Content-Length", x.nbytes)], x.tobytes()))
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [10] * 10)


def test_what_differs_is_apart(daemon, rng):
    """Another type, kernel, or much work: launches of their own."""
    plain = dict(channels=4, height=8, width=8, filters=6, r=3, s=3)
    others = [dict(), dict(dtype="f16"), dict(dtype="i8"), dict(dtype="i8", out="f32"),
              dict(kernel="naive"), dict(channels=64, height=64, width=64, filters=64)]
    requests = [asking(Conv2d(**{**plain, **other}), rng) for other in others]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, 2 * requests) as clients:
        answers = clients.receive()
    assert_answers(answers, 2 * expected, 2 * [2, 2, 2, 2, 2, 1])


def test_one_with_nan_changes_no_other(daemon, rng):
    problem = Conv2d(2, 6, 6, 3, 3, 3)
    poisoned = np.full(2 * 36 + 3 * 18, np.nan, np.float32).tobytes()
    query = "&".join(f"{name}={value}" for name, value in problem.parameters().items())
    requests = [asking(problem, rng), asking(problem, rng)]
    expected = [alone(daemon, data) for data in requests]
    bad = request("POST", f"/conv2d?{query}", [OCTETS, ("Content-Length", len(poisoned))], poisoned)
    with Clients(daemon, [requests[0], bad, requests[1]]) as clients:
        answers = clients.receive()
    assert np.isnan(np.frombuffer(answers[1].body, np.float32)).all()
    assert_answers([answers[0], answers[2]], expected, [3, 3])

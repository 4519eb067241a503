"""Attentions of many requests share one launch. The bytes of each result are the same as for the
request alone, whatever the lengths and heads of the other requests."""

import numpy as np
import pytest

from attention import Attention, random_operands, raw
from daemon import PATIENCE_S
from test_leaving import OCTETS, metrics, wait_until_idle
from test_stacking import Clients, alone, assert_answers
from wire import request

D, DV = 24, 40


def asking(problem, rng, lens=None, **more):
    """A request, as it goes over the wire."""
    body = raw(problem, random_operands(problem, rng), lens)
    parameters = {**problem.parameters(), **more, **({"lens": 1} if lens else {})}
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return request("POST", f"/attention?{query}", [OCTETS, ("Content-Length", len(body))], body)


@pytest.fixture
def daemon(start):
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--io-threads", "2")
    yield daemon
    wait_until_idle(daemon)


def products(daemon, rng, count):
    """Rows on a resident B, which share a launch of their own."""
    b = rng.uniform(-1, 1, (32, 16)).astype(np.float32)
    put = daemon.session.put(f"{daemon.url}/tensors/b", params={"dtype": "f32", "shape": "32,16"},
                             data=b.tobytes(), headers=dict([OCTETS]), timeout=PATIENCE_S)
    assert put.status_code == 201, put.text
    return [request("POST", "/gemm?m=2&b=b&kernel=tiled", [OCTETS, ("Content-Length", 256)],
                    rng.uniform(-1, 1, 64).astype(np.float32).tobytes()) for _ in range(count)]


def shared_launches(daemon):
    """How many launches have computed several works, and how many works those were."""
    now = metrics(daemon)
    alone = now['gemmd_batch_size_bucket{le="1.0"}']
    return now["gemmd_batch_size_count"] - alone, now["gemmd_batch_size_sum"] - alone


def test_any_lengths_and_heads_share_a_launch(daemon, rng):
    """Products in the same queue share a launch of their own."""
    shapes = [(1, 1, 1, 1), (8, 2, 1, 300), (4, 4, 97, 128), (2, 1, 203, 113), (3, 3, 7, 3),
              (6, 1, 33, 64), (1, 1, 100, 5)]
    requests = [asking(Attention(heads, sq, D, dv=DV, kv_heads=kv_heads, skv=skv, causal=True,
                                 batch=1 + i % 3, layout=("bhsd", "bshd")[i % 2],
                                 scale=(None, 0.5)[i % 2]), rng)
                for i, (heads, kv_heads, sq, skv) in enumerate(shapes)]
    requests.append(asking(Attention(2, 50, D, dv=DV, skv=70, batch=3, causal=True), rng,
                           ([50, 0, 17], [70, 3, 0])))
    requests = [*requests[:4], *products(daemon, rng, 3), *requests[4:]]
    expected = [alone(daemon, data) for data in requests]
    before = shared_launches(daemon)
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [8] * 4 + [3] * 3 + [8] * 4)
    after = shared_launches(daemon)
    assert [new - old for new, old in zip(after, before)] == [2, 8 + 3]


def test_what_differs_is_apart(daemon, rng):
    """Another type, head size, mask, kernel, soft cap, or much work: launches of their own."""
    plain = Attention(2, 20, D, dv=DV)
    others = [dict(), dict(dtype="bf16"), dict(d=25), dict(dv=39), dict(causal=True),
              dict(window=3), dict(softcap=2.0), dict(kernel="naive"), dict(kernel="naive")]
    problems = [Attention(**{**plain.__dict__, **other}) for other in others]
    much = Attention(1, 1500, D, dv=DV, dtype="f16")  # 288 million operations
    requests = [asking(problem, rng) for problem in [*problems, much]]
    expected = [alone(daemon, data) for data in requests]
    with Clients(daemon, 2 * requests) as clients:
        answers = clients.receive()
    assert_answers(answers, 2 * expected, 2 * ([2] * 7 + [1] * 3))

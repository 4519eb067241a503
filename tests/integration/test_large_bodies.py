"""Bodies of several MiB, which go to a GPU while they arrive: odd sizes, everything that a body can
have in it, clients that leave within one. Any daemon gives the same answers."""

import re
import time

import pytest

from daemon import PATIENCE_S
from matrices import Problem, assert_right, random_operands
from wire import Wire, request

PART = 1 << 20
PROBLEMS = [
    Problem(1601, 9, 1399, dtype="bf16"),
    Problem(1601, 9, 1399, dtype="f16", transa=True, transb=True),
    Problem(9, 1601, 1399, dtype="bf16", out="f32", bias=True, beta=1),
    Problem(701, 9, 1051, dtype="bf16", batch=3, transb=True),
    Problem(1201, 17, 1001, dtype="f32", beta=-0.5, bias=True, act="relu"),
    Problem(3001, 31, 1501, dtype="i8"),
]


def head_of(problem, body):
    query = "&".join(f"{name}={value}" for name, value in problem.parameters().items())
    return request("POST", f"/gemm?{query}", [("Content-Type", "application/octet-stream"),
                                              ("Content-Length", len(body))])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_products(problem, post, rng):
    operands = random_operands(problem, rng)
    answer = post(problem.parameters(), operands.raw())
    assert answer.status_code == 200, answer.text
    assert_right(problem, operands, answer.content, rng)


def memory_held(session, url):
    text = session.get(f"{url}/metrics", timeout=PATIENCE_S).text
    names = r"^(gemmd_(?:pinned|device)_memory_used_bytes) (\d+)$"
    return {name: int(value) for name, value in re.findall(names, text, re.MULTILINE)}


def test_leaving_within_a_body(address, url, session, post, rng):
    """At any place; what was sent disturbs nobody, and what it held comes back."""
    problem = PROBLEMS[0]
    operands = random_operands(problem, rng)
    body = operands.raw()
    head = head_of(problem, body)
    right = post(problem.parameters(), body)
    assert_right(problem, operands, right.content, rng)
    for end in (1, PART, 2 * PART + 1, 3 * PART, 4 * PART + 12345, len(body) - 1, len(body)):
        with Wire(address) as wire:
            wire.send(head + body[:end])
        answer = post(problem.parameters(), body)
        assert (answer.status_code, answer.content) == (200, right.content)
    deadline = time.monotonic() + PATIENCE_S
    while max((held := memory_held(session, url)).values()) >= PART:  # a body is more
        assert time.monotonic() < deadline, held
        time.sleep(0.02)

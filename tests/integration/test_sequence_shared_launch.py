"""Steps of many sequences share one launch: the bytes of each answer are those of the same keys and values in the
body of a request alone, whatever the lengths of the other sequences, and each appends what is its own."""

import numpy as np
import pytest

from test_attention_shared_launch import shared_launches
from test_leaving import OCTETS, wait_for, wait_until_idle
from test_sequence_attention import D, HEADS, KV_HEADS, MADE, SHAPE, Attention, operands
from test_sequences import same
from test_stacking import Clients, alone, assert_answers
from wire import request

LENGTHS = (0, 1, 63, 64, 65, 130, 200, 300)


@pytest.fixture
def daemon(start):
    daemon = start("--backend", "cpu", "--cpu-threads", "2", "--no-cpu-pauses", "--io-threads", "2")
    yield daemon
    wait_until_idle(daemon)


def filled(attention, rng, lengths):
    """Makes a sequence s0, s1, … of each length, page by page in turn, so that no pages of a sequence follow one
    another. Returns the keys and values of each."""
    held = [operands(rng, length)[1:] for length in lengths]
    for i in range(len(lengths)):
        attention.put(f"s{i}", **MADE)
    for page in range(0, max(lengths), 64):
        for i, (k, v) in enumerate(held):
            if page < k.shape[1]:
                assert attention.append(f"s{i}", k[:, page:page + 64], v[:, page:page + 64], page).status_code == 200
    return held


def asking(body, **parameters):
    query = "&".join(f"{name}={value}" for name, value in parameters.items())
    return request("POST", f"/attention?{query}", [OCTETS, ("Content-Length", len(body))], body)


def step(i, q, k, v, position):
    """The request that appends to the sequence s{i}, as it goes over the wire."""
    return asking(q.tobytes() + k.tobytes() + v.tobytes(), heads=HEADS, sq=q.shape[1], sequence=f"s{i}", append=1,
                  position=position, causal=1)


def whole(q, k, v):
    """The request with all keys and values in its body."""
    return asking(q.tobytes() + k.tobytes() + v.tobytes(), heads=HEADS, kv_heads=KV_HEADS, sq=q.shape[1],
                  skv=k.shape[1], d=D, dv=v.shape[2], causal=1)


def test_steps_of_all_lengths_share_a_launch(daemon, rng):
    attention = Attention(daemon.url)
    held = filled(attention, rng, LENGTHS)
    for positions in (1, 1, 70):
        steps = [operands(rng, positions) for _ in held]
        grown = [tuple(np.concatenate(pair, 1) for pair in zip(before, new[1:])) for before, new in zip(held, steps)]
        expected = [alone(daemon, whole(new[0], *after)) for new, after in zip(steps, grown)]
        requests = [step(i, *new, before[0].shape[1]) for i, (new, before) in enumerate(zip(steps, held))]
        launches = shared_launches(daemon)
        with Clients(daemon, requests) as clients:
            answers = clients.receive()
        assert_answers(answers, expected, [len(held)] * len(held))
        assert [new - old for new, old in zip(shared_launches(daemon), launches)] == [1, len(held)]
        held = grown
        for i, arrays in enumerate(held):
            assert same(attention.read(f"s{i}", SHAPE), arrays)


def test_forks_reads_and_repeats_share_a_launch(daemon, rng):
    """Two forks append to the page that they share, a third request repeats an append, a fourth one reads, and a fifth
    one has its keys and values in the body."""
    attention = Attention(daemon.url)
    (k, v), = filled(attention, rng, (100,))
    for i in (1, 2):
        attention.put(f"s{i}", fork="s0")
    steps = [operands(rng, 2) for _ in range(5)]
    after = [tuple(np.concatenate(pair, 1) for pair in zip((k, v), new[1:])) for new in steps]
    assert attention.step("s0", *steps[0], 100, causal=1).status_code == 200
    contents = [after[0], after[1], after[2], after[0], after[4]]
    expected = [alone(daemon, whole(new[0], *arrays)) for new, arrays in zip(steps, contents)]
    requests = [step(0, *steps[0], 100), step(1, *steps[1], 100), step(2, *steps[2], 100),
                asking(steps[3][0].tobytes(), heads=HEADS, sq=2, sequence="s0", causal=1),
                whole(steps[4][0], *after[4])]
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert_answers(answers, expected, [5] * 5)
    for i in range(3):
        assert same(attention.read(f"s{i}", SHAPE), after[i])


def test_what_leaves_a_shared_launch_appends_nothing(daemon, rng):
    """A client that leaves, and another one that appends other keys at positions that are there: the others are
    answered."""
    attention = Attention(daemon.url)
    held = filled(attention, rng, (10, 70, 5))
    steps = [operands(rng, 1) for _ in held]
    expected = alone(daemon, whole(steps[1][0], *[np.concatenate(pair, 1) for pair in zip(held[1], steps[1][1:])]))
    requests = [step(0, *steps[0], 10), step(1, *steps[1], 70), step(2, *steps[2], 4)]
    with Clients(daemon, requests) as clients:
        clients.wires.pop(1).socket.close()
        wait_for(daemon, requests_running=1, requests_waiting=2)
        answers = clients.receive()
    assert [answer.status for answer in answers] == [200, 412]
    assert answers[0].body == expected
    for i, length in enumerate((10, 71, 5)):
        assert attention.get(f"s{i}")["length"] == length


def test_other_sequences_are_apart(daemon, rng):
    """Sequences of other head sizes do not share a launch."""
    attention = Attention(daemon.url)
    filled(attention, rng, (3, 4))
    attention.put("other", kv_heads=KV_HEADS, d=D + 1, dv=D)
    steps = [operands(rng, 1), operands(rng, 1)]
    q, k, v = operands(rng, 1, d=D + 1, dv=D)
    requests = [step(0, *steps[0], 3), step(1, *steps[1], 4),
                asking(q.tobytes() + k.tobytes() + v.tobytes(), heads=HEADS, sq=1, sequence="other", append=1,
                       position=0, causal=1)]
    with Clients(daemon, requests) as clients:
        answers = clients.receive()
    assert [int(answer.headers["gemmd-batch"]) for answer in answers] == [2, 2, 1]

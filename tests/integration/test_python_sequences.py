"""Sequences of the Python client against a real daemon: what they hold, and the bits of what they are attended to."""

import asyncio
import hashlib
import os
import pickle
import re
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from daemon import PATIENCE_S
from test_python_client import CLIENT, client, transport  # noqa: F401 (fixtures)

from gemmd_client import AsyncClient, Client, Sequence
from gemmd_client.errors import NotFound, PreconditionFailed

HEADS, KV_HEADS, D, DV = 4, 2, 8, 16


@pytest.fixture
def made(client, request):
    """A sequence of two layers that no other test has; it is deleted in the end."""
    name = "python-" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    sequence = client.sequence(name, KV_HEADS, D, dv=DV, dtype=np.float32, layers=2)
    yield sequence
    sequence.delete()


def operands(rng, positions, layout="bhsd", dtype=np.float32):
    arrays = [rng.standard_normal((heads, positions, size)).astype(dtype)
              for heads, size in ((HEADS, D), (KV_HEADS, D), (KV_HEADS, DV))]
    return [array if layout == "bhsd" else np.ascontiguousarray(array.swapaxes(0, 1)) for array in arrays]


def test_layers_that_are_not_there(made, rng):
    q, k, v = operands(rng, 2)
    for layer in (2, -1):
        for call in (lambda: made.append(k, v, layer=layer), lambda: made.attention(q, k, v, layer=layer),
                     lambda: made.attention(q, layer=layer)):
            with pytest.raises(ValueError, match=f"layer is {layer}; the layers of the sequence .* are 0 to 1"):
                call()


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_steps_are_one_attention(client, made, rng, layout):
    axis = 1 if layout == "bhsd" else 0
    k, v = (array[:0] if axis == 0 else array[:, :0] for array in operands(rng, 1, layout)[1:])
    for positions in (5, 1, 70, 1):
        q, keys, values = operands(rng, positions, layout)
        k, v = np.concatenate([k, keys], axis), np.concatenate([v, values], axis)
        found, sums = made.attention(q, keys, values, layer=1, causal=True, layout=layout, lse=True)
        expected, logs = client.attention(q[None], k[None], v[None], causal=True, layout=layout, lse=True)
        assert np.array_equal(found, expected[0]) and np.array_equal(sums, logs[0])
    assert made.lengths == [0, 77] and len(made) == 0
    for found, expected in zip(made.kv(layer=1, layout=layout), (k, v)):
        assert found.dtype == np.float32 and np.array_equal(found, expected)
    q, _, _ = operands(rng, 3, layout)
    mask = rng.random((HEADS, 3, 40)) < 0.9
    found = made.attention(q, layer=1, skv=40, mask=mask, scale=0.5, softcap=3, layout=layout)
    keys, values = (np.take(array, range(40), axis)[None] for array in (k, v))
    assert np.array_equal(found, client.attention(q[None], keys, values, mask=mask, scale=0.5, softcap=3,
                                                  layout=layout)[0])
    slopes, sinks = rng.random((2, HEADS)).astype(np.float32)
    more = dict(slopes=slopes, sinks=sinks, window_right=4, offset=30, layout=layout)
    assert np.array_equal(made.attention(q, layer=1, skv=40, **more),
                          client.attention(q[None], keys, values, **more)[0])


def test_appends_forks_and_cuts(client, made, rng):
    _, k, v = operands(rng, 100)
    made.append(k[:, :64], v[:, :64])
    made.append(k[:, 64:], v[:, 64:])
    assert made.lengths == [100, 0]
    made.append(k, v, layer=1)
    made.append(k[:, 64:], v[:, 64:], position=64)  # as a repeated request
    with pytest.raises(PreconditionFailed, match="other keys or values"):
        made.append(v[:, 64:, :D], v[:, 64:], position=64)
    with pytest.raises(PreconditionFailed, match="100"):
        made.append(k[:, :1], v[:, :1], position=101)
    fork = made.fork(f"{made.name}-fork", 70)
    whole = made.fork(f"{made.name}-whole")
    assert (fork.lengths, whole.lengths) == ([70, 70], [100, 100])
    with pytest.raises(PreconditionFailed, match="100"):
        made.fork(f"{made.name}-more", 101)
    made.truncate(60)
    assert made.lengths == [60, 60]
    made.append(k[:, :1], v[:, :1])
    for sequence, keys in ((fork, k[:, :70]), (whole, k), (made, np.concatenate([k[:, :60], k[:, :1]], 1))):
        assert np.array_equal(sequence.kv()[0], keys)
    assert np.array_equal(whole.kv(98, 1)[1], v[:, 98:99])
    listed = [one.name for one in client.sequences()]
    assert [name for name in listed if name.startswith(made.name)] == [made.name, fork.name, whole.name]
    again = next(one for one in client.sequences() if one.name == whole.name)
    assert (again.kv_heads, again.d, again.dv, again.dtype, again.lengths) == (KV_HEADS, D, DV, np.float32, [100, 100])
    whole.append(k[:, :1], v[:, :1])
    again.refresh()
    assert again.lengths == [101, 100] and again.nbytes > 0 and again.name in repr(again) + again._repr_html_()
    for sequence in (fork, whole):
        sequence.delete()
        with pytest.raises(NotFound):
            sequence.refresh()


def test_an_attention_that_appends_twice_is_answered_twice(made, rng):
    q, k, v = operands(rng, 3)
    first = made.attention(q, k, v)
    assert np.array_equal(made.attention(q, k, v, position=0), first)
    assert made.lengths == [3, 0]
    with pytest.raises(PreconditionFailed):
        made.attention(q, k + 1, v, position=0)
    assert np.array_equal(made.attention(q), first)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_types(client, rng, dtype):
    sequence = client.sequence("python-types", KV_HEADS, D, dv=DV, dtype=dtype)
    q, k, v = operands(rng, 2, dtype=dtype)
    found = sequence.attention(q, k, v)
    assert found.dtype == dtype
    assert np.array_equal(found, client.attention(q[None], k[None], v[None])[0])
    assert sequence.kv()[1].dtype == dtype
    sequence.delete()


@pytest.mark.parametrize("call, error, match", [
    (lambda s, q, k, v: s.attention(q, k), ValueError, "k and v must be given together"),
    (lambda s, q, k, v: s.attention(q, k, v[:, :1]), ValueError, "as many positions"),
    (lambda s, q, k, v: s.attention(q[:, :1], k, v), ValueError, "q has 1 positions, and k and v have 2"),
    (lambda s, q, k, v: s.attention(q, k, v, skv=2), ValueError, "skv"),
    (lambda s, q, k, v: s.attention(q, position=0), ValueError, "position belongs to an append"),
    (lambda s, q, k, v: s.attention(q[None]), ValueError, r"\(heads, positions, 8\)"),
    (lambda s, q, k, v: s.attention(q, layout="hbsd"), ValueError, "layout"),
    (lambda s, q, k, v: s.append(k[:1], v), ValueError, r"k has the shape .* \(2, positions, 8\)"),
    (lambda s, q, k, v: s.append(k, v[:, :0]), ValueError, "v has the shape"),
    (lambda s, q, k, v: s.append(k.astype(np.float16), v), TypeError, "float16.*float32"),
    (lambda s, q, k, v: s.attention(q.astype(np.float64)), TypeError, "float64.*float32"),
    (lambda s, q, k, v: s.attention(q, k, v, mask=np.zeros((1, 3), np.float32)), ValueError, r"\(1, 4, 2, 2\)"),
    (lambda s, q, k, v: s.kv(layout="b"), ValueError, "layout"),
    (lambda s, q, k, v: s.fork(3), TypeError, "the name of a sequence is a int"),
])
def test_what_cannot_be_sent(made, rng, call, error, match):
    with pytest.raises(error, match=match):
        call(made, *operands(rng, 2))
    assert made.lengths == [0, 0]
    made.refresh()
    assert made.lengths == [0, 0]


def test_handles_travel(url, client, made, rng):
    q, k, v = operands(rng, 2)
    found = made.attention(q, k, v)
    again: Sequence = pickle.loads(pickle.dumps(made))
    assert again.lengths == [2, 0] and np.array_equal(again.attention(q), found)
    closed = Client(url)
    other = closed.sequence("python-closed", 1, 8)
    closed.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        other.refresh()
    next(one for one in client.sequences() if one.name == "python-closed").delete()


def test_the_example_decodes_what_float64_decodes(url):
    """It chooses among tokens: a transformer that repeats a few would notice little."""
    environment = {**os.environ, "GEMMD_URL": url, "PYTHONPATH": str(CLIENT)}
    result = subprocess.run([sys.executable, CLIENT.parent / "examples/decode.py"], env=environment,
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result
    held, tokens, _ = result.stdout.splitlines()
    assert held.startswith("the sequence has 1023 positions and takes ")
    different = re.fullmatch(r"1000 of 1000 tokens, (\d+) different ones, are those of float64", tokens)
    assert different and int(different[1]) > 50, tokens
    with Client(url) as client:
        assert "example-decode" not in [sequence.name for sequence in client.sequences()]


def test_coroutines(url, client, rng):
    q, k, v = operands(rng, 4)

    async def talk():
        async with AsyncClient(url) as daemon:
            sequence = await daemon.sequence("python-async", KV_HEADS, D, dv=DV, dtype="f32")
            await sequence.append(k[:, :3], v[:, :3])
            found = await sequence.attention(q[:, 3:], k[:, 3:], v[:, 3:], causal=True)
            fork = await sequence.fork("python-async-fork", 2)
            await sequence.truncate(3)
            await fork.refresh()
            lengths = sequence.sequence.lengths, fork.sequence.lengths
            assert repr(fork) == f"<AsyncSequence python-async-fork of {url}, lengths: [2]>"
            assert "python-async-fork" in fork._repr_html_()
            keys, values = await fork.kv(1)
            await asyncio.gather(sequence.delete(), fork.delete())
            return found, lengths, keys, values

    found, lengths, keys, values = asyncio.run(talk())
    assert np.array_equal(found, client.attention(q[None, :, 3:], k[None], v[None], causal=True)[0])
    assert lengths == ([3], [2])
    assert np.array_equal(keys, k[:, 1:2]) and np.array_equal(values, v[:, 1:2])

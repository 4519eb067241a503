"""gemmctl sequence, and attentions over sequences, against a real daemon."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

from test_gemmctl import FAILED, USAGE, succeed

HEADS, KV_HEADS, D, DV = 4, 2, 8, 16


@pytest.fixture
def name(request, run):
    """A name of the test's own, of a sequence of two layers; nothing is left under it."""
    name = "ctl." + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    said = succeed(run("sequence", "put", name, "--kv-heads", str(KV_HEADS), "--d", str(D), "--dv", str(DV),
                       "--dtype", "f32", "--layers", "2"))
    assert said.stdout.decode() == f"{name}: created, 0 positions, 4096 bytes of memory\n"
    yield name
    run("sequence", "rm", name)


@pytest.fixture
def operands(rng, tmp_path):
    """operands(positions) -> q, k and v, which are in Q.npy, K.npy and V.npy too."""
    def draw(positions, layout="bhsd"):
        arrays = [rng.standard_normal((heads, positions, size)).astype(np.float32)
                  for heads, size in ((HEADS, D), (KV_HEADS, D), (KV_HEADS, DV))]
        for letter, array in zip("QKV", arrays):
            np.save(tmp_path / f"{letter}.npy", array if layout == "bhsd" else array.swapaxes(0, 1))
        return arrays
    return draw


def listed(run, name):
    """What the list says of the sequence; None if it is not there."""
    found = json.loads(succeed(run("sequence", "ls", "--json")).stdout)
    return next((sequence for sequence in found["sequences"] if sequence["name"] == name), None)


def held(session, url, name, layer=0):
    """The keys and values of all positions of a layer."""
    answer = session.get(f"{url}/sequences/{name}/kv", params={"layer": layer},
                         headers={"Accept": "application/vnd.safetensors"})
    assert answer.status_code == 200, answer.text
    arrays = safetensors.numpy.load(answer.content)
    return arrays["k"], arrays["v"]


def test_appends_in_every_format(run, name, operands, session, url, tmp_path):
    expected = []
    for layout, arguments in (("bhsd", ()), ("bshd", ("--layout", "bshd")), ("bhsd", ("--position", "6"))):
        _, k, v = operands(3, layout)
        said = succeed(run("sequence", "append", name, "K.npy", "V.npy", "--layer", "1", *arguments))
        expected.append((k, v))
        assert said.stdout.decode().startswith(f"{name}: appended, 0 positions, ")
    _, k, v = operands(2)
    expected.append((k, v))
    (tmp_path / "k.bin").write_bytes(k.tobytes())
    safetensors.numpy.save_file({"v": v}, tmp_path / "v.safetensors")
    succeed(run("sequence", "append", name, "k.bin", "v.safetensors", "--layer", "1", "--positions", "2"))
    _, k, v = operands(1)
    expected.append((k, v))
    stdin = (tmp_path / "K.npy").read_bytes() + (tmp_path / "V.npy").read_bytes()
    report = json.loads(succeed(run("sequence", "append", name, "-", "-", "--layer", "1", "--json", stdin=stdin)).stdout)
    assert report["sequence"]["lengths"] == [0, 12]
    for found, wanted in zip(held(session, url, name, 1), zip(*expected)):
        assert np.array_equal(found, np.concatenate(wanted, 1))
    once = succeed(run("sequence", "append", name, "K.npy", "V.npy", "--layer", "1", "--position", "11"))
    assert once.returncode == 0 and listed(run, name)["lengths"] == [0, 12]


def test_forks_cuts_lists_and_removes(run, name, operands):
    for layer in ("0", "1"):
        operands(70)
        succeed(run("sequence", "append", name, "K.npy", "V.npy", "--layer", layer))
    fork = f"{name}.fork"
    assert succeed(run("sequence", "fork", name, fork, "--length", "65")).stdout.decode().startswith(
        f"{fork}: forked, 65 positions, ")
    assert succeed(run("sequence", "truncate", name, "3")).stdout.decode().startswith(
        f"{name}: truncated, 3 positions, ")
    found = listed(run, fork)
    assert (found["kv_heads"], found["d"], found["dv"], found["dtype"], found["length"], found["lengths"]) == (
        KV_HEADS, D, DV, "f32", 65, [65, 65])
    only = json.loads(succeed(run("sequence", "ls", fork, "--json")).stdout)["sequences"]
    assert only == [found]
    heading, row = succeed(run("sequence", "ls", name)).stdout.decode().splitlines()
    assert heading.split() == ["NAME", "DTYPE", "HEADS", "D", "DV", "LAYERS", "LENGTH", "MEMORY"]
    assert row.split()[:7] == [name, "f32", str(KV_HEADS), str(D), str(DV), "2", "3"]
    result = run("sequence", "rm", fork, f"{name}.none", "--json")
    assert result.returncode == FAILED
    report = json.loads(result.stdout)
    assert report["removed"] == [fork] and report["failed"][0]["name"] == f"{name}.none"
    assert listed(run, fork) is None


def test_keys_and_values_are_fetched(run, name, operands, tmp_path):
    _, k, v = operands(5)
    succeed(run("sequence", "append", name, "K.npy", "V.npy", "--layer", "1"))
    succeed(run("sequence", "get", name, "k.npy", "v.safetensors", "--layer", "1"))
    assert np.array_equal(np.load(tmp_path / "k.npy", allow_pickle=False), k)
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "v.safetensors")["v"], v)
    succeed(run("sequence", "get", name, "k.npy", "v.npy", "--layer", "1", "--position", "1", "--positions", "2",
                "--layout", "bshd"))
    for file, array in (("k.npy", k), ("v.npy", v)):
        assert np.array_equal(np.load(tmp_path / file, allow_pickle=False), array[:, 1:3].transpose(1, 0, 2))
    both = run("sequence", "get", name, "-", "-", "--layer", "1", "--format", "raw")
    succeed(both)
    assert both.stdout == k.tobytes() + v.tobytes()
    failed = run("sequence", "get", name, "none.npy", "nowhere/v.npy", "--layer", "1")
    assert failed.returncode == FAILED and not (tmp_path / "none.npy").exists()


def test_attention_appends_and_attends(run, name, operands, tmp_path):
    k, v = np.empty((KV_HEADS, 0, D), np.float32), np.empty((KV_HEADS, 0, DV), np.float32)
    for positions in (5, 1, 3):
        q, keys, values = operands(positions)
        k, v = np.concatenate([k, keys], 1), np.concatenate([v, values], 1)
        succeed(run("attention", "Q.npy", "K.npy", "V.npy", "--sequence", name, "--append", "--causal", "--layer", "1",
                    "-o", "O.npy"))
        for letter, array in zip("QKV", (q, k, v)):
            np.save(tmp_path / f"whole{letter}.npy", array)
        succeed(run("attention", "wholeQ.npy", "wholeK.npy", "wholeV.npy", "--causal", "-o", "expected.npy"))
        assert (tmp_path / "O.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    succeed(run("attention", "wholeQ.npy", "--sequence", name, "--layer", "1", "--causal", "-o", "again.npy"))
    assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    safetensors.numpy.save_file({"q": q, "k": keys, "v": values}, tmp_path / "qkv.safetensors")
    succeed(run("attention", "qkv.safetensors", "--sequence", name, "--append", "--position", "6", "--layer", "1",
                "--causal", "-o", "repeated.npy"))
    assert (tmp_path / "repeated.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()
    assert listed(run, name)["lengths"] == [0, 9]


@pytest.mark.parametrize("arguments, code, sentence", [
    (("sequence", "put", "x", "--d", "8"), USAGE, "--kv-heads is missing"),
    (("sequence", "put", "x", "--d", "8", "--kv-heads", "2", "--layers", "257"), USAGE, "--layers"),
    (("sequence", "append", "NAME", "V.npy", "V.npy"), USAGE, "K has the shape"),
    (("sequence", "append", "NAME", "K.npy", "V.npy", "--layer", "2"), USAGE, "the layers 0 to 1"),
    (("sequence", "append", "NAME", "K.npy", "V.npy", "--position", "9"), FAILED, "0"),
    (("sequence", "append", "NAME", "k.bin", "V.npy"), USAGE, "--positions"),
    (("sequence", "append", "none", "K.npy", "V.npy"), FAILED, "none"),
    (("sequence", "get", "NAME", "k.npy", "k.npy"), USAGE, "name two files"),
    (("sequence", "get", "NAME", "k.npy", "v.npy", "--positions", "0"), USAGE, "--positions is 0"),
    (("sequence", "get", "NAME", "k.npy", "v.npy", "--layer", "2"), FAILED, "the layers 0 to 1"),
    (("sequence", "get", "none", "k.npy", "v.npy"), FAILED, "none"),
    (("sequence", "truncate", "NAME", "x"), USAGE, "length is 'x'"),
    (("sequence", "ls", "none"), FAILED, "none"),
    (("attention", "Q.npy", "K.npy", "V.npy", "--sequence", "NAME", "-o", "O.npy"), USAGE, "name Q alone"),
    (("attention", "Q.npy", "--sequence", "NAME", "-o", "O.npy"), USAGE, "layer 0 of the sequence"),
    (("attention", "Q.npy", "K.npy", "V.npy", "--append", "-o", "O.npy"), USAGE, "names no sequence"),
    (("attention", "Q.npy", "K.npy", "V.npy", "--append", "--sequence", "none", "-o", "O.npy"), FAILED, "none"),
])
def test_mistakes(run, name, operands, tmp_path, arguments, code, sentence):
    _, k, _ = operands(2)
    (tmp_path / "k.bin").write_bytes(k.tobytes())
    result = run(*[name if word == "NAME" else word for word in arguments])
    assert result.returncode == code and sentence in result.stderr.decode(), result
    assert listed(run, name)["lengths"] == [0, 0]

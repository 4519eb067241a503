"""gemmctl tensor, and products with residents, against a real daemon."""

import hashlib
import io
import json
import subprocess

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from daemon import PATIENCE_S
from matrices import Operands, Problem, assert_right, random_operands
from test_formats import npy, squeeze
from test_gemmctl import DONE, FAILED, USAGE, succeed, write


@pytest.fixture
def name(request, run):
    """A name of the test's own; nothing is left under it."""
    name = "ctl." + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]
    yield name
    run("tensor", "rm", name)


@pytest.fixture
def weights(rng):
    return rng.uniform(-1, 1, (5, 7)).astype(np.float32)


def listed(run, name):
    """What the list says of it; None if it is not there."""
    tensors = json.loads(succeed(run("tensor", "ls", "--json")).stdout)["tensors"]
    return next((tensor for tensor in tensors if tensor["name"] == name), None)


def test_nothing_is_sent_twice(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    said = [succeed(run("tensor", "put", name, "W.npy")).stdout.decode()]
    said.append(succeed(run("tensor", "put", name, "W.npy")).stdout.decode())
    np.save(tmp_path / "W.npy", weights + 1)
    said.append(succeed(run("tensor", "put", name, "W.npy")).stdout.decode())
    assert said == [f"{name}: uploaded, 5x7 f32, 140 bytes\n",
                    f"{name}: already there, 5x7 f32, 140 bytes\n",
                    f"{name}: uploaded, in place of another, 5x7 f32, 140 bytes\n"]
    assert succeed(run("tensor", "put", name, "W.npy", "--quiet")).stdout == b""


def test_report(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    reports = [json.loads(succeed(run("tensor", "put", name, "W.npy", "--json")).stdout)
               for _ in range(2)]
    assert [report["put"] for report in reports] == ["created", "unchanged"]
    tag = '"' + hashlib.sha256(b"f32:5,7\n" + weights.tobytes()).hexdigest() + '"'
    for report in reports:
        assert (report["name"], report["shape"], report["dtype"], report["bytes"],
                report["etag"]) == (name, [5, 7], "f32", 140, tag)
    assert listed(run, name)["etag"] == tag


@pytest.mark.parametrize("suffix", ["npy", "safetensors", "bin"])
def test_there_and_back(suffix, run, name, weights, tmp_path):
    source, target = tmp_path / f"W.{suffix}", tmp_path / f"V.{suffix}"
    if suffix == "npy":
        np.save(source, weights)
    elif suffix == "safetensors":
        safetensors.numpy.save_file({name: weights, "other": weights[:1].copy()}, source)
    else:
        source.write_bytes(weights.tobytes())
    shape = ["--shape", "5,7"] if suffix == "bin" else []
    succeed(run("tensor", "put", name, source, *shape))
    succeed(run("tensor", "get", name, "-o", target))
    if suffix == "npy":
        assert np.array_equal(np.load(target), weights)
    elif suffix == "safetensors":
        assert np.array_equal(safetensors.numpy.load_file(target)[name], weights)
    else:
        assert target.read_bytes() == weights.tobytes()


def test_pipes(run, name, weights):
    succeed(run("tensor", "put", name, "-", stdin=npy(weights)))
    assert np.array_equal(np.load(io.BytesIO(succeed(run("tensor", "get", name)).stdout)), weights)
    raw = succeed(run("tensor", "get", name, "--format", "raw")).stdout
    assert raw == weights.tobytes()


@pytest.mark.parametrize("options, rows", [
    (["--row", "1", "--rows", "2"], slice(1, 3)), (["--row", "3"], slice(3, None)), (["--rows", "1"], slice(0, 1))])
def test_some_rows(options, rows, run, name, weights):
    succeed(run("tensor", "put", name, "-", stdin=npy(weights)))
    found = np.load(io.BytesIO(succeed(run("tensor", "get", name, *options)).stdout))
    assert np.array_equal(found, weights[rows])


def test_rows_that_the_tensor_lacks(run, name, weights):
    succeed(run("tensor", "put", name, "-", stdin=npy(weights)))
    result = run("tensor", "get", name, "--row", "4", "--rows", "2")
    assert result.returncode == FAILED and result.stdout == b""
    assert b"the tensor has 5 rows; the request asks for 2 from row 4 on" in result.stderr
    result = run("tensor", "get", name, "--row", "5")
    assert result.returncode == FAILED and result.stdout == b""
    assert b"row is 5, and the tensor has 5 rows, which are numbered from 0 (HTTP 400)" in result.stderr


def test_rows_of_a_tensor_with_scales(run, name, tmp_path):
    """The rows come without the scales, also in a safetensors file, which has place for them."""
    np.save(tmp_path / "W8.npy", np.ones((8, 16), np.int8))
    np.save(tmp_path / "scale.npy", np.ones(16, np.float32))
    succeed(run("tensor", "put", name, "W8.npy", "--scale", "scale.npy"))
    succeed(run("tensor", "get", name, "--rows", "3", "-o", "rows.safetensors"))
    found = safetensors.numpy.load_file(tmp_path / "rows.safetensors")
    assert list(found) == [name] and np.array_equal(found[name], np.ones((3, 16), np.int8))


def test_column_major_file(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", np.asfortranarray(weights))
    succeed(run("tensor", "put", name, "W.npy"))
    assert succeed(run("tensor", "get", name, "--format=raw")).stdout == weights.tobytes()


def test_type_without_a_numpy_name(run, name, weights, tmp_path):
    narrow = weights.astype(ml_dtypes.bfloat16)
    (tmp_path / "W.bin").write_bytes(narrow.tobytes())
    succeed(run("tensor", "put", name, "W.bin", "--shape=5,7", "--dtype", "bf16"))
    assert listed(run, name)["dtype"] == "bf16"
    assert succeed(run("tensor", "get", name, "--format=raw")).stdout == narrow.tobytes()


def test_list_and_remove(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    succeed(run("tensor", "put", name, "W.npy", "--evictable"))
    assert listed(run, name)["evictable"] is True
    lines = succeed(run("tensor", "ls", name)).stdout.decode().splitlines()
    assert [line.split() for line in lines] == [["NAME", "DTYPE", "SHAPE", "BYTES", "EVICTABLE"],
                                                [name, "f32", "5x7", "140", "yes"]]
    succeed(run("tensor", "rm", name))
    assert listed(run, name) is None
    for command in ("get", "ls", "rm"):
        result = run("tensor", command, name)
        assert result.returncode == FAILED and b"404" in result.stderr, result


@pytest.mark.parametrize("arguments, says", [
    (["put", "a/b", "W.npy"], "a/b"),
    (["put", "w", "nosuch.npy"], "nosuch.npy"),
    (["put", "w", "W.bin"], "--shape"),
    (["put", "w", "W.bin", "--shape", "5,x"], "5,x"),
    (["put", "w", "W.bin", "--shape", "5,0"], "5,0"),
    (["put", "w", "W.bin", "--shape", "1,1,1,1,1,1,1,1,35"], "1 to 8"),
    (["put", "w", "W.bin", "--shape", "2147483647,2147483647,2147483647"], "more than 2^64 bytes"),
    (["put", "w", "W.bin", "--shape", "5,7", "--dtype", "float32"], "did you mean f32?"),
    (["put", "w", "W.bin", "--shape", "5,8"], "140 bytes"),
    (["put", "w", "W.npy", "--shape", "5,7"], "files of raw bytes"),
    (["put", "w", "W.npy", "--dtype", "f99"], "f99"),
    (["put", "w", "W.npy", "--dtype", "f64"], "f64"),
    (["put", "w", "scalar.npy"], "scalar"),
    (["put", "w", "long.npy"], "35 bytes more"),
    (["put", "w", "two.safetensors"], "2 tensors"),
    (["put", "w"], "operand is missing"),
    (["get", "w", "--json"], "standard output"),
    (["get", "w", "-o", "W.npy", "--format", "png"], "png"),
    (["get", "../x", "-o", "x.npy"], "not the name"),
    (["get", "w", "--row", "-1"], "--row is '-1'"),
    (["get", "w", "--rows", "0"], "--rows is 0"),
    (["get", "w", "--rows", "1", "--scale", "s.npy"], "the scales of a tensor are fetched with the whole tensor"),
    (["rm", "w", "--evictable"], "--evictable"),
    (["pt"], "tensor put"),
    ([], "tensor"),
])
def test_wrong_usage(arguments, says, run, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    np.save(tmp_path / "scalar.npy", np.float32(1))
    (tmp_path / "long.npy").write_bytes(npy(weights) + b"x" * 35)
    (tmp_path / "W.bin").write_bytes(weights.tobytes())
    safetensors.numpy.save_file({"a": weights, "b": weights}, tmp_path / "two.safetensors")
    result = run("tensor", *arguments)
    assert result.returncode == USAGE, result
    assert says in result.stderr.decode()
    assert (result.stdout != b"") == ("--json" in arguments)


def test_output_that_cannot_be_written(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    succeed(run("tensor", "put", name, "W.npy"))
    result = run("tensor", "get", name, "-o", "no/such/folder/W.npy")
    assert result.returncode == FAILED and b"no/such/folder" in result.stderr


def test_no_room(start, gemmctl, tmp_path, rng):
    """The sentence says what is needed and what is free."""
    daemon = start("--tensor-bytes", "64KiB")
    np.save(tmp_path / "W.npy", rng.uniform(-1, 1, (256, 256)))
    result = subprocess.run([gemmctl, "tensor", "put", "w", tmp_path / "W.npy", "--url",
                             daemon.url], capture_output=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == FAILED
    assert b"507" in result.stderr and b"free" in result.stderr, result.stderr


@pytest.mark.parametrize("resident", ["a", "b", "ab"])
def test_product_with_residents(resident, run, name, tmp_path, rng):
    problem = Problem(31, 17, 9, transb=True, bias=True, alpha=2)
    operands = random_operands(problem, rng)
    words = []
    for letter, array in zip("ab", squeeze(operands)):
        np.save(tmp_path / f"{letter}.npy", array)
        if letter in resident:
            succeed(run("tensor", "put", f"{name}.{letter}", f"{letter}.npy"))
        words.append(f"tensor:{name}.{letter}" if letter in resident else f"{letter}.npy")
    np.save(tmp_path / "bias.npy", operands.bias)
    try:
        succeed(run("gemm", *words, "-o", "C.npy", "--transb", "--bias", "bias.npy",
                    "--alpha", "2"))
    finally:
        for letter in resident:
            run("tensor", "rm", f"{name}.{letter}")
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


@pytest.mark.parametrize("resident_a", [False, True])
def test_one_matrix_for_a_batch(resident_a, run, name, tmp_path, rng):
    """A resident B of two dimensions is every problem's."""
    problem = Problem(4, 3, 5, batch=6, beta=1)
    operands = random_operands(problem, rng)
    operands = operands._replace(b=np.repeat(operands.b[:1], 6, axis=0))
    np.save(tmp_path / "A.npy", operands.a)
    np.save(tmp_path / "B.npy", operands.b[0])
    np.save(tmp_path / "C0.npy", operands.c0)
    succeed(run("tensor", "put", name, "B.npy"))
    succeed(run("tensor", "put", f"{name}.a", "A.npy"))
    try:
        succeed(run("gemm", f"tensor:{name}.a" if resident_a else "A.npy", f"tensor:{name}", "--c0",
                    "C0.npy", "--beta", "1", "-o", "C.npy"))
    finally:
        run("tensor", "rm", f"{name}.a")
    assert np.load(tmp_path / "C.npy").shape == (6, 4, 3)
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


def test_column_major_with_a_resident(run, name, tmp_path, rng):
    problem = Problem(5, 7, 3)
    operands = random_operands(problem, rng)
    a, b = squeeze(operands)[:2]
    np.save(tmp_path / "A.npy", np.asfortranarray(a))
    np.save(tmp_path / "B.npy", b)
    succeed(run("tensor", "put", name, "B.npy"))
    succeed(run("gemm", "A.npy", f"tensor:{name}", "-o", "C.npy"))
    assert_right(problem, operands, np.load(tmp_path / "C.npy").tobytes(), rng)


def test_chain_through_a_stored_product(run, name, tmp_path, rng):
    """A B stays on the daemon; (A B) C is then computed with it."""
    problem = Problem(6, 8, 4)
    operands = random_operands(problem, rng)
    files = write(tmp_path, operands)
    line = succeed(run("gemm", *files, "--store", name)).stdout.decode()
    assert line == f"{name}: stored, 6x8 f32, 192 bytes\n"
    stored = np.load(io.BytesIO(succeed(run("tensor", "get", name)).stdout))
    assert_right(problem, operands, stored.tobytes(), rng)
    second = Problem(6, 3, 8)
    right = rng.uniform(-1, 1, (8, 3)).astype(np.float32)
    np.save(tmp_path / "D.npy", right)
    succeed(run("gemm", f"tensor:{name}", "D.npy", "-o", "E.npy"))
    assert_right(second, Operands(stored[None], right[None], None, None),
                 np.load(tmp_path / "E.npy").tobytes(), rng)
    report = json.loads(succeed(run("gemm", *files, "--store", name, "--json")).stdout)
    assert (report["name"], report["shape"]) == (name, [6, 8])


@pytest.mark.parametrize("arguments, status, says", [
    (["A.npy", "tensor:nosuch", "-o", "C.npy"], FAILED, "there is no tensor 'nosuch'"),
    (["A.npy", "tensor:a/b", "-o", "C.npy"], USAGE, "not the name"),
    (["A.npy", "tensor:{name}", "-o", "C.npy"], USAGE, "k is"),
    (["tensor:{name}", "-o", "C.npy"], USAGE, "missing"),
    (["A.npy", "B.npy", "-o", "C.npy", "--store", "c"], USAGE, "--store"),
    (["A.npy", "B.npy", "-o", "tensor:c"], USAGE, "--store"),
    (["A.npy", "B.npy", "--store", "a b"], USAGE, "store"),
])
def test_residents_that_do_not_fit(arguments, status, says, run, name, tmp_path, rng):
    write(tmp_path, random_operands(Problem(5, 7, 3), rng))
    succeed(run("tensor", "put", name, "A.npy"))
    result = run("gemm", *(word.format(name=name) for word in arguments))
    assert result.returncode == status, result
    assert says in result.stderr.decode()
    assert not (tmp_path / "C.npy").exists()


def test_help_of_a_group(run):
    text = succeed(run("help", "tensor")).stdout.decode()
    for command in ("tensor put", "tensor get", "tensor ls", "tensor rm"):
        assert command in text
        for words in (["help", *command.split()], [*command.split(), "--help"]):
            assert f"gemmctl {command}: " in succeed(run(*words)).stdout.decode()
    assert succeed(run("tensor", "--help")).stdout.decode() == text
    assert run("help", "tensor", "pt").returncode == USAGE
    assert succeed(run("--version")).returncode == DONE


def test_several_are_removed(run, name, weights, tmp_path):
    """An unknown name among them is an error, and the others are removed all the same."""
    np.save(tmp_path / "W.npy", weights)
    names = [f"{name}.{number}" for number in range(3)]
    for one in names:
        succeed(run("tensor", "put", one, "W.npy"))
    result = run("tensor", "rm", names[0], f"{name}.none", "a/b", names[1])
    assert result.returncode == FAILED, result
    errors = result.stderr.decode().splitlines()
    assert len(errors) == 2
    assert f"{name}.none: " in errors[0] and "404" in errors[0] and "a/b: " in errors[1]
    assert [listed(run, one) is None for one in names] == [True, True, False]
    result = run("tensor", "rm", "--json", f"{name}.none", names[2])
    assert result.returncode == FAILED, result
    document = json.loads(result.stdout)
    assert document["removed"] == [names[2]]
    assert [(failed["name"], failed["error"]["http_status"]) for failed in document["failed"]] == [
        (f"{name}.none", 404)]
    assert listed(run, names[2]) is None


def test_columns_are_aligned(run, name, weights, tmp_path):
    np.save(tmp_path / "W.npy", weights)
    np.save(tmp_path / "V.npy", np.zeros((100, 1000), np.float16))
    for one, file in ((name, "W.npy"), (f"{name}.with-a-longer-name", "V.npy")):
        succeed(run("tensor", "put", one, file))
    title, *lines = succeed(run("tensor", "ls")).stdout.decode().splitlines()
    ends = title.index("BYTES") + len("BYTES")
    for line in (line for line in lines if line.startswith(name)):
        assert line[title.index("DTYPE"):].startswith("f")
        assert line[:ends].endswith(" 140" if "5x7" in line else " 200000") and line[ends:ends + 2] == "  "
    succeed(run("tensor", "rm", name, f"{name}.with-a-longer-name"))

"""gemmctl on a Unix socket: operands and results in memory that the daemon shares."""

import json
import os
import subprocess

import numpy as np
import pytest

from daemon import PATIENCE_S, Daemon
from memory import maps
from test_leaving import wait_for


@pytest.fixture(scope="module")
def daemon(gemmd, tmp_path_factory):
    path = tmp_path_factory.mktemp("shared") / "s"
    daemon = Daemon(gemmd, listen=("127.0.0.1:0", f"unix:{path}"))
    try:
        daemon.wait_until_listening(2).wait_until_ready()
        yield daemon
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture
def call(gemmctl, tmp_path):
    def caller(daemon, *arguments, tcp=False):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("GEMMD_")}
        url = daemon.url if tcp else daemon.addresses[-1]
        return subprocess.run([gemmctl, *map(str, arguments)], cwd=tmp_path, check=False,
                              env={**clean, "GEMMD_URL": url}, capture_output=True,
                              timeout=PATIENCE_S)

    return caller


def shared(done):
    """Whether the product went through shared memory."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout).get("shared", False)


def save(folder, rng, side):
    for name in "AB":
        np.save(folder / f"{name}.npy", rng.standard_normal((side, side)).astype(np.float32))


def test_a_large_product(daemon, call, tmp_path, rng):
    save(tmp_path, rng, 300)
    gemm = ("gemm", "A.npy", "B.npy", "--json")
    assert not shared(call(daemon, *gemm, "-o", "plain.npy", tcp=True))
    assert shared(call(daemon, *gemm, "-o", "auto.npy"))
    assert not shared(call(daemon, *gemm, "-o", "never.npy", "--no-shm"))
    results = {(tmp_path / f"{name}.npy").read_bytes() for name in ("plain", "auto", "never")}
    assert len(results) == 1
    done = call(daemon, "gemm", "A.npy", "B.npy", "-o", "said.npy")
    assert b"through shared memory" in done.stderr
    wait_for(daemon, connections=1, shared_memories=0)
    assert maps(daemon.pid, "memfd:gemmd") == []


def test_a_small_product(daemon, call, tmp_path, rng):
    """It goes faster at one go."""
    save(tmp_path, rng, 16)
    gemm = ("gemm", "A.npy", "B.npy", "--json")
    assert not shared(call(daemon, *gemm, "-o", "auto.npy"))
    assert shared(call(daemon, *gemm, "-o", "always.npy", "--shm"))
    assert (tmp_path / "auto.npy").read_bytes() == (tmp_path / "always.npy").read_bytes()
    stored = call(daemon, "gemm", "A.npy", "B.npy", "--shm", "--store", "kept")
    assert stored.returncode == 0, stored.stderr
    assert daemon.session.delete(f"{daemon.url}/tensors/kept").status_code == 204


def test_attention(daemon, call, tmp_path, rng):
    for name in "QKV":
        np.save(tmp_path / f"{name}.npy",
                rng.standard_normal((1, 2, 24, 16)).astype(np.float16))
    np.save(tmp_path / "lens.npy", np.array([20], np.int32))
    attention = ("attention", "Q.npy", "K.npy", "V.npy", "--json", "--lens-q", "lens.npy",
                 "--lens-kv", "lens.npy")
    assert not shared(call(daemon, *attention, "-o", "plain.npy", "--no-shm"))
    assert shared(call(daemon, *attention, "-o", "shared.npy", "--shm"))
    assert shared(call(daemon, *attention, "-o", "beside.npy", "--shm", "--lse", "lse.npy"))
    plain = (tmp_path / "plain.npy").read_bytes()
    assert (tmp_path / "shared.npy").read_bytes() == plain
    assert (tmp_path / "beside.npy").read_bytes() == plain


def test_where_it_is_not_to_be_had(start, call, tmp_path, rng):
    daemon = start("--no-shm-memfd", listen=("127.0.0.1:0", f"unix:{tmp_path}/s"))
    save(tmp_path, rng, 300)
    gemm = ("gemm", "A.npy", "B.npy", "-o", "C.npy")
    assert not shared(call(daemon, *gemm, "--json"))
    done = call(daemon, *gemm, "--shm")
    assert done.returncode == 1 and b"is off" in done.stderr, done.stderr
    done = call(daemon, *gemm, "--shm", tcp=True)
    assert done.returncode == 2 and b"Unix socket" in done.stderr, done.stderr
    done = call(daemon, *gemm, "--shm", "--no-shm")
    assert done.returncode == 2 and b"exclude each other" in done.stderr, done.stderr


def test_many_at_once(daemon, call):
    done = call(daemon, "bench", "-m", 64, "-n", 64, "-k", 64, "--shm", "--connections", 8,
                "--in-flight", 16, "--requests", 200, "--json")
    assert done.returncode == 0, done.stderr
    wait_for(daemon, connections=1, shared_memories=0)

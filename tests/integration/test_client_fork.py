"""One client of libgemmd in several processes: the library notices a fork, and every process has connections and
shared memory of its own."""

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from certificates import Authority

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "client/python/src"))

from gemmd_client import library  # noqa: E402

CHILDREN, ROUNDS = 4, 20


@pytest.fixture(params=["http", "unix", "https"])
def transport(request, gemmd, start, tmp_path, instrumented, monkeypatch):
    """A client that the children of a fork go on using. The module for Python would let it go in them."""
    if instrumented:
        pytest.skip("Python cannot load a library that a sanitizer is built into")
    monkeypatch.setenv("LIBGEMMD", str(gemmd.parents[1] / "lib/libgemmd.so.0"))
    authority, listen = Authority(tmp_path), ("127.0.0.1:0", f"unix:{tmp_path}/s")
    if request.param == "https":
        certificate, key = authority.server()
        daemon = start("--tls-cert", certificate, "--tls-key", key, listen=listen, ready=False)
        daemon.wait_until_listening(2)
    else:
        daemon = start(listen=listen)
    url = {"http": daemon.url, "unix": listen[1], "https": f"https://localhost:{daemon.address[1]}"}
    # Without retries, a connection that another process has damaged is a failure.
    made = library.LibraryTransport(library.load(), url[request.param], None, authority.certificate, None, None,
                                    0, 60)
    library._all.discard(made)
    yield made
    made.close()


def compute(transport, process):
    """Products whose operands no other process has. The larger ones go through shared memory where there is any."""
    rng = np.random.default_rng(process)
    for number in range(ROUNDS):
        side = (16, 300)[number % 2]
        a, b = (rng.integers(-8, 9, (side, side)).astype(np.float32) for _ in range(2))
        c = np.full_like(a, np.nan)
        transport.gemm(side, side, side, 1, "f32", c, a, b, None, None, scales="none", a_scale=None, b_scale=None,
                       transa=False, transb=False, alpha=1, beta=0, act="none", precision="full", verify=False,
                       priority=4, timeout=60, kernel=None)
        np.testing.assert_array_equal(c, a @ b)


def test_every_process_has_its_own_results(transport):
    compute(transport, 0)
    children = []
    for process in range(1, CHILDREN + 1):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                compute(transport, process)
                transport.close()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    compute(transport, 0)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * CHILDREN
    compute(transport, 0)


def sockets():
    """The sockets of this process."""
    links = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the descriptor of the folder
            links.add(os.readlink(f"/proc/self/fd/{name}"))
    return {link for link in links if link.startswith("socket:")}


def test_a_child_that_releases_the_client_ends_no_connection(transport):
    """With TLS, closing a connection sends a message that ends the connection for the parent too."""
    compute(transport, 0)
    kept = sockets()
    child = os.fork()
    if child == 0:
        transport.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    compute(transport, 0)
    assert sockets() == kept

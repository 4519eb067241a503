"""A libmicrohttpd that parses requests in another way than gemmd checks: the daemon does not start,
or does not look at libmicrohttpd's buffers."""

import numpy as np
import pytest

from daemon import Daemon
from wire import exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
A = np.array([[1, 2], [3, 4]], np.float32)


@pytest.fixture
def environment(gemmd):
    def make(version, layout):
        library = gemmd.parent.parent / "tests/other_parser.so"
        if not library.exists():
            pytest.skip("the library is built with the tests only")
        binary = gemmd.read_bytes()
        if b"__tsan_init" in binary or b"__asan_init" in binary:
            pytest.skip("a sanitizer has to be loaded before all other libraries")
        return {"LD_PRELOAD": str(library), "OTHER_VERSION": version, **({"OTHER_LAYOUT": "1"} if layout else {})}

    return make


@pytest.mark.parametrize("version, layout, reason", [
    ("0.9.75", True, "keeps the head of a request in another way"),
    ("0.9.99", True, "keeps the head of a request in another way"),
    ("0.10.1", False, "is not known to gemmd"),
])
def test_daemon_does_not_start(version, layout, reason, gemmd, environment):
    daemon = Daemon(gemmd, environment=environment(version, layout))
    try:
        assert daemon.wait() == 1
        assert f"libmicrohttpd {version} {reason}" in daemon.stderr()
    finally:
        daemon.close()


@pytest.mark.parametrize("version, layout", [("0.9.75", False), ("0.9.99", False), ("1.0.1", True)])
def test_daemon_serves(version, layout, start, environment):
    """The guard looks at the buffers of libmicrohttpd 0.9 only."""
    daemon = start(environment=environment(version, layout))
    body = A.tobytes() * 2
    answer = exchange(daemon.address, request("POST", "/gemm?m=2&n=2&k=2", [OCTETS, ("Content-Length", len(body))], body))
    assert answer.status == 200
    assert answer.body == (A @ A).tobytes()

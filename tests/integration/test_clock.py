"""The wall clock jumps while the daemon runs, by tests/faults/shift_clock.c. Deadlines and time-outs
follow the monotonic clock; the expiry of tokens and certificates follows the wall clock."""

import datetime
import mmap
import re
import struct
import time

import pytest
import requests

from certificates import Authority
from daemon import PATIENCE_S, PATIENT
from patience import wait_until
from test_traces import collector, traced, wait_for_spans  # pylint: disable=unused-import
from wire import Wire, exchange, request

EXPORTER_WAITS_S = 2  # at most, for the last spans at the daemon's end (server/observe/otlp.c)
HOUR, YEAR = 3600, 365 * 24 * 3600
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR, 20 * YEAR, -20 * YEAR])
OCTETS = ("Content-Type", "application/octet-stream")
GOOD = request("POST", "/gemm?m=2&n=2&k=2&timeout_ms=60000", [OCTETS, ("Content-Length", 32)],
               bytes(32))


class Clock:
    def __init__(self, path):
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 8)

    def jump(self, seconds):
        self.map[:8] = struct.pack("q", seconds)


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


@pytest.fixture
def begin(start, clock, gemmd, tmp_path, sanitized):
    """Starts a daemon whose wall clock `clock` shifts."""
    if sanitized:
        pytest.skip("a library cannot be loaded before a sanitizer's")
    assert clock
    library = gemmd.parent.parent / "tests/shift_clock.so"
    assert library.exists(), f"there is no {library}; the build has to have GEMMD_TESTS"
    environment = {"LD_PRELOAD": str(library), "SHIFT_CLOCK": str(tmp_path / "clock")}
    return lambda *arguments, **more: start(*arguments, environment=environment, **more)


def series(daemon, name):
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


@JUMPS
def test_deadlines_and_timeouts_stay(jump, begin, clock):
    daemon = begin("--io-threads", "1", "--idle-timeout", "600s", "--header-timeout", "600s", *PATIENT)
    started = series(daemon, "process_start_time_seconds")
    with Wire(daemon.address) as idle, Wire(daemon.address) as half, Wire(daemon.address) as waits:
        idle.send(GOOD)
        assert idle.receive().status == 200
        half.send(GOOD[:-20])  # the rest of the body comes after the jump
        waits.send(GOOD.replace(b"m=2", b"m=2&x=1", 1)[:30])  # in the middle of the headers
        clock.jump(jump)
        # The thread ends this request when it looks at time-outs, so that it has looked at the others too.
        late = request("POST", "/gemm?m=2&n=2&k=2&timeout_ms=200", [OCTETS, ("Content-Length", 32)])
        assert exchange(daemon.address, late).status == 504, "a deadline still ends a request"
        half.send(GOOD[-20:])
        assert half.receive().status == 200
        idle.send(GOOD)
        assert idle.receive().status == 200
        waits.send(GOOD.replace(b"m=2", b"m=2&x=1", 1)[30:])
        assert waits.receive().status == 400
    assert series(daemon, "process_start_time_seconds") == started, "no restart is reported"
    assert series(daemon, "gemmd_ready") == 1


@JUMPS
def test_log_lines_have_the_new_time(jump, begin, clock):
    daemon = begin()
    clock.jump(jump)
    exchange(daemon.address, GOOD)
    line = daemon.wait_for(lambda lines: next((line for line in lines
                                               if line.get("message") == "request"
                                               and "/gemm" in str(line)), None), "the line")
    said = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()
    assert abs(said - time.time() - jump) < PATIENCE_S


def test_tokens_expire_by_the_new_time(begin, clock, tmp_path):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"the-short-lived-token expires={end.isoformat(timespec='seconds')}\n")
    tokens.chmod(0o600)
    daemon = begin("--token-file", tokens, ready=False)
    daemon.wait_until_listening()
    with requests.Session() as session:
        session.headers["Authorization"] = "Bearer the-short-lived-token"

        def status():
            return session.get(daemon.url + "/info", timeout=PATIENCE_S).status_code

        assert status() == 200
        clock.jump(2 * HOUR)
        assert status() == 401
        clock.jump(-2 * HOUR)
        assert status() == 200


def test_certificates_expire_by_the_new_time(begin, clock, tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.server()
    known = tuple(map(str, authority.client("alice")))
    daemon = begin("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca",
                   authority.certificate, ready=False)
    daemon.wait_until_listening()
    url = f"https://localhost:{daemon.address[1]}/info"

    def ask():
        return requests.get(url, verify=str(authority.certificate), cert=known,
                            timeout=PATIENCE_S).status_code

    assert ask() == 200
    for jump in (YEAR, -YEAR):
        clock.jump(jump)
        with pytest.raises(requests.ConnectionError):
            ask()
    clock.jump(0)
    assert ask() == 200


def test_spans_are_sent_at_the_end(begin, clock, collector):  # pylint: disable=redefined-outer-name
    """The daemon waits for its exporter by the monotonic clock, so that a wall clock in the past does
    not end the wait at once."""
    collector.answers = [(200, {}, True)]
    daemon = begin("--otlp-endpoint", collector.url)
    assert exchange(daemon.address, traced("01")).status == 200
    wait_until(lambda: collector.seen, "the first spans, for whose answer the exporter waits then")
    assert exchange(daemon.address, traced("01")).status == 200
    clock.jump(-20 * YEAR)
    daemon.session.close()
    began = time.monotonic()
    daemon.terminate()
    daemon.wait_for(lambda lines: any("drained" in str(line) for line in lines), "the drain")
    time.sleep(0.3)  # an exporter that did not wait would have ended
    collector.released.set()
    assert daemon.wait() == 0
    # If this process was too slow to answer the exporter in time, the exporter has waited for all its time.
    if time.monotonic() - began < EXPORTER_WAITS_S:
        wait_for_spans(collector, lambda spans: len(spans) > 0)

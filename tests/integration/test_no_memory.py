"""Each allocation that a request causes fails once, alone or with all that follow. The request is
then answered with an error or its connection is closed, and everything that it held is given back."""

import json
import mmap
import os
import re
import resource
import socket
import struct
import subprocess
import uuid
import zlib
from pathlib import Path

import numpy as np
import pytest

from memory import Memory
from oip import MODEL
from oracle import GAUGES, LONG_DRAIN, Oracle, answers, wait_until
from wire import Wire, exchange, request

OCTETS, CLOSE = ("Content-Type", "application/octet-stream"), ("Connection", "close")
BODY = np.arange(8, dtype=np.float32).tobytes()
LARGE = np.ones(2 * 32 * 32, np.float32).tobytes()
ALL = 1 << 40  # more allocations than a request makes
MOST = 5000  # no request makes so many allocations


class Plan:
    """The plan of tests/faults/fail_allocation.c."""

    def __init__(self, path):
        path.write_bytes(bytes(24))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 24)

    def arm(self, left, to_fail):
        self.map[16:24] = bytes(8)
        self.map[:8] = struct.pack("q", left)
        self.map[8:16] = struct.pack("q", to_fail)

    def disarm(self):
        """Returns how many allocations have failed."""
        self.map[8:16] = bytes(8)
        return struct.unpack("q", self.map[16:24])[0]


@pytest.fixture
def plan(tmp_path):
    return Plan(tmp_path / "plan")


@pytest.fixture
def daemon(start, gemmd, plan, tmp_path, instrumented):
    if instrumented:
        pytest.skip("a sanitizer has an allocator of its own")
    library = gemmd.parent.parent / "tests/fail_allocation.so"
    assert library.exists(), f"there is no {library}; the build has to have GEMMD_TESTS"
    return start("--io-threads", "1", "--compress-answers", "--shm-system", "--no-access-log", *LONG_DRAIN,
                 listen=("127.0.0.1:0", f"unix:@gemmd-test-{uuid.uuid4().hex}"),
                 environment={"LD_PRELOAD": str(library),
                              "FAIL_ALLOCATION": str(tmp_path / "plan")})


def http(method, target, *headers, body=b""):
    return request(method, target, [CLOSE, *headers, ("Content-Length", len(body))] if body
                   else [CLOSE, *headers], body)


def infer(headers=()):
    tensor = {"datatype": "FP32", "shape": [2, 2]}
    text = json.dumps({"inputs": [{"name": "a", **tensor, "data": [0, 1, 2, 3]},
                                  {"name": "b", **tensor, "data": [4, 5, 6, 7]}]}).encode()
    return http("POST", f"/v2/models/{MODEL['f32']}/infer", *headers, body=text)


REQUESTS = {
    "livez": http("GET", "/livez"), "readyz": http("GET", "/readyz"), "info": http("GET", "/info"),
    "metrics": http("GET", "/metrics"), "description": http("GET", "/openapi.json"),
    "compressed answer": http("GET", "/openapi.json", ("Accept-Encoding", "gzip")),
    "dashboard": http("GET", "/"), "not found": http("GET", "/nothing"),
    "method not allowed": http("DELETE", "/gemm"),
    "coding": http("POST", "/gemm?m=2&n=2&k=2", OCTETS, ("Content-Encoding", "br"), body=BODY),
    "product": http("POST", "/gemm?m=2&n=2&k=2", OCTETS, body=BODY),
    "compressed product": http("POST", "/gemm?m=32&n=32&k=32", OCTETS, ("Content-Encoding", "deflate"),
                               ("Accept-Encoding", "gzip"), body=zlib.compress(LARGE)),
    "chunked product": request("POST", "/gemm?m=2&n=2&k=2", [CLOSE, OCTETS,
                               ("Transfer-Encoding", "chunked")], b"20\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "stored product": http("POST", "/gemm?m=2&n=2&k=2&store=s", OCTETS, body=BODY),
    "product with a resident": http("POST", "/gemm?m=2&n=2&k=2&b=t", OCTETS, body=BODY[:16]),
    "attention": http("POST", "/attention?heads=1&sq=2&skv=2&d=2", OCTETS, body=BODY + BODY[:16]),
    "job": http("POST", "/gemm?m=2&n=2&k=2", OCTETS, ("Prefer", "respond-async"), body=BODY),
    "jobs": http("GET", "/jobs/none"), "tensors": http("GET", "/tensors"),
    "tensor": http("GET", "/tensors/t"), "tensor's head": http("HEAD", "/tensors/t"),
    "tensor known": http("GET", "/tensors/t", ("If-None-Match", "*")),
    "upload": http("PUT", "/tensors/t?dtype=f32&shape=2,2", OCTETS, body=BODY[:16]),
    "delete": http("DELETE", "/tensors/none"), "v2": http("GET", "/v2"),
    "model": http("GET", f"/v2/models/{MODEL['f32']}"),
    "repository": http("POST", "/v2/repository/index"), "infer": infer(),
    "regions": http("GET", "/v2/systemsharedmemory/status"),
    "region that is not there": http("POST", "/v2/systemsharedmemory/region/r/register", body=json.dumps(
        {"key": "/none", "offset": 0, "byte_size": 64}).encode()),
}


def head_names(received):
    head = received.split(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return head[0], {line.split(":")[0] for line in head[1:]}


def document(received):
    """The JSON document of an answer; None if the connection ended before all of it had arrived."""
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    return json.loads(body) if len(body) == length else None


def covers(document, least):
    """Whether a JSON document has the members and at least as many elements as another one."""
    if isinstance(least, dict):
        return document.keys() == least.keys() and all(
            covers(document[name], least[name]) for name in least)
    if isinstance(least, list):
        return len(document) >= len(least) and all(map(covers, document, least))
    return True


def fail_each(plan, send, right, errors=("500", "503"), check=lambda received: None):
    """`send` sends the request on a new connection and returns all that is received. An answer whose
    status is `right`'s has all of its headers, and passes `check`. Any other status is one of `errors`."""
    for to_fail in (1, ALL):
        left = 0
        while left < MOST:
            plan.arm(left, to_fail)
            try:
                received = send()
            finally:
                failed = plan.disarm()
            status, names = head_names(received)
            if status == head_names(right)[0]:
                assert names == head_names(right)[1], (left, to_fail, received)
                check(received)
            else:
                assert failed > 0, received
                assert not received or status.split(" ")[1] in errors, (left, received)
            if not failed:
                break
            left += 1 + left // 20  # some requests make thousands
        assert not failed, f"more than {MOST} allocations"


@pytest.mark.parametrize("part", range(3))
def test_no_memory_for_a_request(part, daemon, plan):
    def send(data):
        with Wire(daemon.address) as wire:
            wire.try_to_send(data)
            return answers(wire)

    for data in (REQUESTS["upload"], REQUESTS["stored product"], REQUESTS["tensor"]):
        send(data)  # the tensors exist, and their tags are known
    oracle = Oracle(daemon)
    for name in list(REQUESTS)[part::3]:
        right = send(REQUESTS[name])
        assert right, name
        # jansson does not tell a lack of memory from a text that is not JSON.
        errors = ("400", "500", "503") if name == "region that is not there" else ("500", "503")
        fail_each(plan, lambda data=REQUESTS[name]: send(data), right, errors)
    oracle.check()
    oracle.check_exit()


def test_no_memory_for_a_tensor_that_is_sent_while_it_is_copied(daemon, plan):
    """An answer that has begun is whole."""
    tensor = np.arange(1 << 21, dtype=np.float32).tobytes()  # 8 MiB
    get = http("GET", "/tensors/large", ("Accept", "application/x-npy"))

    def send(data=get):
        with Wire(daemon.address) as wire:
            wire.try_to_send(data)
            return answers(wire)

    def check(received):
        assert received.endswith(tensor)

    send(http("PUT", "/tensors/large?dtype=f32&shape=2048,1024", OCTETS, body=tensor))
    right = send()
    check(right)
    oracle = Oracle(daemon)
    fail_each(plan, send, right, check=check)
    oracle.check()
    oracle.check_exit()


@pytest.mark.parametrize("path", ["/info", "/v2", "/dashboard/requests", "/dashboard/kernels", "/tensors",
                                  "/v2/repository/index", "/v2/models/stats", "/v2/systemsharedmemory/status"])
def test_no_list_without_an_element(path, daemon, plan):
    """A document for which there is no memory is no document, and not a shorter one."""
    data = http("POST" if "index" in path else "GET", path)

    def send(what=data):
        with Wire(daemon.address) as wire:
            wire.try_to_send(what)
            return answers(wire)

    for name in ("upload", "product", "attention"):
        send(REQUESTS[name])
    for _ in range(3):
        send(http("POST", "/gemm?m=0"))
    memory = Path("/dev/shm", f"gemmd-test-{uuid.uuid4().hex}")
    memory.write_bytes(bytes(64))
    send(http("POST", "/v2/systemsharedmemory/region/r/register", body=json.dumps(
        {"key": f"/{memory.name}", "offset": 0, "byte_size": 64}).encode()))
    memory.unlink()  # the daemon has mapped it
    right = send()
    assert b" 200 " in right.split(b"\r\n")[0], right
    wanted = [document(right)]  # what was there before is there still; requests that fail add to the list
    assert wanted[0]
    statuses = set()

    def failing_send():
        received = send()
        statuses.add(head_names(received)[0])
        return received

    def check(received):
        got = document(received)
        if got is not None:
            assert covers(got, wanted[0]), (got, wanted[0])
            wanted[0] = got

    fail_each(plan, failing_send, right, check=check)
    assert any(" 500 " in status or " 503 " in status for status in statuses), statuses
    assert covers(document(send()), wanted[0])


def test_no_job_without_its_id(daemon, plan):
    """A job whose 202 could not be sent is not computed and kept for nobody."""
    oracle = Oracle(daemon, ("gemmd_pinned_memory_used_bytes",))
    named = 0
    for left in range(40):
        with Wire(daemon.address) as wire:
            wire.send(REQUESTS["livez"].replace(b"Connection: close\r\n", b""))
            assert wire.receive().status == 200
            plan.arm(left, 1)
            wire.send(REQUESTS["job"])
            received = answers(wire)
            plan.disarm()
        accepted = received.startswith(b"HTTP/1.1 202 ")
        assert accepted == (b"\r\nLocation: /jobs/" in received), received
        named += accepted
    assert named > 0

    def kept():
        states = exchange(daemon.address, http("GET", "/metrics")).body.decode()
        return {state: int(re.search(rf'^gemmd_jobs{{state="{state}"}} (\d+)$', states, re.M)[1])
                for state in ("receiving", "queued", "running", "done", "failed")}

    wait_until(lambda: kept()["done"] == sum(kept().values()) == named, lambda: f"{named}: {kept()}")
    oracle.check()
    oracle.check_exit()


def test_no_memory_for_a_request_with_shared_memory(daemon, plan):
    """The mapping belongs to the connection and ends with it."""
    oracle = Oracle(daemon)
    name = next(address for address in daemon.addresses if address.startswith("unix:"))
    data = http("POST", "/gemm?m=2&n=2&k=2", ("Gemmd-Memory", "a=0, b=16, c=64"))
    with Memory(1 << 16) as memory:
        memory.put(0, np.arange(8, dtype=np.float32))

        def send():
            with Wire(name.removeprefix("unix:").replace("@", "\0", 1)) as wire:
                try:
                    socket.send_fds(wire.socket, [b"\r\n"], [memory.fd])
                except BrokenPipeError:
                    return b""
                wire.try_to_send(data)
                return answers(wire)

        right = send()
        assert b" 200 " in right, right
        fail_each(plan, send, right)
        assert all("shared_mem" not in gauge or oracle.before[gauge] == 0 for gauge in GAUGES)
        oracle.check()
    oracle.check_exit()


@pytest.mark.parametrize("command", ["gemm", "tensors", "jobs", "info", "random"])
def test_no_memory_for_gemmctl(command, url, gemmd, gemmctl, plan, tmp_path, instrumented):
    """An allocation of the program, of libgemmd or of libcurl fails: it ends with a right result, or with a
    message and another status than 0."""
    if instrumented:
        pytest.skip("a sanitizer has an allocator of its own")
    a, b, c = (tmp_path / name for name in ("a.npy", "b.npy", "c.npy"))
    np.save(a, np.ones((13, 19), np.float32))
    np.save(b, np.ones((19, 17), np.float32))
    arguments = {"gemm": ["gemm", a, b, "-o", c], "tensors": ["tensor", "ls"], "jobs": ["job", "ls"],
                 "info": ["info"], "random": ["gemm", "--random", "8x8x8", "--check"]}[command]

    def run():
        return subprocess.run([gemmctl, "--url", url, *arguments], capture_output=True, text=True, timeout=60,
                              check=False, env={**os.environ, "FAIL_ALLOCATION": str(tmp_path / "plan"), "LD_PRELOAD":
                                                str(gemmd.parent.parent / "tests/fail_allocation.so")})

    for to_fail in (1, ALL):
        left = failed = 0
        while left < MOST:
            c.unlink(missing_ok=True)
            plan.arm(left, to_fail)
            ran = run()
            failed = plan.disarm()
            assert ran.returncode >= 0, (left, to_fail, ran)
            if ran.returncode == 0:
                assert command != "gemm" or (np.load(c) == 19).all()
            else:
                assert failed > 0, ran
                assert ran.stderr, (left, to_fail, "no message")
            if not failed:
                break
            left += 1 + left // 8
        assert not failed, f"more than {MOST} allocations"


@pytest.mark.parametrize("options", [("-m8", "-n8", "--in-flight=1000000000"), ("-m200000", "-n200000")],
                         ids=["requests", "results"])
def test_no_memory_for_a_measurement(options, url, gemmctl, instrumented):
    """More requests in flight than addresses, and results that are larger."""
    if instrumented:
        pytest.skip("a sanitizer has an allocator of its own")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    ran = subprocess.run([gemmctl, "--url", url, "bench", "-k8", "--connections=1", *options], capture_output=True,
                         text=True, timeout=60, check=False, preexec_fn=limit)
    assert (ran.returncode, ran.stderr) == (1, "gemmctl: there is no memory for results of this size\n")

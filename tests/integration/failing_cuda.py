"""Daemons whose calls of CUDA fail by a plan (tests/faults/fail_cuda.h), on a GPU or a simulated one."""

import contextlib
import mmap
import os
import struct
import subprocess
import threading
import uuid
from dataclasses import dataclass

import numpy as np

from daemon import PATIENCE_S
from wire import Wire, exchange, request

# enum cuda_fault, and the sizes of tests/faults/fail_cuda.h.
ERROR, STICKY, TRAP, BUSY, WAIT = range(5)
FAULT, PLANNED, SITE, SITES, NAME = struct.Struct("7q"), 2, struct.Struct("2q48s"), 1024, 48
ANY_LAUNCH = -1
# cudaError_t.
INVALID_VALUE, MEMORY_ALLOCATION, ILLEGAL_ADDRESS = 1, 2, 700

OCTETS = ("Content-Type", "application/octet-stream")


def program_of(gemmd):
    """The program beside a build's daemon that runs here: with a GPU, or with a simulated one. None: neither."""
    try:
        gpu = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=PATIENCE_S,
                             check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        gpu = False
    folder = gemmd.parent.parent / "tests"
    for name in ("gemmd-failing-cuda", "gemmd-simulated-cuda")[not gpu:]:
        if (folder / name).exists():
            return folder / name
    return None


@dataclass(frozen=True)
class Site:
    """A place in the daemon's program that calls CUDA."""
    offset: int
    name: str

    def __str__(self):
        return f"{self.name} before {self.offset:#x}"


class Plan:
    """The plan of one daemon, in a file of its own."""

    def __init__(self, path):
        size = FAULT.size * PLANNED + SITE.size * SITES
        path.write_bytes(bytes(size))
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), size)
        self.environment = {"FAIL_CUDA": str(path)}

    def arm(self, fault, site=0, error=0, ms=0, left=0, to_fail=1, number=0):
        at = number * FAULT.size
        self.map[at:at + FAULT.size] = FAULT.pack(fault, site, error, ms, left, 0, 0)
        self.map[at + 40:at + 48] = struct.pack("q", to_fail)

    def disarm(self, number=0):
        """Returns how many calls have failed."""
        at = number * FAULT.size
        self.map[at + 40:at + 48] = bytes(8)
        return FAULT.unpack_from(self.map, at)[6]

    def sites(self):
        """The sites that were reached, with the number of calls of each."""
        found = {}
        for i in range(SITES):
            offset, calls, name = SITE.unpack_from(self.map, FAULT.size * PLANNED + i * SITE.size)
            if offset:
                found[Site(offset, name.rstrip(b"\0").decode())] = calls
        return found


class Refused(Exception):
    """An answer other than a result."""

    def __init__(self, answer):
        super().__init__(f"{answer.status} {answer.body[:300]}")
        self.answer = answer


def ask(address, method, target, body=b"", headers=()):
    """The body of an answer with a result."""
    answer = exchange(address, request(method, target, [
        OCTETS, ("Connection", "close"), ("Content-Length", len(body)), *headers], body))
    if answer.status not in (200, 201, 204):
        raise Refused(answer)
    return answer.body


class Workload:
    """Requests that reach the calls of CUDA. Each step returns the bytes that it has received, which are
    the same in every run without a fault."""

    def __init__(self, daemon, plan):
        self.daemon, self.plan = daemon, plan
        self.address = daemon.address
        rng = np.random.default_rng(7)
        self.bytes = rng.standard_normal(1 << 20).astype(np.float32).tobytes()
        self.key = f"gemmd-test-{uuid.uuid4().hex}"
        with open(f"/dev/shm/{self.key}", "wb") as file:
            file.write(bytes(4096))
        info = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()
        daemon.session.close()
        kernels = [kernel["name"] for kernel in info["kernels"]]
        self.steps = {
            "small": lambda: self.product(16, 16, 16),
            "large": lambda: self.product(2049, 200, 199),
            "early": lambda: self.product(4096, 64, 250),
            "verified": lambda: self.product(257, 130, 131, "&verify=freivalds"),
            "batch": lambda: self.product(40, 41, 42, "&batch=5"),
            "resident": lambda: self.product(300, 128, 96, "&b=w", b=False),
            "attention": self.attention,
            "attentions": self.attentions,
            "stack": self.stack,
            "tensor": self.tensor,
            "region": self.region,
            **{name: lambda name=name: self.product(130, 140, 150, f"&kernel={name}") for name in kernels},
            **{dtype: lambda dtype=dtype: self.product(130, 140, 150, f"&dtype={dtype}")
               for dtype in ("f64", "bf16", "i8")},
        }
        self.prepare()
        self.right = {}
        for name, step in list(self.steps.items()):
            try:
                self.right[name] = step()
            except Refused as refusal:
                # Some kernels do not take f32, and some are of attentions.
                if refusal.answer.status != 422 or name not in kernels:
                    raise
                del self.steps[name]
        alone = [exchange(self.address, one).body for one in self.small_attentions()]
        assert self.right["attentions"] == b"".join(sorted(alone)), "attentions that share a launch"

    def close(self):
        os.unlink(f"/dev/shm/{self.key}")

    def prepare(self):
        """What steps need on the device, which is lost with it."""
        ask(self.address, "PUT", "/tensors/w?dtype=f32&shape=96,128", self.bytes[:4 * 96 * 128])

    def product(self, m, n, k, query="", b=True):
        size = 8 if "f64" in query else 2 if "bf16" in query else 1 if "i8" in query else 4
        count = (m * k + (k * n if b else 0)) * (5 if "batch" in query else 1)
        # Bytes of f32 numbers as f64 and bf16 are any numbers; zeros are enough there.
        body = self.bytes[:count * size] if size in (1, 4) else bytes(count * size)
        return ask(self.address, "POST", f"/gemm?m={m}&n={n}&k={k}{query}", body)

    def attention(self):
        heads, positions, width = 2, 100, 64
        return ask(self.address, "POST", f"/attention?heads={heads}&sq={positions}&d={width}&dtype=f32",
                   self.bytes[:3 * heads * positions * width * 4])

    def together(self, data):
        """The answers to requests that wait for the device at the same time, sorted; behind a product that
        keeps the only stream for large works busy."""
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(self.address)) for _ in data]
            self.plan.arm(BUSY, ANY_LAUNCH, ms=30, number=1)
            stack.callback(self.plan.disarm, number=1)
            for wire, one in zip(wires, data):
                wire.try_to_send(one)
            answers = [wire.receive() for wire in wires]
        for answer in answers:
            if answer.status != 200:
                raise Refused(answer)
        return b"".join(sorted(answer.body for answer in answers))

    def small_attentions(self):
        """Requests whose attentions can share a launch."""
        length = 3 * 20 * 64 * 4
        return [request("POST", "/attention?heads=1&sq=20&d=64&dtype=f32",
                        [OCTETS, ("Connection", "close"), ("Content-Length", length)],
                        self.bytes[i * length:(i + 1) * length]) for i in range(6)]

    def attentions(self):
        return self.together(self.small_attentions())

    def stack(self):
        length = 3 * 96 * 4
        return self.together([
            request("POST", "/gemm?m=3&b=w", [OCTETS, ("Connection", "close"), ("Content-Length", length)],
                    self.bytes[i * length:(i + 1) * length]) for i in range(4)])

    def tensor(self):
        data = self.bytes[:4 * 100 * 33]
        ask(self.address, "PUT", "/tensors/t?dtype=f32&shape=100,33", data)
        try:
            return ask(self.address, "GET", "/tensors/t")
        finally:
            ask(self.address, "DELETE", "/tensors/t")

    def region(self):
        json = b'{"key": "/%s", "offset": 0, "byte_size": 4096}' % self.key.encode()
        header = ("Content-Type", "application/json")
        received = exchange(self.address, request(
            "POST", "/v2/systemsharedmemory/region/r/register",
            [header, ("Connection", "close"), ("Content-Length", len(json))], json))
        if received.status != 200:
            raise Refused(received)
        ask(self.address, "POST", "/v2/systemsharedmemory/region/r/unregister")
        return b""

    def run(self):
        """Runs all steps. Returns the steps that got no result, each with its answer, or None where the
        connection ended without one."""
        refused = {}
        for name, step in self.steps.items():
            try:
                received = step()
            except Refused as refusal:
                refused[name] = refusal.answer
            except OSError:
                refused[name] = None
            else:
                assert received == self.right[name], f"{name}: a wrong result"
        return refused


class Clients:
    """Clients that send the same product again and again, over connections of their own. A refused
    request is repeated, as libgemmd does."""

    def __init__(self, address, count=4):
        self.address = address
        m, n, k = 65, 66, 67
        a = np.random.default_rng(3).integers(-3, 4, (m, k)).astype(np.float32)
        b = np.random.default_rng(4).integers(-3, 4, (k, n)).astype(np.float32)
        self.right = (a @ b).tobytes()
        body = a.tobytes() + b.tobytes()
        self.data = request("POST", f"/gemm?m={m}&n={n}&k={k}", [OCTETS, ("Content-Length", len(body))], body)
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.right_count, self.wrong, self.refused, self.unconnected, self.statuses = 0, 0, 0, 0, set()
        self.threads = [threading.Thread(target=self.work) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while not self.ended.is_set():
            try:
                with Wire(self.address) as wire:
                    while not self.ended.is_set():
                        wire.send(self.data)
                        self.count(wire.receive())
            except ConnectionRefusedError:
                with self.lock:
                    self.unconnected += 1
            except OSError:
                pass  # closed without an answer, which a client may repeat

    def count(self, answer):
        with self.lock:
            self.statuses.add(answer.status)
            if answer.status != 200:
                self.refused += 1
            elif answer.body == self.right:
                self.right_count += 1
            else:
                self.wrong += 1

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join()

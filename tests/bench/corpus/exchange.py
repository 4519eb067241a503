"""One of the two daemons that are compared: its process, connections to it, requests and answers."""

import fcntl
import http.client
import json
import mmap
import os
import socket
import time
from dataclasses import dataclass

from serving import servers

from .units import Request

# An answer that takes longer is none.
PATIENCE_S = 120
# Ways to a daemon: a Unix socket whose connections bring a memfd is one, too.
TCP, UNIX, MEMFD = range(3)
# Kinds of shared memory, and the size of each.
MEMORY = ("memfd", "object")
MEMORY_BYTES = 1 << 20


@dataclass
class Answer:
    status: int  # 0: the connection ended without an answer
    headers: list
    body: bytes


class Connection:
    """A connection that is opened when it is needed, and again after the daemon has closed it."""

    def __init__(self, address, descriptor=None):
        self.address, self.descriptor = address, descriptor
        self.socket = None
        self.method = None

    def open(self):
        if self.address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE_S)
            self.socket.connect(self.address.removeprefix("unix:"))
            if self.descriptor is not None:
                socket.send_fds(self.socket, [b"\r\n"], [self.descriptor])
        else:
            host, _, port = self.address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method, data):
        """Sends one request. If the daemon has closed the connection meanwhile, the answer is read all the same."""
        self.method = method
        try:
            if self.socket is None:
                self.open()
            self.socket.sendall(data)
        except OSError:
            pass

    def receive(self):
        if self.socket is None:
            return Answer(0, [], b"no connection")
        response = http.client.HTTPResponse(self.socket, method=self.method)
        try:
            response.begin()
            answer = Answer(response.status, response.getheaders(), response.read())
        except (OSError, http.client.HTTPException) as error:
            answer = Answer(0, [], type(error).__name__.encode())
        if answer.status == 0:
            self.close()
        elif response.will_close:
            self.await_end()
        return answer

    def await_end(self):
        """Waits until the daemon has closed the connection: one that the client closes first may be counted as one
        whose client disconnected before the answer."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.close()

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def encode(request, location, key):
    """The bytes of a request."""
    if request.raw is not None:
        return request.raw
    path = request.path.replace("{location}", location)
    lines = [f"{request.method} {path} HTTP/1.1", "Host: gemmd"]
    if request.id is not None:
        lines.append(f"X-Request-Id: {request.id}")
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    body = request.body.replace(b"{key}", key.encode())
    if request.parts:
        lines.append("Transfer-Encoding: chunked")
        body = b"".join(chunks(body, request.parts))
    elif "Content-Length" not in request.headers and (body or request.method in ("POST", "PUT")):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunks(body, parts):
    """The body as chunks of the sizes in `parts`, and what is left as one more."""
    for size in (*parts, len(body)):
        if body:
            yield b"%x\r\n" % len(body[:size]) + body[:size] + b"\r\n"
            body = body[size:]
    yield b"0\r\n\r\n"


class Memory:
    """A memfd, or a POSIX shared memory object."""

    def __init__(self, key=None):
        self.key = key
        if key is None:
            self.descriptor = os.memfd_create("corpus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        else:
            self.descriptor = os.open(f"/dev/shm{key}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.descriptor, MEMORY_BYTES)
        if key is None:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.map = mmap.mmap(self.descriptor, MEMORY_BYTES)

    def close(self):
        self.map.close()
        os.close(self.descriptor)
        if self.key is not None:
            os.unlink(f"/dev/shm{self.key}")


class Side:
    """A daemon and the connections to it. `headers` are those of its own requests, which `get` sends."""

    def __init__(self, program, options, folder, name, headers):
        path = os.path.join(folder, f"{name}.sock")
        self.headers = headers
        self.key = f"/gemmd-corpus-{os.getpid()}-{name}"
        self.log = os.path.join(folder, f"{name}.log")
        self.server = servers.Server([program, "--listen", "127.0.0.1:0", "--listen", f"unix:{path}", *options],
                                     self.log)
        self.memory = {"memfd": Memory(), "object": Memory(self.key)}
        self.addresses = (self.server.address, f"unix:{path}", f"unix:{path}")
        self.connections = {}
        self.location = ""
        self.waiting = []

    def await_ready(self):
        """Waits until the daemon computes, and until a second has passed, when the dashboard has a sample."""
        end = time.monotonic() + PATIENCE_S
        while self.get("/readyz") is None or not json.loads(self.get("/dashboard/history"))["samples"]:
            if time.monotonic() > end:
                raise RuntimeError(f"the daemon at {self.addresses[TCP]} does not become ready")
            time.sleep(0.05)

    def send(self, request, way, number=0):
        """Sends a request over the connection of the number."""
        if request.shared is not None:
            memory = self.memory[request.shared.kind].map
            memory[:] = bytes(MEMORY_BYTES)
            for offset, data in request.shared.written:
                memory[offset:offset + len(data)] = data
            if request.shared.kind == "memfd":
                way = MEMFD
        if (way, number) not in self.connections:
            descriptor = self.memory["memfd"].descriptor if way == MEMFD else None
            self.connections[way, number] = Connection(self.addresses[way], descriptor)
        connection = self.connections[way, number]
        connection.send(request.method, encode(request, self.location, self.key))
        self.waiting.append((connection, request))

    def receive(self):
        """The answer to the oldest request that has none yet, with what is in shared memory behind its body."""
        connection, request = self.waiting.pop(0)
        answer = connection.receive()
        for name, value in answer.headers:
            if name == "Location":
                self.location = value
        if request.shared is not None:
            offset, length = request.shared.read
            answer.body += self.memory[request.shared.kind].map[offset:offset + length]
        return answer

    def get(self, path):
        """The body, if the status is 200; None otherwise."""
        self.send(Request("GET", path, headers=self.headers), TCP)
        answer = self.receive()
        return answer.body if answer.status == 200 else None

    def stop(self):
        """Ends the daemon, and returns its status. Prints the end of its log if it failed."""
        for connection in self.connections.values():
            connection.close()
        status = self.server.stop()
        if status != 0:
            with open(self.log, encoding="utf-8", errors="replace") as file:
                print(f"{self.log}, status {status}:\n{file.read()[-3000:]}", flush=True)
        for memory in self.memory.values():
            memory.close()
        return status

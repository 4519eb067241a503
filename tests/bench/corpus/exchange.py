"""One of the two daemons that are compared: its process, connections to it, requests and answers."""

import http.client
import json
import os
import socket
import time
from dataclasses import dataclass

from serving import servers

from .units import Request

# An answer that takes longer is none.
PATIENCE_S = 300


@dataclass
class Answer:
    status: int  # 0: the connection ended without an answer
    headers: list
    body: bytes


class Connection:
    """A connection that is opened when it is needed, and again after the daemon has closed it."""

    def __init__(self, address):
        self.address = address
        self.socket = None
        self.method = None

    def open(self):
        if self.address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE_S)
            self.socket.connect(self.address.removeprefix("unix:"))
        else:
            host, _, port = self.address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method, data):
        """Sends one request. If the daemon has closed the connection meanwhile, the answer is read all the same."""
        if self.socket is None:
            self.open()
        self.method = method
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def receive(self):
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


def encode(request, location):
    """The bytes of a request."""
    if request.raw is not None:
        return request.raw
    path = request.path.replace("{location}", location)
    lines = [f"{request.method} {path} HTTP/1.1", "Host: gemmd"]
    if request.id is not None:
        lines.append(f"X-Request-Id: {request.id}")
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    body = request.body
    if request.parts:
        lines.append("Transfer-Encoding: chunked")
        body = b"".join(chunks(request.body, request.parts))
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


class Side:
    """A daemon and the connections to it."""

    def __init__(self, program, options, folder, name):
        path = os.path.join(folder, f"{name}.sock")
        self.server = servers.Server(
            [program, "--listen", "127.0.0.1:0", "--listen", f"unix:{path}", *options],
            os.path.join(folder, f"{name}.log"))
        self.addresses = (self.server.address, f"unix:{path}")
        self.connections = {}
        self.location = ""
        self.waiting = []
        # Once a second has passed, the dashboard's documents have all their members.
        while not json.loads(self.get("/dashboard/history"))["samples"] or self.get("/readyz") is None:
            time.sleep(0.05)

    def send(self, request, way, number=0):
        """Sends a request: way 0 is TCP, way 1 the Unix socket."""
        key = (way, number)
        if key not in self.connections:
            self.connections[key] = Connection(self.addresses[way])
        self.connections[key].send(request.method, encode(request, self.location))
        self.waiting.append(self.connections[key])

    def receive(self):
        """The answer to the oldest request that has none yet."""
        answer = self.waiting.pop(0).receive()
        for name, value in answer.headers:
            if name == "Location":
                self.location = value
        return answer

    def get(self, path):
        """The body, if the status is 200."""
        self.send(Request("GET", path), 0)
        answer = self.receive()
        return answer.body if answer.status == 200 else None

    def stop(self):
        """Ends the daemon, and returns its status."""
        for connection in self.connections.values():
            connection.close()
        return self.server.stop()

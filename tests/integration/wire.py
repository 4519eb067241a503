"""HTTP/1.1 by hand, for what no well-behaved client would send."""

import select
import socket
import time
from dataclasses import dataclass, field

from daemon import PATIENCE_S


@dataclass
class Answer:
    status: int
    headers: dict = field(default_factory=dict)  # names in lower case
    body: bytes = b""


class Wire:
    """One connection. `address` is (host, port), or a path for a Unix socket."""

    def __init__(self, address):
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.settimeout(PATIENCE_S)
            self.socket.connect(address)
        else:
            self.socket = socket.create_connection(address, timeout=PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def try_to_send(self, data):
        """For a peer that may have answered and closed already."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def drip(self, data, pause_s):
        """Sends a byte at a time until an answer arrives. Nothing is sent behind an answer, on which the daemon's
        end of the connection could be a reset that overtakes the answer."""
        for byte in data:
            self.socket.sendall(bytes([byte]))
            if select.select([self.socket], [], [], pause_s)[0]:
                return

    def wait_until_read(self):
        """Waits until the daemon has read all that was sent, over IPv4. A client that leaves before that may leave
        no trace: the system drops what is unread together with the connection."""
        ends = " ".join(f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}" for host, port in
                        (self.socket.getpeername(), self.socket.getsockname()))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with open("/proc/net/tcp", encoding="ascii") as table:
                queued = [line.split()[4] for line in table if ends in line]
            assert queued, "the daemon has ended the connection"
            if all(bytes_in_queues.endswith(":00000000") for bytes_in_queues in queued):
                return
            assert time.monotonic() < deadline, "the daemon does not read what was sent"
            time.sleep(0.01)

    def half_close(self):
        """Ends the client's side. The daemon may have closed the connection already."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError("closed by the daemon")
        self.buffer += data

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(mark, 1)
        return head

    def _exactly(self, count):
        while len(self.buffer) < count:
            self._more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def receive(self, head=False):
        """The next answer; `head` if the request was one to HEAD. 1xx answers are answers too."""
        lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status = lines[0].split(" ")[:2]
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        answer = Answer(int(status))
        for line in lines[1:]:
            name, _, value = line.partition(":")
            answer.headers[name.strip().lower()] = value.strip()
        if head or answer.status < 200 or answer.status in (204, 304):
            return answer
        if answer.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self._until(b"\r\n").split(b";")[0], 16):
                answer.body += self._exactly(size)
                self._until(b"\r\n")
            self._until(b"\r\n")
        elif "content-length" in answer.headers:
            answer.body = self._exactly(int(answer.headers["content-length"]))
        else:
            try:
                while True:
                    self._more()
            except ConnectionResetError:
                answer.body, self.buffer = self.buffer, b""
        return answer

    def closed(self):
        """Whether the daemon ends the connection, without another answer."""
        try:
            return not self.buffer and self.socket.recv(1) == b""
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False

    def rest(self):
        """All that comes until the daemon ends the connection."""
        try:
            while True:
                self._more()
        except ConnectionResetError:
            return self.buffer


def request(method, target, headers=(), body=b"", host="gemmd"):
    """The bytes of one request; Content-Length is not added."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def exchange(address, data, head=False):
    """Sends `data` on a connection of its own and returns the first answer."""
    with Wire(address) as wire:
        wire.try_to_send(data)
        return wire.receive(head)

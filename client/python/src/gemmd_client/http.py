"""Requests to a daemon, and HTTP over TCP, TLS or a Unix socket, on kept connections that threads can share."""

from __future__ import annotations

import errno
import http.client
import json
import math
import os
import random
import socket
import ssl
import time
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.message import Message
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import numpy as np

from .arrays import DTYPES, Array, octets
from .errors import ConnectionFailed, GemmdError, ProtocolError, Timeout, from_code
from .progress import PIECE_BYTES, Progress

_TOKEN_MAX = 4096
_PATH_MAX = 107  # bytes of a Unix socket's path, without the zero behind it
_all: weakref.WeakSet[Transport] = weakref.WeakSet()


@dataclass(frozen=True)
class Request:
    """A request, and how it is sent.

    Attributes:
        timeout: seconds, for the request with all its repeats.
        repeatable: whether the request may be sent again after a connection was lost. If its parameter timeout_ms is
            longer than the daemon's --max-timeout, a repeatable request is sent without it.
        result: whether the body of the answer is an array of the shape and type that the answer names.
    """

    method: str
    path: str
    timeout: float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    operands: Sequence[Array] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    result: bool = False


@dataclass
class Answer:
    """The answer to a request: its status, its headers, and its body."""

    status: int
    headers: Message
    body: bytes | Array


@dataclass(frozen=True)
class Pause:
    """A wait of so many seconds between two requests."""

    seconds: float


Step = Request | Pause | Callable[[], Any]
"""A part of a plan: a request, which is answered by an Answer, a pause, or a computation that takes long."""
T = TypeVar("T")
Plan = Generator[Step, Any, T]
"""What a method does, whether it blocks or is a coroutine: yields steps, takes their outcomes, and returns T."""


async def carry_out(plan: Plan[T], take: Callable[[Step], Awaitable[Any]]) -> T:
    """Has `take` take the steps of a plan, tells the plan their outcomes and errors, and returns the plan's outcome."""
    try:
        step = next(plan)
        while True:
            try:
                outcome = await take(step)
            except Exception as error:
                step = plan.throw(error)
            else:
                step = plan.send(outcome)
    except StopIteration as end:
        found: T = end.value
        return found


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _split(url: str) -> SplitResult:
    """Returns the parts of an address that begins with http:// or https://, or of HOST:PORT. ValueError: it
    is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # The port is not a number up to 65535, or a bracket is missing.
        right = False
    if not right or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"'{url}' is not an address; an address is http://HOST:PORT, https://HOST:PORT, "
                         "HOST:PORT or unix:PATH, where an IPv6 address is in brackets, as in [::1]:8080")
    return parts


def _tls_context(ca_file: str | None, cert_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Returns the certificates that a client trusts and its own. OSError: a file cannot be read;
    ValueError: there is a key file but no certificate."""
    if key_file and not cert_file:
        raise ValueError("key_file is given, but cert_file, the certificate that it belongs to, is missing")
    for file in (ca_file, cert_file, key_file):
        if file:
            with open(file, "rb"):  # The errors of ssl name no file.
                pass
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except ssl.SSLError as error:
        raise OSError(f"{ca_file} is not a PEM file with certificates") from error
    if cert_file:
        try:
            context.load_cert_chain(cert_file, key_file or None)
        except ssl.SSLError as error:
            raise OSError(f"{cert_file} and {key_file or 'the same file'} are not PEM files with a certificate "
                          "and its private key") from error
    return context


class Address:
    """A daemon's address, what each request to it has, and which of its refusals are followed by a repeat."""

    def __init__(self, url: str, token: str | None, ca_file: str | None, cert_file: str | None,
                 key_file: str | None, retries: int) -> None:
        if token and (len(token) > _TOKEN_MAX or not all("!" <= letter <= "~" for letter in token)):
            raise ValueError(f"the token must be 1 to {_TOKEN_MAX} ASCII characters without spaces")
        self.url = url
        self.retries = retries
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._refused_ms: float = math.inf  # the shortest deadline that the daemon found too long
        self.context: ssl.SSLContext | None = None
        self.unix_path: str | None = None
        self.host, self.port, self._prefix = "localhost", 0, ""
        if url.startswith("unix:"):
            self.unix_path = url.removeprefix("unix:")
            if not 1 <= len(os.fsencode(self.unix_path)) <= _PATH_MAX:
                raise ValueError(f"'{url}' is not an address; the path of a Unix socket has 1 to {_PATH_MAX} "
                                 "bytes")
            return
        parts = _split(url)
        self.host, self._prefix = parts.hostname or "", parts.path.rstrip("/")
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        if parts.scheme == "https":
            self.context = _tls_context(ca_file, cert_file, key_file)

    def target(self, request: Request) -> str:
        """Returns the path and the parameters of a request line."""
        return self._prefix + request.path + (
            "?" + urlencode(request.parameters, quote_via=quote) if request.parameters else "")

    def headers(self, request: Request, body_bytes: int) -> dict[str, str]:
        """Returns the headers of a request, without Host."""
        fields = {**self._headers, **request.headers}
        if request.method in ("POST", "PUT"):
            fields["Content-Length"] = str(body_bytes)
            fields.setdefault("Content-Type", "application/octet-stream")
        return fields

    def lost(self) -> ConnectionFailed:
        """The error of a connection that ended before the answer was complete."""
        return ConnectionFailed(f"the daemon at {self.url} closed the connection")

    def unreachable(self, error: Exception) -> ConnectionFailed:
        """The error of a connection that could not be made, or that failed."""
        return ConnectionFailed(f"the daemon at {self.url} cannot be reached: {_reason(error)}")

    def not_http(self) -> ProtocolError:
        """The error of an answer that is none of HTTP/1.1."""
        return ProtocolError(f"{self.url} does not speak HTTP/1.1")


class Attempts:
    """The repeats of one request. `request` is what is sent next."""

    def __init__(self, address: Address, request: Request) -> None:
        if request.repeatable and request.parameters.get("timeout_ms", 0) >= address._refused_ms:
            request = _untimed(request)
        self.request = request
        self._address, self._attempt = address, 0
        self._until = time.monotonic() + request.timeout

    def left(self) -> float:
        """Returns the seconds that are left. Timeout: there are none."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> Timeout:
        return Timeout(f"there was no result within {self.request.timeout:g} s")

    def rest(self, error: GemmdError | TimeoutError) -> float:
        """Returns the seconds to wait before the request is repeated after an error; raises the error if it is not."""
        if not isinstance(error, GemmdError):
            raise self._late() from error
        request = self.request
        if (request.repeatable and "timeout_ms" in request.parameters
                and (error.status, error.field) == (400, "timeout_ms")):
            self._address._refused_ms = request.parameters["timeout_ms"]
            self.request = _untimed(request)
            return 0.0
        may = error.retriable and error.status != 409 and (request.repeatable or error.status != 0)
        rest = error.retry_after + random.uniform(0, min(5.0, 0.05 * 2**self._attempt))
        if not may or self._attempt >= self._address.retries or time.monotonic() + rest > self._until:
            raise error
        self._attempt += 1
        return rest


class Transport:
    """Sends requests to one daemon. Any number of threads can use it; each request in flight has a
    connection of its own. After a fork the child opens connections of its own."""

    def __init__(self, address: Address, progress: Progress) -> None:
        self.address, self._progress = address, progress
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self._abandoned: list[http.client.HTTPConnection] = []
        _all.add(self)

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        at = self.address
        if at.unix_path is not None:
            return _UnixConnection(at.unix_path, timeout)
        if at.context is not None:
            return http.client.HTTPSConnection(at.host, at.port, timeout=timeout, context=at.context)
        return http.client.HTTPConnection(at.host, at.port, timeout=timeout)

    def close(self) -> None:
        """Closes the connections; those that are in use when their requests have ended."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Leaves the connections to the parent process of a fork."""
        self._abandoned += self._idle
        self._idle = []

    def run(self, plan: Plan[T]) -> T:
        """Carries out a plan and returns its outcome."""
        try:
            carry_out(plan, self._take).send(None)  # A coroutine that never waits runs to its end.
        except StopIteration as end:
            found: T = end.value
            return found
        raise AssertionError("a step of a plan waited on an event loop")

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Request):
            return self.request(step)
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        return step()

    def request(self, request: Request) -> Answer:
        """Sends a request, and repeats it while the daemon refuses it for the moment. RuntimeError: close() was
        called."""
        if self._closed:
            raise RuntimeError("the client is closed")
        attempts = Attempts(self.address, request)
        while True:
            try:
                return self._attempt(attempts.request, attempts.left())
            except (GemmdError, TimeoutError) as error:
                time.sleep(attempts.rest(error))

    def _attempt(self, request: Request, left: float) -> Answer:
        parts = [octets(operand) for operand in request.operands]
        target = self.address.target(request)
        fields = self.address.headers(request, sum(part.nbytes for part in parts))
        while True:
            kept = True
            try:
                connection = self._idle.pop()
            except IndexError:
                connection, kept = self._open(left), False
            try:
                if connection.sock is not None:
                    connection.sock.settimeout(left)
                try:
                    connection.request(request.method, target, headers=fields,
                                       body=self._sent(request, parts) if parts else None)
                except (BrokenPipeError, ConnectionResetError):
                    if connection.sock is None:
                        raise
                    # The daemon may have refused the request before it had read the whole body.
                response = connection.getresponse()
                answer = self._read(response, request)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                connection.close()
                if kept and request.repeatable:  # The daemon had closed the connection while it was idle.
                    continue
                raise self.address.lost() from error
            except TimeoutError:
                connection.close()
                raise
            except (http.client.BadStatusLine, http.client.UnknownProtocol) as error:
                connection.close()
                raise self.address.not_http() from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self.address.unreachable(error) from error
            except BaseException:
                connection.close()
                raise
            if response.will_close or self._closed:
                connection.close()
            else:
                self._idle.append(connection)
            if answer.status >= 400:
                raise failure(answer)
            return answer

    def _sent(self, request: Request, parts: Sequence[memoryview]) -> Iterator[memoryview]:
        """The parts of a body, or pieces of them where a bar moves."""
        with self._progress.transfer(f"sending to {request.path}", sum(part.nbytes for part in parts)) as moved:
            for part in parts:
                step = PIECE_BYTES if self._progress.wanted else max(part.nbytes, 1)
                for at in range(0, part.nbytes, step):
                    yield part[at:at + step]
                    moved(min(step, part.nbytes - at))

    def _read(self, response: http.client.HTTPResponse, request: Request) -> Answer:
        headers = response.headers
        array = array_for(response.status, headers, response.length) if request.result else None
        if array is None:
            return Answer(response.status, headers, response.read())
        room, at = octets(array), 0
        step = PIECE_BYTES if self._progress.wanted else room.nbytes
        with self._progress.transfer(f"receiving from {request.path}", room.nbytes) as moved:
            while at < room.nbytes:
                count = response.readinto(room[at:at + step])
                if not count:
                    raise http.client.IncompleteRead(b"", room.nbytes - at)
                at += count
                moved(count)
        response.read()
        return Answer(response.status, headers, array)


def array_for(status: int, headers: Message, length: int | None) -> Array | None:
    """Returns an array for the body of an answer, which is that long if the length is known; None if the answer has no
    array. ProtocolError: its shape, type and length contradict each other."""
    shape, dtype = headers.get("Gemmd-Shape"), headers.get("Gemmd-Dtype")
    if status != 200 or shape is None or dtype is None:
        return None
    if dtype not in DTYPES:
        raise ProtocolError(f"the answer has the type '{dtype}', which the client does not know")
    array = np.empty([int(extent) for extent in shape.split(",")], DTYPES[dtype])
    if length is not None and length != array.nbytes:
        raise ProtocolError("the answer has another length than its shape says")
    return array


def computed(answer: Answer) -> Array:
    """Returns the array of an answer. ProtocolError: the answer has none."""
    if not isinstance(answer.body, np.ndarray):
        raise ProtocolError("the answer does not name its shape", status=answer.status)
    return answer.body


def description(answer: Answer) -> dict[str, Any]:
    """Reads the JSON object of an answer. ProtocolError: the answer has none."""
    try:
        found = json.loads(bytes(answer.body))
    except ValueError as error:
        raise ProtocolError("the answer is not JSON; the address may be that of another server",
                            status=answer.status) from error
    if not isinstance(found, dict):
        raise ProtocolError("the answer is not a JSON object", status=answer.status)
    return found


def _reason(error: Exception) -> str:
    """Returns why a connection failed."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "WRONG_VERSION_NUMBER":
            return "there is no TLS there; the address of a daemon that does not speak https begins with http://"
    elif isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        return os.strerror(error.errno)
    return str(getattr(error, "strerror", None) or error)


def _untimed(request: Request) -> Request:
    return replace(request, parameters={name: value for name, value in request.parameters.items()
                                        if name != "timeout_ms"})


def failure(answer: Answer) -> GemmdError:
    """Returns the error that an answer with a status from 400 on describes."""
    try:
        problem = json.loads(bytes(answer.body))
        code = str(problem["type"]).rpartition(":")[2]
        message, field = str(problem["detail"]), str(problem.get("field", ""))
    except (ValueError, KeyError, TypeError):
        # A proxy that cannot reach the daemon answers with 502 or 503.
        code, field = "connection" if answer.status in (502, 503) else "protocol", ""
        message = f"the answer has the status {answer.status} and no description of the error"
    retry = answer.headers.get("Retry-After", "")
    return from_code(code, message, status=answer.status, field=field,
                     request_id=answer.headers.get("X-Request-Id", ""),
                     retry_after=float(retry) if retry.isdigit() else 0.0)


def _after_fork() -> None:
    for transport in list(_all):
        transport.forget()


os.register_at_fork(after_in_child=_after_fork)

"""HTTP over TCP, TLS or a Unix socket, on kept connections that threads can share."""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import socket
import ssl
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import numpy as np

from .arrays import DTYPES, Array, octets
from .errors import ConnectionFailed, GemmdError, ProtocolError, Timeout, from_code

_TOKEN_MAX = 4096
_PATH_MAX = 107  # bytes of a Unix socket's path, without the zero behind it
_all: weakref.WeakSet[Transport] = weakref.WeakSet()


@dataclass
class Answer:
    """The answer to a request: its status, its headers, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes | Array


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


class Transport:
    """Sends requests to one daemon. Any number of threads can use it; each request in flight has a
    connection of its own. After a fork the child opens connections of its own."""

    def __init__(self, url: str, token: str | None, ca_file: str | None, cert_file: str | None,
                 key_file: str | None, retries: int) -> None:
        if token and (len(token) > _TOKEN_MAX or not all("!" <= letter <= "~" for letter in token)):
            raise ValueError(f"the token must be 1 to {_TOKEN_MAX} ASCII characters without spaces")
        self.url = url
        self.retries = retries
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._idle: list[http.client.HTTPConnection] = []
        self._closed = False
        self._abandoned: list[http.client.HTTPConnection] = []
        self._refused_ms: float = math.inf  # the shortest deadline that the daemon found too long
        if url.startswith("unix:"):
            path = url.removeprefix("unix:")
            if not 1 <= len(os.fsencode(path)) <= _PATH_MAX:
                raise ValueError(f"'{url}' is not an address; the path of a Unix socket has 1 to {_PATH_MAX} "
                                 "bytes")
            self._prefix = ""
            self._open: Callable[[float], http.client.HTTPConnection] = (
                lambda timeout: _UnixConnection(path, timeout))
        else:
            parts = _split(url)
            host, port = parts.hostname or "", parts.port
            self._prefix = parts.path.rstrip("/")
            if parts.scheme == "https":
                context = _tls_context(ca_file, cert_file, key_file)
                self._open = lambda timeout: http.client.HTTPSConnection(
                    host, port, timeout=timeout, context=context)
            else:
                self._open = lambda timeout: http.client.HTTPConnection(host, port, timeout=timeout)
        _all.add(self)

    def close(self) -> None:
        """Closes the connections; those that are in use when their requests have ended."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def forget(self) -> None:
        """Leaves the connections to the parent process of a fork."""
        self._abandoned += self._idle
        self._idle = []

    def request(self, method: str, path: str, parameters: Mapping[str, Any] | None = None,
                operands: Sequence[Array] = (), *, timeout: float,
                headers: Mapping[str, str] | None = None, repeatable: bool = True,
                result: bool = False) -> Answer:
        """Sends a request, and repeats it while the daemon refuses it for the moment.

        `timeout` is in seconds and includes all repeats. With `result` the body of the answer is
        an array of the shape and type that the answer names. If the parameter timeout_ms is longer than the
        daemon's --max-timeout, a request that is repeatable is sent without it. RuntimeError: close() was
        called.
        """
        if self._closed:
            raise RuntimeError("the client is closed")
        if repeatable and parameters and parameters.get("timeout_ms", 0) >= self._refused_ms:
            parameters = _untimed(parameters)
        until = time.monotonic() + timeout
        attempt = 0
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise Timeout(f"there was no result within {timeout:g} s")
            try:
                return self._attempt(method, path, parameters, operands, left, headers, result,
                                     repeatable)
            except GemmdError as error:
                if (repeatable and parameters and "timeout_ms" in parameters
                        and (error.status, error.field) == (400, "timeout_ms")):
                    self._refused_ms = parameters["timeout_ms"]
                    parameters = _untimed(parameters)
                    continue
                may = error.retriable and error.status != 409 and (
                    repeatable or error.status != 0)
                rest = error.retry_after + random.uniform(0, min(5.0, 0.05 * 2**attempt))
                if not may or attempt >= self.retries or time.monotonic() + rest > until:
                    raise
            except TimeoutError as error:
                raise Timeout(f"there was no result within {timeout:g} s") from error
            time.sleep(rest)
            attempt += 1

    def _attempt(self, method: str, path: str, parameters: Mapping[str, Any] | None,
                 operands: Sequence[Array], left: float, headers: Mapping[str, str] | None,
                 result: bool, repeatable: bool) -> Answer:
        parts = [octets(operand) for operand in operands]
        target = self._prefix + path + ("?" + urlencode(parameters, quote_via=quote) if parameters else "")
        fields = {**self._headers, **(headers or {})}
        if method in ("POST", "PUT"):
            fields["Content-Length"] = str(sum(part.nbytes for part in parts))
            fields.setdefault("Content-Type", "application/octet-stream")
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
                    connection.request(method, target, body=iter(parts) if parts else None,
                                       headers=fields)
                except (BrokenPipeError, ConnectionResetError):
                    if connection.sock is None:
                        raise
                    # The daemon may have refused the request before it had read the whole body.
                response = connection.getresponse()
                answer = self._read(response, result)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                connection.close()
                if kept and repeatable:  # The daemon had closed the connection while it was idle.
                    continue
                raise ConnectionFailed(f"the daemon at {self.url} closed the connection") from error
            except TimeoutError:
                connection.close()
                raise
            except (http.client.BadStatusLine, http.client.UnknownProtocol) as error:
                connection.close()
                raise ProtocolError(f"{self.url} does not speak HTTP/1.1") from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise ConnectionFailed(
                    f"the daemon at {self.url} cannot be reached: {_reason(error)}") from error
            except BaseException:
                connection.close()
                raise
            if response.will_close or self._closed:
                connection.close()
            else:
                self._idle.append(connection)
            if answer.status >= 400:
                raise _failure(answer)
            return answer

    @staticmethod
    def _read(response: http.client.HTTPResponse, result: bool) -> Answer:
        headers = response.headers
        shape, dtype = headers.get("Gemmd-Shape"), headers.get("Gemmd-Dtype")
        if not result or response.status != 200 or shape is None or dtype is None:
            return Answer(response.status, dict(headers.items()), response.read())
        if dtype not in DTYPES:
            raise ProtocolError(f"the answer has the type '{dtype}', which the client does not know")
        array = np.empty([int(length) for length in shape.split(",")], DTYPES[dtype])
        room, at = octets(array), 0
        if response.length is not None and response.length != room.nbytes:
            raise ProtocolError("the answer has another length than its shape says")
        while at < room.nbytes:
            count = response.readinto(room[at:])
            if not count:
                raise http.client.IncompleteRead(b"", room.nbytes - at)
            at += count
        response.read()
        return Answer(response.status, dict(headers.items()), array)


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
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "there is no TLS there; the address of a daemon that does not speak https begins with http://"
    return str(getattr(error, "strerror", None) or error)


def _untimed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "timeout_ms"}


def _failure(answer: Answer) -> GemmdError:
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

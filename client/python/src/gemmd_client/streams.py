"""HTTP for asyncio, on kept connections."""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import weakref
from collections.abc import Callable, Sequence
from email.message import Message
from typing import Any

from .arrays import octets
from .errors import GemmdError
from .http import Address, Answer, Attempts, Pause, Plan, Request, Step, T, array_for, carry_out, failure
from .progress import Progress

_PIECE_BYTES = 256 << 10  # of a body, which the event loop writes at once
_BUFFER_BYTES = 1 << 20
_HEAD_BYTES_MAX = 64 << 10  # of the headers of an answer
_INTERIM = range(100, 200)


class _Connection:
    """One connection, and whether it can be used again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, progress: Progress) -> None:
        self.reader, self.writer, self._progress = reader, writer, progress
        self.is_kept = False
        _opened.add(self)

    def close(self) -> None:
        self.writer.transport.abort()

    async def exchange(self, request: Request, head: bytes, parts: Sequence[memoryview]) -> Answer:
        """Sends a request and reads its answer, which may come before the whole request has been sent."""
        if sum(part.nbytes for part in parts) <= _PIECE_BYTES:
            self.writer.write(b"".join((head, *parts)))
            answer, self.is_kept = await self._read(request)
            return answer
        reading = asyncio.ensure_future(self._read(request))
        try:
            with self._progress.transfer(f"sending to {request.path}", sum(part.nbytes for part in parts)) as moved:
                sent_all = await self._write(head, parts, reading, moved)
            answer, may_keep = await reading
        finally:
            if not reading.cancel() and not reading.cancelled():
                reading.exception()  # Of two errors, that of the request is raised.
        self.is_kept = may_keep and sent_all
        return answer

    async def _write(self, head: bytes, parts: Sequence[memoryview], reading: asyncio.Future[Any],
                     moved: Callable[[int], Any]) -> bool:
        """Returns whether the daemon wanted all of the body."""
        try:
            self.writer.write(head)
            for part in parts:
                for at in range(0, part.nbytes, _PIECE_BYTES):
                    if reading.done():
                        return False
                    self.writer.write(part[at:at + _PIECE_BYTES])
                    await self.writer.drain()
                    moved(min(_PIECE_BYTES, part.nbytes - at))
            await self.writer.drain()
            return True
        except (BrokenPipeError, ConnectionResetError):  # The answer may have come all the same.
            return False

    async def _read(self, request: Request) -> tuple[Answer, bool]:
        """Returns the answer, and whether another request may follow on the connection."""
        status, headers, version = await self._read_head()
        while status in _INTERIM:
            status, headers, version = await self._read_head()
        may_keep = version == b"HTTP/1.1" and "close" not in headers.get("Connection", "").lower()
        length = headers.get("Content-Length")
        is_chunked = "chunked" in headers.get("Transfer-Encoding", "").lower()
        if request.method == "HEAD" or status in (204, 304):
            return Answer(status, headers, b""), may_keep
        known = int(length) if length is not None and not is_chunked else None
        array = array_for(status, headers, known) if request.result else None
        if array is not None and known is not None:
            with self._progress.transfer(f"receiving from {request.path}", array.nbytes) as moved:
                await self._read_into(octets(array), moved)
            return Answer(status, headers, array), may_keep
        if is_chunked:
            body = await self._read_chunks()
        elif known is not None:
            body = await self.reader.readexactly(known)
        else:
            body, may_keep = await self.reader.read(), False
        if array is None:
            return Answer(status, headers, body), may_keep
        if len(body) != array.nbytes:
            raise asyncio.IncompleteReadError(body, array.nbytes)
        octets(array)[:] = body
        return Answer(status, headers, array), may_keep

    async def _read_head(self) -> tuple[int, Message, bytes]:
        text = await self.reader.readuntil(b"\r\n\r\n")
        line, _, rest = text.partition(b"\r\n")
        version, _, others = line.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not others[:3].isdigit() or len(text) > _HEAD_BYTES_MAX:
            raise http.client.BadStatusLine(line.decode(errors="replace"))
        return int(others[:3]), http.client.parse_headers(io.BytesIO(rest)), version

    async def _read_into(self, room: memoryview, moved: Callable[[int], Any]) -> None:
        at = 0
        while at < room.nbytes:
            piece = await self.reader.read(room.nbytes - at)
            if not piece:
                raise asyncio.IncompleteReadError(b"", room.nbytes - at)
            room[at:at + len(piece)] = piece
            at += len(piece)
            moved(len(piece))

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self.reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        while await self.reader.readuntil(b"\r\n") != b"\r\n":  # Fields after the body.
            pass
        return bytes(body)


_opened: weakref.WeakSet[_Connection] = weakref.WeakSet()


def _leave_connections_to_the_parent() -> None:
    """In the child of a fork. An event loop there has the epoll set of its parent, so that a connection which is
    collected in the child would leave the set of the parent too, and a TLS connection would be ended. Each descriptor
    becomes one of the null device instead, which ends nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for connection in _opened:
        sock = connection.writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            os.dup2(null, sock.fileno(), inheritable=False)
    os.close(null)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_connections_to_the_parent)


class AsyncTransport:
    """Sends requests to one daemon, at most `in_flight` plans at once. Each request in flight has a connection of its
    own, which is closed if the request is cancelled. Connections belong to the event loop that opened them: another
    loop, and the loop of a forked process, opens its own."""

    def __init__(self, address: Address, in_flight: int, progress: Progress) -> None:
        if in_flight < 1:
            raise ValueError(f"in_flight is {in_flight}; it must be 1 at least")
        self.address, self._progress = address, progress
        self._in_flight = in_flight
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def _enter(self) -> None:
        """RuntimeError: close() was called."""
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._loop is not asyncio.get_running_loop():
            self._loop = asyncio.get_running_loop()
            self._idle: list[_Connection] = []
            self._places = asyncio.Semaphore(self._in_flight)

    async def close(self) -> None:
        """Waits for the plans that have begun, and closes the connections."""
        if not self._closed and self._loop is asyncio.get_running_loop():
            self._closed = True
            for _ in range(self._in_flight):
                await self._places.acquire()
            while self._idle:
                self._idle.pop().close()
        self._closed = True

    async def run(self, plan: Plan[T]) -> T:
        """Carries out a plan in one of the places, when one is free."""
        self._enter()
        async with self._places:
            return await carry_out(plan, self._take)

    async def wait(self, plan: Plan[T]) -> T:
        """Carries out a plan that takes no place."""
        self._enter()
        return await carry_out(plan, self._take)

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Request):
            return await self._request(step)
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        return await asyncio.to_thread(step)

    async def _request(self, request: Request) -> Answer:
        attempts = Attempts(self.address, request)
        while True:
            try:
                async with asyncio.timeout(attempts.left()):
                    return await self._attempt(attempts.request)
            except (GemmdError, TimeoutError) as error:
                rest = attempts.rest(error)
            await asyncio.sleep(rest)

    async def _open(self) -> _Connection:
        at = self.address
        if at.unix_path is not None:
            ends = await asyncio.open_unix_connection(at.unix_path, limit=_BUFFER_BYTES)
        else:
            ends = await asyncio.open_connection(at.host, at.port, ssl=at.context, limit=_BUFFER_BYTES)
        return _Connection(*ends, self._progress)

    async def _attempt(self, request: Request) -> Answer:
        parts = [octets(operand) for operand in request.operands]
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        fields = {"Host": f"{host}:{self.address.port}" if self.address.port else host,
                  **self.address.headers(request, sum(part.nbytes for part in parts))}
        head = f"{request.method} {self.address.target(request)} HTTP/1.1\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        while True:
            connection, kept = None, bool(self._idle)
            try:
                connection = self._idle.pop() if kept else await self._open()
                answer = await connection.exchange(request, head.encode(), parts)
            except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError) as error:
                if kept and request.repeatable:  # The daemon had closed the connection while it was idle.
                    continue
                raise self.address.lost() from error
            except TimeoutError:
                raise
            except OSError as error:
                raise self.address.unreachable(error) from error
            except (http.client.HTTPException, asyncio.LimitOverrunError, ValueError) as error:
                raise self.address.not_http() from error
            finally:
                if connection is not None and not connection.is_kept:
                    connection.close()
            if connection.is_kept:
                connection.is_kept = False
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)
            if answer.status >= 400:
                raise failure(answer)
            return answer

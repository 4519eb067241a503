"""Operations that the daemon computes whether or not the client stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .errors import Conflict, GemmdError
from .http import Pause, Plan, Request, computed, description
from .progress import Progress
from .results import Result
from .seconds import LONGEST
from .tables import table

if TYPE_CHECKING:
    from .asynchronous import AsyncClient
    from .client import Client

_ASK_AGAIN_SECONDS = 0.1  # between two questions for the result of a job


@dataclass(frozen=True)
class JobStatus:
    """The state of a job: "queued", "running", "done", "failed" or "cancelled"; and its operation,
    such as "gemm". The id is None in the list of a daemon that requires no tokens."""

    id: str | None
    state: str
    op: str
    queued_ms: float | None
    running_ms: float | None
    status: int | None


class JobPlans:
    """The plans of a Job and an AsyncJob. `url`, `timeout` and `progress` are those of the client."""

    def __init__(self, id: str, result: Result | None, url: str, timeout: float, progress: Progress) -> None:
        self.id = id
        self._result, self._url, self._timeout, self._progress = result, url, timeout, progress
        self._state = "not asked for yet"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self._url}, state: {self._state}>"

    def _repr_html_(self) -> str:
        return table("job", {"id": self.id, "state": self._state, "address": self._url})

    def _path(self, part: str = "") -> str:
        return f"/jobs/{quote(self.id, safe='')}{part}"

    def _status(self) -> Plan[JobStatus]:
        found = job_status(description((yield Request("GET", self._path(), self._timeout))))
        self._state = found.state
        return found

    def _done(self) -> Plan[bool]:
        return (yield from self._status()).state not in ("queued", "running")

    def _wait(self, timeout: float | None) -> Plan[bool]:
        until = time.monotonic() + (self._timeout if timeout is None else timeout)
        with self._progress.waiting(f"job {self.id}") as show:
            while True:
                try:
                    yield self._asked("HEAD", until)
                except GemmdError as error:  # An answer to HEAD has no description of the error.
                    if error.status == 0:
                        raise
                if (yield from self._done()):
                    return True
                show(self._state)
                if time.monotonic() >= until:
                    return False
                yield Pause(min(_ASK_AGAIN_SECONDS, max(0.0, until - time.monotonic())))

    def _asked(self, method: str, until: float) -> Request:
        """The request for the result. The daemon waits no longer than its --max-wait, and an answer takes some time."""
        seconds = self._progress.ask_seconds(min(max(0.0, until - time.monotonic()), LONGEST))
        return Request(method, self._path("/result"), seconds + 30, {"wait_ms": int(seconds * 1000)},
                       result=method == "GET")

    def _fetch(self, timeout: float | None) -> Plan[Any]:
        until = time.monotonic() + (self._timeout if timeout is None else timeout)
        with self._progress.waiting(f"job {self.id}") as show:
            while True:
                try:
                    found = computed((yield self._asked("GET", until)))
                    break
                except Conflict:
                    if time.monotonic() >= until:
                        raise
                if self._progress.wanted:
                    show((yield from self._status()).state)
                yield Pause(min(_ASK_AGAIN_SECONDS, max(0.0, until - time.monotonic())))
        self._state = "done"
        return found if self._result is None else self._result.of(found)

    def _cancel(self) -> Plan[None]:
        yield Request("DELETE", self._path(), self._timeout)


class Job(JobPlans):
    """A product or another operation that the daemon computes whether or not the client stays. ``await job`` returns
    its result, for which a thread waits; the AsyncJob of an AsyncClient needs none."""

    def __init__(self, client: Client, id: str, result: Result | None = None) -> None:
        super().__init__(id, result, client.url, client.timeout, client._progress)
        self._client = client

    def status(self) -> JobStatus:
        """Asks for the state of the job. NotFound: there is no such job."""
        return self._client._run(self._status())

    def done(self) -> bool:
        """Asks whether the job has ended: with a result, an error, or because it was cancelled. NotFound: there is no
        such job."""
        return self._client._run(self._done())

    def wait(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds until the job has ended; default: the client's timeout. Returns whether it
        has. The result stays on the daemon. NotFound: there is no such job."""
        return self._client._run(self._wait(timeout))

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    def result(self, timeout: float | None = None) -> Any:
        """Waits at most `timeout` seconds for the result; default: the client's timeout; 0: does not
        wait. Conflict: the job is not done by then; Gone: the result has expired or the job was cancelled;
        else the error of the job."""
        return self._client._run(self._fetch(timeout))

    def cancel(self) -> None:
        """Ends the job and drops its result. NotFound: there is no such job."""
        self._client._run(self._cancel())


class AsyncJob(JobPlans):
    """A Job whose methods are coroutines. ``await job`` returns its result."""

    def __init__(self, client: AsyncClient, id: str, result: Result | None = None) -> None:
        super().__init__(id, result, client.url, client.timeout, client._progress)
        self._client = client

    async def status(self) -> JobStatus:
        """Asks for the state of the job, like Job.status()."""
        return await self._client._wait(self._status())

    async def done(self) -> bool:
        """Asks whether the job has ended, like Job.done()."""
        return await self._client._wait(self._done())

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended, like Job.wait()."""
        return await self._client._wait(self._wait(timeout))

    def __await__(self) -> Generator[Any, None, Any]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> Any:
        """Waits for the result, like Job.result()."""
        return await self._client._wait(self._fetch(timeout))

    async def cancel(self) -> None:
        """Ends the job and drops its result, like Job.cancel()."""
        await self._client._wait(self._cancel())


def job_status(found: dict[str, Any]) -> JobStatus:
    return JobStatus(found.get("id"), found["state"], found["op"], found.get("queued_ms"),
                     found.get("running_ms"), found.get("status"))

"""Operations that the daemon computes whether or not the client stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .errors import Conflict, GemmdError
from .http import Answer, computed
from .results import Result
from .seconds import LONGEST
from .tables import table

if TYPE_CHECKING:
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


class Job:
    """A product or another operation that the daemon computes whether or not the client stays. ``await job`` returns
    its result, for which a thread waits."""

    def __init__(self, client: Client, id: str, result: Result | None = None) -> None:
        self.id = id
        self._client, self._result = client, result
        self._state = "not asked for yet"

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self._client.url}, state: {self._state}>"

    def _repr_html_(self) -> str:
        return table("job", {"id": self.id, "state": self._state, "address": self._client.url})

    def status(self) -> JobStatus:
        """Asks for the state of the job. NotFound: there is no such job."""
        found = job_status(self._client._json("GET", f"/jobs/{quote(self.id, safe='')}"))
        self._state = found.state
        return found

    def done(self) -> bool:
        """Asks whether the job has ended: with a result, an error, or because it was cancelled. NotFound: there is no
        such job."""
        return self.status().state not in ("queued", "running")

    def wait(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds until the job has ended; default: the client's timeout. Returns whether it
        has. The result stays on the daemon. NotFound: there is no such job."""
        until = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        while True:
            try:
                self._ask("HEAD", max(0.0, until - time.monotonic()))
            except GemmdError as error:  # An answer to HEAD has no description of the error.
                if error.status == 0:
                    raise
            if self.done():
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(min(_ASK_AGAIN_SECONDS, max(0.0, until - time.monotonic())))

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self.result).__await__()

    def _ask(self, method: str, seconds: float) -> Answer:
        """Asks for the result. The daemon waits no longer than its --max-wait, and an answer takes some time."""
        return self._client._http.request(
            method, f"/jobs/{quote(self.id, safe='')}/result", {"wait_ms": int(min(seconds, LONGEST) * 1000)},
            timeout=min(seconds, LONGEST) + 30, result=method == "GET")

    def result(self, timeout: float | None = None) -> Any:
        """Waits at most `timeout` seconds for the result; default: the client's timeout; 0: does not
        wait. Conflict: the job is not done by then; Gone: the result has expired or the job was cancelled;
        else the error of the job."""
        until = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        while True:
            try:
                answer = self._ask("GET", max(0.0, until - time.monotonic()))
                break
            except Conflict:
                if time.monotonic() >= until:
                    raise
                time.sleep(min(_ASK_AGAIN_SECONDS, max(0.0, until - time.monotonic())))
        self._state = "done"
        found = computed(answer)
        return found if self._result is None else self._result.of(found)

    def cancel(self) -> None:
        """Ends the job and drops its result. NotFound: there is no such job."""
        self._client._json("DELETE", f"/jobs/{quote(self.id, safe='')}")


def job_status(found: dict[str, Any]) -> JobStatus:
    return JobStatus(found.get("id"), found["state"], found["op"], found.get("queued_ms"),
                     found.get("running_ms"), found.get("status"))

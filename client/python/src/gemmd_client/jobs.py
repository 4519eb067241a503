"""Operations that the daemon computes whether or not the client stays."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .errors import Conflict
from .http import computed
from .results import Result
from .seconds import LONGEST

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
    """A product or another operation that the daemon computes whether or not the client stays."""

    def __init__(self, client: Client, id: str, result: Result | None = None) -> None:
        self.id = id
        self._client, self._result = client, result

    def status(self) -> JobStatus:
        """Asks for the state of the job. NotFound: there is no such job."""
        return job_status(self._client._json("GET", f"/jobs/{quote(self.id, safe='')}"))

    def result(self, timeout: float | None = None) -> Any:
        """Waits at most `timeout` seconds for the result; default: the client's timeout; 0: does not
        wait. Conflict: the job is not done by then; Gone: the result has expired or the job was cancelled;
        else the error of the job."""
        until = time.monotonic() + (self._client.timeout if timeout is None else timeout)
        while True:
            left = max(0.0, until - time.monotonic())
            try:
                # The daemon waits no longer than its --max-wait, and an answer takes some time.
                answer = self._client._http.request(
                    "GET", f"/jobs/{quote(self.id, safe='')}/result",
                    {"wait_ms": int(min(left, LONGEST) * 1000)},
                    timeout=min(left, LONGEST) + 30, result=True)
                break
            except Conflict:
                if time.monotonic() >= until:
                    raise
                time.sleep(min(_ASK_AGAIN_SECONDS, max(0.0, until - time.monotonic())))
        found = computed(answer)
        return found if self._result is None else self._result.of(found)

    def cancel(self) -> None:
        """Ends the job and drops its result. NotFound: there is no such job."""
        self._client._json("DELETE", f"/jobs/{quote(self.id, safe='')}")


def job_status(found: dict[str, Any]) -> JobStatus:
    return JobStatus(found.get("id"), found["state"], found["op"], found.get("queued_ms"),
                     found.get("running_ms"), found.get("status"))

"""The exceptions of the client, one for each error code of the daemon."""

from __future__ import annotations

import re


class GemmdError(Exception):
    """A request failed.

    Attributes:
        code: the daemon's error code, for example ``"queue-full"``; ``"connection"``, ``"timeout"``
            and ``"protocol"`` are found by the client.
        status: the HTTP status of the answer; 0 if there was no answer.
        field: the argument or the daemon's parameter at fault, or ``""``.
        request_id: the identifier by which the daemon's log names the request, or ``""``.
        retry_after: the seconds to wait before a repeat, as the daemon asked; 0 if it did not.
    """

    code = "internal"

    def __init__(self, message: str, *, code: str | None = None, status: int = 0, field: str = "",
                 request_id: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.status = status
        self.field = field
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (409, 429, 503) or self.code in ("verification-failed", "connection")


class ConnectionFailed(GemmdError, ConnectionError):
    """The daemon cannot be reached, or closed the connection before its answer was complete."""

    code = "connection"


class Timeout(GemmdError, TimeoutError):
    """The time of the request was over before the daemon answered."""

    code = "timeout"


class ProtocolError(GemmdError):
    """The answer is not one that a gemmd daemon gives."""

    code = "protocol"


class Malformed(GemmdError, ValueError):
    """The request is malformed or contradictory."""

    code = "malformed"


class Unauthorized(GemmdError, PermissionError):
    """There is no valid token."""

    code = "unauthorized"


class Forbidden(GemmdError, PermissionError):
    """The tensor or the job is another tenant's, or the token lacks a scope."""

    code = "forbidden"


class NotFound(GemmdError, LookupError):
    """There is no tensor of the name, or no job of the id."""

    code = "not-found"


class SlowClient(GemmdError):
    """The request did not arrive in time."""

    code = "slow-client"


class Conflict(GemmdError):
    """The result of the job is not ready yet."""

    code = "conflict"


class Gone(GemmdError, LookupError):
    """The result of the job has expired, or the job was cancelled."""

    code = "gone"


class PreconditionFailed(GemmdError):
    """The name has another content than the request demands."""

    code = "precondition-failed"


class TooLarge(GemmdError, ValueError):
    """The operands or the result are larger than a limit of the daemon."""

    code = "too-large"


class Unsupported(GemmdError, TypeError):
    """The daemon does not offer this type, this pair of types or this kernel."""

    code = "unsupported"


class QueueFull(GemmdError):
    """The daemon has too much work at the moment."""

    code = "queue-full"


class Internal(GemmdError):
    """The daemon failed."""

    code = "internal"


class VerificationFailed(GemmdError):
    """The device computed a product that did not pass the verification."""

    code = "verification-failed"


class Draining(GemmdError):
    """The daemon is shutting down."""

    code = "draining"


class DeviceLost(GemmdError):
    """The device of the daemon is lost."""

    code = "device-lost"


class OutOfMemory(GemmdError, MemoryError):
    """Too little memory is free."""

    code = "out-of-memory"


class DeadlineExceeded(GemmdError, TimeoutError):
    """The deadline of the request passed in the daemon."""

    code = "deadline"


class NoRoom(GemmdError, MemoryError):
    """The device has no room for the tensor."""

    code = "no-room"


BY_CODE: dict[str, type[GemmdError]] = {
    kind.code: kind for kind in (
        ConnectionFailed, Timeout, ProtocolError, Malformed, Unauthorized, Forbidden, NotFound,
        SlowClient, Conflict, Gone, PreconditionFailed, TooLarge, Unsupported, QueueFull, Internal,
        VerificationFailed, Draining, DeviceLost, OutOfMemory, DeadlineExceeded, NoRoom)
}


# Parameters of the daemon that are an argument of another name here.
_ARGUMENTS = {"out": "out_dtype"}


def from_code(code: str, message: str, *, status: int = 0, field: str = "", request_id: str = "",
              retry_after: float = 0.0) -> GemmdError:
    """Returns the exception of a code, which is a plain GemmdError for a code not listed here. It names the argument
    where the daemon names the parameter `field`."""
    if field in _ARGUMENTS:
        message = re.sub(rf"\b{field}\b", _ARGUMENTS[field], message)
        field = _ARGUMENTS[field]
    return BY_CODE.get(code, GemmdError)(message, code=code, status=status, field=field,
                                         request_id=request_id, retry_after=retry_after)

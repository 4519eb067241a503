"""A client of gemmd, the daemon that computes matrix products and other operations on tensors.

>>> from gemmd_client import Client
>>> Client("http://127.0.0.1:8080").gemm(a, b)
"""

from importlib.metadata import PackageNotFoundError, version

from .asynchronous import AsyncClient, AsyncSequence
from .client import Client
from .errors import (
    ConnectionFailed,
    GemmdError,
)
from .jobs import AsyncJob, Job, JobStatus
from .sequences import Sequence
from .tensors import Tensor

try:
    __version__ = version("gemmd-client")
except PackageNotFoundError:  # The package is used from a folder of its sources.
    __version__ = "unknown"

__all__ = ["AsyncClient", "AsyncJob", "AsyncSequence", "Client", "ConnectionFailed", "GemmdError", "Job", "JobStatus",
           "Sequence", "Tensor", "__version__"]

"""Products through libgemmd, which is loaded with ctypes where it is installed."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import weakref
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from .arrays import NAMES, Array
from .attention import Attention, Layout
from .errors import GemmdError, from_code
from .seconds import milliseconds

# The constants of libgemmd's enumerations are the indices of their names.
Act = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
ACTS: tuple[str, ...] = get_args(Act)
PRECISIONS = ("full", "tf32", "f8")
SCALES = ("none", "rowcol", "block")
PRIORITIES = range(10)
_CODES = (
    "ok", "malformed", "unauthorized", "forbidden", "not-found", "method-not-allowed",
    "not-acceptable", "slow-client", "conflict", "gone", "precondition-failed", "too-large",
    "media-type", "unsupported", "queue-full", "internal", "not-implemented", "draining",
    "device-lost", "out-of-memory", "deadline", "no-room", "malformed", "connection", "timeout",
    "protocol", "io", "cancelled", "uri-too-long", "headers-too-large", "http-version",
    "verification-failed")
_DTYPES = {name: number for number, name in enumerate(NAMES.values())}
_u32, _u64, _i32, _text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_char_p
_pointer, _double = ctypes.c_void_p, ctypes.c_double


class _Error(ctypes.Structure):
    _fields_ = [("code", _i32), ("http_status", _i32), ("retriable", _i32),
                ("retry_after_ms", _u32), ("attempts", _u32), ("field", ctypes.c_char * 32),
                ("request_id", ctypes.c_char * 64), ("message", ctypes.c_char * 256)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("url", _text), ("token", _text), ("ca_file", _text),
                ("connect_timeout_ms", _u32), ("total_timeout_ms", _u32),
                ("stall_timeout_ms", _u32), ("retries", _u32), ("max_in_flight", _u32),
                ("shared_bytes", _u64), ("shared", _i32), ("cert_file", _text),
                ("key_file", _text), ("traceparent", _text), ("check_digests", _i32)]


class _Gemm(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("m", _u64), ("n", _u64), ("k", _u64), ("batch", _u64),
                ("dtype", _i32), ("out", _i32), ("precision", _i32), ("act", _i32),
                ("verify", _i32), ("transa", _i32), ("transb", _i32), ("priority", _u32),
                ("alpha", _double), ("beta", _double), ("timeout_ms", _u32), ("kernel", _text),
                ("request_id", _text), ("a", _pointer), ("b", _pointer), ("bias", _pointer),
                ("c0", _pointer), ("c", _pointer), ("c_bytes", _u64), ("user", _pointer),
                ("a_tensor", _text), ("b_tensor", _text), ("store", _text), ("job", _i32),
                ("traceparent", _text), ("scales", _i32), ("a_scale", _pointer),
                ("b_scale", _pointer)]


class _Attention(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("batch", _u64), ("heads", _u64), ("kv_heads", _u64),
                ("sq", _u64), ("skv", _u64), ("d", _u64), ("dv", _u64), ("layout", _i32),
                ("dtype", _i32), ("causal", _i32), ("window", ctypes.c_int64), ("scale", _double),
                ("softcap", _double), ("lens_q", _pointer), ("lens_kv", _pointer), ("q", _pointer),
                ("k", _pointer), ("v", _pointer), ("k_tensor", _text), ("v_tensor", _text),
                ("o", _pointer), ("o_bytes", _u64), ("with_lse", _i32), ("lse", _pointer),
                ("lse_bytes", _u64), ("priority", _u32), ("timeout_ms", _u32), ("kernel", _text),
                ("request_id", _text), ("user", _pointer), ("job", _i32), ("traceparent", _text),
                ("mask", _pointer), ("mask_kind", _i32), ("mask_batch", _u64), ("mask_heads", _u64),
                ("mask_sq", _u64), ("has_offset", _i32), ("offset", _u64), ("sequence", _text),
                ("layer", _u64), ("append", _i32), ("position", _u64), ("window_right", ctypes.c_int64),
                ("ragged", _i32), ("slopes", _pointer), ("sinks", _pointer)]


_all: weakref.WeakSet[LibraryTransport] = weakref.WeakSet()
_CALLS_MAX = 256  # prepared calls of a connection
_byte = ctypes.c_char


def _address(array: Array) -> int:
    """Returns the address of an array's first element. The way for arrays that can be written takes a
    quarter of the time that the last one takes."""
    if array.flags.writeable and array.flags.c_contiguous:
        if array.dtype.isbuiltin != 1:  # types of ml_dtypes have no buffers
            array = array.view(np.uint8)
        return ctypes.addressof(_byte.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


class _Connection:
    """A client of the library, which one thread at a time uses, and calls that are ready to be made
    again: the parameters and their address, and the shape and the type of the result."""

    __slots__ = ("client", "error", "error_address", "calls")

    def __init__(self, client: int, error: _Error) -> None:
        self.client, self.error = client, error
        self.error_address = ctypes.addressof(error)
        self.calls: dict[Hashable, tuple[_Gemm, int, tuple[int, ...], np.dtype[Any]]] = {}


def load() -> ctypes.CDLL | None:
    """Returns libgemmd, or None where it is not installed. LIBGEMMD names another file; a copy
    beside this module, which a platform's wheel carries, comes before the system's."""
    carried = Path(__file__).with_name("libgemmd.so.0")
    named = os.environ.get("LIBGEMMD")
    for name in [named] if named else [str(carried), "libgemmd.so.0"]:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.gemmd_client_new.restype = _pointer
        library.gemmd_client_new.argtypes = [_pointer, _pointer]
        library.gemmd_client_free.argtypes = [_pointer]
        library.gemmd_client_free.restype = None
        library.gemmd_gemm.argtypes = [_pointer, _pointer, _pointer, _pointer]
        library.gemmd_gemm.restype = ctypes.c_int
        library.gemmd_attention.argtypes = [_pointer, _pointer, _pointer, _pointer]
        library.gemmd_attention.restype = ctypes.c_int
        return library
    return None


class LibraryTransport:
    """Computes products of one daemon. A client of the library belongs to one thread at a time, so
    each product in flight has one of its own. After a fork the child makes clients of its own."""

    def __init__(self, library: ctypes.CDLL, url: str, token: str | None, ca_file: str | None,
                 cert_file: str | None, key_file: str | None, retries: int, timeout: float) -> None:
        self._library = library
        if "://" not in url and not url.startswith("unix:"):
            url = f"http://{url}"
        self._options = _Options()
        library.gemmd_options_init(ctypes.byref(self._options),
                                   ctypes.c_size_t(ctypes.sizeof(_Options)))
        self._options.url = os.fsencode(url)
        self._options.token = (token or "").encode()
        self._options.ca_file = None if ca_file is None else os.fsencode(ca_file)
        self._options.cert_file = None if cert_file is None else os.fsencode(cert_file)
        self._options.key_file = None if key_file is None else os.fsencode(key_file)
        self._options.retries = retries
        self._options.total_timeout_ms = milliseconds("timeout", timeout)
        self._compute = library.gemmd_gemm
        self._idle: list[_Connection] = []
        self._closed = False
        self._default = _Gemm()
        library.gemmd_gemm_init(ctypes.byref(self._default),
                                ctypes.c_size_t(ctypes.sizeof(_Gemm)))
        _all.add(self)

    def close(self) -> None:
        """Releases the clients; those that are in use when their calls have ended."""
        self._closed = True
        while self._idle:
            self._library.gemmd_client_free(self._idle.pop().client)

    def forget(self) -> None:
        """Leaves the clients to the parent process of a fork."""
        self._idle = []

    def _take(self) -> _Connection:
        if self._closed:
            raise RuntimeError("the client is closed")
        try:
            return self._idle.pop()
        except IndexError:
            pass
        error = _Error()
        client = self._library.gemmd_client_new(ctypes.byref(self._options), ctypes.byref(error))
        if not client:
            raise _failure(error)
        return _Connection(client, error)

    def _give(self, connection: _Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self.close()

    def gemm_again(self, key: Hashable, a: Array, b: Array | None) -> Array | None:
        """Computes a product with the parameters that `key` stands for in an earlier call of gemm().
        `b` is None for a resident tensor. Returns None if no call is prepared for the key."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return None
        call = connection.calls.get(key)
        if call is None:
            self._idle.append(connection)
            return None
        gemm, address, shape, dtype = call
        result = np.empty(shape, dtype)
        gemm.a = _address(a)
        if b is not None:
            gemm.b = _address(b)
        gemm.c = _address(result)
        code = self._compute(connection.client, address, None, connection.error_address)
        failure = _failure(connection.error) if code else None
        self._give(connection)
        if failure:
            raise failure
        return result

    def gemm(self, m: int, n: int, k: int, batch: int, dtype: str, result: Array,
             a: Array | str, b: Array | str, bias: Array | None, c0: Array | None,
             *, scales: str, a_scale: Array | None, b_scale: Array | None, transa: bool, transb: bool,
             alpha: float, beta: float, act: str, precision: str, verify: bool, priority: int,
             timeout: float, kernel: str | None, key: Hashable = None) -> None:
        """Computes a product into `result`. Unless `key` is None, prepares gemm_again() for products
        with other operands of the same shapes and the same parameters."""
        connection = self._take()
        gemm = _Gemm()
        ctypes.pointer(gemm)[0] = self._default
        gemm.m, gemm.n, gemm.k, gemm.batch = m, n, k, batch
        gemm.dtype, gemm.out = _DTYPES[dtype], _DTYPES[NAMES[result.dtype]]
        gemm.transa, gemm.transb = transa, transb
        gemm.alpha, gemm.beta = alpha, beta
        gemm.act, gemm.precision = ACTS.index(act), PRECISIONS.index(precision)
        gemm.verify, gemm.priority = verify, priority
        gemm.timeout_ms = milliseconds("timeout", timeout)
        gemm.kernel = kernel.encode() if kernel else None
        if isinstance(a, str):
            gemm.a_tensor = a.encode()
        else:
            gemm.a = _address(a)
        if isinstance(b, str):
            gemm.b_tensor = b.encode()
        else:
            gemm.b = _address(b)
        gemm.bias = None if bias is None else bias.ctypes.data
        gemm.c0 = None if c0 is None else c0.ctypes.data
        gemm.scales = SCALES.index(scales)
        gemm.a_scale = None if a_scale is None else a_scale.ctypes.data
        gemm.b_scale = None if b_scale is None else b_scale.ctypes.data
        gemm.c, gemm.c_bytes = result.ctypes.data, result.nbytes
        address = ctypes.addressof(gemm)
        code = self._compute(connection.client, address, None, connection.error_address)
        failure = _failure(connection.error) if code else None
        if key is not None and not failure:
            if len(connection.calls) >= _CALLS_MAX:
                connection.calls.clear()
            connection.calls[key] = gemm, address, result.shape, result.dtype
        self._give(connection)
        if failure:
            raise failure

    def attention(self, operands: Attention, result: Array, lse: Array | None, *, causal: bool,
                  window: int | None, scale: float | None, softcap: float, priority: int,
                  timeout: float, kernel: str | None, offset: int | None,
                  window_right: int | None) -> None:
        """Computes an attention into `result`, and into `lse` if that is wanted."""
        connection = self._take()
        call = _Attention()
        self._library.gemmd_attention_init(ctypes.byref(call),
                                           ctypes.c_size_t(ctypes.sizeof(_Attention)))
        for name in ("batch", "heads", "kv_heads", "sq", "skv", "d", "dv"):
            setattr(call, name, getattr(operands, name))
        call.layout = get_args(Layout).index(operands.layout)
        call.dtype, call.causal = _DTYPES[operands.dtype], causal
        for name, value in (("window", window), ("window_right", window_right)):
            if value is not None:
                if value < 0:  # libgemmd takes -1 for no window
                    raise ValueError(f"{name} is {value}; it must be a whole number from 0")
                setattr(call, name, value)
        if scale is not None:
            call.scale = scale
        call.softcap, call.priority = softcap, priority
        call.timeout_ms = milliseconds("timeout", timeout)
        call.kernel = kernel.encode() if kernel else None
        if operands.lens_q is not None and operands.lens_kv is not None:
            call.lens_q, call.lens_kv = _address(operands.lens_q), _address(operands.lens_kv)
        call.ragged = operands.ragged
        for name in ("slopes", "sinks"):
            vector = getattr(operands, name)
            setattr(call, name, None if vector is None else _address(vector))
        call.q = _address(operands.q)
        for name, part in (("k", operands.k), ("v", operands.v)):
            if isinstance(part, np.ndarray):
                setattr(call, name, _address(part))
            else:
                setattr(call, f"{name}_tensor", part.parameter().encode())
        if operands.mask is not None:
            call.mask = _address(operands.mask)
            call.mask_kind = 2 if operands.mask.dtype == np.int8 else 1
            call.mask_batch, call.mask_heads, call.mask_sq = operands.mask.shape[:3]
        if offset is not None:
            call.has_offset, call.offset = 1, offset
        call.o, call.o_bytes = _address(result), result.nbytes
        if lse is not None:
            call.with_lse, call.lse, call.lse_bytes = 1, _address(lse), lse.nbytes
        code = self._library.gemmd_attention(connection.client, ctypes.addressof(call), None,
                                             connection.error_address)
        failure = _failure(connection.error) if code else None
        self._give(connection)
        if failure:
            raise failure


def _failure(error: Any) -> GemmdError:
    code = _CODES[error.code] if 0 <= error.code < len(_CODES) else "protocol"
    return from_code(code, error.message.decode(errors="replace"), status=error.http_status,
                     field=error.field.decode(errors="replace"),
                     request_id=error.request_id.decode(errors="replace"),
                     retry_after=error.retry_after_ms / 1000)


def _after_fork() -> None:
    for transport in list(_all):
        transport.forget()


os.register_at_fork(after_in_child=_after_fork)

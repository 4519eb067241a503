"""The synchronous client."""

from __future__ import annotations

import os
from collections.abc import Sequence as SequenceABC
from functools import partial
from typing import Any, Literal, Unpack, overload

import numpy as np

from . import library
from .arrays import Array, like
from .attention import Attention, Layout
from .contractions import einsum, tensordot
from .convolution import ConvLayout, ConvWLayout, Padding
from .http import Address, Plan, T, Transport
from .jobs import Job, JobStatus
from .library import Act
from .plans import Plans
from .products import Product
from .progress import Progress
from .reductions import Axis, ReduceName
from .seconds import milliseconds
from .sequences import Sequence
from .signatures import (
    AttentionOptions,
    ConvOptions,
    ExpertsOptions,
    Foreign,
    GemmOptions,
    Host,
    Operand,
    ProductOptions,
    ReduceOptions,
    SoftmaxOptions,
)
from .tables import table
from .tensors import Tensor


class Client:
    """A client of one daemon. Threads can share it, and a forked process can go on using it. A pickle of a client, as
    process pools make it, has its arguments, the token among them, and becomes a client with connections of its own.

    Args:
        url: ``http://HOST:PORT``, ``https://HOST:PORT``, ``HOST:PORT`` or ``unix:PATH``; default:
            the environment's GEMMD_URL, else ``http://127.0.0.1:8080``.
        token: the bearer token; default: the environment's GEMMD_TOKEN.
        timeout: the longest time of a request with all its repeats, in seconds. If it is longer than
            the daemon's --max-timeout, the daemon's default deadline applies.
        retries: how often a request is repeated that the daemon refused for the moment (429, 503) or
            whose connection was lost.
        ca_file: a PEM file with the certificates to trust for https; default: the environment's
            GEMMD_CA_FILE, else the system's certificates.
        cert_file, key_file: PEM files of the client's certificate and of its private key, for a
            daemon that asks for one; default: the environment's GEMMD_CERT_FILE and GEMMD_KEY_FILE,
            else none. Without a key file the certificate's file holds the key too.
        transport: "library" sends products and attentions through libgemmd, which shares memory with
            a daemon on a Unix socket; "http" uses Python's HTTP alone; "auto" takes the library if it
            is found. Only libgemmd uses the proxies that the environment names.
        progress: show bars of tqdm for uploads, downloads and jobs that take longer than half a second. All requests
            then use Python's HTTP.

    Raises:
        ValueError: an argument is wrong, for example a url of another form.
        ImportError: progress is True, and tqdm is not installed.
        OSError: a file cannot be read, or with transport="library" the library cannot be loaded.
    """

    def __init__(self, url: str | None = None, *, token: str | None = None, timeout: float = 300.0,
                 retries: int = 4, ca_file: str | None = None, cert_file: str | None = None,
                 key_file: str | None = None,
                 transport: Literal["auto", "http", "library"] = "auto", progress: bool = False) -> None:
        url = url or os.environ.get("GEMMD_URL") or "http://127.0.0.1:8080"
        token = os.environ.get("GEMMD_TOKEN") if token is None else token
        ca_file = os.environ.get("GEMMD_CA_FILE") if ca_file is None else ca_file
        cert_file = os.environ.get("GEMMD_CERT_FILE") if cert_file is None else cert_file
        key_file = os.environ.get("GEMMD_KEY_FILE") if key_file is None else key_file
        milliseconds("timeout", timeout)
        self._options: dict[str, Any] = {
            "url": url, "token": token, "timeout": timeout, "retries": retries, "ca_file": ca_file,
            "cert_file": cert_file, "key_file": key_file, "transport": transport,
            "progress": progress}
        self._closed = False
        if transport not in ("auto", "http", "library"):
            raise ValueError(f"transport is '{transport}'; it must be auto, http or library")
        if transport == "library" and progress:
            raise ValueError("transport is 'library' and progress is True; libgemmd tells of no progress")
        self.url, self.timeout = url, timeout
        self._progress = Progress(progress)
        self._http = Transport(Address(url, token, ca_file, cert_file, key_file, retries), self._progress)
        self._plans = Plans(self)
        found = library.load() if transport != "http" and not progress else None
        if found is None and transport == "library":
            named = os.environ.get("LIBGEMMD")
            raise OSError(f"{named}, which the environment's LIBGEMMD names, could not be loaded" if named
                          else "libgemmd.so.0 was not found; the environment's LIBGEMMD can name the file")
        self._library = found and library.LibraryTransport(found, url, token, ca_file, cert_file, key_file,
                                                           retries, timeout)

    @property
    def transport(self) -> str:
        """How products are sent: "library" or "http"."""
        return "library" if self._library else "http"

    def close(self) -> None:
        """Closes the connections. Later requests raise RuntimeError."""
        self._closed = True
        self._http.close()
        if self._library:
            self._library.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Client, **{**self._options, "timeout": self.timeout}), ()

    def __repr__(self) -> str:
        return f"<Client of {self.url} by {self.transport}, {'closed' if self._closed else 'open'}>"

    def _repr_html_(self) -> str:
        return table("Client", {"address": self.url, "transport": self.transport,
                                "state": "closed" if self._closed else "open"})

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def gemm(self, a: Host, b: Operand, **options: Unpack[GemmOptions]) -> Array: ...
    @overload
    def gemm(self, a: Tensor, b: Host | Tensor, **options: Unpack[GemmOptions]) -> Array: ...
    @overload
    def gemm(self, a: Tensor, b: Foreign, **options: Unpack[GemmOptions]) -> Foreign: ...
    @overload
    def gemm(self, a: Foreign, b: Operand, **options: Unpack[GemmOptions]) -> Foreign: ...

    def gemm(self, a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, alpha: float = 1.0, beta: float = 0.0,
             c: Any = None, bias: Any = None, act: Act = "none", precision: str = "full",
             verify: bool = False, priority: int = 4, timeout: float | None = None,
             kernel: str | None = None, scales: str = "none", a_scale: Any = None,
             b_scale: Any = None) -> Any:
        """Returns act(alpha * a @ b + beta * c + bias).

        The shapes follow numpy.matmul: ``a`` is (..., m, k) or (k,), ``b`` is (..., k, n) or (k,),
        and leading dimensions are broadcast. Either may be a resident Tensor. A transposed view
        such as ``b.T`` is sent as it lies in memory, without a copy. The result is an array of
        the library of ``a``, or of ``b`` if ``a`` is a Tensor; of two vectors it has the shape ().

        Operands of different types, ``bias`` and ``c`` are converted to the type to which NumPy
        promotes theirs. Whole numbers of other types than int8, such as lists of them, give NumPy's
        result: they are computed as int8 or float64, if the largest elements show that no sum can
        leave the range in which that is exact. The result of two arrays of int8 is int32.

        Args:
            out: an array to fill, of the shape of the result, as numpy.matmul takes it; default: a
                new one. (Until version 0.4 also a type, which is deprecated.)
            out_dtype: the type of the result, to which ``bias`` and ``c`` are converted; default:
                that of NumPy's promotion, bfloat16 for float8_e4m3fn and products with scales, and
                int32 for int8.
            c: an array of the shape of the result; needed if ``beta`` is not 0.
            bias: an array of the shape (n,).
            verify: the daemon checks the product by Freivalds' method.
            priority: among the requests of the tenant, from 0 (lowest) to 9.
            timeout: seconds; the daemon drops the work when they are over.
            scales: scales of float8_e4m3fn or int8 operands, positive float32. ``"rowcol"``:
                ``a_scale`` is (..., m) and ``b_scale`` is (..., n). ``"block"``, for float8_e4m3fn:
                ``a_scale`` is (..., m, K) and ``b_scale`` is (..., K, N), where K and N are k and n
                divided by 128 and rounded up. A resident Tensor may bring its own scales.

        Raises:
            TypeError: an operand is no array, is a masked array or of another subclass of NumPy's, or
                has a type with which the daemon does not compute.
            ValueError: the shapes do not fit.
            OverflowError: a product of whole numbers might not be exact.
            GemmdError: one of its subclasses, by the error code of the daemon.
        """
        timeout = self.timeout if timeout is None else timeout
        key: tuple[Any, ...] | None = None
        if (self._library and type(a) is np.ndarray and bias is None and not beta and out is None
                and out_dtype is None and scales == "none"):
            # Small products take little longer than the daemon needs if their parameters are ready.
            key = (a.shape, a.strides, a.dtype, *_identity(b), alpha, act, precision, verify, priority,
                   timeout, kernel)
            again = self._library.gemm_again(key, a, b if type(b) is np.ndarray else None)
            if again is not None:
                return again
        product = Product(a, b, out, out_dtype, bias, c, alpha, beta, act, scales, a_scale, b_scale)
        if product.is_empty:
            return product.result.of(product.empty())
        # What the library has no number for is refused by the daemon, with a sentence that says what is wrong.
        if (self._library and act in library.ACTS and precision in library.PRECISIONS
                and scales in library.SCALES and priority in library.PRIORITIES):
            result = product.result.room(product.shape, product.out_type, product.sent)
            self._library.gemm(
                product.m, product.n, product.k, product.batch, product.dtype, result,
                product.a.name if isinstance(product.a, Tensor) else product.a,
                product.b.name if isinstance(product.b, Tensor) else product.b,
                product.bias, product.c0, scales=product.scales, a_scale=product.a_scale,
                b_scale=product.b_scale, transa=product.transa, transb=product.transb,
                alpha=alpha, beta=beta, act=act, precision=precision, verify=verify,
                priority=priority, timeout=timeout, kernel=kernel,
                key=key if product.sends(a, b) else None)
            return product.result.of(result)
        return self._run(self._plans.product(product, precision, verify, priority, timeout, kernel))

    def _run(self, plan: Plan[T]) -> T:
        return self._http.run(plan)

    @overload
    def matmul(self, a: Host, b: Operand, **options: Unpack[GemmOptions]) -> Array: ...
    @overload
    def matmul(self, a: Tensor, b: Host | Tensor, **options: Unpack[GemmOptions]) -> Array: ...
    @overload
    def matmul(self, a: Tensor, b: Foreign, **options: Unpack[GemmOptions]) -> Foreign: ...
    @overload
    def matmul(self, a: Foreign, b: Operand, **options: Unpack[GemmOptions]) -> Foreign: ...

    def matmul(self, a: Any, b: Any, *, out: Any = None, **options: Any) -> Any:
        """Returns a @ b, like numpy.matmul; the other arguments are those of gemm()."""
        return self.gemm(a, b, out=out, **options)

    @overload
    def tensordot(self, a: Host, b: Operand, axes: Any = 2, **options: Unpack[ProductOptions]) -> Array: ...
    @overload
    def tensordot(self, a: Tensor, b: Host | Tensor, axes: Any = 2, **options: Unpack[ProductOptions]) -> Array: ...
    @overload
    def tensordot(self, a: Tensor, b: Foreign, axes: Any = 2, **options: Unpack[ProductOptions]) -> Foreign: ...
    @overload
    def tensordot(self, a: Foreign, b: Operand, axes: Any = 2, **options: Unpack[ProductOptions]) -> Foreign: ...

    def tensordot(self, a: Any, b: Any, axes: Any = 2, *, out: Any = None, **options: Any) -> Any:
        """Returns the sums of products over dimensions of two arrays, like numpy.tensordot, computed as one
        product of matrices. The other arguments are out_dtype, alpha, act, precision, verify, priority,
        timeout and kernel, as for gemm(). An array is copied if its dimensions must be reordered. A resident
        Tensor is not reordered: its dimensions must be the rows and the columns of a matrix as gemm() takes
        it."""
        contraction = tensordot(a, b, axes, out, options)
        return contraction.of(self.gemm(contraction.a, contraction.b, **contraction.options))

    @overload
    def einsum(self, subscripts: str, a: Host, b: Operand, **options: Unpack[ProductOptions]) -> Array: ...
    @overload
    def einsum(self, subscripts: str, a: Tensor, b: Host | Tensor, **options: Unpack[ProductOptions]) -> Array: ...
    @overload
    def einsum(self, subscripts: str, a: Tensor, b: Foreign, **options: Unpack[ProductOptions]) -> Foreign: ...
    @overload
    def einsum(self, subscripts: str, a: Foreign, b: Operand, **options: Unpack[ProductOptions]) -> Foreign: ...

    def einsum(self, subscripts: str, a: Any, b: Any, *, out: Any = None, **options: Any) -> Any:
        """Returns the sums of products of two arrays that `subscripts` describes, for example "bij,bjk->bik",
        like numpy.einsum, computed as one product of matrices or one batch of products. The other arguments,
        and the rules for copies and for resident Tensors, are those of tensordot(). ValueError: a letter is in
        one array only and not in the result; reduce() sums over that dimension."""
        contraction = einsum(subscripts, a, b, out, options)
        return contraction.of(self.gemm(contraction.a, contraction.b, **contraction.options))

    def gemm_job(self, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Job:
        """Hands a product in as a job and returns at once; the arguments are those of gemm(). An array in
        ``out`` is filled by result()."""
        return Job(self, *self._run(self._plans.gemm_job(a, b, **options)))

    @overload
    def attention(self, q: Host | Tensor, k: Operand, v: Operand, *, lse: Literal[False] = False,
                  **options: Unpack[AttentionOptions]) -> Array: ...
    @overload
    def attention(self, q: Foreign, k: Operand, v: Operand, *, lse: Literal[False] = False,
                  **options: Unpack[AttentionOptions]) -> Foreign: ...
    @overload
    def attention(self, q: Host | Tensor, k: Operand, v: Operand, *, lse: Literal[True],
                  **options: Unpack[AttentionOptions]) -> tuple[Array, Array]: ...
    @overload
    def attention(self, q: Foreign, k: Operand, v: Operand, *, lse: Literal[True],
                  **options: Unpack[AttentionOptions]) -> tuple[Foreign, Foreign]: ...

    def attention(self, q: Any, k: Any, v: Any, *, causal: bool = False, window: int | None = None,
                  scale: float | None = None, softcap: float = 0.0, layout: Layout = "bhsd",
                  lens_q: Any = None, lens_kv: Any = None, lse: bool = False, priority: int = 4,
                  timeout: float | None = None, kernel: str | None = None, mask: Any = None,
                  offset: int | None = None, window_right: int | None = None, slopes: Any = None,
                  sinks: Any = None, ragged: bool = False) -> Any:
        """Returns softmax(scale * q @ k.T + mask) @ v for each head.

        ``q`` is (batch, heads, sq, d), ``k`` is (batch, kv_heads, skv, d) and ``v`` is
        (batch, kv_heads, skv, dv); with the layout "bshd" the second and the third dimension change
        places. All have one type of f16, bf16 and f32. ``k`` and ``v`` may be resident Tensors. The
        result is (batch, heads, sq, dv), an array of the library of ``q``.

        Args:
            causal: query i sees no key to the right of i + skv - sq.
            window: query i sees no key to the left of i + skv - sq - window.
            window_right: query i sees no key to the right of i + skv - sq + window_right.
            scale: the factor of the scores; default: 1 / sqrt(d).
            softcap: c, with which a score becomes c * tanh(score / c); 0: scores stay.
            lens_q, lens_kv: how many queries and keys each entry of the batch has; default: all.
                Rows of the result beyond them are zeros.
            mask: an array that broadcasts to (batch, heads, sq, skv), in either layout. One of the
                type of q is added to the scores, and minus infinity hides a key; one of bool or int8
                hides the keys where it is false.
            offset: the position of the first query among the keys, for causal, window, window_right
                and slopes; default: skv - sq.
            slopes: ALiBi: a number for each head of q, which is multiplied with the distance of a
                key from the position of a query, and subtracted from the score.
            sinks: a score for each head of q that has no value, and takes its part of the weights of
                each row.
            ragged: the rows of the entries follow one another, without padding, so that the first
                dimension of q, k and v is 1; lens_q and lens_kv have the first row of each entry and
                then the number of all rows.
            lse: return a pair: the result, and the logarithm of each row's sum of exp(score), f32 of
                the shape (batch, heads, sq).

        The errors are those of gemm().
        """
        if self._library and priority in library.PRIORITIES:
            operands = Attention(q, k, v, lens_q, lens_kv, layout, mask, slopes, sinks, ragged)
            timeout = self.timeout if timeout is None else timeout
            result: Array = np.empty(operands.shape, operands.result_type)
            sums = (np.empty((operands.entries_apart, operands.heads, operands.sq), np.float32)
                    if lse else None)
            self._library.attention(operands, result, sums, causal=causal, window=window, scale=scale,
                                    softcap=softcap, priority=priority, timeout=timeout,
                                    kernel=kernel, offset=offset, window_right=window_right)
            return like(q)(result) if sums is None else (like(q)(result), like(q)(sums))
        return self._run(self._plans.attention(
            q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, layout=layout, lens_q=lens_q,
            lens_kv=lens_kv, mask=mask, offset=offset, lse=lse, priority=priority, timeout=timeout, kernel=kernel,
            window_right=window_right, slopes=slopes, sinks=sinks, ragged=ragged))

    def attention_job(self, q: Operand, k: Operand, v: Operand, **options: Unpack[AttentionOptions]) -> Job:
        """Hands an attention in as a job and returns at once; the arguments are those of
        attention() without lse."""
        return Job(self, *self._run(self._plans.attention_job(q, k, v, **options)))

    @overload
    def conv2d(self, x: Host, w: Operand, **options: Unpack[ConvOptions]) -> Array: ...
    @overload
    def conv2d(self, x: Tensor, w: Host | Tensor, **options: Unpack[ConvOptions]) -> Array: ...
    @overload
    def conv2d(self, x: Tensor, w: Foreign, **options: Unpack[ConvOptions]) -> Foreign: ...
    @overload
    def conv2d(self, x: Foreign, w: Operand, **options: Unpack[ConvOptions]) -> Foreign: ...

    def conv2d(self, x: Any, w: Any, *, stride: int | SequenceABC[int] = 1, padding: Padding = 0,
               dilation: int | SequenceABC[int] = 1, groups: int = 1, layout: ConvLayout = "nchw",
               w_layout: ConvWLayout = "kcrs", bias: Any = None, out: Any = None,
               out_dtype: Any = None, alpha: float = 1.0, act: Act = "none", precision: str = "full",
               priority: int = 4, timeout: float | None = None, kernel: str | None = None) -> Any:
        """Returns act(alpha * conv(x, w) + bias), the convolution of neural networks.

        ``x`` is (batch, channels, height, width), or with the layout "nhwc" (batch, height, width,
        channels), and so is the result. ``w`` is (filters, channels / groups, r, s), or with the
        w_layout "krsc" (filters, r, s, channels / groups). Both are of f32, f16, bf16 and i8, of
        different types promoted as NumPy does, and may be resident Tensors: ``x`` can be what conv2d_store() returned.

        Args:
            stride, dilation: one number, or one for height and one for width.
            padding: zeros on all sides; or a pair, for height and for width; or four numbers, for
                top, bottom, left and right; or "same".
            bias: an array of the shape (filters,), which is converted to the type of the result.
            out: an array to fill, as for gemm().
            out_dtype: the type of the result; default: that of ``x`` and ``w``, and i32 for i8.

        The errors are those of gemm().
        """
        return self._run(self._plans.conv2d(
            x, w, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout,
            w_layout=w_layout, bias=bias, out=out, out_dtype=out_dtype, alpha=alpha, act=act,
            precision=precision, priority=priority, timeout=timeout, kernel=kernel))

    def conv2d_job(self, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Job:
        """Hands a convolution in as a job and returns at once; the arguments are those of conv2d()."""
        return Job(self, *self._run(self._plans.conv2d_job(x, w, **options)))

    def conv2d_store(self, name: str, x: Operand, w: Operand, **options: Unpack[ConvOptions]) -> Tensor:
        """Computes a convolution that stays on the daemon's device under a name; the other arguments
        are those of conv2d(). NoRoom: the device has no room for it."""
        return self._run(self._plans.conv2d_store(name, x, w, **options))

    @overload
    def reduce(self, x: Host | Tensor, op: ReduceName = "sum", **options: Unpack[ReduceOptions]) -> Array: ...
    @overload
    def reduce(self, x: Foreign, op: ReduceName = "sum", **options: Unpack[ReduceOptions]) -> Foreign: ...

    def reduce(self, x: Any, op: ReduceName = "sum", *, axis: Axis = -1, keepdims: bool = False,
               ddof: float = 0, out: Any = None, out_dtype: Any = None, priority: int = 4,
               timeout: float | None = None, kernel: str | None = None) -> Any:
        """Returns x reduced over one, several or all dimensions, an array of the library of ``x``.

        ``x`` is an array, or a resident Tensor. Sums of f16 and bf16 are computed in f32; sums of whole
        numbers are exact, and of int64, or uint64, as NumPy's. The result of all dimensions has the
        shape (). Where a dimension is 0, the result is NumPy's.

        The daemon reduces one dimension. Several that follow each other are one; others are brought
        together, which copies ``x``. A resident Tensor is fetched with get() if several of its
        dimensions are reduced, and for argmin, std, var and prod.

        Args:
            op: "sum", "mean", "max" or "amax", "min" or "amin", "norm2" (the square root of the sum of
                squares), "logsumexp", "argmax" (the index of the first greatest element, int32).
                "argmin" sends the array with its order reversed. "std" and "var" are two requests that
                each send the array: the mean, and norm2 of the differences from it. With r and u as in
                the daemon's bound for sums, the error of std is at most (r + 8) * u * (std + the mean
                of the magnitudes), and of var twice std times that. "prod" is NumPy's, computed on the
                host, and sends nothing.
            axis: a dimension, several in a tuple, or None for all of them.
            keepdims: the reduced dimensions stay in the shape, as 1.
            ddof: std and var divide by the number of elements less ddof.
            out: an array to fill, as for gemm().
            out_dtype: type of the result; default: that of x, int32 for argmax and argmin, int64 or
                uint64 for sums of whole numbers, f64 for their means. Sums of int8 and int32 with i32
                wrap modulo 2^32.

        Raises:
            OverflowError: a sum of whole numbers is beyond 2^53.

        The other errors are those of gemm().
        """
        return self._run(self._plans.reduce(x, op, axis=axis, keepdims=keepdims, ddof=ddof, out=out,
                                            out_dtype=out_dtype, priority=priority, timeout=timeout, kernel=kernel))

    def reduce_job(self, x: Operand, op: ReduceName = "sum", **options: Any) -> Job:
        """Hands a reduction in as a job and returns at once; the arguments are those of reduce(), which
        alone has std, var and prod."""
        return Job(self, *self._run(self._plans.reduce_job(x, op, **options)))

    def reduce_store(self, name: str, x: Operand, op: ReduceName = "sum", **options: Any) -> Tensor:
        """Reduces an array to one that stays on the daemon's device under a name; the other arguments
        are those of reduce(), which alone has std, var and prod. A tensor of no dimensions has the shape
        (1,). Sums of int8 and int32 are int32 and wrap modulo 2^32. NoRoom: the device has no room for
        it."""
        return self._run(self._plans.reduce_store(name, x, op, **options))

    @overload
    def softmax(self, x: Host | Tensor, **options: Unpack[SoftmaxOptions]) -> Array: ...
    @overload
    def softmax(self, x: Foreign, **options: Unpack[SoftmaxOptions]) -> Foreign: ...

    def softmax(self, x: Any, *, axis: Axis = -1, scale: float = 1.0, log: bool = False, lens: Any = None,
                out: Any = None, out_dtype: Any = None, priority: int = 4, timeout: float | None = None,
                kernel: str | None = None) -> Any:
        """Returns softmax(scale * x) over one, several or all dimensions, or its logarithm, an array of
        the library of ``x``, which may be a resident Tensor. Whole numbers are computed as f64.

        Args:
            axis: a dimension, several in a tuple, or None for all of them. The daemon has the softmax
                of the last one: for others ``x`` is copied, and those of a Tensor are refused.
            lens: how many elements along ``axis``, one dimension, count, for each index of the first of
                the other dimensions of x: an array of whole numbers with their shape. The result is 0
                from there on (minus infinity if log).
            out: an array to fill, as for gemm().
            out_dtype: type of the result: that of x, or f32.

        The errors are those of gemm().
        """
        return self._run(self._plans.softmax(x, axis=axis, scale=scale, log=log, lens=lens, out=out,
                                             out_dtype=out_dtype, priority=priority, timeout=timeout, kernel=kernel))

    def softmax_job(self, x: Operand, **options: Unpack[SoftmaxOptions]) -> Job:
        """Hands a softmax in as a job and returns at once; the arguments are those of softmax()."""
        return Job(self, *self._run(self._plans.softmax_job(x, **options)))

    def softmax_store(self, name: str, x: Operand, **options: Unpack[SoftmaxOptions]) -> Tensor:
        """Computes a softmax over the last dimension that stays on the daemon's device under a name; the
        other arguments are those of softmax(). NoRoom: the device has no room for it."""
        return self._run(self._plans.softmax_store(name, x, **options))

    @overload
    def experts(self, a: Host, w: Operand, experts: Operand, **options: Unpack[ExpertsOptions]) -> Array: ...
    @overload
    def experts(self, a: Tensor, w: Host | Tensor, experts: Operand, **options: Unpack[ExpertsOptions]) -> Array: ...
    @overload
    def experts(self, a: Tensor, w: Foreign, experts: Operand, **options: Unpack[ExpertsOptions]) -> Foreign: ...
    @overload
    def experts(self, a: Foreign, w: Operand, experts: Operand, **options: Unpack[ExpertsOptions]) -> Foreign: ...

    def experts(self, a: Any, w: Any, experts: Any, *, weights: Any = None, bias: Any = None, glu: bool = False,
                transb: bool = False, act: Act = "none", out: Any = None, out_dtype: Any = None,
                precision: str = "full", priority: int = 4, timeout: float | None = None,
                kernel: str | None = None) -> Any:
        """Returns the rows of ``a`` times the experts that are numbered for them (mixture of experts): row r is
        the sum over j of weights[r, j] * act(a[r] @ w[e] + bias[e]), where e is experts[r, j].

        ``a`` is (rows, k). ``w`` is the stack of experts, (experts, k, columns), usually a resident Tensor.
        Both are of f64, f32, f16 and bf16, of different types promoted as NumPy does. The bytes of a row
        depend on the row itself, its experts and weights alone, whatever the other rows are.

        Args:
            experts: whole numbers of the shape (rows, places), or (rows,); -1 is a place that computes
                nothing.
            weights: numbers of the same shape, which become f32; default: every weight is 1.
            bias: an array of the shape (experts, columns), which is converted to the type of the result.
            glu: an expert has 2 * n columns, of which the first n are the gate: a place is
                act(a[r] @ w_gate + bias_gate) * (a[r] @ w_up + bias_up).
            transb: ``w`` is (experts, columns, k), as torch.nn.Linear has its weight.
            out: an array to fill, as for gemm().
            out_dtype: the type of the result; default: that of ``a`` and ``w``.

        The errors are those of gemm().
        """
        return self._run(self._plans.experts(
            a, w, experts, weights=weights, bias=bias, glu=glu, transb=transb, act=act, out=out, out_dtype=out_dtype,
            precision=precision, priority=priority, timeout=timeout, kernel=kernel))

    def experts_job(self, a: Operand, w: Operand, experts: Operand, **options: Unpack[ExpertsOptions]) -> Job:
        """Hands a mixture of experts in as a job and returns at once; the arguments are those of experts()."""
        return Job(self, *self._run(self._plans.experts_job(a, w, experts, **options)))

    def experts_store(self, name: str, a: Operand, w: Operand, experts: Operand,
                      **options: Unpack[ExpertsOptions]) -> Tensor:
        """Computes a mixture of experts that stays on the daemon's device under a name; the other arguments
        are those of experts(). NoRoom: the device has no room for it."""
        return self._run(self._plans.experts_store(name, a, w, experts, **options))

    def jobs(self) -> list[JobStatus]:
        """Lists the jobs of the client's tenant, the newest first."""
        return self._run(self._plans.jobs())

    def job(self, id: str) -> Job:
        """Returns a job that was handed in elsewhere. Nothing is sent: a method of the job finds out
        whether there is such a job."""
        return Job(self, id)

    def gemm_store(self, name: str, a: Operand, b: Operand, **options: Unpack[GemmOptions]) -> Tensor:
        """Computes a product that stays on the daemon's device under a name; the other arguments are
        those of gemm(). NoRoom: the device has no room for it."""
        return self._run(self._plans.gemm_store(name, a, b, **options))

    def put(self, name: str, array: Operand, *, evictable: bool = False, scale: Operand | None = None,
            contiguous: bool = False) -> Tensor:
        """Makes an array of 1 to 8 dimensions resident under a name, and replaces what had the
        name. Nothing is sent if the name has this array already, with the same scales and the same
        `evictable`: the client asks for the tensor's description, and compares the hash of the array
        if type and shape are equal. `scale` is an array of scales that belong to it, with which products use it
        (``scales`` of gemm()). With `contiguous` the array is always sent, and the device keeps the
        rows one after another, as conv2d() wants a resident ``x``. NoRoom: the device has no room for it."""
        return self._run(self._plans.put(name, array, evictable=evictable, scale=scale, contiguous=contiguous))

    def put_packed(self, name: str, file: bytes | str | os.PathLike[str], form: str, *, bits: int | None = None,
                   evictable: bool = False) -> Tensor:
        """Makes packed weights resident under a name, and replaces what had the name. `file` is a safetensors file of
        one layer, or its path; `form` is its format, such as "gptq" or "mxfp4", and `bits` the width of the weights.
        The tensor can be b of products whose a is of float16 or bfloat16. NoRoom: the device has no room for it."""
        return self._run(self._plans.put_packed(name, file, form, bits=bits, evictable=evictable))

    def get_packed(self, tensor: Tensor | str) -> bytes:
        """Fetches packed weights as a safetensors file, in which every tensor has the bytes that were put. NotFound:
        there is no tensor of the name."""
        return self._run(self._plans.get_packed(tensor))

    def get(self, tensor: Tensor | str, *, row: int = 0, rows: int | None = None) -> Array:
        """Fetches a resident tensor, without its scales, or only `rows` elements of its first dimension, from number
        `row` on (default: all that follow). NotFound: there is no tensor of the name; Malformed: it has not as many
        rows; TypeError: it has packed weights, which are several arrays."""
        return self._run(self._plans.get(tensor, row, rows))

    def get_scaled(self, tensor: Tensor | str) -> tuple[Array, Array | None]:
        """Fetches a resident tensor and its scales, with which put() makes the same tensor. The
        scales are None if it has none. NotFound: there is no tensor of the name."""
        return self._run(self._plans.get_scaled(tensor))

    def delete(self, tensor: Tensor | str) -> None:
        """Deletes a resident tensor. NotFound: there is no tensor of the name."""
        self._run(self._plans.delete(tensor))

    def tensors(self) -> list[Tensor]:
        """Lists the resident tensors, by name."""
        return self._run(self._plans.tensors())

    def sequence(self, name: str, kv_heads: int, d: int, *, dv: int | None = None, dtype: Any = np.float16,
                 layers: int = 1) -> Sequence:
        """Creates a sequence of keys and values on the daemon's device, without positions, and replaces the sequence
        that had the name. `d` and `dv` are the sizes of a head's key and value; default: dv = d. NoRoom: the device
        has no room for it."""
        return self._run(self._plans.sequence(name, kv_heads, d, dv=dv, dtype=dtype, layers=layers))

    def sequences(self) -> list[Sequence]:
        """Lists the sequences, by name."""
        return self._run(self._plans.sequences())

    def info(self) -> dict[str, Any]:
        """Returns the daemon's description: version, devices, kernels, limits."""
        return self._run(self._plans.json("GET", "/info"))


def _identity(b: Any) -> tuple[Any, ...]:
    """What determines the parameters of a product with `b`. Arrays of other libraries have none of
    their own, so that no call is prepared for them."""
    if type(b) is np.ndarray:
        return b.shape, b.strides, b.dtype
    if isinstance(b, Tensor):
        return b.name, b.shape, b.dtype, b.is_transposed
    return ()

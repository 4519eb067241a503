"""What the Python client gives out: clients that end and travel, resident tensors, and jobs."""

import asyncio
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from test_packed import Packed, assert_restored
from test_python_client import client, transport, whole  # noqa: F401 (fixtures)

import gemmd_client
from gemmd_client import AsyncClient, Client
from gemmd_client.errors import Gone, Malformed, NoRoom, NotFound


@pytest.fixture
def named(client, request):
    """A name that no other test has; its tensor is deleted in the end."""
    name = f"{request.node.name.translate(str.maketrans('[]', '--'))[:100]}"
    yield name
    if name in [tensor.name for tensor in client.tensors()]:
        client.delete(name)


def test_a_closed_client_is_refused(url, transport, rng):
    a = whole(rng, 3, 3)
    closed = Client(url, transport=transport)
    tensor = closed.put("handles-closed", a)
    job = closed.gemm_job(a, a)
    assert np.array_equal(closed.gemm(a, a), a @ a)
    closed.close()
    for call in (lambda: closed.gemm(a, a), lambda: closed.gemm(a, tensor), lambda: closed.reduce(a), closed.info,
                 lambda: closed.put("handles-closed", a), closed.tensors, job.result, job.status, job.cancel):
        with pytest.raises(RuntimeError, match="the client is closed"):
            call()
    closed.close()
    assert "closed" in repr(closed)
    with Client(url, transport=transport) as other:
        assert "open" in repr(other) and url in repr(other)
        other.delete(tensor)


def product_of(client, a, b):
    with client:
        return client.gemm(a, b)


def test_clients_go_to_other_processes(client, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    again = pickle.loads(pickle.dumps(client))
    assert (again.url, again.timeout, again.transport) == (client.url, client.timeout, client.transport)
    assert np.array_equal(product_of(again, a, b), a @ b)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(product_of, [client] * 2, [a] * 2, [b] * 2):
            assert np.array_equal(found, a @ b)
    assert np.array_equal(client.gemm(a, b), a @ b)


def test_the_version():
    assert isinstance(gemmd_client.__version__, str) and gemmd_client.__version__


@pytest.fixture
def requests(client, monkeypatch):
    """The methods and paths of the requests that the client has sent over HTTP."""
    sent, request = [], client._http.request

    def noted(each):
        sent.append((each.method, each.path))
        return request(each)

    monkeypatch.setattr(client._http, "request", noted)
    return sent


@pytest.mark.parametrize("suffix", ["", "-", ".", "0", "A", "a", "_", "z", "z" * 20])
def test_what_the_daemon_has_is_not_sent(client, rng, requests, named, suffix):
    """Whatever names there are around."""
    name, x = named + suffix, whole(rng, 6, 5)
    around = [name[:-1], name + "-", name + "z", name[:-1] + chr(ord(name[-1]) - 1)]
    for other in around:
        if set(other) <= set(gemmd_client.tensors._LETTERS):
            client.put(other, x[:1])
    first = client.put(name, x)
    assert [method for method, _ in requests[-2:]] == ["GET", "PUT"]
    for same in (x, x.copy(), np.asfortranarray(x), x.astype(">f4")):
        assert client.put(name, same) == first and requests[-1][0] == "GET"
    for tensor in client.tensors():
        if tensor.name.startswith(named[:-1]) and tensor.name != named:
            client.delete(tensor)


def test_what_differs_is_sent(client, rng, requests, named):
    x = whole(rng, 6, 4).astype(np.int8)
    scale = np.ones(4, np.float32)
    other = x.copy()
    other[-1, -1] += 1
    client.put(named, x)
    for array, options in ((other, {}), (x, {}), (x.reshape(4, 6), {}), (x, {"evictable": True}), (x, {}),
                           (x, {"scale": scale}), (x, {"scale": 2 * scale}), (x, {}), (x.astype(np.int32), {}),
                           (x.astype(np.float32), {}), (x.astype(np.float32), {"contiguous": True})):
        tensor = client.put(named, array, **options)
        assert requests[-1][0] == "PUT", options
        assert np.array_equal(client.get(named), array) and client.tensors() != []
        if not options.get("contiguous"):
            assert client.put(named, array, **options) == tensor and requests[-1][0] == "GET", options
    for wrong in ("", "a/b", "ä", "x" * 129):
        with pytest.raises(ValueError, match="name is 1 to 128 of the characters"):
            client.put(wrong, x)


def test_room_is_needed_once(start, transport):
    x = np.ones((192, 1024), np.float32)
    with Client(start("--tensor-bytes", "1MiB").url, transport=transport) as small:
        first = small.put("W", x)
        assert small.put("W", x) == first
        with pytest.raises(NoRoom):
            small.put("W", 2 * x)
        assert np.array_equal(small.get("W"), x)


@pytest.fixture
def tensor(client, rng, named):
    return client.put(named, whole(rng, 6, 4))


def test_what_a_tensor_is(client, tensor, named):
    assert (tensor.name, tensor.dtype, tensor.shape, tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == (
        named, np.float32, (6, 4), 2, 24, 96, 6)
    assert isinstance(tensor.dtype, np.dtype) and tensor == client.put(named, client.get(tensor))
    assert repr(tensor) == f"<Tensor {named} of {client.url}, float32, shape (6, 4), 96 bytes>"
    assert "shape (4, 6), transposed, 96 bytes" in repr(tensor.T)
    for part in (named, "float32", "(6, 4)", "96", client.url):
        assert part in tensor._repr_html_()
    assert pickle.loads(pickle.dumps(tensor)) == tensor
    assert "<b>" not in gemmd_client.tables.table("<b>", {"<b>": "<b>"})


def test_elements_of_a_tensor(client, tensor):
    x = client.get(tensor)
    assert np.array_equal(np.asarray(tensor), x) and np.array_equal(np.asarray(tensor, np.float64), x)
    assert np.asarray(tensor, np.float64).dtype == np.float64
    for key in (0, -1, slice(2, 5), (slice(None), 1), x[:, 0] > 0, [3, 1]):
        assert np.array_equal(tensor[key], x[key])
    assert np.array_equal(list(tensor), x) and np.array_equal(np.exp(tensor), np.exp(x))
    assert np.array_equal(np.add(x, tensor), x + x)
    assert np.array_equal(np.concatenate([tensor, x]), np.concatenate([x, x]))
    with pytest.raises(ValueError, match="an array of them is a copy"):
        np.asarray(tensor, copy=False)
    with pytest.raises(IndexError):
        tensor[6]
    client.delete(tensor)
    for call in (lambda: np.asarray(tensor), lambda: tensor[0], lambda: tensor @ x.T, lambda: np.sum(tensor)):
        with pytest.raises(NotFound):
            call()


def test_rows_of_a_tensor(client, tensor, monkeypatch):
    """An index that begins with a number or a slice fetches these rows alone."""
    x, asked = client.get(tensor), []
    plain = client._http.request

    def noted(each):
        asked.append(dict(each.parameters))
        return plain(each)

    monkeypatch.setattr(client._http, "request", noted)
    for key, row, rows in ((0, 0, 1), (-2, 4, 1), (np.int64(3), 3, 1), (slice(2, 5), 2, 3), (slice(-2, None), 4, 2),
                           (slice(1, 6, 2), 1, 5), (slice(4, 1, -2), 2, 3), (slice(None, None, -1), 0, 6),
                           ((1, 2), 1, 1), ((slice(1, 3), slice(None, None, 2)), 1, 2), ((5, ...), 5, 1),
                           ((slice(2, 4), None, [3, 0]), 2, 2), ((2, [3, 0]), 2, 1)):
        asked.clear()
        found = tensor[key]
        assert np.array_equal(found, x[key]) and np.shape(found) == x[key].shape, key
        assert found.dtype == x.dtype and asked == [{"row": row, "rows": rows}], key
    asked.clear()
    for key in (slice(3, 3), (slice(9, 20), 0), (slice(4, 2), slice(1, 3))):
        assert np.array_equal(tensor[key], x[key]) and tensor[key].shape == x[key].shape
    assert not asked
    for key in (6, -7, (6, 0), (0, 4), (slice(0, 2), 0, 0)):
        with pytest.raises(IndexError):
            tensor[key]
    asked.clear()
    for key in (..., None, True, ([0, 1], 2), (), x > 0):
        assert np.array_equal(tensor[key], x[key])
    assert asked == [{}] * 6
    assert np.array_equal(client.get(tensor, row=4), x[4:]) and np.array_equal(client.get(tensor.name, rows=2), x[:2])
    with pytest.raises(Malformed, match="has 6 rows"):
        client.get(tensor, row=5, rows=2)
    with pytest.raises(ValueError, match="transposed"):
        client.get(tensor.T, rows=1)

    async def some():
        async with AsyncClient(client.url) as other:
            return await other.get(tensor.name, row=1, rows=2)

    assert np.array_equal(asyncio.run(some()), x[1:3])
    client.put(tensor.name, x[:2])  # behind the handle
    with pytest.raises(Malformed, match="has 2 rows"):
        tensor[3]


def test_a_row_that_a_tensor_lacks(tensor):
    for row in (6, -7, np.int64(6)):
        with pytest.raises(IndexError, match=f"^index {row} is out of bounds for axis 0 with size 6$"):
            tensor[row]


def test_products_of_a_tensor(client, tensor, requests, rng):
    """They are computed by the daemon, which need not send the tensor."""
    w = client.get(tensor)
    a, out = whole(rng, 3, 6), np.empty((3, 4), np.float32)
    del requests[:]
    for found, wanted in ((a @ tensor, a @ w), (tensor @ w.T, w @ w.T), (np.matmul(a, tensor), a @ w),
                          (np.matmul(a, tensor, out=out), a @ w), (a[0] @ tensor, a[0] @ w),
                          (w @ tensor.T, w @ w.T), (a.astype(np.float16) @ tensor, a @ w),
                          (tensor.T @ w, w.T @ w), (tensor @ tensor.T, w @ w.T), (tensor.T @ tensor, w.T @ w),
                          (client.gemm(w, tensor.T, act="relu"), np.maximum(w @ w.T, 0)),
                          (client.gemm_job(w, tensor.T).result(), w @ w.T)):
        assert type(found) is np.ndarray and np.array_equal(found, wanted)
    assert np.array_equal(out, a @ w)
    for axis in (0, 1):
        for numpy in (np.sum, np.max, np.min):
            assert np.array_equal(numpy(tensor, axis=axis), numpy(w, axis=axis))
            assert np.array_equal(numpy(tensor, axis=axis, keepdims=True), numpy(w, axis=axis, keepdims=True))
    assert not any(method == "GET" and not path.startswith("/jobs") for method, path in requests)
    assert np.sum(tensor) == w.sum() and np.mean(tensor) == w.mean() and np.sum(tensor, dtype=np.float64) == w.sum()
    with pytest.raises(ValueError, match="a has 3 columns and b has 6 rows"):
        a[:, :3] @ tensor


def test_functions_of_numpy_that_the_daemon_computes(client, tensor, requests, rng):
    w = client.get(tensor)
    a, stack, out = whole(rng, 3, 6), whole(rng, 2, 3, 6), np.empty(4, np.float32)
    del requests[:]
    for found, wanted in ((np.dot(a, tensor), a @ w), (np.dot(tensor, w[0]), w @ w[0]), (np.inner(w, tensor), w @ w.T),
                          (np.dot(stack, tensor), stack @ w), (np.tensordot(a, tensor, 1), a @ w),
                          (np.tensordot(stack, tensor, ([2], [0])), stack @ w), (np.einsum("ij,jk", a, tensor), a @ w),
                          (np.einsum("ij,jk->ik", tensor, w.T, optimize=True), w @ w.T),
                          (np.mean(tensor, 0), w.mean(0)), (np.mean(tensor, axis=(1,), keepdims=True),
                                                            w.mean(1, keepdims=True)),
                          (tensor.sum(0), w.sum(0)), (tensor.mean(axis=1), w.mean(1)), (tensor.max(0), w.max(0)),
                          (tensor.min(1, keepdims=True), w.min(1, keepdims=True)), (tensor.argmax(0), w.argmax(0)),
                          (np.amax(tensor, axis=-1), w.max(-1)), (np.sum(tensor, axis=0, out=out), w.sum(0)),
                          (np.argmax(tensor, axis=0), w.argmax(0)), (np.argmax(tensor, 1, keepdims=True),
                                                                     w.argmax(1, keepdims=True))):
        assert np.array_equal(found, wanted) and found.dtype == wanted.dtype
    assert np.array_equal(out, w.sum(0))
    assert (np.shape(tensor), np.ndim(tensor), np.size(tensor), np.size(tensor, 1)) == ((6, 4), 2, 24, 4)
    assert np.result_type(tensor, np.float64) == np.float64 and np.can_cast(tensor.dtype, np.float64)
    for like in (np.zeros_like, np.ones_like):
        assert np.array_equal(like(tensor), like(w)) and like(tensor).dtype == w.dtype
    assert not any(method == "GET" for method, _ in requests)


def test_functions_of_numpy_that_fetch(client, tensor):
    w = client.get(tensor)
    for function in (np.sum, np.mean, np.std, np.var, np.prod, np.max, np.argmax, np.argmin, np.median, np.linalg.norm,
                     np.ravel, np.transpose, np.sort, np.cumsum):
        assert np.array_equal(function(tensor), function(w)), function
    for found, wanted in ((np.concatenate([tensor, w]), np.concatenate([w, w])), (np.vstack((w, tensor)), np.vstack((w, w))),
                          (np.sum(tensor, axis=0, dtype=np.float64), w.sum(0, dtype=np.float64)),
                          (np.sum(tensor.T, axis=0), w.T.sum(0)), (np.sum(tensor, 0, where=w > 0), w.sum(0, where=w > 0)),
                          (np.tensordot(w, tensor, 2), np.tensordot(w, w, 2)), (np.dot(2, tensor), 2 * w),
                          (np.einsum("ij->ji", tensor), w.T), (np.einsum("ij,ij", w, tensor), (w * w).sum()),
                          (np.where(w > 0, tensor, 0), np.where(w > 0, w, 0))):
        assert np.array_equal(found, wanted)
    for call in (lambda: np.dot(w, tensor), lambda: np.tensordot(w, tensor, 1), lambda: np.einsum("ij,jk", w, tensor),
                 lambda: np.sum(tensor, axis=2)):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_solvers_of_scipy(client, named, requests, rng, dtype):
    """They send vectors, and the matrix stays."""
    linalg = pytest.importorskip("scipy.sparse.linalg")
    from gemmd_client.scipy import linear_operator
    root = rng.standard_normal((40, 40))
    matrix = (root @ root.T + 40 * np.eye(40)).astype(dtype)
    operator = linear_operator(client.put(named, matrix))
    close = {np.float64: 1e-9, np.float32: 1e-3}[dtype]
    x, several = rng.standard_normal(40), rng.standard_normal((40, 3))
    del requests[:]
    for found, wanted in ((operator @ x, matrix @ x), (operator.T @ x, matrix.T @ x), (operator @ several, matrix @ several),
                          (operator.H @ several, matrix.T @ several)):
        assert np.allclose(found, wanted, rtol=close, atol=close) and found.dtype == dtype
    assert client.transport == "library" or [path for _, path in requests] == ["/gemm"] * 4
    solved, status = linalg.cg(operator, x, rtol=close)
    assert status == 0 and np.allclose(matrix @ solved, x, atol=100 * close)
    assert np.allclose(linalg.svds(operator, k=2, return_singular_vectors=False),
                       np.sort(np.linalg.svd(matrix, compute_uv=False)[:2]), rtol=close)
    with pytest.raises(TypeError, match="SciPy's solvers compute with"):
        linear_operator(client.put(named, matrix.astype(np.float16)))
    with pytest.raises(ValueError, match="an operator is a matrix"):
        linear_operator(client.put(named, matrix[0]))


def test_the_transposed_of_a_tensor(client, tensor):
    w = client.get(tensor)
    turned = tensor.T
    assert turned.shape == (4, 6) and turned.T == tensor and turned != tensor
    assert np.array_equal(client.get(turned), w.T) and np.array_equal(turned[0], w[:, 0])
    four = np.ones((1, 1, 4, 4), np.float32)
    for call in (lambda: client.reduce(turned), lambda: client.softmax(turned), lambda: client.delete(turned),
                 lambda: client.reduce_store("handles-turned", turned)):
        with pytest.raises(ValueError, match="is an operand of products only"):
            call()
    square = client.put(tensor.name, w[:4])
    for _ in range(2):  # The second product of a kind can go another way.
        for found, wanted in ((w @ square, w @ w[:4]), (w @ square.T, w @ w[:4].T)):
            assert np.array_equal(found, wanted)
    with pytest.raises(ValueError, match="has 4 dimensions; only a matrix has T"):
        client.put(tensor.name, four).T


def test_packed_weights(client, named, rng, tmp_path):
    packed = Packed("gptq", 4, 128, 64, 64, rng)
    file = tmp_path / "layer.safetensors"
    file.write_bytes(packed.body())
    with pytest.raises(FileNotFoundError):
        client.put_packed(named, str(tmp_path / "missing"), "gptq", bits=4)
    for given in (packed.body(), file, str(file)):
        tensor = client.put_packed(named, given, "gptq", bits=4)
    assert tensor == next(each for each in client.tensors() if each.name == named)
    assert_restored(client.get_packed(tensor), packed)
    assert (tensor.format, tensor.dtype, tensor.shape) == ("gptq", ml_dtypes.uint4, (128, 64))
    assert "gptq" in tensor._repr_html_()
    a = rng.uniform(-1, 1, (3, 128)).astype(ml_dtypes.bfloat16)
    found = client.gemm(a, tensor, out_dtype="f32")
    exact = a.astype(np.float64)
    bound = (128 + 8) * 2.0**-24 * (np.abs(exact) @ np.abs(packed.weights))
    assert (np.abs(found - exact @ packed.weights) <= bound).all()
    assert (a @ tensor).dtype == ml_dtypes.bfloat16
    for wrong in (a.astype(np.float32), [[1] * 128]):
        with pytest.raises(TypeError, match="has packed weights"):
            client.gemm(wrong, tensor)
    for call in (lambda: client.gemm(a, tensor.T), lambda: client.reduce(tensor), lambda: client.softmax(tensor),
                 lambda: client.attention(tensor, tensor, tensor)):
        with pytest.raises((TypeError, ValueError)):
            call()
    with pytest.raises(Malformed, match="weight_packed"):
        client.put_packed(named, file, "compressed-tensors")
    assert client.put(named, packed.weights).format is None

    async def awaited():
        async with AsyncClient(client.url) as other:
            return await other.get_packed(await other.put_packed(named, file, "gptq", evictable=True))

    assert_restored(asyncio.run(awaited()), packed)


def test_jobs_are_futures(client, rng):
    a = whole(rng, 3, 3)
    job = client.gemm_job(a, a)
    assert job.wait() and job.done() and job.wait(0)
    assert "done" in repr(job) and job.id in repr(job) and client.url in job._repr_html_()
    assert np.array_equal(job.result(), a @ a)

    async def awaited():
        return await asyncio.gather(*(client.gemm_job(a, each) for each in (a, a.T)))

    for found, wanted in zip(asyncio.run(awaited()), (a @ a, a @ a.T)):
        assert np.array_equal(found, wanted)
    job.cancel()
    for call in (job.wait, job.done):
        with pytest.raises(NotFound):
            call()
    failed = client.job("0" * 32)
    with pytest.raises(NotFound):
        failed.wait(0)


def test_waiting_for_jobs_that_take_long_or_are_cancelled(start, transport):
    daemon = start("--max-wait", "100ms", "--cpu-threads", "1", "--no-cpu-pauses")
    big = np.random.default_rng(1).random((600, 600))
    with Client(daemon.url, transport=transport) as patient:
        job = patient.gemm_job(big, big, kernel="naive")
        assert not job.wait(0) and not job.done()
        assert "running" in repr(job) or "queued" in repr(job)
        assert job.wait()
        assert np.allclose(job.result(), big @ big)
        other = patient.gemm_job(big, big, kernel="naive")
        other.cancel()
        assert other.wait() and other.status().state == "cancelled"
        with pytest.raises(Gone):
            other.result()


@pytest.fixture
def bars(monkeypatch):
    """The titles of the bars that were shown, and how far the bars went, and of what."""
    auto = pytest.importorskip("tqdm.auto")
    shown = []

    class Noted(auto.tqdm):
        def close(self):
            if (self.desc, self.n, self.total) not in shown:
                shown.append((self.desc, self.n, self.total))
            super().close()

    monkeypatch.setattr(auto, "tqdm", Noted)
    monkeypatch.setattr("gemmd_client.progress.DELAY_SECONDS", 0)
    return shown


def test_bars_of_transfers_and_jobs(url, bars, named, rng, capfd):
    x = rng.random((1100, 1000), np.float32)
    with Client(url, progress=True) as shown:
        assert shown.transport == "http"
        tensor = shown.put(named, x)
        assert np.array_equal(shown.get(tensor), x)
        assert np.array_equal(shown.gemm(x, np.eye(1000, dtype=np.float32)), x)
        assert pickle.loads(pickle.dumps(shown))._progress.wanted
    sent, product = ("sending to /gemm", x.nbytes + 4000000), ("receiving from /gemm", x.nbytes)
    assert bars == [(title, count, count) for title, count in (
        (f"sending to /tensors/{named}", x.nbytes), (f"receiving from /tensors/{named}", x.nbytes), sent, product)]
    assert f"sending to /tensors/{named}:" in capfd.readouterr().err
    del bars[:]

    async def call():
        async with gemmd_client.AsyncClient(url, progress=True) as made:
            return await made.gemm(x, np.eye(1000, dtype=np.float32))

    assert np.array_equal(asyncio.run(call()), x)
    assert bars == [(title, count, count) for title, count in (sent, product)]


def test_a_bar_of_a_job(start, bars, capfd):
    daemon = start("--max-wait", "100ms", "--cpu-threads", "1")
    big = np.random.default_rng(1).random((400, 400))
    with Client(daemon.url, progress=True) as shown:
        for wait in ("wait", "result"):
            job = shown.gemm_job(big, big, kernel="naive")
            getattr(job, wait)()
            assert np.allclose(job.result(), big @ big)
            printed = capfd.readouterr().err
            assert f"job {job.id}: " in printed and ("running" in printed or "queued" in printed)


def test_no_bars_without_tqdm(monkeypatch, url):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="the package tqdm, which is not installed"):
        Client(url, progress=True)
    with pytest.raises(ValueError, match="libgemmd tells of no progress"):
        Client(url, transport="library", progress=True)

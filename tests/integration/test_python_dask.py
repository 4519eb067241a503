"""Products of Dask arrays by three daemons, with workers of a real cluster."""

import itertools
import signal
import sys
import threading
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "client/python/src"))

import gemmd_client.dask  # noqa: E402
from gemmd_client import Client, ConnectionFailed, errors  # noqa: E402
from gemmd_client.dask import matmul  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=False,
                                  dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_three_daemons_compute_what_one_does(start, cluster, rng, dtype):
    urls = [start("--tensor-bytes", "1MiB").url for _ in range(3)]
    a = rng.integers(-100, 100, (700, 650)).astype(dtype)
    b = rng.integers(-100, 100, (650, 720)).astype(dtype)
    x, y = da.from_array(a, chunks=(256, 200)), da.from_array(b, chunks=(300, 256))
    three = matmul(x, y, daemons=urls).compute()
    one = matmul(x, y, daemons=urls[:1]).compute()
    assert three.dtype == one.dtype and three.tobytes() == one.tobytes()
    assert all(tensor.name.startswith("dask-") for tensor in Client(urls[0]).tensors())
    assert Client(urls[0]).tensors(), "no block of y stayed on the daemon"
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert np.array_equal(three, exact.astype(three.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_rows_of_blocks_that_are_divided(start, cluster, rng, dtype):
    """Products along k are added by the daemons, and the number of requests is that of the divided rows."""
    urls = [start().url for _ in range(2)]
    a = rng.integers(-5, 6, (90, 320)).astype(dtype)
    b = rng.integers(-5, 6, (320, 70)).astype(dtype)
    x, y = da.from_array(a, chunks=(45, 64)), da.from_array(b, chunks=(50, 70))
    with dask.config.set({"array.chunk-size": 128 * 70 * a.itemsize}):
        divided = matmul(x, y, daemons=urls)
    assert len([key for key in divided.dask if str(key[0]).startswith("gemmd-part")]) == 2 * 2
    result = divided.compute()
    exact = (a.astype(np.int64) @ b.astype(np.int64)).astype(divided.dtype)
    assert result.dtype == divided.dtype and np.array_equal(result, exact)
    assert np.array_equal(matmul(x, y, daemons=urls).compute(), exact)


def test_blocks_that_do_not_meet(start, cluster, rng):
    """Chunks along k that differ, and dimensions of no length."""
    urls = [start().url]
    a, b = rng.integers(-8, 9, (37, 61)).astype("f4"), rng.integers(-8, 9, (61, 23)).astype("f4")
    for left, right in [((10, 7), (61, 23)), ((37, (1, 59, 1)), ((30, 31), 5)), ((37, 1), (1, 23))]:
        product = matmul(da.from_array(a, chunks=left), da.from_array(b, chunks=right), daemons=urls)
        assert np.array_equal(product.compute(), a @ b)
    for m, k, n in [(0, 3, 2), (3, 0, 2), (3, 2, 0)]:
        product = matmul(da.ones((m, k), dtype="f4"), da.ones((k, n), dtype="f4"), daemons=urls)
        assert product.compute().shape == (m, n) and not product.compute().any()


def test_blocks_stay_on_the_daemons(start, cluster, rng):
    """The second product with the same y sends no block of y; one after a daemon forgot the blocks does."""
    daemon = start()
    y = da.from_array(rng.standard_normal((200, 200)).astype("f4"), chunks=100)
    x = da.from_array(rng.standard_normal((200, 200)).astype("f4"), chunks=100)
    first = matmul(x, y, daemons=[daemon.url]).compute()
    with Client(daemon.url) as client:
        kept = {tensor.name: tensor.etag for tensor in client.tensors()}
        assert len(kept) == 2
        again = matmul(x, y, daemons=[daemon.url]).compute()
        assert {tensor.name: tensor.etag for tensor in client.tensors()} == kept
        for name in kept:
            client.delete(name)
        after = matmul(x, y, daemons=[daemon.url]).compute()
        assert {tensor.name for tensor in client.tensors()} == set(kept)
    assert first.tobytes() == again.tobytes() == after.tobytes()


def test_a_daemon_killed_in_the_middle(start, cluster, rng, monkeypatch):
    """While it has requests: it is stopped when the third comes, and does not answer any more."""
    daemons = [start() for _ in range(3)]
    urls = [daemon.url for daemon in daemons]
    a = rng.integers(-8, 9, (1200, 1200)).astype(np.float32)
    x = da.from_array(a, chunks=(150, 300))
    killer = threading.Timer(0.2, daemons[1].process.kill)
    requests, product_of_blocks = itertools.count(1), gemmd_client.dask._product

    def product_or_end(client, *arguments):
        if client.url == urls[1] and next(requests) == 3:
            daemons[1].process.send_signal(signal.SIGSTOP)
            killer.start()
        return product_of_blocks(client, *arguments)

    monkeypatch.setattr(gemmd_client.dask, "_product", product_or_end)
    product = matmul(x, x, daemons=urls).compute()
    assert next(requests) > 3, "the daemon never had three requests"
    killer.join()
    daemons[1].process.wait()
    assert np.array_equal(product, a @ a)
    assert np.array_equal(matmul(x, x[:, :50], daemons=urls).compute(), a @ a[:, :50])


def test_no_daemon_is_left(cluster):
    x = da.ones((4, 4), chunks=2)
    with pytest.raises(ConnectionFailed, match="none of the 2 daemons"):
        matmul(x, x, daemons=["127.0.0.1:1", "127.0.0.1:2"]).compute()


def test_a_daemon_that_is_down_is_avoided(start, cluster, monkeypatch):
    """Blocks that are computed after a daemon has failed do not try that daemon first. Its address is in no
    other test, whose tasks may still be trying their daemons."""
    down = "127.0.0.1:3"
    monkeypatch.setattr(gemmd_client.dask, "_AVOIDED_SECONDS", 1e6)
    monkeypatch.setattr(gemmd_client.dask, "_avoided", {})
    tried = []
    product = gemmd_client.dask._product

    def product_or_failure(client, *arguments):
        tried.append(client.url)
        if client.url == down:
            raise ConnectionFailed("the daemon is down")  # at once, where the client would repeat the request
        return product(client, *arguments)

    monkeypatch.setattr(gemmd_client.dask, "_product", product_or_failure)
    a = np.arange(24 * 8, dtype="f4").reshape(24, 8)
    x = da.from_array(a, chunks=(2, 8))
    assert np.array_equal(matmul(x, x.T, daemons=[start().url, down]).compute(), a @ a.T)
    assert len(tried) >= 12 * 12
    # Each of the four threads can be on its way to that daemon when the first of them learns of the failure.
    assert 1 <= tried.count(down) <= 16


def test_an_error_of_the_daemon_reaches_the_caller(start, cluster):
    """Another daemon would refuse the request as well, so that no other is asked."""
    x = da.ones((4, 4), chunks=2, dtype="f4")
    with pytest.raises(errors.TooLarge, match="max-body"):
        matmul(x, x, daemons=[start("--max-body", "8").url, start("--max-body", "8").url]).compute()


def test_wrong_arrays():
    x = da.ones((4, 6), chunks=2)
    for arrays, daemons, kind, sentence in [
            ((x, x), ["127.0.0.1:1"], ValueError, "x has 6 columns and y has 4 rows"),
            ((x[x[:, 0] > 0], x.T), ["127.0.0.1:1"], ValueError, "is not known"),
            ((x, x.T[x[0] > 0]), ["127.0.0.1:1"], ValueError, "is not known"),
            ((x, x[0]), ["127.0.0.1:1"], ValueError, "y has 1 dimensions"),
            ((x, x.T), [], ValueError, "empty"),
            ((x, x.T), "127.0.0.1:1", TypeError, "must be a list"),
            ((x, x.T.astype("f4")), ["127.0.0.1:1"], TypeError, "same type"),
            ((x.astype("i4"), x.T.astype("i4")), ["127.0.0.1:1"], TypeError, "int32"),
            ((x.astype("c8"), x.T.astype("c8")), ["127.0.0.1:1"], TypeError, "complex64"),
            ((x, np.ones((6, 4))), ["127.0.0.1:1"], TypeError, "y is a ndarray")]:
        with pytest.raises(kind, match=sentence):
            matmul(*arrays, daemons=daemons)

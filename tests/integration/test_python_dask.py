"""Products of Dask arrays by three daemons, with workers of a real cluster."""

import sys
import threading
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import pytest

from test_metrics import scrape, values

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "client/python/src"))

from gemmd_client import Client, ConnectionFailed  # noqa: E402
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


def test_a_daemon_killed_in_the_middle(start, cluster, rng):
    daemons = [start() for _ in range(3)]
    urls = [daemon.url for daemon in daemons]
    a = rng.integers(-8, 9, (1200, 1200)).astype(np.float32)
    x = da.from_array(a, chunks=(150, 300))
    killed = threading.Event()

    def kill_while_it_computes():
        while not killed.is_set():
            state = values(scrape(daemons[1]))
            if state["gemmd_queue_requests"] > 0:
                daemons[1].process.kill()
                killed.set()

    killer = threading.Thread(target=kill_while_it_computes, daemon=True)
    killer.start()
    product = matmul(x, x, daemons=urls).compute()
    assert killed.is_set(), "the daemon never had a request"
    killer.join()
    daemons[1].process.wait()
    assert np.array_equal(product, a @ a)
    assert np.array_equal(matmul(x, x[:, :50], daemons=urls).compute(), a @ a[:, :50])


def test_no_daemon_is_left(cluster):
    x = da.ones((4, 4), chunks=2)
    with pytest.raises(ConnectionFailed, match="none of the 2 daemons"):
        matmul(x, x, daemons=["127.0.0.1:1", "127.0.0.1:2"]).compute()


def test_wrong_arrays():
    x = da.ones((4, 6), chunks=2)
    with pytest.raises(ValueError, match="x has 6 columns and y has 4 rows"):
        matmul(x, x, daemons=["127.0.0.1:1"])
    with pytest.raises(ValueError, match="is not known"):
        matmul(x[x[:, 0] > 0], x.T, daemons=["127.0.0.1:1"])
    with pytest.raises(ValueError, match="empty"):
        matmul(x, x.T, daemons=[])
    with pytest.raises(TypeError, match="same type"):
        matmul(x, x.T.astype("f4"), daemons=["127.0.0.1:1"])

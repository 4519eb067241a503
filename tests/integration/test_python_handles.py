"""What the Python client gives out: clients that end and travel, resident tensors, and jobs."""

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from test_python_client import client, transport, whole  # noqa: F401 (fixtures)

import gemmd_client
from gemmd_client import Client
from gemmd_client.errors import NoRoom


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
    """The methods of the requests that the client has sent over HTTP."""
    sent, request = [], client._http.request

    def noted(method, *arguments, **options):
        sent.append(method)
        return request(method, *arguments, **options)

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
    assert requests[-2:] == ["GET", "PUT"]
    for same in (x, x.copy(), np.asfortranarray(x), x.astype(">f4")):
        assert client.put(name, same) == first and requests[-1] == "GET"
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
        assert requests[-1] == "PUT", options
        assert np.array_equal(client.get(named), array) and client.tensors() != []
        if not options.get("contiguous"):
            assert client.put(named, array, **options) == tensor and requests[-1] == "GET", options
    for wrong in ("", "a/b", "ä", "x" * 129):
        with pytest.raises(ValueError):
            client.put(wrong, x)


def test_room_is_needed_once(start, transport):
    x = np.ones((192, 1024), np.float32)
    with Client(start("--tensor-bytes", "1MiB").url, transport=transport) as small:
        first = small.put("W", x)
        assert small.put("W", x) == first
        with pytest.raises(NoRoom):
            small.put("W", 2 * x)
        assert np.array_equal(small.get("W"), x)

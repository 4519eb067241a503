"""The AsyncClient of the Python client, which waits on the event loop, against real daemons."""

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import requests

from conftest import ROOT
from daemon import PATIENCE_S
from test_python_client import client, transport, whole  # noqa: F401 (fixtures)
from test_python_client_mistakes import guarded, ones, server_that_answers  # noqa: F401 (a fixture)

from gemmd_client import AsyncClient, Client, ConnectionFailed
from gemmd_client.errors import Conflict, Gone, NoRoom, NotFound, ProtocolError


def run(url, function, **options):
    """Runs a coroutine function with a client. A connection that is left to the garbage collector is an error."""
    async def inside():
        async with AsyncClient(url, **options) as made:
            return await function(made)

    gc.collect()
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        found = asyncio.run(inside())
        gc.collect()
    assert not left, [str(each.message) for each in left]
    return found


@pytest.fixture
def plain(url):
    with Client(url, transport="http") as made:
        yield made


@pytest.fixture
def name(plain, request):
    """A name that no other test has; the tensors that begin with it are deleted in the end."""
    chosen = request.node.name
    yield chosen
    for tensor in plain.tensors():
        if tensor.name.startswith(chosen):
            plain.delete(tensor)


def test_results_are_those_of_a_client(url, plain, rng, name):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    x, w = whole(rng, 1, 2, 5, 5), whole(rng, 3, 2, 3, 3)
    q = rng.random((1, 2, 3, 4), np.float32)
    tensor = plain.put(name, b)

    async def call(made):
        return await asyncio.gather(
            made.gemm(a, b), made.gemm(a, tensor, act="relu"), made.matmul(a, b), made.einsum("ij,jk", a, b),
            made.tensordot(a, b, 1), made.reduce(a, "amax", axis=None), made.reduce(tensor, "std", axis=0),
            made.reduce(a, "prod"), made.softmax(a, axis=0), made.conv2d(x, w), made.attention(q, q, q),
            made.attention(q, q, q, lse=True), made.gemm(a[:0], b))

    wanted = [a @ b, np.maximum(a @ b, 0), a @ b, a @ b, a @ b, a.max(), plain.reduce(b, "std", axis=0), a.prod(axis=-1),
              plain.softmax(a, axis=0), plain.conv2d(x, w), plain.attention(q, q, q), plain.attention(q, q, q, lse=True),
              a[:0] @ b]
    for found, right in zip(run(url, call), wanted, strict=True):
        for one, other in zip(found, right, strict=True) if isinstance(right, tuple) else [(found, right)]:
            assert np.array_equal(one, other) and one.shape == other.shape


def test_tensors(url, plain, rng, name):
    x, w = whole(rng, 1, 2, 5, 5), whole(rng, 3, 2, 3, 3)
    scaled, scale = rng.integers(-9, 9, (4, 3)).astype(np.int8), np.ones(3, np.float32)

    async def call(made):
        y = await made.conv2d_store(f"{name}-y", x, w)
        total = await made.reduce_store(f"{name}-total", y)
        end = await made.softmax_store(f"{name}-end", total)
        product = await made.gemm_store(f"{name}-product", w[0, 0], w[0, 1])
        other = await made.put(f"{name}-scaled", scaled, scale=scale)
        assert await made.put(other.name, scaled, scale=scale) == other
        assert {each.name for each in await made.tensors()} >= {y.name, total.name, end.name, product.name, other.name}
        found, its_scale = await made.get_scaled(other)
        assert np.array_equal(found, scaled) and np.array_equal(its_scale, scale)
        assert np.array_equal(await made.get(product.T), (w[0, 0] @ w[0, 1]).T)
        assert np.array_equal(product @ w[0, 0], w[0, 0] @ w[0, 1] @ w[0, 0])  # The handle blocks.
        await made.delete(y)
        with pytest.raises(NotFound):
            await made.get(y)
        assert (await made.info())["name"] == "gemmd"
        return await made.get(end)

    assert np.array_equal(run(url, call), plain.softmax(plain.reduce(plain.conv2d(x, w))))


def test_there_is_no_thread_for_a_call(url, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    before = threading.active_count()

    async def call(made):
        calls = [asyncio.ensure_future(made.gemm(a, b)) for _ in range(40)]
        calls.append(asyncio.ensure_future((await made.gemm_job(a, b)).result()))
        done = set()
        while len(done) < len(calls):
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=0.001)
            assert threading.active_count() == before
        return [each.result() for each in calls]

    for product in run(url, call):
        assert np.array_equal(product, a @ b)


@pytest.mark.parametrize("at", ["tcp", "unix", "tls"])
def test_large_arrays(start, guarded, tmp_path, rng, at):
    """They are written in pieces."""
    authority, tls = guarded
    options = {}
    if at == "tls":
        mine, key = map(str, authority.client("alice"))
        options = {"ca_file": str(authority.certificate), "cert_file": mine, "key_file": key}
        address = tls
    elif at == "unix":
        address = f"unix:{tmp_path}/gemmd.sock"
        start(listen=(address,))
    else:
        address = start().url
    a, b = rng.random((1100, 1000), np.float32), np.eye(1000, dtype=np.float32)

    async def call(made):
        tensor = await made.put("large", a)
        return await asyncio.gather(made.gemm(a, b), made.get(tensor), made.gemm(a, b, out=np.empty_like(a)))

    for found in run(address, call, **options):
        assert np.array_equal(found, a)


def test_a_body_that_is_refused_while_it_is_sent(start):
    big = np.zeros((4096, 4096), np.float32)

    async def call(made):
        for _ in range(3):
            with pytest.raises(NoRoom):
                await made.put("W", big)
        return await made.gemm(ones(2, 2), ones(2, 2))

    assert np.array_equal(run(start("--tensor-bytes", "1MiB").url, call, retries=0), 2 * ones(2, 2))


def test_jobs(start, rng):
    daemon = start("--max-wait", "100ms", "--cpu-threads", "1")
    a = rng.random((400, 400))

    async def call(made):
        job = await made.gemm_job(a, a, kernel="naive")
        with pytest.raises(Conflict):
            await job.result(timeout=0)
        again = made.job(job.id)
        assert await again.wait() and await again.done() and (await again.status()).state == "done"
        assert "done" in repr(again) and job.id in again._repr_html_() and daemon.url in repr(job)
        assert len(await made.jobs()) == 1
        found = await asyncio.gather(job, again.result())
        await job.cancel()
        with pytest.raises(NotFound):
            await job
        other = await made.gemm_job(a, a, kernel="naive")
        await other.cancel()
        with pytest.raises(Gone):
            await other
        q, x = ones(1, 1, 2, 4), ones(1, 1, 3, 3)
        others = [await made.attention_job(q, q, q), await made.conv2d_job(x, x), await made.reduce_job(x, "max"),
                  await made.softmax_job(x)]
        assert [np.asarray(each).shape for each in await asyncio.gather(*others)] == [
            (1, 1, 2, 4), (1, 1, 1, 1), (1, 1, 3), (1, 1, 3, 3)]
        with pytest.raises(ValueError, match="a dimension is 0"):
            await made.gemm_job(a[:0], a)
        return found

    for found in run(daemon.url, call):
        assert np.allclose(found, a @ a)


def test_a_cancelled_call_is_dropped(start, rng):
    """The daemon sees that the connection has ended, and computes what comes after."""
    daemon = start("--cpu-threads", "1")
    big = rng.random((1500, 1500))

    async def until(line):
        while line not in (await asyncio.to_thread(requests.get, f"{daemon.url}/metrics")).text.splitlines():
            await asyncio.sleep(0.01)

    async def call(made):
        long = asyncio.ensure_future(made.gemm(big, big, kernel="naive"))
        await until("gemmd_requests_running 1")
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        await until("gemmd_requests_running 0")
        await until("gemmd_client_gone_total 1")
        with pytest.raises(TimeoutError):
            await made.gemm(big, big, kernel="naive", timeout=0.05)
        return await made.gemm(ones(1, 2), ones(2, 1))

    assert run(daemon.url, call) == 2


async def served(answer, client_side):
    """Runs `client_side` with the address of a server in this event loop, whose connections `answer` takes."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        return await client_side(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def test_no_more_calls_than_are_wanted_are_in_flight():
    now, most, three = 0, 0, asyncio.Event()

    async def answer(reader, writer):
        nonlocal now, most
        while await reader.read(4096):
            now += 1
            most = max(most, now)
            if now == 3:
                three.set()
            await three.wait()
            now -= 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def ask(url):
        async with AsyncClient(url, in_flight=3) as made:
            return await asyncio.gather(*(made.info() for _ in range(10)))

    assert asyncio.run(served(answer, ask)) == [{}] * 10 and most == 3


def test_a_connection_that_was_closed_while_it_was_idle():
    count = 0

    async def answer(reader, writer):
        nonlocal count
        count += 1
        await reader.read(4096)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def ask(url):
        async with AsyncClient(url, retries=0) as made:
            return [await made.info() for _ in range(3)]

    assert asyncio.run(served(answer, ask)) == [{}] * 3 and count == 3


def test_close_waits_for_what_has_begun():
    begun, go = asyncio.Event(), asyncio.Event()

    async def answer(reader, writer):
        await reader.read(4096)
        begun.set()
        await go.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def ask(url):
        made = AsyncClient(url, in_flight=1)
        calls = [asyncio.ensure_future(made.info()) for _ in range(2)]
        await begun.wait()
        closing = asyncio.ensure_future(made.close())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="the client is closed"):
            await made.info()
        assert not closing.done() and "closed" in repr(made)
        go.set()
        await closing
        await made.close()
        return await asyncio.gather(*calls)

    assert asyncio.run(served(answer, ask)) == [{}] * 2


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\nTrailer: t\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n{\"a\":1}", b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}"])
def test_forms_of_answers(answer):
    with server_that_answers(answer) as url:
        assert run(url, AsyncClient.info, retries=0) == {"a": 1}


@pytest.mark.parametrize("answer,kind,sentence", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", ProtocolError, "is not JSON"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>", ProtocolError, "status 404"),
    (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ProtocolError, "does not speak HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}", ProtocolError, "does not speak HTTP"),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (2 << 20), ProtocolError, "does not speak HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n{}", ConnectionFailed, "closed the connection"),
    (b"", ConnectionFailed, "closed the connection")])
def test_servers_that_are_no_daemon(answer, kind, sentence):
    with server_that_answers(answer) as url, pytest.raises(kind, match=sentence):
        run(url, AsyncClient.info, retries=0)


@pytest.mark.parametrize("headers,length,sentence", [
    ("Gemmd-Shape: 1,1\r\nGemmd-Dtype: f32", 8, "another length than its shape says"),
    ("Gemmd-Shape: 1,1\r\nGemmd-Dtype: f31", 4, "the type 'f31', which the client does not know"),
    ("Gemmd-Shape: 1,1", 4, "does not name its shape")])
def test_answers_that_contradict_themselves(headers, length, sentence):
    answer = f"HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: {length}\r\n\r\n".encode() + bytes(length)
    with server_that_answers(answer) as url, pytest.raises(ProtocolError, match=sentence):
        run(url, lambda made: made.gemm(ones(1, 1), ones(1, 1)), retries=0)


def test_addresses_where_no_daemon_is(tmp_path, guarded, url):
    _, tls = guarded
    for address, sentence in (("127.0.0.1:1", "Connection refused"), (f"unix:{tmp_path}/none", "No such file"),
                              (tls, "certificate verify failed"), (url.replace("http:", "https:"), "there is no TLS there")):
        with pytest.raises(ConnectionFailed, match=sentence):
            run(address, AsyncClient.info, retries=0)
    with pytest.raises(ConnectionFailed):
        run("127.0.0.1:1", AsyncClient.info, retries=2)


def test_clients_go_on_in_other_loops_and_processes(url, rng):
    a, b = whole(rng, 3, 4), whole(rng, 4, 5)
    made = AsyncClient(url, in_flight=2)
    again = pickle.loads(pickle.dumps(made))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Connections end with the loop that opened them.
        for each in (made, made, again, again):
            assert np.array_equal(asyncio.run(each.gemm(a, b)), a @ b)
            gc.collect()
    assert url in repr(made) and "open" in repr(made) and url in made._repr_html_()
    asyncio.run(made.close())
    with pytest.raises(RuntimeError, match="the client is closed"):
        asyncio.run(made.gemm(a, b))
    asyncio.run(again.close())


def test_arguments_that_are_none(url):
    with pytest.raises(ValueError, match="in_flight is 0"):
        AsyncClient(url, in_flight=0)
    with pytest.raises(ValueError, match="an AsyncClient sends its requests by HTTP"):
        AsyncClient(url, transport="library")
    with pytest.raises(TypeError, match="a is a string"):
        run(url, lambda made: made.gemm("x", ones(1, 1)))
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        run(url, lambda made: made.gemm(ones(1, 1), ones(1, 1), scale=1))


FORK = """
import asyncio, os, sys
import numpy as np
from gemmd_client import AsyncClient

a = np.full((4, 4), 2, np.float32)


async def product(client):
    return float((await client.gemm(a, a))[0, 0])


def fork(client):
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(product(client)) != 16)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def inside(client):
    assert await product(client) == 16
    assert fork(client) == 0
    assert await product(client) == 16


client = AsyncClient(sys.argv[1])
if sys.argv[2] == "inside":
    asyncio.run(inside(client))
else:
    assert asyncio.run(product(client)) == 16 and fork(client) == 0
    assert asyncio.run(product(client)) == 16
"""


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_child_of_a_fork_computes(url, where):
    """Forked inside and outside of a coroutine; each process has connections of its own."""
    ran = subprocess.run([sys.executable, "-c", FORK, url, where], capture_output=True, text=True, check=False,
                         timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(ROOT / "client/python/src")})
    assert ran.returncode == 0, ran.stderr

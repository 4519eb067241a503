"""The Python client of client/python where something is wrong: arguments, addresses, certificates, files, and servers
that are no daemons."""

import contextlib
import socket
import threading
import time

import numpy as np
import pytest

from certificates import Authority
from daemon import PATIENCE_S, Daemon
from test_python_client import client, transport  # noqa: F401 (fixtures)

from gemmd_client import Client, ConnectionFailed
from gemmd_client.errors import Conflict, GemmdError, Malformed, ProtocolError, QueueFull, Unsupported


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


@contextlib.contextmanager
def server_that_answers(answer):
    """A server that sends the same bytes to every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("name, value", [
    ("c", ones(5, 4)), ("c", ones(20)), ("bias", ones(5, 1)), ("bias", ones(4))])
def test_added_arrays_have_the_shape_of_the_result(client, name, value):
    """An array of as many elements in another shape is none that numpy would add."""
    options = {"beta": 1.0} if name == "c" else {}
    with pytest.raises(ValueError, match=f"{name} has the shape"):
        client.gemm(ones(4, 3), ones(3, 5), **{name: value}, **options)


def test_added_arrays_of_vectors(client):
    assert np.array_equal(client.gemm(ones(3), ones(3, 5), bias=ones(1, 5), beta=1, c=ones(5)), 5 * ones(5))
    assert np.array_equal(client.gemm(ones(4, 3), ones(3), beta=1, c=ones(4)), 4 * ones(4))


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e9])
def test_times_that_are_none(client, timeout):
    for call in (lambda: client.gemm(ones(1, 1), ones(1, 1), timeout=timeout),
                 lambda: client.reduce(ones(2), timeout=timeout),
                 lambda: client.softmax_job(ones(2), timeout=timeout),
                 lambda: client.gemm_store("x", ones(1, 1), ones(1, 1), timeout=timeout),
                 lambda: client.conv2d(ones(1, 1, 2, 2), ones(1, 1, 2, 2), timeout=timeout),
                 lambda: Client(timeout=timeout)):
        with pytest.raises(ValueError, match="timeout is"):
            call()


def test_arguments_that_are_none(client):
    with pytest.raises(TypeError, match="passed as a Tensor"):
        client.gemm(ones(1, 1), "weights")
    with pytest.raises(ValueError, match="leading dimensions of a"):
        client.gemm(ones(2, 1, 1), ones(3, 1, 1))
    with pytest.raises(TypeError, match="no type f99"):
        client.gemm(ones(1, 1), ones(1, 1), out_dtype="f99")
    with pytest.raises(TypeError, match="no type f99"):
        client.conv2d(ones(1, 1, 2, 2), ones(1, 1, 2, 2), out_dtype="f99")
    with pytest.raises(Malformed, match="priority is '-1'"):
        client.gemm(ones(1, 1), ones(1, 1), priority=-1)
    with pytest.raises(Malformed, match="priority is '-1'"):
        client.attention(*[ones(1, 1, 2, 8)] * 3, priority=-1)
    for call in (lambda: client.put(None, ones(2)), lambda: client.get(None), lambda: client.delete(7)):
        with pytest.raises(TypeError, match="name of a tensor"):
            call()


@pytest.mark.parametrize("call, says", [
    (lambda client, wanted: client.gemm(ones(2, 2), ones(2, 2), **wanted), "out_dtype is 'i8'; it must be one of"),
    (lambda client, wanted: client.einsum("ij,jk->ik", ones(2, 2), ones(2, 2), **wanted), "out_dtype is 'i8'"),
    (lambda client, wanted: client.gemm_job(ones(2, 2), ones(2, 2), **wanted).result(), "out_dtype is 'i8'"),
    (lambda client, wanted: client.conv2d(ones(1, 1, 2, 2), ones(1, 1, 2, 2), **wanted), "out_dtype is 'i8'"),
    (lambda client, wanted: client.softmax(ones(2), **wanted), "out_dtype is 'i8'"),
    (lambda client, wanted: client.reduce(ones(2), **wanted), "sum of f32 to i8 is not offered")])
def test_a_type_of_the_result_that_is_none(client, call, says):
    """The sentence names the argument, and not the daemon's parameter `out`."""
    with pytest.raises(GemmdError) as caught:
        call(client, {"out_dtype": "i8"})
    assert str(caught.value).startswith(says) and caught.value.field == "out_dtype"


def test_a_pair_of_types_that_is_none(client):
    with pytest.raises(GemmdError, match="^out_dtype=f64 is not offered for operands of i8") as caught:
        client.gemm(ones(2, 2, dtype=np.int8), ones(2, 2, dtype=np.int8), out_dtype="f64")
    assert caught.value.field == "out_dtype" and caught.value.code == "unsupported"
    with pytest.raises(Unsupported, match="^precision=tf32 is offered for operands of f32, not of f64"):
        client.gemm(ones(2, 2, dtype=np.float64), ones(2, 2, dtype=np.float64), precision="tf32")


@pytest.mark.parametrize("call", [
    lambda client: client.conv2d(ones(1, 1, 2, 2, dtype=np.float64), ones(1, 1, 2, 2, dtype=np.float64)),
    lambda client: client.conv2d_job(ones(1, 1, 2, 2, dtype=np.float64), ones(1, 1, 2, 2, dtype=np.float64)),
    lambda client: client.attention(*[ones(1, 1, 2, 8, dtype=np.float64)] * 3),
    lambda client: client.attention(*[ones(1, 1, 2, 8, dtype=np.int8)] * 3)])
def test_operands_of_a_type_that_the_operation_lacks(client, call):
    """The sentence names the arguments and NumPy's types, which the caller has given."""
    with pytest.raises(TypeError, match=r"^\w( and \w)+ have the type (float64|int8); the daemon does this with float32, "
                                        "float16, bfloat16.*: convert the operands with astype"):
        call(client)


def test_a_reduction_that_is_none(client):
    """The sentence lists the client's operations, of which the daemon has some."""
    for call in (client.reduce, client.reduce_job):
        with pytest.raises(ValueError, match="^op is 'median'; it must be one of sum, .*argmin, std, var, prod$"):
            call(ones(2), "median")


@pytest.mark.parametrize("name", ["window", "window_right"])
def test_a_window_below_zero(client, name):
    """libgemmd would take -1 for no window."""
    with pytest.raises(ValueError, match=f"^{name} is '?-1'?; it must be a whole number from 0"):
        client.attention(*[ones(1, 1, 2, 8)] * 3, **{name: -1})


@pytest.mark.parametrize("lens, kind", [([1.5, 2], TypeError), ([True, False], TypeError),
                                        ([-1, 2], ValueError), ([2**32 + 1, 2], ValueError)])
def test_lengths_of_rows_are_whole_numbers(client, lens, kind):
    with pytest.raises(kind, match="lens has"):
        client.softmax(ones(2, 3), lens=lens)


@pytest.mark.parametrize("url", [
    "ftp://host:1", "http://", ":", "::1", "http://::1:8080", "[::1", "http://127.0.0.1:99999", "host:0",
    "http://127.0.0.1:http", "http://user:word@127.0.0.1:80", "http://127.0.0.1:80?x=1", "unix:", "unix:" + "x" * 108])
def test_addresses_that_are_none(url):
    with pytest.raises(ValueError, match="is not an address"):
        Client(url, transport="http")


def test_the_path_of_an_address_comes_before_each_path():
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0)) as listener, \
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}/gemmd/", transport="http") as prefixed:
        found = []

        def serve():
            connection, _ = listener.accept()
            with connection:
                found.append(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert prefixed.info() == {}
        thread.join()
    assert found[0].startswith(b"GET /gemmd/info HTTP/1.1\r\n")


@pytest.mark.parametrize("token", ["two words", "line\nend", "schl\u00fcssel", "x" * 4097])
def test_tokens_that_are_none(token):
    with pytest.raises(ValueError, match="the token must be") as caught:
        Client(token=token)
    assert token not in str(caught.value)


@pytest.fixture
def guarded(gemmd, tmp_path):
    """The authority whose certificates a daemon asks its clients for, and the daemon's URL."""
    authority = Authority(tmp_path)
    certificate, key = authority.server()
    daemon = Daemon(gemmd, "--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", authority.certificate)
    try:
        daemon.wait_until_listening(1)
        yield authority, f"https://localhost:{daemon.address[1]}"
        daemon.stop()
    finally:
        daemon.close()


def test_certificates(guarded, transport, monkeypatch):
    authority, url = guarded
    mine, my_key = map(str, authority.client("alice"))
    options = {"ca_file": str(authority.certificate), "transport": transport, "retries": 0}
    with Client(url, cert_file=mine, key_file=my_key, **options) as known:
        assert known.gemm(ones(1, 2), ones(2, 1)) == 2 and known.reduce(ones(3)) == 3
    with Client(url, **options) as stranger:
        for call in (lambda: stranger.gemm(ones(1, 2), ones(2, 1)), stranger.info):
            with pytest.raises(ConnectionFailed):
                call()
    monkeypatch.setenv("GEMMD_CERT_FILE", mine)
    monkeypatch.setenv("GEMMD_KEY_FILE", my_key)
    with Client(url, **options) as known:
        assert known.gemm(ones(1, 2), ones(2, 1)) == 2 and known.info()["name"] == "gemmd"


def test_https_to_a_daemon_without_it(url):
    with Client(url.replace("http:", "https:"), transport="http", retries=0) as wrong:
        with pytest.raises(ConnectionFailed, match="begins with http://"):
            wrong.info()


def test_files_of_certificates_that_are_none(tmp_path):
    text, missing = tmp_path / "text", tmp_path / "missing"
    text.write_text("no certificate\n")
    for option in ("ca_file", "cert_file"):
        with pytest.raises(OSError, match="text"):
            Client("https://127.0.0.1:1", **{option: str(text)})
        with pytest.raises(FileNotFoundError, match="missing"):
            Client("https://127.0.0.1:1", **{option: str(missing)})
    with pytest.raises(ValueError, match="cert_file"):
        Client("https://127.0.0.1:1", key_file=str(text))


def test_a_library_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setenv("LIBGEMMD", "/none/libgemmd.so.0")
    with pytest.raises(OSError, match="/none/libgemmd.so.0"):
        Client(transport="library")
    assert Client().transport == "http"


@pytest.mark.parametrize("answer, kind, sentence", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ProtocolError, "not JSON"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", ProtocolError, "not a JSON object"),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", ConnectionFailed, "status 502"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>", ProtocolError, "status 404"),
    (b"SSH-2.0-OpenSSH_9.2\r\n", ProtocolError, "does not speak HTTP"),
    (b"", ConnectionFailed, "closed the connection")])
def test_servers_that_are_no_daemon(answer, kind, sentence):
    with server_that_answers(answer) as url, Client(url, transport="http", retries=0) as wrong:
        with pytest.raises(kind, match=sentence):
            wrong.info()


def test_headers_of_a_proxy_in_lower_case():
    """Such as HAProxy writes them."""
    body = b'{"type": "urn:gemmd:error:queue-full", "title": "", "status": 429, "detail": "full"}'
    answer = (b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nx-request-id: abc\r\ncontent-length: %d\r\n\r\n"
              % len(body)) + body
    with server_that_answers(answer) as url, Client(url, transport="http", retries=0) as behind:
        with pytest.raises(QueueFull, match="full") as caught:
            behind.info()
    assert (caught.value.retry_after, caught.value.request_id) == (7, "abc")


def test_a_daemon_with_a_short_max_timeout(start, transport):
    """The client's own timeout is longer than any deadline that the daemon takes."""
    daemon = start("--max-timeout", "20s", "--timeout", "10s")
    with Client(daemon.url, transport=transport) as patient:
        for _ in range(2):
            assert patient.gemm(ones(1, 2), ones(2, 1)) == 2
            assert patient.reduce(ones(3)) == 3
            assert patient.gemm_store("x", ones(1, 2), ones(2, 1)).shape == (1, 1)
        with pytest.raises(Malformed, match="timeout_ms"):
            patient.reduce_job(ones(3), timeout=60)


def test_a_job_may_take_longer_than_the_daemon_waits(start):
    daemon = start("--max-wait", "100ms", "--cpu-threads", "1", "--no-cpu-pauses")
    big = np.random.default_rng(1).random((900, 900))
    with Client(daemon.url, transport="http") as patient:
        job = patient.gemm_job(big, big, kernel="naive")
        with pytest.raises(Conflict):
            job.result(timeout=0)
        begin = time.monotonic()
        assert np.allclose(job.result(timeout=PATIENCE_S), big @ big)
        assert time.monotonic() - begin > 0.1, "the job was done before the daemon's longest wait was over"

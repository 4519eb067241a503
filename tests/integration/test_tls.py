"""TLS on TCP listeners: certificates of the daemon and of clients, and clients that misbehave."""

import contextlib
import os
import re
import signal
import socket
import ssl
import struct
import subprocess
import time

import numpy as np
import pytest
import requests

from certificates import Authority
from daemon import PATIENCE_S, Daemon
from test_routes import ENDLESS, OPEN, ROUTES, fill_in

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
HELLO = b"\x16\x03\x01"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority):
    return authority.server()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """The certificate of a client that an authority has signed which the daemon does not know."""
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger").client("mallory")


@pytest.fixture
def tls_daemon(gemmd, pair):
    daemons = []

    def start(*arguments, **more):
        daemon = Daemon(gemmd, "--tls-cert", pair[0], "--tls-key", pair[1], *arguments, **more)
        daemons.append(daemon)
        return daemon.wait_until_listening(len(more.get("listen", (1,))))

    try:
        yield start
        for daemon in daemons:
            daemon.stop()
    finally:
        for daemon in daemons:
            daemon.close()


def https(daemon):
    return f"https://localhost:{daemon.address[1]}"


def client_context(authority, certificate=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def connect(daemon, context):
    plain = socket.create_connection(daemon.address, timeout=PATIENCE_S)
    return context.wrap_socket(plain, server_hostname="localhost")


def read_all(connection):
    """What comes until the other end closes the connection, by whatever means."""
    received = b""
    try:
        while data := connection.recv(1 << 16):
            received += data
    except (ConnectionError, ssl.SSLError):
        pass
    return received


def answers(daemon, authority):
    """Whether the daemon still serves. It may end a handshake for which this process is too slow."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return requests.get(https(daemon) + "/livez", verify=str(authority.certificate),
                                timeout=PATIENCE_S).status_code == 200
        except requests.ConnectionError:
            if time.monotonic() > deadline or daemon.process.poll() is not None:
                raise


@pytest.mark.parametrize("version, spoken", [(ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
                                             (ssl.TLSVersion.TLSv1_2, "TLSv1.2")])
def test_versions_and_protocol(version, spoken, tls_daemon, authority):
    context = client_context(authority)
    context.minimum_version = context.maximum_version = version
    with connect(tls_daemon(), context) as connection:
        assert connection.version() == spoken
        assert connection.selected_alpn_protocol() == "http/1.1"
        connection.sendall(GET)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_an_expired_certificate_is_told_and_can_be_replaced(gemmd, pair, tmp_path_factory):
    old = Authority(tmp_path_factory.mktemp("expired")).issue("localhost", "DNS:localhost", "serverAuth", days=0)
    says = "expired at"

    def warnings():
        return [line["message"] for line in daemon.lines if says in line["message"]]

    def expires_in():
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with connect(daemon, context) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = read_all(connection).decode()
        return float(re.search(r"^gemmd_tls_certificate_expiry_timestamp_seconds (\S+)$", text, re.M)[1]) - time.time()

    daemon = Daemon(gemmd, "--tls-cert", old[0], "--tls-key", old[1])
    try:
        daemon.wait_until_listening(1)
        assert len(warnings()) == 1 and str(old[0])[:100] in warnings()[0] and "SIGHUP" in warnings()[0]
        assert -PATIENCE_S < expires_in() <= 0
        for file, fresh in zip(old, pair):
            file.write_bytes(fresh.read_bytes())
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for(lambda lines: any(line["message"] == "reloaded" for line in lines), "the reload")
        assert 47 * 3600 < expires_in() <= 48 * 3600
        assert len(warnings()) == 1
        daemon.stop()
        for file, stranger in zip(old, pair[::-1]):
            file.write_bytes(stranger.read_bytes())
        check = subprocess.run([gemmd, "--tls-cert", old[0], "--tls-key", old[1], "--check-config"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert check.returncode == 1 and "not a certificate and its key" in check.stderr
    finally:
        daemon.close()


def test_old_versions_are_refused(tls_daemon, authority):
    context = client_context(authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    daemon = tls_daemon()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(daemon, context)
    assert answers(daemon, authority)


@pytest.mark.parametrize("megabytes", [0.01, 1, 32])
def test_bodies_both_ways(megabytes, tls_daemon, authority):
    daemon = tls_daemon()
    columns = int(megabytes * 1024 * 1024 / 4 / 64)
    matrix = np.random.default_rng(7).random((64, columns), dtype=np.float32)
    with requests.Session() as session:
        verify = str(authority.certificate)
        binary = {"Content-Type": "application/octet-stream", "Accept": "application/octet-stream"}
        url = f"{https(daemon)}/tensors/w?shape=64,{columns}&dtype=f32"
        for _ in range(2):
            put = session.put(url, matrix.tobytes(), headers=binary, verify=verify,
                              timeout=PATIENCE_S)
            assert put.status_code in (200, 201), put.text
            got = session.get(f"{https(daemon)}/tensors/w", headers=binary, verify=verify,
                              timeout=PATIENCE_S)
            assert got.content == matrix.tobytes()


def test_a_refused_body_has_its_answer(tls_daemon, authority):
    """The daemon writes the answer itself, in the middle of an upload."""
    daemon = tls_daemon("--body-timeout", "1s")
    with connect(daemon, client_context(authority)) as connection:
        connection.sendall(b"POST /gemm?m=512&n=512&k=512 HTTP/1.1\r\nHost: x\r\n"
                           b"Content-Type: application/octet-stream\r\n"
                           b"Content-Length: 2097152\r\n\r\n" + bytes(100))
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_a_malformed_length_has_one_answer(tls_daemon, authority):
    with connect(tls_daemon(), client_context(authority)) as connection:
        connection.sendall(b"POST /gemm HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), head
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head + b"\r\n", (head, body)


def test_plain_http_to_a_tls_address(tls_daemon, authority):
    daemon = tls_daemon()
    with socket.create_connection(daemon.address, timeout=PATIENCE_S) as connection:
        connection.sendall(GET)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 400") and b"https://" in answer
    assert answers(daemon, authority)


def test_tls_to_a_plain_address(gemmd, authority):
    daemon = Daemon(gemmd).wait_until_listening()
    try:
        with socket.create_connection(daemon.address, timeout=PATIENCE_S) as connection:
            connection.sendall(HELLO + b"\x00\x05hello")
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400") and b"this is TLS" in answer
        daemon.stop()
    finally:
        daemon.close()


# Records that begin like a handshake and are none: of no sense, too long, of another version, cut.
GARBAGE = {
    "no sense": HELLO + struct.pack(">H", 64) + bytes(range(64)),
    "oversized": HELLO + b"\xff\xff" + os.urandom(65535),
    "version": b"\x16\x09\x09\x00\x10" + bytes(16),
    "alert": HELLO + b"\x00\x02\x02\x28",
    "zeros": HELLO + bytes(5000),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_ends_the_connection(kind, tls_daemon, authority):
    daemon = tls_daemon("--header-timeout", "1s")
    with socket.create_connection(daemon.address, timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(GARBAGE[kind])
        except ConnectionError:
            pass
        assert b"HTTP" not in read_all(connection)
    assert answers(daemon, authority)


@pytest.mark.parametrize("sent", [HELLO, b"\x16", HELLO + b"\x02\x00\x01"])
def test_an_unfinished_handshake_ends(sent, tls_daemon, authority):
    """The limit is --header-timeout, from the accept on, and many of them hold nobody up."""
    daemon = tls_daemon("--header-timeout", "1s")
    crowd = [socket.create_connection(daemon.address, timeout=PATIENCE_S) for _ in range(50)]
    for connection in crowd:
        with contextlib.suppress(ConnectionError):  # the time may be over already
            connection.sendall(sent)
    assert answers(daemon, authority)
    for connection in crowd:
        assert b"HTTP" not in read_all(connection)
        connection.close()


def test_a_slow_handshake_ends(tls_daemon, authority):
    """Bytes of a hello that come one by one do not prolong the time."""
    daemon = tls_daemon("--header-timeout", "1s")
    hello = ssl.MemoryBIO()
    conversation = client_context(authority).wrap_bio(ssl.MemoryBIO(), hello,
                                                      server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        conversation.do_handshake()
    with socket.create_connection(daemon.address, timeout=PATIENCE_S) as connection:
        connection.settimeout(PATIENCE_S / 200)
        closed = False
        for byte in hello.read()[:200]:
            try:
                connection.sendall(bytes([byte]))
                closed = connection.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
        assert closed
    assert answers(daemon, authority)


def test_unix_sockets_stay_plain(tls_daemon, tmp_path):
    path = str(tmp_path / "socket")
    tls_daemon(listen=("127.0.0.1:0", f"unix:{path}"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        connection.sendall(GET)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_disconnected_client_frees_its_connection(tls_daemon, authority):
    daemon = tls_daemon()
    answers(daemon, authority)
    before = daemon.descriptors()
    for _ in range(20):
        with connect(daemon, client_context(authority)) as connection:
            connection.sendall(GET)
            connection.recv(1 << 16)
    daemon.assert_descriptors(before)


# ---- certificates of clients ----

def test_required_certificates(tls_daemon, authority, stranger):
    daemon = tls_daemon("--tls-client-ca", authority.certificate)
    verify = str(authority.certificate)
    known = tuple(map(str, authority.client("alice")))
    url = https(daemon) + "/info"
    assert requests.get(url, verify=verify, cert=known, timeout=PATIENCE_S).status_code == 200
    for wrong in (None, tuple(map(str, stranger))):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, verify=verify, cert=wrong, timeout=PATIENCE_S)
    # A certificate for servers is none for clients.
    with pytest.raises(requests.ConnectionError):
        requests.get(url, verify=verify, cert=tuple(map(str, authority.server())),
                     timeout=PATIENCE_S)


def test_handshakes_are_counted(tls_daemon, authority, stranger):
    """A client of another authority fails, and so does one that gives up in the handshake."""
    daemon = tls_daemon("--tls-client-ca", authority.certificate)
    verify, known = str(authority.certificate), tuple(map(str, authority.client("alice")))

    def counted():
        text = requests.get(https(daemon) + "/metrics", verify=verify, cert=known,
                            timeout=PATIENCE_S).text
        return [int(dict(re.findall(r'gemmd_tls_handshakes_total\{result="(\w+)"\} (\d+)', text))
                    .get(result, 0)) for result in ("ok", "failed")]

    assert counted()[1] == 0
    with pytest.raises(requests.ConnectionError):
        requests.get(https(daemon) + "/info", verify=verify, cert=tuple(map(str, stranger)),
                     timeout=PATIENCE_S)
    with socket.create_connection(daemon.address, timeout=PATIENCE_S) as client:
        client.sendall(b"\x16\x03\x01\x00\x05")
    deadline = time.monotonic() + PATIENCE_S
    while counted()[1] != 2:
        assert time.monotonic() < deadline, counted()
        time.sleep(0.05)
    assert counted()[0] >= 1


def test_tenants_from_certificates(tls_daemon, authority, stranger, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:cert:URI:spiffe://test/alice scopes=compute,tensors\n"
                    "bob:cert:CN:bob\n"
                    "carol:cert:DNS:carol.example expires=2020-01-01\n"
                    "dora:the-token-of-dora\n")
    file.chmod(0o600)
    daemon = tls_daemon("--token-file", file, "--tls-client-ca", authority.certificate,
                        "--tls-client-auth", "optional")
    verify = str(authority.certificate)

    def ask(path, name=None, method="GET", token=None, **more):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        cert = tuple(map(str, authority.client(name))) if name else None
        return requests.request(method, https(daemon) + path, verify=verify, cert=cert,
                                headers=headers, timeout=PATIENCE_S, **more)

    assert ask("/info").status_code == 401
    assert ask("/info", "alice").status_code == 200
    assert ask("/info", "nobody").status_code == 401
    expired = ask("/info", "carol")
    assert expired.status_code == 401 and "invalid_token" in expired.headers["WWW-Authenticate"]
    assert ask("/metrics", "alice").status_code == 403
    assert ask("/metrics", "bob").status_code == 200
    put = ask("/tensors/hers?shape=2,2&dtype=f32", "alice", "PUT", data=bytes(16))
    assert put.status_code == 201
    assert ask("/tensors/hers", "bob").status_code == 403
    # A token counts before the certificate, and a wrong token is not mended by it.
    assert ask("/tensors/hers", "alice", token="the-token-of-dora").status_code == 403
    assert ask("/tensors/hers", "alice", token="no-token-at-all").status_code == 401
    with pytest.raises(requests.ConnectionError):
        requests.get(https(daemon) + "/info", verify=verify, cert=tuple(map(str, stranger)),
                     timeout=PATIENCE_S)


def test_a_route_wants_a_certificate_that_the_token_file_names(tls_daemon, authority, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:cert:CN:alice\nold:cert:CN:old expires=2020-01-01\n")
    file.chmod(0o600)
    daemon = tls_daemon("--token-file", file, "--tls-client-ca", authority.certificate)
    for name in ("alice", "old", "nobody"):
        certificate = tuple(map(str, authority.client(name)))
        with requests.Session() as session:
            for method, path in ROUTES:
                with session.request(method, https(daemon) + fill_in(path), cert=certificate,
                                     verify=str(authority.certificate), timeout=PATIENCE_S,
                                     data=b"{}" if method == "POST" else None,
                                     stream=path in ENDLESS) as answer:
                    if path in OPEN:
                        assert answer.status_code == 200
                    else:
                        assert (answer.status_code == 401) == (name != "alice"), (name, method, path)


def test_gemmctl_with_certificates(gemmctl, tls_daemon, authority, stranger):
    daemon = tls_daemon("--tls-client-ca", authority.certificate)
    certificate, key = authority.client("alice")

    def info(*arguments, **variables):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GEMMD_") and not name.endswith("_proxy")}
        environment.update({name: str(value) for name, value in variables.items()})
        return subprocess.run([gemmctl, "info", "--json", "--retries", "0", "--url", https(daemon),
                               *map(str, arguments)], capture_output=True, text=True,
                              env=environment, timeout=PATIENCE_S, check=False)

    known = ("--cert-file", certificate, "--key-file", key)
    good = info("--ca-file", authority.certificate, *known)
    assert good.returncode == 0 and '"gemmd"' in good.stdout, good.stderr
    good = info(GEMMD_CA_FILE=authority.certificate, GEMMD_CERT_FILE=certificate,
                GEMMD_KEY_FILE=key)
    assert good.returncode == 0, good.stderr
    assert "not trusted" in info(*known).stderr
    assert info("--ca-file", authority.certificate).returncode != 0
    assert info("--ca-file", authority.certificate, "--cert-file", stranger[0], "--key-file",
                stranger[1]).returncode != 0
    missing = info("--ca-file", authority.certificate, "--cert-file", "/nowhere.pem")
    assert missing.returncode == 2 and "/nowhere.pem cannot be read" in missing.stderr
    assert info("--key-file", key).returncode == 2


# ---- starts ----

@pytest.mark.parametrize("arguments, says", [
    (("--tls-cert", "{cert}"), "--tls-key"),
    (("--tls-key", "{key}"), "--tls-cert"),
    (("--tls-client-ca", "{cert}"), "--tls-cert"),
    (("--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-client-auth", "require"),
     "--tls-client-ca"),
    (("--tls-cert", "{cert}", "--tls-key", "{cert}"), "not a certificate and its key"),
    (("--tls-cert", "/nowhere.pem", "--tls-key", "{key}"), "/nowhere.pem"),
    (("--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-client-ca", "{key}"),
     "no certificate in PEM"),
    (("--tls-cert", "{cert}", "--tls-key", "{key}", "--tls-priorities", "NORMAL:+NOTHING"),
     "+NOTHING"),
])
def test_wrong_options(arguments, says, gemmd, pair):
    filled = [text.format(cert=pair[0], key=pair[1]) for text in arguments]
    ended = subprocess.run([gemmd, "--listen", "127.0.0.1:0", *filled], capture_output=True,
                           text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode in (1, 2) and says in ended.stderr


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_a_public_address_needs_protection(address, gemmd):
    ended = subprocess.run([gemmd, "--listen", address], capture_output=True, text=True,
                           timeout=PATIENCE_S, check=False)
    assert ended.returncode != 0
    assert "--allow-insecure-network" in ended.stderr


def test_public_addresses_with_certificates(tls_daemon, authority, gemmd, pair):
    tls_daemon("--tls-client-ca", authority.certificate, listen=("0.0.0.0:0",))
    ended = subprocess.run([gemmd, "--listen", "0.0.0.0:0", "--tls-cert", pair[0], "--tls-key",
                            pair[1], "--tls-client-ca", authority.certificate,
                            "--tls-client-auth", "optional"], capture_output=True, text=True,
                           timeout=PATIENCE_S, check=False)
    assert "--allow-insecure-network" in ended.stderr

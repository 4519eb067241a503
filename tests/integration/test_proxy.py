"""A daemon behind a reverse proxy."""

import contextlib
import http.client
import http.server
import subprocess
import threading
from urllib.parse import urljoin

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S, PATIENT
from oracle import wait_until
from wire import Wire, exchange, request

BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()


def refused(gemmd, *arguments):
    """What --check-config and a start say about options that contradict themselves."""
    says = set()
    for check in (["--check-config"], []):
        result = subprocess.run([gemmd, *arguments, "--listen", "127.0.0.1:0", *check], capture_output=True,
                                text=True, timeout=PATIENCE_S, check=False)
        assert result.returncode == 2, result.stdout
        says.add(result.stderr)
    [sentence] = says
    return sentence


# ---- --base-path ----

class Proxy(http.server.ThreadingHTTPServer):
    """Serves a daemon under a path, which it removes from the requests that it forwards."""

    daemon_threads = True

    def __init__(self, daemon, prefix):
        super().__init__(("127.0.0.1", 0), Forward)
        self.behind, self.prefix = daemon.address, prefix
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}{self.prefix}"

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def forward(self):
        if not self.path.startswith(f"{self.server.prefix}/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(*self.server.behind, timeout=PATIENCE_S)
        connection.request(self.command, self.path[len(self.server.prefix):], body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_GET = do_POST = do_PUT = do_DELETE = forward

    def log_message(self, *_):
        pass


@pytest.fixture
def proxied(start):
    with Proxy(start("--base-path", "/models/gemmd"), "/models/gemmd") as proxy:
        yield proxy


def test_locations_lead_back_through_the_proxy(proxied):
    """A job, a tensor that is uploaded, and a result that is stored, at once and by a job."""
    url = proxied.url
    accepted = requests.post(f"{url}/gemm?m=2&n=2&k=2", BODY, headers={"Prefer": "respond-async"}, timeout=PATIENCE_S)
    job = urljoin(accepted.url, accepted.headers["Location"])
    assert requests.get(f"{job}/result?wait_ms=60000", timeout=PATIENCE_S).content == RIGHT
    put = requests.put(f"{url}/tensors/one?dtype=f32&shape=2,2", BODY[:16], timeout=PATIENCE_S)
    assert requests.get(urljoin(put.url, put.headers["Location"]), timeout=PATIENCE_S).content == BODY[:16]
    stored = requests.post(f"{url}/gemm?m=2&n=2&k=2&store=two", BODY, timeout=PATIENCE_S)
    assert requests.get(urljoin(stored.url, stored.headers["Location"]), timeout=PATIENCE_S).content == RIGHT
    accepted = requests.post(f"{url}/gemm?m=2&n=2&k=2&store=three", BODY, headers={"Prefer": "respond-async"},
                             timeout=PATIENCE_S)
    job = urljoin(accepted.url, accepted.headers["Location"])
    done = requests.get(f"{job}/result?wait_ms=60000", timeout=PATIENCE_S)
    assert requests.get(urljoin(done.url, done.headers["Location"]), timeout=PATIENCE_S).content == RIGHT


def test_the_contract_names_the_path(proxied, start):
    behind = requests.get(f"{proxied.url}/openapi.json", timeout=PATIENCE_S).json()
    alone = requests.get(f"{start().url}/openapi.json", timeout=PATIENCE_S).json()
    assert [server["url"] for server in alone["servers"]] == ["/"]
    alone["servers"][0]["url"] = "/models/gemmd"
    assert behind == alone


def test_gemmctl_through_the_proxy(proxied, gemmctl):
    """gemmctl reads the id of a job in the Location."""
    def run(*arguments):
        result = subprocess.run([gemmctl, *arguments, "--url", proxied.url], capture_output=True, text=True,
                                timeout=PATIENCE_S, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    job = run("gemm", "--random", "8x8x8", "--async").strip()
    run("job", "wait", job)
    assert "done" in run("job", "status", job)


@pytest.mark.parametrize("path", ["gemmd", "/gemmd/", "/", "//gemmd", "/a//b", "/a/../b", "/a?b", "/?ab", "/a b", "/a%2fb",
                                  "/a\"b", "/" + "x" * 128])
def test_paths_that_cannot_be(path, gemmd):
    assert refused(gemmd, "--base-path", path).startswith(f"gemmd: --base-path of '{path[:60]}' is not a path such as")


def test_a_location_without_a_base_path(start):
    answer = exchange(start().address, request("PUT", "/tensors/one?dtype=f32&shape=2,2", [("Content-Length", 16)],
                                               BODY[:16]))
    assert answer.headers["location"] == "/tensors/one"


# ---- --allow-origin ----

PAGE = "https://app.example.com"
ORIGINS = f"http://localhost:3000,{PAGE},http://[::1]:8080"


def ask(address, method, target, *headers, body=b""):
    return exchange(address, request(method, target, [*headers, ("Content-Length", len(body))], body))


def cors(answer):
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


READABLE = {"access-control-allow-origin": PAGE, "access-control-expose-headers": "*"}


@pytest.fixture
def shared(start, tmp_path):
    """A daemon with tokens and --allow-origin."""
    file = tmp_path / "tokens"
    file.write_text("alice:alice-token-1\n")
    file.chmod(0o600)
    return start("--token-file", file, "--allow-origin", ORIGINS)


TOKEN = ("Authorization", "Bearer alice-token-1")


@pytest.mark.parametrize("method, target, body, token, status", [
    ("POST", "/gemm?m=2&n=2&k=2", BODY, True, 200), ("GET", "/info", b"", True, 200),
    ("POST", "/gemm?m=2&n=2&k=3", BODY, True, 400), ("GET", "/nothing", b"", True, 404),
    ("GET", "/info", b"", False, 401), ("GET", "/livez", b"", False, 200), ("PATCH", "/gemm", b"", True, 405)])
def test_answers_to_pages(method, target, body, token, status, shared):
    """A page of an allowed origin reads answers and errors. To other pages and other clients the answer is the
    same without the fields of CORS; caches are told that it depends on Origin."""
    headers = [TOKEN] if token else []
    allowed = ask(shared.address, method, target, ("Origin", PAGE), *headers, body=body)
    assert (allowed.status, cors(allowed), allowed.headers["vary"]) == (status, READABLE, "Origin")
    for origin in ("https://app.example.co", "https://app.example.com:443", "http://app.example.com", "null", "",
                   f"{PAGE},http://localhost:3000", "https://app.example.com/", "*"):
        other = ask(shared.address, method, target, ("Origin", origin), *headers, body=body)
        assert (other.status, cors(other), other.headers["vary"]) == (status, {}, "Origin"), origin


@pytest.mark.parametrize("target", ["/gemm?m=2", "/tensors/one", "/nothing", "/", "/v2/models/gemm_fp32/infer"])
def test_preflights(target, shared):
    """They have no token, and their answer does not tell which paths there are."""
    wish = ("Access-Control-Request-Method", "PUT")
    answer = ask(shared.address, "OPTIONS", target, ("Origin", PAGE), wish,
                 ("Access-Control-Request-Headers", "authorization,content-type"))
    assert (answer.status, answer.body) == (204, b"")
    assert cors(answer) == READABLE | {"access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
                                       "access-control-allow-headers": "Authorization, *",
                                       "access-control-max-age": "600"}
    for headers in ([("Origin", "https://evil.example.com"), wish], [wish], [("Origin", PAGE)]):
        refusal = ask(shared.address, "OPTIONS", target, *headers)
        assert refusal.status in (401, 405)
        assert not any(name.startswith("access-control-allow-m") for name in refusal.headers)


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_no_page_reads_answers_by_default(method, start):
    answer = ask(start().address, method, "/info", ("Origin", "http://localhost:3000"),
                 ("Access-Control-Request-Method", "GET"))
    assert answer.status == (200 if method == "GET" else 405)
    assert cors(answer) == {} and "vary" not in answer.headers


@pytest.mark.parametrize("origins, wrong", [
    ("*", "*"), ("null", "null"), ("https://", "https://"), ("https://a.example/", "https://a.example/"),
    ("https://a.example,", ""), ("https://a.example, https://b.example", " https://b.example"),
    ("https://A.example", "https://A.example"), ("a.example", "a.example"), ("https://u@a.example", "https://u@a.example"),
    ("https://a.example,http://b.example/x", "http://b.example/x")])
def test_origins_that_cannot_be(origins, wrong, gemmd):
    assert refused(gemmd, "--allow-origin", origins).startswith(
        f"gemmd: --allow-origin has '{wrong}', which is not an origin")


# ---- --trusted-proxy ----

XFF = "X-Forwarded-For"


def clients(daemon, requests_to_log):
    """The client of each logged request, by its id."""
    found = daemon.wait_for(lambda lines: (logged := {line["request_id"]: line for line in lines if "request_id" in line})
                            .keys() >= set(requests_to_log) and logged, "the lines of the requests")
    for name in requests_to_log:
        assert found[name]["peer"].startswith(("127.0.0.1:", "unix:")), "the peer is still there"
    return {name: found[name].get("client") for name in requests_to_log}


@pytest.mark.parametrize("arguments, header, other", [
    ((), XFF, "Forwarded"), (("--forwarded-header", "x-forwarded-for"), XFF, "Forwarded"),
    (("--forwarded-header", "forwarded"), "Forwarded", XFF)])
def test_the_client_is_in_the_log(arguments, header, other, start):
    """The last address that no trusted proxy has; what the client itself has sent before it does not count, nor does
    the header that the proxies do not know."""
    daemon = start("--trusted-proxy", "127.0.0.0/8,10.0.0.0/8", *arguments)
    pairs = "for={}".format if header == "Forwarded" else "{}".format
    chains = {
        "direct": ([], None), "one": (["192.0.2.7"], "192.0.2.7"),
        "two": (["203.0.113.9", "192.0.2.7", "10.0.0.1"], "192.0.2.7"), "proxies": (["10.0.0.2", "10.0.0.1"], "10.0.0.2"),
        "hidden": (["192.0.2.7", "unknown"], None)}
    for name, (chain, _) in chains.items():
        lines = [(header, ", ".join(map(pairs, chain)))] if chain else []
        answer = ask(daemon.address, "GET", "/livez", ("X-Request-Id", name), (other, "for=198.51.100.1"), *lines)
        assert answer.status == 200
    lines = [(header, pairs(address)) for address in ("203.0.113.9", "192.0.2.8", "10.0.0.1")]
    assert ask(daemon.address, "GET", "/livez", ("X-Request-Id", "lines"), *lines).status == 200
    expected = {name: client for name, (_, client) in chains.items()} | {"lines": "192.0.2.8"}
    assert clients(daemon, expected) == expected


@pytest.mark.parametrize("trusted", [(), ("--trusted-proxy", "10.0.0.0/8,unix")])
def test_strangers_do_not_name_a_client(trusted, start):
    daemon = start(*trusted)
    ask(daemon.address, "GET", "/livez", ("X-Request-Id", "stranger"), (XFF, "192.0.2.7"))
    assert clients(daemon, ["stranger"]) == {"stranger": None}


def test_a_proxy_on_a_unix_socket(start, tmp_path):
    path = str(tmp_path / "socket")
    daemon = start("--trusted-proxy", "unix", listen=(f"unix:{path}",), ready=False)
    daemon.wait_until_listening()
    ask(path, "GET", "/livez", ("X-Request-Id", "local"), (XFF, "2001:db8::7"))
    assert clients(daemon, ["local"]) == {"local": "2001:db8::7"}


def upload(daemon, client):
    """A request in progress: its body does not come."""
    wire = Wire(daemon.address)
    wire.send(request("POST", "/gemm?m=2&n=2&k=2", [(XFF, client), ("Content-Length", 32), ("Expect", "100-continue")]))
    return wire


def test_each_client_has_its_limit(start):
    """Requests in progress of one client, over any number of the proxy's connections, which are not limited."""
    daemon = start("--trusted-proxy", "127.0.0.1", "--max-connections-per-address", 2, *PATIENT)
    with contextlib.ExitStack() as open_wires:
        first, second = (open_wires.enter_context(upload(daemon, "192.0.2.7")) for _ in range(2))
        assert first.receive().status == second.receive().status == 100
        with upload(daemon, "192.0.2.7") as third:
            refusal = third.receive()
        assert refusal.status == 429 and b"--max-connections-per-address" in refusal.body
        assert int(refusal.headers["retry-after"]) >= 1
        for client in ("192.0.2.8", "192.0.2.9", "10.0.0.1", "192.0.2.7:1, unknown"):
            assert open_wires.enter_context(upload(daemon, client)).receive().status == 100, client
        # A request that ends makes room, whether it is answered or its client leaves.
        first.send(BODY)
        assert first.receive().body == RIGHT
        fourth = open_wires.enter_context(upload(daemon, "::ffff:192.0.2.7"))
        assert fourth.receive().status == 100
        fourth.socket.close()
        wait_until(lambda: open_wires.enter_context(upload(daemon, "192.0.2.7")).receive().status == 100,
                   "the request of a client that has left to end")
        second.send(BODY)
        assert second.receive().body == RIGHT


def test_the_limit_of_peers_that_are_no_proxies(start):
    daemon = start("--trusted-proxy", "192.0.2.1", "--max-connections-per-address", 2, ready=False)
    daemon.wait_until_listening()
    with Wire(daemon.address) as one, Wire(daemon.address) as two:
        for wire in (one, two):
            wire.send(request("GET", "/livez", [(XFF, "192.0.2.7")]))
            assert wire.receive().status == 200
        with Wire(daemon.address) as three:
            assert three.receive().status == 429


@pytest.mark.parametrize("arguments, says", [
    (("--trusted-proxy", "localhost"), "--trusted-proxy has 'localhost', which is not an address, a network such as "
                                       "10.0.0.0/8, or unix\n"),
    (("--trusted-proxy", "10.0.0.0/33,::1"), "--trusted-proxy has '10.0.0.0/33', which is not an address"),
    (("--trusted-proxy", ",".join(["::1"] * 65)), "--trusted-proxy has more than 64 networks"),
    (("--forwarded-header", "forwarded"), "--forwarded-header needs --trusted-proxy too\n"),
    (("--trusted-proxy", "::1", "--forwarded-header", "x-real-ip"), "one of x-forwarded-for, forwarded\n")])
def test_proxies_that_cannot_be(arguments, says, gemmd):
    assert says in refused(gemmd, *arguments)

"""A daemon behind a reverse proxy."""

import http.client
import http.server
import subprocess
import threading
from urllib.parse import urljoin

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S
from wire import exchange, request

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


@pytest.mark.parametrize("path", ["gemmd", "/gemmd/", "/", "//gemmd", "/a//b", "/a/../b", "/a?b", "/a b", "/a%2fb",
                                  "/a\"b", "/" + "x" * 128])
def test_paths_that_cannot_be(path, gemmd):
    assert refused(gemmd, "--base-path", path).startswith(f"gemmd: --base-path of '{path[:60]}' is not a path such as")


def test_a_location_without_a_base_path(start):
    answer = exchange(start().address, request("PUT", "/tensors/one?dtype=f32&shape=2,2", [("Content-Length", 16)],
                                               BODY[:16]))
    assert answer.headers["location"] == "/tensors/one"

"""What the configuration of deploy/haproxy does with single requests."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import threading

import pytest
import requests

from conftest import need, run
from fleet import CONFIGURATION, HAProxy, Member

from certificates import Authority
from daemon import PATIENCE_S, Daemon
from patience import wait_until
from reserved_port import ReservedPort
from wire import Wire, request

ARGUMENTS = ("--pinned-bytes", "256M", "--device-bytes", "256M", "--tensor-bytes", "64M",
             "--max-jobs", "4")
OCTETS = ("Content-Type", "application/octet-stream")
ONE, THREE, NINE = b"\0\0\x80\x3f", b"\0\0\x40\x40", b"\0\0\x10\x41"  # 1, 3 and 9 in f32


@pytest.fixture(scope="module")
def members(request):
    need("haproxy")
    with contextlib.ExitStack() as stack:
        members = {}
        for number in (1, 2, 3):
            members[number] = Member(request.config.getoption("--gemmd"), ARGUMENTS)
            stack.callback(members[number].port.close)
            stack.callback(members[number].stop)
        yield members


@pytest.fixture(scope="module")
def proxy(members, tmp_path_factory):
    proxy = HAProxy(tmp_path_factory.mktemp("haproxy"),
                    {number: member.address for number, member in members.items()})
    yield proxy
    proxy.stop()


def test_the_file_is_valid_as_it_is():
    need("haproxy")
    run("haproxy", "-c", "-dW", "-f", CONFIGURATION)  # -dW: a warning is an error


def counts(proxy, backend):
    return {number: int(proxy.show()[backend, f"gemmd{number}"]["stot"])
            for number in proxy.servers}


def ask(proxy, method, target, data=None, **headers):
    """Sends a request on a connection of its own while no other is in flight. As long as HAProxy counts the request
    before, the bounded load may send this one elsewhere, and a repeat prefers other daemons to the one that answers."""
    wait_until(lambda: sum(map(proxy.in_flight, proxy.servers)) == 0, "the requests before to end")
    return requests.request(method, proxy.url + target, data=data, headers=headers, timeout=PATIENCE_S)


def names_with_operand(name):
    """Requests that use the resident tensor `name` of one element, which is 3, and give 9."""
    return [
        ("POST", f"/gemm?m=1&n=1&k=1&b={name}", THREE),
        ("POST", f"/gemm?m=1&n=1&k=1&a={name}", THREE),
        ("POST", f"/v2/models/linear.{name}/infer", None),
        ("POST", f"/v2/models/linear.{name}/versions/1/infer", None),
    ]


def test_requests_go_where_their_tensor_is(proxy):
    """Every kind of request that names a tensor, on connections of its own."""
    inference = json.dumps({"inputs": [{"name": "X", "shape": [1, 1], "datatype": "FP32",
                                        "data": [3]}]}).encode()
    for i in range(12):
        name = f"one.{i}"
        put = ask(proxy, "PUT", f"/tensors/{name}?shape=1,1", THREE)
        assert put.status_code == 201, put.text
        assert ask(proxy, "GET", f"/tensors/{name}").content == THREE
        for method, target, body in names_with_operand(name):
            answer = ask(proxy, method, target, body or inference)
            assert answer.status_code == 200, (target, answer.text)
            if body is None:
                assert answer.json()["outputs"][0]["data"] == [9]
            else:
                assert answer.content == NINE
        assert ask(proxy, "DELETE", f"/tensors/{name}").status_code == 204
    assert all(count > 0 for count in counts(proxy, "gemmd_tensors").values())


def test_operations_go_where_their_tensor_is(proxy):
    for i in range(12):
        for name in (f"image.{i}--x", f"image.{i}--w"):
            put = ask(proxy, "PUT", f"/tensors/{name}?shape=1,1,1,1&contiguous=1", THREE)
            assert put.status_code == 201, put.text
        for model in (f"conv.image.{i}--w", f"conv.image.{i}--w/versions/1"):
            answer = ask(proxy, "POST", f"/v2/models/{model}/infer", json.dumps({"inputs": [
                {"name": "X", "shape": [1, 1, 1, 1], "datatype": "FP32", "data": [3]}]}).encode())
            assert answer.status_code == 200, (model, answer.text)
            assert answer.json()["outputs"][0]["data"] == [9]
        sizes = "channels=1&height=1&width=1&filters=1&filter_h=1&filter_w=1"
        for query, body, expected in ((f"/conv2d?{sizes}&w=image.{i}--w", THREE, NINE),
                                      (f"/conv2d?{sizes}&x=image.{i}--x", THREE, NINE),
                                      (f"/conv2d?w=image.{i}--w&x=image.{i}--x", b"", NINE),
                                      (f"/reduce?x=image.{i}--x", b"", THREE),
                                      (f"/softmax?x=image.{i}--x", b"", ONE)):
            answer = ask(proxy, "POST", query, body)
            assert (answer.status_code, answer.content) == (200, expected), (query, answer.text)


def test_a_result_that_is_kept_is_found(proxy):
    for i in range(12):
        for query, body, expected in (("/softmax?shape=1", THREE, ONE), ("/reduce?shape=1", THREE, THREE)):
            kept = ask(proxy, "POST", f"{query}&store=kept.of.{i}", body)
            assert kept.status_code == 201, kept.text
            assert ask(proxy, "GET", f"/tensors/kept.of.{i}").content == expected
            ask(proxy, "DELETE", f"/tensors/kept.of.{i}")
        kept = ask(proxy, "POST", f"/gemm?m=1&n=1&k=1&store=kept.{i}", THREE + THREE)
        assert kept.status_code == 201, kept.text
        assert ask(proxy, "GET", f"/tensors/kept.{i}").content == NINE
        ask(proxy, "DELETE", f"/tensors/kept.{i}")


def test_names_of_one_group_are_on_one_daemon(proxy):
    """Two resident operands of a request, whose names differ only after two hyphens."""
    for i in range(12):
        for part in ("left", "right"):
            put = ask(proxy, "PUT", f"/tensors/group.{i}--{part}?shape=1,1", THREE)
            assert put.status_code == 201, put.text
        product = ask(proxy, "POST", f"/gemm?a=group.{i}--left&b=group.{i}--right", b"")
        assert (product.status_code, product.content) == (200, NINE)
        values = b"\0\0\0\0" * 4
        for part in "kv":
            ask(proxy, "PUT", f"/tensors/cache.{i}--{part}?shape=1,1,1,4", values)
        attention = ask(proxy, "POST", f"/attention?heads=1&sq=1&d=4&dtype=f32&k=cache.{i}--k&v=cache.{i}--v",
                        values)
        assert (attention.status_code, attention.content) == (200, values)


def test_requests_go_where_their_sequence_is(proxy):
    """A fork lies on the daemon of its origin, so that both have names of one group."""
    values = b"\0\0\0\0" * 4
    for i in range(12):
        for name, query in ((f"chat.{i}--first", "kv_heads=1&d=4&dtype=f32"),
                            (f"chat.{i}--other", f"fork=chat.{i}--first")):
            put = ask(proxy, "PUT", f"/sequences/{name}?{query}")
            assert put.status_code == 201, put.text
            answer = ask(proxy, "POST", f"/attention?heads=1&sq=1&sequence={name}&append=1&position=0", values * 3)
            assert (answer.status_code, answer.content) == (200, values), answer.text
            assert ask(proxy, "POST", f"/sequences/{name}/append?position=1", values * 2).json()["length"] == 2
            assert ask(proxy, "GET", f"/sequences/{name}/kv").content == values * 4
        for name in (f"chat.{i}--first", f"chat.{i}--other"):
            assert ask(proxy, "DELETE", f"/sequences/{name}").status_code == 204


class NameServer:
    """Answers each question for an address of version 4 with `addresses`, and others with nothing, as the DNS of a
    cluster does for the name of the pods."""

    def __init__(self, addresses):
        self.addresses = list(addresses)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            question, peer = self.socket.recvfrom(4096)
            if not question:
                return
            end = question.index(b"\0", 12) + 5
            addresses = self.addresses if question[end - 4:end - 2] == b"\0\1" else []
            records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(address) for address in addresses)
            self.socket.sendto(question[:2] + b"\x85\x80\0\1" + len(addresses).to_bytes(2) + b"\0\0\0\0"
                               + question[12:end] + records, peer)

    def close(self):
        self.socket.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()


def test_a_name_has_the_addresses_of_all_daemons(request, tmp_path):
    """As in a cluster, where pods come and go: GEMMD_PODS in place of the lines of the servers."""
    need("haproxy")
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(ReservedPort()).number
        addresses = [f"127.0.0.{last}" for last in (2, 3, 4)]
        for address in addresses:
            daemon = Daemon(request.config.getoption("--gemmd"), "--backend", "cpu", *ARGUMENTS,
                            listen=(f"{address}:{port}",))
            stack.callback(daemon.stop)
            daemon.wait_until_listening()
        names = NameServer(addresses[:2])
        stack.callback(names.close)

        def edit(text):
            assert text.count("    parse-resolv-conf\n") == text.count("    hold obsolete 30s\n") == 1
            return text.replace("    parse-resolv-conf\n", f"    nameserver test {names.place}\n").replace(
                "    hold obsolete 30s\n", "    hold obsolete 1s\n")

        proxy = HAProxy(tmp_path, dict.fromkeys((1, 2, 3)), edit, {"GEMMD_PODS": f"gemmd.test:{port}"})
        stack.callback(proxy.stop)
        proxy.wait_for_status(1, "UP")
        proxy.wait_for_status(2, "UP")
        proxy.wait_for_status(3, "MAINT")
        found = {}
        for name in map("pod.{}".format, range(24)):
            assert ask(proxy, "PUT", f"/tensors/{name}?shape=1,1", THREE).status_code == 201
            assert ask(proxy, "GET", f"/tensors/{name}").content == THREE
            found[name] = [address for address in addresses if requests.get(
                f"http://{address}:{port}/tensors/{name}", timeout=PATIENCE_S).status_code == 200]
        assert {tuple(places) for places in found.values()} == {("127.0.0.2",), ("127.0.0.3",)}, found

        names.addresses = addresses
        proxy.wait_for_status(3, "UP")
        answers = {name: ask(proxy, "GET", f"/tensors/{name}").status_code for name in found}
        assert set(answers.values()) == {200, 404}, "some of the tensors are for the new daemon, and the others stay"
        names.addresses = addresses[:2]
        proxy.wait_for_status(3, "MAINT")
        answers = {name: ask(proxy, "GET", f"/tensors/{name}").status_code for name in found}
        assert set(answers.values()) == {200}
        assert requests.get(f"http://127.0.0.1:{proxy.statistics}/livez", timeout=PATIENCE_S).status_code == 200


def test_requests_without_tensors_are_spread(proxy):
    before = counts(proxy, "gemmd")
    for _ in range(12):
        answer = requests.post(f"{proxy.url}/gemm?m=1&n=1&k=1", THREE + THREE, timeout=PATIENCE_S)
        assert answer.content == NINE
    after = counts(proxy, "gemmd")
    assert sum(after.values()) - sum(before.values()) >= 12
    assert all(after[number] > before[number] for number in after)


def test_jobs_are_found_and_a_refusal_is_passed_on(proxy):
    """Each of the three daemons takes four jobs. 429 is not tried on another daemon, so that some
    jobs may be refused before all twelve places are taken."""
    assert ask(proxy, "PUT", "/tensors/for-jobs?shape=1,1", THREE).status_code == 201
    locations, refused = [], None
    for i in range(13):
        target = "/gemm?m=1&b=for-jobs" if i == 0 else "/gemm?m=1&n=1&k=1"
        answer = ask(proxy, "POST", target, THREE if i == 0 else THREE + THREE, Prefer="respond-async")
        if answer.status_code == 429:
            refused = answer
        else:
            assert answer.status_code == 202, answer.text
            locations.append(answer.headers["Location"])
    assert int(refused.headers["Retry-After"]) >= 1
    assert refused.json()["type"] == "urn:gemmd:error:queue-full"

    def fetch_all():
        for location in locations:
            result = requests.get(f"{proxy.url}{location}/result?wait_ms=60000", timeout=PATIENCE_S)
            assert (result.status_code, result.content) == (200, NINE)

    fetch_all()
    # A worker of HAProxy tells the next one its table if it has run for five seconds.
    wait_until(lambda: int(re.search(r"^Uptime_sec: (\d+)", proxy.ask("show info"), re.M)[1]) > 6,
               "the worker's age")
    proxy.reload()
    wait_until(lambda: f"used:{len(locations)}" in proxy.ask("show table gemmd"),
               "the old worker to tell the new one where the jobs are")
    fetch_all()
    for location in locations:
        assert requests.delete(proxy.url + location, timeout=PATIENCE_S).status_code == 200
    ask(proxy, "DELETE", "/tensors/for-jobs")


def test_a_large_body_waits_for_the_daemon(proxy):
    address = ("127.0.0.1", proxy.port)
    expects = ("Expect", "100-continue")
    size = 4 * 2 * 512 * 512
    with Wire(address) as wire:
        wire.send(request("POST", "/gemm?m=512&n=512&k=512",
                          [OCTETS, ("Content-Length", size), expects]))
        assert wire.receive().status == 100
        wire.send(bytes(size))
        answer = wire.receive()
        assert (answer.status, answer.body) == (200, bytes(size // 2))
    with Wire(address) as wire:  # refused without its body
        wire.send(request("POST", "/gemm?m=512&n=512&k=0",
                          [OCTETS, ("Content-Length", size), expects]))
        assert wire.receive().status == 400


def test_a_client_that_disconnects_ends_its_request(proxy, members):
    """The product takes minutes."""
    length = 2 * 2 * 4096 * 4096
    with Wire(("127.0.0.1", proxy.port)) as wire:
        wire.send(request("POST", "/gemm?m=4096&n=4096&k=4096&dtype=bf16&kernel=naive",
                          [OCTETS, ("Content-Length", length)], bytes(length)))
        wait_until(lambda: running(members), "the product to run")
    wait_until(lambda: not running(members), "the product to end")


def running(members):
    total = 0
    for member in members.values():
        text = requests.get(f"http://{member.address}/metrics", timeout=PATIENCE_S).text
        total += sum(float(line.split()[-1]) for line in text.splitlines()
                     if line.startswith("gemmd_requests_running"))
    return total


def test_shared_memory_is_not_registered_for_the_proxy(proxy):
    answer = requests.post(f"{proxy.url}/v2/systemsharedmemory/region/x/register",
                           json={"key": "/x", "byte_size": 4}, timeout=PATIENCE_S)
    assert answer.status_code == 403
    assert requests.get(f"{proxy.url}/v2/systemsharedmemory/status",
                        timeout=PATIENCE_S).status_code in (200, 501)


def test_one_id_in_both_logs(proxy, members):
    answer = requests.get(f"{proxy.url}/info", timeout=PATIENCE_S)
    given = answer.headers["X-Request-Id"]
    wait_until(lambda: given in proxy.log_text(), "HAProxy's line")
    wait_until(lambda: any(given in json.dumps(line) for member in members.values()
                           for line in list(member.daemon.lines)), "the daemon's line")
    own = requests.get(f"{proxy.url}/info", headers={"X-Request-Id": "of-the-client"},
                       timeout=PATIENCE_S)
    assert own.headers["X-Request-Id"] == "of-the-client"
    wait_until(lambda: "of-the-client" in proxy.log_text(), "HAProxy's line")


def test_statistics(proxy):
    text = requests.get(f"http://127.0.0.1:{proxy.statistics}/metrics", timeout=PATIENCE_S).text
    assert 'haproxy_server_status{proxy="gemmd_tensors",server="gemmd1",state="UP"} 1' in text
    page = requests.get(f"http://127.0.0.1:{proxy.statistics}/stats", timeout=PATIENCE_S)
    assert "gemmd_tensors" in page.text


def test_no_daemon_at_all(tmp_path):
    need("haproxy")
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(ReservedPort()) for _ in range(3)]
        proxy = HAProxy(tmp_path, {number: port.address for number, port in enumerate(ports, 1)})
        stack.callback(proxy.stop)
        answer = requests.post(f"{proxy.url}/gemm?m=1&n=1&k=1", THREE + THREE, timeout=PATIENCE_S)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == 503 and answer.json()["error"] == answer.json()["detail"]


@pytest.mark.parametrize("status", [503, None])
def test_repeats(status, members, tmp_path):
    """Two servers that refuse for the moment, or that close the connection without an answer."""
    with contextlib.ExitStack() as stack:
        broken = [Broken(status) for _ in range(2)]
        for server in broken:
            stack.callback(server.stop)
        servers = {1: broken[0].address, 2: broken[1].address, 3: members[1].address}
        proxy = HAProxy(tmp_path, servers)
        stack.callback(proxy.stop)
        for _ in range(6):
            answer = ask(proxy, "POST", "/gemm?m=1&n=1&k=1", THREE + THREE)
            assert (answer.status_code, answer.content) == (200, NINE)
            answer = ask(proxy, "POST", "/gemm?m=100&n=50&k=100", bytes(60000))
            assert (answer.status_code, answer.content) == (200, bytes(20000))
        assert sum(server.requests for server in broken) > 0
        # A request for a job is not sent again, nor is a body that is longer than the buffer.
        for server in broken:
            server.requests = 0

        def job():
            answer = requests.post(f"{proxy.url}/gemm?m=1&n=1&k=1", THREE + THREE,
                                   headers={"Prefer": "respond-async"}, timeout=PATIENCE_S)
            if answer.status_code == 202:
                requests.delete(proxy.url + answer.headers["Location"], timeout=PATIENCE_S)
            return answer.status_code

        assert statuses_of(job) == {202, status or 502}
        size = 4 * (200 * 100 + 100)
        assert statuses_of(lambda: requests.post(f"{proxy.url}/gemm?m=200&n=1&k=100", bytes(size),
                                                 timeout=PATIENCE_S).status_code) == {200, status or 502}


def test_deadlines_mark_no_daemon_down(tmp_path):
    """A client chooses the deadline whose end is answered with 504, so that 504 says nothing of a daemon's health."""
    need("haproxy")

    def edit(text):  # a health check that succeeds sets the count of errors back
        assert text.count(" check inter 1s ") == text.count(" error-limit 10 ") == 1
        return text.replace(" check inter 1s ", f" check inter {PATIENCE_S}s ")

    with contextlib.ExitStack() as stack:
        server = Broken(504)
        stack.callback(server.stop)
        proxy = HAProxy(tmp_path, {1: server.address}, edit)
        stack.callback(proxy.stop)
        for _ in range(12):
            answer = requests.post(f"{proxy.url}/gemm?m=1&n=1&k=1", THREE + THREE, timeout=PATIENCE_S)
            assert answer.status_code == 504, proxy.log_text()
        assert proxy.show()["gemmd", "gemmd1"]["status"] == "UP"


def statuses_of(send):
    """The statuses of six requests at least, and of further ones until there are two."""
    statuses = [send() for _ in range(6)]
    wait_until(lambda: len(set(statuses)) > 1 or statuses.append(send()), lambda: f"always {statuses[0]}")
    return set(statuses)


class Broken:
    """Answers health checks, and either refuses every other request or closes its connection."""

    def __init__(self, status):
        self.status, self.requests = status, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            line, length = lines.readline(), 0
            while (header := lines.readline()) not in (b"\r\n", b""):
                name, _, value = header.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if b"/readyz" in line:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            lines.read(length)
            self.requests += line != b""
            if self.status is not None:
                connection.sendall(f"HTTP/1.1 {self.status} Refused\r\nRetry-After: 1\r\n"
                                   "Content-Length: 0\r\nConnection: close\r\n\r\n".encode())

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def test_tls_on_both_sides(tmp_path, request):
    """The bind line that is commented out in the file, the words for servers, and gemmctl."""
    need("haproxy", "openssl")
    gemmd = request.config.getoption("--gemmd")
    authority = Authority(tmp_path)
    certificate, key = authority.server()
    both = tmp_path / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    key.chmod(0o600)

    def edit(text):
        line = "    #bind :8443 ssl crt /etc/haproxy/gemmd.pem"
        words = "ssl verify required ca-file /etc/haproxy/gemmd-ca.pem verifyhost NAME"
        assert line in text and words in text
        return text.replace(line, f"    bind {port.address} ssl crt {both}")

    daemon = Daemon(gemmd, "--backend", "cpu", *ARGUMENTS, "--tls-cert", certificate, "--tls-key", key)
    with contextlib.ExitStack() as stack:
        stack.callback(daemon.close)
        daemon.wait_until_listening()
        port = stack.enter_context(ReservedPort())
        proxy = HAProxy(tmp_path, {1: f"127.0.0.1:{daemon.address[1]} ssl verify required "
                                      f"ca-file {authority.certificate} verifyhost localhost"}, edit)
        stack.callback(proxy.stop)
        url = f"https://localhost:{port.number}"
        gemmctl = pathlib.Path(gemmd).parent / "gemmctl"
        run(gemmctl, "ready", "--url", url, "--ca-file", authority.certificate)
        answer = subprocess.run(["curl", "--silent", "--http2", "--cacert", authority.certificate,
                                 "--data-binary", "@-", f"{url}/gemm?m=1&n=1&k=1"],
                                input=THREE + THREE, capture_output=True, check=True)
        assert answer.stdout == NINE
        daemon.stop()

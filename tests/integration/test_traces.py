"""Traces: traceparent in logs, exemplars and spans, and the export of spans by OTLP/HTTP."""

import base64
import contextlib
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import time

import numpy as np
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from certificates import Authority
from daemon import PATIENCE_S
from test_jobs import eventually
from test_metrics import OPENMETRICS, scrape, served, total
from wire import Wire, exchange, request

BODY = np.arange(8, dtype=np.float32).tobytes()
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def product(*headers, target="/gemm?m=2&n=2&k=2"):
    return request("POST", target, [*headers, ("Content-Length", 32)], BODY)


def traced(flags="01", *headers, **more):
    return product(("traceparent", f"00-{TRACE}-{PARENT}-{flags}"), *headers, **more)


class Collector(http.server.BaseHTTPRequestHandler):
    """Answers as the server's list `answers` says, then with 200, and keeps the bodies."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            status, headers, delay = (self.server.answers.pop(0) if self.server.answers
                                      else (200, {}, 0))
            self.server.seen.append((time.monotonic(), self.path, status))
            if status == 200 and not delay:
                self.server.bodies.append((self.headers["Content-Type"], body))
                self.server.authorizations.append(self.headers["Authorization"])
        if delay:
            self.server.released.wait(PATIENCE_S)
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collecting(tls=None):
    """A collector that serves, by TLS if a (certificate, key) is given."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        # The handshake is made by the connection's own thread.
        server.socket = context.wrap_socket(server.socket, server_side=True,
                                            do_handshake_on_connect=False)
        server.handle_error = lambda *_: None  # a handshake that the client refuses
    server.daemon_threads = True
    server.lock, server.released = threading.Lock(), threading.Event()
    server.answers, server.seen, server.bodies, server.authorizations = [], [], [], []
    server.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def collector():
    with collecting() as server:
        yield server


def hex_to_base64(value):
    """OTLP's JSON has ids in hexadecimal, and protobuf's has bytes in base64."""
    if isinstance(value, list):
        return [hex_to_base64(one) for one in value]
    if isinstance(value, dict):
        return {key: base64.b64encode(bytes.fromhex(one)).decode()
                if key in ("traceId", "spanId", "parentSpanId") else hex_to_base64(one)
                for key, one in value.items()}
    return value


def spans_of(collector):
    """All spans that were received, as protobufs."""
    spans = []
    with collector.lock:
        bodies = list(collector.bodies)
    for content_type, body in bodies:
        assert content_type == "application/json"
        message = json_format.ParseDict(hex_to_base64(json.loads(body)), ExportTraceServiceRequest())
        for resource in message.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "gemmd"
            for scope in resource.scope_spans:
                spans += scope.spans
    return spans


def wait_for_spans(collector, enough):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        spans = spans_of(collector)
        if enough(spans):
            return spans
        assert time.monotonic() < deadline, f"only {[span.name for span in spans]}"
        time.sleep(0.05)


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def children_of(spans, span):
    return [one for one in spans if one.parent_span_id == span.span_id]


def line_of(daemon, request_id, message="request"):
    return daemon.wait_for(lambda lines: next(
        (line for line in lines if line.get("request_id") == request_id
         and line["message"] == message), None), f"the line of {request_id}")


def test_a_traced_request_is_a_span_with_its_stages(start, collector):
    daemon = start("--otlp-endpoint", collector.url)
    before = time.time_ns()
    answer = exchange(daemon.address, traced(
        "01", ("tracestate", "a=1"), ("tracestate", "b=2"), ("X-Request-Id", "traced")))
    assert answer.status == 200
    spans = wait_for_spans(collector, lambda spans: any(s.trace_id.hex() == TRACE for s in spans))
    spans = [span for span in spans if span.trace_id.hex() == TRACE]
    root = next(span for span in spans if span.parent_span_id.hex() == PARENT)
    assert (root.name, root.kind, root.trace_state) == ("POST gemm", root.SPAN_KIND_SERVER, "a=1,b=2")
    stated = attributes(root)
    assert stated["http.request.method"] == "POST"
    assert stated["url.path"] == "/gemm", "without the query"
    assert stated["http.response.status_code"] == 200
    assert (stated["gemmd.m"], stated["gemmd.dtype"]) == (2, "f32")
    assert stated["gemmd.kernel"] == answer.headers["gemmd-kernel"]
    assert stated["gemmd.request_id"] == "traced"
    # The daemon compares the wall clock with the monotonic clock, to some microseconds.
    slack_ns = 1_000_000
    assert (before - slack_ns <= root.start_time_unix_nano <= root.end_time_unix_nano
            <= time.time_ns() + slack_ns)
    children = sorted(children_of(spans, root), key=lambda span: span.start_time_unix_nano)
    # The CPU backend copies nothing in and nothing out.
    assert [child.name for child in children] == ["receive", "queue", "kernel", "send"]
    for child in children:
        assert root.start_time_unix_nano <= child.start_time_unix_nano
        assert child.start_time_unix_nano <= child.end_time_unix_nano <= root.end_time_unix_nano
    for one, next_one in zip(children, children[1:]):
        assert one.end_time_unix_nano <= next_one.start_time_unix_nano, "the stages follow each other"
    assert len({span.span_id for span in spans}) == len(spans)
    line = line_of(daemon, "traced")
    assert (line["trace_id"], line["span_id"]) == (TRACE, root.span_id.hex())
    assert collector.seen[0][1] == "/v1/traces"
    eventually(lambda: total(scrape(daemon), "gemmd_otlp_spans_sent_total") >= 5, "they are not counted")


def test_a_failed_request_and_a_job_are_spans(start, collector):
    daemon = start("--otlp-endpoint", f"{collector.url}/v1/traces", "--otlp-sample", "0")
    assert exchange(daemon.address, traced("01", ("Prefer", "respond-async"),
                                           ("X-Request-Id", "job"))).status == 202
    spans = wait_for_spans(collector, lambda spans: any(span.name == "job gemm" for span in spans)
                           and any(span.name == "POST gemm" for span in spans))
    root = next(span for span in spans if span.name == "POST gemm")
    job = next(span for span in spans if span.name == "job gemm")
    assert job.parent_span_id == root.span_id
    assert {child.name for child in children_of(spans, job)} == {"receive", "queue", "kernel"}
    assert attributes(job)["gemmd.job"] == line_of(daemon, "job", "job")["job"]
    assert collector.seen[0][1] == "/v1/traces"


@pytest.mark.parametrize("headers", [
    [("traceparent", f"00-{TRACE.upper()}-{PARENT}-01")], [("traceparent", f"ff-{TRACE}-{PARENT}-01")],
    [("traceparent", f"00-{'0' * 32}-{PARENT}-01")], [("traceparent", "nonsense")],
    [("traceparent", f"00-{TRACE}-{PARENT}-01")] * 2,
], ids=["capitals", "version ff", "zeros", "nonsense", "twice"])
def test_an_invalid_traceparent_is_ignored(headers, start):
    daemon = start()
    assert exchange(daemon.address, product(*headers, ("X-Request-Id", "invalid"))).status == 200
    assert "trace_id" not in line_of(daemon, "invalid")
    assert "trace_id" not in scrape(daemon, OPENMETRICS)


SECRET_QUERIES = [
    "?access_token={}", "?x=1&access_token={}&m=2", "?access%5Ftoken={}", "?ACCESS_TOKEN={}", "?m=2&api_key={}",
    "?api-key={}", "?key={}", "?sig={}", "?X-Amz-Signature={}", "?password={}", "?auth={}", "?x={}", "?kernel={}",
    "?m={}", "?{}", "?x=Bearer%20{}", "?x=Bearer+{}", "?client_secret={}&a=%", "?kernel=eyJ.{}.x", "?m=2&m=3&{}",
    "?{}=", "?{}=1", "?x[]={}", "?x={},", "?x=%22{}%22", "?x=1;y={}", "?m=%00{}", "?x=bob:{}", "?a+{}", "?{}={}",
    "?Authorization:%20Bearer%20{}", "?" + "&".join(["longer-than-8"] * 40) + "&{}"]


@pytest.mark.parametrize("path", ["/gemm", "/livez", "/nosuch", "/tensors/t", "/jobs", "/v2/models/gemm_fp32/infer"])
def test_no_secret_of_a_query_is_kept(path, start, collector, tmp_path):
    """Neither tokens nor values of parameters with the names of secrets are in the log, in spans, in the lists of
    requests or in answers, wherever in the query they are and however they are spelled."""
    # Base64 ends in equals signs, and a plus sign in a query is a space.
    secret, escaped = "the-tok/en+of.alice==", "the-tok%2Fen%2Bof.%61lice%3D="
    (tmp_path / "tokens").write_text(f"alice:{secret}\n")
    (tmp_path / "tokens").chmod(0o600)
    daemon = start("--otlp-endpoint", collector.url, "--token-file", str(tmp_path / "tokens"),
                   ready=False).wait_until_listening()
    token = ("Authorization", f"Bearer {secret}")
    answers = []
    for query in SECRET_QUERIES:
        for spelling in (secret, escaped):
            method = "POST" if path in ("/gemm", "/v2/models/gemm_fp32/infer") else "GET"
            data = request(method, path + query.replace("{}", spelling), [token, ("Content-Length", 0)])
            answers.append(exchange(daemon.address, data))
    long_one = "/gemm?" + "m=1&" * 55 + "token=" + secret  # which is cut in the log
    answers.append(exchange(daemon.address, request("POST", long_one, [token, ("Content-Length", 0)])))
    shown = exchange(daemon.address, request("GET", "/dashboard/requests", [token])).body.decode()
    last = exchange(daemon.address, request("GET", "/info?x=1", [token]))
    line_of(daemon, last.headers["x-request-id"])
    wait_for_spans(collector, lambda spans: len(spans) >= len(answers))
    daemon.stop()
    with collector.lock:
        exported = b"".join(body for _, body in collector.bodies)
    said = f"{daemon.lines}{daemon.stderr()}".replace(str(tmp_path), "")
    for kept in (said, shown, exported.decode("latin-1"), "".join(str(answer) for answer in answers)):
        assert not re.findall(".{60}of.alice|.{60}of.%61lice", kept)
    assert f"{path}?access_token=***" in said and "?x=1" in said


def test_only_sampled_requests_are_exported(start, collector):
    daemon = start("--otlp-endpoint", collector.url, "--otlp-sample", "0")
    assert exchange(daemon.address, traced("00", ("X-Request-Id", "unsampled"))).status == 200
    assert exchange(daemon.address, product(("X-Request-Id", "untraced"))).status == 200
    line = line_of(daemon, "unsampled")
    assert (line["trace_id"], line["span_id"]) == (TRACE, PARENT), "the client's span"
    assert "trace_id" not in line_of(daemon, "untraced")
    daemon.stop()
    assert spans_of(collector) == []


def test_without_a_traceparent_new_traces_begin(start, collector):
    daemon = start("--otlp-endpoint", collector.url)
    for _ in range(2):
        assert exchange(daemon.address, product()).status == 200
    def roots_of(spans):
        return [span for span in spans if span.name == "POST gemm"]

    roots = roots_of(wait_for_spans(collector, lambda spans: len(roots_of(spans)) == 2))
    assert roots[0].trace_id != roots[1].trace_id
    assert all(not root.parent_span_id for root in roots)


def test_a_collector_that_is_busy_is_asked_again_when_it_says(start, collector):
    collector.answers = [(503, {"Retry-After": "2"}, 0)]
    daemon = start("--otlp-endpoint", collector.url, "--otlp-sample", "0")
    assert exchange(daemon.address, traced()).status == 200
    spans = wait_for_spans(collector, len)
    assert any(span.trace_id.hex() == TRACE for span in spans), "the same spans are sent again"
    (refused, _, _), (taken, _, _) = collector.seen[:2]
    assert taken - refused >= 1.9
    assert any("it answers 503" in text for text in daemon.messages())
    daemon.wait_for(lambda lines: any("takes spans again" in line["message"] for line in lines),
                    "the log says that it works again")


def test_spans_that_a_collector_refuses_are_dropped(start, collector):
    collector.answers = [(400, {}, 0)]
    daemon = start("--otlp-endpoint", collector.url, "--otlp-sample", "0")
    assert exchange(daemon.address, traced()).status == 200
    eventually(lambda: total(scrape(daemon), "gemmd_otlp_spans_dropped_total") >= 5, "they are not counted")
    assert len(collector.seen) == 1


def test_a_collector_that_is_down_or_hangs_delays_no_request(start, collector):
    collector.answers = [(200, {}, 1)]
    for url in ("http://127.0.0.1:1", collector.url):
        daemon = start("--otlp-endpoint", url, "--no-access-log")
        requests = product() * 50
        for _ in range(60):  # more than the queue takes
            answers = exchange_all(daemon.address, requests, 50)
            assert answers == 50
        deadline = time.monotonic() + PATIENCE_S
        while total(scrape(daemon), "gemmd_otlp_spans_dropped_total") == 0:
            assert time.monotonic() < deadline, "spans over the limit of the queue are not counted"
            time.sleep(0.05)
        daemon.stop()


def exchange_all(address, data, count):
    """Sends pipelined requests on one connection; the number of answers with a result."""
    with Wire(address) as wire:
        wire.send(data)
        return sum(wire.receive().status == 200 for _ in range(count))


def test_a_wrong_endpoint_ends_the_start(gemmd):
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", "--otlp-endpoint", "collector:4318"],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 2
    assert "--otlp-endpoint" in result.stderr and "http://" in result.stderr


def test_headers_for_the_collector(start, collector, tmp_path):
    file = tmp_path / "headers"
    file.write_text("# of the collector\n\nAuthorization: Bearer very-secret\r\nX-Scope-OrgID: a\n")
    file.chmod(0o600)
    daemon = start("--otlp-endpoint", collector.url, "--otlp-header-file", file)
    assert exchange(daemon.address, traced()).status == 200
    wait_for_spans(collector, len)
    assert set(collector.authorizations) == {"Bearer very-secret"}
    info = exchange(daemon.address, request("GET", "/info")).body
    assert b"otlp" not in info and b"very-secret" not in info


@pytest.mark.parametrize("text, mode, says", [
    ("Authorization: secret\n", 0o644, "can be read by every user"),
    ("Authorization: secret\n", 0o602, "can be written by every user"),
    ("Authorization secret\n", 0o600, "line 1 of "),
    ("A: 1\nAuthorization: secret\x01\n", 0o600, "line 2 of "),
    ("A: " + "secret" * 2000 + "\n", 0o600, "line 1 of "),
    (None, 0o600, "cannot be read"),
])
def test_a_wrong_header_file_ends_the_start(text, mode, says, gemmd, tmp_path):
    """The message names the file and the line, not the secret."""
    file = tmp_path / "headers"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", "--backend", "cpu",
                             "--otlp-endpoint", "http://127.0.0.1:9", "--otlp-header-file", file],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1 and says in result.stderr and str(file) in result.stderr
    assert "secret" not in result.stderr + result.stdout


def test_a_collector_of_a_private_authority(start, tmp_path):
    """Its certificate is verified with --otlp-ca-file, and refused with any other authorities."""
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    with collecting(authority.server()) as collector:
        daemon = start("--otlp-endpoint", collector.url, "--otlp-ca-file", authority.certificate)
        assert exchange(daemon.address, traced()).status == 200
        wait_for_spans(collector, len)
        daemon.stop()
        taken = len(collector.bodies)
        for more in ((), ("--otlp-ca-file", other.certificate)):
            daemon = start("--otlp-endpoint", collector.url, *more)
            assert exchange(daemon.address, traced()).status == 200
            daemon.wait_for(lambda lines: [line for line in lines if "does not take spans"
                                           in line["message"]], "a warning")
            daemon.stop()
        assert len(collector.bodies) == taken


def test_a_replaced_authority_needs_no_restart(start, tmp_path):
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    file = tmp_path / "authorities.pem"
    file.write_bytes(first.certificate.read_bytes())
    with collecting(second.server()) as collector:
        daemon = start("--otlp-endpoint", collector.url, "--otlp-ca-file", file)
        assert exchange(daemon.address, traced()).status == 200
        daemon.wait_for(lambda lines: [line for line in lines if "does not take spans"
                                       in line["message"]], "a warning")
        file.write_bytes(second.certificate.read_bytes())
        wait_for_spans(collector, len)


def test_a_fifo_of_authorities_holds_up_nothing(start, tmp_path):
    """libcurl reads the file for each connection, and would wait until something is written to the FIFO."""
    authority = Authority(tmp_path)
    with collecting(authority.server()) as collector:
        daemon = start("--otlp-endpoint", collector.url, "--otlp-ca-file", authority.certificate)
        try:
            authority.certificate.unlink()
            os.mkfifo(authority.certificate)
            assert exchange(daemon.address, traced()).status == 200
            daemon.wait_for(lambda lines: [line for line in lines if "is not a regular file (--otlp-ca-file)"
                                           in line["message"]], "a warning")
            daemon.stop()
        finally:
            daemon.process.kill()  # the collector waits for its connection to end


@pytest.mark.parametrize("text, says", [(None, "cannot be read"), (b"", "no certificate in PEM"),
                                        (b"-----BEGIN CERTIFICATE-----\nMA==\n"
                                         b"-----END CERTIFICATE-----\n", "no certificate in PEM")])
def test_a_wrong_authority_file_ends_the_start(text, says, gemmd, tmp_path):
    file = tmp_path / "authorities.pem"
    if text is not None:
        file.write_bytes(text)
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", "--backend", "cpu",
                             "--otlp-endpoint", "https://127.0.0.1:9", "--otlp-ca-file", file],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1, result.stderr
    assert all(one in result.stderr for one in (says, str(file), "--otlp-ca-file")), result.stderr


@pytest.mark.parametrize("arguments, says", [
    (("--otlp-endpoint", "http://user:word@127.0.0.1:4318"), "--otlp-header-file"),
    (("--otlp-header-file", "/nowhere"), "--otlp-endpoint"),
    (("--otlp-ca-file", "/nowhere"), "--otlp-endpoint"),
    (("--otlp-ca-file", "/nowhere", "--otlp-endpoint", "http://127.0.0.1:4318"), "https://"),
])
def test_options_of_the_collector_that_are_refused(arguments, says, gemmd):
    result = subprocess.run([gemmd, "--listen", "127.0.0.1:0", *arguments], capture_output=True,
                            text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 2 and says in result.stderr and "word@" not in result.stderr


def test_exemplars_are_of_sampled_requests_and_in_openmetrics_only(start, tmp_path):
    daemon = start()
    for flags in ("00", "01"):
        data = traced(flags).replace(TRACE.encode(), TRACE[:-2].encode() + flags.encode())
        assert served(daemon, data).status == 200
    text = scrape(daemon, OPENMETRICS)
    found = re.findall(r'gemmd_request_duration_seconds_bucket\{op="gemm",le="([^"]+)"\} \d+ '
                       r'# \{trace_id="(\w+)",span_id="(\w+)"\} ([\d.]+) [\d.]+\n', text)
    assert [(trace, span) for _, trace, span, _ in found] == [(TRACE[:-2] + "01", PARENT)]
    assert float(found[0][3]) <= float(found[0][0]), "an exemplar lies in its bucket"
    assert "trace_id" not in scrape(daemon)


def test_stages_have_exemplars(start):
    daemon = start()
    assert served(daemon, traced()).status == 200
    text = scrape(daemon, OPENMETRICS)
    found = re.findall(r'gemmd_stage_duration_seconds_bucket\{stage="(\w+)",le="([^"]+)"\} ([1-9]\d*) '
                       r'# \{trace_id="(\w+)",span_id="\w+"\} ([\d.]+) [\d.]+\n', text)
    assert {"receive", "queue", "kernel", "send"} <= {stage for stage, *_ in found}
    for _, bound, _, trace, seconds in found:
        assert trace == TRACE and float(seconds) <= float(bound)
    assert "trace_id" not in scrape(daemon)


@pytest.mark.parametrize("given", ["option", "environment"])
def test_gemmctl_sends_the_traceparent(given, start, gemmctl, tmp_path):
    daemon = start()
    a = tmp_path / "a.npy"
    np.save(a, np.ones((2, 2), np.float32))
    value = f"00-{TRACE}-{PARENT}-01"
    option = ("--traceparent", value) if given == "option" else ()
    variable = {"TRACEPARENT": value} if given == "environment" else {}
    for words in (("gemm", a, a, "-o", tmp_path / "c.npy"), ("tensor", "put", "w", a)):
        run_gemmctl(gemmctl, daemon, *words, *option, environment=variable, code=0)
    lines = daemon.wait_for(lambda lines: [line for line in lines if line.get("trace_id") == TRACE]
                            if sum(line.get("trace_id") == TRACE for line in lines) == 2 else None,
                            "two lines of the trace")
    assert {(line["method"], line["span_id"]) for line in lines} == {("POST", PARENT),
                                                                     ("PUT", PARENT)}


def test_gemmctl_and_an_invalid_traceparent(start, gemmctl):
    """The option is refused; the environment, which others write, is ignored."""
    daemon = start()
    assert "00-TRACE-SPAN-FLAGS" in run_gemmctl(gemmctl, daemon, "info", "--traceparent", "00-1-2-3",
                                                code=2)
    run_gemmctl(gemmctl, daemon, "info", environment={"TRACEPARENT": "00-1-2-3"}, code=0)


def run_gemmctl(gemmctl, daemon, *words, code, environment=()):
    result = subprocess.run([gemmctl, *words, "--url", daemon.url], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=False,
                            env={**os.environ, **dict(environment)})
    assert result.returncode == code, result.stderr
    return result.stderr


def test_exemplars_are_for_those_who_see_all_tenants(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:alice-token\nbob:bob-token\n")
    tokens.chmod(0o600)
    daemon = start("--token-file", tokens, "--metrics-tenant", "bob", ready=False)
    daemon.wait_until_listening()
    assert served(daemon, traced("01", ("Authorization", "Bearer alice-token"))).status == 200
    assert served(daemon, traced("01", ("Authorization", "Bearer alice-token"),
                                 target="/gemm?m=3&n=2&k=2")).status == 400

    def seen_by(token):
        answer = daemon.session.get(f"{daemon.url}/metrics", headers={
            "Accept": OPENMETRICS, "Authorization": f"Bearer {token}"})
        return answer.text

    assert "trace_id" in seen_by("bob-token")
    assert "trace_id" not in seen_by("alice-token")
    errors = 'gemmd_tenant_errors_total{tenant="alice",reason='
    assert errors in seen_by("alice-token") and errors in seen_by("bob-token")
    assert served(daemon, traced("01", ("Authorization", "Bearer bob-token"),
                                 target="/gemm?m=3&n=2&k=2")).status == 400
    assert 'gemmd_tenant_errors_total{tenant="bob"' in seen_by("bob-token")
    assert 'tenant="bob"' not in seen_by("alice-token")

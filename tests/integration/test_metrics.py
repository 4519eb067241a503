"""GET /metrics: what promtool thinks of it, and what a real Prometheus makes of it."""

import gzip
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request

import numpy as np
import pytest

from daemon import PATIENCE_S
from wire import Wire, exchange, request

BODY = np.arange(8, dtype=np.float32).tobytes()
GOOD = request("POST", "/gemm?m=2&n=2&k=2", [("Content-Length", 32)], BODY)
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def scrape(daemon, accept=None):
    answer = daemon.session.get(f"{daemon.url}/metrics", headers={"Accept": accept or "*/*"})
    assert answer.status_code == 200
    return answer.text


def values(text):
    """name{labels} -> value"""
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in text.splitlines() if line and not line.startswith("#")}


def total(text, name, **labels):
    """The sum over all series of that name with these labels."""
    result = 0.0
    for series, value in values(text).items():
        if re.match(rf"{name}(\{{|$)", series) and all(
                f'{label}="{wanted}"' in series for label, wanted in labels.items()):
            result += value
    return result


def promtool(text):
    return subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                          capture_output=True, check=False, timeout=PATIENCE_S)


def test_promtool_has_nothing_to_say(start):
    daemon = start()
    for when in ("at the start", "after requests"):
        result = promtool(scrape(daemon))
        assert (result.returncode, result.stdout + result.stderr) == (0, ""), when
        exchange(daemon.address, GOOD)
        exchange(daemon.address, request("GET", "/nosuch"))


def test_a_series_that_is_never_used_is_not_made(start):
    daemon = start()
    before = values(scrape(daemon))
    assert not any(name.startswith(("gemmd_requests_total{op=\"gemm\"", "gemmd_kernel_"))
                   for name in before)
    assert exchange(daemon.address, GOOD).status == 200
    daemon.session.get(f"{daemon.url}/livez")
    made = {name for name in counted(daemon, GEMM_OK) if name.startswith("gemmd_requests_total")}
    assert {name for name in made if 'op="gemm"' in name} == {GEMM_OK}


GEMM_OK = 'gemmd_requests_total{op="gemm",dtype="f32",code="200"}'


def counted(daemon, series):
    """The values of a scrape in which a request is counted, which its client may see first."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        now = values(scrape(daemon))
        if series in now:
            return now
        assert time.monotonic() < deadline, f"{series} is not counted"
        time.sleep(0.02)


def served(daemon, data):
    """The answer to a request that is counted by now: its connection has gone on to another request."""
    with Wire(daemon.address) as wire:
        wire.send(data)
        answer = wire.receive()
        wire.send(request("GET", "/livez"))
        assert wire.receive().status == 200
    return answer


def test_mixed_use_makes_at_most_500_series(start):
    """Every operation and type, and errors of many kinds."""
    daemon = start("--tensor-bytes", "1M")
    for dtype, size in (("f64", 8), ("f32", 4), ("f16", 2), ("bf16", 2), ("f8_e4m3", 1), ("i8", 1)):
        body = bytes(8 * size)
        exchange(daemon.address, request("POST", f"/gemm?m=2&n=2&k=2&dtype={dtype}",
                                         [("Content-Length", len(body))], body))
        body = bytes(3 * 4 * 16 * size)
        exchange(daemon.address, request("POST", f"/attention?heads=1&sq=4&skv=4&d=16&dtype={dtype}",
                                         [("Content-Length", len(body))], body))
    infer = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [2, 2],
                                    "data": [1, 2, 3, 4]} for name in "AB"]})
    answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", data=infer)
    assert answer.status_code == 200, answer.text
    binary = [("fp64", 8), ("fp32", 4), ("fp16", 2), ("bf16", 2), ("fp8", 1), ("int8", 1)]
    for name, size in binary:
        kind = {"fp8": "UINT8"}.get(name, name.upper())
        head = json.dumps({"inputs": [{"name": one, "datatype": kind, "shape": [2, 2],
                                       "parameters": {"binary_data_size": 4 * size}}
                                      for one in "AB"]}).encode()
        for model in ("gemm", "attention"):
            daemon.session.post(f"{daemon.url}/v2/models/{model}_{name}/infer",
                                data=head + bytes(8 * size),
                                headers={"Inference-Header-Content-Length": str(len(head))})
    for coding, body in (("gzip", gzip.compress(bytes(32))), ("gzip", b"damaged"), ("br", b"x")):
        daemon.session.post(f"{daemon.url}/gemm?m=2&n=2&k=2", data=body,
                            headers={"Content-Encoding": coding})
    for kernel in (one["name"] for one in daemon.session.get(f"{daemon.url}/info").json()["kernels"]):
        for dtype, size in (("f64", 8), ("f32", 4), ("f16", 2), ("bf16", 2), ("i8", 1)):
            daemon.session.post(f"{daemon.url}/gemm?m=2&n=2&k=2&dtype={dtype}&kernel={kernel}",
                                data=bytes(8 * size))
    job = daemon.session.post(f"{daemon.url}/gemm?m=2&n=2&k=2", data=bytes(32),
                              headers={"Prefer": "respond-async"}).headers["Location"]
    daemon.session.get(f"{daemon.url}{job}/result?wait_ms=60000")
    daemon.session.delete(daemon.url + job)
    for method, path in (("GET", "/tensors"), ("GET", "/metrics"), ("GET", "/"), ("GET", "/readyz"),
                         ("POST", "/v2/repository/index"), ("GET", "/v2/models/stats"),
                         ("POST", "/v2/systemsharedmemory/region/r/register")):
        daemon.session.request(method, daemon.url + path)
    for target in ("/nosuch", "/tensors/none", "/jobs/none", "/info"):
        exchange(daemon.address, request("GET", target))
    daemon.session.put(f"{daemon.url}/tensors/t?dtype=f32&shape=2,2", data=bytes(16))
    for data in (GOOD.replace(b"m=2", b"m=0"), GOOD.replace(b"m=2", b"m=3"),
                 request("PUT", "/gemm", [("Content-Length", 0)]),
                 request("POST", "/gemm?m=99999999&n=99999999&k=99999999", [("Content-Length", 9)],
                         bytes(9))):
        exchange(daemon.address, data)
    series = counted(daemon, 'gemmd_requests_total{op="infer",dtype="f32",code="200"}')
    assert len(series) <= 500, len(series)
    assert promtool(scrape(daemon)).stdout == ""


def test_wrong_requests_take_no_series_of_good_ones(start):
    """Wrong requests of many kinds come first. Then every operation and type that succeeds has its series."""
    daemon = start()
    wrong = [(path, headers, body) for path in ("gemm?m=0&dtype=", "attention?heads=0&dtype=", "reduce?op=no&dtype=",
                                                "softmax?shape=0&dtype=", "conv2d?batch=0&dtype=")
             for headers, body in (({}, b""), ({"Content-Type": "text/plain"}, b"x"), ({"Accept": "text/plain"}, b"x"))]
    sent = 0
    for path, headers, body in wrong:
        for dtype in ("f32", "f16", "bf16"):
            assert daemon.session.post(f"{daemon.url}/{path}{dtype}", headers=headers, data=body).status_code >= 400
            sent += 1
        assert daemon.session.get(f"{daemon.url}/{path}").status_code == 405
        sent += 1
        scrape(daemon)  # which gives the kinds so far their series
    for target in ("tensors/none", "jobs/none", "nosuch", "v2/models/none"):
        assert daemon.session.get(f"{daemon.url}/{target}").status_code >= 400
        sent += 1
    scrape(daemon)
    assert served(daemon, GOOD).status == 200
    body = bytes(3 * 4 * 16 * 4)
    target = "/attention?heads=1&sq=4&skv=4&d=16&dtype=f32"
    assert served(daemon, request("POST", target, [("Content-Length", len(body))], body)).status == 200
    assert served(daemon, request("POST", "/softmax?shape=2,2", [("Content-Length", 16)], bytes(16))).status == 200
    target = "/reduce?op=sum&shape=2,2"
    assert served(daemon, request("POST", target, [("Content-Length", 16)], bytes(16))).status == 200
    for op in ("gemm", "attention", "softmax", "reduce"):
        counted(daemon, f'gemmd_requests_total{{op="{op}",dtype="f32",code="200"}}')
    text = scrape(daemon)
    assert 0 < total(text, "gemmd_requests_total", op="", code="4xx") < sent, "no kind was folded"
    wrongs = sum(value for name, value in values(text).items()
                 if name.startswith("gemmd_requests_total{") and 'code="4' in name)
    assert wrongs == sent
    assert promtool(text).stdout == ""


def test_work_is_counted_by_kernel_and_type(start):
    daemon = start()
    answer = exchange(daemon.address, GOOD)
    kernel = f'{{op="gemm",kernel="{answer.headers["gemmd-kernel"]}",dtype="f32"}}'
    now = counted(daemon, f"gemmd_kernel_works_total{kernel}")
    assert now[f"gemmd_kernel_works_total{kernel}"] == 1
    assert now[f"gemmd_kernel_flops_total{kernel}"] == 2 * 2 * 2 * 2
    assert now[f"gemmd_kernel_moved_bytes_total{kernel}"] == 3 * 2 * 2 * 4
    assert now[f"gemmd_kernel_busy_seconds_total{kernel}"] > 0
    assert now['gemmd_queue_wait_seconds_count{op="gemm"}'] == 1
    assert now["gemmd_connections_capacity"] >= now["gemmd_connections"] >= 1
    assert all(now[f'gemmd_device_peak_flops_per_second{{dtype="{dtype}"}}'] > 0
               for dtype in ("f64", "f32", "f16", "bf16", "f8_e4m3", "i8"))
    assert now["gemmd_device_peak_memory_bytes_per_second"] > 0


def test_buckets_have_no_gaps(start):
    daemon = start()
    assert served(daemon, GOOD).status == 200
    for series, most in (('stage_duration_seconds_bucket\\{stage="kernel"', 3.4),
                         ('queue_wait_seconds_bucket\\{op="gemm"', 3.4),
                         ('request_duration_seconds_bucket\\{op="gemm"', 2.5001)):
        bounds = [float(bound) for bound in re.findall(
            rf'gemmd_{series},le="([\d.]+)"\}}', scrape(daemon))]
        assert (bounds[0], bounds[-1]) == (1e-5, 60), series
        assert all(next_one / one <= most for one, next_one in zip(bounds, bounds[1:])), series


def test_a_scraper_that_never_reads_stops_nothing(start):
    """Scrapers whose answers are not taken: others are served, and the daemon ends."""
    daemon = start()
    stuck = []
    try:
        for _ in range(20):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            connection.connect(daemon.address)
            connection.sendall(request("GET", "/metrics") * 20)
            stuck.append(connection)
        for _ in range(10):
            assert served(daemon, GOOD).status == 200
        assert values(scrape(daemon))[GEMM_OK] == 10
    finally:
        for connection in stuck:
            connection.close()


def test_what_is_there(start):
    daemon = start()
    assert served(daemon, GOOD).status == 200
    text = scrape(daemon)
    present = {series.partition("{")[0] for series in values(text)}
    assert {"gemmd_requests_total", "gemmd_request_duration_seconds_bucket",
            "gemmd_stage_duration_seconds_bucket", "gemmd_request_bytes_total",
            "gemmd_response_bytes_total", "gemmd_requests_running", "gemmd_requests_waiting",
            "gemmd_queue_bytes", "gemmd_queue_capacity_bytes", "gemmd_build_info",
            "gemmd_ready", "process_open_fds", "process_resident_memory_bytes"} <= present
    assert any("batch" in name for name in present)
    assert any("device" in name and "bytes" in name for name in present)
    stages = {match for match in re.findall(r'stage="(\w+)"', text)}
    assert stages - {"h2d", "d2h"} == {"receive", "queue", "kernel", "send"}


def test_counters_count(start):
    daemon = start()
    before = scrape(daemon)
    for _ in range(7):
        assert served(daemon, GOOD).status == 200
    for _ in range(3):
        bad = served(daemon, GOOD.replace(b"m=2", b"m=0"))
        assert bad.status == 400

    def grown(name, **labels):
        return total(scrape(daemon), name, **labels) - total(before, name, **labels)

    assert grown("gemmd_requests_total", op="gemm") == 10
    assert grown("gemmd_requests_total", op="gemm", code="200", dtype="f32") == 7
    assert grown("gemmd_requests_total", op="gemm", code="400") == 3
    assert grown("gemmd_request_duration_seconds_count", op="gemm") == 10
    assert grown("gemmd_stage_duration_seconds_count", stage="kernel") == 7
    assert grown("gemmd_response_bytes_total") >= 7 * 16
    assert grown("gemmd_request_bytes_total") >= 7 * 32


def test_histograms_are_cumulative(start):
    daemon = start()
    served(daemon, GOOD)
    series = values(scrape(daemon))
    groups = {}
    for name, value in series.items():
        if "_bucket" in name:
            groups.setdefault(re.sub(r',?le="[^"]*"', "", name), []).append(value)
    assert groups
    for name, buckets in groups.items():
        assert buckets == sorted(buckets), name
        count = name.replace("_bucket", "_count").replace("{}", "")
        assert series[count] == buckets[-1], name


def test_openmetrics(start):
    daemon = start()
    exchange(daemon.address, GOOD)
    answer = daemon.session.get(f"{daemon.url}/metrics", headers={"Accept": OPENMETRICS})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    plain = daemon.session.get(f"{daemon.url}/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def started_prometheus(folder, settings):
    """The process, its port and its log. Another program may take the port before Prometheus listens there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        own = free_port()
        log = (folder / "log").open("w+")
        process = subprocess.Popen(
            ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)
        while process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{own}/-/ready", timeout=PATIENCE_S):
                    return process, own, log
            except OSError:
                assert time.monotonic() < deadline, "Prometheus does not start"
                time.sleep(0.05)
        said = (log.seek(0), log.read())[1]
        assert "address already in use" in said, said
        log.close()


@pytest.fixture
def prometheus(tmp_path, start):
    """A Prometheus server that scrapes a daemon; (query, daemon)."""
    assert shutil.which("prometheus"), "the Debian package prometheus is needed"
    daemon = start()
    host, port = daemon.address
    settings = tmp_path / "prometheus.yml"
    settings.write_text(f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gemmd
    static_configs: [{{targets: ['{host}:{port}']}}]
""")
    process, own, log = started_prometheus(tmp_path, settings)

    def query(expression):
        """The value of an instant query; None while there is none."""
        target = f"http://127.0.0.1:{own}/api/v1/query?query=" + urllib.request.quote(expression)
        with urllib.request.urlopen(target, timeout=PATIENCE_S) as answer:
            result = json.load(answer)["data"]["result"]
        return float(result[0]["value"][1]) if result else None

    yield query, daemon
    process.terminate()
    process.wait(PATIENCE_S)
    log.close()


def test_a_real_prometheus(prometheus):
    query, daemon = prometheus
    for _ in range(5):
        assert exchange(daemon.address, GOOD).status == 200
    median = ('histogram_quantile(0.5, sum by (le) '
              '(gemmd_request_duration_seconds_bucket{op="gemm"}))')
    # A scrape that is late leaves a gap in the series.
    for expression, is_right in (('sum(gemmd_requests_total{op="gemm"})', lambda value: value == 5),
                                 ("up", lambda value: value == 1), ("gemmd_ready", lambda value: value == 1),
                                 (median, lambda value: value is not None and value > 0)):
        deadline = time.monotonic() + PATIENCE_S
        while not is_right(found := query(expression)):
            assert time.monotonic() < deadline, f"{expression} is {found}"
            time.sleep(0.1)

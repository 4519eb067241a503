"""GET /metrics: what promtool thinks of it, and what a real Prometheus makes of it."""

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
from wire import exchange, request

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


def test_every_series_is_there_from_the_start(start):
    daemon = start()
    before = set(values(scrape(daemon)))
    for data in (GOOD, GOOD.replace(b"/gemm?m=2", b"/gemm?m=3"), request("GET", "/nosuch"),
                 request("PUT", "/gemm", [("Content-Length", 0)]), request("GET", "/info")):
        exchange(daemon.address, data)
    assert set(values(scrape(daemon))) == before


def test_what_is_there(start):
    text = scrape(start())
    present = {series.partition("{")[0] for series in values(text)}
    assert {"gemmd_requests_total", "gemmd_request_duration_seconds_bucket",
            "gemmd_stage_duration_seconds_bucket", "gemmd_request_bytes_total",
            "gemmd_response_bytes_total", "gemmd_requests_running", "gemmd_requests_waiting",
            "gemmd_queue_bytes", "gemmd_queue_capacity_bytes", "gemmd_build_info",
            "gemmd_ready", "process_open_fds", "process_resident_memory_bytes"} <= present
    assert any("batch" in name for name in present)
    assert any("device" in name and "bytes" in name for name in present)
    stages = {match for match in re.findall(r'stage="(\w+)"', text)}
    assert stages == {"receive", "queue", "h2d", "kernel", "d2h", "send"}


def test_counters_count(start):
    daemon = start()
    before = scrape(daemon)
    for _ in range(7):
        assert exchange(daemon.address, GOOD).status == 200
    for _ in range(3):
        bad = exchange(daemon.address, GOOD.replace(b"m=2", b"m=0"))
        assert bad.status == 400

    def grown(name, **labels):
        return total(scrape(daemon), name, **labels) - total(before, name, **labels)

    # A request is counted when its last byte has gone, which its client may see first.
    deadline = time.monotonic() + PATIENCE_S
    while grown("gemmd_requests_total", op="gemm") < 10 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert grown("gemmd_requests_total", op="gemm") == 10
    assert grown("gemmd_requests_total", op="gemm", code="200", dtype="f32") == 7
    assert grown("gemmd_requests_total", op="gemm", code="400") == 3
    assert grown("gemmd_request_duration_seconds_count", op="gemm") == 10
    assert grown("gemmd_stage_duration_seconds_count", stage="kernel") == 7
    assert grown("gemmd_response_bytes_total") >= 7 * 16
    assert grown("gemmd_request_bytes_total") >= 7 * 32


def test_histograms_are_cumulative(start):
    daemon = start()
    exchange(daemon.address, GOOD)
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


@pytest.fixture
def prometheus(tmp_path, start):
    """A Prometheus server that scrapes a daemon; (query, daemon)."""
    assert shutil.which("prometheus"), "the Debian package prometheus is needed"
    daemon = start()
    host, port = daemon.address
    settings = tmp_path / "prometheus.yml"
    settings.write_text(f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: gemmd
    static_configs: [{{targets: ['{host}:{port}']}}]
""")
    own = free_port()
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={settings}", f"--storage.tsdb.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log)

    def query(expression):
        """The value of an instant query; None while there is none."""
        try:
            target = f"http://127.0.0.1:{own}/api/v1/query?query=" + urllib.request.quote(expression)
            with urllib.request.urlopen(target, timeout=PATIENCE_S) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            assert process.poll() is None, (log.seek(0), log.read())[1]
            return None
        return float(result[0]["value"][1]) if result else None

    yield query, daemon
    process.terminate()
    process.wait(PATIENCE_S)
    log.close()


def test_a_real_prometheus(prometheus):
    query, daemon = prometheus
    for _ in range(5):
        assert exchange(daemon.address, GOOD).status == 200
    deadline = time.monotonic() + PATIENCE_S
    expression = 'sum(gemmd_requests_total{op="gemm"})'
    while query(expression) != 5:
        assert time.monotonic() < deadline, f"{expression} is {query(expression)}"
        time.sleep(0.1)
    assert query("up") == 1
    assert query("gemmd_ready") == 1
    assert query('histogram_quantile(0.5, sum by (le) '
                 '(gemmd_request_duration_seconds_bucket{op="gemm"}))') > 0

"""Triton's load generator, as it comes: every mode it has for HTTP that gemmd's models allow."""

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from daemon import PATIENCE_S, Daemon
from test_leaving import wait_for
from test_tensors import Tensors

ROOT = Path(__file__).resolve().parents[2] / "build-tests/perf_analyzer"
PROGRAMS = sorted(ROOT.glob("tritonclient-*/data/bin/perf_analyzer"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS, reason="tests/run.sh has not fetched perf_analyzer"),
]


@pytest.fixture
def analyze(url, tmp_path, rng):
    """Runs it against a model of which the inputs' shapes are given; returns the rates by
    concurrency, and what it printed."""

    def run(model, shapes, *options, url=url):
        data = {name: {"content": rng.uniform(-1, 1, shape).astype("f4").ravel().tolist(),
                       "shape": list(shape)} for name, shape in shapes.items()}
        (tmp_path / "data.json").write_text(json.dumps({"data": [data]}))
        address = url.removeprefix("http://")
        command = [
            PROGRAMS[0], "-m", model, "-u", address, "-i", "http", "--input-data", tmp_path / "data.json",
            "--measurement-mode", "count_windows", "--measurement-request-count", "30",
            "--max-trials", "20", "--stability-percentage", "999", *options]
        libraries = f"{ROOT / 'nvidia/cuda_runtime/lib'}:{ROOT / 'lib'}"
        for _ in range(3):
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False,
                                  env={**os.environ, "LD_LIBRARY_PATH": libraries})
            # With 256 requests at once on a busy machine, perf_analyzer itself sometimes crashes.
            if done.returncode >= 0:
                break
        assert done.returncode == 0, done.stdout + done.stderr
        return {int(concurrency): float(rate) for concurrency, rate in re.findall(
            r"^Concurrency: (\d+), throughput: ([\d.]+) infer/sec", done.stdout, re.MULTILINE)
            }, done.stdout

    return run


SQUARE = {"A": (16, 16), "B": (16, 16)}


@pytest.mark.parametrize("mode", [["--sync"], ["--async"]], ids=["sync", "async"])
def test_from_one_to_256_at_once(mode, analyze):
    """The daemon's own count of what it did is in its report."""
    rates, text = analyze("gemm_fp32", SQUARE, *mode, "--concurrency-range", "1:256:255")
    assert list(rates) == [1, 256]
    assert min(rates.values()) > 0
    counts = re.findall(r"Successful request count: (\d+)", text)
    assert len(counts) == 2 and all(int(count) > 0 for count in counts), text


@pytest.fixture(scope="module")
def sharing(gemmd):
    """A daemon with both kinds of shared memory and a matrix, linear.w."""
    daemon = Daemon(gemmd, "--shm-system", "--shm-cuda")
    try:
        daemon.wait_until_listening().wait_until_ready()
        assert Tensors(daemon.url).put("w", np.ones((16, 8), np.float32)).status_code == 201
        yield daemon
        daemon.stop()
    finally:
        daemon.close()


@pytest.mark.parametrize("kind", ["system", "cuda"])
@pytest.mark.parametrize("mode", [["--sync"], ["--async"]], ids=["sync", "async"])
def test_shared_memory(mode, kind, analyze, sharing):
    """It takes its regions away when it is done."""
    info = sharing.session.get(f"{sharing.url}/info", timeout=PATIENCE_S).json()
    if kind == "cuda" and info["devices"][0]["backend"] != "cuda":
        pytest.skip("there is no GPU")
    rates, text = analyze("linear.w", {"X": (4, 16)}, *mode, "--shared-memory", kind,
                          "--output-shared-memory-size", "128", "--concurrency-range", "1:256:255",
                          url=sharing.url)
    assert list(rates) == [1, 256]
    assert min(rates.values()) > 0
    assert "Unable to unregister" not in text
    wait_for(sharing, shared_memory_regions=0, shared_memories=0)


def test_attention(analyze):
    shapes = {name: (1, 2, 5, 8) for name in "QKV"}
    rates, _ = analyze("attention_fp32", shapes, "--concurrency-range", "2")
    assert list(rates) == [2] and rates[2] > 0


def test_with_metrics(analyze, url):
    """It reads them, and looks for those of a GPU, which a CPU has not."""
    rates, text = analyze("gemm_fp32", SQUARE, "--collect-metrics", "--metrics-url",
                          f"{url.removeprefix('http://')}/metrics", "--concurrency-range", "1")
    assert rates[1] > 0
    assert "Server Prometheus Metrics" in text

"""What an operator relies on, with a daemon on a real GPU. Left out where there is none."""

import ctypes
import http.client
import os
import pathlib
import re
import signal
import subprocess

import pytest

from daemon import PATIENCE_S
from matrices import NUMPY
from test_gpu_metrics import sampled
from test_handover import Load, ending, replace, wait_for_line
from test_metrics import scrape, values

PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """The UUID of the first GPU that CUDA uses."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    try:
        found = subprocess.run(["nvidia-smi", f"--id={first}", "--query-gpu=uuid", "--format=csv,noheader"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("there is no GPU")
    return found.stdout.split()[0]


def use_everything(daemon):
    """Asks for products of every type by every kernel, in several sizes."""
    kernels = [kernel["name"] for kernel in daemon.session.get(f"{daemon.url}/info").json()["kernels"]]
    for dtype in sorted(set(NUMPY) - {"i32"}):
        for kernel in ["auto", *kernels]:
            for side in (64, 300):
                answer = daemon.session.post(
                    f"{daemon.url}/gemm?m={side}&n={side}&k={side}&dtype={dtype}&kernel={kernel}",
                    data=bytes(2 * side * side * NUMPY[dtype].itemsize))
                assert answer.status_code in (200, 422), answer.text
    assert daemon.session.post(f"{daemon.url}/attention?heads=2&sq=16&skv=16&d=64&dtype=f16",
                               data=bytes(3 * 2 * 16 * 64 * 2)).status_code == 200


def test_the_figures_of_the_gpu(start, gpu):
    series = values(sampled(start("--backend", "cuda")))
    label = f'uuid="{gpu}"'
    assert series[f"gemmd_gpu_memory_used_bytes{{{label}}}"] > 0
    assert (series[f"gemmd_gpu_memory_capacity_bytes{{{label}}}"]
            > series[f"gemmd_gpu_memory_used_bytes{{{label}}}"])
    assert 10 < series[f"gemmd_gpu_temperature_celsius{{{label}}}"] < 110
    assert series[f"gemmd_gpu_power_watts{{{label}}}"] > 10
    assert series[f'gemmd_gpu_clock_hertz{{{label},clock="sm"}}'] > 1e8
    assert 0 <= series[f"gemmd_gpu_utilization_ratio{{{label}}}"] <= 1


def test_a_daemon_that_has_used_everything_has_at_most_500_series(start):
    daemon = start("--backend", "cuda")
    use_everything(daemon)
    sampled(daemon)
    lines = [line for line in scrape(daemon).splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 500
    assert any(line.startswith("gemmd_device_peak") for line in lines)


def test_it_runs_without_memory_that_is_written_and_executed(start):
    """What MemoryDenyWriteExecute= of the systemd unit forbids; Linux 6.3 can forbid it too."""
    libc = ctypes.CDLL(None, use_errno=True)
    probe = os.fork()
    if probe == 0:
        os._exit(0 if libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0 else 1)
    if os.waitpid(probe, 0)[1] != 0:
        pytest.skip("the kernel cannot forbid it")
    code = ("import ctypes, os, sys; "
            f"ctypes.CDLL(None).prctl({PR_SET_MDWE}, {PR_MDWE_REFUSE_EXEC_GAIN}, 0, 0, 0); "
            "os.execv(sys.argv[1], sys.argv[1:])")
    daemon = start("--backend", "cuda", wrapper=("python3", "-c", code))
    use_everything(daemon)


def test_a_reload_and_a_replacement_lose_no_request(start):
    daemon = start("--backend", "cuda")
    load = Load(lambda: http.client.HTTPConnection(*daemon.address, timeout=PATIENCE_S))
    with ending(daemon):
        try:
            load.wait_for_progress()
            os.kill(daemon.pid, signal.SIGHUP)
            wait_for_line(daemon, "reloaded")
            load.wait_for_progress()
            replace(daemon, daemon.pid)
            load.wait_for_progress()
        finally:
            load.stop()
        assert load.failures == []
        assert daemon.process.wait(PATIENCE_S) == 0, "the first process has drained"
    assert daemon.wait() == 0


def test_the_memory_suffices(start, gemmd):
    """--check-config says what MemoryMax= of a unit must allow."""
    checked = subprocess.run([gemmd, "--backend", "cuda", "--check-config"], capture_output=True,
                             text=True, timeout=PATIENCE_S, check=True)
    allowed = int(re.search(r"host memory at most on backend cuda:.*?total +(\d+)",
                            checked.stdout + checked.stderr, re.S)[1])
    daemon = start("--backend", "cuda")
    use_everything(daemon)
    most = re.search(r"VmHWM:\s+(\d+) kB", (pathlib.Path("/proc") / str(daemon.pid) / "status").read_text())
    assert 1024 * int(most[1]) < allowed

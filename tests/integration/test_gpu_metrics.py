"""The figures of GPUs in /metrics, with a library in place of NVIDIA's NVML (tests/faults/fake_nvml.c)."""

import time

import pytest

from daemon import PATIENCE_S
from test_metrics import promtool, scrape, values

FIRST = 'uuid="GPU-00000000-0000-0000-0000-00000000000a"'
SECOND = 'uuid="GPU-00000000-0000-0000-0000-00000000000b"'


@pytest.fixture
def start_with(start, gemmd):
    """Starts a daemon that finds the library of one of the folders in build/tests as NVML."""
    def begin(folder, behaviour="", *arguments):
        library = gemmd.parents[1] / "tests" / folder
        assert (library / "libnvidia-ml.so.1").exists(), "CMake builds it with -DGEMMD_TESTS=ON"
        return start(*(arguments or ("--gpu-metrics", "all")), environment={
            "LD_LIBRARY_PATH": str(library), "FAKE_NVML": behaviour})
    return begin


def sampled(daemon):
    """A scrape after the first sample of NVML."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = scrape(daemon)
        if values(text).get("gemmd_nvml_up") == 1:
            return text
        assert time.monotonic() < deadline, "NVML is never sampled"
        time.sleep(0.02)


def test_all_figures_of_two_gpus(start_with):
    text = sampled(start_with("nvml"))
    series = values(text)
    expected = {
        "gemmd_gpu_utilization_ratio": 0.75, "gemmd_gpu_memory_utilization_ratio": 0.25,
        "gemmd_gpu_memory_used_bytes": 400000, "gemmd_gpu_memory_capacity_bytes": 1000000,
        "gemmd_gpu_power_watts": 350.5, "gemmd_gpu_power_limit_watts": 700,
        "gemmd_gpu_energy_joules_total": 1234.567, "gemmd_gpu_temperature_celsius": 61,
        'gemmd_gpu_clock_hertz,clock="sm"': 1755e6, 'gemmd_gpu_clock_hertz,clock="memory"': 2619e6,
        'gemmd_gpu_clock_max_hertz,clock="sm"': 1980e6,
        'gemmd_gpu_ecc_errors_total,kind="corrected"': 7,
        'gemmd_gpu_ecc_errors_total,kind="uncorrected"': 0,
        'gemmd_gpu_pcie_bytes_per_second,direction="sent"': 102400,
        'gemmd_gpu_pcie_bytes_per_second,direction="received"': 204800,
        'gemmd_gpu_throttled,reason="sw_power_cap"': 1,
    }
    for gpu in (FIRST, SECOND):
        for name, value in expected.items():
            family, comma, label = name.partition(",")
            assert series[f"{family}{{{gpu}{comma}{label}}}"] == value, name
    assert series[f'gemmd_gpu_xid_errors_total{{{SECOND},xid="31"}}'] == 1
    assert series[f'gemmd_gpu_xid_errors_total{{{SECOND},xid="79"}}'] == 2
    assert not any("xid_errors" in name and FIRST in name for name in series)
    assert not any("hw_slowdown" in name for name in series), "a reason that was never seen"
    assert promtool(text).returncode == 0, promtool(text)


@pytest.mark.parametrize("folder, behaviour, present, absent", [
    ("nvml", "partial", "temperature", ("power_watts", "energy", "ecc_errors")),
    ("nvml_old", "", "memory_used", ("utilization", "power", "temperature", "clock", "throttled{",
                                     "ecc", "pcie", "xid_errors_total{")),
    ("nvml", "lost", "info", ("utilization", "memory_used", "power", "temperature", "clock",
                              "throttled{")),
], ids=["not supported", "old driver", "lost GPU"])
def test_a_figure_that_nvml_does_not_give_is_absent(folder, behaviour, present, absent, start_with):
    text = sampled(start_with(folder, behaviour))
    assert any(name.startswith(f"gemmd_gpu_{present}") for name in values(text))
    for name in values(text):
        assert not name.startswith(tuple(f"gemmd_gpu_{one}" for one in absent)), name
    assert promtool(text).returncode == 0, promtool(text)


def test_a_call_of_nvml_that_hangs_stops_nothing(start_with):
    daemon = start_with("nvml", "hang")
    for _ in range(3):
        series = values(scrape(daemon))
        assert series["gemmd_nvml_up"] == 0
        assert not any(name.startswith("gemmd_gpu_") for name in series)
    daemon.stop()


def test_nvml_that_fails_or_is_missing_is_said_in_the_log(start_with, start, tmp_path):
    daemon = start_with("nvml", "error")
    daemon.wait_for(lambda lines: any("error 999" in line["message"] for line in lines), "the error")
    assert values(scrape(daemon))["gemmd_nvml_up"] == 0
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    daemon = start("--gpu-metrics", "all", environment={"LD_LIBRARY_PATH": str(tmp_path)})
    assert any("NVML (libnvidia-ml.so.1) cannot be loaded" in text for text in daemon.messages())
    assert "gemmd_nvml_up" not in scrape(daemon)


@pytest.mark.parametrize("arguments", [("--gpu-metrics", "off"), ("--gpu-metrics", "auto", "--backend", "cpu")],
                         ids=["off", "no GPU"])
def test_nvml_is_not_asked(arguments, start_with):
    daemon = start_with("nvml", "", *arguments)
    assert "gemmd_nvml_up" not in scrape(daemon)

"""The unit files, and the memory that --check-config computes for their limits."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from daemon import PATIENCE_S
from wire import Wire, exchange, request

UNITS = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd"
OCTETS = ("Content-Type", "application/octet-stream")


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False,
                          env={**os.environ, "SYSTEMD_COLORS": "0", "COLUMNS": "200"})


def settings(unit):
    """The settings of a unit file: name -> list of values."""
    found = {}
    for line in (UNITS / unit).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"(\w+)=(.*)", line):
            found.setdefault(match[1], []).append(match[2])
    return found


def test_the_units_are_valid(gemmd, tmp_path):
    """Without a warning, with the program of this build in place of the installed one."""
    for unit in ("gemmd.service", "gemmd.socket"):
        text = (UNITS / unit).read_text(encoding="utf-8")
        (tmp_path / unit).write_text(text.replace("/usr/bin/gemmd", str(gemmd)))
    result = analyze("verify", "--man=no", tmp_path / "gemmd.service", tmp_path / "gemmd.socket")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_service_is_confined():
    result = analyze("security", "--offline=yes", "--no-pager", UNITS / "gemmd.service")
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", result.stdout)[1])
    assert exposure <= 1.5, result.stdout


def test_the_gpu_stays_reachable():
    service = settings("gemmd.service")
    assert service["PrivateDevices"] == ["no"]
    allowed = set(service["DeviceAllow"])
    assert {"char-nvidia rw", "char-nvidia-uvm rw", "/dev/nvidia0 rw", "/dev/nvidiactl rw",
            "/dev/nvidia-uvm rw"} <= allowed
    assert service["LimitMEMLOCK"] == ["infinity"], "pinned memory"


def test_the_times_and_limits_suffice(gemmd):
    service = settings("gemmd.service")
    config = json.loads(subprocess.run(
        [gemmd, "--config", UNITS / "gemmd.json", "--check-config"], capture_output=True, text=True,
        timeout=PATIENCE_S, check=True).stdout)
    stop_ms = int(service["TimeoutStopSec"][0]) * 1000
    assert stop_ms > config["drain-delay"] + config["drain-timeout"]
    assert int(service["LimitNOFILE"][0]) >= config["max-connections"] + 512
    assert service["Type"] == ["notify"], "Debian 12 has systemd 252, and notify-reload is younger"
    assert "HUP" in service["ExecReload"][0]


def test_the_user_is_made(tmp_path):
    (tmp_path / "etc").mkdir()
    result = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", UNITS / "sysusers.d" / "gemmd.conf"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, result.stderr
    assert re.search(r"^gemmd:.*nologin$", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)


# ---- memory -------------------------------------------------------------------------------------

def needs(gemmd, *arguments):
    """What --check-config says: backend -> {part: bytes} of host memory."""
    result = subprocess.run([gemmd, *arguments, "--check-config"], capture_output=True, text=True,
                            timeout=PATIENCE_S, check=True)
    json.loads(result.stdout)  # the account is not in the way of the configuration
    found, part = {}, None
    for line in result.stderr.splitlines():
        if match := re.match(r"Bytes of (?:host|GPU) memory.* on backend (\w+)", line):
            part = found.setdefault(match[1] + (" GPU" if "GPU" in line else ""), {})
        elif match := re.match(r"  (\S.*?)  +(\d+)$", line):
            part[match[1]] = int(match[2])
    return found


def test_the_memory_of_each_backend(gemmd):
    arguments = ["--pinned-bytes", "64M", "--device-bytes", "32M", "--tensor-bytes", "16M",
                 "--job-bytes", "48M", "--shm-bytes", "8M"]
    found = needs(gemmd, "--backend", "auto", *arguments)
    assert set(found) == {"cpu", "cuda", "cuda GPU"}
    assert found["cpu"]["--device-bytes"] == 32 << 20
    assert "--device-bytes" not in found["cuda"], "it is memory of the GPU there"
    assert found["cuda GPU"] == {"--device-bytes": 32 << 20, "--tensor-bytes": 16 << 20,
                                 "total": 48 << 20}
    for backend in ("cpu", "cuda"):
        parts = dict(found[backend])
        assert parts.pop("total") == sum(parts.values())
    assert set(needs(gemmd, "--backend", "cpu")) == {"cpu"}
    two = needs(gemmd, "--backend", "cpu", "--devices", "2", *arguments)["cpu"]
    assert (two["--device-bytes"], two["--tensor-bytes"]) == (64 << 20, 32 << 20)


def peak_bytes(daemon):
    status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_the_cpu_backend_takes_no_memory_before_it_is_written(start):
    """The memory of these options is 4 GiB, of which a daemon that has served nothing has used little."""
    daemon = start("--backend", "cpu", "--pinned-bytes", "2G", "--device-bytes", "1G", "--tensor-bytes", "1G")
    assert peak_bytes(daemon) < 512 << 20


def test_the_memory_suffices_for_full_limits(start, gemmd, instrumented):
    """The peak of a daemon whose limits are all used is below the sum, and not far below."""
    if instrumented:
        pytest.skip("a sanitizer's allocator takes memory of its own")
    mib = 1 << 20
    arguments = ["--backend", "cpu", "--cpu-threads", "2", "--io-threads", "1",
                 "--pinned-bytes", "192M", "--device-bytes", "64M", "--tensor-bytes", "64M",
                 "--job-bytes", "64M", "--max-result", "32M", "--max-body", "64M",
                 "--max-connections", "500", "--max-connections-per-address", "0",
                 "--max-json", "1M", "--bulk-connections", "8", "--no-shm-memfd"]
    total = needs(gemmd, *arguments)["cpu"]["total"]
    daemon = start(*arguments)
    wires = []
    try:
        # Resident tensors.
        for name in ("a", "b"):
            answer = exchange(daemon.address, request(
                "PUT", f"/tensors/{name}?dtype=f32&shape=2048,3840",
                [OCTETS, ("Content-Length", 30 * mib)], b"\1" * (30 * mib)))
            assert answer.status in (200, 201), answer
        # Results of jobs: two of 31 MiB.
        edge = 2850
        body = b"\0" * (2 * edge * edge * 4)
        for _ in range(2):
            answer = exchange(daemon.address, request(
                "POST", f"/gemm?m={edge}&n={edge}&k=16",
                [OCTETS, ("Content-Length", 2 * edge * 16 * 4), ("Prefer", "respond-async")],
                body[:2 * edge * 16 * 4]))
            assert answer.status == 202, answer
        # Bodies that wait for their last byte, as many as pinned memory takes.
        length = 4 * (16 * 500 + 500 * 16000)
        for _ in range(5):
            wire = Wire(daemon.address)
            wires.append(wire)
            wire.send(request("POST", "/gemm?m=16&n=16000&k=500&dtype=f32",
                              [OCTETS, ("Content-Length", length)], b"\1" * (length - 1)))
        # Connections whose buffers are nearly full of headers.
        for _ in range(400):
            wire = Wire(daemon.address)
            wires.append(wire)
            wire.send(b"POST /gemm?m=9&n=9&k=9 HTTP/1.1\r\nHost: gemmd\r\n" + b"".join(
                b"X-%d: %s\r\n" % (n, b"y" * 3900) for n in range(10)))
        # JSON at its limit.
        text = b'{"inputs":[{"name":"A","datatype":"FP32","shape":[1,1],"data":[' + b"1," * 500000
        answer = exchange(daemon.address, request(
            "POST", "/v2/models/gemm_fp32/infer",
            [("Content-Type", "application/json"), ("Content-Length", len(text) + 5)],
            text + b"1]}]}"))
        assert answer.status in (400, 413), answer
        peak = peak_bytes(daemon)
    finally:
        for wire in wires:
            wire.socket.close()
    assert peak <= total
    assert peak >= total // 3, "the sum is of little use if it is far too large"

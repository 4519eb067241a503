"""--devices names GPUs by number and UUID. The simulated GPU is the only one of its host, with a UUID of zeros."""

import subprocess

import pytest

from daemon import PATIENCE_S, Daemon
from failing_cuda import program_of


@pytest.fixture(scope="module")
def simulated(gemmd):
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no simulated GPU: its headers are missing, or there is a real GPU")
    return program


@pytest.mark.parametrize("devices, says", [
    ("1", "device 1 was asked for (--devices); this host has 1"),
    ("one", 'has "one"'), ("-1", 'has "-1"'), ("99999999999", 'has "99999999999"'),
    ("0,one", 'has "one"'), ("0,", 'has ""'),
    ("0,0", "names device 0 twice"), ("0,GPU-00000000", "names device 0 twice"),
    ("GPU-00000001", "no device of this host has the UUID"),
    ("GPU-000", "no device of this host has the UUID"),
    ("MIG-11111111", "no device of this host has the UUID"),
])
def test_devices_that_the_host_does_not_have(devices, says, simulated):
    result = subprocess.run([simulated, "--listen", "127.0.0.1:0", "--backend", "cuda", "--devices", devices],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1 and says in result.stderr, result.stderr


@pytest.mark.parametrize("devices", ["0", "all", "GPU-00000000", "gpu-00000000-0000-0000-0000-000000000000"])
def test_a_device_by_each_of_its_names(devices, simulated):
    daemon = Daemon(simulated, "--backend", "cuda", "--devices", devices, "--device-bytes", "64M",
                    "--pinned-bytes", "64M")
    try:
        daemon.wait_until_listening(1).wait_until_ready()
        device, = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"]
        assert device["name"] == "Simulated GPU"
        daemon.stop()
    finally:
        daemon.close()

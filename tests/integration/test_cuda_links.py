"""The daemon measures how fast its GPUs copy from each other, on GPUs that tests/faults/simulated_cuda.c
simulates."""

import re

import pytest

from daemon import Daemon
from failing_cuda import ERROR, INVALID_VALUE, Plan, program_of

OPTIONS = ("--backend", "cuda", "--streams", "1", "--device-bytes", "16M", "--tensor-bytes", "16M",
           "--pinned-bytes", "64M")
SPEED = re.compile(r"device (\d) copies from other devices at ([0-9.]+) GB/s or more")


@pytest.fixture
def measured(gemmd, tmp_path):
    """What daemons say about the speed of copies: {device: GB/s}."""
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")

    def start(devices, device_bytes="16M", fail=None):
        plan = Plan(tmp_path / "plan")
        if fail is not None:
            plan.arm(ERROR, site=fail.offset, error=INVALID_VALUE, to_fail=1000)
        daemon = Daemon(program, *OPTIONS, "--devices", ",".join(map(str, range(devices))), "--device-bytes",
                        device_bytes, environment={**plan.environment, "SIMULATED_DEVICES": str(devices)})
        try:
            daemon.wait_until_listening().wait_until_ready().stop()
            found = (SPEED.search(message) for message in daemon.messages())
            return {int(match[1]): float(match[2]) for match in found if match}, plan.sites()
        finally:
            daemon.close()
    return start


def test_every_device_of_several_tells_the_speed(measured):
    speeds, _ = measured(3)
    assert speeds.keys() == {0, 1, 2}
    assert all(speed > 0 for speed in speeds.values())


def test_one_device_has_no_link(measured):
    speeds, _ = measured(1)
    assert not speeds


def test_a_daemon_starts_without_the_speed(measured):
    """Where the measurement fails, and where a device has too little memory for it."""
    (_, sites), (_, alone) = measured(2), measured(1)
    timing, = (site for site in sites.keys() - alone.keys() if site.name == "cudaEventElapsedTime")
    speeds, _ = measured(2, fail=timing)
    assert not speeds
    speeds, _ = measured(2, device_bytes="512K")
    assert not speeds

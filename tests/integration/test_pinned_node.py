"""Pinned memory is on the NUMA node of the GPU, which tests/faults/simulated_cuda.c simulates."""

from pathlib import Path

import pytest

from daemon import Daemon
from failing_cuda import program_of

OPTIONS = ("--backend", "cuda", "--devices", "0", "--streams", "1", "--device-bytes", "16M", "--tensor-bytes",
           "16M", "--pinned-bytes", "64M")


@pytest.fixture
def policies(gemmd):
    """The memory policies of a daemon's mappings that name a node. (OpenBLAS asks for "local".)"""
    program = program_of(gemmd)
    if program is None or program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("the system does not tell where memory is")

    def start(**environment):
        daemon = Daemon(program, *OPTIONS, environment=environment)
        try:
            daemon.wait_until_listening().wait_until_ready()
            lines = Path(f"/proc/{daemon.pid}/numa_maps").read_text(encoding="ascii").splitlines()
            daemon.stop()
            return {line.split()[1] for line in lines} - {"default", "local"}
        finally:
            daemon.close()
    return start


def test_pages_are_on_the_node_of_the_device(policies):
    assert policies() == policies(SIMULATED_NODE="-1") == set()
    assert policies(SIMULATED_NODE="0") == {"prefer:0"}


def test_a_daemon_starts_where_the_node_is_not_there(policies):
    assert policies(SIMULATED_NODE="62") == policies(SIMULATED_NODE="1000") == set()

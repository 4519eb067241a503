"""Memory that the CPU backend allocates ahead (--touch-share)."""
import re
import subprocess

import numpy as np
import pytest

from patience import wait_until

MIB = 1 << 20
SMALL = ("--backend", "cpu", "--pinned-bytes", "64M", "--device-bytes", "16M", "--tensor-bytes", "32M")
# Runs a program where the control groups' file system shows a limit of $0 bytes, of which $1 are used.
WITH_MEMORY = ("unshare", "-rm", "bash", "-c", """
    used=$1 && shift && mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/memory &&
    for folder in /sys/fs/cgroup /sys/fs/cgroup/memory; do
        echo $0 >$folder/memory.max && echo $0 >$folder/memory.limit_in_bytes &&
        echo $used >$folder/memory.current && echo $used >$folder/memory.usage_in_bytes || exit 1
    done && exec "$@" """)
needs_mounts = pytest.mark.skipif(
    subprocess.run([*WITH_MEMORY, "1", "1", "true"], capture_output=True, check=False).returncode != 0,
    reason="the system does not let this user mount a file system")


def touched(daemon):
    return daemon.session.get(f"{daemon.url}/info").json()["touched"]


def ended(daemon):
    wait_until(lambda: touched(daemon)["ended"], "the end of the touching")
    return touched(daemon)


def message(daemon):
    return daemon.wait_for(lambda lines: [line["message"] for line in lines
                                          if re.match("touched ", str(line.get("message")))], "the message")


def resident_bytes(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024


def test_all_of_the_memory(start):
    daemon = start(*SMALL, "--touch-share", "1")
    state = ended(daemon)
    assert state["bytes"] == state["wanted_bytes"] == 96 * MIB
    assert state["large_page_bytes"] <= state["bytes"]
    assert resident_bytes(daemon) > 96 * MIB
    (text,) = message(daemon)
    assert text.startswith("touched 0.10 of 0.10 GB of the memory for bodies and tensors in "), text


def test_uploads_meanwhile_keep_their_bytes(start, rng):
    daemon = start("--backend", "cpu", "--pinned-bytes", "256M", "--device-bytes", "16M", "--tensor-bytes", "256M",
                   "--max-body", "64M", "--max-result", "64M", "--touch-share", "1")
    for i in range(6):
        bits = rng.integers(0, 256, 24 * MIB, dtype=np.uint8).tobytes()
        answer = daemon.session.put(f"{daemon.url}/tensors/t{i}?dtype=i8&shape={len(bits)}", data=bits)
        assert answer.status_code == 201
        assert daemon.session.get(f"{daemon.url}/tensors/t{i}").content == bits
    assert ended(daemon)["bytes"] == 512 * MIB


def test_each_device_of_several(start):
    daemon = start(*SMALL, "--touch-share", "1", "--devices", "2")
    assert ended(daemon)["bytes"] == 128 * MIB


@needs_mounts
def test_a_share_of_the_container(start):
    daemon = start(*SMALL, "--touch-share", "0.25", wrapper=(*WITH_MEMORY, str(128 * MIB), "0"))
    state = ended(daemon)
    assert state["bytes"] == state["wanted_bytes"] == 32 * MIB


@needs_mounts
def test_a_container_that_is_nearly_full(start):
    daemon = start(*SMALL, "--touch-share", "0.25", wrapper=(*WITH_MEMORY, str(128 * MIB), str(97 * MIB)))
    assert ended(daemon) == {"bytes": 0, "wanted_bytes": 32 * MIB, "large_page_bytes": 0, "ended": True}
    (text,) = message(daemon)
    assert text.endswith(": less than a quarter of the memory is available"), text


def test_none(start):
    daemon = start(*SMALL, "--touch-share", "0")
    assert touched(daemon) == {"bytes": 0, "wanted_bytes": 0, "large_page_bytes": 0, "ended": True}
    assert resident_bytes(daemon) < 96 * MIB


@pytest.mark.parametrize("value", ["-0.1", "1.1", "half", "10%"])
def test_no_share(gemmd, value):
    result = subprocess.run([gemmd, "--check-config", f"--touch-share={value}"], capture_output=True, text=True,
                            check=False)
    assert result.returncode != 0
    assert "--touch-share" in result.stderr and "from 0 to 1" in result.stderr


def test_a_reload_leaves_the_share_of_the_start(start, tmp_path):
    file = tmp_path / "gemmd.json"
    file.write_text('{"touch-share": 0}')
    daemon = start(*SMALL, "--config", file, environment={"GEMMD_TOUCH_SHARE": ""})
    file.write_text('{"touch-share": 0.5}')
    daemon.process.send_signal(1)
    daemon.wait_for(lambda _: "--touch-share stays 0; the new value 0.5 needs a new process (SIGUSR2)" in
                    daemon.messages(), "the message of the reload")
    assert touched(daemon)["wanted_bytes"] == 0

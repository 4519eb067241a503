"""The device is lost, as after a sticky error of a GPU: the daemon executes its program again with
its listening sockets, and clients see a delay."""

import os
import re
import subprocess
import threading

import numpy as np
import pytest

from daemon import PATIENCE_S, PATIENT, Daemon
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")


def product(m, n, k, *headers):
    body = np.ones(m * k + k * n, np.float32).tobytes()
    return request("POST", f"/gemm?m={m}&n={n}&k={k}",
                   [OCTETS, ("Content-Length", len(body)), *headers], body)


LOSING, GOOD = product(13, 17, 19), product(2, 2, 2)
# The head of a product whose body waits for 100 Continue.
WAITING = request("POST", "/gemm?m=2&n=2&k=2", [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")])


@pytest.fixture
def losing(gemmd):
    path = gemmd.parent.parent / "tests/gemmd-losing"
    assert path.exists(), f"there is no {path}; the build has to have GEMMD_TESTS"
    return path


@pytest.fixture
def fault(tmp_path):
    """The file whose existence makes the next losing product lose the device."""
    return tmp_path / "lose"


@pytest.fixture
def daemon(losing, fault):
    daemon = Daemon(losing, "--backend", "cpu", "--cpu-threads", "1", *PATIENT,
                    environment={"LOSE_DEVICE": str(fault)})
    try:
        daemon.wait_until_listening().wait_until_ready()
        yield daemon
    finally:
        daemon.close()


def starts_in(lines):
    return sum(str(line.get("message", "")).startswith("listening on") for line in lines)


def starts(daemon):
    return starts_in({"message": message} for message in daemon.messages())


def wait_for_starts(daemon, count):
    """A new start is logged by another process than the one that answers, so that its line may come later."""
    daemon.wait_for(lambda lines: starts_in(lines) >= count, f"the start number {count}")
    assert starts(daemon) == count


def send_losing(daemon, address=None):
    """Sends a product that loses the device, and checks its answer. The daemon that replaces itself waits for
    its answers for a second, so that a machine on which none can be sent within a second loses the answer."""
    gave_up = count_lines(daemon, "giving up on")
    try:
        answer = exchange(address or daemon.address, LOSING)
    except ConnectionError:
        daemon.wait_for(lambda _: count_lines(daemon, "giving up on") > gave_up, "the reason of the lost answer")
        return
    assert (answer.status, b"device-lost" in answer.body) == (503, True), answer
    assert int(answer.headers["retry-after"]) >= 1


def lose(daemon, fault, address=None):
    """Loses the device. From then on, new connections wait for the next start."""
    restarts = count_restarts(daemon)
    fault.touch()
    send_losing(daemon, address)
    daemon.wait_for(lambda lines: count_restarts(daemon) > restarts, "the restart")


def count_lines(daemon, text):
    return sum(text in message for message in daemon.messages())


def count_restarts(daemon):
    return count_lines(daemon, "again, with the listening sockets")


def counted_restarts(daemon):
    """The metric, which does not exist before the first restart."""
    body = exchange(daemon.address, request("GET", "/metrics")).body.decode()
    found = re.search(r"^gemmd_device_restarts_total (\S+)$", body, re.M)
    return float(found[1]) if found else None


def test_the_daemon_replaces_itself(daemon, fault):
    """The same process, the same socket; the failed request may be repeated."""
    address, pid = daemon.address, daemon.pid
    assert counted_restarts(daemon) is None
    lose(daemon, fault)
    # The connection waits in the backlog, and nothing is refused.
    assert exchange(address, LOSING).status == 200
    assert (daemon.pid, daemon.process.poll()) == (pid, None)
    wait_for_starts(daemon, 2)
    assert any("the device is lost, and the daemon replaces itself" in message
               for message in daemon.messages())
    assert counted_restarts(daemon) == 1
    daemon.wait_until_ready()
    before = daemon.descriptors()
    lose(daemon, fault)
    assert exchange(address, GOOD).status == 200
    daemon.wait_until_ready()
    daemon.assert_descriptors(before)  # a restart leaves none open
    daemon.stop()


def test_a_device_that_is_lost_again_and_again_ends_the_daemon(daemon, fault):
    for restarts in range(3):
        lose(daemon, fault)
        assert exchange(daemon.address, GOOD).status == 200
        wait_for_starts(daemon, restarts + 2)
    fault.touch()
    send_losing(daemon)
    assert daemon.wait() == 1
    assert any("the device was lost after 3 restarts within 60 s" in message
               for message in daemon.messages())


def test_a_unix_socket_keeps_its_file(losing, fault, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    daemon = Daemon(losing, "--backend", "cpu", listen=(f"unix:{path}",),
                    environment={"LOSE_DEVICE": str(fault)})
    try:
        daemon.wait_until_listening()
        inode = os.stat(path).st_ino
        lose(daemon, fault, path)
        assert exchange(path, GOOD).status == 200
        assert os.stat(path).st_ino == inode
        daemon.stop()
        assert not os.path.exists(path)
    finally:
        daemon.close()


def test_an_unfinished_body_holds_the_restart_up_for_a_second_at_most(daemon, fault):
    with Wire(daemon.address) as slow, Wire(daemon.address) as idle:
        idle.send(GOOD)
        assert idle.receive().status == 200
        slow.send(WAITING)
        assert slow.receive().status == 100, "the body is awaited"
        lose(daemon, fault)
        assert exchange(daemon.address, GOOD).status == 200
    daemon.stop()


def test_no_connection_is_refused(daemon, fault):
    """Clients that connect again and again get a result, or an answer that tells them to repeat."""
    statuses, wrong, ended = [], [], threading.Event()

    def connect():
        while not ended.is_set():
            try:
                statuses.append(exchange(daemon.address, GOOD).status)
            except (ConnectionResetError, BrokenPipeError):
                pass  # closed without an answer, which a client may repeat as well
            except Exception as error:  # a refused connection, or no answer that a client would understand
                wrong.append(error)

    client = threading.Thread(target=connect)
    client.start()
    try:
        for _ in range(2):
            lose(daemon, fault)
            assert exchange(daemon.address, GOOD).status == 200
            count = len(statuses)
            daemon.wait_for(lambda _, count=count: 200 in statuses[count:] or wrong, "a result")
    finally:
        ended.set()
        client.join()
    assert wrong == []
    assert set(statuses) <= {200, 503}
    daemon.stop()


def test_resident_tensors_are_gone(daemon, fault):
    put = request("PUT", "/tensors/w?dtype=f32&shape=2,2", [OCTETS, ("Content-Length", 16)],
                  b"\0" * 16)
    get = request("GET", "/tensors/w")
    assert exchange(daemon.address, put).status in (200, 201)
    assert exchange(daemon.address, get).status == 200
    lose(daemon, fault)
    assert exchange(daemon.address, get).status == 404
    daemon.stop()


def test_gemmctl_sees_a_delay_only(daemon, fault, gemmd, tmp_path):
    """libgemmd repeats the product that lost the device, within its deadline."""
    a, b, c = (tmp_path / name for name in ("a.npy", "b.npy", "c.npy"))
    np.save(a, np.ones((13, 19), np.float32))
    np.save(b, np.ones((19, 17), np.float32))
    fault.touch()
    run = subprocess.run([gemmd.parent / "gemmctl", "--url", daemon.url, "gemm", a, b, "-o", c],
                         capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 0, run.stderr
    assert not fault.exists(), "the product has lost the device"
    assert (np.load(c) == 19).all()
    daemon.stop()


def test_sigterm_during_the_restart_ends_the_process(daemon, fault):
    """The signal is neither lost nor answered by another start."""
    with Wire(daemon.address) as slow:
        slow.send(WAITING)
        assert slow.receive().status == 100, "the body is awaited"
        fault.touch()
        send_losing(daemon)
        daemon.wait_for(lambda lines: any("replaces itself" in str(line.get("message"))
                                          for line in lines), "the line about the restart")
        daemon.terminate()
        assert daemon.wait() in (0, 1, -15)

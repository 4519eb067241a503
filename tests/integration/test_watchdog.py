"""The service manager's watchdog is fed while every thread and the device make progress."""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from daemon import PATIENCE_S, Daemon
from failing_cuda import ANY_LAUNCH, BUSY, OCTETS, Plan, program_of
from wire import Wire, exchange, request

# The daemon looks at its parts, and feeds, four times in this time.
WATCHDOG_US = 400_000
SILENCE_S = 0.25
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


@pytest.fixture(name="manager")
def service_manager(tmp_path):
    path = str(tmp_path / "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        yield manager


def watched(start, manager, *arguments, **variables):
    daemon = start("--io-threads", "1", "--bulk-connections", "0", *arguments, environment={
        "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(WATCHDOG_US), **variables})
    while "READY=1" not in manager.recv(4096).decode():
        pass
    return daemon


def wait_for_food(manager, times=1):
    for _ in range(times):
        while manager.recv(4096) != b"WATCHDOG=1":
            pass


def is_fed(manager, seconds=SILENCE_S):
    """Whether anything arrives in that time."""
    manager.settimeout(seconds)
    try:
        return manager.recv(4096) == b"WATCHDOG=1"
    except TimeoutError:
        return False
    finally:
        manager.settimeout(PATIENCE_S)


def threads(pid):
    """The numbers of the threads, by name."""
    return {(task / "comm").read_text().strip(): int(task.name)
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir()}


def thread_named(pid, name):
    """The number of a thread, which has its name only once it runs."""
    deadline = time.monotonic() + PATIENCE_S
    while name not in (found := threads(pid)):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found[name]


@contextlib.contextmanager
def stopped(tid):
    """Stops one thread of a process. SIGSTOP would stop them all, so a debugger's call is used."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def call(what):
        if libc.ptrace(what, tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    call(PTRACE_SEIZE)
    call(PTRACE_INTERRUPT)
    os.waitpid(tid, 0x40000000)  # __WALL
    try:
        yield
    finally:
        call(PTRACE_DETACH)


def drained(manager):
    """Takes what has been sent so far."""
    manager.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            manager.recv(4096)
    manager.settimeout(PATIENCE_S)


DUMPED = re.compile(r"thread (\S+) \((\d+)\): state (\S), \d+\.\d\d s of CPU time, "
                    r"system call (\S+), waits in (\S+)")


def assert_dump(daemon, stopped_name):
    """The log says of each thread what it does, and that the stopped one is stopped."""
    numbers = threads(daemon.pid)
    alive = {str(number): name for name, number in numbers.items()}
    dumped = daemon.wait_for(
        lambda lines: alive.keys() <= (found := {match[2]: match for line in lines
                                                 if (match := DUMPED.fullmatch(line["message"]))}).keys() and found,
        "a line about each thread")
    assert all(dumped[number][1] == name for number, name in alive.items())
    assert dumped[str(numbers[stopped_name])][3] == "t"
    assert dumped[str(daemon.pid)][3] == "R"  # the main thread, which writes the dump


def threads_of_core(path):
    """How many threads' registers a core has."""
    notes = subprocess.run(["readelf", "--notes", path], check=True, text=True, stdout=subprocess.PIPE).stdout
    return len(re.findall(r"\bNT_PRSTATUS\b", notes))


def test_the_watchdogs_signal_leaves_a_core(gemmd, sanitized, tmp_path):
    """systemd sends SIGABRT to a daemon that does not feed its watchdog. The daemon does not catch the signal, so
    that where cores are allowed there is one with all threads."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if sanitized or "/" in pattern or pattern.startswith("|"):
        pytest.skip(f"cores go to {pattern}" if not sanitized else "a sanitizer prevents cores")
    daemon = Daemon(gemmd, wrapper=("sh", "-c", 'cd "$0" && ulimit -c unlimited && exec "$@"', tmp_path))
    try:
        daemon.wait_until_listening().wait_until_ready()
        count = len(list(pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()))
        os.kill(daemon.pid, signal.SIGABRT)
        assert daemon.wait() == -signal.SIGABRT
        core, = tmp_path.glob("core*")
        assert threads_of_core(core) == count
    finally:
        daemon.close()
        for core in tmp_path.glob("core*"):
            core.unlink()  # it is large


@pytest.mark.parametrize("name, part", [
    ("io-0", "I/O thread 0"),
    # The dispatch thread may be stopped while it asks the device.
    ("dispatch", ("the dispatch thread makes", "the device makes")), ("jobs", "the job thread"),
    ("digester", "the digester's thread"), ("log", None),
    ("gemmd", None),
])
def test_a_stopped_thread_stops_the_feeding(name, part, start, manager):
    daemon = watched(start, manager)
    wait_for_food(manager)
    with stopped(daemon.pid if name == "gemmd" else thread_named(daemon.pid, name)):
        if part:
            line = daemon.wait_for(lambda lines: next(
                (line for line in lines
                 if "makes no progress" in line["message"] and line["message"].startswith(part)), None),
                "the line about the thread")
            assert line["level"] == "error"
            assert_dump(daemon, name)
        else:  # this thread cannot log, or the log's cannot write
            time.sleep(2 * WATCHDOG_US / 4e6)
        # Another thread may have been found without progress before, on a busy machine.
        drained(manager)
        deadline = time.monotonic() + PATIENCE_S
        while is_fed(manager):
            assert time.monotonic() < deadline, "the feeding goes on"
    wait_for_food(manager)


def test_a_device_that_stalls_stops_the_feeding(gemmd, manager, tmp_path):
    """A simulated GPU that does not end a launch for a second and a half."""
    program = program_of(gemmd)
    if program is None:
        pytest.skip("there is no build with a simulated GPU")
    plan = Plan(tmp_path / "plan")
    daemon = Daemon(program, "--backend", "cuda", "--devices", "0", "--streams", "1", "--device-bytes", "64M",
                    "--tensor-bytes", "16M", "--pinned-bytes", "64M", "--stall-time", "50ms", environment={
                        **plan.environment, "NOTIFY_SOCKET": manager.getsockname(),
                        "WATCHDOG_USEC": str(WATCHDOG_US)})
    body = bytes(8 * 130 * 130)
    data = request("POST", "/gemm?m=130&n=130&k=130", [OCTETS, ("Content-Length", len(body))], body)
    try:
        daemon.wait_until_listening().wait_until_ready()
        wait_for_food(manager)
        plan.arm(BUSY, ANY_LAUNCH, ms=1500)
        with Wire(daemon.address) as wire:
            wire.send(data)
            daemon.wait_for(lambda lines: any(
                line["message"].startswith("the device makes no progress") for line in lines),
                "the line about the device")
            assert wire.receive().status == 200
        while is_fed(manager, 0.01):
            pass
        wait_for_food(manager)
        daemon.stop()
    finally:
        daemon.close()


def test_a_log_that_nobody_reads_does_not_stop_the_feeding(gemmd, manager):
    """A blocked log loses lines, and must not have the daemon restarted."""
    reader, writer = os.pipe()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEMMD_")}
    path = manager.getsockname() + ".unix"
    process = subprocess.Popen(
        [gemmd, "--listen", f"unix:{path}"], stdout=writer, env={
            **clean, "NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(WATCHDOG_US)})
    os.close(writer)
    try:
        wait_for_food(manager)
        with Wire(path) as wire:
            for _ in range(400):  # 80 KiB of lines, for a pipe of 64 KiB
                wire.send(request("GET", "/livez?" + "x" * 200))
                assert wire.receive().status == 200
        drained(manager)
        wait_for_food(manager, 3)
    finally:
        os.close(reader)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("variables", [
    {"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"},
    {"WATCHDOG_USEC": ""},
])
def test_no_watchdog_no_food(variables, start, manager):
    watched(start, manager, **variables)
    assert not is_fed(manager, 0.3)


@pytest.mark.parametrize("path", ["/nonexistent/notify.sock", "relative", "@" + "x" * 200, "",
                                  "vsock:2:1"])
def test_an_unusable_notify_socket_is_no_obstacle(path, start):
    daemon = start(environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": str(WATCHDOG_US)})
    assert exchange(daemon.address, request("GET", "/readyz")).status == 200

"""Starting, options and their sources, sockets from elsewhere, draining, ending."""

import grp
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import time

import numpy as np
import pytest

from daemon import PATIENCE_S
from oracle import wait_until
from problem import assert_problem
from wire import Wire, exchange, request

OCTETS = ("Content-Type", "application/octet-stream")
BODY = np.arange(8, dtype=np.float32).tobytes()
RIGHT = np.array([6, 7, 26, 31], np.float32).tobytes()
TARGET = "/gemm?m=2&n=2&k=2"
GOOD = request("POST", TARGET, [OCTETS, ("Content-Length", 32)], BODY)
ASK = request("POST", TARGET, [OCTETS, ("Content-Length", 32), ("Expect", "100-continue")])


def run(gemmd, *arguments, environment=None):
    """A call that ends by itself."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GEMMD_")}
    return subprocess.run([gemmd, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**clean, **(environment or {})}, check=False)


def config(gemmd, *arguments, environment=None):
    result = run(gemmd, *arguments, "--check-config", environment=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# ---- OpenBLAS -------------------------------------------------------------------------------------

def flags_of_this_cpu():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    return set((re.search(r"^flags\s*:(.*)$", text, re.MULTILINE) or ["", ""])[1].split())


def library_of(daemon):
    return daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["build"]["library"]


def test_openblas_has_code_for_this_cpu(start):
    """OpenBLAS takes a CPU that is newer than itself for a Prescott, which has no AVX2."""
    able = {"avx2", "fma"} <= flags_of_this_cpu()
    daemon = start("--backend", "cpu")
    assert "OpenBLAS" in library_of(daemon)
    assert not able or "Prescott" not in library_of(daemon)
    name = pathlib.Path(f"/proc/{daemon.pid}/comm").read_text(encoding="utf-8")
    assert name.strip() == "gemmd", "a daemon that is found by its name"
    result = daemon.session.post(daemon.url + TARGET, BODY, timeout=PATIENCE_S,
                                 headers=dict([OCTETS]))
    assert result.content == RIGHT


@pytest.mark.skipif("pni" not in flags_of_this_cpu(), reason="no x86")  # pni: SSE3
def test_a_choice_of_openblas_core_stays(start):
    daemon = start("--backend", "cpu", environment={"OPENBLAS_CORETYPE": "Prescott"})
    assert "Prescott" in library_of(daemon)


# ---- options ------------------------------------------------------------------------------------

def test_version(gemmd):
    result = run(gemmd, "--version")
    assert result.returncode == 0
    assert result.stdout.startswith("gemmd 0.")
    assert result.stderr == ""


def test_help_names_every_option(gemmd):
    result = run(gemmd, "--help")
    assert result.returncode == 0
    assert result.stderr == ""
    for option in config(gemmd):
        assert f"--{option}" in result.stdout, option
    for option in ("listen", "config", "check-config", "version", "log-level", "token-file"):
        assert f"--{option}" in result.stdout


@pytest.mark.parametrize("arguments, says", [
    (["--nosuch"], "nosuch"),
    (["--max-bdy", "1"], "--max-body"),
    (["--max-body"], "max-body"),
    (["--max-body", "-1"], "max-body"),
    (["--max-body", "1X"], "max-body"),
    (["--queue-requests", "0"], "queue-requests"),
    (["--queue-requests", "99999999999999999999"], "queue-requests"),
    (["--backend", "tpu"], "auto, cuda"),
    (["--timeout", "soon"], "timeout"),
    (["--listen", "nonsense"], "listen"),
    (["--listen", "127.0.0.1:99999"], "listen"),
    (["--listen", "unix:" + "x" * 200], "listen"),
    (["--config", "/nonexistent/file"], "/nonexistent/file"),
    (["--config", "/"], "/ is a directory"),
    (["--pinned-bytes", "1M", "--max-body", "1G"], "max-body"),
    (["stray"], "stray"),
])
def test_wrong_options(arguments, says, gemmd):
    """One sentence on standard error, status 2."""
    result = run(gemmd, *arguments)
    assert result.returncode == 2, result
    assert result.stderr.startswith("gemmd: ") and result.stderr.count("\n") == 1
    assert says in result.stderr


@pytest.mark.parametrize("argument", ["--help", "--version", "--check-config"])
def test_disk_that_is_full(argument, gemmd):
    with open("/dev/full", "wb") as full:
        result = subprocess.run([gemmd, argument], stdout=full, stderr=subprocess.PIPE, text=True,
                                timeout=PATIENCE_S, check=False)
    assert (result.returncode, result.stderr) == (
        1, "gemmd: standard output could not be written\n")


def test_sources_in_order(gemmd, tmp_path):
    """flag > environment > file > default."""
    file = tmp_path / "gemmd.json"
    file.write_text(json.dumps({"queue-requests": 11, "streams": 3, "io-threads": 2}))
    environment = {"GEMMD_QUEUE_REQUESTS": "22", "GEMMD_STREAMS": "4"}
    default = config(gemmd)
    got = config(gemmd, "--config", file, "--queue-requests", "33", environment=environment)
    assert (got["queue-requests"], got["streams"], got["io-threads"]) == (33, 4, 2)
    assert got["max-connections"] == default["max-connections"]
    got = config(gemmd, environment={**environment, "GEMMD_CONFIG": str(file)})
    assert (got["queue-requests"], got["streams"], got["io-threads"]) == (22, 4, 2)


@pytest.mark.parametrize("text, says", [
    ("{", "JSON|line"), ("[]", "object"), ('{"nosuch": 1}', "nosuch"),
    ('{"streams": "many"}', "streams"), ('{"streams": 1, "streams": 2}', "streams|[Dd]uplicate"),
    ('{"streams": 0}', "streams"), ('{"queue-requests": 1.5}', "queue-requests"),
])
def test_wrong_config_files(text, says, gemmd, tmp_path):
    file = tmp_path / "gemmd.json"
    file.write_text(text)
    result = run(gemmd, "--config", file, "--check-config")
    assert result.returncode == 2
    assert re.search(says, result.stderr), result.stderr
    assert str(file)[:40] in result.stderr


def test_wrong_environment(gemmd):
    result = run(gemmd, "--check-config", environment={"GEMMD_STREAMS": "many"})
    assert result.returncode == 2
    assert "GEMMD_STREAMS" in result.stderr


@pytest.mark.parametrize("variable, says", [
    ("GEMMD_TOKENFILE", "GEMMD_TOKENFILE belongs to no option; did you mean GEMMD_TOKEN_FILE?"),
    ("GEMMD_QUEUE_REQUEST", "did you mean GEMMD_QUEUE_REQUESTS?"),
    ("GEMMD_PORT", "GEMMD_PORT belongs to no option"),
    ("GEMMD_CHECK_CONFIG", "GEMMD_CHECK_CONFIG belongs to no option"),
    ("GEMMD_", "GEMMD_ belongs to no option"),
    ("GEMMD_" + "X" * 500, "XXX belongs to no option"),
])
@pytest.mark.parametrize("arguments", [(), ("--check-config",)])
def test_unknown_variables(variable, says, arguments, gemmd):
    """One sentence on standard error, status 2, as for an unknown flag."""
    result = run(gemmd, *arguments, environment={variable: "8080"})
    assert result.returncode == 2, result
    assert result.stderr.startswith("gemmd: ") and result.stderr.count("\n") == 1
    assert says in result.stderr


def test_variables_of_others(gemmd):
    """Those of clients, those that Kubernetes sets for a service called gemmd or gemmd-something,
    and empty ones."""
    assert config(gemmd, environment={
        "GEMMD_URL": "http://gemmd:8080", "GEMMD_TOKEN": "secret", "GEMMD_VERSION": "0.2.0",
        "GEMMD_SERVICE_HOST": "10.0.0.1", "GEMMD_SERVICE_PORT": "8080",
        "GEMMD_SERVICE_PORT_HTTP": "8080", "GEMMD_PORT": "tcp://10.0.0.1:8080",
        "GEMMD_PORT_8080_TCP": "tcp://10.0.0.1:8080", "GEMMD_PORT_8080_TCP_PROTO": "tcp",
        "GEMMD_PORT_8080_TCP_PORT": "8080", "GEMMD_PORT_8080_TCP_ADDR": "10.0.0.1",
        "GEMMD_GPU_SERVICE_HOST": "10.0.0.2", "GEMMD_GPU_PORT": "tcp://10.0.0.2:8080",
        "GEMMD_GPU_PORT_8080_TCP_ADDR": "10.0.0.2", "GEMMD_NOTHING": ""}) == config(gemmd)


def test_checked_config_is_a_config_file(gemmd, tmp_path):
    first = run(gemmd, "--queue-requests", "77", "--check-config")
    file = tmp_path / "gemmd.json"
    file.write_text(first.stdout)
    assert config(gemmd, "--config", file) == json.loads(first.stdout)


# ---- sockets ------------------------------------------------------------------------------------

def test_descriptors_belong_to_the_daemon_alone(start):
    """Whatever program the daemon starts, such as its successor, inherits none but those that it is given; and no
    socket, of a connection that is silent or of one that was served, can block a thread."""
    daemon = start()
    with Wire(daemon.address) as silent, Wire(daemon.address) as served:
        served.send(request("GET", "/livez"))
        assert served.receive().status == 200
        ports = {f"{wire.socket.getsockname()[1]:04X}" for wire in (silent, served)}
        folder, seen, connections = pathlib.Path(f"/proc/{daemon.pid}"), 0, 0
        inodes = {fields[9] for line in (folder / "net/tcp").read_text().splitlines()[1:]
                  if (fields := line.split())[2].rpartition(":")[2] in ports}
        for link in (folder / "fd").iterdir():
            flags = int(re.search(r"flags:\s+(\d+)", (folder / "fdinfo" / link.name).read_text())[1], 8)
            target = os.readlink(link)
            if int(link.name) > 2:
                seen += 1
                assert flags & os.O_CLOEXEC, f"{target} is inherited by programs that the daemon starts"
            if target.startswith("socket:"):
                assert flags & os.O_NONBLOCK, f"{target} can block"
                connections += target[8:-1] in inodes
    assert seen > 3 and connections == 2, (seen, connections)


def test_second_instance_on_the_same_port(start, gemmd):
    daemon = start()
    host, port = daemon.address
    result = run(gemmd, "--listen", f"{host}:{port}")
    assert result.returncode == 1
    assert f"{host}:{port}" in result.stderr and "in use" in result.stderr
    assert exchange(daemon.address, GOOD).body == RIGHT, "the first one goes on"


def test_unix_socket(start, tmp_path, gemmd):
    path = str(tmp_path / "gemmd.sock")
    daemon = start(listen=(f"unix:{path}",))
    assert daemon.addresses == [f"unix:{path}"]
    assert exchange(path, GOOD).body == RIGHT
    second = run(gemmd, "--listen", f"unix:{path}")
    assert second.returncode == 1 and "in use" in second.stderr
    assert exchange(path, GOOD).body == RIGHT
    daemon.stop()
    assert not os.path.exists(path), "its file stays behind"


def test_mode_and_group_of_a_unix_socket(start, tmp_path):
    """The daemon's own group by its number, which needs no root. The umask of the daemon does not count."""
    path = tmp_path / "gemmd.sock"
    daemon = start("--socket-mode", "0626", "--socket-group", os.getgid(), listen=(f"unix:{path}", "127.0.0.1:0"))
    file = os.stat(path)
    assert (stat.S_IMODE(file.st_mode), file.st_gid) == (0o626, os.getgid())
    assert exchange(str(path), GOOD).body == RIGHT
    daemon.stop()
    assert not path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose a group that it is not in")
@pytest.mark.parametrize("group", ["12345", grp.getgrgid(1).gr_name])
def test_group_of_a_unix_socket(group, start, tmp_path):
    path = tmp_path / "gemmd.sock"
    start("--socket-group", group, listen=(f"unix:{path}",))
    file = os.stat(path)
    assert file.st_gid == (12345 if group == "12345" else 1)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.st_mode) == 0o777 & ~umask, "the umask decides"


@pytest.mark.parametrize("arguments, status, says", [
    (("--socket-mode", "0680"), 2, '--socket-mode is "0680"; it must be an octal number from 0 to 0777, such as 0660'),
    (("--socket-group", "no-such-group"), 1, "there is no group no-such-group (--socket-group)"),
])
@pytest.mark.parametrize("check", [["--check-config"], []], ids=["check-config", "start"])
def test_mode_and_group_that_cannot_be(arguments, status, says, check, gemmd, tmp_path):
    path = tmp_path / "gemmd.sock"
    result = run(gemmd, "--listen", f"unix:{path}", *arguments, *check)
    assert result.returncode == status
    assert says in result.stderr
    assert not path.exists()


def test_stale_unix_socket_is_replaced(start, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    with socket.socket(socket.AF_UNIX) as crashed:
        crashed.bind(path)
        crashed.listen()
    start(listen=(f"unix:{path}",))
    assert exchange(path, GOOD).body == RIGHT


def test_a_file_is_not_replaced(gemmd, tmp_path):
    path = tmp_path / "precious"
    path.write_text("data")
    result = run(gemmd, "--listen", f"unix:{path}")
    assert result.returncode == 1 and "not a socket" in result.stderr
    assert path.read_text() == "data"


def test_abstract_unix_socket(start):
    name = f"gemmd-test-{os.getpid()}"
    start(listen=(f"unix:@{name}",))
    assert exchange(f"\0{name}", GOOD).body == RIGHT


# Runs a program where the control groups' file system shows a CPU quota of $0 microseconds in each 100 ms.
WITH_QUOTA = ("unshare", "-rm", "bash", "-c", """
    mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu && echo "$0 100000" > /sys/fs/cgroup/cpu.max &&
    echo "$0" > /sys/fs/cgroup/cpu/cpu.cfs_quota_us && echo 100000 > /sys/fs/cgroup/cpu/cpu.cfs_period_us &&
    exec "$@" """)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a quota cannot be less than one core")
@pytest.mark.skipif(subprocess.run([*WITH_QUOTA, "1", "true"], capture_output=True, check=False).returncode != 0,
                    reason="the system does not let this user mount a file system")
def test_a_cpu_quota_decides_the_numbers_of_threads(start):
    def threads(daemon):
        return sorted((task / "comm").read_text() for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir())

    one, each = start("--backend", "cpu", "--cpu-threads", 1, "--io-threads", 1), start("--backend", "cpu")
    part = start("--backend", "cpu", wrapper=(*WITH_QUOTA, "60000"))
    more = start("--backend", "cpu", wrapper=(*WITH_QUOTA, "102400000"))
    # A thread that has just begun has no name yet.
    wait_until(lambda: threads(part) == threads(one), "0.6 cores to have the threads of one")
    wait_until(lambda: threads(more) == threads(each), "1024 cores to be more than there are")
    assert len(threads(each)) > len(threads(one))


def test_several_addresses(start, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    daemon = start(listen=("127.0.0.1:0", f"unix:{path}", "127.0.0.1:0"))
    assert len(daemon.addresses) == 3
    for address in daemon.addresses:
        if address.startswith("unix:"):
            assert exchange(path, GOOD).body == RIGHT
        else:
            host, _, port = address.rpartition(":")
            assert exchange((host, int(port)), GOOD).body == RIGHT


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
@pytest.mark.parametrize("address, public", [("127.0.0.1:0", False), ("0.0.0.0:0", True)])
def test_an_open_door_is_said(address, public, start):
    daemon = start("--allow-insecure-network", listen=(address,))
    daemon.stop()
    assert any("no --token-file" in line for line in daemon.messages()) == public


def test_a_public_address_with_tokens(start, tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice:a-token-of-some-length\n")
    daemon = start("--token-file", str(file), listen=("0.0.0.0:0",))
    daemon.stop()
    assert not any("no --token-file" in line for line in daemon.messages())
    assert any("in the clear" in line for line in daemon.messages())


def test_ipv6(start):
    daemon = start(listen=("[::1]:0",))
    assert exchange(daemon.address, GOOD).body == RIGHT


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_inherited_socket(kind, start, tmp_path):
    """Socket activation: LISTEN_FDS sockets from descriptor 3 on, LISTEN_PID says whose."""
    path = str(tmp_path / "inherited.sock")
    if kind == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        address = path
    with listener:
        # A shell moves the socket to descriptor 3 and becomes the daemon, whose pid it thus knows.
        fd = listener.fileno()
        script = f'exec 3<&{fd}; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'
        daemon = start(listen=None, wrapper=("bash", "-c", script, "bash"), pass_fds=(fd,),
                       ready=False)
        daemon.wait_until_listening()
        assert len(daemon.addresses) == 1, "it listens where it is told to, not on the default"
        assert exchange(address, GOOD).body == RIGHT
        daemon.stop()
    assert kind == "tcp" or stat.S_ISSOCK(os.stat(path).st_mode), "the file is not the daemon's"


def test_sockets_for_another_process_are_not_taken(start):
    daemon = start(environment={"LISTEN_FDS": "1", "LISTEN_PID": "1"})
    assert exchange(daemon.address, GOOD).body == RIGHT
    assert len(daemon.addresses) == 1


def test_notify(start, tmp_path):
    path = str(tmp_path / "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(PATIENCE_S)
        daemon = start(environment={"NOTIFY_SOCKET": path})
        assert "READY=1" in manager.recv(4096).decode().splitlines()
        daemon.stop()
        messages = []
        while "STOPPING=1" not in messages:
            messages += manager.recv(4096).decode().splitlines()


# ---- the end ------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_status_0(number, start):
    daemon = start(wrapper=("env", "--default-signal"))
    daemon.process.send_signal(number)
    assert daemon.wait() == 0
    assert f"draining: {number.name}" in daemon.messages()
    assert "drained" in daemon.messages()


def test_a_hang_up_that_nohup_has_ignored(start):
    daemon = start(wrapper=("env", "--ignore-signal=HUP"))
    daemon.process.send_signal(signal.SIGHUP)
    assert exchange(daemon.address, GOOD).body == RIGHT
    daemon.stop()
    assert "draining: SIGTERM" in daemon.messages()


def test_accepted_work_is_finished(start):
    """A request whose place was granted before SIGTERM gets its answer after it."""
    daemon = start()
    with Wire(daemon.address) as wire:
        wire.send(ASK)
        assert wire.receive().status == 100
        daemon.terminate()
        daemon.wait_for(lambda lines: any("draining" in str(line.get("message", ""))
                                          for line in lines), "the line that it drains")
        wire.send(BODY)
        answer = wire.receive()
        assert (answer.status, answer.body) == (200, RIGHT)
    assert daemon.wait() == 0


def test_running_work_is_finished(start, instrumented):
    size = 200 if instrumented else 400
    random = np.random.default_rng(1)
    body = random.uniform(-1, 1, 2 * size * size).astype(np.float32).tobytes()
    head = request("POST", f"/gemm?m={size}&n={size}&k={size}&kernel=naive",
                   [OCTETS, ("Content-Length", len(body)), ("Expect", "100-continue")])
    daemon = start("--drain-timeout", "600s")
    wires = [Wire(daemon.address) for _ in range(4)]
    try:
        for wire in wires:
            wire.send(head)
            assert wire.receive().status == 100, "it is accepted"
        wires[0].send(body)
        expected = wires[0].receive().body
        wires[0].send(head)
        assert wires[0].receive().status == 100
        for wire in wires:
            wire.send(body)
        daemon.wait_for(lambda _: has_begun(daemon), "a product that runs")
        daemon.terminate()
        for wire in wires:
            answer = wire.receive()
            assert (answer.status, answer.body) == (200, expected)
    finally:
        for wire in wires:
            wire.socket.close()
    assert daemon.wait() == 0


def has_begun(daemon):
    """Whether a product runs, or one has been answered after the first."""
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines())
    return (float(values["gemmd_requests_running"]) > 0
            or float(values.get('gemmd_request_duration_seconds_count{op="gemm"}', 0)) > 1)


def test_not_ready_while_draining(start):
    """During --drain-delay it still serves, but says that it will go."""
    daemon = start("--drain-delay", "600s")
    daemon.terminate()
    daemon.wait_for(lambda lines: any("draining" in str(line.get("message", ""))
                                      for line in lines), "the line that it drains")
    answer = exchange(daemon.address, request("GET", "/readyz"))
    assert_problem(answer, 503, "shutting down")
    assert int(answer.headers["retry-after"]) >= 1
    assert exchange(daemon.address, request("GET", "/livez")).status == 200
    assert exchange(daemon.address, GOOD).body == RIGHT
    daemon.terminate()
    assert daemon.wait() == 0


def test_the_drain_delay_ends(start):
    daemon = start("--drain-delay", "200ms")
    daemon.terminate()
    assert daemon.wait() == 0


def test_idle_connections_do_not_hold_it_up(start):
    daemon = start()
    with Wire(daemon.address) as used, Wire(daemon.address):
        used.send(GOOD)
        assert used.receive().body == RIGHT
        daemon.terminate()
        assert daemon.wait() == 0


def test_second_signal_ends_it_at_once(start):
    """A client that never sends its body holds a drain up, until asked twice."""
    daemon = start("--drain-timeout", "600s")
    with Wire(daemon.address) as wire:
        wire.send(ASK)
        assert wire.receive().status == 100
        daemon.terminate()
        daemon.wait_for(lambda lines: any("draining" in str(line.get("message", ""))
                                          for line in lines), "the line that it drains")
        daemon.terminate()
        assert daemon.wait() == 0


def test_drain_timeout(start):
    daemon = start("--drain-timeout", "300ms")
    with Wire(daemon.address) as wire:
        wire.send(ASK)
        assert wire.receive().status == 100
        daemon.terminate()
        assert daemon.wait() == 0


# ---- what it logs -------------------------------------------------------------------------------

def test_access_log(start):
    daemon = start()
    answer = exchange(daemon.address, GOOD.replace(b"Host:", b"X-Request-Id: find-me\r\nHost:"))
    assert answer.status == 200
    line = daemon.wait_for(lambda lines: next(
        (line for line in lines if line.get("request_id") == "find-me"), None), "its line")
    assert (line["method"], line["path"], line["status"]) == ("POST", TARGET, 200) or (
        line["path"] == "/gemm")
    assert (line["m"], line["n"], line["k"], line["dtype"]) == (2, 2, 2, "f32")
    assert line["kernel"] == answer.headers["gemmd-kernel"]


def test_log_lines_cannot_be_forged(start):
    daemon = start()
    exchange(daemon.address, request("GET", "/x%0a%7b%22level%22:%22error%22%7d", [
        ("X-Request-Id", 'a"b\\c')]))
    exchange(daemon.address, GOOD)
    daemon.wait_for(lambda lines: {404, 200} <= {
        line.get("status") for line in lines if line.get("path") != "/readyz"}, "the lines of both requests")
    assert not any(line.get("text") for line in daemon.lines), "every line is one JSON object"
    assert not any(line.get("level") == "error" for line in daemon.lines)


def test_no_access_log(start):
    daemon = start("--no-access-log")
    exchange(daemon.address, GOOD)
    daemon.stop()
    assert not any("method" in line for line in daemon.lines)


def test_text_log(start):
    daemon = start("--log-format", "text")
    exchange(daemon.address, GOOD)
    daemon.stop()
    assert any(line.get("text") and "/gemm" in line["message"] for line in daemon.lines)


def start_redirected(start, path, command):
    """It cannot say that it listens: the file is there a little before connections are taken."""
    start(listen=(f"unix:{path}",), ready=False, wrapper=("bash", "-c", command, "bash"))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return exchange(path, GOOD)
        except (FileNotFoundError, ConnectionRefusedError):
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.02)


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "<&- >&- 2>&-"],
                         ids=["full", "closed", "all closed"])
def test_standard_output_that_takes_nothing(redirection, start, tmp_path):
    path = str(tmp_path / "gemmd.sock")
    start_redirected(start, path, f'exec "$@" {redirection}')
    for _ in range(3):
        assert exchange(path, GOOD).body == RIGHT


def test_log_as_long_as_files_may_be(start, tmp_path):
    """It ends there; the daemon goes on to its own end."""
    path, log = str(tmp_path / "gemmd.sock"), tmp_path / "log"
    start_redirected(start, path, f'ulimit -f 1; exec "$@" >{log}')
    deadline = time.monotonic() + PATIENCE_S
    while log.stat().st_size < 1024:
        assert exchange(path, GOOD).body == RIGHT
        assert time.monotonic() < deadline, "nothing is logged"
    assert exchange(path, GOOD).body == RIGHT


# ---- with nothing to do -------------------------------------------------------------------------

def sleeps(task):
    """Whether the thread waits for something; one that only asks again and again never does."""
    return (task / "stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_every_thread_of_an_idle_daemon_sleeps(start):
    daemon = start()  # its standard input is /dev/null, which is always readable
    deadline = time.monotonic() + PATIENCE_S
    names = {}
    while not {"dispatch", "jobs", "shm", "io-0"} <= set(names.values()):  # a thread names itself once it runs
        assert time.monotonic() < deadline, names
        names = {task: (task / "comm").read_text().strip()
                 for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()}
    for task in names:
        while not sleeps(task):
            assert time.monotonic() < deadline, f"thread {names[task]} never sleeps"
            time.sleep(0.01)

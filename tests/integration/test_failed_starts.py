"""A start during which the system refuses something: the daemon says so and ends, or it serves."""

import concurrent.futures
import os
import resource
import signal
import subprocess
import threading

import pytest

from daemon import PATIENCE_S

SMALL = ("--backend", "cpu", "--cpu-threads", "1", "--io-threads", "1", "--pinned-bytes", "16M",
         "--device-bytes", "16M", "--tensor-bytes", "16M")
WORKERS = 4
STEP = 3


def start_and_stop(gemmd, name, environment=None, limit=None):
    """Starts a daemon, and stops one that serves. Returns its exit status, whether it served, and
    what it wrote to standard error."""
    command = [gemmd, *SMALL, "--listen", f"unix:@gemmd-fault-{os.getpid()}-{name}"]
    with subprocess.Popen(command, env={**os.environ, **(environment or {})}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=limit) as process:
        patience = threading.Timer(PATIENCE_S, process.kill)
        patience.start()
        served = False
        for line in process.stdout:
            if "listening on" in line:
                served = True
                process.terminate()
        error = process.stderr.read()
        status = process.wait()
        patience.cancel()
    return status, served, error


def is_right(status, served, error):
    if served:
        return status == 0 and error == ""
    return status in (1, 2) and error.startswith("gemmd: ") and error.count("\n") == 1


def is_abort_of_libuv(status, report):
    """libuv itself calls abort in two places that a start passes: where uv_loop_init gets no pipe
    for signals, and where uv_run cannot watch a descriptor."""
    return status == -signal.SIGABRT and ("uv_loop_init" in report or "uv_run" in report)


def is_in_destructor(report):
    """Whether the call that failed was made after main: there the counts of gcov are written, which do not
    survive a failed allocation."""
    return "ld-linux" in report


def test_calls_of_a_start_fail(gemmd, sanitized, counted, request, tmp_path):
    """The library that the daemon preloads makes its n-th allocation, thread or descriptor fail. The
    seed chooses which third of the calls a run covers."""
    if sanitized:
        pytest.skip("a sanitizer replaces the same functions")
    library = gemmd.parents[1] / "tests" / "fail_calls.so"
    assert library.exists(), "CMake builds the library with -DGEMMD_TESTS=ON"

    def failed_call(number):
        report = tmp_path / str(number)
        outcome = start_and_stop(gemmd, number, {
            "LD_PRELOAD": str(library), "FAIL_CALL": str(number), "FAIL_CALL_REPORT": str(report)})
        text = report.read_text() if report.exists() else ""
        assert (is_right(*outcome) or is_abort_of_libuv(outcome[0], text)
                or counted and is_in_destructor(text)), (number, outcome, text)
        return text != ""

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as executor:
        number, reached = 1 + request.config.option.seed % STEP, True
        while reached:
            numbers = range(number, number + 2 * WORKERS * STEP, STEP)
            number, reached = numbers.stop, any(list(executor.map(failed_call, numbers)))
    assert number > 50, "too few calls were counted"


def test_the_null_device_cannot_be_opened(gemmd, sanitized, tmp_path):
    """The first file that main opens. On a CPU that OpenBLAS does not know, the daemon would start itself again and
    the count with it, unless OPENBLAS_CORETYPE is set."""
    if sanitized:
        pytest.skip("a sanitizer replaces the same functions")
    for number in range(1, 100):
        report = tmp_path / str(number)
        outcome = start_and_stop(gemmd, f"null-{number}", {
            "LD_PRELOAD": str(gemmd.parents[1] / "tests" / "fail_calls.so"), "FAIL_CALL": str(number),
            "FAIL_CALL_REPORT": str(report), "OPENBLAS_CORETYPE": "Prescott"})
        if report.read_text().startswith("open\n"):
            assert outcome == (1, False, "gemmd: /dev/null cannot be opened\n")
            return
    pytest.fail("no file was opened")


@pytest.mark.parametrize("files", [*range(4, 24, 2), 32, 64])
def test_few_descriptors(files, gemmd):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    outcome = start_and_stop(gemmd, f"files-{files}", limit=limit)
    if files == 4:  # the program's libraries need more, and the loader writes its own sentence
        assert outcome[0] > 0 and outcome[2] != ""
        return
    assert is_right(*outcome), outcome


def limit_addresses(mebibytes):
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))


@pytest.fixture(scope="module")
def least_mebibytes(gemmd):
    """The least addresses in which the loader can map the program and its libraries, which it then
    lists without running any of their code."""
    environment = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    few, enough = 0, 1 << 14
    while few + 1 < enough:
        middle = (few + enough) // 2
        run = subprocess.run([gemmd], env=environment, capture_output=True, check=False,
                             preexec_fn=lambda: limit_addresses(middle))
        few, enough = (few, middle) if run.returncode == 0 else (middle, enough)
    return enough


# With less than 16 MiB more, OpenBLAS ends the process before main.
# With about 120 MiB more, OpenBLAS's own thread may wait for its buffer of 128 MiB and take what the
# daemon wants. The daemon serves only where each of OpenBLAS's threads can have 256 MiB.
@pytest.mark.parametrize("more", [20, 36, 52, 84, 118, 124, 130, 300, 560, 600, 1000])
def test_little_memory(more, gemmd, sanitized, request):
    if sanitized:
        pytest.skip("a sanitizer needs terabytes of addresses")
    mebibytes = request.getfixturevalue("least_mebibytes") + more
    outcome = start_and_stop(gemmd, f"memory-{more}", limit=lambda: limit_addresses(mebibytes))
    assert is_right(*outcome), outcome

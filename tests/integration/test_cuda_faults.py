"""Calls of CUDA fail, one call site after another: on a GPU where one answers, and otherwise on a GPU that
tests/faults/simulated_cuda.c simulates. Requests get a right result or an answer that tells them to repeat,
the daemon goes on, and after a sticky error it replaces itself."""

import collections
import os
import subprocess
import threading
import time
import uuid

import numpy as np
import pytest

from daemon import PATIENCE_S, Daemon
from failing_cuda import (ANY_LAUNCH, BUSY, ERROR, ILLEGAL_ADDRESS, INVALID_VALUE, MEMORY_ALLOCATION, OCTETS,
                          STICKY, TRAP, WAIT, Clients, Plan, Workload, program_of)
from patience import wait_until
from wire import exchange, request

# One stream for large works, so that works can be made to wait for each other.
OPTIONS = ("--backend", "cuda", "--devices", "0", "--streams", "1", "--device-bytes", "64M", "--tensor-bytes",
           "16M", "--pinned-bytes", "64M", "--shm-system")
SMALL = request("POST", "/gemm?m=2&n=2&k=2", [OCTETS, ("Content-Length", 32)],
                np.ones(8, np.float32).tobytes())
# Calls whose failure ends the context, because a stream that cannot be waited for may still use memory.
WAITS = "cudaStreamSynchronize"


@pytest.fixture(scope="module")
def program(gemmd):
    found = program_of(gemmd)
    if found is None:
        pytest.skip("there is neither a GPU nor a build with the headers of CUDA")
    return found


@pytest.fixture
def begin(program, tmp_path):
    """Starts daemons, each with a plan of its own."""
    daemons = []

    def starter(*options, ready=True):
        plan = Plan(tmp_path / uuid.uuid4().hex)
        daemon = Daemon(program, *OPTIONS, *options, environment=plan.environment)
        daemons.append(daemon)
        if ready:
            daemon.wait_until_listening().wait_until_ready()
        return daemon, plan

    try:
        yield starter
        for daemon in daemons:
            if daemon.process.returncode is None:
                daemon.stop()
    finally:
        for daemon in daemons:
            daemon.close()


def restarts(daemon):
    return sum("again, with the listening sockets" in message for message in daemon.messages())


def wait_for_restart(daemon, before):
    daemon.wait_for(lambda _: restarts(daemon) > before, "the restart")
    daemon.wait_until_ready()
    daemon.session.close()


def assert_may_be_repeated(answer):
    assert answer is None or (answer.status == 503 and int(answer.headers["retry-after"]) >= 1), answer


@pytest.fixture
def serving(begin):
    """A daemon with a workload that has been through it once, and the sites that the workload reaches."""
    workloads = []

    def starter():
        daemon, plan = begin()
        before = plan.sites()
        workload = Workload(daemon, plan)
        workloads.append(workload)
        reached = [site for site, calls in plan.sites().items() if calls > before.get(site, 0)]
        return daemon, plan, workload, sorted(reached, key=lambda site: site.offset)

    try:
        yield starter
    finally:
        for workload in workloads:
            workload.close()


def test_each_serving_call_lacks_memory(serving):
    """The request of the failed call is answered with 503; the others get their results."""
    daemon, plan, workload, sites = serving()
    assert {"cudaMemcpyAsync", "cudaLaunchKernelExC", "cudaEventRecord", "cudaEventQuery",
            "cudaHostRegister"} <= {site.name for site in sites}
    unreached = []
    for site in sites:
        if site.name == WAITS:
            continue
        plan.arm(ERROR, site.offset, MEMORY_ALLOCATION)
        refused = workload.run()
        if plan.disarm() == 0:
            unreached.append(site)
        for step, answer in refused.items():
            assert answer is not None and answer.status == 503, (str(site), step, answer)
            assert_may_be_repeated(answer)
        # Works that share a launch fail together, and they are of one step.
        assert len(refused) <= 1, (str(site), refused)
    assert len(unreached) <= len(sites) / 10, [str(site) for site in unreached]
    assert workload.run() == {}
    assert restarts(daemon) == 0


def test_each_serving_call_refuses_its_arguments(serving):
    """An error that no repetition mends is answered with 500, and the next request gets its result."""
    daemon, plan, workload, sites = serving()
    for site in sites:
        if site.name == WAITS:
            continue
        plan.arm(ERROR, site.offset, INVALID_VALUE)
        refused = workload.run()
        plan.disarm()
        # Registering shared memory has no other error than that there is no memory.
        for step, answer in refused.items():
            assert answer is not None and answer.status in ((500,) if step != "region" else (500, 503)), \
                (str(site), step, answer)
        assert len(refused) <= 1, (str(site), refused)
    assert workload.run() == {}
    assert restarts(daemon) == 0


@pytest.mark.parametrize("name", ["cudaMemcpyAsync", "cudaLaunchKernelExC", "cudaEventRecord",
                                  "cudaEventQuery"])
def test_a_sticky_error_of_a_call(name, serving):
    """Every call fails from then on: the daemon replaces itself, and then computes what it did before."""
    daemon, plan, workload, sites = serving()
    pid, calls = daemon.pid, plan.sites()
    site = max((site for site in sites if site.name == name), key=calls.get)
    before = restarts(daemon)
    plan.arm(STICKY, site.offset, ILLEGAL_ADDRESS)
    refused = workload.run()
    assert plan.disarm() == 1
    wait_for_restart(daemon, before)
    assert refused, "no request noticed"
    for answer in refused.values():
        # The new start has no resident tensor.
        if answer is None or answer.status != 404:
            assert_may_be_repeated(answer)
    assert (daemon.pid, daemon.process.poll()) == (pid, None)
    workload.prepare()
    assert workload.run() == {}


def sites_of_each_call(plan, most=8):
    """Up to `most` sites for each function of CUDA, evenly spaced in the program."""
    by_name = {}
    for site in sorted(plan.sites(), key=lambda site: site.offset):
        by_name.setdefault(site.name, []).append(site)
    return [sites[i] for sites in by_name.values()
            for i in range(0, len(sites), -(-len(sites) // most))]


def test_each_call_fails_at_the_start(begin):
    """The daemon ends with a message, or starts and computes. A GPU has a hundred kernels that are launched
    at the start, of which some are enough."""
    daemon, plan = begin()
    sites = sites_of_each_call(plan)
    daemon.stop()
    failures, slots = [], threading.Semaphore(max(2, os.cpu_count() // 2))

    def start(site):
        with slots:
            one, its = begin(ready=False)
            its.arm(ERROR, site.offset, MEMORY_ALLOCATION)
            try:
                wait_for_end_of_start(one)
                if one.process.poll() is None:
                    one.wait_until_listening()
                    answer = exchange(one.address, SMALL)
                    assert answer.status == 200 and (np.frombuffer(answer.body, np.float32) == 2).all()
                else:
                    assert one.wait() == 1, "the exit status"
                    assert "gemmd: " in one.stderr(), "no message"
            except Exception as error:  # pylint: disable=broad-except
                failures.append((str(site), str(error)))
            else:
                if one.process.returncode is None:
                    one.stop()

    threads = [threading.Thread(target=start, args=(site,)) for site in sites]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Calls that make something, and the calls that give it back. cudaFree is left out, since a call of it makes
# the context.
PAIRS = {"cudaStreamCreateWithPriority": "cudaStreamDestroy", "cudaStreamCreateWithFlags": "cudaStreamDestroy",
         "cudaEventCreateWithFlags": "cudaEventDestroy", "cudaMallocHost": "cudaFreeHost",
         "cudaHostAlloc": "cudaFreeHost", "cudaHostRegister": "cudaHostUnregister"}


def test_all_that_is_made_is_given_back(serving):
    daemon, plan, _, _ = serving()
    daemon.stop()
    made, given_back = collections.Counter(), collections.Counter()
    for site, calls in plan.sites().items():
        if site.name in PAIRS:
            made[PAIRS[site.name]] += calls
        elif site.name in PAIRS.values():
            given_back[site.name] += calls
    assert made["cudaStreamDestroy"] > 0
    assert made == given_back


def test_a_gpu_with_addresses_of_its_own_for_host_memory(program):
    """Kernels are given the addresses of the host."""
    if program.name != "gemmd-simulated-cuda":
        pytest.skip("there is no build with a simulated GPU")
    ended = subprocess.run([program, *OPTIONS, "--listen", "127.0.0.1:0"], capture_output=True, timeout=PATIENCE_S,
                           check=False, env={**os.environ, "SIMULATED_ELSEWHERE": "1"})
    assert ended.returncode == 1
    assert b"this GPU cannot use host memory where it lies" in ended.stderr, ended.stderr


def wait_for_end_of_start(daemon):
    """Waits until the daemon listens or has ended."""
    wait_until(lambda: daemon.process.poll() is not None
               or any("listening on" in line for line in daemon.messages()), "the end of the start")


def test_a_trap_in_a_kernel(begin):
    """A real sticky error on a GPU, under load: no connection is refused, and no result is wrong."""
    daemon, plan = begin()
    clients = Clients(daemon.address)
    sockets = None
    try:
        for _ in range(3):
            before, computed = restarts(daemon), clients.right_count
            daemon.wait_for(lambda _, computed=computed: clients.right_count > computed + 10, "results")
            plan.arm(TRAP, ANY_LAUNCH)
            wait_for_restart(daemon, before)
            computed = clients.right_count
            daemon.wait_for(lambda _, computed=computed: clients.right_count > computed + 10, "results")
            assert plan.disarm() == 1
            # Each start has as many connections; those of the lost context must be gone. NVML opens files of
            # the driver some time after the start, so that the sockets alone are counted.
            if sockets is None:
                sockets = daemon.descriptors("socket:")
            daemon.assert_descriptors(sockets + len(clients.threads), "socket:")
    finally:
        clients.stop()
    assert clients.wrong == 0
    assert clients.unconnected == 0
    assert clients.statuses <= {200, 503}


def test_gemmctl_sees_a_delay_only(begin, gemmctl, tmp_path):
    """libgemmd repeats the product whose kernel has trapped. A small product has a kernel of the daemon's own,
    whose launch is among the calls that the plan sees."""
    daemon, plan = begin()
    a, b, c = (tmp_path / name for name in ("a.npy", "b.npy", "c.npy"))
    np.save(a, np.ones((13, 19), np.float32))
    np.save(b, np.ones((19, 17), np.float32))
    plan.arm(TRAP, ANY_LAUNCH)
    run = subprocess.run([gemmctl, "--url", daemon.url, "gemm", a, b, "-o", c], capture_output=True,
                         text=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 0, run.stderr
    assert plan.disarm() == 1
    assert (np.load(c) == 19).all()
    daemon.wait_for(lambda _: restarts(daemon) == 1, "the restart")


READYZ = request("GET", "/readyz", [("Connection", "close")])


def becomes_unready(daemon, until):
    """Whether the daemon says before the time `until` that its device has finished nothing."""
    while time.monotonic() < until:
        answer = exchange(daemon.address, READYZ)
        if answer.status == 503 and b"finished nothing" in answer.body:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("fault", [BUSY, WAIT])
def test_a_device_that_hangs(fault, begin):
    """A kernel that does not end, and a call that does not return: the daemon is not ready for as long,
    answers whatever needs no device, ends a request at its deadline, and goes on afterwards. A machine on
    which nobody asks the daemon while the device hangs has the device hang for longer."""
    daemon, plan = begin("--stall-time", "500ms")
    for seconds in (3, 10, 30):
        until = time.monotonic() + seconds
        plan.arm(fault, ANY_LAUNCH, ms=1000 * seconds)
        late = exchange(daemon.address, request(
            "POST", "/gemm?m=130&n=130&k=130&timeout_ms=300",
            [OCTETS, ("Connection", "close"), ("Content-Length", 8 * 130 * 130)], bytes(8 * 130 * 130)))
        assert late.status == 504
        unready = becomes_unready(daemon, until)
        assert exchange(daemon.address, request("GET", "/livez", [("Connection", "close")])).status == 200
        wait_until(lambda: exchange(daemon.address, READYZ).status == 200, "the device to go on")
        assert plan.disarm() == 1
        if unready:
            break
    assert unready, "the daemon stays ready while its device hangs"
    answer = exchange(daemon.address, SMALL)
    assert answer.status == 200 and (np.frombuffer(answer.body, np.float32) == 2).all()
    assert restarts(daemon) == 0


def test_a_probe_without_the_kernel_of_small_products(begin, program):
    """The probe's product then has a launch of its own, with copies, on the stream of probes."""
    small = "small" if program.name == "gemmd-simulated-cuda" else "grouped"
    daemon, _ = begin("--without-kernels", small)
    info = daemon.session.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()
    names = {kernel["name"] for kernel in info["kernels"] if kernel["op"] == "gemm"}
    daemon.session.close()
    assert names and small not in names
    assert exchange(daemon.address, READYZ).status == 200
    answer = exchange(daemon.address, SMALL)
    assert answer.status == 200 and (np.frombuffer(answer.body, np.float32) == 2).all()

#!/usr/bin/env python3
"""Kernels that trap under load, a sticky error of the CUDA context: how long until clients get results again.
Needs the program tests/gemmd-failing-cuda and a GPU, or tests/gemmd-simulated-cuda."""

import tempfile
import time
from pathlib import Path

import figure
import load
from daemon import Daemon
from failing_cuda import ANY_LAUNCH, TRAP, Clients, Plan, program_of

OPTIONS = ("--backend", "cuda", "--devices", "0", "--no-access-log", "--pinned-bytes", "64M", "--device-bytes", "1G",
           "--tensor-bytes", "64M")
LIMIT_S = 3
TRAPS_MAX = 3  # a daemon that is lost more often within a minute ends


def result_after(clients, count):
    """Waits for a result after the first `count`."""
    deadline = time.monotonic() + 60
    while clients.right_count <= count:
        if time.monotonic() > deadline:
            raise TimeoutError("no client got a result within a minute")
        time.sleep(0.001)


def lose(program, folder, number, traps, times):
    """Starts a daemon, and has its context lost over and over under load. Returns the clients."""
    plan = Plan(Path(folder) / str(number))
    daemon = Daemon(program, *OPTIONS, environment=plan.environment)
    try:
        daemon.wait_until_listening().wait_until_ready()
        daemon.session.close()
        clients = Clients(daemon.address)
        try:
            for trap in range(1, traps + 1):
                result_after(clients, clients.right_count + 100)
                plan.arm(TRAP, ANY_LAUNCH)
                begun = time.monotonic()
                daemon.wait_for(lambda _, trap=trap: trap == sum(
                    "again, with the listening" in message for message in daemon.messages()), "the restart")
                replaced = time.monotonic() - begun
                result_after(clients, clients.right_count + 1)
                times.append(time.monotonic() - begun)
                print(f"trap {len(times)}: the program was executed again after {replaced:.2f} s, a result came after "
                      f"{times[-1]:.2f} s", flush=True)
        finally:
            clients.stop()
        daemon.stop()
    finally:
        daemon.close()
    return clients


def measure(options):
    """How long a daemon takes to compute again after a kernel has trapped."""
    program = program_of(options.gemmd)
    if program is None:
        raise figure.CannotRun("there is neither a GPU nor a build with the headers of CUDA")
    count, times, everyone = 1 if options.quick else options.count, [], []
    with tempfile.TemporaryDirectory() as folder:
        while len(times) < count:
            everyone.append(lose(program, folder, len(times), min(TRAPS_MAX, count - len(times)), times))
    wrong, unconnected, right, refused = (sum(getattr(clients, name) for clients in everyone)
                                          for name in ("wrong", "unconnected", "right_count", "refused"))
    simulated = program.name == "gemmd-simulated-cuda"
    return [figure.Figure(
        "F4", f"{count} traps under load: results again after {load.percentile(times, 0.5):.2f} s (p50), "
        f"{max(times):.2f} s at most; {right} right results, {wrong} wrong, {refused} refused with 503, "
        f"{unconnected} refused connections",
        False if wrong or unconnected else None if simulated or options.quick else max(times) <= LIMIT_S,
        "on a simulated GPU, whose start takes another time than a GPU's" if simulated else "")]


if __name__ == "__main__":
    figure.main(measure, [("--count", {"type": int, "default": 6})])

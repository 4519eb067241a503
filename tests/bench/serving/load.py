"""Load on a server: wrk (as fast as it answers), our own clients (at a given rate; one alone)."""

import os
import subprocess
from dataclasses import dataclass

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass
class Result:
    """One measurement: requests per second that were answered with 200, and their latency."""

    rate: float
    p50_us: float
    p99_us: float
    p999_us: float
    requests: float = 0  # wrk's: its runs are up to a tenth of a second longer than asked for


class Broken(RuntimeError):
    """Refusals or broken connections where there should be none: no figure is taken from it."""


def _parse(text, what):
    values = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            try:
                values[words[0]] = float(words[1])
            except ValueError:
                pass
    missing = {"rate", "p50_us", "p99_us", "p999_us", "refused", "broken"} - set(values)
    if missing or values["refused"] or values["broken"]:
        raise Broken(f"{what}: {text[-600:]}")
    return Result(values["rate"], values["p50_us"], values["p99_us"], values["p999_us"],
                  values.get("requests", 0))


def wrk(address, target, body, connections, seconds, headers=None):
    """`body` is a file; POSTs it to `target` over all connections as fast as it is answered."""
    return _wrk(f"http://{address}{target}", [body], connections, seconds, headers)


def wrk_list(address, listing, connections, seconds):
    """Many requests in turn: a list file as post.lua reads it."""
    return _wrk(f"http://{address}/", ["--list", listing], connections, seconds)


def _wrk(url, arguments, connections, seconds, headers=None):
    threads = min(connections, max(1, min(6, os.cpu_count() // 3)))
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s",
               *(word for name, value in (headers or {}).items() for word in ("-H", f"{name}: {value}")),
               "-s", os.path.join(HERE, "post.lua"), url, "--", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    return _parse(run.stdout, " ".join(command))


def one_client(program, address, target, body, seconds):
    command = [program, address, target, body, str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    return _parse(run.stdout + run.stderr, " ".join(command))


@dataclass
class Paced:
    """What became of requests sent at a given rate. Latencies count from when each was due."""

    sent: int
    good: tuple  # how many, then p50, p99 and p99.9 in us
    refused: tuple  # 429 and 503, the same
    other: tuple
    broken: int


def paced(program, address, target, body, connections, rate, seconds):
    threads = min(connections, max(1, min(6, os.cpu_count() // 3)))
    command = [program, address, target, body, str(connections), str(threads), f"{rate:.3f}",
               str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True)
    words = {line.split()[0]: line.split()[1:] for line in run.stdout.splitlines()}

    def column(name):
        count, *latencies = words[name]
        return (int(count), *map(float, latencies))

    return Paced(int(words["sent"][0]), column("good"), column("refused"), column("other"),
                 int(words["broken"][0]))

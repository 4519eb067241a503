"""Load on a daemon: a daemon that lasts for a block, products, requests at a rate, percentiles."""

import contextlib
import re
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import figure  # makes tests/integration importable
from daemon import PATIENCE_S, Daemon

assert figure.ROOT


@contextlib.contextmanager
def running(gemmd, *arguments, **keywords):
    """A daemon that is ready, and that must end with status 0."""
    daemon = Daemon(gemmd, "--no-access-log", *arguments, **keywords)
    try:
        daemon.wait_until_listening().wait_until_ready()
        yield daemon
        daemon.stop()
    finally:
        daemon.close()


def metric(daemon, name):
    """The sum of a metric's series. Each scrape uses a connection of its own."""
    daemon.session.close()
    text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S).text
    daemon.session.close()
    return sum(float(value) for value in
               re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE))


@dataclass
class Outcome:
    """What became of requests sent at a rate; latencies in ms, from when each request was due."""

    sent: int
    good: int
    p50: float
    p99: float
    p999: float
    refused: int
    refused_p99: float
    other: int
    broken: int
    completed: int  # good answers that came within the seconds, whenever they were due
    seconds: float

    @property
    def goodput(self):
        return self.completed / self.seconds


# gemmd-bench-paced sends for a second before the seconds that count.
WARM_S = 1


class Square:
    """f32 products of n x n by n x n, sent by gemmd-bench-paced. `resident`: the operands are tensors
    of the daemon, the result stays there, and the requests have no body. `expect`: the requests ask
    with Expect: 100-continue before they send their body. `threads`: of the client."""

    def __init__(self, gemmd, n, kernel="", resident=False, expect=False, threads=1):
        self.program = Path(gemmd).with_name("gemmd-bench-paced")
        if not self.program.exists():
            raise figure.CannotRun(f"{self.program} is not built; build with -DGEMMD_TESTS=ON.")
        self.target = f"/gemm?m={n}&n={n}&k={n}" + (f"&kernel={kernel}" if kernel else "")
        self.n, self.body_bytes, self.expect, self.threads = n, 8 * n * n, expect, threads
        if resident:
            self.target += "&a=left&b=right&store=out"
            self.body_bytes = 0
        self.file = tempfile.NamedTemporaryFile()  # pylint: disable=consider-using-with
        self.file.write(bytes(self.body_bytes))
        self.file.flush()

    def put_operands(self, daemon):
        for name in ("left", "right"):
            daemon.session.put(f"{daemon.url}/tensors/{name}", bytes(4 * self.n * self.n),
                               params={"dtype": "f32", "shape": f"{self.n},{self.n}"},
                               headers={"Content-Type": "application/octet-stream"},
                               timeout=PATIENCE_S).raise_for_status()

    def start(self, daemon, connections, rate, seconds):
        host, port = daemon.address
        command = [self.program, f"{host}:{port}", self.target, self.file.name, connections, self.threads,
                   f"{rate:.3f}", seconds, *(["expect"] if self.expect else [])]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)

    @staticmethod
    def result(process, seconds):
        out, _ = process.communicate(timeout=seconds + 5 * PATIENCE_S)
        words = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
        good, p50, p99, p999 = map(float, words["good"])
        refused, _, refused_p99, _ = map(float, words["refused"])
        return Outcome(int(words["sent"][0]), int(good), p50 / 1e3, p99 / 1e3, p999 / 1e3,
                       int(refused), refused_p99 / 1e3, int(float(words["other"][0])),
                       int(words["broken"][0]), int(words["completed"][0]), seconds)

    def send(self, daemon, connections, rate, seconds):
        """Poisson arrivals at `rate` a second for `seconds`, after a second that does not count."""
        return self.result(self.start(daemon, connections, rate, seconds), seconds)

    def capacity(self, daemon, seconds, connections=8):
        """The goodput when more is offered than the daemon can take. The rate is tripled until the
        daemon no longer follows; the few connections make the rest of the requests wait."""
        rate, best = 200.0, 0.0
        while (best := max(best, self.send(daemon, connections, rate, 1).goodput)) >= 0.7 * rate:
            rate *= 3
        return self.send(daemon, connections, 1.2 * best, seconds).goodput


def median_p99(runs):
    return statistics.median(run.p99 for run in runs)


class Beside:
    """Requests beside something that burdens the daemon that answers them, in turns with requests
    beside the same thing at another daemon of the machine. The two differ by what the burden takes from
    its daemon; what it takes from the machine is in both."""

    def __init__(self):
        self.same, self.elsewhere = [], []

    def take_turns(self, square, burdened, other, rate, seconds, turns):
        for _ in range(turns):
            self.same.append(square.send(burdened, 16, rate, seconds))
            self.elsewhere.append(square.send(other, 16, rate, seconds))

    @property
    def runs(self):
        return self.same + self.elsewhere

    @property
    def growth(self):
        return median_p99(self.same) / median_p99(self.elsewhere) - 1

    def text(self, elsewhere):
        return (f"p99 {median_p99(self.same):.2f} ms beside them, {median_p99(self.elsewhere):.2f} ms beside as many "
                f"{elsewhere} of the machine ({100 * self.growth:+.0f} %)")


def slope(times, values):
    """Of the least-squares line through the points: change of value by unit of time."""
    mean_time, mean_value = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - mean_time) ** 2 for time in times)
    return sum((time - mean_time) * (value - mean_value)
               for time, value in zip(times, values)) / spread


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

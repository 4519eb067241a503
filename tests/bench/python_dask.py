"""Measures products of Dask arrays by several daemons next to what the daemons compute without Dask.

    PYTHONPATH=client/python/src python3 tests/bench/python_dask.py [options; --help lists them]

Each turn measures three things one after another, in an order that changes from turn to turn:

  blocks  requests without Dask: one for each product of two blocks. Threads that do nothing else send the blocks of
          x; the blocks of y are resident. The blocks of the result are not added up.
  panels  the same, but one request for each block of the result: a row of blocks of x, with a resident column of
          blocks of y. These are the requests that gemmd_client.dask makes.
  dask    gemmd_client.dask.matmul, until the result lies in the memory of the workers. The content of y is new in
          each turn, so that no block of y is resident before.

The program prints rates and processor times, and at the end medians of the turns. The processor time of the client
includes that of the workers, except for their event loop and that of the scheduler, which has a column of its own:
most of that time goes by the clock, whether there are tasks or not, and so grows if other programs share the cores.
If the workers are processes of their own, the client's columns are left out.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import tempfile
import threading
import time

import dask.array as da
import distributed
import numpy as np
import psutil
from gemmd_client import Client
from gemmd_client.dask import matmul


class Daemon:
    def __init__(self, options, number, folder):
        listen = f"unix:{folder}/{number}" if options.unix else "127.0.0.1:0"
        command = [options.gemmd, "--backend", options.backend, "--listen", listen, "--no-access-log", "--log-format",
                   "text", *options.option]
        if options.backend == "cpu":
            command += ["--cpu-threads", str(options.cpu_threads)]
        if options.pin:
            first = number * options.cpu_threads
            cores = sorted(os.sched_getaffinity(0))[first:first + options.cpu_threads]
            command = ["taskset", "-c", ",".join(map(str, cores)), *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = listen
        for line in self.process.stdout:
            if "listening on" in line:
                if not options.unix:
                    self.url = "http://127.0.0.1:" + line.split("127.0.0.1:")[1].split()[0]
                break
        else:
            raise SystemExit("a daemon did not start")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def processor_seconds(self):
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Requests:
    """The requests of one turn without Dask. `size` is the length of k in each of them."""

    def __init__(self, clients, x, block, depth, threads):
        self.clients, self.threads = clients, threads
        rows, deep = range(0, len(x), block), range(0, len(x), depth)
        panels = {(i, p): np.ascontiguousarray(x[i:i + block, p:p + depth]) for i in rows for p in deep}
        self.left = [panels[i, p] for i, p in itertools.product(rows, deep)] * len(rows)
        self.b = np.ascontiguousarray(x[:depth, :block])

    def measure(self):
        left = self.left.copy()
        tensors = [client.put("direct", self.b, evictable=True) for client in self.clients]

        def work(number):
            client, tensor = self.clients[number % len(tensors)], tensors[number % len(tensors)]
            while True:
                try:
                    a = left.pop()
                except IndexError:
                    return
                client.gemm(a, tensor)

        running = [threading.Thread(target=work, args=(number,)) for number in range(self.threads)]
        begun = time.monotonic()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return time.monotonic() - begun


def dask_seconds(urls, x, y):
    begun = time.monotonic()
    result = matmul(x, y, daemons=urls).persist()
    distributed.wait(result)
    return time.monotonic() - begun


def own_processor_seconds():
    """Of this process without the event loop of Dask, and of that loop."""
    loop = 0.0
    for thread in psutil.Process().threads():
        if thread.id in {each.native_id for each in threading.enumerate() if each.name == "IO loop"}:
            loop += thread.user_time + thread.system_time
    return sum(os.times()[:2]) - loop, loop


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemons", type=int, default=2)
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--cpu-threads", type=int, default=1, help="of each daemon")
    parser.add_argument("--pin", action="store_true", help="give each daemon cores of its own, and the rest to client and workers")
    parser.add_argument("--unix", action="store_true", help="Unix sockets; libgemmd shares memory over them")
    parser.add_argument("--option", action="append", default=[], help="one more option of the daemons (--option=...)")
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=6, help="in each direction")
    parser.add_argument("--workers", type=int, help="default: one for each daemon")
    parser.add_argument("--worker-threads", type=int, default=2, help="of each worker")
    parser.add_argument("--processes", action="store_true", help="workers as processes of their own")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no turn after that time")
    parser.add_argument("--gemmd", default="build/bin/gemmd")
    options = parser.parse_args()
    started = time.monotonic()
    size = options.block * options.blocks
    workers = options.workers or options.daemons
    folder = tempfile.TemporaryDirectory()
    daemons = [Daemon(options, number, folder.name) for number in range(options.daemons)]
    if options.pin:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[options.daemons * options.cpu_threads:])
    urls = [daemon.url for daemon in daemons]
    clients = [Client(url) for url in urls]
    print(f"{options.daemons} daemons ({options.backend}), {workers} workers of {options.worker_threads} threads, "
          f"f32, {options.blocks}x{options.blocks} blocks of {options.block}x{options.block}, "
          f"transport: {clients[0].transport}{' over Unix sockets' if options.unix else ''}", flush=True)
    x = np.random.default_rng(1).standard_normal((size, size), np.float32)
    threads = workers * options.worker_threads
    blocks = Requests(clients, x, options.block, options.block, threads)
    panels = Requests(clients, x, options.block, size, threads)
    seconds = {"blocks": [], "panels": [], "dask": []}
    processor = {name: [] for name in seconds}
    with distributed.LocalCluster(n_workers=workers, threads_per_worker=options.worker_threads,
                                  processes=options.processes, dashboard_address=None,
                                  memory_limit=0) as cluster, distributed.Client(cluster):
        array = da.from_array(x, chunks=options.block).persist()
        distributed.wait(array)
        measures = {"blocks": blocks.measure, "panels": panels.measure,
                    "dask": lambda: dask_seconds(urls, array, y)}
        for turn in range(options.turns + 1):
            if turn > 1 and time.monotonic() - started > options.seconds:
                break
            y = (array + np.float32(turn)).persist()
            distributed.wait(y)
            names = list(measures)
            for name in names[turn % 3:] + names[:turn % 3]:
                own, theirs = own_processor_seconds(), sum(daemon.processor_seconds() for daemon in daemons)
                took = measures[name]()
                client, loop = (after - before for after, before in zip(own_processor_seconds(), own, strict=True))
                theirs = sum(daemon.processor_seconds() for daemon in daemons) - theirs
                if turn > 0:  # The first turn warms up.
                    seconds[name].append(took)
                    processor[name].append((client, loop, theirs))
            if turn > 0:
                print("  ".join(f"{name} {2 * size ** 3 / 1e9 / seconds[name][-1]:.1f} GFLOP/s"
                                for name in seconds), flush=True)
    ours = not options.processes
    print(f"{'':8}{'GFLOP/s':>10}{'daemons CPU s':>15}" + (f"{'client CPU s':>14}{'loop CPU s':>12}" if ours else ""))
    for name in seconds:
        client, loop, theirs = (statistics.median(column) for column in zip(*processor[name], strict=True))
        print(f"{name:8}{2 * size ** 3 / 1e9 / statistics.median(seconds[name]):10.1f}{theirs:15.2f}"
              + (f"{client:14.2f}{loop:12.2f}" if ours else ""))
    for name in ("blocks", "panels"):
        ratios = [alone / together for alone, together in zip(seconds[name], seconds["dask"], strict=True)]
        cost = [(alone[0] + alone[2]) / (together[0] + together[2])
                for alone, together in zip(processor[name], processor["dask"], strict=True)]
        print(f"dask / {name}: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}"
              + (f"; by processor time without the loop {statistics.median(cost):.2f}" if ours else ""))
    for daemon in daemons:
        daemon.stop()


if __name__ == "__main__":
    main()

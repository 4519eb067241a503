"""Measures products of Dask arrays by several daemons next to the sum of what the daemons compute without Dask:
the same blocks, sent by threads that do nothing else, with the blocks of y resident.

    PYTHONPATH=client/python/src python3 tests/bench/python_dask.py [--daemons N] [--block N] [--blocks N]
                                                                    [--gemmd PROGRAM]

The daemons use the CPU, one thread each, and share the host with the workers of Dask.
"""

import argparse
import statistics
import subprocess
import threading
import time

import dask.array as da
import distributed
import numpy as np
from gemmd_client import Client
from gemmd_client.dask import matmul


class Daemon:
    def __init__(self, program):
        self.process = subprocess.Popen(
            [program, "--backend", "cpu", "--cpu-threads", "1", "--listen", "127.0.0.1:0", "--no-access-log",
             "--log-format", "text"], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if "listening on" in line:
                self.url = "http://" + line.split("127.0.0.1:")[1].split()[0].join(["127.0.0.1:", ""])
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def direct(urls, block, count, threads):
    """Seconds for `count` products of two blocks, shared out to the daemons."""
    a = np.ones((block, block), np.float32)
    left = list(range(count))
    clients = [Client(url) for url in urls]
    tensors = [client.put("direct", a, evictable=True) for client in clients]

    def work(number):
        while True:
            try:
                left.pop()
            except IndexError:
                return
            clients[number % len(urls)].gemm(a, tensors[number % len(urls)])

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    begun = time.monotonic()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return time.monotonic() - begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--daemons", type=int, default=2)
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=6, help="in each direction")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--gemmd", default="build/bin/gemmd")
    arguments = parser.parse_args()
    size, count = arguments.block * arguments.blocks, arguments.blocks ** 3
    daemons = [Daemon(arguments.gemmd) for _ in range(arguments.daemons)]
    urls = [daemon.url for daemon in daemons]
    x = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32)
    ratios = []
    with distributed.LocalCluster(n_workers=arguments.daemons, threads_per_worker=2, processes=False,
                                  dashboard_address=None) as cluster, distributed.Client(cluster):
        array = da.from_array(x, chunks=arguments.block).persist()
        for turn in range(arguments.turns + 1):
            alone = direct(urls, arguments.block, count, 2 * arguments.daemons)
            begun = time.monotonic()
            matmul(array, array, daemons=urls).persist().compute()
            together = time.monotonic() - begun
            if turn > 0:
                ratios.append(alone / together)
                flops = 2 * size ** 3 / 1e9
                print(f"{flops / alone:.1f} GFLOP/s without Dask, {flops / together:.1f} with: "
                      f"{ratios[-1]:.2f}", flush=True)
    print(f"median {statistics.median(ratios):.2f}")
    for daemon in daemons:
        daemon.stop()


if __name__ == "__main__":
    main()

"""Measures how long a call of the Python client takes over libgemmd, and how much of that is the client's own
part: with a function that does nothing in place of the library's.

    LIBGEMMD=build/lib/libgemmd.so.0 PYTHONPATH=client/python/src python3 tests/bench/python_call.py URL
"""

import ctypes
import statistics
import sys
import time

import numpy as np
from gemmd_client import Client

CALLS = 3000


def median_us(call):
    call()
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter_ns()
        call()
        taken.append(time.perf_counter_ns() - begun)
    return statistics.median(taken) / 1e3


def main():
    client = Client(sys.argv[1], transport="library")
    a, b = (np.ones((64, 64), np.float32) for _ in "ab")
    weights = client.put("python-call", b)
    cases = {"both operands sent": (a, b), "b turned": (a, b.T), "b resident": (a, weights)}
    whole = {name: median_us(lambda pair=pair: client.gemm(*pair)) for name, pair in cases.items()}
    client.delete(weights)
    # pylint: disable=protected-access
    nothing = ctypes.CDLL(None).abs
    nothing.argtypes, nothing.restype = client._library._compute.argtypes, None
    client._library._compute = nothing
    print("f32 64x64x64, microseconds, medians | call | own part")
    for name, pair in cases.items():
        print(f"{name} | {whole[name]:.1f} | {median_us(lambda pair=pair: client.gemm(*pair)):.2f}")


if __name__ == "__main__":
    main()

"""Promise 1: a result's bytes don't depend on what else is in flight."""

import os
import re
import subprocess

import pytest

from matrices import ACTS, OUTS, Problem, random_operands

# Sides of one and of primes, tiles' own sides and one more, and products large enough to run alone.
SIZES = [(1, 1, 1), (1, 130, 257), (7, 64, 64), (16, 16, 16), (33, 31, 65), (64, 64, 64),
         (65, 127, 48), (128, 96, 256), (200, 1, 77), (256, 256, 256), (257, 300, 129),
         (512, 64, 700)]


def lines(folder, rng):
    """Every type, output, size and activation, with all that may differ between requests."""
    for i, (dtype, outs) in enumerate(OUTS.items()):
        for j, out in enumerate(outs):
            for s, (m, n, k) in enumerate(SIZES):
                act = "none" if out == "i32" else ACTS[(i + j + s) % len(ACTS)]
                problem = Problem(m, n, k, dtype=dtype, out=out, transa=s % 2 == 1,
                                  transb=s % 3 == 1, bias=s % 4 == 0, beta=s % 2,
                                  batch=1 + (s % 5 == 0), act=act)
                body = folder / f"{i}-{j}-{s}"
                body.write_bytes(random_operands(problem, rng).raw())
                query = "&".join(f"{name}={value}" for name, value in problem.parameters().items())
                yield f"/gemm?{query}&priority={s % 10}\t{body}\n"


@pytest.mark.slow
def test_under_a_mixed_load(url, gemmd, tmp_path, rng):
    program = gemmd.with_name("gemmd-bench-same-bytes")
    count = int(os.environ.get("GEMMD_SAME_BYTES_REQUESTS", 5000))
    listing = tmp_path / "list"
    listing.write_text("".join(lines(tmp_path, rng)))
    address = re.sub("^http://", "", url)
    run = subprocess.run([program, address, listing, "64", str(count)], capture_output=True,
                         text=True, timeout=900)
    assert run.stdout == f"{count} passed, 0 failed\n", run.stderr

"""Promise 1: a result's bytes don't depend on what else is in flight."""

import os
import re
import subprocess

import pytest

import attention
from daemon import PATIENCE_S
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


# Queries and keys, heads of Q and of K: single ones, tiles' own sides and one more.
ATTENTIONS = [(1, 1, 1, 1), (1, 300, 8, 2), (95, 96, 4, 4), (97, 129, 6, 3), (203, 113, 2, 1),
              (33, 257, 3, 1), (128, 128, 4, 2)]


def attentions(folder, rng):
    """Every type and mask, and lengths and heads that may share a launch with any others."""
    for i, dtype in enumerate(("f32", "f16", "bf16")):
        for j, (causal, window) in enumerate([(False, None), (True, None), (True, 40)]):
            for s, (sq, skv, heads, kv_heads) in enumerate(ATTENTIONS):
                problem = attention.Attention(heads, sq, 64 if s % 3 else 20, kv_heads=kv_heads,
                                              skv=skv, dtype=dtype, causal=causal, window=window,
                                              batch=1 + (s % 4 == 0),
                                              layout=("bhsd", "bshd")[s % 2])
                body = folder / f"attention-{i}-{j}-{s}"
                operands = attention.random_operands(problem, rng)
                body.write_bytes(attention.raw(problem, operands))
                query = "&".join(f"{name}={value}" for name, value in problem.parameters().items())
                yield f"/attention?{query}&priority={s % 10}\t{body}\n"


def compare(gemmd, url, mix, folder, reference=None):
    """Sends requests of the mix, drawn at random, to the daemon at `url` over 64 connections, and compares
    every answer with that of the same request alone to the daemon at `reference` (default: the same)."""
    program = gemmd.with_name("gemmd-bench-same-bytes")
    count = int(os.environ.get("GEMMD_SAME_BYTES_REQUESTS", 5000))
    listing = folder / "list"
    listing.write_text("".join(mix))
    addresses = [re.sub("^http://", "", one) for one in (url, reference or url)]
    run = subprocess.run([program, addresses[0], listing, "64", str(count), addresses[1]],
                         capture_output=True, text=True, timeout=900)
    assert run.stdout == f"{count} passed, 0 failed\n", run.stderr


@pytest.mark.slow
def test_under_a_mixed_load(url, session, gemmd, tmp_path, rng):
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    mix = list(lines(tmp_path, rng))
    if any(kernel["op"] == "attention" for kernel in kernels):
        mix += attentions(tmp_path, rng)
    compare(gemmd, url, mix, tmp_path)

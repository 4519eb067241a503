"""The rungs on tensor cores as a user of Triton writes them: a program computes a tile.

Matrices are contiguous squares whose side is a multiple of every tile, so no load is masked.
Triton chooses among the configurations below by timing them, once for each side.
"""

import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a, b, bias, c, n,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
    GROUP: tl.constexpr, FUSED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """C = A · B, or with FUSED gelu_tanh(A · B + bias). Programs walk through C in bands of GROUP
    tiles of rows, so that those which run at once share operands in the L2."""
    tiles_m, tiles_n = n // TILE_M, n // TILE_N
    band, place = tl.program_id(0) // (GROUP * tiles_n), tl.program_id(0) % (GROUP * tiles_n)
    height = min(tiles_m - band * GROUP, GROUP)
    rows = (band * GROUP + place % height) * TILE_M + tl.arange(0, TILE_M)
    columns = place // height * TILE_N + tl.arange(0, TILE_N)
    steps = tl.arange(0, TILE_K)
    a_tile = a + rows[:, None] * n + steps[None, :]
    b_tile = b + steps[:, None] * n + columns[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for _ in range(0, n, TILE_K):
        total = tl.dot(tl.load(a_tile), tl.load(b_tile), total, input_precision=PRECISION)
        a_tile += TILE_K
        b_tile += TILE_K * n
    if FUSED:
        x = total + tl.load(bias + columns)[None, :].to(tl.float32)
        # x / 2 · (1 + tanh(y)) is x · sigmoid(2 y)
        total = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty))


@triton.jit
def attend(
    query, k_head, v_head, largest, total, result, rows, first, end, scale,
    D: tl.constexpr, KEYS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """The keys from first to end: scores, their softmax so far, and the values weighted by it."""
    keys, columns = tl.arange(0, KEYS), tl.arange(0, D)
    for start in range(first, end, KEYS):
        key = tl.load(k_head + (start + keys)[None, :] * D + columns[:, None])
        scores = tl.dot(query, key) * scale
        if MASKED:
            scores = tl.where(rows[:, None] >= (start + keys)[None, :], scores, float("-inf"))
        above = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - above[:, None])
        shrink = tl.exp2(largest - above)
        total = total * shrink + tl.sum(weights, 1)
        value = tl.load(v_head + (start + keys)[:, None] * D + columns[None, :])
        result = tl.dot(weights.to(value.dtype), value, result * shrink[:, None])
        largest = above
    return largest, total, result


@triton.jit
def attention_kernel(
    q, k, v, o, length, scale,
    D: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Softmax(scale · Q · Kᵀ) · V for QUERIES queries of one head, keys in tiles of KEYS; only
    the tiles on the diagonal are masked. QUERIES is a multiple of KEYS."""
    first = tl.program_id(0) * QUERIES
    head = tl.program_id(1).to(tl.int64) * length * D
    rows, columns = first + tl.arange(0, QUERIES), tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + columns[None, :])
    largest = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    result = tl.zeros((QUERIES, D), tl.float32)
    scale *= 1.4426950408889634  # exp(x) is exp2(x · log2(e))
    seen = first if CAUSAL else length
    largest, total, result = attend(
        query, k + head, v + head, largest, total, result, rows, 0, seen, scale, D, KEYS, False
    )
    if CAUSAL:
        largest, total, result = attend(
            query, k + head, v + head, largest, total, result, rows, first, first + QUERIES, scale,
            D, KEYS, True,
        )  # fmt: skip
    result = result / total[:, None]
    tl.store(o + head + rows[:, None] * D + columns[None, :], result.to(o.dtype.element_ty))


def tile(m, n, k, warps, stages):
    """One configuration of the product."""
    return triton.Config(
        {"TILE_M": m, "TILE_N": n, "TILE_K": k, "GROUP": 8}, num_warps=warps, num_stages=stages
    )


PRODUCTS_16 = [
    tile(128, 256, 64, 8, 3),
    tile(128, 128, 64, 8, 4),
    tile(128, 128, 64, 4, 4),
    tile(64, 128, 64, 4, 4),
    tile(64, 64, 64, 4, 4),
]
PRODUCTS_32 = [tile(128, 128, 32, 8, 3), tile(64, 128, 32, 4, 3), tile(64, 64, 32, 4, 3)]
ATTENTIONS = [
    triton.Config({"QUERIES": queries, "KEYS": keys}, num_warps=warps, num_stages=stages)
    for queries, keys, warps, stages in ((128, 128, 8, 2), (128, 64, 8, 3), (64, 64, 4, 3))
]


def briefly(call, quantiles):
    """Triton's own measurement of a configuration, in 25 ms instead of 125."""
    return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)


def tuned(configs, key):
    """A decorator: of the configurations, the fastest for each value of the key."""
    return triton.autotune(configs=configs, key=key, do_bench=briefly)


product_16 = tuned(PRODUCTS_16, ["n", "FUSED"])(product_kernel)
product_32 = tuned(PRODUCTS_32, ["n", "FUSED"])(product_kernel)
attention = tuned(ATTENTIONS, ["length", "CAUSAL"])(attention_kernel)


def product_call(a, b, c, bias=None):
    """A function of the number of a set, for tensors [sets, n, n]; the bias is [n]."""
    n = a.shape[1]
    kernel = product_16 if a.element_size() == 2 else product_32

    def grid(chosen):
        return ((n // chosen["TILE_M"]) * (n // chosen["TILE_N"]),)

    def run(i):
        kernel[grid](a[i], b[i], bias, c[i], n, FUSED=bias is not None, PRECISION="tf32x3")

    return run


def attention_call(q, k, v, o, causal):
    """A function of the number of a set, for tensors [sets, batch, heads, length, d]."""
    _, batch, heads, length, d = q.shape

    def grid(chosen):
        return (length // chosen["QUERIES"], batch * heads)

    def run(i):
        attention[grid](q[i], k[i], v[i], o[i], length, d**-0.5, D=d, CAUSAL=causal)

    return run

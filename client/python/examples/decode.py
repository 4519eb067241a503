"""Decodes 1,000 tokens of a small transformer, whose keys and values stay on the daemon in a sequence.

Each token is one request for each layer: the request appends the token's keys and values, and is answered with the
attention to all positions. The prompt is one request for each layer too. NumPy computes the rest of the transformer, in
float32. The same transformer in float64, without the daemon, must choose the same tokens; the script exits with status
1 if one of them differs.

The weights are random numbers of a fixed seed: of the packages on PyPI, the one that we found with the weights of a
language model inside has 93 MB of them, and takes minutes in float64.

Usage: decode.py [URL]. Without URL the environment's GEMMD_URL applies.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmd_client import Client

Array = NDArray[Any]
Attend = Callable[[int, Array, Array, Array], Array]

SEED = 2028
VOCABULARY, WIDTH, LAYERS = 512, 128, 2
HEADS, KV_HEADS, SIZE = 8, 2, 16  # four heads of queries share one head of keys and values
PROMPT, TOKENS = 24, 1000


def random_weights(rng: np.random.Generator) -> dict[str, Array]:
    def matrix(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns)) / np.sqrt(rows)

    weights = {"embedding": rng.standard_normal((VOCABULARY, WIDTH)), "logits": matrix(WIDTH, VOCABULARY)}
    for layer in range(LAYERS):
        weights |= {f"q{layer}": matrix(WIDTH, HEADS * SIZE), f"k{layer}": matrix(WIDTH, KV_HEADS * SIZE),
                    f"v{layer}": matrix(WIDTH, KV_HEADS * SIZE), f"o{layer}": matrix(HEADS * SIZE, WIDTH),
                    f"up{layer}": matrix(WIDTH, 4 * WIDTH), f"down{layer}": matrix(4 * WIDTH, WIDTH)}
    return weights


def normalized(x: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))


def logits_of(weights: dict[str, Array], tokens: Array, position: int, attend: Attend) -> Array:
    """Returns the logits of the token that follows `tokens`, the first of which is at `position`. `attend` appends keys
    and values to a layer and returns the attention of the queries, all (heads, tokens, size)."""
    rates = 1e4 ** -np.linspace(0, 1, WIDTH // 2, endpoint=False)
    angles = np.arange(position, position + len(tokens))[:, None] * rates
    x = weights["embedding"][tokens]
    x = x + np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(x.dtype)
    for layer in range(LAYERS):
        rows = normalized(x)
        q, k, v = ((rows @ weights[f"{name}{layer}"]).reshape(len(tokens), -1, SIZE).swapaxes(0, 1) for name in "qkv")
        o = attend(layer, q, k, v).swapaxes(0, 1).reshape(len(tokens), -1)
        x = x + o @ weights[f"o{layer}"]
        x = x + np.maximum(normalized(x) @ weights[f"up{layer}"], 0) @ weights[f"down{layer}"]
    return normalized(x[-1]) @ weights["logits"]


def decode(weights: dict[str, Array], prompt: Array, attend: Attend) -> tuple[list[int], float]:
    """Returns the most probable token of each step, and the smallest difference between the logits of the first and the
    second token of a step."""
    tokens, position, found, gap = prompt, 0, [], np.inf
    for _ in range(TOKENS):
        logits = logits_of(weights, tokens, position, attend)
        position += len(tokens)
        second, first = np.sort(logits)[-2:]
        gap = min(gap, float(first - second))
        tokens = np.array([np.argmax(logits)])
        found.append(int(tokens[0]))
    return found, gap


class Reference:
    """Attention in float64, on the host."""

    def __init__(self) -> None:
        self.keys = [np.empty((KV_HEADS, PROMPT + TOKENS, SIZE)) for _ in range(LAYERS)]
        self.values = [np.empty((KV_HEADS, PROMPT + TOKENS, SIZE)) for _ in range(LAYERS)]
        self.lengths = [0] * LAYERS

    def attend(self, layer: int, q: Array, k: Array, v: Array) -> Array:
        before, count = self.lengths[layer], q.shape[1]
        self.lengths[layer] = end = before + count
        self.keys[layer][:, before:end], self.values[layer][:, before:end] = k, v
        grouped = q.reshape(KV_HEADS, HEADS // KV_HEADS, count, SIZE)
        scores = grouped @ self.keys[layer][:, None, :end].swapaxes(2, 3) / np.sqrt(SIZE)
        scores[..., np.arange(end) > before + np.arange(count)[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        o = weights / weights.sum(axis=3, keepdims=True) @ self.values[layer][:, None, :end]
        return o.reshape(HEADS, count, SIZE)


def main() -> int:
    rng = np.random.default_rng(SEED)
    exact = random_weights(rng)
    prompt = rng.integers(0, VOCABULARY, PROMPT)
    rounded = {name: array.astype(np.float32) for name, array in exact.items()}
    with Client(*sys.argv[1:]) as client:
        sequence = client.sequence("example-decode", KV_HEADS, SIZE, dtype=np.float32, layers=LAYERS)

        def attend(layer: int, q: Array, k: Array, v: Array) -> Array:
            return sequence.attention(q, k, v, layer=layer, causal=True)

        tokens, _ = decode(rounded, prompt, attend)
        sequence.refresh()
        print(f"the sequence has {len(sequence)} positions and takes {sequence.nbytes:,} bytes")
        sequence.delete()
    expected, gap = decode(exact, prompt, Reference().attend)
    equal = sum(one == other for one, other in zip(tokens, expected))
    print(f"{equal} of {TOKENS} tokens, {len(set(tokens))} different ones, are those of float64")
    print(f"the closest choice was by {gap:.1e} of a logit")
    return 0 if tokens == expected else 1


if __name__ == "__main__":
    sys.exit(main())

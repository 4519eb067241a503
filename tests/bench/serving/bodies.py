"""Request bodies of uniform random operands in [-1, 1], as files."""

import os

import numpy as np

RANDOM = np.random.default_rng()
ELEMENT_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "i8": 1}
RESULT_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 2, "i8": 4}


def operands(dtype, count, random=RANDOM):
    """`count` elements of a dtype, as bytes."""
    if dtype in ("i8", "i32"):
        limits = np.iinfo({"i8": np.int8, "i32": np.int32}[dtype])
        return random.integers(limits.min, limits.max, count, limits.dtype, endpoint=True).tobytes()
    if dtype == "f8_e4m3":
        # Codes 0 ... 0x38 are 0 ... 1 in e4m3; the upper bit is the sign.
        codes = random.integers(0, 0x39, count, np.uint8) | random.integers(0, 2, count, np.uint8) << 7
        return codes.tobytes()
    values = random.uniform(-1, 1, count)
    if dtype in ("f64", "f32", "f16"):
        return values.astype({"f64": "<f8", "f32": "<f4", "f16": "<f2"}[dtype]).tobytes()
    # The upper half of an f32: rounded towards zero.
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def product(folder, dtype, m, n, k):
    """The body of a raw product: A, then B."""
    return write(folder, f"{dtype}-{m}x{n}x{k}", operands(dtype, m * k + k * n))


def mixed(folder, count):
    """Products of all dtypes with sides 16 ... 256, shuffled.

    Returns two lists for post.lua: for the daemon, and for libmicrohttpd alone, which lands the
    same bodies and answers as many bytes.
    """
    own, alone = [], []
    for i in range(count):
        dtype = list(ELEMENT_BYTES)[i % len(ELEMENT_BYTES)]
        m, n, k = (int(side) for side in RANDOM.integers(16, 257, 3))
        body = product(folder, dtype, m, n, k)
        own.append(f"/gemm?m={m}&n={n}&k={k}&dtype={dtype}\t{body}")
        alone.append(f"/?answer={m * n * RESULT_BYTES[dtype]}\t{body}")
    order = RANDOM.permutation(count)
    return tuple(
        write(folder, name, "".join(f"{lines[i]}\n" for i in order).encode())
        for name, lines in (("own.list", own), ("alone.list", alone))
    )

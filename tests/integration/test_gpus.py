"""A daemon with several real GPUs. Left out where there are fewer than two; what does not need GPUs
is in test_devices.py."""

import concurrent.futures
import subprocess

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S, Daemon
from matrices import NUMPY
from test_devices import gemm, per_device, put, tensors
from test_same_bytes import attentions, compare, lines

MEMORY = ("--device-bytes", "8G", "--tensor-bytes", "2G", "--pinned-bytes", "4G")


@pytest.fixture(scope="module", autouse=True)
def uuids():
    try:
        found = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"],
                               capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("there is no GPU")
    if len(found.stdout.split()) < 2:
        pytest.skip("there is one GPU")
    return found.stdout.split()


def start_on(start, devices):
    return start("--backend", "cuda", "--devices", devices, *MEMORY)


def test_gpus_by_number_and_by_uuid(start, uuids):
    for text in (f"{uuids[1]},{uuids[0]}", f"1,{uuids[0][:16]}"):
        daemon = start_on(start, text)
        devices = requests.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"]
        assert [device["index"] for device in devices] == [1, 0]
        assert [device["uuid"] for device in devices] == [uuids[1], uuids[0]]
        daemon.stop()


def requests_of_all_kinds():
    """(path, parameters, body): kernels for small and large problems, rows on resident matrices."""
    rng = np.random.default_rng(11)

    def random(name, *shape):
        if name in ("i8", "i32"):
            return rng.integers(-20, 20, shape).astype(NUMPY[name]).tobytes()
        return rng.standard_normal(shape).astype(np.float32).astype(NUMPY[name]).tobytes()

    made = []
    for m, n, k in ((64, 64, 64), (5, 33, 130), (256, 1024, 512), (1000, 1111, 2049), (16, 4096, 4096)):
        for name in ("f32", "f64", "f16", "bf16", "i8", "f8_e4m3"):
            made.append(("/gemm", {"m": m, "n": n, "k": k, "dtype": name},
                         random(name, m, k) + random(name, k, n)))
    for heads, sq, skv, d in ((4, 1, 4096, 128), (8, 512, 512, 64)):
        made.append(("/attention", {"heads": heads, "sq": sq, "skv": skv, "d": d, "dtype": "bf16"},
                     random("bf16", heads * d * (sq + 2 * skv))))
    for rows in (1, 8, 64, 300):
        for weight in ("W0", "W1"):
            made.append(("/gemm", {"m": rows, "n": 2048, "k": 1024, "dtype": "bf16", "b": weight},
                         random("bf16", rows, 1024)))
    return made


def answers_of(daemon, made, rounds):
    rng = np.random.default_rng(12)
    for i in range(2):
        weight = rng.standard_normal((1024, 2048)).astype(np.float32).astype(NUMPY["bf16"])
        put(daemon, f"W{i}", weight, dtype="bf16")
    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=32))

    def one(number):
        path, parameters, body = made[number % len(made)]
        answer = session.post(f"{daemon.url}{path}", params=parameters, data=body, timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.content

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        return list(pool.map(one, range(rounds * len(made))))


def test_the_bytes_are_those_of_one_gpu(start):
    made = requests_of_all_kinds()
    one = start_on(start, "0")
    of_one = answers_of(one, made, 1)
    one.stop()
    two = start_on(start, "0,1")
    for number, answer in enumerate(answers_of(two, made, 12)):
        assert answer == of_one[number % len(made)], made[number % len(made)][:2]
    assert min(per_device(two, "launches")) > 0


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (33, 50, 70), (300, 700, 900), (1500, 1600, 1700)])
def test_operands_on_two_gpus(start, dtype, m, n, k):
    two = start_on(start, "0,1")
    rng = np.random.default_rng(13)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    place = [put(two, name, array.astype(NUMPY[dtype]), dtype=dtype)["devices"][0]
             for name, array in (("a", a), ("b", b))]
    assert sorted(place) == [0, 1]
    for _ in range(3):  # the first copies an operand
        answer = gemm(two, a="a", b="b", out="f32")
        assert answer.status_code == 200, answer.text
        assert np.array_equal(np.frombuffer(answer.content, np.float32).reshape(m, n), a @ b)
    size = NUMPY[dtype].itemsize
    assert sum(per_device(two, "link_bytes")) in (m * k * size, k * n * size), "one is copied once"
    assert sorted(len(one["devices"]) for one in tensors(two).values()) == [1, 2]
    verified = gemm(two, a="a", b="b", out="f32", verify="freivalds")
    assert verified.status_code == 200, verified.text


DIVIDED = [
    ("/gemm", {"m": 4000, "n": 4096, "k": 4096, "dtype": "bf16"}),
    ("/gemm", {"m": 4096, "n": 3000, "k": 2000, "dtype": "f32"}),
    ("/gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "f32", "precision": "tf32"}),
    ("/gemm", {"m": 4096, "n": 4096, "k": 4096, "dtype": "i8", "transb": 1}),
    ("/gemm", {"m": 4096, "n": 4096, "k": 8192, "dtype": "f8_e4m3", "transb": 1, "precision": "f8"}),
    ("/gemm", {"m": 1024, "n": 1024, "k": 1024, "batch": 7, "dtype": "f16"}),
    ("/gemm", {"m": 2048, "n": 2048, "k": 1000, "batch": 3, "dtype": "f32", "verify": "freivalds"}),
    ("/attention", {"batch": 5, "heads": 16, "sq": 2048, "skv": 2048, "d": 128, "dtype": "bf16",
                    "causal": 1}),
    ("/attention", {"batch": 1, "heads": 32, "kv_heads": 8, "sq": 4096, "skv": 4096, "d": 128,
                    "dtype": "bf16"}),
    ("/attention", {"batch": 24, "heads": 8, "sq": 1, "skv": 8192, "d": 128, "dtype": "f16"}),
]


@pytest.fixture(scope="module")
def one_and_both(gemmd):
    daemons = [Daemon(gemmd, "--backend", "cuda", "--devices", devices, *MEMORY) for devices in ("0", "0,1")]
    try:
        for daemon in daemons:
            daemon.wait_until_listening().wait_until_ready()
        yield daemons
    finally:
        for daemon in daemons:
            daemon.close()


def elements(parameters):
    """Of all operands of a raw body."""
    p = parameters
    if "m" in p:
        return p.get("batch", 1) * p["k"] * (p["m"] + p["n"])
    kv_heads = p.get("kv_heads", p["heads"])
    return p["batch"] * p["d"] * (p["heads"] * p["sq"] + 2 * kv_heads * p["skv"])


@pytest.mark.parametrize("path, parameters", DIVIDED, ids=str)
def test_two_gpus_compute_one_request(one_and_both, path, parameters):
    name = parameters["dtype"]
    rng = np.random.default_rng(15)
    numbers = rng.integers(-20, 20, elements(parameters)) if name == "i8" else \
        rng.standard_normal(elements(parameters), np.float32)
    body = numbers.astype(NUMPY[name]).tobytes()
    answers = [requests.post(f"{daemon.url}{path}", params=parameters, data=body, timeout=PATIENCE_S)
               for daemon in one_and_both]
    assert [answer.status_code for answer in answers] == [200, 200], answers[1].text[:300]
    assert answers[1].headers.get("Gemmd-Devices") == "2"
    assert answers[0].headers["Gemmd-Kernel"] == answers[1].headers["Gemmd-Kernel"]
    assert answers[0].content == answers[1].content


def test_two_gpus_under_a_mixed_load(gemmd, one_and_both, tmp_path, rng):
    """GEMMD_SAME_BYTES_REQUESTS=N compares so many answers of two GPUs with those of one."""
    one, both = one_and_both
    mix = [*lines(tmp_path, rng), *attentions(tmp_path, rng)]
    body = tmp_path / "divided"
    body.write_bytes(rng.standard_normal(2 * 7 * 1024 * 1024, np.float32).astype(np.float16).tobytes())
    mix.append(f"/gemm?m=1024&n=1024&k=1024&batch=7&dtype=f16\t{body}\n")
    before = per_device(both, "launches")
    compare(gemmd, both.url, mix, tmp_path, reference=one.url)
    assert all(now > then for then, now in zip(before, per_device(both, "launches"), strict=True))


def test_a_product_that_fits_in_no_gpu_alone(start):
    """f32 of 12288x12288 takes 1.7 GiB, with each GPU's memory limited to 1.5 GiB."""
    two = start("--backend", "cuda", "--devices", "0,1", "--device-bytes", "1536M", "--tensor-bytes", "64M",
                "--pinned-bytes", "6G", "--max-body", "4G", "--queue-bytes", "6G")
    side = 12288
    a, b = np.zeros((side, side), np.float32), np.zeros((side, side), np.float32)
    a[:, 0], b[0, :] = np.arange(side), 2
    answer = gemm(two, a.tobytes() + b.tobytes(), m=side, n=side, k=side, kernel="register_tiled")
    assert answer.status_code == 200, answer.text
    assert answer.headers["Gemmd-Devices"] == "2"
    c = np.frombuffer(answer.content, np.float32).reshape(side, side)
    assert np.array_equal(c, np.broadcast_to(2 * np.arange(side, dtype=np.float32)[:, None], c.shape))


def test_a_replica_has_the_bytes_of_the_tensor(start):
    two = start_on(start, "0,1")
    w = np.random.default_rng(14).integers(-4, 5, (1000, 1001)).astype(np.float32)
    assert put(two, "W", w, replicate="all")["devices"] == [0, 1]
    x = np.ones((700, 1000), np.float32)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: gemm(two, x.tobytes(), m=700, n=1001, k=1000, b="W").content,
                                range(64)))
    assert set(answers) == {(x @ w).tobytes()}
    assert min(per_device(two, "launches")) > 0

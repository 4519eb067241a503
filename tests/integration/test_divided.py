"""Large products and attentions that several devices compute together: the bytes are those of one
device, whatever the format, the way of the operands and the number of devices."""

import concurrent.futures
import io

import numpy as np
import pytest
import requests
import safetensors.numpy

from daemon import PATIENCE_S, PATIENT, Daemon
from patience import wait_until
from scaling import ScaledProblem, assert_scaled, random_scaled
from test_devices import ONE_THREAD, OCTETS, gemm, per_device, put, tensors, wait_until_running
from test_metrics import scrape, values
from wire import Wire, request

M, N, K = 1100, 300, 400  # five steps of 256 rows, the last of them short


@pytest.fixture(scope="module")
def daemons(gemmd):
    """A daemon with one device, one with two, and one with three."""
    started = [Daemon(gemmd, *ONE_THREAD, "--devices", str(count), "--tensor-bytes", "64M")
               for count in (1, 2, 3)]
    try:
        for daemon in started:
            daemon.wait_until_listening().wait_until_ready()
        yield started
        for daemon in started:
            daemon.stop()
    finally:
        for daemon in started:
            daemon.close()


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def npy(*arrays):
    out = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(out, array)
    return out.getvalue()


def same_bytes(daemons, path, parameters, body=b"", headers=None, divided=True):
    """Sends a request to all daemons, whose devices divide the request or do not (None: either). Returns the
    answer of the daemon with one device."""
    answers = []
    for number, daemon in enumerate(daemons, 1):
        answer = requests.post(f"{daemon.url}{path}", params=parameters, data=body, headers=headers or {},
                               timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        took = int(answer.headers.get("Gemmd-Devices", 1))
        if divided is not None:
            assert took > 1 if divided and number > 1 else took == 1
        answers.append(answer)
    assert all(answer.content == answers[0].content for answer in answers)
    return answers[0]


def test_images_of_a_convolution(daemons):
    x, w, bias = random(30, 6, 32, 60, 58), random(31, 64, 32, 3, 3), random(32, 64)
    same_bytes(daemons, "/conv2d", {"padding": "same", "bias": 1}, npy(x, w, bias),
               {"Content-Type": "application/x-npy"})


NPY = {"Content-Type": "application/x-npy"}


def test_rows_of_experts(daemons, rng):
    a, w = random(40, 1100, 500), random(41, 5, 500, 600)
    places = rng.integers(-1, 5, (1100, 2)).astype(np.int32)
    same_bytes(daemons, "/experts", {"glu": 1, "act": "silu"}, npy(a, w, places), NPY)


@pytest.mark.matrix
@pytest.mark.parametrize("more, shapes", [
    ({"layout": "nhwc", "w_layout": "krsc"}, ((7, 40, 40, 32), (64, 3, 3, 32))),
    ({"groups": 64, "kernel": "naive"}, ((6, 64, 64, 64), (64, 1, 5, 5))),
    ({"stride": 2, "act": "gelu", "alpha": 0.5}, ((3, 16, 90, 90), (96, 16, 5, 5))),
], ids=str)
def test_images_of_other_convolutions(daemons, more, shapes):
    same_bytes(daemons, "/conv2d", more, npy(random(33, *shapes[0]), random(34, *shapes[1])), NPY)


def test_an_image_and_a_stored_convolution_stay_on_one_device(daemons):
    x, w = random(35, 1, 64, 80, 80), random(36, 64, 64, 3, 3)
    same_bytes(daemons, "/conv2d", {}, npy(x, w), NPY, divided=False)
    x = random(37, 6, 32, 60, 58)
    plain = same_bytes(daemons, "/conv2d", {}, npy(x, w[:, :32]), NPY)
    for daemon in daemons:
        answer = requests.post(f"{daemon.url}/conv2d", params={"store": "Y"}, data=npy(x, w[:, :32]),
                               headers=NPY, timeout=PATIENCE_S)
        assert answer.status_code == 201 and "Gemmd-Devices" not in answer.headers
        got = requests.get(f"{daemon.url}/tensors/Y", timeout=PATIENCE_S,
                           headers={"Accept": "application/x-npy"})
        assert got.content == plain.content


def test_resident_filters_are_copied_once(daemons):
    x, w = random(38, 6, 32, 60, 58), random(39, 64, 32, 3, 3)
    before = sum(per_device(daemons[1], "link_bytes"))
    for daemon in daemons:
        put(daemon, "filters", w)
    plain = same_bytes(daemons, "/conv2d", {"bias": 0}, npy(x, w), NPY)
    for _ in range(3):
        assert same_bytes(daemons, "/conv2d", {"w": "filters"}, npy(x), NPY).content == plain.content
    assert sum(per_device(daemons[1], "link_bytes")) - before == w.nbytes
    assert tensors(daemons[1])["filters"]["devices"] == [0, 1]


def test_resident_images(daemons):
    x, w = random(40, 6, 32, 60, 58), random(41, 64, 32, 3, 3)
    for daemon in daemons:
        put(daemon, "images", x)
        put(daemon, "weights", w)
    plain = same_bytes(daemons, "/conv2d", {}, npy(x, w), NPY)
    for parameters, body in (({"x": "images"}, npy(w)), ({"x": "images", "w": "weights"}, b"")):
        for _ in range(2):
            answer = same_bytes(daemons, "/conv2d", parameters, body, NPY, divided=None)
            assert answer.content == plain.content


@pytest.mark.matrix
@pytest.mark.parametrize("path, parameters", [
    ("/reduce", {"op": "logsumexp"}), ("/reduce", {"axis": 1, "op": "sum"}),
    ("/reduce", {"op": "argmax", "kernel": "naive"}), ("/softmax", {}), ("/softmax", {"log": 1, "scale": 3}),
], ids=str)
def test_reductions_and_softmaxes(daemons, path, parameters):
    """From the body, and of a tensor that lies on one of the devices."""
    x = random(40, 12, 400, 1001)
    plain = same_bytes(daemons, path, parameters, npy(x), NPY)
    for daemon in daemons:
        put(daemon, "long", x)
    resident = same_bytes(daemons, path, {"x": "long", **parameters}, b"", {**NPY, "Accept": NPY["Content-Type"]},
                          divided=None)
    assert resident.content == plain.content


def test_a_softmax_with_lengths(daemons):
    x, lens = random(41, 12, 400, 1001), np.arange(12, dtype=np.int32) * 91
    same_bytes(daemons, "/softmax", {"lens": 1}, npy(lens, x), NPY)


def test_an_axis_without_dimensions_before_it_stays_on_one_device(daemons):
    same_bytes(daemons, "/reduce", {"axis": 0}, npy(random(42, 2000, 2500)), NPY, divided=False)


@pytest.mark.matrix
@pytest.mark.parametrize("more", [
    {}, {"transa": 1}, {"transb": 1}, {"act": "gelu", "alpha": 0.5}, {"verify": "freivalds"}, {"kernel": "naive"},
], ids=str)
def test_rows_of_a_product(daemons, more):
    a = random(1, *((K, M) if more.get("transa") else (M, K)))
    b = random(2, *((N, K) if more.get("transb") else (K, N)))
    answer = same_bytes(daemons, "/gemm", {"m": M, "n": N, "k": K, "kernel": "tiled", **more},
                        a.tobytes() + b.tobytes())
    if "act" not in more:
        wanted = (a.T if "transa" in more else a).astype(np.float64) @ (b.T if "transb" in more else b)
        assert np.allclose(np.frombuffer(answer.content, np.float32).reshape(M, N), wanted, atol=1e-3)


def test_bias_and_c0(daemons):
    a, b, bias, c0 = random(3, M, K), random(4, K, N), random(5, N), random(6, M, N)
    body = b"".join(part.tobytes() for part in (a, b, bias, c0))
    answer = same_bytes(daemons, "/gemm", {"m": M, "n": N, "k": K, "kernel": "tiled", "bias": 1, "beta": 2},
                        body)
    wanted = a.astype(np.float64) @ b + bias + 2 * c0.astype(np.float64)
    assert np.allclose(np.frombuffer(answer.content, np.float32).reshape(M, N), wanted, atol=1e-3)


def test_problems_of_a_batch(daemons):
    a, b = random(7, 5, 200, K), random(8, 5, K, N)
    answer = same_bytes(daemons, "/gemm", {"kernel": "tiled"}, npy(a, b),
                        {"Content-Type": "application/x-npy"})
    assert np.allclose(np.load(io.BytesIO(answer.content)), a.astype(np.float64) @ b, atol=1e-3)


@pytest.mark.matrix
@pytest.mark.parametrize("case", [
    ScaledProblem(M, N, K, dtype="f8_e4m3", scales="rowcol", kernel="tiled"),
    ScaledProblem(M, N, K, dtype="f8_e4m3", scales="block", kernel="tiled"),
    ScaledProblem(200, N, K, dtype="i8", scales="rowcol", batch=5),
], ids=str)
def test_scales_are_divided_too(daemons, case):
    scaled = random_scaled(case, np.random.default_rng(21))
    answer = same_bytes(daemons, "/gemm", case.parameters(), scaled.raw())
    assert_scaled(case, scaled, answer.content)


def test_scales_of_a_weight_on_one_device(daemons):
    case = ScaledProblem(M, N, K, dtype="f8_e4m3", scales="block", transb=True, kernel="tiled")
    scaled = random_scaled(case, np.random.default_rng(22))
    body = safetensors.numpy.save({"tensor": np.ascontiguousarray(scaled.operands.b[0]),
                                   "scale": np.ascontiguousarray(scaled.b_scale[0])})
    for daemon in daemons:
        answer = requests.put(f"{daemon.url}/tensors/scaled", data=body, timeout=PATIENCE_S,
                              headers={"Content-Type": "application/vnd.safetensors"})
        assert answer.status_code == 201, answer.text
    parameters = {"m": M, "b": "scaled", "transb": 1, "scales": "block", "kernel": "tiled"}
    answer = same_bytes(daemons, "/gemm", parameters,
                        scaled.operands.a.tobytes() + scaled.a_scale.tobytes())
    assert_scaled(case, scaled, answer.content)


@pytest.mark.matrix
@pytest.mark.parametrize("parameters, shape", [
    ({"causal": 1}, (3, 4, 400, 64)),
    ({"softcap": 5, "window": 100, "causal": 1}, (3, 4, 400, 64)),
    ({"layout": "bshd"}, (3, 400, 4, 64)),
    ({}, (1, 10, 400, 64)),
], ids=str)
def test_attentions(daemons, parameters, shape):
    q, k, v = (random(seed, *shape) for seed in (9, 10, 11))
    same_bytes(daemons, "/attention", parameters, npy(q, k, v), {"Content-Type": "application/x-npy"})


def test_heads_that_share_keys(daemons):
    q, k, v = random(12, 1, 12, 400, 64), random(13, 1, 4, 400, 64), random(14, 1, 4, 400, 64)
    same_bytes(daemons, "/attention", {}, npy(q, k, v), {"Content-Type": "application/x-npy"})


@pytest.mark.parametrize("queries, keys", [(400, 400), (1, 8000)])
def test_interleaved_heads_of_one_entry_stay_together(daemons, queries, keys):
    """With one query, the heads of Q and O lie apart, but those of K and V do not."""
    q, k = random(15, 1, queries, 10, 64), random(27, 1, keys, 10, 64)
    same_bytes(daemons, "/attention", {"layout": "bshd"}, npy(q, k, k),
               {"Content-Type": "application/x-npy"}, divided=False)


def test_lengths_of_entries(daemons):
    q = random(16, 4, 4, 400, 64)
    lens = np.array([[400, 1, 200, 399], [100, 400, 3, 400]], np.int32)
    shape = {"batch": 4, "heads": 4, "sq": 400, "skv": 400, "d": 64, "dtype": "f32", "lens": 1}
    same_bytes(daemons, "/attention", shape, lens.tobytes() + 3 * q.tobytes())


def test_slopes_and_sinks_of_entries_and_heads(daemons):
    for seed, batch, heads in ((39, 4, 4), (40, 1, 10)):
        q, vectors = random(seed, batch, heads, 400, 64), random(seed, 2, heads)
        shape = {"batch": batch, "heads": heads, "sq": 400, "d": 64, "dtype": "f32", "alibi": 1, "sinks": 1}
        same_bytes(daemons, "/attention", shape, vectors.tobytes() + 3 * q.tobytes())


def test_ragged_entries_are_divided_by_heads(daemons):
    q = random(41, 10, 600, 64)
    lens = np.array([[0, 400, 401, 600], [0, 1, 300, 600]], np.int32)
    shape = {"batch": 3, "heads": 10, "sq": 600, "d": 64, "dtype": "f32", "lens": "ragged", "sinks": 1}
    body = lens.tobytes() + random(42, 10).tobytes() + 3 * q.tobytes()
    same_bytes(daemons, "/attention", shape, body)
    same_bytes(daemons, "/attention", shape | {"layout": "bshd"}, body, divided=False)


@pytest.mark.parametrize("more", [
    {"m": 100, "n": N, "k": K},  # one step of rows
    {"m": M, "n": 8, "k": 8},  # too small to be worth it
    {"m": M, "n": N, "k": K, "kernel": "openblas"},  # its bits depend on the number of rows
], ids=str)
def test_products_that_stay_on_one_device(daemons, more):
    body = random(17, more["m"] * more["k"] + more["k"] * more["n"]).tobytes()
    same_bytes(daemons, "/gemm", {"kernel": "tiled", **more}, body, divided=False)


def test_resident_operands_are_copied_once(daemons):
    """Either operand, or both, and wherever they are."""
    a, b = random(18, M, K), random(19, K, N)
    for daemon in daemons:
        for name in ("A", "spare"):
            put(daemon, name, a)
        put(daemon, "B", b)
    for names in ({"b": "B"}, {"a": "A"}, {"a": "A", "b": "B"}, {"a": "A", "b": "B"}):
        body = (b"" if "a" in names else a.tobytes()) + (b"" if "b" in names else b.tobytes())
        shape = {"m": M} if "a" not in names else {"n": N} if "b" not in names else {}
        same_bytes(daemons, "/gemm", {"kernel": "tiled", **shape, **names}, body)
    two = daemons[1]
    copied = sum(per_device(two, "link_bytes"))
    for _ in range(4):
        answer = gemm(two, a="A", b="B", kernel="tiled")
        assert int(answer.headers["Gemmd-Devices"]) == 2
    assert sum(per_device(two, "link_bytes")) == copied
    for name in ("A", "B"):
        assert tensors(two)[name]["devices"] == [0, 1]


def test_a_copy_that_no_part_has_made_is_not_used(start):
    """The last device has no room for a copy of B, so that the product stays on one device, after the copy for
    the device before has been planned. When there is room, the copies are made."""
    daemon = start(*ONE_THREAD, "--devices", "3", "--tensor-bytes", "1M")
    a, b = random(27, M, K), random(28, K, N)
    arrays = {"B": b, "small": np.ones((1, 1024), np.float32), "large": np.ones((180, 1024), np.float32)}
    assert [put(daemon, name, array)["devices"] for name, array in arrays.items()] == [[0], [1], [2]]
    before = per_device(daemon, "tensor_used_bytes")
    product = {"m": M, "b": "B", "kernel": "tiled"}
    whole = gemm(daemon, a.tobytes(), **product)
    assert whole.status_code == 200 and "Gemmd-Devices" not in whole.headers
    assert per_device(daemon, "tensor_used_bytes") == before
    requests.delete(f"{daemon.url}/tensors/large", timeout=PATIENCE_S).raise_for_status()
    divided = gemm(daemon, a.tobytes(), **product)
    assert divided.headers["Gemmd-Devices"] == "3"
    assert divided.content == whole.content


def test_a_stored_result_is_computed_where_it_lies(daemons):
    a, b = random(20, M, K), random(21, K, N)
    body = a.tobytes() + b.tobytes()
    stored = []
    for daemon in daemons:
        answer = gemm(daemon, body, m=M, n=N, k=K, kernel="tiled", store="C")
        assert answer.status_code == 201 and "Gemmd-Devices" not in answer.headers
        stored.append(requests.get(f"{daemon.url}/tensors/C", timeout=PATIENCE_S).content)
    assert stored[0] == stored[1] == stored[2]


def test_jobs_and_models(daemons):
    a, b = random(22, M, K), random(23, K, N)
    results = []
    for daemon in daemons:
        job = gemm(daemon, a.tobytes() + b.tobytes(), {"Prefer": "respond-async"}, m=M, n=N, k=K,
                   kernel="tiled")
        result = requests.get(f"{daemon.url}{job.headers['Location']}/result?wait_ms=20000",
                              timeout=PATIENCE_S)
        assert result.status_code == 200
        assert ("Gemmd-Devices" in result.headers) == (daemon is not daemons[0])
        results.append(result.content)
        put(daemon, "W", b)
        inferred = requests.post(
            f"{daemon.url}/v2/models/linear.W/infer", data=a.tobytes(), timeout=PATIENCE_S,
            headers={"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"})
        assert inferred.status_code == 200, inferred.text
    assert results[0] == results[1] == results[2]


def test_many_at_once(daemons):
    """Under load, products are divided or not, and have the same bytes."""
    a, b = random(24, M, K), random(25, K, N)
    body = a.tobytes() + b.tobytes()
    wanted = same_bytes(daemons, "/gemm", {"m": M, "n": N, "k": K, "kernel": "tiled"}, body).content
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: gemm(daemons[2], body, m=M, n=N, k=K, kernel="tiled").content,
                                range(40)))
    assert all(answer == wanted for answer in answers)


def used(daemon):
    found = values(scrape(daemon))
    return [found[f"gemmd_{name}"] for name in ("pinned_memory_used_bytes", "device_memory_used_bytes",
                                                "queue_bytes")]


LONG = {"m": 8192, "n": 8192, "k": 2048, "dtype": "bf16", "kernel": "naive"}
LONG_BYTES = 2 * 2 * 8192 * 2048


def long_product():
    """Takes minutes, on any number of devices."""
    return request("POST", "/gemm?" + "&".join(f"{name}={value}" for name, value in LONG.items()),
                   [OCTETS, ("Content-Length", LONG_BYTES)], bytes(LONG_BYTES))


def test_a_product_is_not_divided_for_a_small_gain(start):
    """The other device is busy for nearly as long as the product takes on one device."""
    daemon = start(*ONE_THREAD, "--devices", "2", *PATIENT)
    before = used(daemon)

    def devices(rows):
        answer = gemm(daemon, bytes(4 * (rows * K + K * N)), m=rows, n=N, k=K, kernel="tiled")
        assert answer.status_code == 200, answer.text
        return int(answer.headers.get("Gemmd-Devices", 1))

    assert devices(2560) == 2
    with Wire(daemon.address) as busy:  # a product whose kernel is not divided
        busy.send(request("POST", f"/gemm?m=2048&n={N}&k={K}&kernel=openblas",
                          [OCTETS, ("Content-Length", 4 * (2048 * K + K * N))], b"\0"))
        wait_until(lambda: values(scrape(daemon))["gemmd_queue_requests"] == 1, "the request")
        assert devices(2560) == 1
        assert devices(6 * 2560) == 2
    wait_until(lambda: used(daemon) == before, "what the request held")


def test_a_client_that_leaves_ends_every_part(start):
    daemon = start(*ONE_THREAD, "--devices", "2")
    before = used(daemon)
    with Wire(daemon.address) as wire:
        wire.send(long_product())
        wait_until(lambda: per_device(daemon, "requests_running") == [1, 1], "both parts to run")
    wait_until_running(daemon, 0)
    wait_until(lambda: used(daemon) == before, "what the request held")


def test_parts_that_wait_are_taken_back(start):
    """Both devices are busy: the parts wait, and go with the client."""
    daemon = start(*ONE_THREAD, "--devices", "2")
    before = used(daemon)
    with Wire(daemon.address) as first:
        first.send(long_product())
        wait_until(lambda: per_device(daemon, "requests_running") == [1, 1], "both parts to run")
        with Wire(daemon.address) as second:
            second.send(long_product())
            wait_until(lambda: per_device(daemon, "requests_waiting") == [1, 1], "both parts to wait")
        wait_until(lambda: sum(per_device(daemon, "requests_waiting")) == 0, "both parts to be taken back")
        assert per_device(daemon, "requests_running") == [1, 1]
    wait_until(lambda: used(daemon) == before, "what the requests held")


def test_a_deadline_ends_every_part(start):
    daemon = start(*ONE_THREAD, "--devices", "2")
    answer = gemm(daemon, bytes(LONG_BYTES), timeout_ms=1500, **LONG)
    assert answer.status_code == 504
    wait_until_running(daemon, 0)
    assert gemm(daemon, bytes(32), m=2, n=2, k=2).status_code == 200


def test_the_loss_of_one_device(gemmd, tmp_path):
    """The request fails; the next one is computed by the device that is left."""
    fault = tmp_path / "lose"
    daemon = Daemon(gemmd.parent.parent / "tests/gemmd-losing", *ONE_THREAD, "--devices", "2",
                    environment={"LOSE_DEVICE": str(fault)})
    shape = {"m": 13, "n": 17, "k": 19, "batch": 8192, "kernel": "tiled"}
    body = random(26, 8192 * (13 * 19 + 19 * 17)).tobytes()
    try:
        daemon.wait_until_listening().wait_until_ready()
        whole = gemm(daemon, body, **shape)
        assert whole.headers["Gemmd-Devices"] == "2"
        fault.touch()
        assert gemm(daemon, body, **shape).status_code == 503
        assert not fault.exists()
        wait_until(lambda: sum(per_device(daemon, "lost")) == 1, "the loss")
        again = gemm(daemon, body, **shape)
        assert again.content == whole.content and "Gemmd-Devices" not in again.headers
        daemon.stop()
    finally:
        daemon.close()

"""A daemon with several devices: which device computes, where tensors lie, what the loss of one
leaves, and that the bytes of answers do not depend on the number of devices. The CPU backend
divides the cores into devices."""

import concurrent.futures
import re
import subprocess

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S, PATIENT, Daemon
from oracle import LONG_DRAIN
from patience import wait_until
from test_device_loss import LOSING, send_losing
from test_metrics import scrape, values
from wire import Wire, exchange, request

ONE_THREAD = ("--backend", "cpu", "--cpu-threads", "1", "--no-cpu-pauses")
OCTETS = ("Content-Type", "application/octet-stream")


def per_device(daemon, name):
    """The values of a family with a label for each device, in the order of the devices."""
    found = {int(re.search(r'device="(\d+)"', key)[1]): value for key, value in values(scrape(daemon)).items()
             if key.startswith(f"gemmd_per_device_{name}")}
    return [found[number] for number in sorted(found)]


def wait_until_running(daemon, count):
    wait_until(lambda: sum(per_device(daemon, "requests_running")) == count, f"{count} works to run")


def put(daemon, name, array, **parameters):
    answer = requests.put(f"{daemon.url}/tensors/{name}", data=array.tobytes(), timeout=PATIENCE_S,
                          params={"dtype": "f32", "shape": ",".join(map(str, array.shape)),
                                  **parameters})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def tensors(daemon):
    listed = requests.get(f"{daemon.url}/tensors", timeout=PATIENCE_S).json()["tensors"]
    return {one["name"]: one for one in listed}


def gemm(daemon, data=b"", headers=None, **parameters):
    return requests.post(f"{daemon.url}/gemm", params=parameters, data=data, headers=headers or {},
                         timeout=PATIENCE_S)


@pytest.fixture
def two(start):
    return start(*ONE_THREAD, "--devices", "2", *PATIENT)


def test_info_lists_the_devices(two):
    info = requests.get(f"{two.url}/info", timeout=PATIENCE_S).json()
    assert [device["index"] for device in info["devices"]] == [0, 1]
    assert not any(device["lost"] for device in info["devices"])
    assert info["limits"]["devices"] == "2"
    assert info["devices"][0]["peak"] == info["devices"][1]["peak"], "shares of the same cores"
    assert per_device(two, "lost") == [0, 0]
    assert requests.get(f"{two.url}/readyz", timeout=PATIENCE_S).json() == {"ready": True}


@pytest.mark.parametrize("text", ["all", "0", "1"])
def test_one_device_has_no_families_of_its_own(start, text):
    daemon = start(*ONE_THREAD, "--devices", text)
    assert len(requests.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"]) == 1
    assert per_device(daemon, "lost") == []


@pytest.mark.parametrize("text", ["17", "0,1", "-1", "GPU-5f1e0cb2", "two", " 2", "2,", "1,1"])
def test_devices_that_the_cpu_cannot_make(gemmd, text):
    result = subprocess.run([gemmd, "--backend", "cpu", "--listen", "127.0.0.1:0", "--devices", text],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("gemmd: ") and result.stderr.count("\n") == 1
    assert f'--devices is "{text}"' in result.stderr


def test_tensors_are_divided_among_the_devices(two):
    rows = np.ones((64, 256), np.float32)
    places = [put(two, f"T{i}", rows)["devices"][0] for i in range(6)]
    assert sorted(places) == [0, 0, 0, 1, 1, 1]
    assert per_device(two, "tensor_used_bytes") == [3 * 65536, 3 * 65536]
    assert {name: one["devices"] for name, one in tensors(two).items()} == {
        f"T{i}": [place] for i, place in enumerate(places)}


def test_a_tensor_goes_where_there_is_room(start):
    daemon = start(*ONE_THREAD, "--devices", "2", "--tensor-bytes", "1M")
    large, small = np.ones((160, 1024), np.float32), np.ones((1, 1024), np.float32)
    first = put(daemon, "first", large)["devices"][0]
    assert put(daemon, "small", small)["devices"][0] == 1 - first
    assert put(daemon, "second", large)["devices"][0] == 1 - first
    refused = requests.put(f"{daemon.url}/tensors/third", data=large.tobytes(), timeout=PATIENCE_S,
                           params={"dtype": "f32", "shape": "160,1024"})
    assert refused.status_code == 507


def test_evictable_tensors_make_room_on_their_own_device(start):
    daemon = start(*ONE_THREAD, "--devices", "2", "--tensor-bytes", "1M")
    rows = np.ones((160, 1024), np.float32)
    kept, leaving = put(daemon, "kept", rows), put(daemon, "leaving", rows, evictable=1)
    assert kept["devices"][0] != leaving["devices"][0]
    assert put(daemon, "new", rows)["devices"][0] == leaving["devices"][0]
    assert set(tensors(daemon)) == {"kept", "new"}


def test_products_run_where_their_operand_is(two):
    b = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 64
    place = {name: put(two, name, b)["devices"][0] for name in ("B0", "B1")}
    assert sorted(place.values()) == [0, 1]
    a = np.ones((3, 64), np.float32)
    for name, device in place.items():
        before = per_device(two, "launches")
        for _ in range(5):
            answer = gemm(two, a.tobytes(), m=3, n=64, k=64, b=name, kernel="tiled")
            assert answer.status_code == 200
            assert np.array_equal(np.frombuffer(answer.content, np.float32).reshape(3, 64), a @ b)
        after = per_device(two, "launches")
        assert after[device] - before[device] == 5
        assert after[1 - device] == before[1 - device]
    assert per_device(two, "link_bytes") == [0, 0]


@pytest.mark.parametrize("larger", ["a", "b"])
def test_operands_on_two_devices(two, larger):
    """The smaller operand is copied to the device of the larger one; a stored result stays there."""
    shapes = {"a": (40, 200), "b": (200, 8)} if larger == "a" else {"a": (8, 200), "b": (200, 40)}
    rng = np.random.default_rng(7)
    arrays = {name: rng.integers(-8, 8, shape).astype(np.float32) for name, shape in shapes.items()}
    place = {name: put(two, name, array)["devices"][0] for name, array in arrays.items()}
    assert place["a"] != place["b"]
    wanted = arrays["a"] @ arrays["b"]
    answer = gemm(two, a="a", b="b")
    assert answer.status_code == 200, answer.text
    assert np.array_equal(np.frombuffer(answer.content, np.float32).reshape(wanted.shape), wanted)
    smaller = arrays["b" if larger == "a" else "a"]
    moved = per_device(two, "link_bytes")
    assert moved[place[larger]] == smaller.nbytes and moved[1 - place[larger]] == 0
    stored = gemm(two, a="a", b="b", store="c")
    assert stored.status_code == 201 and stored.json()["devices"][0] == place[larger]
    raw = requests.get(f"{two.url}/tensors/c", timeout=PATIENCE_S).content
    assert np.array_equal(np.frombuffer(raw, np.float32).reshape(wanted.shape), wanted)
    # The copy was made once, and is kept until its tensor is deleted.
    assert per_device(two, "link_bytes") == moved
    name = "b" if larger == "a" else "a"
    assert tensors(two)[name]["devices"] == [0, 1]
    assert sum(per_device(two, "tensor_used_bytes")) == sum(
        one["memory_bytes"] * len(one["devices"]) for one in tensors(two).values())
    assert requests.delete(f"{two.url}/tensors/{name}", timeout=PATIENCE_S).status_code == 204
    assert sum(per_device(two, "tensor_used_bytes")) == sum(
        one["memory_bytes"] for one in tensors(two).values())


def test_no_room_for_a_copy(start):
    daemon = start(*ONE_THREAD, "--devices", "2", "--tensor-bytes", "1M")
    place = {}
    for name, rows in (("a", 160), ("b", 150)):
        place[name] = put(daemon, name, np.ones((rows, 1024), np.float32))["devices"][0]
    assert place["a"] != place["b"]
    answer = gemm(daemon, a="a", b="b", transb=1)
    assert answer.status_code == 503
    assert "no room for a copy of the tensor" in answer.json()["detail"]
    assert requests.delete(f"{daemon.url}/tensors/b", timeout=PATIENCE_S).status_code == 204
    assert sum(per_device(daemon, "tensor_used_bytes")) == tensors(daemon)["a"]["memory_bytes"]


def mixed_requests():
    """Products of all kinds, attentions and jobs, as (path, parameters, body, headers)."""
    rng = np.random.default_rng(3)
    made = []
    for m, n, k in ((1, 1, 1), (5, 7, 9), (64, 64, 64), (33, 200, 129), (256, 128, 64), (1, 64, 64)):
        for dtype in (np.float32, np.float16, np.int8):
            name = {np.float32: "f32", np.float16: "f16", np.int8: "i8"}[dtype]
            body = b"".join(rng.integers(-9, 9, s).astype(dtype).tobytes() if dtype is np.int8
                            else rng.standard_normal(s).astype(dtype).tobytes()
                            for s in ((m, k), (k, n)))
            made.append(("/gemm", {"m": m, "n": n, "k": k, "dtype": name}, body))
    for heads, sq, skv, d in ((2, 3, 17, 16), (4, 64, 64, 32)):
        body = rng.standard_normal(heads * d * (sq + 2 * skv)).astype(np.float32).tobytes()
        made.append(("/attention", {"heads": heads, "sq": sq, "skv": skv, "d": d, "dtype": "f32"},
                     body))
    for rows in (1, 4, 40):
        body = rng.standard_normal((rows, 96)).astype(np.float32).tobytes()
        for weight in ("W0", "W1", "W2"):
            made.append(("/gemm", {"m": rows, "n": 80, "k": 96, "b": weight}, body))
    return made


def answers_of(daemon, made, rounds):
    rng = np.random.default_rng(5)
    for i in range(3):
        put(daemon, f"W{i}", rng.standard_normal((96, 80)).astype(np.float32))

    def one(number):
        path, parameters, body = made[number % len(made)]
        answer = requests.post(f"{daemon.url}{path}", params=parameters, data=body,
                               timeout=PATIENCE_S)
        assert answer.status_code == 200, answer.text
        return answer.content

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return list(pool.map(one, range(rounds * len(made))))


@pytest.mark.parametrize("devices", [2, 3])
def test_the_bytes_are_those_of_one_device(start, devices):
    made = mixed_requests()
    several = start(*ONE_THREAD, "--devices", str(devices))
    of_one = answers_of(start(*ONE_THREAD), made, 1)
    for number, answer in enumerate(answers_of(several, made, 4)):
        assert answer == of_one[number % len(made)], made[number % len(made)][:2]
    assert all(launches > 0 for launches in per_device(several, "launches"))


def endless(b=None):
    """A product that takes minutes and is not divided among devices, because its result is to be stored; `b`
    names a resident B."""
    m, n, k = 8192, 4096, 2048
    length = 2 * (m * k + (k * n if b is None else 0))
    return request("POST", f"/gemm?m={m}&n={n}&k={k}&dtype=bf16&store=C&kernel=naive" + (f"&b={b}" if b else ""),
                   [OCTETS, ("Content-Length", length)], bytes(length))


def test_long_products_run_on_both_devices_at_the_same_time(two):
    """The second one goes to the device that has nothing to do. Both end when their clients leave."""
    data = endless()
    with Wire(two.address) as first, Wire(two.address) as second:
        first.send(data)
        wait_until_running(two, 1)
        second.send(data)
        wait_until_running(two, 2)
        assert per_device(two, "requests_running") == [1, 1]
    wait_until_running(two, 0)


def product_on(name, size, *headers):
    """A product that is not divided among devices, because it has one step of rows, and its body."""
    m = min(size, 256)
    length = 4 * m * size
    return request("POST", f"/gemm?m={m}&n={size}&k={size}&kernel=naive&b={name}",
                   [OCTETS, ("Content-Length", length), *headers]), bytes(length)


def copy_to_both(daemon, name, size):
    """Has a tensor copied to the other device, by giving its own device a request first. That request waits for
    its body until the other request is done."""
    put(daemon, name, np.ones((size, size), np.float32))
    with Wire(daemon.address) as first, Wire(daemon.address) as second:
        head, body = product_on(name, size, ("Expect", "100-continue"))
        first.send(head)
        assert first.receive().status == 100
        second.send(b"".join(product_on(name, size)))
        assert second.receive().status == 200
        first.send(body)
        assert first.receive().status == 200


def test_a_tensor_is_copied_to_a_device_that_has_less_to_do(two):
    size = 256
    copy_to_both(two, "W", size)
    assert tensors(two)["W"]["devices"] == [0, 1]
    assert sum(per_device(two, "link_bytes")) == 4 * size * size
    with Wire(two.address) as first, Wire(two.address) as second:
        for wire in (first, second):
            wire.send(b"".join(product_on("W", size)))
        for wire in (first, second):
            assert wire.receive().status == 200
    assert sum(per_device(two, "link_bytes")) == 4 * size * size, "copied once"
    # A new tensor of the same name has no copy yet.
    put(two, "W", np.ones((4, 4), np.float32))
    assert len(tensors(two)["W"]["devices"]) == 1


def test_replicas_that_an_upload_asks_for(start):
    daemon = start(*ONE_THREAD, "--devices", "3", "--tensor-bytes", "1M")
    rows = np.arange(100 * 1024, dtype=np.float32).reshape(100, 1024) / 1024
    assert put(daemon, "W", rows, replicate="all")["devices"] == [0, 1, 2]
    assert sum(per_device(daemon, "tensor_used_bytes")) == 3 * rows.nbytes
    # A device without room gets no copy, and older copies give way to newer ones and to tensors.
    large = np.ones((200, 1024), np.float32)
    assert put(daemon, "L0", large, replicate="all")["devices"] == [1, 2]
    assert put(daemon, "L1", large, replicate="all")["devices"] == [2]
    assert {name: one["devices"] for name, one in tensors(daemon).items()} == {
        "L0": [1], "L1": [2], "W": [0]}
    for name in ("W", "L0", "L1"):
        raw = requests.get(f"{daemon.url}/tensors/{name}", timeout=PATIENCE_S)
        assert raw.content == (rows if name == "W" else large).tobytes()
    assert put(daemon, "small", np.ones(3, np.float32), replicate="one")["devices"] == [0]


def test_replicate_takes_one_or_all(two):
    answer = requests.put(f"{two.url}/tensors/W", data=bytes(4), timeout=PATIENCE_S,
                          params={"shape": "1", "replicate": "two"})
    assert answer.status_code == 400
    assert "replicate is 'two'; it must be one or all" in answer.json()["detail"]


def test_a_copy_of_work_that_nobody_waits_for_is_not_kept(two):
    put(two, "W", np.zeros((2048, 4096), np.uint16), dtype="bf16")
    with Wire(two.address) as first, Wire(two.address) as second:
        first.send(endless("W"))
        wait_until_running(two, 1)
        second.send(endless("W"))
        wait_until_running(two, 2)
        assert per_device(two, "requests_running") == [1, 1]
    # Both clients have left.
    wait_until_running(two, 0)
    wait_until(lambda: sum(per_device(two, "tensor_used_bytes")) == tensors(two)["W"]["memory_bytes"],
               "the memory of the copy to be given back")
    assert len(tensors(two)["W"]["devices"]) == 1


@pytest.fixture
def losing(gemmd, tmp_path):
    path = gemmd.parent.parent / "tests/gemmd-losing"
    fault = tmp_path / "lose"
    daemon = Daemon(path, *ONE_THREAD, "--devices", "2", *PATIENT, environment={"LOSE_DEVICE": str(fault)})
    try:
        daemon.wait_until_listening().wait_until_ready()
        daemon.fault = fault
        yield daemon
    finally:
        daemon.close()


def lose_one(losing):
    """Loses one device of two, and waits until the tensors on that device are gone."""
    losing.fault.touch()
    assert exchange(losing.address, LOSING).status == 503
    losing.wait_for(lambda lines: any("goes on with the others" in str(line.get("message"))
                                      for line in lines), "the loss")


def test_the_loss_of_one_device(losing):
    b = np.eye(64, dtype=np.float32)
    place = {name: put(losing, name, b)["devices"][0] for name in ("B0", "B1")}
    lose_one(losing)
    lost = per_device(losing, "lost")
    assert sum(lost) == 1
    # Tensors of the lost device are gone, and those of the other are there.
    gone = next(name for name, device in place.items() if lost[device])
    assert set(tensors(losing)) == set(place) - {gone}
    a = np.ones((2, 64), np.float32)
    for name in place:
        answer = gemm(losing, a.tobytes(), m=2, n=64, k=64, b=name)
        assert answer.status_code == (404 if name == gone else 200)
    for _ in range(8):
        assert gemm(losing, bytes(32), m=2, n=2, k=2).status_code == 200
    assert put(losing, gone, b)["devices"][0] == 1 - place[gone]
    ready = requests.get(f"{losing.url}/readyz", timeout=PATIENCE_S)
    assert ready.status_code == 200
    assert ready.json() == {"ready": True, "degraded": True, "devices": 2, "devices_ready": 1}
    devices = requests.get(f"{losing.url}/info", timeout=PATIENCE_S).json()["devices"]
    assert [device["lost"] for device in devices] == [bool(one) for one in lost]


def test_a_tensor_with_a_copy_outlives_its_device(losing):
    size = 256
    copy_to_both(losing, "W", size)
    tag = tensors(losing)["W"]["etag"]
    lose_one(losing)
    left = [number for number, lost in enumerate(per_device(losing, "lost")) if not lost]
    described = tensors(losing)["W"]
    assert (described["devices"], described["etag"]) == (left, tag)
    answer = gemm(losing, bytes(4 * 2 * size), m=2, n=size, k=size, b="W")
    assert answer.status_code == 200


def test_the_loss_of_the_last_device(losing):
    """The daemon replaces itself, and has both devices again."""
    lose_one(losing)
    losing.fault.touch()
    send_losing(losing)
    assert not losing.fault.exists()
    losing.wait_for(lambda lines: any("replaces itself" in str(line.get("message"))
                                      for line in lines), "the restart")
    losing.wait_until_ready()
    assert gemm(losing, bytes(32), m=2, n=2, k=2).status_code == 200
    assert per_device(losing, "lost") == [0, 0]


def test_a_log_line_of_the_start_names_each_device(two):
    lines = [message for message in two.messages() if message.startswith("computing on")]
    assert [int(re.search(r"device (\d)", line)[1]) for line in lines] == [0, 1]


def start_broken(gemmd, broken):
    return Daemon(gemmd.parent.parent / "tests/gemmd-losing", *ONE_THREAD, "--devices", "3",
                  environment={"BROKEN_DEVICES": broken})


def test_devices_that_do_not_work_are_left_out(gemmd):
    daemon = start_broken(gemmd, "02")
    try:
        daemon.wait_until_listening().wait_until_ready()
        assert [message for message in daemon.messages() if "is left out" in message] == [
            f"device {number} is left out, since it does not compute: a test has broken the device"
            for number in (0, 2)]
        devices = requests.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["devices"]
        assert [device["index"] for device in devices] == [1]
        assert gemm(daemon, bytes(32), m=2, n=2, k=2).status_code == 200
        daemon.stop()
    finally:
        daemon.close()


def test_no_device_that_works(gemmd):
    daemon = start_broken(gemmd, "012")
    try:
        assert daemon.wait() == 1
        assert "a test has broken the device" in daemon.stderr()
    finally:
        daemon.close()


def test_a_device_without_memory_is_passed_over(start):
    """Requests whose bodies have not arrived hold memory of their devices."""
    daemon = start(*ONE_THREAD, "--devices", "2", "--device-bytes", "8M", "--tensor-bytes", "0", *PATIENT)
    side = 1024
    widened = "/gemm?m=1&n=1024&k=1024&dtype=f16&kernel=openblas"  # 4 MiB for B as f32
    length = 2 * (side + side * side)
    with Wire(daemon.address) as first, Wire(daemon.address) as busy, Wire(daemon.address) as third:
        def used():
            return per_device(daemon, "memory_used_bytes")

        def hold(wire, target, bytes_of_body):
            wire.send(request("POST", target, [OCTETS, ("Content-Length", bytes_of_body)], b"\0"))

        hold(first, widened, length)
        wait_until(lambda: used()[0] > 0, "the memory of the first request")
        # Many operations on the other device, and no memory: the first device would be done first.
        hold(busy, f"/gemm?m={side}&n={side}&k={side}&kernel=openblas", 8 * side * side)
        wait_until(lambda: values(scrape(daemon))["gemmd_queue_requests"] == 2, "the second request")
        assert gemm(daemon, bytes(length), m=1, n=side, k=side, dtype="f16",
                    kernel="openblas").status_code == 200
        assert per_device(daemon, "launches") == [0, 1]
        hold(third, widened, length)
        wait_until(lambda: used()[1] > 0, "the memory of the third request")
        refused = gemm(daemon, bytes(length), m=1, n=side, k=side, dtype="f16", kernel="openblas")
        assert refused.status_code == 503
        assert "out of device memory" in refused.json()["detail"]
    wait_until(lambda: used() == [0, 0], "the memory of requests whose clients have left")


def test_a_device_without_memory_is_passed_over_for_a_busy_one(start):
    daemon = start(*ONE_THREAD, "--devices", "2", "--device-bytes", "8M", "--tensor-bytes", "0", *PATIENT)
    side = 1024
    widened = "/gemm?m=1&n=1024&k=1024&dtype=f16&kernel=openblas"  # 4 MiB for B as f32
    length = 2 * (side + side * side)
    with Wire(daemon.address) as busy, Wire(daemon.address) as second:
        def hold(wire, target, bytes_of_body):
            wire.send(request("POST", target, [OCTETS, ("Content-Length", bytes_of_body)], b"\0"))

        hold(busy, f"/gemm?m={side}&n={side}&k={side}&kernel=openblas", 8 * side * side)
        wait_until(lambda: values(scrape(daemon))["gemmd_queue_requests"] == 1, "the first request")
        hold(second, widened, length)
        wait_until(lambda: per_device(daemon, "memory_used_bytes")[1] > 0, "the memory of the second request")
        # The second device would be done first, but has no memory for another such request.
        assert gemm(daemon, bytes(length), m=1, n=side, k=side, dtype="f16",
                    kernel="openblas").status_code == 200
        assert per_device(daemon, "launches") == [1, 0]


def test_jobs_and_models_use_the_device_of_their_tensor(two):
    b = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 64
    x = np.ones((2, 64), np.float32)
    place = {name: put(two, name, b)["devices"][0] for name in ("W0", "W1")}
    assert sorted(place.values()) == [0, 1]
    for name, device in place.items():
        before = per_device(two, "launches")
        inferred = requests.post(f"{two.url}/v2/models/linear.{name}/infer", timeout=PATIENCE_S, json={
            "inputs": [{"name": "X", "shape": [2, 64], "datatype": "FP32",
                        "data": x.ravel().tolist()}]})
        assert inferred.status_code == 200, inferred.text
        assert np.array_equal(np.float32(inferred.json()["outputs"][0]["data"]).reshape(2, 64), x @ b)
        job = gemm(two, x.tobytes(), {"Prefer": "respond-async"}, m=2, n=64, k=64, b=name)
        assert job.status_code == 202
        result = requests.get(f"{two.url}{job.headers['Location']}/result?wait_ms=20000",
                              timeout=PATIENCE_S)
        assert result.content == (x @ b).tobytes()
        after = per_device(two, "launches")
        assert after[device] - before[device] == 2 and after[1 - device] == before[1 - device]


def test_a_daemon_that_drains_answers_on_every_device(start):
    two = start(*ONE_THREAD, "--devices", "2", *LONG_DRAIN)
    size = 512
    with Wire(two.address) as first, Wire(two.address) as second:
        for count, wire in enumerate((first, second), 1):
            wire.send(request("POST", f"/gemm?m={size}&n={size}&k={size}&kernel=naive",
                              [OCTETS, ("Content-Length", 8 * size * size)], bytes(8 * size * size)))
            # It runs, or has run already.
            wait_until(lambda wanted=count: sum(per_device(two, "requests_running"))
                       + sum(per_device(two, "launches")) >= wanted, f"product number {count}")
        two.terminate()
        assert first.receive().status == second.receive().status == 200
    assert two.wait() == 0

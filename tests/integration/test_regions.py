"""The shared memory extensions of the Open Inference Protocol, by its own client."""

import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests
import tritonclient.http as http
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from daemon import PATIENCE_S, Daemon
from matrices import Problem
from matrices import random_operands as operands_of
from memory import Connection, maps
from oip import DATATYPE, MODEL, split
from problem import assert_problem
from test_leaving import metrics, wait_for

ROOT = os.geteuid() == 0
NOBODY = 65534


class Region:
    """A POSIX shared memory object of the client's own."""

    def __init__(self, size):
        self.key = f"/gemmd-test-{uuid.uuid4().hex}"
        self.handle = shm.create_shared_memory_region("r", self.key, size)
        self.size = size

    def put(self, *arrays, offset=0):
        shm.set_shared_memory_region(self.handle, list(arrays), offset)

    def get(self, shape, offset=0, dtype=np.float32):
        return shm.get_contents_as_numpy(self.handle, dtype, shape, offset)

    def cut(self, size):
        os.truncate(f"/dev/shm{self.key}", size)

    def close(self):
        shm.destroy_shared_memory_region(self.handle)


@pytest.fixture(scope="module")
def daemon(gemmd):
    daemon = Daemon(gemmd, "--shm-system", "--shm-cuda", "--shm-bytes", "64M",
                    "--shm-regions", "8", listen=("127.0.0.1:0", f"unix:@gemmd-test-{uuid.uuid4().hex}"))
    try:
        daemon.wait_until_listening(2).wait_until_ready()
        yield daemon
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture
def client(daemon):
    with http.InferenceServerClient("%s:%d" % daemon.address, concurrency=2,
                                    network_timeout=PATIENCE_S) as client:
        yield client
        client.unregister_system_shared_memory()
        wait_for(daemon, shared_memories=0)  # which count against the limits of the next test


@pytest.fixture
def region():
    made = []

    def maker(size):
        made.append(Region(size))
        return made[-1]

    yield maker
    for each in made:
        each.close()


def given(name, shape, region, offset=0, dtype="f32"):
    tensor = http.InferInput(name, list(shape), DATATYPE[dtype])
    size = int(np.prod(shape)) * {"f32": 4, "i8": 1, "f16": 2}[dtype]
    tensor.set_shared_memory(region, size, offset)
    return tensor


def wanted(name, size, region, offset=0):
    output = http.InferRequestedOutput(name)
    output.set_shared_memory(region, size, offset)
    return output


def refused(status, call, *arguments, **keywords):
    """The sentence of the refusal."""
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **keywords)
    assert caught.value.status() == str(status), caught.value
    return caught.value.message()


def test_it_is_said_to_be_there(client, daemon):
    extensions = client.get_server_metadata()["extensions"]
    assert {"system_shared_memory", "cuda_shared_memory"} <= set(extensions)
    limits = daemon.session.get(f"{daemon.url}/info").json()["limits"]
    assert limits["shm-system"] is True and limits["shm-bytes"] == 64 << 20


@pytest.mark.parametrize("problem, start", [
    (Problem(17, 5, 33), 0), (Problem(17, 5, 33), 4096 + 64),
    (Problem(9, 6, 7, dtype="i8"), 4096), (Problem(9, 6, 7, dtype="f16", batch=3), 0)], ids=str)
def test_inputs_and_output_in_regions(problem, start, client, region, rng):
    operands = operands_of(problem, rng)
    a, b = (x if problem.batch > 1 else x[0] for x in (operands.a, operands.b))
    plain = [http.InferInput(name, list(x.shape), DATATYPE[problem.dtype]).set_data_from_numpy(x)
             for name, x in (("A", a), ("B", b))]
    expected = client.infer(MODEL[problem.dtype], plain).as_numpy("C")
    # The result lies in front of the operands, which begin where they please.
    here = region(start + expected.nbytes + a.nbytes + b.nbytes + 1)
    client.register_system_shared_memory("all", here.key, here.size - start, start)
    at = expected.nbytes + 1
    here.put(a, b, offset=start + at)
    inputs = [given("A", a.shape, "all", at, problem.dtype),
              given("B", b.shape, "all", at + a.nbytes, problem.dtype)]
    answer = client.infer(MODEL[problem.dtype], inputs, request_id="7",
                          outputs=[wanted("C", expected.nbytes, "all")]).get_response()
    assert answer["id"] == "7"
    assert answer["outputs"] == [{"name": "C", "datatype": DATATYPE[problem.result],
                                  "shape": list(expected.shape)}]
    got = here.get(expected.shape, start, expected.dtype)
    assert got.tobytes() == expected.tobytes()
    again = client.infer(MODEL[problem.dtype], inputs)
    assert again.as_numpy("C").tobytes() == expected.tobytes()


def test_names(client, region):
    one, other = region(8192), region(100)
    client.register_system_shared_memory("one", one.key, 4096, 4096)
    client.register_system_shared_memory("other", other.key, 100)
    entries = [{"name": "one", "key": one.key, "offset": 4096, "byte_size": 4096},
               {"name": "other", "key": other.key, "offset": 0, "byte_size": 100}]
    assert client.get_system_shared_memory_status() == entries
    assert client.get_system_shared_memory_status("other") == entries[1:]
    assert client.get_cuda_shared_memory_status() == []
    assert "registered already" in refused(400, client.register_system_shared_memory, "one",
                                           other.key, 100)
    client.unregister_cuda_shared_memory()
    client.unregister_system_shared_memory("one")
    client.unregister_system_shared_memory("one")  # what is gone is gone
    assert client.get_system_shared_memory_status() == entries[1:]
    refused(404, client.get_system_shared_memory_status, "one")


@pytest.mark.parametrize("status, says, size, offset", [
    (400, "1024 bytes from offset 4096", 1024, 4096),
    (400, "4097 bytes from offset 0", 4097, 0),
    (400, "byte_size", 0, 0),
    (400, "1 bytes from offset 9223372036854775807", 1, 2**63 - 1),
    (507, "needed, 64 MiB free of 64 MiB (--shm-bytes)", 2**63 - 1, 2**63 - 1), (400, "byte_size", 1, -1), (400, "byte_size", -1, 0),
    (400, "byte_size", "4096", 0), (400, "byte_size", 2**64, 0)])
def test_registering_what_is_not_there(status, says, size, offset, client, region):
    assert says in refused(status, client.register_system_shared_memory, "r", region(4096).key,
                           size, offset)


@pytest.mark.parametrize("key", [
    "/gemmd-none", "", "/", "//etc/passwd", "/../etc/passwd", "/..", "/.", "/a/b", "/a%2fb",
    "/" + "x" * 254, "/folder"])
def test_keys_that_are_nobodys(key, client):
    """All in the same words, so that nobody learns what there is."""
    if key == "/folder":
        key = f"/gemmd-folder-{os.getpid()}"
        os.mkdir(f"/dev/shm{key}")
    try:
        assert refused(404, client.register_system_shared_memory, "r", key, 1) == \
            "there is no shared memory object with that key that belongs to this client's user"
    finally:
        if "folder" in key:
            os.rmdir(f"/dev/shm{key}")


def test_a_key_under_a_lease(client):
    """Opening a file waits until a lease on it has been given up, by default for 45 s."""
    key = f"/gemmd-lease-{uuid.uuid4().hex}"
    fd = os.open(f"/dev/shm{key}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.truncate(fd, 4096)
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # which is ignored, where SIGIO ends a process
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert "no shared memory object" in refused(404, client.register_system_shared_memory, "r", key, 4096)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        client.register_system_shared_memory("r", key, 4096)
    finally:
        os.close(fd)
        os.unlink(f"/dev/shm{key}")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"[" * 2000, b"{\"key\":1,\"byte_size\":1}",
                                  b"{\"key\":\"/a\",\"key\":\"/b\",\"byte_size\":1}"])
@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_bodies_that_say_nothing(kind, body, daemon):
    answer = daemon.session.post(f"{daemon.url}/v2/{kind}sharedmemory/region/r/register",
                                 data=body, timeout=PATIENCE_S)
    assert_problem(answer, 400)
    answer = daemon.session.post(f"{daemon.url}/v2/{kind}sharedmemory/region/r/register",
                                 data=b" " * 4000, timeout=PATIENCE_S)
    assert_problem(answer, 413)


@pytest.mark.parametrize("name", ["a b", "x" * 129, "ä"])
def test_names_that_are_none(name, daemon):
    answer = daemon.session.post(f"{daemon.url}/v2/systemsharedmemory/region/{name}/register",
                                 json={"key": "/a", "byte_size": 1}, timeout=PATIENCE_S)
    assert answer.status_code in (400, 404), answer.text


def test_cuda_handles(client, daemon):
    """As far as a daemon without a GPU goes."""
    url = f"{daemon.url}/v2/cudasharedmemory/region/r/register"

    def register(b64, **more):
        return daemon.session.post(url, json={"raw_handle": {"b64": b64}, "device_id": 0,
                                              "byte_size": 64} | more, timeout=PATIENCE_S)

    for b64 in ("", "QUJD", "A" * 87, "A" * 88, "?" * 86 + "==", "A" * 85 + "B=="):
        assert_problem(register(b64), 400, "base64 of 64 bytes")
    assert_problem(register("A" * 86 + "==", device_id=-1), 400, "device_id")
    assert_problem(register("A" * 86 + "==", byte_size=0), 400, "byte_size")
    assert_problem(register("A" * 86 + "=="), 422, "computes on the CPU")
    assert client.get_cuda_shared_memory_status() == []
    wait_for(daemon, shared_memories=0)


@pytest.mark.parametrize("says, part", [
    ("no shared memory region 'nope'", {"shared_memory_region": "nope",
                                        "shared_memory_byte_size": 16}),
    ("is a shared_memory_region's name", {"shared_memory_region": "r"}),
    ("is a shared_memory_region's name", {"shared_memory_byte_size": 16}),
    ("is a shared_memory_region's name", {"shared_memory_region": "r" * 129,
                                          "shared_memory_byte_size": 16}),
    ("is a shared_memory_region's name", {"shared_memory_region": "r",
                                          "shared_memory_byte_size": 16,
                                          "shared_memory_offset": -1}),
    ("is 12 bytes, expected 16", {"shared_memory_region": "r", "shared_memory_byte_size": 12}),
    ("A: 16 bytes from offset 4081", {"shared_memory_region": "r", "shared_memory_byte_size": 16,
                                      "shared_memory_offset": 4081}),
    ("A: 16 bytes from offset 9223372036854775807",
     {"shared_memory_region": "r", "shared_memory_byte_size": 16,
      "shared_memory_offset": 2**63 - 1}),
    ("either data", {"shared_memory_region": "r", "shared_memory_byte_size": 16,
                     "binary_data_size": 0})])
def test_inputs_that_are_wrong(says, part, client, daemon, region):
    client.register_system_shared_memory("r", region(4096).key, 4096)
    inputs = [{"name": "A", "shape": [2, 2], "datatype": "FP32", "parameters": part},
              {"name": "B", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}]
    answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer",
                                 json={"inputs": inputs}, timeout=PATIENCE_S)
    assert_problem(answer, 400, says)


@pytest.mark.parametrize("status, says, output", [
    (400, "takes 16 bytes; its shared memory has 12", {"shared_memory_byte_size": 12}),
    (400, "C: 16 bytes from offset 4084", {"shared_memory_offset": 4084}),
    (400, "multiple of the 4 bytes", {"shared_memory_offset": 66}),
    (400, "overwrite an operand", {"shared_memory_offset": 12}),
    (400, "not both", {"binary_data": True}), (400, "no shared memory region",
                                               {"shared_memory_region": "nope"})])
def test_outputs_that_are_wrong(status, says, output, client, daemon, region):
    client.register_system_shared_memory("r", region(4096).key, 4096)
    inputs = [{"name": name, "shape": [2, 2], "datatype": "FP32",
               "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 16}}
              for name in "AB"]
    parameters = {"shared_memory_region": "r", "shared_memory_byte_size": 16,
                  "shared_memory_offset": 64} | output
    answer = daemon.session.post(f"{daemon.url}/v2/models/gemm_fp32/infer", timeout=PATIENCE_S, json={
        "inputs": inputs, "outputs": [{"name": "C", "parameters": parameters}]})
    assert_problem(answer, status, says)


ATTENTION_TENSORS = {"Q": ([2, 2, 4, 8], "FP32"), "K": ([2, 2, 5, 8], "FP32"),
                     "V": ([2, 2, 5, 6], "FP32"), "LENS_Q": ([2], "INT32"),
                     "LENS_KV": ([2], "INT32"), "O": ([2, 2, 4, 6], "FP32"),
                     "LSE": ([2, 2, 4], "FP32")}


def place_attention(client, region, rng, lens=((4, 3), (1, 5))):
    """All tensors of an attention in one region: (the region, the request's part for each)."""
    arrays = {name: rng.uniform(-1, 1, ATTENTION_TENSORS[name][0]).astype(np.float32)
              for name in "QKV"}
    arrays |= {name: np.array(each, np.int32) for name, each in zip(("LENS_Q", "LENS_KV"), lens)}
    at, parts = 64, {}
    for name, (shape, _) in ATTENTION_TENSORS.items():
        size = 4 * int(np.prod(shape))
        parts[name] = {"shared_memory_region": "all", "shared_memory_byte_size": size,
                       "shared_memory_offset": at}
        at += size
    here = region(at)
    for name, array in arrays.items():
        here.put(array, offset=parts[name]["shared_memory_offset"])
    client.register_system_shared_memory("all", here.key, here.size)
    return here, arrays, parts


@pytest.fixture
def attend(daemon):
    """attend(parts of inputs, outputs) -> the answer."""
    def asker(parts, outputs):
        inputs = [{"name": name, "shape": shape, "datatype": datatype, "parameters": parts[name]}
                  for name, (shape, datatype) in ATTENTION_TENSORS.items()
                  if name not in ("O", "LSE")]
        return daemon.session.post(f"{daemon.url}/v2/models/attention_fp32/infer",
                                   json={"inputs": inputs, "outputs": outputs},
                                   timeout=PATIENCE_S)
    return asker


@pytest.mark.parametrize("placed, sent", [(["O"], []), (["LSE"], []), (["O", "LSE"], []),
                                          (["LSE"], ["O"]), (["O"], ["LSE"])])
def test_every_tensor_of_an_attention(placed, sent, client, attend, region, rng):
    """Each input lies in a region, each output there or in the answer: the bytes are the same."""
    here, arrays, parts = place_attention(client, region, rng)
    plain = [http.InferInput(name, *ATTENTION_TENSORS[name]).set_data_from_numpy(array)
             for name, array in arrays.items()]
    expected = client.infer("attention_fp32", plain, parameters={"lse": True})
    answer = attend(parts, [{"name": name, "parameters": parts[name]} for name in placed] +
                    [{"name": name, "parameters": {"binary_data": True}} for name in sent])
    assert answer.status_code == 200, answer.text
    for name in placed:
        got = here.get(ATTENTION_TENSORS[name][0], parts[name]["shared_memory_offset"])
        assert got.tobytes() == expected.as_numpy(name).tobytes(), name
    said, data = split(answer)
    assert [output["name"] for output in said["outputs"]] == placed + sent
    assert all(output.keys() == {"name", "datatype", "shape"}
               for output in said["outputs"][:len(placed)])
    assert data == b"".join(expected.as_numpy(name).tobytes() for name in sent)
    for name in {"O", "LSE"} - set(placed):
        got = here.get(ATTENTION_TENSORS[name][0], parts[name]["shared_memory_offset"])
        assert not got.any(), f"{name} was written where nobody asked for it"


@pytest.mark.parametrize("says, changed", [
    ("overwrite each other", {"LSE": {"shared_memory_offset": "O"}}),
    ("overwrite an operand", {"LSE": {"shared_memory_offset": "V"}}),
    ("takes 64 bytes; its shared memory has 60", {"LSE": {"shared_memory_byte_size": 60}}),
    ("4 bytes, expected 8", {"LENS_Q": {"shared_memory_byte_size": 4}}),
    ("LENS_KV: 8 bytes from offset", {"LENS_KV": {"shared_memory_offset": 1 << 40}})])
def test_attentions_that_are_wrong(says, changed, client, attend, region, rng):
    _, _, parts = place_attention(client, region, rng)
    for name, members in changed.items():
        for member, value in members.items():
            parts[name][member] = parts[value][member] if isinstance(value, str) else value
    answer = attend(parts, [{"name": name, "parameters": parts[name]} for name in ("O", "LSE")])
    assert_problem(answer, 400, says)


def test_lengths_in_a_region_are_checked(client, attend, region, rng):
    _, _, parts = place_attention(client, region, rng, lens=((4, 3), (1, 6)))
    assert_problem(attend(parts, [{"name": "O"}]), 400, "skv", field="lens")


def test_one_kind_alone(start):
    """A client that takes away what it has of both kinds is told no error."""
    daemon = start("--shm-system")
    for path, status in (("register", 501), ("unregister", 200)):
        answer = daemon.session.post(f"{daemon.url}/v2/cudasharedmemory/region/r/{path}",
                                     timeout=PATIENCE_S)
        assert answer.status_code == status, answer.text


def run_naive(daemon, client, region, meanwhile):
    """A product in a region, while which `meanwhile` runs: (region, answer, what that gave). Larger
    and larger ones, until it was over before the product was."""
    deadline = time.monotonic() + PATIENCE_S
    for side in itertools.chain((384, 768), itertools.repeat(1536)):
        assert time.monotonic() < deadline, "the device is faster than this test"
        client.unregister_system_shared_memory()
        bytes_each = side * side * 4
        here = region(3 * bytes_each)
        ones = np.ones((side, side), np.float32)
        here.put(ones, ones)
        client.register_system_shared_memory("r", here.key, here.size)

        def part(place):
            return {"shared_memory_region": "r", "shared_memory_byte_size": bytes_each,
                    "shared_memory_offset": place * bytes_each}

        asked = {"parameters": {"kernel": "naive"},
                 "inputs": [{"name": name, "shape": [side, side], "datatype": "FP32",
                             "parameters": part(i)} for i, name in enumerate("AB")],
                 "outputs": [{"name": "C", "parameters": part(2)}]}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(requests.post, f"{daemon.url}/v2/models/gemm_fp32/infer",
                                 json=asked, timeout=PATIENCE_S)
            while metrics(daemon)["gemmd_requests_running"] != 1 and not answer.done():
                pass
            gave = meanwhile(here)
            during = metrics(daemon)["gemmd_requests_running"] == 1
            answer = answer.result(PATIENCE_S)
        if during:
            return here, answer, gave


def test_a_region_cut_short_before_it_is_used(client, region):
    here = region(8192)
    client.register_system_shared_memory("r", here.key, 8192)
    inputs = [given("A", (2, 2), "r"), given("B", (2, 2), "r", 4096)]
    client.infer("gemm_fp32", inputs)
    here.cut(4096)
    assert "shorter" in refused(400, client.infer, "gemm_fp32", inputs)
    assert len(client.get_system_shared_memory_status()) == 1


def test_a_region_cut_short_while_it_is_read(daemon, client, region):
    _, answer, _ = run_naive(daemon, client, region, lambda here: here.cut(0))
    assert_problem(answer, 400, "shorter")
    client.unregister_system_shared_memory()
    wait_for(daemon, shared_memories=0)


def test_a_region_that_is_unregistered_while_it_is_used(daemon, client, region):
    def unregister(here):
        client.unregister_system_shared_memory("r")
        return client.get_system_shared_memory_status(), maps(daemon.pid, here.key)

    here, answer, (status, mapped) = run_naive(daemon, client, region, unregister)
    assert status == []
    assert len(mapped) == 1
    assert answer.status_code == 200, answer.text
    shape = answer.json()["outputs"][0]["shape"]
    assert (here.get(shape, 2 * here.size // 3) == shape[0]).all()
    wait_for(daemon, shared_memories=0)
    assert maps(daemon.pid, here.key) == []


def test_limits_and_leaks(daemon, client, region):
    assert client.is_server_live()
    wait_for(daemon, connections=2, shared_memories=0)
    before = daemon.descriptors()
    here = region(4096)
    for _ in range(3):
        for i in range(8):
            client.register_system_shared_memory(f"r{i}", here.key, 4096)
        assert "8" in refused(507, client.register_system_shared_memory, "r8", here.key, 1)
        assert metrics(daemon)["gemmd_shared_memory_regions"] == 8
        client.unregister_system_shared_memory()
        wait_for(daemon, shared_memories=0, shared_memory_used_bytes=0)
        refused(400, client.register_system_shared_memory, "r", here.key, 4097)
        refused(404, client.register_system_shared_memory, "r", "/gemmd-none", 1)
        refused(507, client.register_system_shared_memory, "r", here.key, (64 << 20) + 1)
    assert maps(daemon.pid, "gemmd-test") == []
    daemon.assert_descriptors(before)


def test_tenants(start, tmp_path, region):
    """Regions are of those who registered them: to others they are not there."""
    tokens = tmp_path / "tokens"
    tokens.write_text("one:first-token\nother:second-token\n")
    tokens.chmod(0o600)
    daemon = start("--shm-system", "--token-file", tokens)
    here = region(4096)
    here.put(np.arange(4, dtype=np.float32))

    def call(token, path, **body):
        return requests.post(f"{daemon.url}/v2{path}", json=body or None, timeout=PATIENCE_S,
                             headers={"Authorization": f"Bearer {token}"})

    def status(token):
        return requests.get(f"{daemon.url}/v2/systemsharedmemory/status", timeout=PATIENCE_S,
                            headers={"Authorization": f"Bearer {token}"}).json()

    def infer(token):
        part = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
        return call(token, "/models/gemm_fp32/infer", inputs=[
            {"name": name, "shape": [2, 2], "datatype": "FP32", "parameters": part}
            for name in "AB"])

    register = "/systemsharedmemory/region/r/register"
    assert call("first-token", register, key=here.key, byte_size=4096).status_code == 200
    assert infer("first-token").json()["outputs"][0]["data"] == [2, 3, 6, 11]
    assert status("second-token") == []
    assert_problem(infer("second-token"), 400, "no shared memory region")
    assert call("second-token", "/systemsharedmemory/unregister").status_code == 200
    assert call("second-token", "/systemsharedmemory/region/r/unregister").status_code == 200
    assert len(status("first-token")) == 1
    assert call("second-token", register, key=here.key, byte_size=16).status_code == 200
    assert [len(status(f"{which}-token")) for which in ("first", "second")] == [1, 1]
    assert call("", register, key=here.key, byte_size=16).status_code == 401


# What another user of the host sees: its socket, then what it asks for, then the answers.
ASK = """
import encodings.idna, http.client, json, os, socket, sys  # all, while that is readable
os.setgid({id}); os.setuid({id})
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1].replace("@", "\\0", 1))
connection = Connection("localhost") if sys.argv[1].startswith("@") \\
    else http.client.HTTPConnection(sys.argv[1])
for method, path, body in json.loads(sys.argv[2]):
    connection.request(method, path, body)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""


@pytest.mark.skipif(not ROOT, reason="only root can be somebody else")
@pytest.mark.parametrize("how", ["tcp", "unix"])
def test_users(how, daemon, client, region):
    """Neither the names nor the objects of another user are to be had."""
    here = region(4096)
    client.register_system_shared_memory("r", here.key, 4096)
    register = ["POST", "/v2/systemsharedmemory/region/x/register"]
    theirs = Region(64)
    try:
        os.chown(f"/dev/shm{theirs.key}", NOBODY, NOBODY)
        asked = [["GET", "/v2/systemsharedmemory/status", None],
                 [*register, f'{{"key": "{here.key}", "byte_size": 16}}'],
                 [*register, f'{{"key": "{theirs.key}", "byte_size": 16}}'],
                 ["POST", "/v2/systemsharedmemory/region/r/unregister", None],
                 ["GET", "/v2/systemsharedmemory/status", None],
                 ["POST", "/v2/systemsharedmemory/unregister", None]]
        where = daemon.addresses[1].removeprefix("unix:") if how == "unix" else "%s:%d" % daemon.address
        done = subprocess.run([sys.executable, "-c", ASK.format(id=NOBODY), where,
                               json.dumps(asked)], capture_output=True, text=True, check=False,
                              timeout=PATIENCE_S, cwd="/")
        answers = [line for line in done.stdout.splitlines() if line]  # problems end in a line feed
        assert len(answers) == len(asked), done.stderr
        assert answers[0] == "200 []"
        assert answers[1].startswith("404 ")
        assert answers[2] == "200 "
        assert theirs.key in answers[4] and here.key not in answers[4]
        # Nor is theirs ours, though we are root.
        refused(404, client.register_system_shared_memory, "y", theirs.key, 16)
        assert [entry["name"] for entry in client.get_system_shared_memory_status()] == ["r"]
    finally:
        theirs.close()
    wait_for(daemon, shared_memory_regions=1)


def test_over_a_unix_socket(daemon, region):
    here = region(64)
    with Connection(daemon.addresses[1]) as connection:
        status, _, body = connection.post(
            "/v2/systemsharedmemory/region/u/register",
            f'{{"key": "{here.key}", "byte_size": 64}}'.encode())
        assert (status, body) == (200, b""), body
        assert connection.post("/v2/systemsharedmemory/region/u/unregister")[0] == 200
    wait_for(daemon, shared_memories=0)

"""Packed weights the ways of any tensor: gemmctl, jobs, shared memory, several devices, the inference protocol."""

import json

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S, PATIENT
from memory import HEADER, Connection, Memory
from oip import Input, infer, split
from test_packed import BF16, CASES, Packed, assert_near, assert_restored, put, random_rows, tensors  # noqa: F401
from test_tensors import SAFETENSORS, Tensors

F16 = np.dtype(np.float16)


def put_on(daemon, name, packed, **parameters):
    answer = Tensors(daemon.url).send("PUT", name, packed.body(), {"Content-Type": SAFETENSORS},
                                      **packed.parameters(), **parameters)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_gemmctl(run, rng, tmp_path, url):
    packed = Packed(rng=rng, **CASES["gptq 8 bits"])
    (tmp_path / "layer.safetensors").write_bytes(packed.body())
    words = ("tensor", "put", "ctl", "layer.safetensors", "--packed", "gptq", "--bits", "8")
    try:
        assert run(*words).stdout.decode() == f"ctl: uploaded, {packed.k}x{packed.n} u8, {len(packed.body())} bytes\n"
        again = json.loads(run(*words, "--json").stdout)
        assert (again["put"], again["etag"], again["dtype"]) == ("unchanged", packed.etag(), "u8")
        listed = run("tensor", "ls", "ctl", "--json")
        entry, = json.loads(listed.stdout)["tensors"]
        assert (entry["dtype"], entry["shape"]) == ("u8", [packed.k, packed.n])
        assert (entry["format"], entry["group"], entry["etag"]) == ("gptq", packed.group, packed.etag())
        assert entry["bytes"] == sum(tensor.nbytes for tensor in packed.tensors.values())
        assert run("tensor", "get", "ctl", "-o", "back.safetensors").returncode == 0
        assert_restored((tmp_path / "back.safetensors").read_bytes(), packed)
        assert_restored(run("tensor", "get", "ctl").stdout, packed)
        a = random_rows(5, packed.k, F16, rng)
        np.save(tmp_path / "a.npy", a)
        product = run("gemm", "a.npy", "tensor:ctl", "-o", "c.npy", "--out", "f32")
        assert product.returncode == 0, product.stderr
        c = np.load(tmp_path / "c.npy")
        answer = requests.post(f"{url}/gemm", params={"b": "ctl", "m": 5, "dtype": "f16", "out": "f32"},
                               data=a.tobytes(), timeout=PATIENCE_S)
        assert c.tobytes() == answer.content
    finally:
        run("tensor", "rm", "ctl")


def test_gemmctl_says_what_it_does_not_take(put, run, rng, tmp_path):  # noqa: F811
    packed = Packed(rng=rng, **CASES["gptq"])
    name = put(packed)
    (tmp_path / "layer.safetensors").write_bytes(packed.body())
    np.save(tmp_path / "a.npy", np.ones((2, packed.k), np.float32))

    def error(*words):
        finished = run(*words)
        assert finished.returncode != 0
        return finished.stderr.decode()

    upload = ("tensor", "put", "new", "layer.safetensors")
    assert "'weight_packed' is missing" in error(*upload, "--packed", "compressed-tensors")
    assert "format is 'gguf'" in error(*upload, "--packed", "gguf")
    assert "--bits is for packed weights" in error(*upload, "--bits", "4")
    assert "--dtype is not for packed weights" in error(*upload, "--packed", "gptq", "--dtype", "i8")
    assert "a safetensors file" in error("tensor", "get", name, "-o", "w.npy")
    of_f32 = error("gemm", "a.npy", f"tensor:{name}", "-o", "c.npy")
    assert "operands of f32 are not offered with packed weights" in of_f32
    assert "can only be B of gemm" in error("gemm", f"tensor:{name}", "a.npy", "-o", "c.npy")
    assert "can only be B of gemm" in error("reduce", f"tensor:{name}", "-o", "c.npy")
    assert not (tmp_path / "c.npy").exists() and not (tmp_path / "w.npy").exists()


def test_a_job(put, url, session, rng):  # noqa: F811
    packed = Packed(rng=rng, **CASES["awq"])
    a = random_rows(3, packed.k, BF16, rng)
    parameters = {"b": put(packed), "m": 3, "dtype": "bf16"}
    job = session.post(f"{url}/gemm", params=parameters, data=a.tobytes(), headers={"Prefer": "respond-async"})
    assert job.status_code == 202, job.text
    result = session.get(f"{url}{job.headers['Location']}/result", params={"wait_ms": 60000})
    assert_near(result, BF16, a, packed.weights, 3, packed.n)


def test_shared_memory(start, rng, tmp_path):
    start("--listen", f"unix:{tmp_path}/socket", *PATIENT)
    packed = Packed(rng=rng, **CASES["awq"])
    body, a = packed.body(), random_rows(3, packed.k, BF16, rng)
    connection = Connection(f"unix:{tmp_path}/socket")
    connection.request("PUT", "/tensors/w?format=awq", body, {"Content-Type": SAFETENSORS})
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    answer.read()
    with Memory(1 << 16) as memory:
        memory.put(0, a)
        shared = Connection(f"unix:{tmp_path}/socket", [memory.fd])
        status, reply = shared.post("/gemm?m=3&dtype=bf16&b=w&out=f32", **{HEADER: "a=0, c=32768"})[:2]
        assert status == 200, reply
        found = memory.get(32768, (3, packed.n))
    bound = (packed.k + 8) * 2.0**-24 * (np.abs(a.astype(np.float64)) @ np.abs(packed.weights))
    assert (np.abs(found - a.astype(np.float64) @ packed.weights) <= bound).all()


def test_several_devices(start, rng):
    """Every device that computes has a copy of the arrangement."""
    daemon = start("--cpu-threads", "1", "--devices", "2", *PATIENT)
    packed = Packed(rng=rng, **CASES["gptq"])
    assert put_on(daemon, "both", packed, replicate="all")["devices"] == [0, 1]
    place, = put_on(daemon, "one", packed)["devices"]
    a = random_rows(4, packed.k, F16, rng)
    rows = Tensors(daemon.url)
    assert rows.put("rows", a).status_code == 201
    answers = [requests.post(f"{daemon.url}/gemm", params={"b": name, "m": 4, "dtype": "f16"}, data=a.tobytes(),
                             timeout=PATIENCE_S) for name in ("both", "one") for _ in range(4)]
    answers.append(requests.post(f"{daemon.url}/gemm", params={"a": "rows", "b": "one"}, timeout=PATIENCE_S))
    assert_near(answers[0], F16, a, packed.weights, 4, packed.n)
    assert len({answer.content for answer in answers}) == 1
    assert place in (0, 1)
    assert_restored(rows.get("both").content, packed)


MODELS = {"awq": ("FP16", "f16", F16), "compressed-tensors": ("BF16", "bf16", BF16),
          "compressed-tensors 8 bits": ("BF16", "bf16", BF16)}


@pytest.mark.parametrize("case", MODELS)
def test_a_layer_of_the_inference_protocol(case, put, url, session, rng):  # noqa: F811
    datatype, dtype, kind = MODELS[case]
    packed = Packed(rng=rng, **CASES[case])
    model = f"linear.{put(packed)}"
    metadata = session.get(f"{url}/v2/models/{model}").json()
    assert metadata["inputs"] == [{"name": "X", "datatype": datatype, "shape": [-1, packed.k]}]
    assert [(each["datatype"], each["shape"]) for each in metadata["outputs"]] == [(datatype, [-1, packed.n])]
    a, bias = random_rows(3, packed.k, kind, rng), random_rows(1, packed.n, np.float32, rng)[0]
    plain = session.post(f"{url}/gemm", params={"b": model[7:], "m": 3, "dtype": dtype}, data=a.tobytes())
    answer = infer(url, model, [Input("X", a, dtype)], parameters={"binary_data_output": True})
    assert answer.status_code == 200, answer.text
    described, data = split(answer)
    assert (described["outputs"][0]["shape"], data) == ([3, packed.n], plain.content)
    wide = session.post(f"{url}/gemm", params={"b": model[7:], "m": 3, "dtype": dtype, "out": "f32", "bias": 1,
                                               "act": "relu"}, data=a.tobytes() + bias.tobytes())
    answer = infer(url, model, [Input("X", a, dtype), Input("BIAS", bias)],
                   parameters={"binary_data_output": True, "out": "f32", "act": "relu"})
    assert answer.status_code == 200, answer.text
    assert split(answer)[1] == wide.content
    raw = session.post(f"{url}/v2/models/{model}/infer", data=a.tobytes(),
                       headers={"Inference-Header-Content-Length": "0"})
    assert split(raw)[1] == plain.content, raw.text
    scaled = infer(url, model, [Input("X", a, dtype), Input("B_SCALE", bias)])
    assert scaled.status_code == 400 and "its inputs are X, BIAS, C0" in scaled.json()["error"]
    index = session.post(f"{url}/v2/repository/index").json()
    assert model in [each["name"] for each in index]
    assert f"conv.{model[7:]}" not in [each["name"] for each in index]

"""A client that openapi-python-client generates from the daemon's own openapi.json multiplies."""

import importlib
import io
import subprocess
import sys

import numpy as np
import pytest
import requests

from daemon import PATIENCE_S, Daemon

A, B = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]])


@pytest.fixture(scope="module")
def generated(tmp_path_factory, gemmd):
    """The generated package. The document is the daemon's, fetched as a user would."""
    folder = tmp_path_factory.mktemp("generated")
    daemon = Daemon(gemmd, "--backend", "cpu")
    try:
        daemon.wait_until_listening().wait_until_ready()
        (folder / "openapi.json").write_bytes(
            requests.get(f"{daemon.url}/openapi.json", timeout=PATIENCE_S).content)
    finally:
        daemon.close()
    (folder / "config.yml").write_text("package_name_override: generated_gemmd\npost_hooks: []\n",
                                       encoding="utf-8")
    run = subprocess.run([sys.executable, "-m", "openapi_python_client", "generate", "--path",
                          folder / "openapi.json", "--config", folder / "config.yml", "--output-path",
                          folder / "out"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    # The generator knows no body types but JSON, forms and octet streams, and says so.
    warned = {line for line in run.stdout.splitlines() if "WARNING" in line}
    assert warned <= {f"WARNING parsing {operation} within {tag}." for operation, tag in (
        ("POST /gemm", "products"), ("POST /attention", "products"), ("PUT /tensors/{name}", "tensors"))}
    sys.path.insert(0, str(folder / "out"))
    yield lambda module: importlib.import_module(f"generated_gemmd.{module}")
    sys.path.remove(str(folder / "out"))


def test_a_product_of_raw_bytes(generated, start):
    client = generated("client").Client(base_url=start().url)
    body = generated("types").File(payload=io.BytesIO(A.tobytes() + B.tobytes()))
    answer = generated("api.products.gemm").sync_detailed(client=client, body=body, m=2, n=2, k=2)
    assert answer.status_code == 200, answer.content
    assert np.array_equal(np.frombuffer(answer.content, np.float32).reshape(2, 2), A @ B)


def test_a_product_in_json(generated, start):
    client = generated("client").Client(base_url=start().url)
    request = generated("models.v2_request").V2Request.from_dict({"inputs": [
        {"name": name, "shape": [2, 2], "datatype": "FP32", "data": array.ravel().tolist()}
        for name, array in (("A", A), ("B", B))]})
    answer = generated("api.inference.v_2_infer").sync(model="gemm_fp32", client=client, body=request)
    assert np.array_equal(np.float32(answer.outputs[0].data).reshape(2, 2), A @ B)


def test_a_resident_tensor(generated, start):
    client = generated("client").Client(base_url=start().url)
    body = generated("types").File(payload=io.BytesIO(B.tobytes()))
    stored = generated("api.tensors.put_tensor").sync(name="W", client=client, body=body, shape="2,2")
    assert (stored.name, stored.shape, stored.devices) == ("W", [2, 2], [0])
    listed = generated("api.tensors.list_tensors").sync(client=client)
    assert [tensor.name for tensor in listed.tensors] == ["W"]


def test_a_refusal_is_a_problem(generated, start):
    client = generated("client").Client(base_url=start().url)
    body = generated("types").File(payload=io.BytesIO(bytes(32)))
    problem = generated("api.products.gemm").sync(client=client, body=body, m=0, n=2, k=2)
    assert (problem.status, "m is '0'" in problem.detail) == (400, True)

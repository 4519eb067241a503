"""The daemon against its own description: what /openapi.json says is taken is taken or refused as
it says, and every answer looks as it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from daemon import PATIENCE_S

# The same requests in every run. What a valid body is depends on the parameters, which a schema
# cannot say: that a valid one is accepted is for the other tests.
CONFIG = f"""
seed = 1
workers = 1
request-timeout = {PATIENCE_S}

[checks]
positive_data_acceptance.enabled = false
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501]

[generation]
deterministic = true
max-examples = 3
database = "none"
"""
METHODS = ("get", "put", "post", "delete")


@pytest.mark.slow
def test_answers_are_as_described(start, tmp_path):
    daemon = start()
    paths = daemon.session.get(f"{daemon.url}/openapi.json", timeout=PATIENCE_S).json()["paths"]
    operations = sum(method in METHODS for path in paths.values() for method in path)
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    run = subprocess.run(
        [Path(sys.executable).with_name("st"), "--no-color", "run", f"{daemon.url}/openapi.json",
         "--phases", "coverage,fuzzing", "--exclude-path", "/dashboard/events"],
        cwd=tmp_path, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    # All but the document's own, and the answer without an end.
    assert f"Tested: {operations - 2}\n" in run.stdout, run.stdout[-8000:]


@pytest.mark.parametrize("operation", ["gemm", "attention", "conv2d", "reduce", "softmax", "experts"])
def test_described_types_are_those_that_kernels_take(operation, session, url):
    """The types of operands in the description are those of some kernel, no more and no fewer."""
    document = session.get(f"{url}/openapi.json", timeout=PATIENCE_S).json()

    def resolved(part):
        while "$ref" in part:
            names, part = part["$ref"].removeprefix("#/").split("/"), document
            for name in names:
                part = part[name]
        return part

    parameters = map(resolved, document["paths"][f"/{operation}"]["post"]["parameters"])
    schema, = (resolved(parameter["schema"]) for parameter in parameters if parameter["name"] == "dtype")
    kernels = session.get(f"{url}/info", timeout=PATIENCE_S).json()["kernels"]
    taken = {dtype for kernel in kernels if kernel["op"] == operation for dtype in kernel["dtypes"]}
    assert set(schema["enum"]) == taken

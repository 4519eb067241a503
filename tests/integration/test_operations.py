"""Every place that lists operations has all that the daemon serves: an operation that is added to the
daemon fails here for each file that it is still missing in. The daemon's own lists, /info, metrics and
the dashboard's samples, follow from its table of operations."""

import inspect
import json
import re
import sys
from pathlib import Path

import http_grammar
import oip
import pytest
from daemon import Daemon
from patience import wait_until

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client/python/src"))

from gemmd_client import AsyncClient, Client  # noqa: E402

OPENAPI = json.loads((ROOT / "proto/openapi.json").read_text(encoding="utf-8"))
HAPROXY = "deploy/haproxy/haproxy.cfg"


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def command(operation):
    """The name of gemmctl's command: conv for conv2d."""
    return re.sub(r"\dd$", "", operation)


def script(page, name):
    return read(f"server/api/{page}/js/{name}.js")


@pytest.fixture(scope="module")
def daemon(gemmd):
    """One whose metrics have no labels of other tests."""
    daemon = Daemon(gemmd)
    try:
        yield daemon.wait_until_listening().wait_until_ready()
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def operations(daemon):
    """The operations that have kernels, in the order of /info."""
    kernels = daemon.session.get(f"{daemon.url}/info").json()["kernels"]
    operations = list(dict.fromkeys(kernel["op"] for kernel in kernels))
    assert "gemm" in operations and len(operations) > 4
    return operations


@pytest.fixture(scope="module")
def kinds(daemon, operations):
    """The values of the label op: the operations, and the other kinds of requests."""
    del operations
    return list(samples(daemon)[-1]["requests"])


def samples(daemon):
    return wait_until(lambda: daemon.session.get(f"{daemon.url}/dashboard/history").json()["samples"],
                      "a sample of the dashboard")


def resolve(node):
    """A value of openapi.json, or what it refers to."""
    while "$ref" in node:
        at = OPENAPI
        for key in node["$ref"].removeprefix("#/").split("/"):
            at = at[key]
        node = at
    return node


def query_parameters(path, method="post"):
    """name -> schema of the query's parameters that openapi.json describes."""
    described = map(resolve, OPENAPI["paths"][path].get(method, {}).get("parameters", []))
    return {each["name"]: each["schema"] for each in described if each["in"] == "query"}


def names_tensor(schema):
    return schema.get("$ref") == "#/components/schemas/TensorName"


def test_each_operation_is_served(daemon, operations):
    """server/api/compute/compute_endpoints.c"""
    for operation in operations:
        answer = daemon.session.post(f"{daemon.url}/{operation}?there_is_none=1", data=b"")
        assert answer.status_code == 400, f"POST /{operation} answers {answer.status_code}"
        assert f"those of /{operation} are" in answer.text


# A request with no parameters but those that it needs, and the bytes of its body. Clients that are generated from
# openapi.json send every default.
SMALL = {"/gemm": ({"m": 2, "n": 2, "k": 2}, 32),
         "/attention": ({"heads": 1, "sq": 2, "d": 4}, 48),
         "/conv2d": ({"channels": 1, "height": 3, "width": 3, "filters": 1, "filter_h": 3, "filter_w": 3}, 72),
         "/reduce": ({"shape": "2,2", "op": "sum"}, 16),
         "/softmax": ({"shape": "2,2"}, 16),
         "/experts": ({"m": 1, "n": 2, "k": 2, "count": 1}, 28),
         "/tensors/t": ({"shape": "2,2"}, 16),
         "/sequences/s": ({"kv_heads": 1, "d": 4}, 0)}


@pytest.mark.parametrize("path", SMALL)
def test_a_default_may_be_sent(path, daemon):
    parameters, length = SMALL[path]
    method = "put" if path.count("/") > 1 else "post"
    described = query_parameters(re.sub("/[ts]$", "/{name}", path), method)
    defaults = {name: resolve(schema)["default"] for name, schema in described.items()
                if "default" in resolve(schema) and name not in parameters}
    answers = [daemon.session.request(method, daemon.url + path, params=sent, data=bytes(length))
               for sent in (parameters, defaults | parameters)]
    assert [answer.status_code in (200, 201) for answer in answers] == [True, True], answers[-1].text


def test_the_label_of_metrics_has_each_operation(daemon, operations, kinds):
    for path in (*operations, "v2/models/gemm_fp32/infer", "tensors/none"):
        # An operation that was never asked for has no series.
        daemon.session.post(f"{daemon.url}/{path}", data=b"-")
    counted = set(re.findall(r'^gemmd_requests_total\{op="(\w+)"',
                             daemon.session.get(f"{daemon.url}/metrics").text, re.M))
    assert counted == set(kinds) == {*operations, "infer", "tensor", "other"}


def test_openapi_describes_each_operation(operations):
    assert {path for path, methods in OPENAPI["paths"].items()
            if methods.get("post", {}).get("tags") == ["products"]} == {f"/{name}" for name in operations}, (
                "the paths with the tag products in proto/openapi.json")
    for operation in operations:
        assert OPENAPI["paths"][f"/{operation}"]["post"]["operationId"] == operation


def test_enums_of_openapi_have_each_operation(operations):
    def enums(node):
        if isinstance(node, dict):
            if "enum" in (op := node.get("op", {})):
                yield op["enum"]
            for member in node.values():
                yield from enums(member)
        elif isinstance(node, list):
            for member in node:
                yield from enums(member)
    found = list(enums(OPENAPI["paths"]))
    assert len(found) >= 2, "the kernels of /info and of /dashboard/kernels"
    for enum in found:
        assert sorted(enum) == sorted(operations), f"an enum of op in proto/openapi.json is {enum}"


@pytest.mark.parametrize("path, text", [
    ("proto/PROTOCOL.md", "\n| `POST /{op}` |"),
    ("proto/PROTOCOL.md", "\n## POST /{op}\n"),
    ("proto/PROTOCOL.md", "| `compute` |{any}`/{op}`"),
    ("client/libgemmd.symbols", "gemmd_{op}\ngemmd_{op}_init\ngemmd_{op}_submit\n"),
    ("client/man/libgemmd.3", ".BR gemmd_{op} ()"),
    ("client/man/libgemmd.3", ".BR gemmd_{op}_submit ()"),
    ("client/python/README.md", "`{op}("),
    ("client/python/README.md", "`{op}_job"),
    ("client/man/gemmctl.1", "gemmctl\\-{command} (1)"),
    ("client/gemmctl/commands.c", '{{"{command}", '),
    (HAPROXY, "path{any}/{op}"),
    ("deploy/haproxy/README.md", "/{op}"),
    ("tests/fuzz/http.dict", '"/{op}?'),
])
def test_a_file_has_each_operation(path, text, operations):
    content = read(path)

    def wanted(operation):
        return text.format(op=operation, command=command(operation), any="\0")
    missing = [wanted(operation) for operation in operations
               if re.search(re.escape(wanted(operation)).replace("\0", ".*"), content) is None]
    assert missing == [], f"{path} lacks {missing}"


def test_gemmctl_has_a_command_and_a_benchmark_for_each_operation(run, operations):
    for name in map(command, operations):
        assert run("help", name).returncode == 0, f"gemmctl has no command {name}"
        benchmark = ["bench"] if name == "gemm" else ["bench", name]
        assert run("help", *benchmark).returncode == 0, f"gemmctl has no command {' '.join(benchmark)}"
    for shell in ("bash", "zsh", "fish"):
        code = re.sub(r"^#.*", "", run("completion", shell).stdout.decode(), flags=re.M)
        completed = re.findall(r"kernels\\?:(\w+)", code)
        # The bash script completes the names of commands that are those of operations.
        missing = [name for name in operations if name not in completed
                   and not (shell == "bash" and name == command(name))]
        assert missing == [], f"gemmctl completes no kernels:{missing} in {shell}"


def test_the_python_client_has_methods_for_each_operation(operations):
    for operation in operations:
        wanted = [operation, f"{operation}_job"]
        shared = [operation]
        if "store" in query_parameters(f"/{operation}"):
            wanted.append(f"{operation}_store")
            shared.append(f"{operation}_store")
        missing = [name for name in wanted if not callable(getattr(Client, name, None))]
        assert missing == [], f"Client in gemmd_client/client.py lacks {missing}"
        missing = [name for name in shared if not inspect.iscoroutinefunction(getattr(AsyncClient, name, None))]
        assert missing == [], f"AsyncClient in gemmd_client/asynchronous.py lacks {missing}"


def test_the_dashboard_has_a_colour_for_each_operation(kinds):
    """The page reads which operations there are in the samples."""
    series = [kind for kind in kinds if kind not in ("tensor", "other")]
    colours = re.findall(r"^\.s\d+ \{", read("server/api/dashboard/page.css"), re.M)
    assert len(colours) >= len(series), f"page.css has {len(colours)} colours for the series {series}"


def test_the_page_of_the_documentation_has_an_editor_for_each_operation(operations):
    """The operands of a raw body, and a first request."""
    operands = re.search(r"const OPERANDS = \{(.*?)\};", script("docs", "operand"), re.S)[1]
    first = re.search(r"const FIRST = \{(.*?)\n\};", script("docs", "example"), re.S)[1]
    for operation in operations:
        assert re.search(rf"\b{operation}: ", operands), f"OPERANDS in docs/js/operand.js lacks {operation}"
        assert re.search(rf"\b{operation}: ", first), f"FIRST in docs/js/example.js lacks {operation}"


def test_haproxy_finds_the_daemon_of_each_resident_tensor():
    """By each parameter of an operation that names a tensor."""
    described = {(path, name) for path in OPENAPI["paths"]
                 for name, schema in query_parameters(path).items() if names_tensor(schema)}
    assert ("/gemm", "b") in described
    chosen = {(path, name) for name, paths in re.findall(
        r"set-var\(txn\.tensor\) url_param\((\w+)\) if \{ path ([^}]*)\}", read(HAPROXY))
        for path in paths.split()}
    assert described - chosen == set(), f"{HAPROXY} sets txn.tensor for none of these"
    assert chosen - described == set(), f"{HAPROXY} sets txn.tensor for parameters that there are not"


@pytest.mark.parametrize("path", ["deploy/grafana/gemmd.json", "deploy/prometheus/gemmd.rules.yaml"])
def test_queries_of_metrics_leave_no_operation_out(path, operations, kinds):
    matchers = re.findall(r'\bop(=~|!~|!=)\\?"([^"\\]*)', read(path))
    assert matchers
    for operator, values in matchers:
        if values == "$op":  # a variable of the board, whose values are those of the label
            continue
        listed = set(values.split("|"))
        assert listed <= set(kinds), f"{path}: op{operator}{values} names an op that there is not"
        chosen = listed if operator == "=~" else set(kinds) - listed
        missing = sorted(set(operations) - chosen)
        assert missing == [] or len(missing) == len(operations), f"{path}: op{operator}{values} lacks {missing}"


@pytest.fixture(scope="module")
def models(daemon):
    """The models of the inference protocol, with one of each kind that a resident tensor makes."""
    one = b"\0\0\x80\x3f"
    for name, shape in (("matrix", "1,1"), ("filters", "1,1,1,1")):
        assert daemon.session.put(f"{daemon.url}/tensors/{name}?shape={shape}", data=one).status_code == 201
    return [model["name"] for model in daemon.session.post(f"{daemon.url}/v2/repository/index", json={}).json()]


def test_each_operation_has_models_of_the_inference_protocol(models, operations):
    """server/api/v2/infer_model.c"""
    fixed = [name for name in models if "." not in name]
    assert {name.rpartition("_")[0] for name in fixed} == set(operations)
    pattern = re.compile(OPENAPI["components"]["schemas"]["V2ModelName"]["pattern"])
    assert [name for name in models if not pattern.match(name)] == [], "the pattern of model in proto/openapi.json"
    listed = {*oip.MODEL.values(), *oip.ARRAYS, *oip.ATTENTION.values(), *oip.CONV2D.values(), *oip.EXPERTS.values()}
    assert set(fixed) == listed, "tests/integration/oip.py lists the models"
    protocol = read("proto/PROTOCOL.md")
    assert [name for name in fixed if f"`{name}`" not in protocol] == [], "proto/PROTOCOL.md lists the models"


def test_the_options_of_models_are_parameters_and_described(daemon, models, operations):
    """server/api/v2/infer_*.c"""
    listed = [set(re.findall(r"`(\w+)`", line)) for line in re.findall(r"^- for \w+: (.*)", re.search(
        r"^### Parameters of an inference\n(.*?)^##", read("proto/PROTOCOL.md"), re.M | re.S)[1], re.M)]
    description = OPENAPI["components"]["schemas"]["V2Request"]["properties"]["parameters"]["description"]
    for operation in operations:
        model = next(name for name in models if name.startswith(f"{operation}_"))
        answer = daemon.session.post(f"{daemon.url}/v2/models/{model}/infer", json={
            "parameters": {"there_is_none": 1}, "inputs": []})
        options = set(re.search(r"those of this model are ([\w, ]+)", answer.json()["detail"])[1].split(", "))
        assert options - set(query_parameters(f"/{operation}")) == set(), f"options of {model}"
        assert options in listed, f"proto/PROTOCOL.md lists other options for {model} than {sorted(options)}"
        assert options - set(re.findall(r"\w+", description)) == set(), "V2Request in proto/openapi.json"


def test_haproxy_finds_the_daemon_of_each_model_of_a_tensor(models):
    layers = {name.partition(".")[0] + "." for name in models if "." in name}
    assert len(layers) > 1
    chosen = {(prefix, int(skipped)) for skipped, prefix in re.findall(
        r"path,field\(4,/\),bytes\((\d+)\) if \{ path_beg /v2/models/(\w+\.) \}", read(HAPROXY))}
    assert chosen == {(prefix, len(prefix)) for prefix in layers}, f"{HAPROXY} and the prefixes of models"
    readme = read("deploy/haproxy/README.md")
    assert [prefix for prefix in layers if f"/v2/models/{prefix}NAME" not in readme] == [], "haproxy/README.md"


def test_the_tests_send_random_requests_to_each_operation(operations):
    """With each parameter."""
    named = {name for operation in operations for name in query_parameters(f"/{operation}")}
    named |= set(query_parameters("/tensors/{name}", "put"))
    missing = sorted(named - set(http_grammar.PARAMETERS))
    assert missing == [], f"PARAMETERS in tests/integration/http_grammar.py lacks {missing}"
    for operation in operations:
        assert f"/{operation}" in http_grammar.PATHS, f"PATHS in tests/integration/http_grammar.py lacks /{operation}"

"""GET /info?explain=...: which kernel would compute a request, and why."""

import pytest
import requests

from daemon import PATIENCE_S, Daemon
from patience import wait_until
from problem import assert_problem

CONV = "channels=2&height=4&width=4&filters=2&filter_h=3&filter_w=3"
REQUESTS = {"gemm": "m=8&n=9&k=10", "attention": "heads=2&sq=4&d=8", "conv2d": CONV, "reduce": "shape=4,5",
            "softmax": "shape=4,5"}
BODY_BYTES = {"gemm": 4 * (8 * 10 + 10 * 9), "attention": 2 * 3 * 2 * 4 * 8, "conv2d": 4 * (2 * 16 + 2 * 2 * 9),
              "reduce": 4 * 20, "softmax": 4 * 20}


def ask(daemon, operation, query, **keywords):
    return requests.get(f"{daemon.url}/info?explain={operation}&{query}", timeout=PATIENCE_S, **keywords)


def explanation(daemon, operation, query, **keywords):
    answer = ask(daemon, operation, query, **keywords)
    assert answer.status_code == 200, answer.text
    return answer.json()["explanation"]


@pytest.fixture(scope="module")
def daemon(gemmd):
    one = Daemon(gemmd, "--backend=cpu")
    try:
        yield one.wait_until_listening().wait_until_ready()
        one.stop()
    finally:
        one.close()


@pytest.mark.parametrize("operation", REQUESTS)
def test_the_kernel_that_is_named_computes(operation, daemon):
    """The one kernel that is chosen is the one that computes such a request."""
    said = explanation(daemon, operation, REQUESTS[operation])
    assert said["op"] == operation and said["flops"] > 0 and said["bytes"] > 0
    kernels = requests.get(f"{daemon.url}/info", timeout=PATIENCE_S).json()["kernels"]
    assert [kernel["name"] for kernel in said["kernels"]] == [
        kernel["name"] for kernel in kernels if kernel["op"] == operation]
    chosen = [kernel for kernel in said["kernels"] if kernel["chosen"]]
    assert [kernel["name"] for kernel in chosen] == [said["kernel"]]
    assert chosen[0]["takes"] and chosen[0]["reason"] == said["reason"]
    answer = requests.post(f"{daemon.url}/{operation}?{REQUESTS[operation]}", data=bytes(BODY_BYTES[operation]),
                           timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Gemmd-Kernel"] == said["kernel"]


def test_a_kernel_that_is_asked_for(daemon):
    said = explanation(daemon, "gemm", "m=8&n=9&k=10&kernel=naive")
    assert said["kernel"] == "naive" and said["reason"] == "the request names this kernel"
    others = {kernel["reason"] for kernel in said["kernels"] if not kernel["chosen"]}
    assert others == {"the kernel takes the problem, and the request names another one"}


def test_a_kernel_with_tiles_names_the_tile(daemon):
    """The kernel `tiled` divides C into blocks of 256 columns and of as many rows as the cores share."""
    tiles = {kernel["name"]: kernel["tile"] for kernel in explanation(daemon, "gemm", "m=240&n=300&k=64")["kernels"]}
    assert tiles["openblas"] is None and tiles["naive"] is None
    rows, columns = map(int, tiles["tiled"].split("x"))
    assert columns == 256 and rows % 12 == 0 and 12 <= rows <= 240
    few = {kernel["name"]: kernel["tile"] for kernel in explanation(daemon, "gemm", "m=5&n=300&k=64")["kernels"]}
    assert few["tiled"] == "12x256"
    scaled = explanation(daemon, "gemm", "m=240&n=300&k=64&dtype=i8&scales=rowcol")["kernels"]
    assert ("openblas", None) in [(kernel["name"], kernel["tile"]) for kernel in scaled if not kernel["takes"]]
    assert {kernel["estimated_us"] for kernel in scaled} == {None}  # only kernels of GPUs have a model


def test_the_tile_of_an_attention(daemon):
    """Queries of all heads that share a head of K and V, and the keys that they take at once."""
    def tiles(query):
        return {kernel["name"]: kernel["tile"] for kernel in explanation(daemon, "attention", query)["kernels"]}

    assert tiles("heads=2&sq=4&d=8") == {"tiled": "4x128", "naive": None}
    assert tiles("heads=4&kv_heads=2&sq=4&d=8")["tiled"] == "8x128"
    assert tiles("heads=2&sq=4096&d=64")["tiled"] == "96x128"


def test_what_was_measured(start):
    """Of the kernel that has computed such a product, and of no other."""
    daemon = start("--backend=cpu")
    query = "m=64&n=64&k=64&kernel=naive"
    assert {kernel["measured"] for kernel in explanation(daemon, "gemm", query)["kernels"]} == {None}
    for _ in range(2):
        answer = requests.post(f"{daemon.url}/gemm?{query}", data=bytes(2 * 4 * 64 * 64), timeout=PATIENCE_S)
        assert answer.status_code == 200

    def of_naive():
        return {kernel["name"]: kernel["measured"] for kernel in explanation(daemon, "gemm", query)["kernels"]}

    measured = wait_until(lambda: (lambda all: all if all["naive"] and all["naive"]["works"] == 2 else None)(of_naive()),
                          "two products")
    naive = measured.pop("naive")
    assert set(measured.values()) == {None}
    assert naive["us"] == pytest.approx(1e6 * 2 * 64**3 / naive["flops_per_second"])
    assert {kernel["measured"] for kernel in explanation(daemon, "gemm", "m=4&n=4&k=4")["kernels"]} == {None}


def test_what_was_measured_is_for_the_scope_metrics(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:of-all-scopes-12\nbob:of-one-scope-123 scopes=compute\n", encoding="utf-8")
    daemon = start("--backend=cpu", "--token-file", str(tokens))
    alice, bob = ({"Authorization": f"Bearer {token}"} for token in ("of-all-scopes-12", "of-one-scope-123"))
    answer = requests.post(f"{daemon.url}/gemm?{REQUESTS['gemm']}", data=bytes(BODY_BYTES["gemm"]), headers=bob,
                           timeout=PATIENCE_S)
    assert answer.status_code == 200

    def measured(headers):
        return [kernel["measured"] for kernel in explanation(daemon, "gemm", REQUESTS["gemm"], headers=headers)["kernels"]
                if kernel["measured"]]

    wait_until(lambda: measured(alice), "a product")
    assert not measured(bob)


@pytest.mark.parametrize("operation, query, status, field, says", [
    ("nosuch", "m=1", 400, "explain", "gemm, attention, conv2d, reduce, softmax or experts"),
    ("gemm", "m=0&n=1&k=1", 400, "m", "m is '0'"),
    ("gemm", "n=1&k=1", 400, "m", "m is missing"),
    ("gemm", "m=1&n=1&k=1&size=1", 400, "size", "no parameter 'size'"),
    ("gemm", "m=1&b=W", 400, "b", "an explanation takes the sizes and types alone"),
    ("attention", "heads=1&sq=1&sequence=s", 400, "sequence", "an explanation takes the sizes"),
    ("gemm", "m=1&n=1&k=1&kernel=none", 422, "kernel", "no kernel 'none'"),
    ("conv2d", CONV + "&groups=3", 400, None, "groups"),
])
def test_what_is_refused(operation, query, status, field, says, daemon):
    answer = ask(daemon, operation, query)
    if field is None:
        assert answer.status_code == status and says in answer.text
    else:
        assert_problem(answer, status, says=says, field=field)


def test_without_the_parameter_nothing_is_explained(daemon):
    assert "explanation" not in requests.get(f"{daemon.url}/info?other=1", timeout=PATIENCE_S).json()

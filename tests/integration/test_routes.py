"""Every route with tokens: without one, with a wrong one, and with another tenant's."""

import json
from pathlib import Path

import numpy as np
import pytest
import requests

from daemon import Daemon
from problem import assert_problem

ROOT = Path(__file__).resolve().parents[2]
PATHS = json.loads((ROOT / "proto/openapi.json").read_text())["paths"]
ROUTES = [(method.upper(), path) for path, item in PATHS.items()
          for method in item if method in ("get", "put", "post", "delete")]
OPEN = {"/", "/docs", "/livez", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"}
TOKENS = {name: f"the-token-of-{name}" for name in ("alice", "bob")}
ENDLESS = {"/dashboard/events"}  # answers that are not read to their end
PATIENCE_S = 60
WRONG = [
    {},
    {"Authorization": "Bearer the-token-of-nobody"},
    {"Authorization": f"Basic {TOKENS['alice']}"},
    {"Authorization": TOKENS["alice"]},
    {"Authorization": f"Bearer {TOKENS['alice']}x"},
    {"Authorization": f"Bearer {TOKENS['alice'][:-1]}"},
    {"Authorization": "Bearer"},
    {"Authorization": f"Bearer {TOKENS['alice']} {TOKENS['alice']}"},
]


@pytest.fixture(scope="module")
def guarded(gemmd, tmp_path_factory):
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("".join(f"{tenant}:{token}\n" for tenant, token in TOKENS.items()))
    tokens.chmod(0o600)
    daemon = Daemon(gemmd, "--token-file", tokens, "--shm-system")
    try:
        yield daemon.wait_until_listening().wait_until_ready()
        daemon.stop()
    finally:
        daemon.close()


def fill_in(path, **names):
    """The path with a name in place of each {...}."""
    for name in ("name", "id", "model", "region"):
        path = path.replace(f"{{{name}}}", names.get(name, "x"))
    assert "{" not in path
    return path


def ask(daemon, method, path, headers=(), body=None):
    if method == "POST" and body is None:
        body = b"{}"
    return requests.request(method, daemon.url + path, headers=dict(headers), data=body,
                            timeout=PATIENCE_S, stream=path in ENDLESS)


def of(tenant, **more):
    return {"Authorization": f"Bearer {TOKENS[tenant]}", **more}


def test_there_are_routes():
    assert len(ROUTES) > 35
    assert OPEN <= set(PATHS)


def test_the_description_says_which_routes_want_no_token():
    assert {path for path, item in PATHS.items() for method in item
            if method in ("get", "put", "post", "delete") and item[method].get("security") == []} == OPEN


@pytest.mark.parametrize("method, path", ROUTES)
def test_a_route_wants_a_token(method, path, guarded):
    for headers in WRONG:
        answer = ask(guarded, method, fill_in(path), headers)
        if path in OPEN:
            assert answer.status_code == 200, headers
        else:
            assert answer.status_code == 401, headers
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/nothing", "/gemm/", "/tensors/a/b", "/v2/models", "//gemm",
                                  "/./info", "/info/../info", "/INFO", "/%69nfo", "/info%00",
                                  "http://host/info", "/v2/health/live/x"])
def test_other_paths_want_a_token(path, guarded):
    """Whether there is an endpoint or not, and however the path is written."""
    session = requests.Session()
    asked = requests.Request("GET", guarded.url).prepare()
    asked.url = guarded.url + path if path.startswith("/") else path.replace("http://host", guarded.url)
    assert session.send(asked, timeout=PATIENCE_S).status_code == 401


def test_methods_that_a_route_does_not_have(guarded):
    for path in {path for _, path in ROUTES} - OPEN:
        for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"):
            answer = ask(guarded, method, fill_in(path))
            assert answer.status_code == 401, (method, path)


# What another tenant is answered about a tensor, a job and a model of alice.
FOREIGN = {
    ("PUT", "/tensors/{name}"): 403,
    ("GET", "/tensors/{name}"): 403,
    ("DELETE", "/tensors/{name}"): 403,
    ("PUT", "/sequences/{name}"): 403,
    ("GET", "/sequences/{name}"): 403,
    ("DELETE", "/sequences/{name}"): 403,
    ("POST", "/sequences/{name}/append"): 403,
    ("POST", "/sequences/{name}/truncate"): 403,
    ("GET", "/sequences/{name}/kv"): 403,
    ("GET", "/jobs/{id}"): 403,
    ("DELETE", "/jobs/{id}"): 403,
    ("GET", "/jobs/{id}/result"): 403,
    ("GET", "/v2/models/{model}"): 403,
    ("GET", "/v2/models/{model}/ready"): 403,
    ("GET", "/v2/models/{model}/config"): 403,
    ("GET", "/v2/models/{model}/stats"): 403,
    ("POST", "/v2/models/{model}/infer"): 403,
}


BODILESS = {"/sequences/{name}", "/sequences/{name}/truncate"}
BODIES = {("PUT", "/tensors/{name}"), ("POST", "/sequences/{name}/append")}
QUERIES = {
    ("PUT", "/tensors/{name}"): "?shape=4,4&dtype=f32",
    ("PUT", "/sequences/{name}"): "?kv_heads=1&d=2",
    ("POST", "/sequences/{name}/append"): "?position=0",
    ("POST", "/sequences/{name}/truncate"): "?length=0",
}


def test_what_belongs_to_another_tenant(guarded):
    weight = np.ones((4, 4), np.float32).tobytes()
    put = ask(guarded, "PUT", "/tensors/hers?shape=4,4&dtype=f32",
              of("alice", **{"Content-Type": "application/octet-stream"}), weight)
    assert put.status_code == 201
    job = ask(guarded, "POST", "/gemm?m=1&b=hers",
              of("alice", **{"Content-Type": "application/octet-stream",
                             "Prefer": "respond-async"}), weight[:16])
    assert job.status_code == 202
    assert ask(guarded, "PUT", "/sequences/hers?kv_heads=1&d=2", of("alice")).status_code == 201
    names = {"name": "hers", "id": job.headers["Location"].rsplit("/", 1)[-1],
             "model": "linear.hers"}
    found = {}
    for method, path in FOREIGN:
        body = weight if (method, path) in BODIES else b"" if path in BODILESS else None
        query = QUERIES.get((method, path), "")
        answer = ask(guarded, method, fill_in(path, **names) + query,
                     of("bob", **{"Content-Type": "application/octet-stream"}), body)
        found[method, path] = answer.status_code
        assert b"alice" not in answer.content
    assert found == FOREIGN
    for path in ("/tensors", "/sequences", "/jobs", "/v2/models/stats", "/metrics", "/info"):
        answer = ask(guarded, "GET", path, of("bob"))
        assert answer.status_code == 200
        assert b"hers" not in answer.content and b"alice" not in answer.content, path
        assert names["id"].encode() not in answer.content, path
    assert ask(guarded, "GET", "/tensors/hers", of("alice")).status_code == 200
    assert_problem(ask(guarded, "POST", "/gemm?m=1&b=hers",
                       of("bob", **{"Content-Type": "application/octet-stream"}), weight[:16]), 403, field="b")

"""Scopes, expiry and hashes of tokens, on every route."""

import datetime
import hashlib
import subprocess
import time

import pytest
import requests

from daemon import PATIENCE_S, Daemon
from problem import assert_problem
from test_reload import reload
from test_routes import ENDLESS, OPEN, ROUTES, fill_in

SCOPES = ("compute", "tensors", "metrics", "admin")
ANY = {"/info", "/version", "/openapi.json", "/v2"}
ADMIN = {"/v2/repository/models/{model}/load", "/v2/repository/models/{model}/unload",
         "/v2/logging", "/v2/trace/setting", "/v2/models/{model}/trace/setting"}


def needed(path):
    """The scope that a path needs; None: every token will do."""
    if path in OPEN | ANY:
        return None
    if path == "/metrics" or path.startswith("/dashboard/"):
        return "metrics"
    if path.startswith(("/tensors", "/sequences")):
        return "tensors"
    return "admin" if path in ADMIN else "compute"


@pytest.fixture(scope="module")
def scoped(gemmd, tmp_path_factory):
    soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
    hashed = hashlib.sha256(b"the-hashed-token").hexdigest()
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text("".join(f"x:the-token-for-{scope} scopes={scope}\n" for scope in SCOPES)
                      + f"y:sha256:{hashed} expires={soon.isoformat(timespec='seconds')}\n"
                      + "y:the-expired-token expires=2020-01-01\n"
                      + "y:the-old-token\n")
    tokens.chmod(0o600)
    daemon = Daemon(gemmd, "--token-file", tokens, "--shm-system")
    try:
        yield daemon.wait_until_listening().wait_until_ready()
        daemon.stop()
    finally:
        daemon.close()


def ask(daemon, method, path, token):
    return requests.request(method, daemon.url + path, timeout=PATIENCE_S,
                            headers={"Authorization": f"Bearer {token}"}, stream=path in ENDLESS,
                            data=b"{}" if method == "POST" else None)


@pytest.mark.parametrize("method, path", ROUTES)
def test_a_route_wants_its_scope(method, path, scoped):
    for scope in SCOPES:
        answer = ask(scoped, method, fill_in(path), f"the-token-for-{scope}")
        challenge = answer.headers.get("WWW-Authenticate", "")
        if needed(path) in (None, scope):
            assert answer.status_code not in (401, 403), (scope, answer.text)
            assert not challenge
        else:
            assert answer.status_code == 403, (scope, answer.text)
            assert challenge == f'Bearer error="insufficient_scope", scope="{needed(path)}"'


@pytest.mark.parametrize("method, path", ROUTES)
def test_a_route_refuses_an_expired_token(method, path, scoped):
    answer = ask(scoped, method, fill_in(path), "the-expired-token")
    if path in OPEN:
        assert answer.status_code == 200
    else:
        assert_problem(answer, 401)
        assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
        assert "expired" in answer.json()["detail"]


def test_tokens_without_attributes_have_all_scopes(scoped):
    for token in ("the-hashed-token", "the-old-token"):
        for path in ("/info", "/metrics", "/tensors", "/v2/logging", "/v2/models/stats"):
            assert ask(scoped, "GET", path, token).status_code == 200


def test_a_hash_is_no_token(scoped):
    hashed = hashlib.sha256(b"the-hashed-token").hexdigest()
    for wrong in (hashed, f"sha256:{hashed}", hashed.upper()):
        assert ask(scoped, "GET", "/info", wrong).status_code == 401


def test_challenges(scoped):
    """RFC 6750, 3.1: without a token no error is named."""
    answer = requests.get(scoped.url + "/info", timeout=PATIENCE_S)
    assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    answer = ask(scoped, "GET", "/info", "a-token-of-nobody")
    assert answer.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


PRODUCT = "/gemm?m=2&n=2&k=2"
INFERENCE = "/v2/models/gemm_fp32/infer"


def with_priority(daemon, path, priority, token):
    """Asks for a product on its own path, or by the inference protocol, where 1 is the highest priority."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    if path == PRODUCT:
        query = "" if priority is None else f"&priority={priority}"
        return requests.post(f"{daemon.url}{path}{query}", data=bytes(32), headers=headers, timeout=PATIENCE_S)
    inputs = [{"name": name, "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]} for name in "AB"]
    return requests.post(f"{daemon.url}{path}", timeout=PATIENCE_S, headers=headers | {
        "Content-Type": "application/json"}, json={"inputs": inputs} | (
            {} if priority is None else {"parameters": {"priority": priority}}))


@pytest.mark.parametrize("path, allowed, refused, named", [
    (PRODUCT, ("0", "2", None), ("3", "4", "9"), "2"), (INFERENCE, (8, 10, 100, 0, None), (7, 1), "8")])
def test_the_highest_priority_of_a_token(start, tmp_path, path, allowed, refused, named):
    tokens = tmp_path / "tokens"
    tokens.write_text("x:the-low-token max-priority=2\nx:the-other-token\n")
    tokens.chmod(0o600)
    daemon = start("--backend", "cpu", "--token-file", tokens, ready=False)
    daemon.wait_until_listening().wait_until_ready()
    for priority in allowed:
        assert with_priority(daemon, path, priority, "the-low-token").status_code == 200
    for priority in refused:
        document = assert_problem(with_priority(daemon, path, priority, "the-low-token"), 403, field="priority")
        assert document["detail"] == f"priority is {priority}; the highest that this token allows is {named}"
        assert with_priority(daemon, path, priority, "the-other-token").status_code == 200
    for token, highest in (("the-low-token", 2), ("the-other-token", 9)):
        assert ask(daemon, "GET", "/info", token).json()["max_priority"] == highest


def test_a_reload_changes_the_highest_priority(start, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("x:the-low-token max-priority=2\n")
    tokens.chmod(0o600)
    daemon = start("--backend", "cpu", "--token-file", tokens, ready=False)
    daemon.wait_until_listening().wait_until_ready()
    assert with_priority(daemon, PRODUCT, 5, "the-low-token").status_code == 403
    tokens.write_text("x:the-low-token max-priority=12\n")
    reload(daemon, "line 1: max-priority= is a whole number from 0 to 9")
    assert with_priority(daemon, PRODUCT, 2, "the-low-token").status_code == 200
    assert with_priority(daemon, PRODUCT, 5, "the-low-token").status_code == 403
    tokens.write_text("x:the-low-token max-priority=5\n")
    reload(daemon)
    assert with_priority(daemon, PRODUCT, 5, "the-low-token").status_code == 200
    assert with_priority(daemon, PRODUCT, 6, "the-low-token").status_code == 403


def test_check_config_reads_the_highest_priority(gemmd, tmp_path):
    tokens = tmp_path / "tokens"
    for value, status in (("9", 0), ("10", 1), ("high", 1)):
        tokens.write_text(f"x:the-low-token max-priority={value}\n")
        tokens.chmod(0o600)
        checked = subprocess.run([gemmd, "--token-file", tokens, "--check-config"], capture_output=True, text=True,
                                 timeout=PATIENCE_S, check=False)
        assert checked.returncode == status, checked.stderr
        assert ("max-priority= is a whole number" in checked.stderr) == (status != 0)


def test_a_token_expires_while_its_connection_lasts(gemmd, tmp_path):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"the-short-lived-token expires={end.isoformat(timespec='seconds')}\n")
    tokens.chmod(0o600)
    daemon = Daemon(gemmd, "--token-file", tokens)
    try:
        daemon.wait_until_listening()
        with requests.Session() as session:
            session.headers["Authorization"] = "Bearer the-short-lived-token"
            deadline = time.monotonic() + PATIENCE_S
            while session.get(daemon.url + "/info", timeout=PATIENCE_S).status_code == 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert session.get(daemon.url + "/info", timeout=PATIENCE_S).status_code == 401
        daemon.stop()
    finally:
        daemon.close()

"""Values of parameters, bodies and variables that are almost right."""

import pytest
import requests

from daemon import PATIENCE_S


@pytest.fixture(scope="module")
def ask(url):
    """ask(method, path, ...): the answer of the shared daemon."""
    with requests.Session() as session:
        yield lambda method, path, **more: session.request(method, f"{url}{path}", timeout=PATIENCE_S, **more)


SIZES = "/gemm?m=4&n=4&k=4"


@pytest.mark.parametrize("kind, body, is_json", [
    ("application/json", b"1234", True), ("Application/JSON; charset=utf-8", b"1234", True),
    ("application/json\tx", b"1234", True), ("application/json-patch", b"1234", False),
    ("application/octet-stream", b'{"m": 4}', True), ("application/octet-stream", b' \t\r\n{ \n"m": 4}', True),
    ("application/octet-stream", b"{ }", True), ("application/octet-stream", b"{1}", False),
    ("application/octet-stream", b"{", False), ("application/octet-stream", b"{   ", False),
    ("application/octet-stream", b"    ", False), ("application/octet-stream", b"[{}]", False),
    ("application/octet-stream", b"\0{\"m\"", False), ("application/octet-stream", b"{\0\"m\"", False),
])
def test_a_client_that_sends_json_is_told_what_is_taken(kind, body, is_json, ask):
    answer = ask("POST", SIZES, data=body, headers={"Content-Type": kind})
    assert answer.status_code in (400, 415), answer.text
    assert ("JSON" in answer.json()["detail"]) == is_json, answer.text


@pytest.mark.parametrize("query, field", [
    ("after=w&after=v", "after"), ("limit=1&limit=2", "limit"), ("limit=0", "limit"), ("limit=x", "limit"),
    ("limit=100000", "limit"), ("after=%2F", "after"), ("before=w", "before"),
])
def test_pages_of_tensors(query, field, ask):
    answer = ask("GET", f"/tensors?{query}")
    assert answer.status_code == 400 and answer.json()["field"] == field, answer.text
    assert ask("GET", "/tensors?limit=1&after=w").status_code == 200


@pytest.mark.parametrize("body, status", [
    (b"", 200), (b"{}", 200), (b'{"ready": true}', 200), (b'{"ready": false}', 200), (b'{"ready": 1}', 400),
    (b'{"ready": null}', 400), (b"[]", 400), (b"ready", 400),
])
def test_the_index_of_models(body, status, ask):
    answer = ask("POST", "/v2/repository/index", data=body)
    assert answer.status_code == status, answer.text
    if status == 200:
        assert {"gemm_fp32", "gemm_int8"} <= {model["name"] for model in answer.json()}


@pytest.mark.parametrize("query, status", [
    ("after=0", 200), ("after=-1", 400), ("after=", 400), ("after=1x", 400), ("after=/", 400), ("after=:", 400),
    ("after=99999999999999999999", 400), ("after=9999999999999999999", 400), ("since=1", 400),
    ("step=1", 200), ("step=15", 200), ("after=0&step=15", 200), ("step=2", 400), ("step=", 400), ("step=015", 400),
])
def test_samples_after_a_number(query, status, ask):
    answer = ask("GET", f"/dashboard/history?{query}")
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("environment", [
    {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "18446744073709551615"},
    {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "me"}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
    {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "many", "LISTEN_PID": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
    {"LISTEN_FDS": "1", "LISTEN_PID": "me"},
])
def test_variables_that_are_meant_for_another_process(environment, start):
    """The daemon serves its own address and expects no watchdog."""
    daemon = start(environment=environment)
    assert daemon.session.get(f"{daemon.url}/livez", timeout=PATIENCE_S).status_code == 200
    assert not [line for line in daemon.messages() if "watchdog" in line]

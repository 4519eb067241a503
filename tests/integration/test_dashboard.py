"""GET /: the page for people. That the page is served as it should, and reads nothing that a daemon does
not say, is tested here; test_dashboard_browser.py opens the page in a browser."""

import base64
import hashlib
import re
from pathlib import Path

import pytest
import requests

from daemon import PATIENCE_S
from wire import exchange, request

SOURCE = Path(__file__).resolve().parents[2] / "server/api/dashboard"
NAMES = re.search(r"set\(scripts (.*)\)", (SOURCE / "embed.cmake").read_text(encoding="utf-8"))[1].split()
SCRIPT = "".join((SOURCE / "js" / f"{name}.js").read_text(encoding="utf-8") for name in NAMES)
TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def page(url):
    answer = requests.get(f"{url}/", timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def guarded(start, tmp_path):
    """A daemon that asks for a token; its metrics have what is there for tenants alone."""
    file = tmp_path / "tokens"
    file.write_text(f"alice:{TOKEN}\n", encoding="utf-8")
    return start("--token-file", str(file))


def policy(answer):
    """directive -> its sources"""
    return {name: sources for name, *sources in (
        directive.split() for directive in answer.headers["Content-Security-Policy"].split(";"))}


def hashes(text, tag):
    """What the policy must name for each such element of the page."""
    return ["'sha256-" + base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode() + "'"
            for inner in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)]


def test_it_is_a_page_in_utf_8(page):
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.content.decode("utf-8").startswith("<!DOCTYPE html>")


def test_every_script_is_in_the_page():
    assert sorted(NAMES) == sorted(file.stem for file in (SOURCE / "js").iterdir())


def test_it_is_its_sources(page):
    html = (SOURCE / "page.html").read_text(encoding="utf-8")
    style = (SOURCE / "page.css").read_text(encoding="utf-8")
    assert page.content.decode("utf-8") == html.replace("@STYLE@", style).replace("@SCRIPT@", SCRIPT)


@pytest.mark.parametrize("tag, directive", [("script", "script-src"), ("style", "style-src")])
def test_its_own_script_and_style_are_the_only_ones_allowed(tag, directive, page):
    assert len(hashes(page.content.decode("utf-8"), tag)) == 1
    assert policy(page)[directive] == hashes(page.content.decode("utf-8"), tag)


def test_it_may_ask_its_own_daemon_only(page):
    allowed = policy(page)
    assert allowed["default-src"] == ["'none'"]
    assert allowed["connect-src"] == ["'self'"]
    for directive in ("base-uri", "form-action", "frame-ancestors"):
        assert allowed[directive] == ["'none'"], directive


def test_nothing_comes_from_elsewhere(page):
    """No address of another host, and no style, script or handler that the policy would stop."""
    text = page.content.decode("utf-8")
    assert not re.search(r"https?://|//\w+\.\w|@import|\burl\(", text)
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", text)
    assert re.findall(r'\ssrc=|<link (?!rel="icon" href="data:,">)', text) == []


@pytest.mark.parametrize("name, value", [("X-Content-Type-Options", "nosniff"),
                                         ("Cache-Control", "no-cache"),
                                         ("Referrer-Policy", "no-referrer")])
def test_header(name, value, page):
    assert page.headers[name] == value


def test_head_is_get_without_the_page(page, address):
    answer = exchange(address, request("HEAD", "/"), head=True)
    assert answer.status == 200
    changing = ("date", "x-request-id")
    assert ({name: value for name, value in answer.headers.items() if name not in changing} ==
            {name.lower(): value for name, value in page.headers.items()
             if name.lower() not in changing})


@pytest.mark.parametrize("condition, status", [("{etag}", 304), ("W/{etag}", 304), ("*", 304),
                                               ('"other", {etag}', 304), ('"other"', 200)])
def test_what_is_there_already_is_not_sent_again(condition, status, page, url, session):
    assert re.fullmatch(r'"[0-9a-f]{32}"', page.headers["ETag"])
    answer = session.get(f"{url}/", headers={
        "If-None-Match": condition.format(etag=page.headers["ETag"])})
    assert answer.status_code == status
    assert answer.headers["ETag"] == page.headers["ETag"]
    assert answer.content == (b"" if status == 304 else page.content)


def test_it_is_served_without_a_token(guarded, page):
    """It holds nothing that is not public, and asks for the token itself."""
    assert guarded.session.get(f"{guarded.url}/").content == page.content
    for path in ("/metrics", "/info", "/dashboard/history", "/dashboard/events"):
        assert guarded.session.get(guarded.url + path).status_code == 401, path


def test_elements_that_the_script_names_are_there(page):
    ids = re.findall(r'\sid="([^"]+)"', page.content.decode("utf-8"))
    assert len(ids) == len(set(ids))
    named = set(re.findall(r'(?:\$|rows|tiles|key)\("([^"]+)"', SCRIPT))
    assert len(named) > 20
    assert named <= set(ids)


def test_every_metric_it_reads_is_there(guarded):
    token = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.session.post(f"{guarded.url}/gemm?m=1&n=1&k=1", data=bytes(8),
                                headers=token).status_code == 200
    text = guarded.session.get(f"{guarded.url}/metrics", headers=token).text
    series = re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.M)
    names = {name for name, _ in series}
    families = names | {name.removesuffix("_bucket") for name in names if name.endswith("_bucket")}
    read = set(re.findall(r'"((?:gemmd|process)_\w+)"', SCRIPT))
    assert len(read) > 25
    # The figures of GPUs and of several devices are tested in test_dashboard_browser.py.
    assert {name for name in read - families if not name.startswith(("gemmd_gpu_", "gemmd_per_device_"))} == set()
    labels = {(name, label) for name, label in re.findall(r'"(gemmd_\w+)", "(\w+)"', SCRIPT)
              if not name.startswith(("gemmd_gpu_", "gemmd_per_device_"))}
    assert len(labels) > 6
    missing = {(name, label) for name, label in labels
               if not any(there in (name, f"{name}_bucket") and f'{label}="' in text
                          for there, text in series)}
    assert missing == set()


def test_every_member_of_info_it_reads_is_there(url, session):
    info = session.get(f"{url}/info").json()
    of = {"info": info, "device": info["devices"][0], "kernel": info["kernels"][0]}
    read = set(re.findall(r"\b(info|device|kernel)\.(\w+)(?:\.(\w+))?", SCRIPT))
    assert {name for name, _, _ in read} == set(of)
    for name, member, inner in read:
        assert member in of[name], f"{name}.{member}"
        if inner:
            assert inner in of[name][member], f"{name}.{member}.{inner}"

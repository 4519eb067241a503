"""GET /docs: the documentation of the API as it is served; test_docs_browser.py opens it in a browser."""

import base64
import hashlib
import re
from pathlib import Path

import pytest
import requests

from daemon import PATIENCE_S

SOURCE = Path(__file__).resolve().parents[2] / "server/api/docs"
NAMES = re.search(r"set\(scripts (.*)\)", (SOURCE / "embed.cmake").read_text(encoding="utf-8"))[1].split()
SCRIPT = "".join((SOURCE / "js" / f"{name}.js").read_text(encoding="utf-8") for name in NAMES)


@pytest.fixture(scope="module")
def page(url):
    answer = requests.get(f"{url}/docs", timeout=PATIENCE_S)
    assert answer.status_code == 200, answer.text
    return answer


def test_it_is_its_sources(page):
    html = (SOURCE / "page.html").read_text(encoding="utf-8")
    style = (SOURCE / "page.css").read_text(encoding="utf-8")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.content.decode("utf-8") == html.replace("@STYLE@", style).replace("@SCRIPT@", SCRIPT)
    assert sorted(NAMES) == sorted(file.stem for file in (SOURCE / "js").iterdir())


def test_its_own_script_and_style_are_the_only_ones_allowed(page):
    policy = {name: sources for name, *sources in (
        directive.split() for directive in page.headers["Content-Security-Policy"].split(";"))}
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        inner, = re.findall(rf"<{tag}>(.*?)</{tag}>", page.content.decode("utf-8"), re.S)
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert policy[directive] == [f"'sha256-{digest}'"]
    assert policy["default-src"] == ["'none'"] and policy["connect-src"] == ["'self'"]
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.text), "nothing is loaded from elsewhere"


def test_elements_that_the_script_names_are_there(page):
    ids = re.findall(r'\sid="([^"]+)"', page.text)
    named = set(re.findall(r'\$\("([^"]+)"', SCRIPT))
    assert len(named) > 8 and named <= set(ids) and len(ids) == len(set(ids))


def test_a_browser_with_this_version_is_not_sent_it_again(url, page):
    again = requests.get(f"{url}/docs", headers={"If-None-Match": page.headers["ETag"]}, timeout=PATIENCE_S)
    assert (again.status_code, again.content) == (304, b"")
    assert page.headers["ETag"] != requests.get(f"{url}/", timeout=PATIENCE_S).headers["ETag"]


def test_the_dashboard_links_to_it(url):
    assert requests.get(f"{url}/", timeout=PATIENCE_S).text.count('href="docs"') == 2

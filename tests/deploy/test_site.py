"""The site that deploy/site/build.sh makes of the documents: each of its links leads to a page, a place on it or a file."""

import html.parser
import json
import os
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from conftest import ROOT, addresses, need, run

# The packages of deploy/site/requirements.txt, which are not in the environment of the other tests.
SPHINX = ROOT / "build-tests/site"


class Links(html.parser.HTMLParser):
    """What a page links to and loads, and the places on it that a link can name."""

    def __init__(self, page):
        super().__init__()
        self.targets, self.places, self.loaded = [], set(), []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.places.update(filter(None, (values.get("id"), values.get("name"))))
        if values.get("href"):
            self.targets.append(values["href"])
        self.loaded += [values[name] for name in ("src", "data") if values.get(name)]
        if tag == "link" and values.get("href"):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def site(request, tmp_path_factory):
    need("mandoc")
    if not SPHINX.exists():
        pytest.skip("tests/run.sh deploy downloads Sphinx")
    folder = tmp_path_factory.mktemp("site") / "site"
    build = Path(request.config.getoption("--gemmd")).resolve().parents[1]
    built = subprocess.run([ROOT / "deploy/site/build.sh", "--python", sys.executable, "--build", build, folder],
                           capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                           env={**os.environ, "PYTHONPATH": str(SPHINX)})
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {page: Links(page) for page in site.rglob("*.html")}


def test_every_link_leads_somewhere(site, pages):
    lost, followed = [], 0
    for page, links in pages.items():
        for target in links.targets + links.loaded:
            address = urllib.parse.urlsplit(target)
            if address.scheme:
                continue
            followed += 1
            other = (page.parent / urllib.parse.unquote(address.path)).resolve() if address.path else page
            if other.is_dir():
                other = other / "index.html"
            if not other.is_file() or not other.is_relative_to(site) or (
                    address.fragment and other in pages and address.fragment not in pages[other].places
                    and not address.fragment.startswith("op-")):  # operations, which the page of the API makes itself
                lost.append((str(page.relative_to(site)), target))
    assert lost == [] and followed > 3000


def test_nothing_is_loaded_from_elsewhere(pages):
    assert [target for links in pages.values() for target in links.loaded if urllib.parse.urlsplit(target).netloc] == []


def test_links_to_sources_lead_to_files_of_the_repository(pages):
    repository = f"{addresses()['repository']}/"
    paths = {re.sub(r"^(blob|tree)/main/|#.*", "", target.removeprefix(repository)) for links in pages.values()
             for target in links.targets if target.startswith((f"{repository}blob/", f"{repository}tree/"))}
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_references_have_what_the_sources_have(request, site, pages):
    def text(name):
        return re.sub(r"<[^>]+>", "", (site / name).read_text(encoding="utf-8"))

    functions = (ROOT / "client/libgemmd.symbols").read_text().split()
    reference = text("deploy/site/c.html")
    assert len(functions) > 40 and [name for name in functions if f"{name}(" not in reference] == []
    for method in ("gemm", "attention", "conv2d", "reduce", "softmax", "put", "sequence", "gemm_job"):
        assert f"gemmd_client.Client.{method}" in pages[site / "deploy/site/python.html"].places
    options = re.findall(r"^  (--[\w-]+)", run(request.config.getoption("--gemmd"), "--help"), re.M)
    manual = text("man/gemmd.8.html")
    assert len(options) > 50 and [option for option in options if option not in manual] == []
    described = json.loads((site / "api/openapi.json").read_text(encoding="utf-8"))
    assert described["externalDocs"]["url"] == addresses()["manuals"]


def test_the_index_has_four_parts(site):
    captions = re.findall(r'class="caption[^>]*><span class="caption-text">([^<]+)<', (site / "index.html").read_text())
    assert captions == ["Tutorial", "How-to", "Reference", "Explanation"]

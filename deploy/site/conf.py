"""Sphinx: the documents of the tree as they lie, which build.sh has linked into one folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(os.environ["GEMMD_ROOT"])
sys.path[:0] = [str(ROOT / "client/python/src"), str(ROOT / "deploy/site")]

import headers  # pylint: disable=wrong-import-position  # it lies beside this file

REPOSITORY = re.search(r"^repository=(.*)$", (ROOT / "deploy/release/addresses.txt").read_text(), re.M)[1]

project = "gemmd"
author = "gemmd maintainers"
release = version = subprocess.run([ROOT / "deploy/release/version.sh", "number"], check=True, capture_output=True,
                                   text=True).stdout.strip()
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6
myst_links_external_new_tab = False
# A page that is in no list of the index is reached by a link of another page.
suppress_warnings = ["toc.not_included"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "inherited-members": False}
python_use_unqualified_type_names = True
smartquotes = False
html_theme = "furo"
html_title = f"gemmd {version}"
html_copy_source = False
html_show_sphinx = False
highlight_language = "text"

# The pages of the site that are made of sources.
PAGES = {"client/include/gemmd/gemmd.h": "deploy/site/c.md", "client/python/src/gemmd_client/client.py": "deploy/site/python.md",
         **{str(page.relative_to(ROOT)): f"man/{page.name}.md"
            for page in (ROOT / "server/gemmd.8", *(ROOT / "client/man").glob("*.[13]"))}}
API = "proto/openapi.json"


def site_link(document, label, target):
    """A link of a document as the site has it. A target that is not there stays, so that Sphinx fails."""
    path, mark, fragment = target.partition("#")
    folder = os.path.dirname(document)
    found = os.path.normpath(os.path.join(folder, path))
    place = ROOT / found
    if path and not re.match(r"\w+:", path) and place.exists():
        if found == API:
            return f'<a href="{os.path.relpath("api/index.html", folder or ".")}">{label}</a>'
        if found in PAGES:
            target = os.path.relpath(PAGES[found], folder or ".")
        elif place.suffix not in (".md", ".png", ".svg") or found.startswith(("tests/bench/results/", ".github/")):
            target = f"{REPOSITORY}/{'tree' if place.is_dir() else 'blob'}/main/{found}{mark}{fragment}"
    return f"[{label}]({target})"


def lists(text):
    """The pages that the four parts of the README's index name, as lists that are beside each page of the site."""
    made = ""
    for title, part in re.findall(r"^\| \*\*(.*?)\*\*.*? \| (.*) \|$", text, re.M):
        entries = [(label, PAGES.get(target, target).removesuffix(".md"))
                   for label, target in re.findall(r"\[([^]]+)\]\(([^)#]+)\)", part) if target != API]
        made += (f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" +
                 "".join(f"{label} <{page}>\n" for label, page in entries) + "```\n")
    assert made.count("toctree") == 4, "the index of README.md has not four parts"
    return made


def read_source(_app, document, source):
    if document == root_doc:
        source[0] += lists(source[0])
    if document == "deploy/site/c":
        source[0] += headers.reference(ROOT)
    if not document.startswith("man/"):
        source[0] = re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", source[0], flags=re.M)
        source[0] = re.sub(r"(?<!!)\[((?:[^][\n]|\n(?!\n))+)\]\(([^()\s]+)\)",
                           lambda link: site_link(document, *link.groups()), source[0])


def setup(app):
    app.connect("source-read", read_source)

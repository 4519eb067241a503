"""Fixtures of the tests of deploy/: packages built from this tree, a root that holds nothing but
Debian's essential packages, a daemon."""

import faulthandler
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
# Programs and Python packages of tests/deploy.txt. They are not in the environment of the other tests,
# because cloudcoil brings a plugin for pytest.
TOOLS = ROOT / "build-tests" / "deploy"
sys.path.insert(0, str(ROOT / "tests" / "integration"))
sys.path.append(str(TOOLS))
os.environ["PATH"] = f"{TOOLS / 'bin'}:{os.environ['PATH']}"

EPOCH = "1767225600"


def pytest_addoption(parser):
    parser.addoption("--gemmd", default=str(ROOT / "build" / "bin" / "gemmd"), help="the daemon")
    parser.addoption("--fleet-seconds", type=float, default=1.0,
                     help="how long test_fleet.py runs its load between two events, at least")


def pytest_runtest_setup(item):
    """Tests of --nightly compile whole trees, some of them in qemu: the time after which pytest.ini takes a test for one
    that hangs is too short for them on a busy machine."""
    if item.get_closest_marker("nightly"):
        faulthandler.cancel_dump_traceback_later()


def run(*command, **more):
    """Runs a command to its end and returns what it wrote; a failure shows all of that."""
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                            check=False, stdin=subprocess.DEVNULL, **more)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def addresses():
    """Those of deploy/release/addresses.txt."""
    lines = (DEPLOY / "release" / "addresses.txt").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def need(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")


def make_packages(kind, *definitions, revision=""):
    """Builds the packages of a kind (deb, rpm) and returns the folder that holds them. The daemon
    reports `revision`, or git's if that is empty."""
    build = ROOT / "build-tests" / kind
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    run("cmake", "--preset", kind, "-B", build, "-DGEMMD_CUDA=OFF", f"-DGEMMD_REVISION={revision}", cwd=ROOT)
    run("cmake", "--build", build)
    shutil.rmtree(build / "packages", ignore_errors=True)
    run("cpack", "-G", kind.upper(), *definitions, cwd=build, env=environment)
    return build / "packages"


@pytest.fixture(scope="session")
def deb_folder(tmp_path_factory):
    need("dpkg-deb", "dpkg-shlibdeps")
    kept = tmp_path_factory.mktemp("debs")
    for file in make_packages("deb").glob("*.*deb"):
        shutil.copy(file, kept)
    return kept


@pytest.fixture(scope="session")
def debs(deb_folder):
    """The Debian packages by name."""
    return {file.name.partition("_")[0]: file for file in deb_folder.glob("*.deb")}


@pytest.fixture(scope="session")
def dbgsyms(deb_folder):
    """The packages of symbols for debuggers by name."""
    return {file.name.partition("_")[0]: file for file in deb_folder.glob("*.ddeb")}


@pytest.fixture(scope="session")
def clean_root(debs, tmp_path_factory):
    """A root of apt, Debian's essential packages and what ours depend on, made by mmdebstrap from the
    sources of this host's apt."""
    need("mmdebstrap")
    if os.geteuid() != 0:
        pytest.skip("a clean root needs root")
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("a clean root needs mounts, which are not allowed here")
    depends = set()
    for file in debs.values():
        for entry in run("dpkg-deb", "--field", file, "Depends").split(","):
            depends.add(re.split(r"[ |(]", entry.strip())[0])
    root = tmp_path_factory.mktemp("root") / "root"
    folder = pathlib.Path("/etc/apt")
    sources = [str(path) for path in (folder / "sources.list",
                                      *sorted((folder / "sources.list.d").glob("*.sources")),
                                      *sorted((folder / "sources.list.d").glob("*.list")))
               if path.exists()]
    # The distribution's own file, where it has one, and none of third parties.
    for name in ("debian.sources", "ubuntu.sources"):
        if (folder / "sources.list.d" / name).exists():
            sources = [str(folder / "sources.list.d" / name)]
    codename = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(),
                         re.M).group(1)
    run("mmdebstrap", "--quiet", "--variant=apt", "--dpkgopt=path-exclude=/usr/share/man/*",
        f"--include={','.join(sorted(depends - set(debs)))}", codename, root, *sources)
    return root


@pytest.fixture
def daemon(request):
    """A daemon on a free port."""
    from daemon import Daemon

    daemon = Daemon(request.config.getoption("--gemmd"), "--backend", "cpu")
    daemon.wait_until_listening().wait_until_ready()
    yield daemon
    daemon.stop()

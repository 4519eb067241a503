"""What the integration tests share: the daemon under test and where its programs lie."""

import os
import random
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import requests

import tiers
from daemon import PATIENCE_S, PATIENT, Daemon

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    group = parser.getgroup("gemmd")
    group.addoption("--gemmd", default=str(ROOT / "build/bin/gemmd"),
                    help="the daemon under test (gemmctl is looked for beside it)")
    group.addoption("--url", help="test this running daemon; tests that start their own still do")
    group.addoption("--seed", type=int, default=None, help="for the random operands")
    group.addoption("--tier", choices=tiers.TIERS, default="nightly",
                    help="run only the files that tiers.txt gives to this tier (default: nightly, which is all)")
    group.addoption("--sanitizer", choices=tiers.SANITIZERS,
                    help="run only the files that tiers.txt gives to this sanitizer")
    group.addoption("--thin", action="store_true",
                    help="of each matrix of cases, run one for each type of operands, kernel and format; with "
                         "--sanitizer at most three cases of any other test that is not marked `hostile`, and with "
                         "--sanitizer asan half of the tests that tsan runs, too")
    group.addoption("--fuzz-seconds", type=int, default=None, metavar="S",
                    help="how long test_fuzzing.py sends random conversations (6; 20 with a sanitizer)")
    group.addoption("--fuzz-number", type=int, default=None, metavar="N",
                    help="of these conversations, repeat only the one with this number")


def pytest_configure(config):
    os.umask(0o027)  # the daemon refuses a file of tokens that every user can read
    # nohup and a shell's background jobs ignore these signals, and a daemon started from here would too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1 << 32)


def pytest_terminal_summary(terminalreporter, config):
    """The header would say it too, but pytest.ini has -q, which hides the header."""
    terminalreporter.write_line(f"operands: --seed {config.option.seed}; "
                                f"daemon: {config.option.url or config.option.gemmd}")


def pytest_ignore_collect(collection_path, config):
    """Files outside --tier and --sanitizer are not imported."""
    if tiers.is_test(collection_path) and not tiers.runs(
            collection_path, config.option.tier, config.option.sanitizer):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    """Leaves out what is marked `nightly`, outside that tier, and what --thin leaves out."""
    kept = items
    if config.option.tier != "nightly":
        kept = [item for item in kept if not item.get_closest_marker("nightly")]
    if config.option.thin:
        chooser = random.Random(config.option.seed)
        kept = thinned(kept, chooser)
        if config.option.sanitizer:
            kept = at_most(SANITIZED_CASES, kept, chooser)
        if config.option.sanitizer == "asan":
            kept = half_of_shared(kept, chooser)
    if len(kept) < len(items):
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


# Parameters that say which code reads and computes: the path, the format of a body, the types, the kernel.
KIND = ("path", "sent", "dtype", "kernel", "kind", "op", "out", "precision", "scales")


def kind_of(item):
    """What a case of a matrix has in common with the cases that run the same code."""
    kind = {name: str(value) for name, value in item.callspec.params.items() if name in KIND}
    for value in item.callspec.params.values():
        kind |= {name: str(getattr(value, name)) for name in KIND if hasattr(value, name)}
    return item.function, tuple(sorted(kind.items()))


def thinned(items, chooser):
    """Of the cases marked `matrix`, one of each kind; which one follows from the seed."""
    cases = {}
    for item in items:
        if item.get_closest_marker("matrix"):
            cases.setdefault(kind_of(item), []).append(item)
    chosen = {chooser.choice(alike) for alike in cases.values()}
    return [item for item in items if item in chosen or not item.get_closest_marker("matrix")]


# Cases of a test that run under a sanitizer with --thin. All cases of a test send much the same through the same code,
# and the builds without sanitizers run all of them.
SANITIZED_CASES = 3


def at_most(number, items, chooser):
    """Of each test, `number` cases; which ones follows from the seed. Matrices and hostile inputs stay."""
    cases = {}
    for item in items:
        if not item.get_closest_marker("matrix") and not item.get_closest_marker("hostile"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    left_out = {item for alike in cases.values() if len(alike) > number
                for item in chooser.sample(alike, len(alike) - number)}
    return [item for item in items if item not in left_out]


def half_of_shared(items, chooser):
    """Of the tests that ThreadSanitizer runs too, half; which ones follows from the seed. Hostile inputs stay."""
    shared = sorted({(str(item.path), item.originalname) for item in items
                     if not item.get_closest_marker("hostile") and tiers.runs(item.path, "all", "tsan")})
    left_out = set(chooser.sample(shared, len(shared) // 2))
    return [item for item in items if (str(item.path), item.originalname) not in left_out]


@pytest.fixture(scope="session")
def gemmd(request):
    path = Path(request.config.option.gemmd).resolve()
    assert os.access(path, os.X_OK), f"there is no daemon at {path}"
    return path


@pytest.fixture(scope="session")
def instrumented(gemmd):
    """Whether a sanitizer or the counting of branches is built into the daemon, which makes loops ten
    times as slow: a test that needs time to pass takes a smaller product, one that repeats itself
    does so less often."""
    binary = gemmd.read_bytes()
    return any(name in binary for name in (b"__tsan_init", b"__asan_init", b"__gcov_"))


@pytest.fixture(scope="session")
def sanitized(gemmd):
    """Whether a sanitizer is built into the daemon, which replaces functions of the C library."""
    binary = gemmd.read_bytes()
    return any(name in binary for name in (b"__tsan_init", b"__asan_init"))


@pytest.fixture(scope="session")
def counted(gemmd):
    """Whether the daemon counts its branches (the preset `coverage`)."""
    return b"__gcov_" in gemmd.read_bytes()


@pytest.fixture(scope="session")
def gemmctl(gemmd):
    path = gemmd.with_name("gemmctl")
    assert os.access(path, os.X_OK), f"there is no gemmctl at {path}"
    return path


@pytest.fixture(scope="session")
def url(request):
    """The URL of a daemon shared by all tests that leave it as it was. Its limits are the defaults, except that
    a connection may be idle for long, since the daemon must not close one at the moment at which a test uses it,
    and that a body may arrive slowly, as it does from a test on a loaded machine."""
    if request.config.option.url:
        yield request.config.option.url.rstrip("/")
        return
    daemon = Daemon(request.getfixturevalue("gemmd"), "--idle-timeout", "1h", *PATIENT)
    try:
        daemon.wait_until_listening().wait_until_ready()
        yield daemon.url
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture(scope="session")
def address(url):
    """(host, port) of that daemon, for connections by hand."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)


@pytest.fixture(scope="session")
def session(url):
    """Kept-alive connections to it."""
    with requests.Session() as session:
        yield session


@pytest.fixture
def start(gemmd):
    """Starts daemons of the test's own; each must end with status 0 and a clean report."""
    daemons = []

    def starter(*arguments, ready=True, **keywords):
        daemon = Daemon(gemmd, *arguments, **keywords)
        daemons.append(daemon)
        if ready:
            listen = keywords.get("listen", ("127.0.0.1:0",))
            daemon.wait_until_listening(len(listen) if listen else 1)
            if any(not address.startswith("unix:") for address in daemon.addresses):
                daemon.wait_until_ready()
        return daemon

    try:
        yield starter
        for daemon in daemons:
            if daemon.process.returncode is None:
                daemon.stop()
            else:
                daemon.check_sanitizers()
    finally:
        for daemon in daemons:
            daemon.close()


@pytest.fixture
def rng(request):
    """Random operands: fresh in every run, the same again with --seed."""
    name = request.node.nodeid.encode()
    return np.random.default_rng([request.config.option.seed, *name])


@pytest.fixture
def post(url, session):
    """post(parameters, body, type) -> the answer of POST /gemm."""

    def poster(parameters, body, media_type="application/octet-stream", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return session.post(f"{url}/gemm", params=parameters, data=body, timeout=PATIENCE_S,
                            headers={"Content-Type": media_type, **headers})

    return poster


@pytest.fixture
def run(gemmctl, url, tmp_path):
    """run(*arguments, stdin=b"") -> gemmctl, finished, in a folder of its own."""

    def runner(*arguments, stdin=b"", **environment):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("GEMMD_")}
        return subprocess.run([gemmctl, *map(str, arguments)], input=stdin, cwd=tmp_path,
                              env={**clean, "GEMMD_URL": url, **environment},
                              capture_output=True, timeout=PATIENCE_S, check=False)

    return runner

"""The Debian and RPM packages: what they hold, and what installing, upgrading and purging does."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import pytest

from conftest import ROOT, make_packages, need, run
from fleet import Load, alive
from patience import PATIENCE_S, wait_until
from reserved_port import ReservedPort

PACKAGES = {"gemmd", "gemmctl", "libgemmd0", "libgemmd-dev"}
# What dpkg, adduser and ldconfig keep for themselves; the system user stays after a purge.
KEPT = re.compile(r"^(var/(lib/dpkg|log|cache)/|etc/(passwd|group|g?shadow|subuid|subgid)-?$"
                  r"|etc/ld\.so\.cache$|proc/|run/|tmp/)")


def files(root):
    return {os.path.relpath(os.path.join(folder, name), root)
            for folder, folders, names in os.walk(root) for name in (*folders, *names)
            if not KEPT.match(os.path.relpath(os.path.join(folder, name), root))}


def contents(deb):
    return {line.split(None, 5)[5].split(" -> ")[0].removeprefix("./")
            for line in run("dpkg-deb", "--contents", deb).splitlines()}


def test_every_file_is_in_its_package(debs):
    assert set(debs) == PACKAGES
    daemon, control = contents(debs["gemmd"]), contents(debs["gemmctl"])
    library, development = contents(debs["libgemmd0"]), contents(debs["libgemmd-dev"])
    assert {"usr/bin/gemmd", "usr/share/man/man8/gemmd.8.gz", "etc/gemmd/gemmd.json",
            "usr/share/bash-completion/completions/gemmd",
            "usr/share/zsh/site-functions/_gemmd"} <= daemon
    pages = {f"usr/share/man/man1/{page.name}.gz" for page in (ROOT / "client" / "man").glob("gemmctl*.1")}
    assert {"usr/share/man/man1/gemmctl.1.gz", "usr/share/man/man1/gemmctl-gemm.1.gz"} <= pages
    assert {name for name in control if "/man1/" in name and not name.endswith("/")} == pages
    assert {"usr/bin/gemmctl",
            "usr/share/bash-completion/completions/gemmctl",
            "usr/share/zsh/site-functions/_gemmctl",
            "usr/share/fish/vendor_completions.d/gemmctl.fish"} <= control
    assert any(re.search(r"/libgemmd\.so\.0$", name) for name in library)
    assert not any(name.endswith("libgemmd.so") for name in library)
    assert {"usr/include/gemmd/gemmd.h", "usr/share/man/man3/libgemmd.3.gz"} <= development
    assert any(name.endswith("pkgconfig/gemmd.pc") for name in development)
    units = {path.name for path in (ROOT / "deploy" / "systemd").glob("gemmd.s*")
             if path.suffix in (".service", ".socket")}
    assert {f"usr/lib/systemd/system/{unit}" for unit in units} <= daemon


def test_the_manuals_are_in_the_package_and_lead_to_each_other(debs, tmp_path):
    """A link to a document for users leads to one that is installed."""
    run("dpkg-deb", "--extract", debs["gemmd"], tmp_path)
    folder = tmp_path / "usr/share/doc/gemmd"
    manuals = {str(path.relative_to(folder)) for path in folder.rglob("*.md")}
    assert {"README.md", "FAQ.md", "deploy/PRODUCTION.md", "deploy/OPERATING.md", "proto/PROTOCOL.md"} <= manuals
    named = {os.path.normpath(os.path.join(os.path.dirname(manual), link)) for manual in manuals
             for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", (folder / manual).read_text())}
    left_out = {path for path in named - manuals if re.match(r"(FAQ|README|S\w+)\.md|(proto|client|deploy)/", path)}
    assert left_out <= {"deploy/release/README.md", "deploy/site/README.md"} and len(named) > 20


def test_dependencies_come_from_the_binaries(debs):
    def depends(name):
        return run("dpkg-deb", "--field", debs[name], "Depends")

    for library in ("libmicrohttpd", "libuv1", "libjansson4", "libopenblas0"):
        assert library in depends("gemmd")
    assert "libcurl" in depends("libgemmd0")
    version = run("dpkg-deb", "--field", debs["libgemmd0"], "Version").strip()
    assert f"libgemmd0 (= {version})" in depends("gemmctl")
    assert f"libgemmd0 (= {version})" in depends("libgemmd-dev")


def test_what_is_loaded_at_run_time_is_recommended(debs):
    assert "libcurl3-gnutls | libcurl4" in run("dpkg-deb", "--field", debs["gemmd"], "Recommends")


def test_symbols_have_the_version_that_a_program_depends_on(debs, tmp_path):
    run("dpkg-deb", "--control", debs["libgemmd0"], tmp_path)
    listed = (tmp_path / "symbols").read_text().splitlines()
    assert listed[0] == "libgemmd.so.0 libgemmd0 #MINVER#"
    symbols = dict(line.split() for line in listed[1:])
    names = (ROOT / "client/libgemmd.symbols").read_text().split()
    assert {f"{name}@GEMMD_0" for name in names} == set(symbols) - {"GEMMD_0@GEMMD_0"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+~", version) for version in symbols.values()), symbols


def test_lintian_finds_nothing(debs):
    need("lintian")
    result = subprocess.run(["lintian", "--fail-on", "warning", *map(str, debs.values())],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def hold_the_symbols(root, program):
    """Of a program as it is installed in the root, with names of sources that hold on any host."""
    installed, = root.glob(program)
    build_id = re.search(r"Build ID: (\w+)", run("readelf", "-n", installed))[1]
    assert ".debug_info" not in run("readelf", "-SW", installed)
    symbols = root / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    folders = set(re.findall(r"DW_AT_comp_dir .*: (\S+)", run("readelf", "--debug-dump=info", symbols)))
    assert folders == {"/usr/src/gemmd/build"}, folders


def test_symbols_for_debuggers_are_in_packages_of_their_own(debs, dbgsyms, tmp_path):
    for name, program in (("gemmd", "usr/bin/gemmd"), ("gemmctl", "usr/bin/gemmctl"),
                          ("libgemmd0", "usr/lib/*/libgemmd.so.0.*")):
        run("dpkg-deb", "--extract", debs[name], tmp_path / name)
        run("dpkg-deb", "--extract", dbgsyms[f"{name}-dbgsym"], tmp_path / name)
        sums = run("sh", "-c", 'dpkg-deb --ctrl-tarfile "$0" | tar -xO ./md5sums', dbgsyms[f"{name}-dbgsym"])
        assert re.fullmatch(r"(\w{32}  usr/lib/debug/\S+\n)+", sums), sums
        hold_the_symbols(tmp_path / name, program)


def test_pkg_config_needs_no_other_package(debs, tmp_path):
    for name in ("libgemmd0", "libgemmd-dev"):
        run("dpkg-deb", "--extract", debs[name], tmp_path)
    folder, = tmp_path.glob("usr/lib/*/pkgconfig")
    for options in ((), ("--define-prefix",)):
        flags = run("pkg-config", *options, "--cflags", "--libs", "gemmd",
                    env={**os.environ, "PKG_CONFIG_LIBDIR": str(folder)}).split()
        found = {flag[:2]: pathlib.Path(flag[2:]) for flag in flags}
        assert (found["-I"] / "gemmd/gemmd.h").is_file() and (found["-L"] / "libgemmd.so").exists(), flags


def wait_for_line(process, pattern):
    for line in process.stdout:
        found = re.search(pattern, line)
        if found:
            return found
    raise AssertionError(f"the daemon ended without a line {pattern}")


def start_installed(root, *more, **options):
    """Starts the installed daemon as its user, as its unit does, with further options."""
    inside = ["unshare", "--mount", "sh", "-c",
              f"mount --bind /proc {root}/proc && exec chroot --userspec=gemmd {root} \"$@\"", "sh"]
    unit = (pathlib.Path(root) / "usr/lib/systemd/system/gemmd.service").read_text()
    command = re.search(r"^ExecStart=(.*)", unit, re.M)[1].split()
    return subprocess.Popen([*inside, *command, "--backend", "cpu", *more],
                            stdin=subprocess.DEVNULL, text=True, **options)


def serve_a_product(root):
    """Has the installed gemmctl ask the installed daemon."""
    process = start_installed(root, "--listen", "127.0.0.1:0", "--pinned-bytes", "64M",
                              "--device-bytes", "64M", "--tensor-bytes", "16M",
                              stdout=subprocess.PIPE)
    try:
        url = "http://" + wait_for_line(process, r"listening on ([\d.:]+)").group(1)
        run("chroot", root, "gemmctl", "ready", "--url", url)
        body = b"\x00\x00\x40\x40" * 2  # 3 * 3
        with urllib.request.urlopen(f"{url}/gemm?m=1&n=1&k=1", body) as answer:
            assert answer.read() == b"\x00\x00\x10\x41"
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0


def install(root, packages):
    """Installs packages as an administrator does."""
    for file in packages:
        (root / "tmp" / file.name).write_bytes(file.read_bytes())
    run("chroot", root, "dpkg", "--install", *[f"/tmp/{file.name}" for file in packages],
        env={**os.environ, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def test_installs_runs_upgrades_and_leaves_nothing(debs, clean_root):
    root = str(clean_root)
    before = files(root)
    dpkg = ("chroot", root, "dpkg")

    def version():
        return run("chroot", root, "dpkg-query", "--show", "--showformat=${Version}", "gemmd")

    install(clean_root, debs.values())
    assert run("chroot", root, "dpkg", "--audit") == ""
    assert re.search(r"^gemmd:", (clean_root / "etc/passwd").read_text(), re.M)
    serve_a_product(root)

    # What an operator wrote in the configuration stays.
    configuration = clean_root / "etc/gemmd/gemmd.json"
    configuration.write_text('{"log-level": "debug"}\n')
    first = version()
    newer = make_packages("deb", "-D", "CPACK_PACKAGE_VERSION=99.0.0~test")
    install(clean_root, sorted(newer.glob("*.deb")))
    assert version().startswith("99.0.0~test") and version() != first
    assert configuration.read_text() == '{"log-level": "debug"}\n'
    serve_a_product(root)

    run(*dpkg, "--remove", *PACKAGES)
    assert configuration.exists()
    run(*dpkg, "--purge", *PACKAGES)
    assert files(root) - before == set()
    assert before - files(root) == set()


class ServiceManager:
    """What systemd does for the unit, in a root where no systemd runs: starts the daemon, takes its
    notifications from the main process alone, and gets its orders from the maintainer scripts
    through a systemctl that is written into the root."""

    SYSTEMCTL = """#!/bin/sh
echo "$@" >>/run/systemctl.calls
case "$*" in
*"kill --kill-whom=main --signal=SIGUSR2 gemmd.service"*) kill -USR2 "$(cat /run/main.pid)" ;;
*stop*gemmd.service*) kill -TERM "$(cat /run/main.pid)" ;;
esac
"""

    def __init__(self, root):
        self.root, self.main = root, None
        self.program = root / "usr/local/bin/systemctl"
        self.program.write_text(self.SYSTEMCTL)
        self.program.chmod(0o755)
        (root / "run/systemd/system").mkdir(parents=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(str(root / "run/notify"))
        (root / "run/notify").chmod(0o666)
        self.ready, self.starting = threading.Event(), threading.Lock()
        threading.Thread(target=self.listen, daemon=True).start()

    def start(self, *options, **more):
        with self.starting:  # a message of the daemon is not judged before its pid is known
            process = start_installed(self.root, *options, **more,
                                      env={**os.environ, "NOTIFY_SOCKET": "/run/notify"})
            self.set_main(process.pid)
        assert self.ready.wait(PATIENCE_S), "the daemon is not ready"
        return process

    def set_main(self, pid):
        self.main = pid
        (self.root / "run/main.pid").write_text(str(pid))

    def listen(self):
        while True:
            message, control, _, _ = self.socket.recvmsg(4096, 1024)
            if not message:  # the socket was shut down
                return
            sender = struct.unpack("3i", control[0][2])[0]
            with self.starting:
                if sender != self.main:  # NotifyAccess=main
                    continue
            words = dict(line.split("=", 1) for line in message.decode().splitlines())
            if "MAINPID" in words:
                self.set_main(int(words["MAINPID"]))
            if "READY" in words:
                self.ready.set()

    def stop(self):
        if alive(self.main):
            os.kill(self.main, signal.SIGTERM)
            wait_until(lambda: not alive(self.main), "the daemon to end")
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.program.unlink()
        shutil.rmtree(self.root / "run/systemd")
        for name in ("notify", "main.pid", "systemctl.calls"):
            (self.root / "run" / name).unlink(missing_ok=True)


def revision_of(url):
    with urllib.request.urlopen(f"{url}/info") as answer:
        return json.load(answer)["build"]["revision"]


def test_upgrades_under_load(debs, clean_root, tmp_path, request):
    """Every request is answered rightly while a newer package is installed over the running daemon,
    and then the newer daemon answers. Removing the package stops that one."""
    program = pathlib.Path(request.config.getoption("--gemmd")).parent / "gemmd-fleet-load"
    newer = make_packages("deb", "-D", "CPACK_PACKAGE_VERSION=99.0.0~test",
                          revision="the-newer-one")
    install(clean_root, debs.values())
    with contextlib.ExitStack() as stack:
        stack.callback(run, "chroot", clean_root, "dpkg", "--purge", *PACKAGES)
        manager = ServiceManager(clean_root)
        stack.callback(manager.stop)
        log = stack.enter_context(open(tmp_path / "log", "w", encoding="utf-8"))
        port = stack.enter_context(ReservedPort())
        process = manager.start("--listen", port.address, "--pinned-bytes", "256M",
                                "--device-bytes", "256M", "--tensor-bytes", "64M",
                                "--no-access-log", stdout=log)
        url = f"http://{port.address}"
        assert revision_of(url) != "the-newer-one"
        load = Load(program, url)
        stack.callback(load.stop)
        load.wait_for_answers(1000)
        install(clean_root, sorted(newer.glob("*.deb")))
        assert process.wait(PATIENCE_S) == 0, "the older daemon has drained"
        load.wait_for_answers(1000)
        assert revision_of(url) == "the-newer-one"
        counts = load.stop()
        assert (counts["lost"], counts["wrong"]) == (0, 0), load.errors[:10]
        assert counts["sent"] == counts["answered"]
        calls = (clean_root / "run/systemctl.calls").read_text()
        assert not re.search("restart|stop", calls), calls
        run("chroot", clean_root, "dpkg", "--remove", "gemmd")
        wait_until(lambda: not alive(manager.main), "the daemon to end")


def test_maintainer_scripts_tell_systemd(tmp_path):
    """With programs that note how they are called in the place of systemd's."""
    calls = tmp_path / "calls"
    for name in ("systemctl", "deb-systemd-invoke", "deb-systemd-helper", "getent", "adduser"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {name} \"$@\" >>{calls}\n")
        program.chmod(0o755)
    unit, booted = tmp_path / "gemmd.service", tmp_path / "booted"
    unit.touch()
    booted.mkdir()

    def script(name, *arguments):
        text = (ROOT / "deploy/packages/debian" / name).read_text()
        text = text.replace("/usr/lib/systemd/system/gemmd.service", str(unit))
        text = text.replace("/run/systemd/system", str(booted))
        calls.write_text("")
        run("sh", "-c", text, name, *arguments,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
        return calls.read_text()

    assert "deb-systemd-invoke start gemmd.service" in script("postinst", "configure")
    upgrade = script("postinst", "configure", "0.1.0-1")
    assert "kill --kill-whom=main --signal=SIGUSR2 gemmd.service" in upgrade
    assert "start" not in upgrade and "stop" not in upgrade
    assert script("prerm", "upgrade", "0.3.0-1") == ""
    assert "stop gemmd.socket gemmd.service" in script("prerm", "remove")
    # A failing systemd fails no installation.
    for name in ("systemctl", "deb-systemd-invoke", "adduser"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
    script("postinst", "configure")
    script("postinst", "configure", "0.1.0-1")
    script("prerm", "remove")
    script("postrm", "remove")


@pytest.fixture(scope="module")
def rpms(tmp_path_factory):
    """The RPM packages by name."""
    need("rpmbuild", "rpm", "eu-strip")
    kept = tmp_path_factory.mktemp("rpms")
    return {re.sub(r"-\d[^-]*-\d+\..*", "", file.name): pathlib.Path(shutil.copy(file, kept))
            for file in make_packages("rpm").glob("*.rpm")}


def test_rpm_packages_hold_the_same_lists(debs, rpms):
    def held(rpm):
        return {name.lstrip("/").replace("usr/lib64/", "usr/lib/")
                for name in run("rpm", "-qlp", rpm).splitlines() if "/.build-id" not in name}

    def expected(deb):
        return {re.sub(r"^usr/lib/[\w]+-linux-gnu/", "usr/lib/", re.sub(r"(/man\d/.*)\.gz$", r"\1", name))
                .replace("gemmd/changelog.gz", "gemmd/CHANGELOG.md")
                for name in contents(deb)
                if not re.search(r"/$|/changelog\.Debian|/copyright$|/lintian/", name)}

    names = {"gemmd": "gemmd", "gemmctl": "gemmctl", "gemmd-libs": "libgemmd0",
             "gemmd-devel": "libgemmd-dev"}
    assert set(rpms) == {*names, "gemmd-debuginfo", "gemmctl-debuginfo", "gemmd-libs-debuginfo"}
    for rpm, deb in names.items():
        found = {re.sub(r"(/man\d/.*)\.gz$", r"\1", name) for name in held(rpms[rpm])}
        assert expected(debs[deb]) <= found, rpm
        # Only folders of the packages themselves and the licence, which Debian has elsewhere, come on top.
        extra = found - expected(debs[deb])
        assert all("gemmd" in name or f"licenses/{rpm}" in name for name in extra), extra
        assert run("rpm", "-qp", "--licensefiles", rpms[rpm]).split() == [f"/usr/share/licenses/{rpm}/LICENSE"]
    requires = run("rpm", "-qRp", rpms["gemmd"])
    assert "libmicrohttpd.so.12" in requires and "libopenblas.so.0" in requires
    assert "libgemmd.so.0" in run("rpm", "-qRp", rpms["gemmctl"])
    assert run("rpm", "-qcp", rpms["gemmd"]).split() == ["/etc/gemmd/gemmd.json"]
    assert "--signal=SIGUSR2" in run("rpm", "-qp", "--scripts", rpms["gemmd"])


def test_rpm_packages_of_the_same_sources_are_equal(rpms):
    time.sleep(1.1)  # RPM's times have whole seconds
    again = make_packages("rpm")
    for file in rpms.values():
        assert (again / file.name).read_bytes() == file.read_bytes(), file.name


def test_rpm_packages_install_run_upgrade_and_leave_nothing(rpms, clean_root):
    """In a root of Debian, for whose libraries the packages are built here, with every package of symbols. The database of
    RPM in the root is empty, so that this test looks for the libraries in place of RPM."""
    root = str(clean_root)
    before = files(root)
    rpm = ("rpm", "--root", root, "--dbpath", "/tmp/rpm")  # /tmp: files() leaves the database out
    required = run("rpm", "-qp", "--requires", *rpms.values())
    libraries = set(re.findall(r"^(lib[^(]+\.so[^(\s]*)", required, re.M)) - {"libgemmd.so.0"}
    assert len(libraries) >= 8 and libraries <= set(run("chroot", root, "ldconfig", "-p").split()), libraries
    # The loader of distributions with RPM looks for libraries in /usr/lib64, where Debian has none.
    folders = clean_root / "etc/ld.so.conf.d/lib64.conf"
    folders.write_text("/usr/lib64\n")

    run(*rpm, "--install", "--nodeps", *rpms.values())
    run("chroot", root, "ldconfig")
    assert set(run(*rpm, "--query", "--all", "--queryformat", "%{name}\n").split()) == set(rpms)
    assert run(*rpm, "--verify", "--nodeps", *rpms) == ""
    assert re.search(r"^gemmd:", (clean_root / "etc/passwd").read_text(), re.M)
    for program in ("usr/bin/gemmd", "usr/bin/gemmctl", "usr/lib64/libgemmd.so.0.*"):
        hold_the_symbols(clean_root, program)
    serve_a_product(root)

    configuration = clean_root / "etc/gemmd/gemmd.json"
    configuration.write_text('{"log-level": "debug"}\n')
    newer = make_packages("rpm", "-D", "CPACK_PACKAGE_VERSION=99.0.0~test")
    run(*rpm, "--upgrade", "--nodeps", *sorted(newer.glob("*.rpm")))
    assert run(*rpm, "--query", "--queryformat", "%{version}", "gemmd") == "99.0.0~test"
    assert configuration.read_text() == '{"log-level": "debug"}\n'
    serve_a_product(root)

    run(*rpm, "--erase", "--nodeps", *rpms)
    kept = configuration.with_suffix(".json.rpmsave")
    assert kept.read_text() == '{"log-level": "debug"}\n'
    shutil.rmtree(kept.parent)
    folders.unlink()
    shutil.rmtree(clean_root / "tmp/rpm")
    run("chroot", root, "ldconfig")
    assert before - files(root) == set()
    # Folders that packages of a distribution with RPM hold, and of which RPM therefore knows nothing here.
    for path in sorted(files(root) - before, reverse=True):
        assert "gemmd" not in path
        (clean_root / path).rmdir()

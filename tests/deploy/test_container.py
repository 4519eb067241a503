"""The container image: built by buildah without privileges of a container engine, and its root run
read-only, by its numeric user."""

import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request

import pytest
import yaml

from conftest import DEPLOY, addresses, need, run

CONTAINER = DEPLOY / "container"


def test_hadolint_finds_no_error():
    need("hadolint")
    run("hadolint", "--failure-threshold", "warning", CONTAINER / "Containerfile")


def test_the_stage_installs_every_library_of_the_build():
    """The image of this test is made from packages, so that it does not compile in the stage."""
    quickstart = (DEPLOY / "quickstart.sh").read_text()
    needed = set(re.findall(r"^\s*want_library \S+ (\S+)$", quickstart, re.M))
    assert len(needed) >= 8
    installed = set((CONTAINER / "make-packages.sh").read_text().split())
    assert needed <= installed, needed - installed


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    """Runs buildah, with storage of its own, in a folder."""
    need("buildah")
    folder = tmp_path_factory.mktemp("container")

    def buildah(*words):
        return run(*buildah.command, *words, env=buildah.environment).strip()

    buildah.folder = folder
    buildah.command = ("buildah", "--root", folder / "storage", "--runroot", folder / "run")
    buildah.environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    return buildah


@pytest.fixture(scope="module")
def builds(debs, clean_root, buildah):
    """What build.sh prints of the target cpu, which it makes twice, from packages and from a base that no registry
    served: (id, name) each."""
    context = buildah.folder / "context"
    (context / "packages").mkdir(parents=True)
    for file in debs.values():
        shutil.copy(file, context / "packages")
    shutil.copytree(CONTAINER, context / "deploy" / "container")
    base = buildah("from", "scratch")
    buildah("add", "--quiet", base, clean_root, "/")
    buildah("commit", "--quiet", "--rm", base, "localhost/base")
    # The same with the storage and the context of this test.
    engine = buildah.folder / "engine"
    engine.write_text(f'#!/bin/bash\nexec {" ".join(map(str, buildah.command))} "${{@:1:$#-1}}" {context}\n')
    engine.chmod(0o755)
    return [run(CONTAINER / "build.sh", "--engine", engine, "--registry", "localhost", "cpu", "--quiet",
                "--build-arg", "BASE=localhost/base", "--build-arg", "PACKAGES=packages",
                env=buildah.environment).split() for _ in range(2)]


@pytest.fixture(scope="module")
def image(builds, buildah):
    """(name, settings, root)"""
    name = builds[-1][-1]
    settings = json.loads(buildah("inspect", "--type", "image", name))["Docker"]["config"]
    made = buildah("from", name)
    root = buildah("mount", made)
    for mounted in ("dev", "proc"):  # by a container engine
        os.makedirs(f"{root}/{mounted}", exist_ok=True)
    yield name, settings, root
    buildah("umount", made)


def test_two_builds_of_a_commit_hold_the_same_bytes(builds, buildah):
    """In settings, too, but for the random name of the container in which an engine has built."""
    def settings(image):
        found = json.loads(json.loads(buildah("inspect", "--type", "image", image))["Config"])
        del found["container"], found["config"]["Hostname"], found["container_config"]["Hostname"]
        return found

    (first, name), (second, again) = builds
    assert name == again and first != second
    assert len(settings(first)["rootfs"]["diff_ids"]) == 1 and settings(first) == settings(second)


def test_settings_of_the_image(image):
    name, settings, _ = image
    assert settings["User"] == "65532:65532"
    assert settings["Entrypoint"] == ["/usr/bin/gemmd"]
    assert settings["StopSignal"] == "SIGTERM"
    assert settings["Healthcheck"]["Test"] == ["CMD", "/usr/bin/gemmctl", "ready", "--quiet"]
    assert "8080/tcp" in settings["ExposedPorts"]
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in settings["Labels"].items()}
    version = run(DEPLOY / "release" / "version.sh", "image").strip()
    assert name == f"localhost/gemmd:{version}-cpu" and labels["version"] == version
    assert len(labels["revision"]) == 12 and labels["licenses"] == "Apache-2.0"
    assert labels["created"] == datetime.datetime.fromtimestamp(
        int(run("git", "log", "-1", "--format=%ct", cwd=DEPLOY)), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert labels["source"] == addresses()["repository"]


def test_each_target_has_the_same_labels():
    """The target cuda is not built by a test."""
    stages = (CONTAINER / "Containerfile").read_text().split("\nFROM scratch AS ")[1:]
    labels = [set(re.findall(r"opencontainers\.image\.(\w+)=", stage)) for stage in stages]
    assert len(stages) == 2 and labels[0] == labels[1]


def test_the_image_holds_libraries_and_two_programs(image):
    _, _, root = image
    programs = {os.path.relpath(os.path.join(folder, name), root)
                for folder, _, names in os.walk(root) for name in names
                if os.access(os.path.join(folder, name), os.X_OK) and ".so" not in name
                and "ld-linux" not in name}
    assert programs == {"usr/bin/gemmd", "usr/bin/gemmctl"}
    packages = set(os.listdir(f"{root}/var/lib/dpkg/status.d"))
    assert {"gemmd", "gemmctl", "libgemmd0", "libc6"} <= packages
    total = sum(os.lstat(os.path.join(folder, name)).st_size
                for folder, _, names in os.walk(root) for name in names)
    assert total < 120 * 2**20


def test_the_root_runs_read_only_as_its_user(image):
    _, settings, root = image
    variables = dict(entry.split("=", 1) for entry in settings["Env"])
    assert variables["GEMMD_LISTEN"] == "0.0.0.0:8080"
    variables["GEMMD_LISTEN"] = "127.0.0.1:0"
    enter = ["unshare", "--mount", "sh", "-c",
             f"mount --bind {root} {root} && mount -o remount,bind,ro {root} && "
             f"mount --bind /dev {root}/dev && mount --bind /proc {root}/proc && "
             f"exec chroot --userspec={settings['User']} {root} \"$@\"", "sh"]
    process = subprocess.Popen(
        [*enter, *settings["Entrypoint"], "--pinned-bytes", "64M", "--device-bytes", "64M",
         "--tensor-bytes", "16M"], env={**variables, "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        url = None
        for line in process.stdout:
            found = re.search(r"listening on ([\d.:]+)", line)
            if found:
                url = "http://" + found.group(1)
                break
        assert url, "the daemon of the image ended at its start"
        run(*enter, *settings["Healthcheck"]["Test"][1:], "--url", url)
        with urllib.request.urlopen(f"{url}/gemm?m=1&n=1&k=1", b"\x00\x00\x40\x40" * 2) as answer:
            assert answer.read() == b"\x00\x00\x10\x41"
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 0
    failed = subprocess.run([*enter, "/usr/bin/gemmctl", "ready", "--quiet", "--url", url],
                            capture_output=True, check=False)
    assert failed.returncode != 0, "the health check passes without a daemon"


def test_compose_names_files_that_exist(request):
    compose = yaml.safe_load((CONTAINER / "compose.yaml").read_text())
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            assert (CONTAINER / volume.split(":")[0]).resolve().is_file(), volume
    build = compose["services"]["gemmd"]["build"]
    assert (CONTAINER / build["context"] / build["dockerfile"]).resolve().is_file()
    run(request.config.getoption("--gemmd"), *compose["services"]["gemmd"]["command"], "--check-config")


def test_prometheus_of_compose_is_valid(tmp_path):
    need("promtool")
    shutil.copy(CONTAINER / "prometheus" / "prometheus.yaml", tmp_path / "prometheus.yml")
    shutil.copy(DEPLOY / "prometheus" / "gemmd.rules.yaml", tmp_path)
    run("promtool", "check", "config", tmp_path / "prometheus.yml")

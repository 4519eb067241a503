"""The revision that programs report is that of the sources at the build, not at the configuration. The versions of
packages and wheels follow the commits."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "proto" / "revision.cmake"


def git(folder, *words, **variables):
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null", **variables}
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True,
                          env={**os.environ, **identity}).stdout.strip()


def stamp(source, target, revision=""):
    subprocess.run(["cmake", f"-DREVISION={revision}", f"-DSOURCE={source}", f"-DTARGET={target}",
                    "-P", SCRIPT], check=True, capture_output=True,
                   env={**os.environ, "GIT_CEILING_DIRECTORIES": str(source.parent)})
    return target.read_text()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "sources"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "one")
    return folder


def test_a_commit_changes_the_revision(repository, tmp_path):
    target = tmp_path / "revision.c"
    first = git(repository, "rev-parse", "--short=12", "HEAD")
    assert f'"{first}"' in stamp(repository, target)
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "two")
    second = git(repository, "rev-parse", "--short=12", "HEAD")
    assert f'"{second}"' in stamp(repository, target)


def test_the_same_revision_leaves_the_file_alone(repository, tmp_path):
    target = tmp_path / "revision.c"
    stamp(repository, target)
    os.utime(target, (1, 1))
    stamp(repository, target)
    assert target.stat().st_mtime == 1, "the file would be compiled again"


def test_sources_without_a_repository(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    assert '"unknown"' in stamp(folder, tmp_path / "revision.c")
    assert '"given"' in stamp(folder, tmp_path / "revision.c", "given")


def versions(folder):
    """As releases, packages, wheels and images spell it."""
    return [subprocess.run([folder / "deploy/release/version.sh", kind], check=True, capture_output=True,
                           text=True).stdout.strip() for kind in ("number", "package", "wheel", "image")]


def in_order(packages):
    """As dpkg compares versions; GNU's sort knows the tilde, too."""
    return subprocess.run(["sort", "-V"], input="\n".join(packages), check=True, capture_output=True,
                          text=True).stdout.split()


def test_versions_are_in_the_order_of_commits_and_releases(repository):
    """Two builds of one day, the release, and a build on the way to the next release."""
    def commit(number, time):
        (repository / "CMakeLists.txt").write_text(f"project(gemmd VERSION {number} LANGUAGES C)\n")
        git(repository, "add", ".")
        git(repository, "commit", "--quiet", "--message", "a commit", GIT_COMMITTER_DATE=f"{time} +0200")
        return git(repository, "rev-parse", "--short=12", "HEAD")

    (repository / "deploy/release").mkdir(parents=True)
    shutil.copy(ROOT / "deploy/release/version.sh", repository / "deploy/release")
    first = commit("7.8.0", "2026-03-01T01:30:00")
    found = [versions(repository)]
    assert found[0] == ["7.8.0", f"7.8.0~git20260228233000.{first}", "7.8.0.dev20260228233000",
                        f"7.8.0-git20260228233000-{first}"], "in UTC"
    commit("7.8.0 ", "2026-03-01T13:00:00")
    found.append(versions(repository))
    git(repository, "tag", "-a", "-m", "a release", "v7.8.0")
    found.append(versions(repository))
    assert found[2] == ["7.8.0"] * 4
    commit("7.9.0", "2026-03-01T14:00:00")
    found.append(versions(repository))

    _, packages, wheels, images = zip(*found, strict=True)
    assert in_order(reversed(packages)) == list(packages)
    assert sorted(reversed(wheels), key=Version) == list(wheels)
    # Semantic versioning orders what follows the hyphen by its characters, and before the bare number.
    assert sorted(reversed(images), key=lambda image: image + ("" if "-" in image else "~")) == list(images)
    assert all(re.fullmatch(r"[\w.-]{1,100}", image, re.A) for image in images), "a tag of a registry"
    git(repository, "checkout", "--quiet", "v7.8.0")
    (repository / "CMakeLists.txt").write_text("project(gemmd VERSION 7.8.0 DESCRIPTION changed)\n")
    assert versions(repository)[1:] == list(found[1][1:]), "a tree with changes is not the release"
    shutil.rmtree(repository / ".git")
    assert versions(repository) == ["7.8.0"] * 4, "without a repository"


def test_programs_report_the_number(gemmd):
    said = subprocess.run([gemmd, "--version"], check=True, capture_output=True, text=True).stdout
    assert said.split()[1] == versions(ROOT)[0]

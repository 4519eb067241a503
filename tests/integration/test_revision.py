"""The revision that programs report is that of the sources at the build, not at the configuration."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "proto" / "revision.cmake"


def git(folder, *words):
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
                "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": "/dev/null"}
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

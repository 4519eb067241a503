#!/usr/bin/env python3
"""Whether two builds of the same sources, in two folders, give the same bytes."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import figure

FILES = ["bin/gemmd", "bin/gemmctl", "lib/libgemmd.so.0"]
# What differs between the builds, besides the time: the depth of the sources' folder and of the build's, the
# number of compilers, and the language.
BUILDS = [("a", "build", 1 + (os.cpu_count() or 1), "C"), ("another/folder", "built/elsewhere", 1, "C.UTF-8")]


def run(*words, **keywords):
    ran = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **keywords)
    if ran.returncode != 0:
        raise figure.CannotRun(f"{words[0]} failed: {(ran.stderr or ran.stdout).strip()[-300:]}.")


def copy_sources(to):
    """The tracked files, without the folder of git, so that both builds name the same revision."""
    to.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=figure.ROOT, check=True, capture_output=True).stdout
    packed = subprocess.run(["tar", "-c", "--null", "-T", "-"], cwd=figure.ROOT, check=True, input=listed,
                            capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(to)], check=True, input=packed)


def build(sources, folder, jobs, language):
    """The bytes of the files of a build without a cache of compiled objects."""
    environment = {**{name: value for name, value in os.environ.items() if not name.endswith("_COMPILER_LAUNCHER")},
                   "LC_ALL": language}
    copy_sources(sources)
    run("cmake", "--preset", "cpu", "-B", sources / folder, "-DGEMMD_TESTS=OFF", cwd=sources, env=environment)
    run("cmake", "--build", sources / folder, "-j", jobs, cwd=sources, env=environment)
    return {file: (sources / folder / file).read_bytes() for file in FILES}


def measure(options):
    """The files of two builds that are the same."""
    del options
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gemmd-same-builds") as folder:
        first, second = (build(Path(folder) / sources, *how) for sources, *how in BUILDS)
    different = [file for file in first if first[file] != second[file]]
    figures = f"{len(first) - len(different)} of {len(first)} files are the same in two builds"
    return [figure.Figure("F24", figures + (f"; {', '.join(different)} differ" if different else ""), not different,
                          f"CPU backend, {', '.join(first)}, built twice without a cache in "
                          f"{time.monotonic() - begun:.0f} s, in folders of different names and depths")]


if __name__ == "__main__":
    figure.main(measure)

#!/usr/bin/env python3
"""wheels.py [--arm64] BUILD FOLDER - makes the Python packages of this tree in FOLDER: the source distribution and the
wheel of gemmd-client, and the wheel of gemmd-server. With --arm64 it makes the wheel of gemmd-client alone, for arm64.

BUILD is a folder in which gemmd has been built without CUDA; with --arm64, libgemmd has been built there with
aarch64.cmake. auditwheel puts the libraries that the programs need in
the wheels, and names the oldest glibc with which all of them run. The licences of these libraries are added here, from
the Debian packages that auditwheel has found. SOURCE_DATE_EPOCH is the time of all files. The Python that runs this
script needs build, hatchling and auditwheel, and PATH patchelf."""

import argparse
import base64
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python(*arguments, **variables):
    subprocess.run([sys.executable, *map(str, arguments)], check=True, env={**os.environ, **variables},
                   stdin=subprocess.DEVNULL)


def licences(entries):
    """The licences of the libraries that auditwheel has put in a wheel, as files of its metadata."""
    listed, = (name for name in entries if name.endswith(".dist-info/sboms/auditwheel.cdx.json"))
    metadata = listed.partition("/")[0]
    components = json.loads(entries[listed])["components"]
    packages = {component["name"] for component in components if component["purl"].startswith("pkg:deb/")}
    return {f"{metadata}/licenses/{package}/copyright": Path(f"/usr/share/doc/{package}/copyright").read_bytes()
            for package in packages}


def with_record(entries):
    record, = (name for name in entries if name.endswith(".dist-info/RECORD"))
    lines = []
    for name, data in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},," if name == record else f"{name},sha256={digest},{len(data)}")
    return {**entries, record: ("\n".join(lines) + "\n").encode()}


def write_wheel(source, target):
    """Copies a wheel, with licences, in the order of names and with the time of the release."""
    with zipfile.ZipFile(source) as wheel:
        files = [entry for entry in wheel.infolist() if not entry.is_dir()]
        modes = {entry.filename: entry.external_attr for entry in files}
        entries = {entry.filename: wheel.read(entry) for entry in files}
    entries.update(licences(entries))
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in sorted(with_record(entries).items()):
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = modes.get(name, 0o100644 << 16)
            wheel.writestr(entry, data)


# auditwheel asks `dpkg -s` for packages without an architecture, which dpkg refuses if the host has the package for two.
DPKG = """#!/bin/sh
if [ "$1" = -s ]; then set -- -s "$2:{architecture}"; fi
PATH={path} exec dpkg "$@"
"""


def make_wheel(project, folder, architecture, path=os.environ["PATH"], **variables):
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        (work / "dpkg").write_text(DPKG.format(architecture=architecture, path=shlex.quote(path)))
        (work / "dpkg").chmod(0o755)
        python("-m", "build", "--no-isolation", "--wheel", "--outdir", work / "built", project, **variables)
        python("-m", "auditwheel", "repair", "--strip", "--wheel-dir", work / "repaired", *(work / "built").iterdir(),
               PATH=f"{work}:{path}")
        made, = (work / "repaired").iterdir()
        write_wheel(made, folder / made.name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--arm64", action="store_true")
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    build, folder = options.build.resolve(), options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    client, library = ROOT / "client/python", str(build / "lib/libgemmd.so.0")
    if options.arm64:
        # sysconfig takes the platform that Python is cross-compiled for from the environment, and auditwheel calls the
        # `strip` of PATH.
        make_wheel(client, folder, "arm64", f"/usr/aarch64-linux-gnu/bin:{os.environ['PATH']}", GEMMD_LIBRARY=library,
                   _PYTHON_HOST_PLATFORM="linux-aarch64")
        return
    native = subprocess.run(["dpkg", "--print-architecture"], check=True, text=True, capture_output=True).stdout.strip()
    python("-m", "build", "--no-isolation", "--sdist", "--outdir", folder, client)
    make_wheel(client, folder, native, GEMMD_LIBRARY=library)
    make_wheel(ROOT / "deploy/packages/wheel", folder, native, GEMMD_BUILD=str(build))


if __name__ == "__main__":
    main()

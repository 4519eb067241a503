#!/usr/bin/env python3
"""contents.py FOLDER - writes the contents of each artefact of a release beside it: NAME.cdx.json for CycloneDX 1.6 and
NAME.spdx.json for SPDX 2.3. The contents are the files of the artefact with their hashes, and for a wheel the libraries
of other projects that auditwheel has put in."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid
import zipfile
from pathlib import Path

LICENCE = "Apache-2.0"


def files_of_tar(stream):
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        return {entry.name.removeprefix("./"): archive.extractfile(entry).read()
                for entry in archive if entry.isfile()}


def files_of_command(*command):
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE) as process:
        files = files_of_tar(process.stdout)
        process.stdout.read()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return files


def files_of(artefact):
    if artefact.suffix == ".whl":
        with zipfile.ZipFile(artefact) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    if artefact.suffix in (".deb", ".ddeb"):
        return files_of_command("dpkg-deb", "--fsys-tarfile", artefact)
    if artefact.suffix == ".rpm":
        return files_of_command("sh", "-c", 'rpm2archive - <"$0" | gzip -dc', artefact)
    with artefact.open("rb") as stream:
        return files_of_tar(stream)


def libraries_of(files):
    """Libraries of other projects, as auditwheel has listed them: name, version and package URL."""
    listed = [data for name, data in files.items() if name.endswith(".dist-info/sboms/auditwheel.cdx.json")]
    return sorted({(component["name"], component["version"], component["purl"])
                   for data in listed for component in json.loads(data)["components"]
                   if not component["purl"].startswith("pkg:pypi/")})


def name_and_version(artefact):
    """gemmd_1.2-1_amd64.deb, gemmd-libs-1.2-1.x86_64.rpm, gemmd_client-1.2-py3-none-any.whl, gemmd-1.2.tar.gz,
    gemmd-1.2-git1.tgz"""
    if artefact.suffix == ".tgz":
        return tuple(artefact.stem.split("-", 1))
    name, version = re.fullmatch(r"(.+?)[-_](\d[^-_]*).*", artefact.name.removesuffix(".tar.gz")).groups()
    return name, version


def cyclonedx(artefact, digest, files, libraries, time):
    name, version = name_and_version(artefact)
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "metadata": {
            "timestamp": time,
            "component": {"type": "application", "bom-ref": artefact.name, "name": name, "version": version,
                          "hashes": [{"alg": "SHA-256", "content": digest}],
                          "licenses": [{"license": {"id": LICENCE}}]}},
        "components": [
            *({"type": "library", "bom-ref": purl, "name": library, "version": number, "purl": purl}
              for library, number, purl in libraries),
            *({"type": "file", "bom-ref": f"file:{path}", "name": path,
               "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]}
              for path, data in sorted(files.items()))],
        "dependencies": [{"ref": artefact.name, "dependsOn": [purl for _, _, purl in libraries]}]}


def spdx(artefact, digest, files, libraries, time):
    name, version = name_and_version(artefact)
    sums = {path: hashlib.sha1(data).hexdigest() for path, data in files.items()}
    package = {"downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": artefact.name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{artefact.name}-{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "creationInfo": {"created": time, "creators": ["Tool: gemmd-release-contents"]},
        "documentDescribes": ["SPDXRef-artefact"],
        "packages": [
            {**package, "SPDXID": "SPDXRef-artefact", "name": name, "versionInfo": version,
             "packageFileName": artefact.name, "licenseDeclared": LICENCE, "filesAnalyzed": True,
             "packageVerificationCode": {"packageVerificationCodeValue":
                                         hashlib.sha1("".join(sorted(sums.values())).encode()).hexdigest()},
             "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]},
            *({**package, "SPDXID": f"SPDXRef-library-{number}", "name": library, "versionInfo": release,
               "licenseDeclared": "NOASSERTION", "filesAnalyzed": False,
               "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                 "referenceLocator": purl}]}
              for number, (library, release, purl) in enumerate(libraries))],
        "files": [
            {"SPDXID": f"SPDXRef-file-{number}", "fileName": f"./{path}", "licenseConcluded": "NOASSERTION",
             "copyrightText": "NOASSERTION",
             "checksums": [{"algorithm": "SHA1", "checksumValue": sums[path]},
                           {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}]}
            for number, (path, data) in enumerate(sorted(files.items()))],
        "relationships": [
            *({"spdxElementId": "SPDXRef-artefact", "relationshipType": "CONTAINS",
               "relatedSpdxElement": f"SPDXRef-file-{number}"} for number in range(len(files))),
            *({"spdxElementId": "SPDXRef-artefact", "relationshipType": "CONTAINS",
               "relatedSpdxElement": f"SPDXRef-library-{number}"} for number in range(len(libraries)))]}


def main():
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    folder = Path(sys.argv[1])
    for artefact in sorted(path for path in folder.iterdir() if path.suffix in (".deb", ".ddeb", ".rpm", ".whl", ".gz", ".tgz")):
        digest = hashlib.sha256(artefact.read_bytes()).hexdigest()
        files = files_of(artefact)
        for kind, describe in (("cdx", cyclonedx), ("spdx", spdx)):
            described = describe(artefact, digest, files, libraries_of(files), time.strftime("%Y-%m-%dT%H:%M:%SZ"))
            (folder / f"{artefact.name}.{kind}.json").write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    main()

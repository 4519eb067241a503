#!/usr/bin/env bash
# verify.sh [--python PYTHON] [--arm64] FOLDER - compares the files of a release with SHA256SUMS, builds HEAD once more as
# make.sh does, and compares the bytes. The options are those of the first build, whose packages the host must have.
set -euo pipefail

make=$(realpath "$(dirname "${BASH_SOURCE[0]}")/make.sh")
if ((!$#)); then
    echo "usage: verify.sh [--python PYTHON] [--arm64] FOLDER" >&2
    exit 2
fi
folder=$(realpath "${*: -1}")
(cd "$folder" && sha256sum --quiet --check --strict SHA256SUMS)
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
"$make" "${@:1:$#-1}" "$again"
if ! diff "$folder/SHA256SUMS" "$again/SHA256SUMS"; then
    echo "verify.sh: these files differ from those of another build" >&2
    exit 1
fi
printf 'verify.sh: %s files are those of another build\n' "$(wc -l <"$folder/SHA256SUMS")"

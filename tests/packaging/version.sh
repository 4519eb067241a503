#!/usr/bin/env bash
# version.sh ROOT VERSION PROGRAM... - the programs report the version of CMakeLists.txt, and no file
# that is shipped repeats the number.
set -euo pipefail

root=$1 version=$2
shift 2
for program in "$@"; do
    said=$("$program" --version)
    [[ $said == "${program##*/} $version"* ]] || { echo "$program says '$said', not $version" >&2; exit 1; }
done

cd "$root"
number="(^|[^0-9.])${version//./\\.}([^0-9.]|\$)"
if grep -rInE -- "$number" client deploy proto server README.md; then
    echo "these lines repeat the version, which CMakeLists.txt alone sets" >&2
    exit 1
fi

#!/usr/bin/env bash
# version.sh ROOT VERSION PROGRAM... - the programs report the version of CMakeLists.txt, no file that
# is shipped repeats the number, and CHANGELOG.md begins with this version and says of every version
# which bits changed.
set -euo pipefail

root=$1 version=$2
shift 2
for program in "$@"; do
    said=$("$program" --version)
    [[ $said == "${program##*/} $version"* ]] || { echo "$program says '$said', not $version" >&2; exit 1; }
done

cd "$root"
number="(^|[^0-9.])${version//./\\.}([^0-9.]|\$)"
# deploy/packages/debian/symbols has the first version of each symbol.
if grep -rInE --exclude=symbols -- "$number" client deploy proto server README.md; then
    echo "these lines repeat the version, which CMakeLists.txt alone sets" >&2
    exit 1
fi

newest=$(sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
[[ $newest == "$version" ]] || { echo "CHANGELOG.md begins with '$newest', not $version" >&2; exit 1; }
awk '/^## / { if (name && !bits) exit 1; name = $2; bits = 0 } /^### Bits that changed$/ { bits = 1 }
     END { if (!bits) exit 1 }' CHANGELOG.md ||
    { echo "a version in CHANGELOG.md has no section 'Bits that changed'" >&2; exit 1; }

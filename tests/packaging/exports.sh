#!/usr/bin/env bash
# exports.sh LIBRARY LIST - the dynamic symbols of a library must be those of the list, which is
# sorted. A name that goes or changes its meaning needs a new SONAME.
set -euo pipefail

library=$1 list=$2
LC_ALL=C sort -c "$list"
# Leaves out the version nodes themselves, and the version after the names.
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort)
if ! diff -u --label listed --label exported "$list" <(printf '%s\n' "$exported"); then
    echo "$library exports other symbols than $list says" >&2
    exit 1
fi
soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if [[ $soname != libgemmd.so.0 ]]; then
    echo "the SONAME is '$soname'; it must be libgemmd.so.0" >&2
    exit 1
fi

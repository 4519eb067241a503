#!/usr/bin/env bash
# layout.sh CC LIST SONAME INCLUDE... - the public structs must have the sizes and the offsets of
# members, and the enumerators the values, that the list says. A program that was compiled before a member
# moved or a value changed reads the wrong bytes, so such a change needs a new SONAME. A member at the end of
# a struct that begins with `size`, a new struct and a new enumerator need a new list only.
set -euo pipefail
compiler=$1 list=$2 soname=$3
shift 3
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

printf '#include <gemmd/gemmd.h>\n' >"$directory/header.c"
"$compiler" -std=c11 -g -fno-eliminate-unused-debug-types "${@/#/-I}" -c "$directory/header.c" \
    -o "$directory/header.o"
{
    printf 'soname %s\n' "$soname"
    readelf --debug-dump=info "$directory/header.o" | awk '
        function entry() {
            if (tag == "structure_type") { parent = "struct " name
                if (name ~ /^gemmd_/ && size != "") print parent, size }
            else if (tag == "enumeration_type") parent = "enum"
            else if (tag == "member" && parent ~ /^struct gemmd_/) print parent "." name, offset
            else if (tag == "enumerator" && name ~ /^GEMMD_/) print "enumerator", name, value
            tag = name = size = offset = value = ""
        }
        /Abbrev Number:/ { entry(); if (match($0, /DW_TAG_[a-z_]+/)) tag = substr($0, RSTART + 7, RLENGTH - 7) }
        /DW_AT_name / { name = $NF }
        /DW_AT_byte_size / { size = $NF }
        /DW_AT_data_member_location/ { offset = $NF }
        /DW_AT_const_value / { value = $NF }
        END { entry() }'
} >"$directory/layout"
# The order is that of the header with gcc, and another one with clang.
if ! diff -u --label listed --label compiled <(sort "$list") <(sort "$directory/layout"); then
    echo "the public headers have other layouts or values than $list says" >&2
    exit 1
fi

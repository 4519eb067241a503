#!/usr/bin/env bash
# header.sh CC INCLUDE... - the public headers stand alone, in C99 and, where there is a compiler
# for it, in C++.
set -euo pipefail

compiler=$1
shift
includes=("${@/#/-I}")
strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
strict+=(-D_GNU_SOURCE) # which libuv's own header needs
for header in gemmd/gemmd.h gemmd/arrays.h gemmd/sequences.h gemmd/adapters/uv.h; do
    echo "#include <$header>" | "$compiler" -x c -std=c99 "${strict[@]}" "${includes[@]}" -
    if command -v c++ >/dev/null; then
        echo "#include <$header>" | c++ -x c++ -std=c++11 "${strict[@]}" "${includes[@]}" -
    fi
done

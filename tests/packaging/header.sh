#!/usr/bin/env bash
# header.sh CC INCLUDE... - the public header stands alone, in C99 and, where there is a compiler
# for it, in C++.
set -euo pipefail

compiler=$1
shift
includes=("${@/#/-I}")
strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
echo '#include <gemmd/gemmd.h>' | "$compiler" -x c -std=c99 "${strict[@]}" "${includes[@]}" -
if command -v c++ >/dev/null; then
    echo '#include <gemmd/gemmd.h>' | c++ -x c++ -std=c++11 "${strict[@]}" "${includes[@]}" -
fi

#!/usr/bin/env bash
# completion.sh FILE - what bash completes on gemmctl's command line.
set -euo pipefail

# shellcheck source=/dev/null
source "$1"

complete_line() { # the words of a line, the last of which is being typed
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _gemmctl
    printf '%s ' "${COMPREPLY[@]}"
}

expect() { # what is to come, then the line
    local wanted=$1 got
    shift
    got=$(complete_line "$@")
    if [[ $got != "$wanted " ]]; then
        echo "'$*' completes to '$got', not to '$wanted'" >&2
        exit 1
    fi
}

expect "gemm" gemmctl g
expect "gemm attention tensor job bench info metrics ready help" gemmctl ""
expect "put get ls rm" gemmctl tensor ""
expect "ls status wait result cancel" gemmctl --url x job ""
expect "bhsd bshd" gemmctl attention --layout ""
expect "--evictable" gemmctl tensor put --ev
expect "" gemmctl tensor rm --ev
expect "--output" gemmctl job result --o
expect "$1" gemmctl tensor put name "${1%.bash}"
expect "bench" gemmctl help b
expect "--transa --transb" gemmctl gemm A.npy --trans
expect "--connections" gemmctl bench --con
expect "" gemmctl info --con
expect "" gemmctl help --u
expect "attention ladder" gemmctl bench ""
expect "--heads" gemmctl bench attention --hea
expect "" gemmctl bench ladder --hea
expect "" gemmctl bench --hea
expect "--json" gemmctl info --j
expect "gelu gelu_tanh" gemmctl --url x gemm --act g
expect "$1" gemmctl gemm --bias "${1%.bash}"
expect "$1" gemmctl gemm "${1%.bash}"
expect "" gemmctl gemm --alpha ""

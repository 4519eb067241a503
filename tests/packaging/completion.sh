#!/usr/bin/env bash
# completion.sh GEMMCTL GEMMD - what bash completes on the command lines of gemmctl and gemmd, with the scripts of both.
set -euo pipefail

# shellcheck source=/dev/null
source "$1"
# shellcheck source=/dev/null
source "$2"

complete_line() { # the words of a line, the last of which is being typed
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    "_$1"
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
expect "gemm attention conv reduce softmax experts tensor sequence job bench info metrics top ready ping version completion help" gemmctl ""
expect "put get ls rm" gemmctl tensor ""
expect "put fork append get truncate ls rm" gemmctl sequence ""
expect "ls status wait result cancel" gemmctl --url x job ""
expect "bhsd bshd" gemmctl attention --layout ""
expect "nchw nhwc" gemmctl conv X.npy W.npy --layout ""
expect "kcrs krsc" gemmctl conv X.npy W.npy --w-layout ""
expect "full tf32" gemmctl conv X.npy W.npy --precision ""
expect "full tf32 f8" gemmctl gemm A.npy B.npy --precision ""
expect "mean max min" gemmctl reduce X.npy --op m
expect "--axis" gemmctl reduce X.npy --ax
expect "" gemmctl softmax X.npy --ax
expect "--lens" gemmctl softmax X.npy --len
expect "--glu" gemmctl experts A.npy --gl
expect "full tf32" gemmctl experts A.npy --precision ""
expect "$1" gemmctl conv "${1%ash}"
expect "$1" gemmctl softmax --lens "${1%ash}"
expect "$1" gemmctl tensor put name file --scale "${1%ash}"
expect "$1" gemmctl tensor get name --scale "${1%ash}"
expect "" gemmctl softmax X.npy --scale "${1%ash}"
expect "--evictable" gemmctl tensor put --ev
expect "" gemmctl tensor rm --ev
expect "--output" gemmctl job result --o
expect "$1" gemmctl tensor put name "${1%ash}"
expect "bench" gemmctl help b
expect "--transa --transb" gemmctl gemm A.npy --trans
expect "--connections" gemmctl bench --conn
expect "" gemmctl info --conn
expect "" gemmctl help --u
expect "attention conv reduce softmax experts ladder" gemmctl bench ""
expect "nchw nhwc" gemmctl bench conv --layout ""
expect "full tf32" gemmctl bench conv --precision ""
expect "--axis" gemmctl bench reduce --ax
expect "--log" gemmctl bench softmax --lo
expect "" gemmctl bench softmax --len
expect "--store" gemmctl conv X.npy W.npy --sto
expect "--heads" gemmctl bench attention --hea
expect "" gemmctl bench ladder --hea
expect "" gemmctl bench --hea
expect "--json" gemmctl info --j
expect "gelu gelu_tanh" gemmctl --url x gemm --act g
expect "$1" gemmctl gemm --bias "${1%ash}"
expect "$1" gemmctl gemm "${1%ash}"
expect "" gemmctl gemm --alpha ""
expect "bash zsh fish" gemmctl completion ""

expect "--backend" gemmd --back
expect "cuda cpu" gemmd --backend c
expect "cuda cpu" gemmd --backend = c
expect "json text auto" gemmd --log-format =
expect "--no-access-log" gemmd --no-ac
expect "$2" gemmd --config "${2%ash}"
expect "" gemmd --streams 1

# Names come from the daemon that the options on the line name.
gemmctl() {
    local kind=${2%s} options="${*:3}"
    [[ $1 == completion ]] || exit 1
    printf '%s\n' "$kind-one" "$kind-two" "with,${options// /,}"
}
COMP_LINE="gemmctl tensor rm "
expect "tensor-one tensor-two" gemmctl tensor rm tensor-
expect "tensor-two" gemmctl tensor rm tensor-one tensor-tw
expect "kernels:gemm-one kernels:gemm-two" gemmctl bench --kernel kernel
expect "kernels:attention-one kernels:attention-two" gemmctl attention Q.npy --kernel kernel
expect "kernels:conv2d-one kernels:conv2d-two" gemmctl conv X.npy --kernel kernel
expect "kernels:reduce-one kernels:reduce-two" gemmctl reduce X.npy --kernel kernel
expect "kernels:reduce-one kernels:reduce-two" gemmctl bench reduce --kernel kernel
expect "kernels:conv2d-one kernels:conv2d-two" gemmctl bench conv --kernel kernel
expect "job-one" gemmctl job wait job-o
expect "sequence-one sequence-two" gemmctl sequence rm sequence-
expect "sequence-one sequence-two" gemmctl sequence append sequence-
expect "tensor-two" gemmctl gemm A.npy tensor : tensor-tw
expect "with,--timeout,1s,--retries,0" gemmctl gemm A.npy tensor : w
expect "context-one context-two" gemmctl tensor ls --context context-
COMP_LINE="gemmctl --url unix:x --token-file=t -q tensor get "
expect "with,--url,unix:x,--token-file=t,--timeout,1s,--retries,0" gemmctl --url unix : x --token-file = t -q tensor get w

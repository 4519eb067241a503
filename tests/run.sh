#!/usr/bin/env bash
# Installs what the tests need, builds, and runs them. For Debian 12 and Ubuntu 24.04, as root or
# with sudo. Goes on after a failure, so that one run shows them all; the last line is the sum.
set -uo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--all | --nightly] [--cpu] [--seed N] [PART ...]

Without --all and --nightly, the first tier runs: a release build with the CPU backend, the unit tests,
integration tests of every room, and the unit tests under AddressSanitizer.

  --all      every kind of test; for each change, in continuous integration
  --nightly  what is wider, too: whole matrices, also under sanitizers, every client, every architecture of GPUs,
             long fuzzing; before each release
  --cpu      test the CPU backend only, and leave the part `cuda` out
  --seed N   of the operands, and of the cases that thinned matrices keep (default: a random number)

With --all and --nightly, the parts `unit`, `integration` and `deploy` test a build with CUDA if the host
has a CUDA toolkit and a GPU that answers, and a build of the CPU backend otherwise.

Parts (all of the tier, in this order, if none is named; a part outside the first tier runs as in --all):
  lint         clang-format, clang-tidy, cppcheck, gcc's static analyser, shellcheck
  unit         the Check programs (first tier)
  integration  a real daemon and real clients (first tier: some of the files)
  deploy       packages, container image, Kubernetes manifests, alert rules, board and HAProxy of deploy/
  cuda         where there is a CUDA toolkit and no GPU: compiles the CUDA backend, looks at its machine
               code, and runs the tests that only that build has
  asan         both under AddressSanitizer and UndefinedBehaviorSanitizer (first tier: the Check programs)
  tsan         both under ThreadSanitizer
  msan         the Check programs that call no library under MemorySanitizer; needs clang
  fuzz         each harness of tests/fuzz with libFuzzer, for some seconds; needs clang
  quickstart   deploy/quickstart.sh in a fresh copy of the tree, three times

Everything that is built, installed from PyPI or written is in the folder build-tests.
TEXT
}

all_parts=(lint unit integration deploy cuda asan tsan msan fuzz quickstart)
first_parts=(unit integration asan)
parts=() tier='' cpu_only='' seed=$((RANDOM << 15 | RANDOM))
while (($#)); do
    case $1 in
    --all | --nightly) tier=${1#--} ;;
    --cpu) cpu_only=yes ;;
    --seed)
        seed=${2-}
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        if [[ $1 == *' '* || " ${all_parts[*]} " != *" $1 "* ]]; then
            usage >&2
            printf "run.sh: no part is called '%s'\n" "$1" >&2
            exit 2
        fi
        parts+=("$1")
        ;;
    esac
    shift
done
if [[ ! $seed =~ ^[0-9]+$ ]]; then
    printf "run.sh: --seed takes a whole number, not '%s'\n" "$seed" >&2
    exit 2
fi
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
if [[ -z $tier ]]; then
    tier=first
    for part in "${parts[@]}"; do
        if [[ " ${first_parts[*]} " != *" $part "* ]]; then tier=all; fi
    done
fi
if ((!${#parts[@]})); then
    if [[ $tier == first ]]; then parts=("${first_parts[@]}"); else parts=("${all_parts[@]}"); fi
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
jobs=$(nproc)
out=build-tests
venv=$out/venv
mkdir -p "$out"
# shellcheck source=tests/run/report.sh
source tests/run/report.sh
# shellcheck source=tests/run/packages.sh
source tests/run/packages.sh
# shellcheck source=tests/run/builds.sh
source tests/run/builds.sh
# shellcheck source=tests/run/parts.sh
source tests/run/parts.sh

has_toolkit() { command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null; }
has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }
uses_cuda() { [[ -z $cpu_only && $tier != first ]] && has_toolkit; }
compiles_cuda() { [[ -z $cpu_only && $backend != cuda ]] && has_toolkit; }
uses_python() {
    wanted integration || wanted cuda || wanted deploy || { [[ $tier != first ]] && { wanted asan || wanted tsan; }; }
}
# The build that most parts test.
backend=cpu
if uses_cuda && has_gpu; then backend=cuda; fi
# The builds of the parts that are wanted, in the order of the parts.
presets_of_parts() {
    if wanted unit || wanted integration || wanted deploy; then echo "$backend"; fi
    if wanted cuda && compiles_cuda; then echo cuda; fi
    if wanted asan; then echo asan; fi
    if wanted tsan; then echo tsan; fi
    if wanted msan && can_use_msan; then echo msan; fi
    if wanted fuzz && can_fuzz; then echo fuzz; fi
}

printf 'tests/run.sh: the tier %s, seed %s, on %s cores: %s\n' "$tier" "$seed" "$jobs" "${parts[*]}"
section "packages"
install_all
use_ccache
mapfile -t presets < <(presets_of_parts)
trap stop_ahead EXIT
for part in "${all_parts[@]}"; do
    if wanted "$part"; then "part_$part"; fi
done
sum

#!/usr/bin/env bash
# Runs one harness with libFuzzer for some seconds, from its corpus and from what earlier runs have found.
# An input that fails is left in FOUND as crash-*, leak-*, oom-* or timeout-*, and the next run begins with it.
set -euo pipefail

if (($# != 3)); then
    echo "Usage: tests/fuzz/run_one.sh PROGRAM SECONDS FOUND" >&2
    exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath "$1") seconds=$2
mkdir -p "$3"
found=$(realpath "$3")
name=${program##*/fuzz_}

options=(-max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1
    -artifact_prefix="$found/")
# The threads of a daemon allocate while libFuzzer counts, which it takes for leaks.
[[ $name != http ]] || options+=(-detect_leaks=0 -dict="$here/http.dict")

# AddressSanitizer of clang before 18 ends at random if addresses have more than 28 random bits.
fixed=()
if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) > 28)) && setarch --addr-no-randomize true; then
    fixed=(setarch --addr-no-randomize)
fi

cd "$found"
exec "${fixed[@]}" "$program" "${options[@]}" "$found" "$here/corpus/$name"

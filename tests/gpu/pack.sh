#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs of a build, for a machine that has neither compiler nor
# registry: programs, tests of the device, libraries, and those shared libraries that such a
# machine may lack. Unpack it, and name the folder with --build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build-cuda} to=${2:-gemmd-gpu.tar.xz}
if [[ $build == -* || $# -gt 2 ]]; then
    echo 'Usage: tests/gpu/pack.sh [BUILD_FOLDER] [FILE.tar.xz]' >&2
    exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/bin" "$scratch/tests" "$scratch/lib/brought"

for program in "$build"/bin/*; do strip -o "$scratch/bin/${program##*/}" "$program"; done
for test in test_cuda_device test_cuda_task_group test_cuda_own_launch test_device_copy gemmd-failing-cuda; do
    strip -o "$scratch/tests/$test" "$build/tests/$test"
done
cp -P "$build"/lib/libgemmd.so* "$scratch/lib/"
for library in attention conv ladder; do
    strip -o "$scratch/lib/libgemmd_bench_$library.so" "$build/lib/libgemmd_bench_$library.so"
done
if command -v wrk >/dev/null; then cp -L "$(command -v wrk)" "$scratch/bin/"; fi

# Not the C library and what goes with it, and not CUDA's, which is large and there.
ldd "$scratch"/bin/* "$scratch"/tests/* 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -Ev '/(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|cublas|cublasLt|gemmd))\.so' |
    xargs -I '{}' cp -L '{}' "$scratch/lib/brought/"
# The same machine code is in most of the programs: a window that reaches from one to the next.
tar -C "$scratch" -c --sort=name . | xz -T1 --lzma2=preset=2,dict=256MiB >"$to"
printf '%s: %s bytes\n' "$to" "$(stat -c %s "$to")"

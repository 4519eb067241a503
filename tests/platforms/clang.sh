#!/usr/bin/env bash
# clang.sh FOLDER - compiles the preset `cpu` with clang in FOLDER/clang, tests included, runs the unit tests, and has the
# daemon compute products that gemmctl checks.
set -euo pipefail

build=$1/clang
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cmake --preset cpu -B "$build" -DCMAKE_C_COMPILER=clang -DGEMMD_TESTS=ON --log-level=WARNING >/dev/null
ninja -C "$build" -j "$(nproc)" --quiet
for program in gemmd gemmctl; do
    readelf -p .comment "$build/bin/$program" | grep -q "clang version" ||
        { echo "clang has not compiled $program" >&2 && exit 1; }
done
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" --timeout 1200 --no-tests=error
"$build/bin/gemmd" --backend cpu --listen 127.0.0.1:0 --pinned-bytes 64M --device-bytes 64M --tensor-bytes 16M >"$build/log" &
trap 'kill $! 2>/dev/null || true' EXIT
until grep -qs "listening on" "$build/log"; do
    kill -0 $! || exit 1
    sleep 0.1
done
GEMMD_URL=http://$(grep -oE "127\.0\.0\.1:[0-9]+" "$build/log" | head -n 1)
export GEMMD_URL
until "$build/bin/gemmctl" --quiet ready; do
    kill -0 $! || exit 1
    sleep 0.1
done
for dtype in f32 bf16 f16 i8 f64; do "$build/bin/gemmctl" gemm --random 200x150x100 --dtype "$dtype" --check; done
trap - EXIT
kill $! && wait $!
echo "clang: products checked"

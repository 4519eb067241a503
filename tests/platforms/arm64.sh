#!/usr/bin/env bash
# arm64.sh FOLDER [CTEST_OPTION...] - compiles libgemmd, gemmctl and the daemon of the CPU backend for arm64 in a clean
# root of Debian 12, which it makes in FOLDER or finds there, runs the unit tests in qemu, and has the daemon compute
# products that gemmctl checks. Needs root, mmdebstrap and no processor of that kind.
set -euo pipefail
# shellcheck source=tests/platforms/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"

root=$1/arm64
shift
packages=crossbuild-essential-arm64,cmake,ninja-build,pkg-config,git,qemu-user-static
for library in libmicrohttpd-dev libuv1-dev libjansson-dev libgnutls28-dev nettle-dev zlib1g-dev libcurl4-gnutls-dev \
    libopenblas-dev check; do
    packages+=,$library:arm64
done
make_root "$root" bookworm amd64,arm64 "$packages"
# shellcheck disable=SC2016  # the script's own variables
inside "$root" '
[[ -e /build/build.ninja ]] || cmake -S . -B /build -G Ninja --toolchain deploy/release/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DGEMMD_CUDA=OFF \
    -DGEMMD_TESTS=ON --log-level=WARNING >/dev/null
ninja -C /build -j "$(nproc)" --quiet
file=$(od -An -j 18 -N 2 -t d2 /build/bin/gemmd)
[[ $file -eq 183 ]] || { echo "gemmd is no program for arm64" >&2 && exit 1; }
export CK_TIMEOUT_MULTIPLIER=60
ctest --test-dir /build --output-on-failure -j "$(nproc)" --timeout 3600 --no-tests=error "$@"
qemu-aarch64-static /build/bin/gemmd --backend cpu --listen 127.0.0.1:0 --pinned-bytes 64M --device-bytes 64M \
    --tensor-bytes 16M --cpu-threads 2 >/build/log &
trap "kill $! && wait $! || true" EXIT
until grep -q "listening on" /build/log; do kill -0 $! && sleep 0.1; done
GEMMD_URL=http://$(grep -oE "127\.0\.0\.1:[0-9]+" /build/log | head -n 1)
export GEMMD_URL
gemmctl() { qemu-aarch64-static /build/bin/gemmctl "$@" --retries 30; }
gemmctl ready
for dtype in f32 bf16 f16 i8 f64; do gemmctl gemm --random 200x150x100 --dtype "$dtype" --check; done
echo "arm64: products checked"
' "$@"

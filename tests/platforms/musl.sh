#!/usr/bin/env bash
# musl.sh FOLDER URL - compiles libgemmd and gemmctl with musl in a clean root of Debian 12, which it makes in FOLDER or
# finds there, and has gemmctl check products of the daemon at URL. The libraries that libgemmd needs are compiled from
# Debian's sources, because Debian has them for glibc alone; libcurl is without TLS. Needs root and mmdebstrap.
set -euo pipefail
# shellcheck source=tests/platforms/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"

root=$1/musl
# shellcheck disable=SC2016  # mmdebstrap runs this with the root as $1
make_root "$root" bookworm amd64 gcc,make,musl-tools,cmake,ninja-build,pkg-config,git,dpkg-dev,libc6-dev,linux-libc-dev,ca-certificates \
    --customize-hook='sed "s/^deb /deb-src /" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/sources.list"
                      cp /etc/resolv.conf "$1/etc"'
# shellcheck disable=SC2016  # the script's own variables
inside "$root" '
export CC=musl-gcc CFLAGS="-O1 -fPIC -idirafter /musl/kernel" PKG_CONFIG_LIBDIR=/musl/lib/pkgconfig
if [[ ! -e /musl/complete ]]; then
    # Headers of the kernel, and the one of BSD that glibc has and musl leaves to other packages.
    mkdir -p /musl/kernel/sys
    ln -sfn /usr/include/linux /usr/include/asm-generic /usr/include/x86_64-linux-gnu/asm /musl/kernel
    ln -sfn /usr/include/x86_64-linux-gnu/sys/queue.h /musl/kernel/sys
    apt-get -qq update
    mkdir -p /sources && cd /sources
    for source in jansson nettle curl; do apt-get -qq -o APT::Sandbox::User=root source "$source" >/dev/null; done
    library() { # SOURCE OPTION...
        cmake -S "$1" -B "$1/made" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/musl -DCMAKE_INSTALL_LIBDIR=lib \
            -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF "${@:2}" --no-warn-unused-cli --log-level=ERROR >/dev/null
        ninja -C "$1/made" --quiet install >/dev/null
    }
    library jansson-* -DJANSSON_BUILD_SHARED_LIBS=OFF -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON
    library curl-* -DHTTP_ONLY=ON -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DCURL_ENABLE_SSL=OFF -DCURL_ZLIB=OFF \
        -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DENABLE_MANUAL=OFF
    # The patches of Debian make configure.ac newer than what autoconf has made of it.
    (cd nettle-* && touch aclocal.m4 configure config.h.in stamp-h.in &&
        ./configure --quiet --prefix=/musl --libdir=/musl/lib --disable-public-key --disable-shared --disable-documentation \
        --disable-openssl --disable-assembler >/dev/null && make -s -j "$(nproc)" libnettle.a >/dev/null &&
        mkdir -p /musl/include/nettle && cp ./*.h /musl/include/nettle && cp libnettle.a /musl/lib &&
        cp nettle.pc /musl/lib/pkgconfig)
    touch /musl/complete
    cd /source
fi
[[ -e /build/build.ninja ]] || cmake -S . -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGEMMD_DAEMON=OFF -DGEMMD_TESTS=OFF --log-level=WARNING >/dev/null
ninja -C /build -j "$(nproc)" --quiet
readelf -l /build/bin/gemmctl | grep -q "ld-musl-x86_64" || { echo "gemmctl is not linked with musl" >&2 && exit 1; }
export GEMMD_URL=$1
for dtype in f32 bf16 i8 f64; do /build/bin/gemmctl gemm --random 200x150x100 --dtype "$dtype" --check; done
lost=$(/build/bin/gemmctl ready --url 127.0.0.1:1 --retries 0 2>&1) && exit 1
[[ $lost == *"Connection refused"* ]] || { echo "$lost" >&2 && exit 1; }
echo "musl: products checked"
' "$2"

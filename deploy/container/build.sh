#!/usr/bin/env bash
# Builds an image of HEAD, with its name and all of its labels. deploy/container/README.md says what the image holds.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: deploy/container/build.sh [--engine ENGINE] [--registry REGISTRY] cpu|cuda [OPTION...]

Builds REGISTRY/gemmd:VERSION-cpu (or -cuda) of this tree, and prints the name. The version is that of
deploy/release/version.sh. The OPTIONs go to the engine, such as --push or --build-arg BASE=IMAGE.

  --engine ENGINE      docker, podman or buildah (default: docker)
  --registry REGISTRY  default: the registry in deploy/release/addresses.txt
TEXT
}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
address() { sed -n "s/^$1=//p" deploy/release/addresses.txt; }

engine=docker registry=$(address registry) target=
while (($#)); do
    case $1 in
    --engine | --registry)
        printf -v "${1#--}" %s "${2-}"
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    cpu | cuda)
        target=$1
        shift
        break
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
if [[ -z $target ]]; then
    usage >&2
    exit 2
fi
# The OCI format, which podman and buildah write by default, has no health check.
created=$(git log -1 --format=%ct)
[[ ${engine##*/} == docker ]] || set -- --format docker --timestamp "$created" "$@"
version=$(deploy/release/version.sh image)
name=$registry/gemmd:$version-$target
"$engine" build --file deploy/container/Containerfile --target "$target" --tag "$name" \
    --build-arg "VERSION=$version" --build-arg "REVISION=$(git rev-parse --short=12 HEAD)" \
    --build-arg "CREATED=$(date -u -d "@$created" +%Y-%m-%dT%H:%M:%SZ)" \
    --build-arg "SOURCE=$(address repository)" "$@" .
printf '%s\n' "$name"

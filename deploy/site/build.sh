#!/usr/bin/env bash
# Makes the documents of this tree a site. deploy/site/README.md says what is on the site.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: deploy/site/build.sh [--python PYTHON] [--build BUILD] FOLDER

Writes the site into FOLDER, which must be empty or absent. A link that leads nowhere is an error.

  --python PYTHON  has the packages of deploy/site/requirements.txt, numpy and ml_dtypes (default: python3)
  --build BUILD    a folder in which gemmd has been built; the manual pages are from there (default: build)
TEXT
}
# shellcheck source=deploy/arguments.sh
source "$(dirname "${BASH_SOURCE[0]}")/../arguments.sh"

python=python3 build=build
read_arguments "python build" '' "$@"
command -v mandoc >/dev/null || die "there is no mandoc"
made=$(realpath "$build")
[[ -e $made/documents/gemmd.8 ]] || die "there is no $made/documents/gemmd.8; --build names a folder with a build"
make_folder

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sphinx gets a folder that has the documents and nothing else: it would search the builds of the tree. The tables of
# measurements are no documents: a link to one of them leads to the repository.
mkdir "$work/source"
git ls-files --cached --others --exclude-standard -z -- '*.md' '*.png' '*.svg' ':!.github' ':!tests/bench/results/*.md' |
    xargs -0 cp --parents -t "$work/source"

# The manual pages, as the build has written them.
mkdir "$work/source/man"
for page in "$made"/documents/*.[18] client/man/libgemmd.3; do
    name=$(basename "$page")
    # shellcheck disable=SC2016  # the quotes of a fence
    {
        printf '# %s(%s)\n\n```{raw} html\n' "${name%.*}" "${name##*.}"
        mandoc -T html -O 'fragment,man=%N.%S.html' "$page" | sed 's/<\(\/\?\)h1/<\1h2/g'
        printf '```\n'
    } >"$work/source/man/$name.md"
done

GEMMD_ROOT=$root "$python" -m sphinx --builder html --conf-dir deploy/site --fail-on-warning --keep-going --quiet \
    --doctree-dir "$work/doctrees" "$work/source" "$folder"
cp "$folder/README.html" "$folder/index.html"

# The page of the API is that of the daemon, without the parts that send requests.
mkdir "$folder/api"
cp "$made/proto/openapi.json" "$folder/api"
"$python" deploy/site/api.py >"$folder/api/index.html"

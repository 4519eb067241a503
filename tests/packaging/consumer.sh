#!/usr/bin/env bash
# consumer.sh CMAKE GENERATOR BUILD CC VERSION LIBDIR - installs a build into an
# empty prefix and builds a program against it, with CMake's package and with pkg-config.
set -euo pipefail

cmake=$1 generator=$2 build=$3 compiler=$4 version=$5 libdir=$6
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

for component in gemmctl library development daemon; do
    "$cmake" --install "$build" --prefix "$prefix" --component "$component" >>"$work/install.log"
done
for file in bin/gemmctl "$libdir/libgemmd.so.0" include/gemmd/gemmd.h include/gemmd/errors.h include/gemmd/arrays.h \
    include/gemmd/sequences.h include/gemmd/dtypes.h include/gemmd/adapters/uv.h share/man/man3/libgemmd.3 \
    share/doc/gemmd/CHANGELOG.md share/doc/gemmd/SECURITY.md share/bash-completion/completions/gemmctl share/zsh/site-functions/_gemmctl; do
    [[ -e $prefix/$file ]] || { echo "$file is not installed" >&2; exit 1; }
done

for page in "$here"/../../client/man/gemmctl*.1; do
    name=$(basename "$page")
    cmp "$build/documents/$name" "$prefix/share/man/man1/$name"
done
# What gemmctl prints is what is installed.
while read -r shell script; do
    "$prefix/bin/gemmctl" completion "$shell" | cmp - "$prefix/share/$script"
done <<<"bash bash-completion/completions/gemmctl
zsh zsh/site-functions/_gemmctl
fish fish/vendor_completions.d/gemmctl.fish"

same_version() { # what was run, what it said
    [[ $2 == *"$version"* ]] || { echo "$1 says '$2', not $version" >&2; exit 1; }
}

# gemmctl finds the library beside it, wherever both are.
mv "$prefix" "$work/moved"
same_version gemmctl "$("$work/moved/bin/gemmctl" --version)"
mv "$work/moved" "$prefix"

"$cmake" -G "$generator" -S "$here/consumer" -B "$work/cmake" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$prefix" -DWANTED_VERSION="$version" >"$work/cmake.log"
"$cmake" --build "$work/cmake" >>"$work/cmake.log"
same_version "the program built with CMake" "$("$work/cmake/consumer")"

# A host with gemmd's packages alone has no other .pc file.
PKG_CONFIG_LIBDIR=$prefix/$libdir/pkgconfig pkg-config --cflags gemmd >"$work/flags"
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
same_version pkg-config "$(pkg-config --modversion gemmd)"
read -ra flags <<<"$(pkg-config --cflags --libs gemmd)"
"$compiler" "$here/consumer/main.c" "${flags[@]}" -o "$work/consumer"
same_version "the program built with pkg-config" \
    "$(LD_LIBRARY_PATH=$prefix/$libdir "$work/consumer")"
# The examples, each by the command in the comment at its head.
for example in "$here"/../../client/examples/*.c; do
    name=$(basename "$example" .c)
    command=$(sed -n "s/^ \*     cc $name\.c \(.*\) -o $name\$/\1/p" "$example")
    [[ -n $command ]] || { echo "$example does not say how it is compiled" >&2; exit 1; }
    read -ra flags <<<"$(eval "echo $command")"
    "$compiler" "$prefix/share/doc/gemmd/examples/$name.c" "${flags[@]}" -o "$work/$name"
done

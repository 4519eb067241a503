#!/usr/bin/env bash
# documents.sh SOURCE BUILD DOCUMENTS GEMMD GEMMCTL - the manual pages and completions that the build has written: each
# is well-formed and has every option that --help names, and the program DOCUMENTS refuses a template or a text that
# lacks an option or has one too many.
set -euo pipefail

source=$1 made=$2/documents documents=$3 gemmd=$4 gemmctl=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}
plain() { # roff without fonts and escapes of dashes
    sed 's/\\f[BIR]//g; s/\\-/-/g' "$1"
}
named_in() { # the options that a text names, and those of fish
    sed -E 's/ -l ([a-z])/ --\1/' "$1" | grep -oE -- '(^|[^-[:alnum:]])--[a-z][a-z0-9-]*' | grep -oE -- '--.*' | sort -u
}
all_in() { # options, then a text that has to name them
    local lacking
    lacking=$(comm -23 <(sort -u "$1") <(named_in "$2"))
    [[ -z $lacking ]] || fail "$2 lacks ${lacking//$'\n'/ }"
}

# Well-formed, as far as the programs that know are there.
for script in gemmd.bash gemmctl.bash; do
    bash -n "$made/$script"
    ! command -v shellcheck >/dev/null || shellcheck "$made/$script"
done
! command -v zsh >/dev/null || { zsh -n "$made/_gemmd" && zsh -n "$made/_gemmctl"; }
! command -v fish >/dev/null || fish -n "$made/gemmctl.fish"
for page in "$made"/*.[18]; do
    plain "$page" >"$work/$(basename "$page")"
    if command -v mandoc >/dev/null; then
        # The pages of gemmctl have no date.
        said=$(mandoc -Tlint -W warning "$page" | grep -v 'missing date' || true)
    elif command -v groff >/dev/null; then
        said=$(LC_ALL=C groff -ww -man -z "$page" 2>&1)
    else
        said=''
    fi
    [[ -z $said ]] || fail "$said"
done
! grep -nE -- '(^|[^\\-])--[a-z]' "$made"/*.[18] || fail "a dash of an option is no minus sign"
! grep -n '@gemm' "$made"/*.[18] "$made"/*.bash "$made"/_* "$made"/*.fish || fail "a directive is left"

# Every option of --help, and what prose says about options.
options_of() {
    "$@" --help | sed -nE 's/^ +(-., )?(--[a-z0-9-]+).*/\2/p'
}
options_of "$gemmd" >"$work/gemmd"
[[ $(wc -l <"$work/gemmd") -gt 50 ]] || fail "gemmd --help names no options"
for file in "$made/gemmd.bash" "$made/_gemmd" "$work/gemmd.8"; do
    all_in "$work/gemmd" "$file"
done
while read -r option; do
    [[ $(grep -cE -- "^$option( [A-Z,.]+|, --no-.*)?\$" "$work/gemmd.8") == 1 ]] || fail "gemmd.8 does not describe $option once"
done <"$work/gemmd"

"$gemmctl" --help | sed -n '/^Commands$/,/^$/s/^  \([a-z]\{1,\}\( [a-z]\{1,\}\)\{0,1\}\)  .*/\1/p' >"$work/commands"
[[ $(wc -l <"$work/commands") -gt 20 ]] || fail "gemmctl --help names no commands"
options_of "$gemmctl" | tee "$work/common" >"$work/gemmctl"
while read -r command; do
    page=$work/gemmctl-${command%% *}.1
    read -ra words <<<"$command"
    for file in "$made/gemmctl.bash" "$made/_gemmctl" "$made/gemmctl.fish"; do
        grep -q -- "$command" "$file" || fail "$file lacks $command"
    done
    grep -qE "(^|[ \"])$command([ ,\"]|\$)" "$work/gemmctl.1" || fail "gemmctl.1 does not list $command"
    [[ $command == help ]] || grep -q "^\.B gemmctl $command\$" "$page" || fail "$page lacks the synopsis of $command"
    options_of "$gemmctl" "${words[@]}" >"$work/own"
    cat "$work/own" >>"$work/gemmctl"
    # The overview describes the options of all commands, and --json.
    grep -vxf "$work/common" "$work/own" | grep -vx -- --json >"$work/only" || continue
    all_in "$work/only" "$page"
done <"$work/commands"
for file in "$made/gemmctl.bash" "$made/_gemmctl" "$made/gemmctl.fish"; do
    all_in "$work/gemmctl" "$file"
done
echo --json >>"$work/common"
all_in "$work/common" "$work/gemmctl.1"

for page in "$work"/gemmctl*.1; do
    name=$(basename "$page" .1)
    if [[ $name != gemmctl ]]; then
        grep -qE "^(${name#gemmctl-})( |\$)" "$work/commands" || fail "$name(1) is the page of no command"
        sed -n '/^\.SH SEE ALSO/,$p' "$page" | grep -q '^\.BR gemmctl (1)' || fail "$name(1) does not refer to gemmctl(1)"
        grep -q "^\.BR $name (1)" "$work/gemmctl.1" || fail "gemmctl(1) does not refer to $name(1)"
    fi
    while read -r other _; do
        [[ -e $work/$other.1 ]] || fail "$name(1) refers to $other(1), which is not there"
    done < <(grep -oE 'gemmctl-[a-z]+ \(1\)' "$page")
done
no_other() { # options of a program, then a page, which may name no other; --no-NAME goes with --NAME
    local other
    other=$(comm -13 <(sed 'p; s/^--/--no-/' "$1" | sort -u) <(named_in "$2"))
    [[ -z $other ]] || fail "$2 names ${other//$'\n'/ }"
}
echo --data-binary >>"$work/gemmd" # of curl
no_other "$work/gemmd" "$work/gemmd.8"
for page in "$work"/gemmctl*.1; do
    no_other "$work/gemmctl" "$page"
done

# What the build refuses.
refused() { # the sentence, then the template, and texts if there are any
    local sentence=$1 said status=0
    shift
    said=$("$documents" "$1" "$work/made" "${@:2}" 2>&1) || status=$?
    [[ $status == 2 && $said == *"$sentence"* && ! -e $work/made ]] || fail "'$sentence' is not said, but: $said"
}
page=$source/client/man/gemmctl-top.1 texts=$source/client/man/options.roff
cp "$page" "$work/gemmctl-top.1"
"$documents" "$work/gemmctl-top.1" "$work/made" "$texts"
cmp "$work/made" "$made/gemmctl-top.1"
rm "$work/made"
edited() { # COMMAND of sed
    sed "$1" "$page" >"$work/gemmctl-top.1"
}
edited '/@gemmctl-options/s/ once / /'
refused "lacks the option 'once'" "$work/gemmctl-top.1" "$texts"
edited '/@gemmctl-options/s/$/ once/'
refused "describes this option twice: 'once'" "$work/gemmctl-top.1" "$texts"
edited '/@gemmctl-options/s/$/ heads/'
refused "no option of these commands: 'heads'" "$work/gemmctl-top.1" "$texts"
edited '/@gemmctl-options/s/$/ nosuch/'
refused "no such option: 'nosuch'" "$work/gemmctl-top.1" "$texts"
edited '/@gemmctl-options/s/ top:/ toop:/'
refused "no such command: 'toop:" "$work/gemmctl-top.1" "$texts"
edited 's/@gemmctl-options/@gemmctl-option/'
refused "no directive 'gemmctl-option " "$work/gemmctl-top.1" "$texts"
sed 's/@gemmctl-options bench reduce: /&n /' "$source/client/man/gemmctl-bench.1" >"$work/gemmctl-bench.1"
refused "no option of these commands: 'n " "$work/gemmctl-bench.1" "$texts"
sed 's/@gemmctl-options bench: m/@gemmctl-options bench, bench ladder: n/' "$source/client/man/gemmctl-bench.1" >"$work/gemmctl-bench.1"
refused "the commands have different options: 'n " "$work/gemmctl-bench.1" "$texts"
sed 's/@gemmctl-options bench softmax: shape dtype/@gemmctl-options bench softmax: shape/' "$source/client/man/gemmctl-bench.1" >"$work/gemmctl-bench.1"
refused "lacks the option 'dtype'" "$work/gemmctl-bench.1" "$texts"
edited ''
printf '.OPTION nosuch\nText.\n' >"$work/texts"
refused "no such option: 'nosuch" "$work/gemmctl-top.1" "$work/texts"
printf '.OPTION once\n.FOR gemm\nText.\n' >"$work/texts"
refused "no command with the option: '.FOR gemm" "$work/gemmctl-top.1" "$work/texts"

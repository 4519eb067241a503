# Completion of gemmd's options for bash.
# shellcheck shell=bash

_gemmd() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words='' files=''
    # @gemmd-bash-options
    # bash splits --backend=cpu in three words.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $previous in
    # @gemmd-bash-values
    *) words=$options ;;
    esac
    if [[ -n $files ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
}
complete -o filenames -F _gemmd gemmd

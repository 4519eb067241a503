# bash completion for gemmctl
# shellcheck shell=bash

# Prints names: contexts, or tensors, sequences, jobs, kernels or an operation's kernels (kernels:conv2d) that the daemon knows.
# The daemon is the one that the options of the line being typed name.
_gemmctl_names() {
    local -a words=() options=()
    local i
    read -ra words <<<"${COMP_LINE-}"
    for ((i = 1; i < ${#words[@]}; i++)); do
        case ${words[i]} in
        -u | --url | --context | --token-file | --ca-file | --cert-file | --key-file)
            [[ -n ${words[i + 1]-} ]] && options+=("${words[i]}" "${words[i + 1]}")
            ;;
        --url=* | --context=* | --token-file=* | --ca-file=* | --cert-file=* | --key-file=*) options+=("${words[i]}") ;;
        esac
    done
    "${COMP_WORDS[0]}" completion "$1" "${options[@]}" --timeout 1s --retries 0 2>/dev/null
}

_gemmctl() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local i word command='' offered='' words='' files=''
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case "$command $word" in
        # @gemmctl-bash-commands
        esac
    done
    case $command in
    # @gemmctl-bash-options
    esac

    # A colon begins a new word: tensor:NAME is three words.
    if [[ $current == : && $previous == tensor || $previous == : && ${COMP_WORDS[COMP_CWORD - 2]-} == tensor ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_gemmctl_names tensors)" -- "${current#:}")
        return
    fi
    case $command:$previous in
    # @gemmctl-bash-values
    *)
        case $command:$current in
        *:-*) words=$offered ;;
        gemm:* | attention:* | conv:* | reduce:* | softmax:* | experts:* | 'tensor put':*) files=yes ;;
        'tensor get':* | 'tensor ls':* | 'tensor rm':*) words=$(_gemmctl_names tensors) ;;
        'sequence append':*|'sequence get':*) words=$(_gemmctl_names sequences) files=yes ;;
        'sequence '*:*) words=$(_gemmctl_names sequences) ;;
        'job status':* | 'job wait':* | 'job result':* | 'job cancel':*) words=$(_gemmctl_names jobs) ;;
        completion:*) words='bash zsh fish' ;;
        # @gemmctl-bash-words
        esac
        ;;
    esac
    if [[ -n $files ]]; then
        mapfile -t COMPREPLY < <(compgen -f -W "$words" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
}

complete -o filenames -F _gemmctl gemmctl

# fish completion for gemmctl

# Prints the words of the line before the cursor that are neither options nor values of options.
function __gemmctl_words
    set -l skip no
    for word in (commandline -opc)[2..]
        if test $skip = yes
            set skip no
            continue
        end
        switch $word
            # @gemmctl-fish-flags
            case '-*'
                set skip yes
            case '*'
                echo $word
        end
    end
end

# Whether the command of the line is one of those named, such as 'tensor put'.
function __gemmctl_is
    set -l words (__gemmctl_words)
    test (count $words) -gt 0; or return 1
    set -l command $words[1]
    # @gemmctl-fish-pairs
    if contains -- "$words[1] $words[2]" $pairs
        set command "$words[1] $words[2]"
    end
    contains -- "$command" $argv
end

# Whether the line has no command yet, or only the first word $argv[1] of a command.
function __gemmctl_has
    set -l words (__gemmctl_words)
    test "$words" = "$argv"
end

# Prints names: contexts, or tensors, sequences, jobs, kernels or an operation's kernels (kernels:conv2d) that the daemon knows.
# The daemon is the one that the options of the line name.
function __gemmctl_names
    set -l words (commandline -opc)
    set -l options
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -u --url --context --token-file --ca-file --cert-file --key-file
                set -a options $words[$i] $words[(math $i + 1)]
            case '--url=*' '--context=*' '--token-file=*' '--ca-file=*' '--cert-file=*' '--key-file=*'
                set -a options $words[$i]
        end
    end
    $words[1] completion $argv[1] $options --timeout 1s --retries 0 2>/dev/null
end

complete -c gemmctl -f
# @gemmctl-fish-commands
complete -c gemmctl -n '__gemmctl_has completion' -a 'bash zsh fish'

complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax experts "tensor put" "sequence append" "sequence get"' -F
complete -c gemmctl -n '__gemmctl_is gemm attention conv reduce softmax experts' -a '(string replace -r ^ tensor: (__gemmctl_names tensors))'
complete -c gemmctl -n '__gemmctl_is "tensor get" "tensor ls" "tensor rm"' -a '(__gemmctl_names tensors)'
complete -c gemmctl -n '__gemmctl_is "sequence fork" "sequence append" "sequence get" "sequence truncate" "sequence ls" "sequence rm"' -a '(__gemmctl_names sequences)'
complete -c gemmctl -n '__gemmctl_is "job status" "job wait" "job result" "job cancel"' -a '(__gemmctl_names jobs)'

# @gemmctl-fish-options

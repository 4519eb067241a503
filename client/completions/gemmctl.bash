# bash completion for gemmctl: gemm, attention, conv, reduce, softmax, tensor put, tensor get, tensor ls,
# tensor rm, job ls, job status, job wait, job result, job cancel, bench, bench attention, bench conv,
# bench reduce, bench softmax, bench ladder, info, metrics, top, ready, completion, help

# Prints names: contexts, or tensors, jobs, kernels or an operation's kernels (kernels:conv2d) that the daemon knows.
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
    local current previous word i command="" group="" words="" files=""
    local common="--url --context --token-file --ca-file --cert-file --key-file --traceparent --check-digest --timeout --retries --quiet --no-color --help --version"
    local product="--m --n --k --dtype --out --precision --transa --transb --alpha --batch --act
        --kernel --verify --priority --json --shm --no-shm"
    local gemm="--output --random --seed --check --scales --a-scale --b-scale --bias --c0 --beta --store --async --format --in-format --out-format --timing"
    local attends="--heads --kv-heads --sq --skv --d --dv --layout --causal --window --scale --softcap"
    local attention="--output --async --format --in-format --out-format --timing --dtype --batch
        --lens-q --lens-kv --lse --with-lse --kernel --priority --json --shm --no-shm"
    local files_of="--output --random --seed --check --format --in-format --out-format --timing --dtype --out --kernel
        --priority --json --shm --no-shm"
    local convs="--channels --height --width --filters --filter-h --filter-w --groups --stride
        --dilation --padding --layout --w-layout --batch --precision --alpha --act"
    local conv="$files_of --store --async --bias $convs"
    local reduce="$files_of --store --async --shape --op --axis --keepdims"
    local softmax="$files_of --store --async --shape --scale --log --lens"
    local measured="--dtype --out --kernel --priority --json --shm --no-shm"
    local bench="--connections --in-flight --duration --requests"
    local put="--dtype --shape --scale --evictable --contiguous --format --json"
    local commands="gemm attention conv reduce softmax tensor job bench info metrics top ready completion help"
    local tensor="put get ls rm" job="ls status wait result cancel" benches="attention conv reduce softmax ladder"
    current=${COMP_WORDS[COMP_CWORD]}
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -z $group && " $commands " == *" $word "* ]]; then
            case $word in
            tensor | job | bench) group=$word command=$word ;;
            *)
                command=$word
                break
                ;;
            esac
        elif [[ $group == tensor && " $tensor " == *" $word "* ]] ||
            [[ $group == job && " $job " == *" $word "* ]] ||
            [[ $group == bench && " $benches " == *" $word "* ]]; then
            command="$group $word"
            break
        fi
    done

    # A colon begins a new word: tensor:NAME is three words.
    if [[ $current == : && $previous == tensor || $previous == : && ${COMP_WORDS[COMP_CWORD - 2]-} == tensor ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_gemmctl_names tensors)" -- "${current#:}")
        return
    fi
    case $previous in
    --context) words=$(_gemmctl_names contexts) ;;
    --kernel)
        case $command in
        gemm | bench) words=$(_gemmctl_names kernels:gemm) ;;
        *attention) words=$(_gemmctl_names kernels:attention) ;;
        *conv) words=$(_gemmctl_names kernels:conv2d) ;;
        *) words=$(_gemmctl_names "kernels:${command#bench }") ;;
        esac
        ;;
    --dtype) words="f64 f32 f16 bf16 f8_e4m3 i8 i32" ;;
    --out) words="f64 f32 f16 bf16 i8 i32" ;;
    --layout)
        words="bhsd bshd"
        [[ $command == *conv ]] && words="nchw nhwc"
        ;;
    --w-layout) words="kcrs krsc" ;;
    --padding) words="same" ;;
    --op) words="sum mean max min norm2 logsumexp argmax" ;;
    --scale) [[ $command == tensor* ]] && files=yes ;;
    --precision)
        words="full tf32 f8"
        [[ $command == *conv ]] && words="full tf32"
        ;;
    --scales) words="none rowcol block" ;;
    --act) words="none relu gelu gelu_tanh silu" ;;
    --verify) words="none freivalds" ;;
    --priority) words="0 1 2 3 4 5 6 7 8 9" ;;
    --format | --in-format | --out-format) words="npy safetensors raw" ;;
    -u | --url) words="http:// https:// unix:" ;;
    -o | --output | --bias | --c0 | --a-scale | --b-scale | --lens | --lens-q | --lens-kv | --lse | --token-file | --ca-file | --cert-file | --key-file) files=yes ;;
    -m | --m | -n | --n | -k | --k | --alpha | --beta | --batch | -c | --connections | \
        --in-flight | -d | --duration | --requests | -t | --timeout | --retries | --store | --traceparent | \
        --shape | --heads | --kv-heads | --sq | --skv | --d | --dv | --window | --axis | \
        --channels | --height | --width | --filters | --filter-h | --filter-w | --groups | --stride | --dilation | \
        --softcap | --random | --seed | --interval) ;;
    *)
        case $command:$current in
        gemm:-*) words="$gemm $product $common" ;;
        attention:-*) words="$attention $attends $common" ;;
        conv:-*) words="$conv $common" ;;
        reduce:-*) words="$reduce $common" ;;
        softmax:-*) words="$softmax $common" ;;
        bench:-*) words="$bench $product $common" ;;
        bench\ attention:-*) words="$bench $attends --dtype --batch --kernel --priority --json --shm --no-shm $common" ;;
        bench\ conv:-*) words="$bench $measured $convs $common" ;;
        bench\ reduce:-*) words="$bench $measured --shape --op --axis --keepdims $common" ;;
        bench\ softmax:-*) words="$bench $measured --shape --scale --log $common" ;;
        bench\ ladder:-*) words="--n --json $common" ;;
        tensor\ put:-*) words="$put $common" ;;
        tensor\ get:-*) words="--output --scale --format --json $common" ;;
        job\ result:-*) words="--output --lse --format --timing --json $common" ;;
        top:-*) words="--once --interval --json $common" ;;
        info:-* | metrics:-* | ready:-* | tensor\ *:-* | job\ *:-*) words="--json $common" ;;
        help:-*) words="--quiet --no-color --help --version" ;;
        *:-*) words=$common ;;
        gemm:* | attention:* | conv:* | reduce:* | softmax:* | tensor\ put:*) files=yes ;;
        tensor:*) words=$tensor ;;
        tensor\ get:* | tensor\ ls:* | tensor\ rm:*) words=$(_gemmctl_names tensors) ;;
        job:*) words=$job ;;
        job\ status:* | job\ wait:* | job\ result:* | job\ cancel:*) words=$(_gemmctl_names jobs) ;;
        completion:*) words="bash zsh fish" ;;
        bench:*) words=$benches ;;
        :* | help:*) words=$commands ;;
        esac
        ;;
    esac
    if [[ -n $files ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    fi
}

complete -o filenames -F _gemmctl gemmctl

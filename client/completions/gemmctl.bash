# bash completion for gemmctl

_gemmctl() {
    local current previous word i command="" words="" files=""
    local common="--url --token-file --ca-file --timeout --retries --quiet --no-color --help --version"
    local product="--m --n --k --dtype --out --precision --transa --transb --alpha --batch --act
        --kernel --verify --priority --json"
    local gemm="--output --bias --c0 --beta --format --in-format --out-format --timing"
    local bench="--connections --duration --requests"
    local commands="gemm bench info metrics ready help"
    current=${COMP_WORDS[COMP_CWORD]}
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ " $commands " == *" $word "* ]]; then
            command=$word
            break
        fi
    done

    case $previous in
    --dtype) words="f64 f32 f16 bf16 f8_e4m3 i8" ;;
    --out) words="f64 f32 f16 bf16 i32" ;;
    --precision) words="full tf32" ;;
    --act) words="none relu gelu gelu_tanh silu" ;;
    --verify) words="none freivalds" ;;
    --priority) words="0 1 2 3 4 5 6 7 8 9" ;;
    --format | --in-format | --out-format) words="npy safetensors raw" ;;
    -u | --url) words="http:// https:// unix:" ;;
    -o | --output | --bias | --c0 | --token-file | --ca-file) files=yes ;;
    -m | --m | -n | --n | -k | --k | --alpha | --beta | --batch | --kernel | -c | --connections | \
        -d | --duration | --requests | -t | --timeout | --retries) ;;
    *)
        case $command:$current in
        gemm:-*) words="$gemm $product $common" ;;
        bench:-*) words="$bench $product $common" ;;
        info:-*) words="--json $common" ;;
        *:-*) words=$common ;;
        gemm:*) files=yes ;;
        bench:*) words=ladder ;;
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

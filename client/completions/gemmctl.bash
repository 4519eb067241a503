# bash completion for gemmctl

_gemmctl() {
    local current previous command word i
    local common="--url --token-file --ca-file --timeout --retries --quiet --no-color --help --version"
    local product="--m --n --k --dtype --out --precision --transa --transb --alpha --batch --act
        --kernel --verify --priority --json"
    current=${COMP_WORDS[COMP_CWORD]}
    previous=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()

    case $previous in
    --dtype) COMPREPLY=($(compgen -W "f64 f32 f16 bf16 f8_e4m3 i8" -- "$current")) ;;
    --out) COMPREPLY=($(compgen -W "f64 f32 f16 bf16 i32" -- "$current")) ;;
    --precision) COMPREPLY=($(compgen -W "full tf32" -- "$current")) ;;
    --act) COMPREPLY=($(compgen -W "none relu gelu gelu_tanh silu" -- "$current")) ;;
    --verify) COMPREPLY=($(compgen -W "none freivalds" -- "$current")) ;;
    --priority) COMPREPLY=($(compgen -W "0 1 2 3 4 5 6 7 8 9" -- "$current")) ;;
    --format | --in-format | --out-format)
        COMPREPLY=($(compgen -W "npy safetensors raw" -- "$current")) ;;
    -o | --output | --bias | --c0 | --token-file | --ca-file)
        COMPREPLY=($(compgen -f -- "$current")) ;;
    -m | --m | -n | --n | -k | --k | --alpha | --beta | --batch | --kernel | -c | --connections | \
        -d | --duration | --requests | -t | --timeout | --retries) ;;
    -u | --url) COMPREPLY=($(compgen -W "http:// https:// unix:" -- "$current")) ;;
    *) command=any ;;
    esac
    [[ $command == any ]] || return 0

    command=
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        gemm | bench | info | metrics | ready | help) command=$word && break ;;
        esac
    done
    case $command:$current in
    gemm:-*) COMPREPLY=($(compgen -W "--output --bias --c0 --beta --format --in-format --out-format
        --timing $product $common" -- "$current")) ;;
    bench:-*) COMPREPLY=($(compgen -W "--connections --duration --requests $product $common" \
        -- "$current")) ;;
    info:-*) COMPREPLY=($(compgen -W "--json $common" -- "$current")) ;;
    *:-*) COMPREPLY=($(compgen -W "$common" -- "$current")) ;;
    gemm:*) COMPREPLY=($(compgen -f -- "$current")) ;;
    :* | help:*) COMPREPLY=($(compgen -W "gemm bench info metrics ready help" -- "$current")) ;;
    esac
}

complete -o filenames -F _gemmctl gemmctl

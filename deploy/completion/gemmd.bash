# Completion of gemmd's options for bash. tests/unit/test_option_texts.c compares it with the table of
# options.
# shellcheck shell=bash

_gemmd() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    # bash splits --backend=cpu in three words.
    if [[ $current == = ]]; then
        current=
    elif [[ $previous == = ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $previous in
    --backend) mapfile -t COMPREPLY < <(compgen -W 'auto cuda cpu' -- "$current") ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W 'debug info warning error' -- "$current") ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W 'json text auto' -- "$current") ;;
    --gpu-metrics) mapfile -t COMPREPLY < <(compgen -W 'auto all off' -- "$current") ;;
    --tls-client-auth) mapfile -t COMPREPLY < <(compgen -W 'require optional' -- "$current") ;;
    --config | --token-file | --tls-cert | --tls-key | --tls-client-ca | --otlp-header-file | --otlp-ca-file)
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    --listen | --io-threads | --max-connections | --max-connections-per-address | \
        --connection-buffer | --bulk-connections | --bulk-buffer | --devices | --streams | \
        --max-batch | --busy-poll-us | --cpu-threads | --pinned-bytes | --device-bytes | \
        --tensor-bytes | --without-kernels | --metrics-tenant | --tls-priorities | --shm-bytes | --shm-regions | --max-body | --max-result | --max-json | --max-inflation | --max-work | --verify-share | \
        --queue-requests | --queue-bytes | --tenant-share | --tenant-requests | --tenant-bytes | \
        --tenant-tensor-bytes | --max-jobs | --job-bytes | \
        --timeout | --max-timeout | --header-timeout | --idle-timeout | --body-timeout | \
        --min-body-rate | --min-answer-rate | --job-ttl | --max-wait | --stall-time | --drain-delay | --drain-timeout | \
        --takeover-timeout | --otlp-endpoint | --otlp-sample)
        COMPREPLY=()
        ;;
    *)
        mapfile -t COMPREPLY < <(compgen -W '
            --listen --io-threads --max-connections --max-connections-per-address
            --connection-buffer --bulk-connections --bulk-buffer --compress-answers
            --no-compress-answers --token-file --metrics-tenant --tls-cert --tls-key --tls-client-ca --tls-client-auth --tls-priorities --allow-insecure-network --no-allow-insecure-network --backend --devices --streams --max-batch --busy-poll-us --cpu-threads --pinned-bytes
            --device-bytes --tensor-bytes --without-kernels --shm-memfd --no-shm-memfd --shm-system
            --no-shm-system --shm-cuda --no-shm-cuda --shm-bytes --shm-regions --max-body --max-result --max-json
            --max-inflation --max-work --queue-requests --queue-bytes --tenant-share --tenant-requests --tenant-bytes
            --tenant-tensor-bytes --max-jobs
            --job-bytes --timeout --max-timeout --header-timeout --idle-timeout
            --body-timeout --min-body-rate --min-answer-rate --job-ttl --max-wait --stall-time --drain-delay
            --drain-timeout --takeover-timeout --log-level --log-format --verify-share --access-log --no-access-log
            --gpu-metrics --otlp-endpoint --otlp-header-file --otlp-ca-file --otlp-sample --config
            --check-config --help --version' -- "$current")
        ;;
    esac
}
complete -o filenames -F _gemmd gemmd

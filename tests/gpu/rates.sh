#!/usr/bin/env bash
# Requests per second of a daemon on the GPU, next to libmicrohttpd alone. A part of tests/gpu/run.sh,
# which sources it, with its functions (serve, ready, stop, section) and its variables; it counts in
# `failed`.
# shellcheck disable=SC2034,SC2154  # which are set and used there

wrk=${WRK:-wrk}
alone=$build/bin/gemmd-bench-mhd-alone
cores=$(nproc)
threads=$((cores / 2 < 1 ? 1 : cores / 2 > 16 ? 16 : cores / 2)) # the daemon's own default
rows=()

# make_bodies: in $scratch, two square matrices of f32 each.
make_bodies() {
    "$python" - "$scratch" <<'PYTHON'
import sys
import numpy as np

random = np.random.default_rng()
for size in (64, 1024, 4096):
    random.uniform(-1, 1, 2 * size * size).astype(np.float32).tofile(f"{sys.argv[1]}/{size}.f32")
PYTHON
}

# load URL BODY CONNECTIONS SECONDS: one run of wrk; sets rate, p50_us, p99_us, refused, broken.
load() {
    local threads=$(($3 < 4 ? $3 : 4)) report
    report=$("$wrk" -t "$threads" -c "$3" -d "$4s" --timeout 30s -s tests/bench/post.lua "$1" -- \
        "$2" 2>&1)
    printf '%s\n%s\n' "$1 $2 connections=$3" "$report" >>"$logs/rates.log"
    rate=0 p50_us=0 p99_us=0 refused=1 broken=1
    while read -r key value; do
        case $key in rate | p50_us | p99_us | refused | broken) printf -v "$key" '%s' "$value" ;; esac
    done <<<"$report"
    if [[ $refused != 0 || $broken != 0 ]]; then
        echo "a load of $1 had $refused refusals and $broken broken connections"
        ((failed += 1))
    fi
}
median() { sort -g | sed -n 2p; } # of three

# measure SIZE CONNECTIONS BUFFER: three runs each, in turn, of both servers; a row of the table.
measure() {
    local size=$1 connections=$2 buffer=$3 body=$scratch/$1.f32
    local bytes=$((2 * size * size * 4)) answer=$((size * size * 4)) own_pid own their_pid theirs
    serve "$scratch/own.log" "$gemmd" --backend cuda --listen 127.0.0.1:0 --no-access-log \
        --connection-buffer "$buffer" --pinned-bytes 4G || return 1
    own_pid=$pid own=$address
    ready || return 1
    curl -fsS --max-time 10 "http://$own/info" >"$scratch/info.json"
    # What is measured must be a product: checked once by the daemon's own arithmetic check.
    curl -fsS --max-time 60 -o "$scratch/c" -D "$scratch/headers" --data-binary "@$body" -H 'Expect:' \
        "http://$own/gemm?m=$size&n=$size&k=$size&verify=freivalds" &&
        grep -qi '^gemmd-verify: pass' "$scratch/headers" || return 1
    serve "$scratch/alone.log" "$alone" 0 "$threads" "$buffer" "$bytes" "$answer" || return 1
    their_pid=$pid theirs=$address
    daemons=("$own_pid" "$their_pid")

    local run target
    for target in own theirs; do : >"$scratch/$target"; done
    load "http://$own/gemm?m=$size&n=$size&k=$size" "$body" "$connections" 2 # warm
    load "http://$theirs/" "$body" "$connections" 2
    for run in 1 2 3; do
        echo "run $run" >>"$logs/rates.log"
        load "http://$own/gemm?m=$size&n=$size&k=$size" "$body" "$connections" "$seconds"
        echo "$rate $p50_us $p99_us" >>"$scratch/own"
        load "http://$theirs/" "$body" "$connections" "$seconds"
        echo "$rate $p50_us $p99_us" >>"$scratch/theirs"
    done
    kill "$their_pid"
    pid=$own_pid
    stop || { echo "the daemon did not drain with status 0" && ((failed += 1)); }
    row() { for i in 1 2 3; do cut -d ' ' -f "$i" "$scratch/$1" | median; done | tr '\n' ' '; }
    rows+=("$(awk -v size="$size" -v connections="$connections" -v buffer="$buffer" \
        -v own="$(row own)" -v theirs="$(row theirs)" 'BEGIN {
            split(own, a, " "); split(theirs, b, " ")
            printf "| %d³ | %d | %d KiB | %.1f | %.1f | %.2f | %d / %d | %d / %d |", size,
                connections, buffer / 1024, a[1], b[1], (b[1] > 0 ? a[1] / b[1] : 0), a[2], a[3],
                b[2], b[3]
        }')")
    printf '%s\n' "${rows[-1]}"
}

# measure_rates: every row; the GPU's clock and power meanwhile in $scratch/gpu.csv.
measure_rates() {
    local cell
    section "rates"
    : >"$logs/rates.log"
    command -v "$wrk" >/dev/null || {
        echo "there is no wrk: no rates"
        ((failed += 1))
        return
    }
    make_bodies || die "no bodies could be made"
    nvidia-smi --query-gpu=clocks.sm,power.draw --format=csv,noheader,nounits --id=0 -l 1 \
        >"$scratch/gpu.csv" 2>/dev/null &
    watcher=$!
    for cell in "64 128 65536" "64 1 65536" "1024 16 262144" "4096 8 1048576"; do
        # shellcheck disable=SC2086  # three words
        measure $cell || {
            echo "could not measure: $cell"
            tail -n 3 "$scratch/own.log" "$scratch/alone.log" 2>/dev/null
            ((failed += 1))
        }
    done
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    watcher=
}

largest() { cut -d , -f "$1" "$scratch/gpu.csv" 2>/dev/null | sort -g | tail -n 1 | tr -d ' '; }

# write_table: everything on standard output.
write_table() {
    local library
    library=$(sed -n 's/.*"library": *"\([^"]*\)".*/\1/p' "$scratch/info.json" 2>/dev/null | head -n 1)
    printf '# gemmd on %s, %s\n\n' "$gpu" "$when"
    printf '| | |\n|---|---|\n'
    printf '| gemmd | %s |\n' "${revision#gemmd }"
    printf '| GPU | %s |\n| driver | %s |\n| library | %s |\n' "$gpu" "$driver" "$library"
    printf '| SM clock | %s MHz at most under this load, %s MHz the card'"'"'s most |\n' \
        "$(largest 1)" "$(gpu_field clocks.max.sm)"
    printf '| power | %s W at most under this load, limit %s W |\n' "$(largest 2)" \
        "$(gpu_field power.limit)"
    printf '| host | %s cores, %s |\n' "$cores" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    printf '| checks | %s passed, %s failed |\n| memcheck | %s |\n' "$passed" "$failed" "$memcheck"
    printf '\nf32 products over HTTP on loopback, wrk on the same machine, next to libmicrohttpd'
    printf ' alone\n(lands the same body, answers as many bytes; %s threads each). ' "$threads"
    printf 'Medians of 3 runs of %s s, in turn.\n\n' "$seconds"
    printf '| product | connections | buffer | gemmd, requests/s | libmicrohttpd alone | ratio |'
    printf ' gemmd p50 / p99, µs | alone p50 / p99, µs |\n|---|---|---|---|---|---|---|---|\n'
    ((${#rows[@]} == 0)) || printf '%s\n' "${rows[@]}"
}

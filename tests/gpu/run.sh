#!/usr/bin/env bash
# Checks gemmd on a machine with an NVIDIA GPU, and measures it there. Needs no network and no
# compiler: the binaries are built already, and a copied tree will do.
set -uo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/gpu/run.sh [--build DIR] [--out DIR] [--seconds N] [--python PROGRAM] [PART ...]

Parts (all of them, in this order, if none is named), each a few minutes:
  kernels   every kernel against a reference, without the daemon
  memcheck  the same, fewer, under compute-sanitizer
  devices   the daemon's own device code, and memory that clients share
  http      a daemon on the GPU, over HTTP; GEMMD_SAME_BYTES_REQUESTS=N compares so many answers
            under mixed load with those of the same requests alone
  tensors   resident tensors, and rows stacked on them: daemons of the tests' own
  rates     requests per second, next to libmicrohttpd alone; writes the table

  --build DIR       where bin/gemmd, bin/gemmd-gpu-check, bin/gemmd-gpu-attention-check,
                    bin/gemmd-gpu-group-check, bin/gemmd-gpu-copy-check and
                    bin/gemmd-bench-mhd-alone lie (default build)
  --out DIR         where the logs and the table go (default $OUT, else tests/bench/results)
  --seconds N       length of each measurement (default 5)
  --python PROGRAM  a Python with pytest, requests, numpy, scipy, ml_dtypes, safetensors and
                    scikit-learn (default build/venv/bin/python if it is there, else python3)

Writes gpu-DATE-GPU.md (the table) and a log for each check. Needs wrk for the rates (on PATH, or
named by the environment variable WRK).
TEXT
}
die() {
    printf 'gpu/run.sh: %s\n' "$*" >&2
    exit 2
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=build out=${OUT:-tests/bench/results} seconds=5 python='' parts=()
while (($#)); do
    case $1 in
    --build | --out | --seconds | --python)
        [[ -n ${2-} ]] || die "$1 takes a value"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    kernels | memcheck | devices | http | tensors | rates) parts+=("$1") ;;
    *)
        usage >&2
        die "neither an option nor a part: '$1'"
        ;;
    esac
    shift
done
((${#parts[@]})) || parts=(kernels memcheck devices http tensors rates)
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds takes a whole number"
if [[ -z $python ]]; then
    python=python3
    [[ ! -x build/venv/bin/python ]] || python=build/venv/bin/python
fi
wrk=${WRK:-wrk}
gemmd=$build/bin/gemmd
alone=$build/bin/gemmd-bench-mhd-alone
for program in gemmd gemmd-gpu-check gemmd-gpu-attention-check gemmd-gpu-group-check \
    gemmd-gpu-copy-check gemmd-bench-mhd-alone; do
    [[ -x $build/bin/$program ]] || die "$build/bin/$program is not there; build first"
done
nvidia-smi -L >/dev/null || die "no NVIDIA GPU answers"
mkdir -p "$out" || exit 2

scratch=$(mktemp -d)
daemons=() watcher=
# shellcheck disable=SC2317  # called by the trap
clean_up() {
    # shellcheck disable=SC2086  # none is no word
    kill "${daemons[@]}" $watcher 2>/dev/null
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

passed=0 failed=0
section() { printf '\n==== %s (%ss)\n' "$*" "$SECONDS"; }
# add LOG STATUS: sums the "N passed, N failed" of a log; a bad end without a count is a failure.
add() {
    local counts good=0 bad=0
    counts=$(grep -Eo '[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1)
    if [[ -n $counts ]]; then read -r good _ bad _ <<<"$counts"; fi
    if (($2 != 0 && bad == 0)) || [[ -z $counts && $2 == 0 ]]; then bad=1; fi
    ((passed += good, failed += bad))
    printf '%s: %s passed, %s failed\n' "$(basename "$1" .log)" "$good" "$bad"
}

gpu_field() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits --id=0 | head -n 1; }
gpu=$(gpu_field name)
driver=$(gpu_field driver_version)
when=$(date -u +%Y-%m-%d)
name=gpu-$when-$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu#NVIDIA }" | tr -cd 'a-z0-9-')
revision=$("$gemmd" --version)
printf '%s, driver %s, %s\n' "$gpu" "$driver" "$revision"

# add_pytest LOG STATUS JUNIT: pytest leaves "0 failed" out of its last line; the sum needs both.
add_pytest() {
    local counts bad
    counts=$(tr '\n' ' ' <"$3" 2>/dev/null | grep -o '<testsuite [^>]*>')
    number() { grep -o " $1=\"[0-9]*\"" <<<"$counts" | tr -dc 0-9; }
    bad=$((10#0$(number failures) + 10#0$(number errors)))
    printf '%s passed, %s failed\n' $((10#0$(number tests) - bad - 10#0$(number skipped))) "$bad" >>"$1"
    add "$1" "$2"
}

# check LIMIT_S LOG COMMAND...: runs it, and adds what it counted.
check() {
    local limit=$1 log=$out/$2.log
    shift 2
    section "$(basename "$log" .log)"
    timeout -k 5 "$limit" "$@" >"$log" 2>&1
    add "$log" $?
}

# check_unit NAME: a Check program, if it was built.
check_unit() {
    local log=$out/$1.log status counts
    [[ -x $build/tests/$1 ]] || return 0
    section "$1"
    CK_DEFAULT_TIMEOUT=240 timeout -k 5 240 "$build/tests/$1" >"$log" 2>&1
    status=$?
    counts=$(sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$log")
    awk '{ printf "%d passed, %d failed\n", $1 - $2 - $3, $2 + $3 }' <<<"$counts" >>"$log"
    add "$log" $status
}

# --- Every kernel against the reference, without the daemon ---------------------------------------
if wanted kernels; then
    check 300 kernels "$build/bin/gemmd-gpu-check"
    check 240 attention "$build/bin/gemmd-gpu-attention-check"
    check 150 groups "$build/bin/gemmd-gpu-group-check"
    check 60 copies "$build/bin/gemmd-gpu-copy-check"
fi

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
memcheck="not run"
if wanted memcheck && [[ -z $sanitizer ]]; then
    memcheck="not run: there is no compute-sanitizer"
elif wanted memcheck; then
    under=("$sanitizer" --tool memcheck --leak-check full --error-exitcode 9)
    check 120 memcheck "${under[@]}" "$build/bin/gemmd-gpu-check" --quick
    memcheck=$(grep -o 'ERROR SUMMARY:.*' "$out/memcheck.log" | tail -n 1)
    [[ -n $memcheck ]] || memcheck="did not end, see memcheck.log"
    check 120 attention-memcheck "${under[@]}" "$build/bin/gemmd-gpu-attention-check" --quick
    check 120 copies-memcheck "${under[@]}" "$build/bin/gemmd-gpu-copy-check" --quick
fi

# --- The daemon's device, and memory that is shared with it ----------------------------------------
if wanted devices; then
    check_unit test_device_cuda
    check_unit test_device_cuda_attention
    check_unit test_device_copy
    if [[ -x $build/bin/gemmd-gpu-shared-check ]]; then
        check 120 shared tests/gpu/shared.sh "$build" "$seconds"
    fi
fi

# --- The daemon on the GPU, over HTTP -------------------------------------------------------------
# serve LOG COMMAND...: starts a server, sets `address` and `pid`.
serve() {
    local log=$1
    shift
    : >"$log"
    "$@" >>"$log" 2>&1 &
    pid=$!
    daemons=("$pid")
    address=
    for ((i = 0; i < 300; i++)); do
        address=$(sed -n 's/.*listening on \(127\.0\.0\.1:[0-9]*\).*/\1/p' "$log" | head -n 1)
        [[ -z $address ]] || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 5 "$log"
    return 1
}
# stop: ends it; its status, which for a daemon that drained is 0.
stop() {
    kill -TERM "$pid" 2>/dev/null
    wait "$pid"
    local status=$?
    daemons=()
    return $status
}
ready() {
    for ((i = 0; i < 100; i++)); do
        if curl -fsS -o "$scratch/ready" "http://$address/readyz" 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    return 1
}

correct_over_http() {
    section "correctness over HTTP"
    if serve "$out/daemon.log" "$gemmd" --backend cuda --listen 127.0.0.1:0 --no-access-log && ready; then
        tests=()
        for test in gemm_numpy attention kernels formats large_bodies bad_parameters bad_bodies framing \
            http digits same_bytes; do
            tests+=("tests/integration/test_$test.py")
        done
        timeout -k 5 500 "$python" -m pytest -c tests/pytest.ini --rootdir tests \
            --gemmd "$gemmd" --url "http://$address" --junitxml "$scratch/report.xml" "${tests[@]}" \
            >"$out/correctness.log" 2>&1
        status=$?
        add_pytest "$out/correctness.log" $status "$scratch/report.xml"
        stop || { echo "the daemon did not drain with status 0" && ((failed += 1)); }
    else
        echo "the daemon does not start on the GPU"
        ((failed += 1))
    fi
}
if wanted http; then correct_over_http; fi
if wanted tensors; then
    section "tensors"
    timeout -k 5 400 "$python" -m pytest -c tests/pytest.ini --rootdir tests --gemmd "$gemmd" \
        --junitxml "$scratch/tensors.xml" tests/integration/test_tensor_products.py \
        tests/integration/test_stacking.py >"$out/tensors.log" 2>&1
    add_pytest "$out/tensors.log" $? "$scratch/tensors.xml"
fi

if ! wanted rates; then
    printf '\n%s passed, %s failed\n' "$passed" "$failed"
    exit $((failed > 0))
fi

# --- Rates, next to libmicrohttpd alone -----------------------------------------------------------
section "rates"
cores=$(nproc)
threads=$((cores / 2 < 1 ? 1 : cores / 2 > 16 ? 16 : cores / 2)) # the daemon's own default
rows=()
: >"$out/rates.log"
"$python" - "$scratch" <<'PYTHON' || die "no bodies could be made"
import sys
import numpy as np

random = np.random.default_rng()
for size in (64, 1024, 4096):
    random.uniform(-1, 1, 2 * size * size).astype(np.float32).tofile(f"{sys.argv[1]}/{size}.f32")
PYTHON

# load URL BODY CONNECTIONS SECONDS: one run of wrk; sets rate, p50_us, p99_us, refused, broken.
load() {
    local threads=$(($3 < 4 ? $3 : 4)) report
    report=$("$wrk" -t "$threads" -c "$3" -d "$4s" --timeout 30s -s tests/bench/post.lua "$1" -- \
        "$2" 2>&1)
    printf '%s\n%s\n' "$1 $2 connections=$3" "$report" >>"$out/rates.log"
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

# measure SIZE CONNECTIONS BUFFER: three runs each, in turn, of both servers.
measure() {
    local size=$1 connections=$2 buffer=$3 body=$scratch/$1.f32
    local bytes=$((2 * size * size * 4)) answer=$((size * size * 4)) own_pid own their_pid theirs
    serve "$scratch/own.log" "$gemmd" --backend cuda --listen 127.0.0.1:0 --no-access-log \
        --connection-buffer "$buffer" --pinned-bytes 4G || return 1
    own_pid=$pid own=$address
    ready || return 1
    curl -fsS "http://$own/info" >"$scratch/info.json"
    # What is measured must be a product: checked once by the daemon's own arithmetic check.
    curl -fsS -o "$scratch/c" -D "$scratch/headers" --data-binary "@$body" -H 'Expect:' \
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
        echo "run $run" >>"$out/rates.log"
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

if command -v "$wrk" >/dev/null; then
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
else
    echo "there is no wrk: no rates"
    ((failed += 1))
fi

# --- The table ------------------------------------------------------------------------------------
largest() { cut -d , -f "$1" "$scratch/gpu.csv" 2>/dev/null | sort -g | tail -n 1 | tr -d ' '; }
library=$(sed -n 's/.*"library": *"\([^"]*\)".*/\1/p' "$scratch/info.json" 2>/dev/null | head -n 1)
{
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
} >"$out/$name.md"
section "the table: $out/$name.md"
cat "$out/$name.md"
printf '\n%s passed, %s failed\n' "$passed" "$failed"
((failed == 0))

#!/usr/bin/env bash
# Checks gemmd on a machine with an NVIDIA GPU, and measures it there. Needs no network and no
# compiler: the binaries are built already, and a copied tree will do.
set -uo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/gpu/run.sh [--build DIR] [--out DIR] [--seconds N] [--limit N] [--python PROGRAM]
                        [PART ...]

Parts, in this order; those marked * if none is named. Each has a time limit of its own, and what
fails or hangs in one stops no other:
  smoke     every attention kernel and type in a process of its own, within a minute; those that
            don't end are left out of what follows by --without-kernels
  kernels*  every kernel of attention, convolutions, reductions and softmaxes against a reference, and copies,
            without the daemon
  products* the same for products, in eight processes by types, and for many in a launch; the
            check of products on the GPU against the host's, and what it costs
  memcheck* the same, fewer, under compute-sanitizer: memcheck, and synccheck of the kernels
  devices*  the daemon's own device code, and memory that clients share
  http*     a daemon on the GPU, over HTTP; GEMMD_SAME_BYTES_REQUESTS=N compares so many answers
            under mixed load with those of the same requests alone
  tensors*  resident tensors, rows stacked on them, sequences, and computations that nobody waits for
            any more: daemons of the tests' own
  operations*
            what an operator relies on: figures of NVML, the number of series, memory, a reload and a
            replacement under load
  faults    calls of CUDA that fail, one call site after another, kernels that trap and kernels that
            hang (gemmd-failing-cuda), and how long a daemon takes to compute again after a trap
  gpus      a daemon with all GPUs of the machine, which needs two: the bytes are those of one GPU
            (GEMMD_SAME_BYTES_REQUESTS=N as for http); gemmd-bench devices and tests/bench/devices.sh,
            each of which writes a table
  attention attention kernels and their tiles timed (gemmd-bench attention); writes a table
  conv      convolution kernels and their tiles timed (gemmd-bench conv); writes a table
  rows      kernels of reductions and softmaxes timed (gemmd-bench reduce, softmax); writes tables
  cudnn     attention next to cuDNN and FlashAttention (version 3 where Python finds its wheel, fa3-fwd), and
            convolutions next to cuDNN; writes two
            tables. Needs PyTorch
  ladder    the rungs in CuPy and Triton beside ours, cuBLAS and cuDNN (tests/bench/ladder); writes a
            table and its curves. Needs PyTorch
  counters  what Nsight Compute counts of the rungs, their tiles and patterns of access
            (tests/gpu/counters.py); writes a table
  serving   the serving rows of the targets (tests/bench/serve.sh); writes a table
  perf_analyzer
            Triton's load generator in every mode: sync, async, system and CUDA shared memory,
            metrics; needs build-tests/perf_analyzer as tests/run.sh makes it, with libb64.so.0d on the
            machine or in its folder lib
  ways      TCP, Unix socket and shared memory next to each other (tests/bench/ways.sh); writes a
            table
  rates*    requests per second, next to libmicrohttpd alone; writes the table

  --build DIR       where bin/, lib/ and tests/ of a build lie (default build), or what
                    tests/gpu/pack.sh packed of one
  --out DIR         where tables and logs go (default $OUT, else tests/bench/results); the logs are
                    packed in one file, logs-PART.tar.gz, which is brought up to date all the time
  --seconds N       length of each measurement (default 5)
  --limit N         seconds for everything; what is left by then is not run (default 3600)
  --python PROGRAM  a Python with pytest, requests, numpy, scipy, ml_dtypes, safetensors and
                    scikit-learn (default build-tests/venv/bin/python if it is there, else python3)

The rates and serving need wrk (in bin/, on PATH, or named by the environment variable WRK).
TEXT
}
die() {
    printf 'gpu/run.sh: %s\n' "$*" >&2
    exit 2
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
build=build out=${OUT:-tests/bench/results} seconds=5 limit=3600 python='' parts=()
while (($#)); do
    case $1 in
    --build | --out | --seconds | --limit | --python)
        [[ -n ${2-} ]] || die "$1 takes a value"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    smoke | kernels | products | memcheck | devices | http | tensors | operations | faults | gpus | rates | \
        attention | conv | rows | cudnn | ladder | counters | serving | perf_analyzer | ways)
        parts+=("$1")
        ;;
    *)
        usage >&2
        die "neither an option nor a part: '$1'"
        ;;
    esac
    shift
done
((${#parts[@]})) || parts=(kernels products memcheck devices http tensors operations rates)
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
# For two parts only: a daemon refuses variables that begin with GEMMD_ and are no options of it.
same_bytes=()
if [[ -n ${GEMMD_SAME_BYTES_REQUESTS-} ]]; then
    same_bytes=("GEMMD_SAME_BYTES_REQUESTS=$GEMMD_SAME_BYTES_REQUESTS")
    unset GEMMD_SAME_BYTES_REQUESTS
fi
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds takes a whole number"
[[ $limit =~ ^[1-9][0-9]*$ ]] || die "--limit takes a whole number"
if [[ -z $python ]]; then
    python=python3
    [[ ! -x build-tests/venv/bin/python ]] || python='build-tests/venv/bin/python'
fi
build=$(cd "$build" 2>/dev/null && pwd) || die "there is no build folder"
export PATH=$build/bin:$PATH
gemmd=$build/bin/gemmd
for program in gemmd gemmd-gpu-check gemmd-gpu-attention-check gemmd-gpu-group-check \
    gemmd-gpu-conv-check gemmd-gpu-copy-check gemmd-gpu-reduce-check \
    gemmd-gpu-verify-check gemmd-bench-mhd-alone; do
    [[ -x $build/bin/$program ]] || die "$build/bin/$program is not there; build first"
done
timeout 60 nvidia-smi -L >/dev/null || die "no NVIDIA GPU answers"
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)

scratch=$(mktemp -d)
logs=$scratch/logs-$(IFS=-; echo "${parts[*]}")
mkdir "$logs"
daemons=() watcher=
pack_logs() { tar -C "$scratch" -czf "$out/${logs##*/}.tar.gz" "${logs##*/}"; }
# shellcheck disable=SC2317  # called by the trap
clean_up() {
    # shellcheck disable=SC2086  # none is no word
    kill -KILL "${daemons[@]}" $watcher 2>/dev/null
    pack_logs
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# supply_libraries: those that pack.sh brought and that this machine lacks. Not the others: its own
# fit its Python.
supply_libraries() {
    local missing name
    export LD_LIBRARY_PATH=$scratch/lib:$build/lib:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    mkdir "$scratch/lib"
    for _ in 1 2 3 4 5; do
        missing=$(ldd "$build"/bin/* "$build"/tests/{test_*,gemmd-failing-cuda} 2>/dev/null |
            sed -n 's/^\t*\(.*\) => not found.*/\1/p' | sort -u)
        [[ -n $missing ]] || return 0
        for name in $missing; do
            [[ ! -e $build/lib/brought/$name ]] || ln -sf "$build/lib/brought/$name" "$scratch/lib/"
        done
    done
    printf 'missing: %s\n' "$missing" | tr '\n' ' '
    echo
}
supply_libraries

passed=0 failed=0
section() {
    pack_logs
    printf '\n==== %s (%ss)\n' "$*" "$SECONDS"
}
# within LIMIT_S COMMAND...: for at most so long, and no longer than all may take. What does not end
# is killed, with all that it started; 124 or 137.
within() {
    local most=$1 left=$((limit - SECONDS))
    shift
    ((left > 5)) || { echo "no time is left" && return 124; }
    timeout -k 5 $((most < left - 5 ? most : left - 5)) "$@"
}
# count LOG STATUS: sums the "N passed, N failed" of a log, which are in `good` and `bad`; a bad end
# without a count is a failure.
count() {
    local counts
    good=0 bad=0
    counts=$(grep -Eo '[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1)
    if [[ -n $counts ]]; then read -r good _ bad _ <<<"$counts"; fi
    if (($2 != 0 && bad == 0)) || [[ -z $counts && $2 == 0 ]]; then bad=1; fi
    ((passed += good, failed += bad))
}
# add LOG STATUS: counts it, and says so.
add() {
    local good bad
    count "$1" "$2"
    printf '%s: %s passed, %s failed\n' "$(basename "$1" .log)" "$good" "$bad"
}

# show_failure LOG STATUS: what one wants to know of it without the log.
show_failure() {
    case $2 in
    0) ;;
    124 | 137) echo "did not end in time" ;;
    *) echo "status $2" ;;
    esac
    grep -aE '[1-9][0-9]* failed|first:|BAD|rror|FAILED|missing' "$1" | cut -c 1-240 | tail -n 8
}

gpu_field() { timeout 20 nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits --id=0 | head -n 1; }
gpu=$(gpu_field name)
driver=$(gpu_field driver_version)
when=$(date -u +%Y-%m-%d)
name=gpu-$when-$(tr '[:upper:] ' '[:lower:]-' <<<"${gpu#NVIDIA }" | tr -cd 'a-z0-9-')
revision=$("$gemmd" --version)
printf '%s, driver %s, %s\n' "$gpu" "$driver" "$revision"

# add_pytest LOG STATUS: from the lines of a log of `pytest -v`, which may have been cut off.
add_pytest() {
    local good bad
    good=$(grep -caE ' PASSED' "$1")
    bad=$(grep -caE ' (FAILED|ERROR) ' "$1")
    printf '%s passed, %s failed\n' "$good" "$bad" >>"$1"
    add "$1" "$2"
    (($2 == 0)) || {
        (($2 != 124 && $2 != 137)) || echo "did not end in time"
        grep -aE '^(FAILED|ERROR) |::.* (FAILED|ERROR) ' "$1" | cut -c 1-240 | tail -n 20
    }
}

# check LIMIT_S LOG COMMAND...: runs it, and adds what it counted.
check() {
    local most=$1 log=$logs/$2.log status
    shift 2
    section "$(basename "$log" .log)"
    within "$most" "$@" >"$log" 2>&1
    status=$?
    add "$log" $status
    ((status == 0)) || show_failure "$log" $status
}

# check_unit NAME: a Check program, if it was built.
check_unit() {
    local log=$logs/$1.log status counts
    [[ -x $build/tests/$1 ]] || return 0
    section "$1"
    CK_DEFAULT_TIMEOUT=240 within 240 "$build/tests/$1" >"$log" 2>&1
    status=$?
    counts=$(sed -n 's/.*Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2 \3/p' "$log")
    awk '{ printf "%d passed, %d failed\n", $1 - $2 - $3, $2 + $3 }' <<<"$counts" >>"$log"
    add "$log" $status
}

# --- Many processes at once -----------------------------------------------------------------------
# at_once LIMIT_S NAME:COMMAND...: each with its own log; what one does to its context is nothing to
# the others. Waits for all of them; sets statuses[NAME].
declare -A statuses
at_once() {
    local most=$1 name job
    local -A running=()
    shift
    for job in "$@"; do
        name=${job%%:*}
        # shellcheck disable=SC2086  # words
        within "$most" ${job#*:} >"$logs/$name.log" 2>&1 &
        running[$name]=$!
    done
    for name in "${!running[@]}"; do
        wait "${running[$name]}"
        statuses[$name]=$?
    done
}

# together LIMIT_S NAME:COMMAND...: at once, with a line for each.
together() {
    local name job
    at_once "$@"
    shift
    for job in "$@"; do
        name=${job%%:*}
        add "$logs/$name.log" "${statuses[$name]}"
        ((statuses[$name] == 0)) || show_failure "$logs/$name.log" "${statuses[$name]}"
    done
}

# in_shares N LIMIT_S NAME COMMAND...: a check in N processes, each with its own log, NAME-I; one
# line for all of them.
in_shares() {
    local shares=$1 most=$2 name=$3 jobs=() i good bad sum_good=0 sum_bad=0
    shift 3
    section "$name"
    for ((i = 0; i < shares; i++)); do jobs+=("$name-$i:$* --share $i/$shares"); done
    at_once "$most" "${jobs[@]}"
    for ((i = 0; i < shares; i++)); do
        count "$logs/$name-$i.log" "${statuses[$name-$i]}"
        ((sum_good += good, sum_bad += bad))
    done
    printf '%s: %s passed, %s failed\n' "$name" "$sum_good" "$sum_bad"
    for ((i = 0; i < shares; i++)); do
        ((statuses[$name-$i] == 0)) || {
            echo "share $i of $shares:"
            show_failure "$logs/$name-$i.log" "${statuses[$name-$i]}"
        }
    done
}

# --- Attention kernels, each in processes of its own ------------------------------------------------
attention_kernels=(naive tiled flash_mma flash_wgmma decode)

smoke() {
    local jobs=() kernel dtype out_of=()
    section "smoke"
    for kernel in "${attention_kernels[@]}"; do
        for dtype in f32 f16 bf16; do
            [[ $dtype == f32 && ! $kernel =~ naive|tiled ]] || jobs+=(
                "smoke-$kernel-$dtype:$build/bin/gemmd-gpu-attention-check --smoke --kernels $kernel --dtype $dtype")
        done
    done
    together 45 "${jobs[@]}"
    for kernel in "${attention_kernels[@]}"; do
        for dtype in f32 f16 bf16; do
            # What is wrong the daemon finds itself; what faults or hangs would end it.
            if [[ ${statuses[smoke-$kernel-$dtype]:-0} != [01] ]] ||
                grep -qs 'stopped early' "$logs/smoke-$kernel-$dtype.log"; then
                out_of+=("$kernel")
                break
            fi
        done
    done
    if ((${#out_of[@]})); then # every daemon from here on takes it from there
        GEMMD_WITHOUT_KERNELS=$(IFS=, && echo "${out_of[*]}")
        export GEMMD_WITHOUT_KERNELS
    fi
    echo "left out from here on: ${out_of[*]:-none}"
}
if wanted smoke; then smoke; fi

check_attention() {
    local jobs=() kernel
    section "attention"
    for kernel in "${attention_kernels[@]}"; do
        jobs+=("attention-$kernel:$build/bin/gemmd-gpu-attention-check --kernels $kernel")
    done
    jobs+=("attention-tiles:$build/bin/gemmd-gpu-attention-check --tiles")
    together 240 "${jobs[@]}"
}

conv_types=(f32 tf32 f16 bf16 i8-i32 i8-f32)

check_conv() {
    local jobs=() type
    section "convolutions"
    for type in "${conv_types[@]}"; do
        jobs+=("conv-$type:$build/bin/gemmd-gpu-conv-check --dtype $type")
    done
    together 240 "${jobs[@]}"
}

# --- Every kernel against the reference, without the daemon ---------------------------------------
if wanted kernels; then
    check_attention
    check_conv
    check 60 copies "$build/bin/gemmd-gpu-copy-check"
    in_shares 8 240 reductions "$build/bin/gemmd-gpu-reduce-check"
fi
if wanted products; then
    in_shares 8 240 products "$build/bin/gemmd-gpu-check" # most of the time is the host's
    check 240 verification "$build/bin/gemmd-gpu-verify-check"
    section "cost of verification"
    within 60 "$build/bin/gemmd-gpu-verify-check" --time | tee "$logs/verification-cost.log"
    in_shares 4 240 groups "$build/bin/gemmd-gpu-group-check" --bytes
fi

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)
memcheck="not run"
if wanted memcheck && [[ -z $sanitizer ]]; then
    memcheck="not run: there is no compute-sanitizer"
elif wanted memcheck; then
    section "memcheck and synccheck"
    jobs=()
    for tool in memcheck synccheck; do
        under="$sanitizer --tool $tool --error-exitcode 9"
        [[ $tool == synccheck ]] || under+=" --leak-check full"
        for i in {0..12}; do # a pair of types each: f32's takes the longest
            jobs+=("$tool-products-$i:$under $build/bin/gemmd-gpu-check --quick --share $i/13")
        done
        jobs+=("$tool-verification:$under $build/bin/gemmd-gpu-verify-check"
            "$tool-groups:$under $build/bin/gemmd-gpu-group-check --quick"
            "$tool-copies:$under $build/bin/gemmd-gpu-copy-check --quick"
            "$tool-reductions:$under $build/bin/gemmd-gpu-reduce-check --quick")
        for kernel in "${attention_kernels[@]}"; do
            jobs+=("$tool-attention-$kernel:$under $build/bin/gemmd-gpu-attention-check --quick --kernels $kernel")
        done
        for type in "${conv_types[@]}"; do
            jobs+=("$tool-conv-$type:$under $build/bin/gemmd-gpu-conv-check --quick --dtype $type")
        done
    done
    together 300 "${jobs[@]}"
    memcheck=$(grep -ho 'ERROR SUMMARY:.*' "$logs"/{mem,sync}check-*.log | sort | uniq -c | tr -s ' \n' ' ')
    memcheck="${memcheck:-none ended}of ${#jobs[@]}"
fi

# --- The daemon's device, and memory that is shared with it ----------------------------------------
if wanted devices; then
    check_unit test_cuda_device
    check_unit test_cuda_task_group
    check_unit test_cuda_own_launch
    check_unit test_device_copy
    if [[ -x $build/bin/gemmd-gpu-shared-check ]]; then
        check 120 shared tests/gpu/shared.sh "$build"
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
    timeout 30 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null
    wait "$pid"
    local status=$?
    daemons=()
    return $status
}
ready() {
    for ((i = 0; i < 100; i++)); do
        if curl -fsS --max-time 10 -o "$scratch/ready" "http://$address/readyz" 2>/dev/null; then return 0; fi
        sleep 0.1
    done
    return 1
}

correct_over_http() {
    section "correctness over HTTP"
    if serve "$logs/daemon.log" "$gemmd" --backend cuda --listen 127.0.0.1:0 --no-access-log && ready; then
        tests=()
        for test in attention attention_terms packed kernels formats large_bodies bad_parameters bad_bodies framing \
            http digits same_bytes gemm_numpy conv2d reduce softmax; do
            tests+=("tests/integration/test_$test.py")
        done
        within 500 env "${same_bytes[@]}" "$python" -u -m pytest -c tests/pytest.ini --rootdir tests \
            -vv --gemmd "$gemmd" --url "http://$address" "${tests[@]}" >"$logs/correctness.log" 2>&1
        status=$?
        add_pytest "$logs/correctness.log" $status
        stop || { echo "the daemon did not drain with status 0" && ((failed += 1)); }
    else
        echo "the daemon does not start on the GPU"
        ((failed += 1))
    fi
}
if wanted http; then correct_over_http; fi
if wanted tensors; then
    section "tensors"
    within 400 "$python" -u -m pytest -c tests/pytest.ini --rootdir tests --gemmd "$gemmd" \
        -vv tests/integration/test_tensor_products.py tests/integration/test_stacking.py \
        tests/integration/test_sequences.py tests/integration/test_sequence_attention.py \
        tests/integration/test_long_computations.py >"$logs/tensors.log" 2>&1
    add_pytest "$logs/tensors.log" $?
fi

if wanted operations; then
    section "operations"
    within 200 "$python" -u -m pytest -c tests/pytest.ini --rootdir tests --gemmd "$gemmd" \
        -vv tests/integration/test_on_gpu.py >"$logs/operations.log" 2>&1
    add_pytest "$logs/operations.log" $?
fi

if wanted faults; then
    section "faults"
    within 200 "$python" -u -m pytest -c tests/pytest.ini --rootdir tests --gemmd "$gemmd" \
        -vv tests/integration/test_cuda_faults.py >"$logs/faults.log" 2>&1
    add_pytest "$logs/faults.log" $?
    section "a lost device"
    within 100 "$python" -u tests/reliability/lost_device.py --gemmd "$gemmd" --count 3 --rows "$out" \
        >"$logs/lost-device.log" 2>&1 || ((failed += 1))
    tail -n 3 "$logs/lost-device.log"
fi

if wanted gpus; then
    section "gpus"
    within 300 env "${same_bytes[@]}" "$python" -u -m pytest -c tests/pytest.ini --rootdir tests \
        --gemmd "$gemmd" -vv tests/integration/test_gpus.py >"$logs/gpus.log" 2>&1
    add_pytest "$logs/gpus.log" $?
fi

# --- Kernels timed; the serving rows ---------------------------------------------------------------
# table LIMIT_S NAME FILE COMMAND...: runs what writes a table to $out; its log is kept.
table() {
    local most=$1 log=$logs/$2.log file=$out/$3 status
    section "$2"
    shift 3
    within "$most" "$@" >"$log" 2>&1
    status=$?
    ((status == 0)) || { show_failure "$log" $status && ((failed += 1)); }
    [[ ! -s $file ]] || printf '%s lines in %s\n' "$(wc -l <"$file")" "$file"
}

if wanted attention; then
    for dtype in bf16 f16; do
        table 200 "attention-times-$dtype" "attention-$dtype-$when.md" "$build/bin/gemmd-bench" \
            attention --dtype "$dtype" --seconds 180 --out "$out/attention-$dtype-$when.md"
    done
fi
if wanted conv; then
    table 300 conv-times "conv-$when.md" "$build/bin/gemmd-bench" conv --seconds 280 \
        --out "$out/conv-$when.md"
fi
if wanted rows; then
    for operation in reduce softmax; do
        table 200 "$operation-times" "$operation-$when.md" "$build/bin/gemmd-bench" "$operation" \
            --seconds 180 --out "$out/$operation-$when.md"
    done
fi
if wanted cudnn; then
    table 300 conv-cudnn "conv-cudnn-$when.md" env PYTHONUNBUFFERED=1 "$python" \
        tests/bench/conv_cudnn.py --library "$build/lib/libgemmd_bench_conv.so" --seconds 280 \
        --dtype bf16,f16 --out "$out/conv-cudnn-$when.md"
    table 300 cudnn "cudnn-$when.md" env PYTHONUNBUFFERED=1 "$python" tests/bench/attention_cudnn.py \
        --library "$build/lib/libgemmd_bench_attention.so" --seconds 280 --dtype bf16,f16 \
        --out "$out/cudnn-$when.md"
fi
if wanted ladder; then
    table 180 ladder "rungs-$when.md" env PYTHONUNBUFFERED=1 "$python" tests/bench/ladder \
        --library "$build/lib/libgemmd_bench_ladder.so" --out "$out/rungs-$when.md"
fi
if wanted counters; then
    table 240 counters "counters-$when.md" "$python" tests/gpu/counters.py --build "$build" \
        --out "$out/counters-$when.md"
fi
if wanted serving; then
    table 560 serving "none" env PYTHONUNBUFFERED=1 tests/bench/serve.sh --build "$build" \
        --out "$out" --backend cuda --seconds "$((seconds * 9 / 5))" --python "$python"
    tail -n 40 "$logs/serving.log" | cut -c 1-200
fi

if wanted perf_analyzer; then
    section "perf_analyzer"
    within 400 "$python" -u -m pytest -c tests/pytest.ini --rootdir tests --gemmd "$gemmd" \
        -vv tests/integration/test_perf_analyzer.py >"$logs/perf_analyzer.log" 2>&1
    add_pytest "$logs/perf_analyzer.log" $?
fi
if wanted ways; then
    table 300 ways "none" tests/bench/ways.sh --build "$build" --out "$out" --backend cuda \
        --seconds "$seconds"
    tail -n 5 "$logs/ways.log"
fi

if wanted gpus; then
    table 60 links "links-$when.md" "$build/bin/gemmd-bench" devices --out "$out/links-$when.md"
    [[ ! -s $out/links-$when.md ]] || cat "$out/links-$when.md"
    table 400 devices-bench "none" env PYTHONUNBUFFERED=1 \
        tests/bench/devices.sh --build "$build" --out "$out" --seconds "$seconds"
    tail -n 8 "$logs/devices-bench.log"
fi

if wanted rates; then
    # shellcheck disable=SC1091  # checked by itself
    source tests/gpu/rates.sh
    measure_rates
    write_table >"$out/$name.md"
    section "the table: $out/$name.md"
    cat "$out/$name.md"
fi
printf '\n%s passed, %s failed\n' "$passed" "$failed"
((failed == 0))

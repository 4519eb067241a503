# shellcheck shell=bash disable=SC2154  # the variables of tests/run.sh, run/builds.sh and run/report.sh
# The parts of tests/run.sh, each a function part_NAME.

# Tests have limits of their own (ctest --timeout, faulthandler_timeout in pytest.ini). This one ends a run
# that hangs outside its tests, and is far from what a slow machine takes.
limit=(timeout -k 10 14400)
run_under=()

# Check ends a test after 4 seconds, less than a sanitizer on a busy machine may need.
export CK_TIMEOUT_MULTIPLIER=30

# Threads of OpenBLAS that have nothing to do spin for 2^26 cycles before they sleep, at each start of a daemon and after
# each of its calls. Other tests can use the cores: 2^4 cycles.
export OPENBLAS_THREAD_TIMEOUT=4

run_unit() { # PRESET CTEST_OPTIONS...
    local preset=$1 report=$root/$out/unit-$1.xml status
    shift
    rm -f "$report"
    "${run_under[@]}" "${limit[@]}" ctest --test-dir "$out/$preset" --output-on-failure -j "$jobs" \
        --output-junit "$report" --timeout 1200 --no-tests=error "$@"
    status=$?
    tally "unit ($preset)" "$report" "$status" "ctest --test-dir $out/$preset --output-on-failure -R"
}

run_pytest() { # NAME PRESET PYTEST_OPTIONS...
    local name=$1 preset=$2 report=$root/$out/$1-$2.xml status
    local again="$venv/bin/python -m pytest -c tests/pytest.ini --gemmd $out/$preset/bin/gemmd"
    shift 2
    [[ $name == deploy ]] || again+=" --seed $seed"
    rm -f "$report"
    "${run_under[@]}" "${limit[@]}" "$venv/bin/python" -m pytest -c tests/pytest.ini \
        --rootdir tests --gemmd "$out/$preset/bin/gemmd" --junitxml "$report" "$@"
    status=$?
    tally "$name ($preset)" "$report" "$status" "$again"
}

# Tests wait for deadlines, and daemons for tests: with a process for each core, a fourth of the cores' time was idle.
run_integration() { # PRESET PYTEST_OPTIONS...
    run_pytest integration "$1" --seed "$seed" -n $(((3 * jobs + 1) / 2)) --dist worksteal "${@:2}"
}

# today FILES...: sets `drawn` to a twentieth of the files, another one each day.
today() {
    local number=$day file
    drawn=()
    for file in "$@"; do
        if ((number++ % 20 == 0)); then drawn+=("$file"); fi
    done
}

part_lint() {
    # shellcheck disable=SC2034  # options_of sets targets
    local linted=cpu options targets c_files scripts compiled drawn
    section "lint"
    # The linters read compile commands, and those of a build with CUDA name the most files.
    if uses_cuda; then linted=cuda; fi
    options_of "$linted"
    step "compile commands ($linted)" configure "$linted" "${options[@]}"
    build_ahead
    mapfile -t c_files < <(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
    mapfile -t scripts < <(git ls-files '*.sh' .ci/run 'deploy/packages/debian/p*')
    # What was left out of this build has no compile command; the CPU-only twin of a file is built
    # by the sanitizer presets.
    mapfile -t compiled < <(git ls-files '*.c' | while read -r file; do
        if grep -q "\"file\": \"$root/$file\"" "$out/$linted/compile_commands.json"; then echo "$file"; fi
    done)
    step "clang-format" clang-format --dry-run -Werror "${c_files[@]}"
    # The checks clang-analyzer-* take most of the time: --all has them for some of the files, and
    # -fanalyzer below for all.
    if [[ $tier == nightly ]]; then
        step "clang-tidy" tidy '' "${compiled[@]}"
    else
        today "${compiled[@]}"
        step "clang-tidy without clang-analyzer" tidy '-clang-analyzer-*' "${compiled[@]}"
        step "clang-tidy, files of today" tidy '' "${drawn[@]}"
    fi
    step "cppcheck" cpp_check "${compiled[@]}"
    step "gcc -fanalyzer" analyze
    step "shellcheck" shellcheck -x "${scripts[@]}"
}
tidy() { # CHECKS FILES...
    # Warnings of the compiler are for gcc: clang has others. One file for each process, because the
    # analyser of clang 14 takes the va_list of a second file for an uninitialized one.
    printf '%s\n' "${@:2}" | xargs -P "$jobs" -n 1 clang-tidy --quiet --checks="$1" --extra-arg=-Wno-error \
        -p "$out/$linted" 2> >(grep -v 'warnings\? generated' >&2)
}
# The exit status says nothing of what is found across files.
cpp_check() {
    local found status
    mkdir -p "$out/cppcheck"
    found=$(cppcheck --quiet -j "$jobs" --std=c11 --cppcheck-build-dir="$out/cppcheck" --inline-suppr \
        --enable=warning,performance,portability --error-exitcode=1 \
        --suppressions-list=tests/cppcheck.supp -D_GNU_SOURCE -DGEMMD_VERSION='""' \
        -I . -I proto/include -I client/include "$@" 2>&1)
    status=$?
    [[ -z $found ]] || printf '%s\n' "$found"
    [[ $status == 0 && -z $found ]]
}
analyze() {
    configure analyze && cmake --build "$out/analyze" -j "$jobs" -- --quiet -k 0
}

part_unit() {
    need_build "$backend" || return
    section "unit ($backend)"
    run_unit "$backend"
    # The first tier simulates the first 1,000 seeds, as a unit test.
    [[ $tier != first ]] || return
    step "planted faults" python3 tests/simulate/faults.py "$out/$backend"
    [[ $tier == nightly ]] || return
    step "100,000 seeds from $seed" simulate_seeds
}
simulate_seeds() {
    seq "$seed" 1000 $((seed + 99000)) |
        xargs -P "$jobs" -I '{}' "$out/$backend/tests/gemmd-simulate" --seed '{}' --seeds 1000
}

part_integration() {
    local thin=()
    need_build "$backend" || return
    section "integration ($backend)"
    # test_gemm_cpu and its like have computed every case by now, without HTTP. A GPU has no such tests.
    [[ $tier == nightly || $backend == cuda ]] || thin=(--thin)
    run_integration "$backend" --tier "$tier" "${thin[@]}" tests/integration
}

part_deploy() {
    need_build "$backend" || return
    local marks=()
    [[ $tier == nightly ]] || marks=(-m 'not nightly')
    section "deploy"
    run_pytest deploy "$backend" "${marks[@]}" tests/deploy
}

part_cuda() {
    if ! compiles_cuda; then
        section "cuda"
        if [[ -n $cpu_only ]]; then
            echo "left out: --cpu"
        elif [[ $backend == cuda ]]; then
            echo "left out: the other parts test the build with CUDA"
        else
            echo "left out: there is no CUDA toolkit"
        fi
    elif need_build cuda; then
        section "unit (cuda)"
        run_unit cuda -L cuda
        section "integration (cuda)"
        run_integration cuda tests/integration/test_{machine_code,bad_starts,kernels,gpu_metrics,choice_replay}.py
    fi
}

# The sanitizers look at the daemon, gemmctl and the unit tests; Python stays outside. They run the files
# that tests/integration/tiers.txt gives them, without the tests that are marked `slow`. --all thins the
# matrices.
sanitized() { # PRESET CTEST_OPTIONS...
    local thin=(--thin)
    need_build "$1" || return
    section "unit ($1)"
    run_unit "$@"
    [[ $tier != first ]] || return
    [[ $tier != nightly ]] || thin=()
    section "integration ($1)"
    run_integration "$1" --tier "$tier" --sanitizer "$1" "${thin[@]}" -m 'not slow' tests/integration
}
part_asan() {
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    sanitized asan
}
part_tsan() {
    # No thread of ours runs on when its process ends, and ThreadSanitizer would wait a second for what such threads do.
    export TSAN_OPTIONS="suppressions=$root/tests/tsan.supp:second_deadlock_stack=1:atexit_sleep_ms=0"
    # Its shadow memory needs the addresses that much randomisation of the layout takes away.
    if setarch "$(uname -m)" -R true 2>/dev/null; then run_under=(setarch "$(uname -m)" -R); fi
    sanitized tsan -LE one_thread
    run_under=()
}

part_msan() {
    local drawn=()
    export MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0 # tests/sanitizers/poison.h says why
    if ! can_use_msan; then
        section "msan"
        echo "left out: there is no clang with MemorySanitizer"
    elif need_build msan; then
        section "unit (msan)"
        # A third of the programs, another third each day.
        [[ $tier == nightly ]] || drawn=(-I "$((day % 3 + 1)),,3")
        run_unit msan -R '^(test|fuzz)_' -LE uninstrumented "${drawn[@]}"
    fi
}

# A harness reads its corpus, then inputs that libFuzzer makes of it. The time is per harness.
part_fuzz() {
    local harnesses
    fuzz_seconds=${FUZZ_SECONDS:-4}
    if [[ $tier == nightly ]]; then fuzz_seconds=${FUZZ_SECONDS:-120}; fi
    if ! can_fuzz; then
        section "fuzz"
        echo "left out: there is no clang with libFuzzer"
    elif need_build fuzz; then
        section "fuzz, $fuzz_seconds s each"
        export -f fuzz_one
        export root out fuzz_seconds
        harnesses=("$out"/fuzz/tests/fuzz_*)
        step "fuzz" xargs -P "$jobs" -I '{}' bash -c 'fuzz_one {}' < <(printf "$root/%s\n" "${harnesses[@]}")
    fi
}
fuzz_one() { # HARNESS
    local found=$root/$out/fuzz/found/${1##*/fuzz_}
    mkdir -p "$found"
    "$root/tests/fuzz/run_one.sh" "$1" "$fuzz_seconds" "$found" >"$found.log" 2>&1 && return
    tail -n 40 "$found.log"
    return 1
}

part_quickstart() {
    local tree
    section "quickstart, in a fresh copy"
    # What a newcomer has: the tracked files and nothing built.
    tree=$(mktemp -d "$root/$out/quickstart.XXXXXX")
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tree"
    step "quickstart, first run" "$tree/deploy/quickstart.sh" --cpu --port 0
    step "quickstart leaves the daemon running" left_running
    step "quickstart stops no daemon for a port that is taken" port_taken
    step "quickstart, second run, --once" "$tree/deploy/quickstart.sh" --cpu --port 0 --once
    step "quickstart --once leaves no daemon" nothing_left
    step "quickstart --installed" env PATH="$tree/build/bin:$PATH" "$tree/deploy/quickstart.sh" --installed --port 0 --once
    rm -rf "$tree"
}
left_running() { kill -0 "$(cat "$tree/build/run/gemmd.pid")"; }
# A daemon beside that of the first run has the port.
port_taken() {
    local log=$root/$out/port_taken.log taken status=1 other
    "$tree/build/bin/gemmd" --backend cpu --listen 127.0.0.1:0 </dev/null >"$log" &
    other=$!
    while kill -0 "$other" && ! taken=$(grep -o 'listening on 127\.0\.0\.1:[0-9]*' "$log"); do sleep 0.1; done
    "$tree/deploy/quickstart.sh" --cpu --port "${taken##*:}" 2>"$log" || status=0
    grep "another program listens on port ${taken##*:}" "$log" && left_running || status=1
    kill "$other" && wait "$other"
    return "$status"
}
nothing_left() { [[ ! -e $tree/build/run/gemmd.pid ]]; }

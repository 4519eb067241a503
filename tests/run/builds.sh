# shellcheck shell=bash disable=SC2154  # out, root, jobs and tier are variables of tests/run.sh
# The builds of tests/run.sh, each in the folder of its preset in build-tests.

# Objects that two builds compile with the same options (release, Debian packages, RPM packages) come from
# ccache, where it is installed.
use_ccache() {
    command -v ccache >/dev/null || return 0
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR=${CCACHE_DIR:-$root/$out/ccache} CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
}

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

# options_of PRESET: sets `options` to what the tier configures the preset with, and `targets` to what it builds (none:
# all). A host without a GPU runs no kernel of CUDA: there --all compiles for Hopper alone, which has most of the
# kernels, and leaves out what it tests with the CPU backend; --nightly compiles for all architectures and builds all.
options_of() {
    options=(-DGEMMD_TESTS=ON) targets=()
    case $1 in
    cuda)
        if [[ $tier == nightly ]] || has_gpu; then
            options+=(-UCMAKE_CUDA_ARCHITECTURES -DGEMMD_CUDA_PLAIN=OFF)
        else
            options+=(-DCMAKE_CUDA_ARCHITECTURES=90a-real -DGEMMD_CUDA_PLAIN=ON)
            targets=(--target gemmd gemmctl cuda_tests tests/bench/all tests/faults/all tests/gpu/all)
        fi
        ;;
    asan)
        if [[ $tier == nightly ]]; then options+=(-DGEMMD_WHOLE_CASES=ON); else options+=(-DGEMMD_WHOLE_CASES=OFF); fi
        ;;
    esac
}

# build PRESET: configures it and builds what the tier tests of it.
build() {
    local options targets
    options_of "$1"
    configure "$1" "${options[@]}" && compile "$1" "${targets[@]}"
}

# need_build PRESET: builds it, unless that was done before.
built=
need_build() {
    [[ " $built " != *" $1 "* ]] || return 0
    section "build ($1)"
    step "build ($1)" build "$1" && built+=" $1"
}

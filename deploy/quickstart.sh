#!/usr/bin/env bash
# Installs missing packages, builds gemmd or takes the installed one, starts the daemon, computes a product with curl
# and checks the product. For Debian 12 and Ubuntu 24.04, as root or with sudo. Can be run again at any time.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: deploy/quickstart.sh [--cuda | --cpu | --installed] [--port N] [--once]

Installs missing packages, builds gemmd, starts the daemon and checks a product.

  --cuda       build and use the CUDA backend (the default if the host has a GPU and a CUDA toolkit)
  --cpu        build and use only the CPU backend (the default otherwise)
  --installed  build nothing, and use the gemmd on PATH, from a package or a wheel
  --port N     listen on 127.0.0.1:N (default: 8080; 0: any free port)
  --once       stop the daemon at the end (default: the daemon keeps running in the background)
TEXT
}

say() { printf '== %s\n' "$*"; }
die() {
    printf 'quickstart: %s\n' "$*" >&2
    exit 1
}

backend=auto port=8080 once=no
while (($#)); do
    case $1 in
    --cuda) backend=cuda ;;
    --cpu) backend=cpu ;;
    --installed) backend=installed ;;
    --once) once=yes ;;
    --port)
        [[ ${2-} =~ ^[0-9]{1,5}$ ]] || die "--port must be a number from 0 to 65535"
        port=$((10#$2))
        ((port <= 65535)) || die "--port must be a number from 0 to 65535"
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        die "unknown option '$1'"
        ;;
    esac
    shift
done

cd -P "$(dirname "${BASH_SOURCE[0]}")/.."
run=build/run
scratch=
started=

# shellcheck disable=SC2317  # called by the trap
clean_up() {
    local status=$?
    [[ -z $scratch ]] || rm -rf "$scratch"
    # After a failure the daemon does not keep running.
    if [[ $status != 0 && -n $started ]]; then stop_daemon || true; fi
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Succeeds while the daemon whose pid is in the pid file runs. If another program has that pid now, the
# daemon does not run.
daemon_runs() {
    local pid exe folder
    pid=$(cat "$run/gemmd.pid" 2>/dev/null) || return 1
    exe=$(readlink "/proc/$pid/exe" 2>/dev/null) || return 1
    folder=$(readlink "/proc/$pid/cwd" 2>/dev/null) || return 1
    exe=${exe% (deleted)}
    [[ ${exe##*/} == gemmd && $folder == "$PWD" ]]
}
# The address on which the daemon whose log is in the folder of the run listens.
address_in_log() { sed -n 's/.*"message":"listening on \(127\.0\.0\.1:[0-9]*\)".*/\1/p' "$run/gemmd.log" 2>/dev/null; }
stop_daemon() {
    local pid
    if daemon_runs; then
        pid=$(cat "$run/gemmd.pid")
        kill -TERM "$pid"
        for ((i = 0; i < 300; i++)); do
            daemon_runs || break
            sleep 0.1
        done
        if daemon_runs; then die "the daemon (pid $pid) did not stop within 30 seconds"; fi
    fi
    rm -f "$run/gemmd.pid"
}

# Another program's port is found before anything is installed, built or stopped.
if ((port != 0)) && (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null &&
    ! { daemon_runs && [[ $(address_in_log) == "127.0.0.1:$port" ]]; }; then
    die "another program listens on port $port; try --port N"
fi

gpu_answers() {
    nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null
}
toolkit_is_there() {
    local nvcc
    for nvcc in nvcc "${CUDACXX:-nvcc}" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
        if command -v "$nvcc" >/dev/null; then return 0; fi
    done
    return 1
}

# The program, and what the end of the script calls gemmctl.
gemmd=build/bin/gemmd gemmctl=build/bin/gemmctl
case $backend in
installed)
    gemmd=$(command -v gemmd) || die "--installed finds no gemmd on PATH"
    gemmctl=gemmctl
    say "using $gemmd: $("$gemmd" --version)"
    ;;
auto)
    if ! gpu_answers; then
        backend=cpu
        say "no NVIDIA GPU found: using the CPU backend"
    elif ! toolkit_is_there; then
        backend=cpu
        say "found a GPU but no CUDA toolkit (nvcc): using the CPU backend"
    else
        backend=cuda
        say "found a GPU: using the CUDA backend"
    fi
    ;;
cuda) toolkit_is_there || die "--cuda needs the CUDA toolkit: there is no nvcc on PATH or in /usr/local/cuda" ;;
esac

# Looks for the programs and libraries themselves, not for packages, so that any flavour of libcurl
# and a CMake from another source are found.
missing=()
want_command() { command -v "$1" >/dev/null || missing+=("$2"); }
want_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }
want_command curl curl
if [[ $backend != installed ]]; then
    want_command cmake cmake
    want_command ninja ninja-build
    want_command gcc gcc
    want_command pkg-config pkg-config
    [[ $backend == cpu ]] || want_command g++ g++
    [[ -e /usr/include/stdio.h ]] || missing+=(libc6-dev)
    want_library libmicrohttpd libmicrohttpd-dev
    want_library libuv libuv1-dev
    want_library jansson libjansson-dev
    want_library gnutls libgnutls28-dev
    want_library nettle nettle-dev
    want_library zlib zlib1g-dev
    want_library libcurl libcurl4-gnutls-dev
    want_library openblas libopenblas-dev
fi

if ((${#missing[@]})); then
    command -v apt-get >/dev/null || die "install the equivalents of these Debian packages first: ${missing[*]}"
    root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || die "packages are missing and there is no sudo; run as root: apt-get install ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    apt() {
        "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
            -o Acquire::Retries=3 "$@" </dev/null >/dev/null
    }
    apt update || say "apt-get update failed for some package lists; continuing with the lists at hand"
    apt install -y --no-install-recommends "${missing[@]}" || die "could not install ${missing[*]}"
fi

build() {
    local cuda=OFF
    [[ $backend == cpu ]] || cuda=ON
    cmake --preset release -DGEMMD_TESTS=OFF -DGEMMD_CUDA=$cuda --log-level=WARNING >/dev/null
    # On a terminal, ninja shows its progress in one line. Elsewhere a line for each quarter is enough.
    if [[ -t 1 ]]; then
        cmake --build build --target gemmd gemmctl
        return
    fi
    cmake --build build --target gemmd gemmctl | awk '/^\[[0-9]+\/[0-9]+\] / {
             split(substr($1, 2), step, /[]\/]/)
             quarter = int(4 * step[1] / step[2])
             if (quarter != printed) { printf "%3d %%  %s\n", 25 * quarter, $1; fflush(); printed = quarter }
             next
         }
         { print; fflush() }'
}
if [[ $backend != installed ]]; then
    say "building gemmd ($backend backend)"
    build
fi

mkdir -p "$run"
if daemon_runs; then
    say "stopping the daemon of an earlier run"
    stop_daemon
fi
say "starting gemmd"
: >"$run/gemmd.log"
options=(--listen "127.0.0.1:$port")
[[ $backend == installed ]] || options+=(--backend "$backend")
setsid "$gemmd" "${options[@]}" </dev/null >"$run/gemmd.log" 2>&1 &
echo $! >"$run/gemmd.pid"
started=yes

address=
ready=no
for ((i = 0; i < 600; i++)); do
    address=$(address_in_log)
    if [[ -n $address ]] && curl -fsS -o /dev/null "http://$address/readyz" 2>/dev/null; then
        ready=yes
        break
    fi
    kill -0 "$(cat "$run/gemmd.pid")" 2>/dev/null || break
    sleep 0.1
done
if [[ $ready == no ]]; then
    tail -n 20 "$run/gemmd.log" >&2
    die "the daemon did not become ready; the end of its log is above. If port $port is in use, try --port N"
fi

# [1 2; 3 4] * [5 6; 7 8] = [19 22; 43 50] as little-endian f32.
scratch=$(mktemp -d)
printf '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40' >"$scratch/a.f32"
printf '\x00\x00\xa0\x40\x00\x00\xc0\x40\x00\x00\xe0\x40\x00\x00\x00\x41' >"$scratch/b.f32"
printf '\x00\x00\x98\x41\x00\x00\xb0\x41\x00\x00\x2c\x42\x00\x00\x48\x42' >"$scratch/expected.f32"
say "POST /gemm: [1 2; 3 4] * [5 6; 7 8]"
cat "$scratch/a.f32" "$scratch/b.f32" |
    curl -fsS --data-binary @- -o "$scratch/c.f32" "http://$address/gemm?m=2&n=2&k=2" ||
    die "the request failed"
od -An -w8 -t f4 "$scratch/c.f32"
cmp "$scratch/c.f32" "$scratch/expected.f32" || die "the product is wrong"

if [[ $once == yes ]]; then
    stop_daemon
    say "the product is correct; the daemon is stopped"
    exit 0
fi
say "the product is correct; gemmd (pid $(cat "$run/gemmd.pid")) keeps running at http://$address"
printf '\nTry next:\n'
next() { printf '  %-44s # %s\n' "$@"; }
if [[ $port != 8080 ]]; then next "export GEMMD_URL=http://$address" "for gemmctl (default: http://127.0.0.1:8080)"; fi
next \
    "http://$address/" "dashboard, for a browser" \
    "curl http://$address/info" "devices, kernels and limits, as JSON" \
    "curl http://$address/metrics" "metrics for Prometheus" \
    "$gemmctl --help" "multiply .npy and .safetensors files" \
    "less README.md" "examples with curl, C and Python" \
    "tail -f $run/gemmd.log" "the log: one line for each request" \
    "kill \$(cat $run/gemmd.pid)" "stop the daemon; it answers accepted requests first"

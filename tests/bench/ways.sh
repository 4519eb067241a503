#!/usr/bin/env bash
# Measures what it costs to bring a product's operands to the daemon and its result back: TCP, Unix
# socket, a memfd, system shared memory, and with a GPU CUDA shared memory, in one run; writes the
# table. Takes about two minutes.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/bench/ways.sh [--build DIR] [--out DIR] [--backend auto|cuda|cpu] [--seconds N]

  --build DIR    where bin/gemmd, bin/gemmctl and bin/gemmd-bench-ways lie (default build)
  --out DIR      where the table goes (default tests/bench/results)
  --seconds N    length of each measurement, of which there are three for each figure (default 3)
TEXT
}
die() {
    printf 'ways.sh: %s\n' "$*" >&2
    exit 2
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build out=tests/bench/results backend=auto seconds=3
while (($#)); do
    case $1 in
    --build | --out | --backend | --seconds)
        [[ -n ${2-} ]] || die "$1 takes a value"
        printf -v "${1#--}" '%s' "$2"
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        die "not an option: '$1'"
        ;;
    esac
    shift
done
for program in gemmd gemmctl gemmd-bench-ways; do
    [[ -x $build/bin/$program ]] || die "$build/bin/$program is not there; build first"
done
mkdir -p "$out"

scratch=$(mktemp -d)
shared=(--shm-system --shm-bytes 8G)
[[ $backend == cpu ]] || shared+=(--shm-cuda)
"$build/bin/gemmd" --backend "$backend" --listen 127.0.0.1:0 --listen "unix:$scratch/s" \
    "${shared[@]}" --pinned-bytes 4G --connection-buffer 1M --no-access-log >"$scratch/log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon" || true; rm -rf "$scratch"' EXIT
for ((i = 0; i < 600; i++)); do
    ! "$build/bin/gemmctl" ready --url "unix:$scratch/s" --quiet 2>/dev/null || break
    kill -0 "$daemon" 2>/dev/null || {
        cat "$scratch/log"
        die "the daemon does not start"
    }
    sleep 0.1
done
tcp=$(sed -n 's/.*listening on \(127\.0\.0\.1:[0-9]*\).*/\1/p' "$scratch/log" | head -n 1)
"$build/bin/gemmctl" info --json --url "unix:$scratch/s" >"$scratch/info"
of_info() { sed -n "s/.*\"$1\": *\"\\([^\"]*\\)\".*/\\1/p" "$scratch/info" | head -n 1; }

ways=(tcp unix memfd system)
cells=("64 8" "512 4" "1024 2")
device=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
where="$device, $(nproc) cores, on the CPU"
if [[ $(of_info backend) == cuda ]]; then
    ways+=(cuda)
    cells=("64 16" "1024 16" "4096 8")
    device=$(nvidia-smi --query-gpu=name --format=csv,noheader --id=0)
    where="$device; host: $(nproc) cores"
fi
when=$(date -u +%Y-%m-%d)
table=$out/ways-$when-$(tr '[:upper:] ' '[:lower:]-' <<<"${device#NVIDIA }" | tr -cd 'a-z0-9-').md
load=$(cut -d ' ' -f 1 /proc/loadavg)

# row SIDE CONNECTIONS: one line of the table; the ratios are to TCP.
row() {
    "$build/bin/gemmd-bench-ways" "$tcp" "unix:$scratch/s" "$1" "$2" "$seconds" "${ways[@]}" \
        >"$scratch/row" || return 1
    awk -v side="$1" -v connections="$2" '
        $1 == "copies" { copies = $2; next }
        {
            if (first == 0) first = $2
            line = line sprintf(" %.1f (%.2f) %d µs |", $2, $2 / first, $3)
            if (kernel == 0 || $4 < kernel) kernel = $4
            if ($1 != "cuda" && $2 > host) host = $2
            if ($1 == "cuda") cuda = $2
        }
        END {
            printf "| %d³ | %d |%s %.2f ms |", side, connections, line, kernel
            if (copies > 0) {
                least = copies > kernel ? copies : kernel
                printf " %.2f ms | %.2f | %.2f |", copies, host * least / 1000,
                    cuda * kernel / 1000
            }
            print ""
        }' "$scratch/row"
}

rows=()
for cell in "${cells[@]}"; do
    # shellcheck disable=SC2086  # two words
    rows+=("$(row $cell)")
    printf '%s\n' "${rows[-1]}"
done
heads=("product" "connections" "TCP" "Unix socket" "memfd" "system shared memory")
[[ ${#ways[@]} -lt 5 ]] || heads+=("CUDA shared memory")
heads+=("kernel")
[[ ${#ways[@]} -lt 5 ]] || heads+=("copies alone" "best without CUDA memory, of what the slower of the two allows" "CUDA memory, of what the kernel allows")
{
    printf '# Ways to the daemon, %s, %s\n\n' "$where" "$when"
    printf '%s. ' "$("$build/bin/gemmd" --version)"
    printf 'f32 products, requests per second (next to TCP) and median latency, each connection\n'
    printf 'with one request after another; the client on the same machine reads the result and\n'
    printf 'drops it. With shared memory operands and result lie there, each connection its own;\n'
    printf 'their bytes were compared first. The kernel is the least time of a lone request; small\n'
    printf 'products go many in a launch, so they may exceed it. Copies alone are those of a steady\n'
    printf 'stream of products, into the GPU and out of it at once. Medians of 3 runs of %s s, in turn; load average of\n' \
        "$seconds"
    printf 'the machine before: %s.\n\n' "$load"
    printf '| %s ' "${heads[@]}"
    printf '|\n'
    printf '|---%.0s' "${heads[@]}"
    printf '|\n'
    printf '%s\n' "${rows[@]}"
} >"$table"
printf 'written: %s\n' "$table"

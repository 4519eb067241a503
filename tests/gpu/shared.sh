#!/usr/bin/env bash
# Checks shared memory on a machine with an NVIDIA GPU: starts a daemon on a socket of its own and
# runs gemmd-gpu-shared-check against it. What it is worth is measured by tests/bench/ways.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build}
scratch=$(mktemp -d)
"$build/bin/gemmd" --backend cuda --listen "unix:$scratch/s" --shm-system --shm-cuda \
    --shm-bytes 8G --pinned-bytes 4G >"$scratch/log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon" || true; rm -rf "$scratch"' EXIT
for ((i = 0; i < 600; i++)); do
    ! "$build/bin/gemmctl" ready --url "unix:$scratch/s" --quiet 2>/dev/null || break
    kill -0 "$daemon" 2>/dev/null || {
        cat "$scratch/log"
        exit 1
    }
    sleep 0.1
done
status=0
"$build/bin/gemmd-gpu-shared-check" "unix:$scratch/s" || status=$?
((status == 0)) || tail -n 20 "$scratch/log"
exit "$status"

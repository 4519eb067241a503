#!/usr/bin/env bash
# Measures a daemon with all devices of a host next to one with a single device, in turns, and
# writes the table. Takes about three minutes.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/bench/devices.sh [--build DIR] [--out DIR] [--backend cuda|cpu] [--one LIST]
                              [--several LIST] [--seconds N] [--turns N] [--rows TEXT]
                              [--cpu-threads N]

  --build DIR        where bin/gemmd and bin/gemmd-bench-ways lie (default build)
  --out DIR          where the table goes (default tests/bench/results)
  --backend NAME     cuda (the default) or cpu, whose devices are parts of the host's cores
  --one LIST         --devices of the daemon with one device (default 0; cpu: 1)
  --several LIST     --devices of the other daemon (default all; cpu: 2)
  --seconds N        length of a measurement (default 3)
  --turns N          measurements of each daemon for a row, besides one to warm up (default 3)
  --rows TEXT        measure only the rows with TEXT in their name
  --cpu-threads N    of each device of the CPU backend

Needs wrk.
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
for argument; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done
command -v wrk >/dev/null || { echo 'devices.sh: needs wrk' >&2 && exit 2; }
PYTHONPATH=tests/bench exec python3 -m serving.devices "$@"

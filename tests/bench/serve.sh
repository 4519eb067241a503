#!/usr/bin/env bash
# Measures every serving row of the targets, each with its baseline in the same run on the same
# machine, and writes the table and the plot of latency against load. Takes less than 8 minutes.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: tests/bench/serve.sh [--build DIR] [--out DIR] [--backend auto|cuda|cpu] [--seconds N]
                            [--rows NAME,...] [--python PROGRAM]

  --build DIR        where bin/gemmd and bin/gemmd-bench-* lie (default build)
  --out DIR          where the table, its data and the plot go (default tests/bench/results)
  --seconds N        how long each server is measured for a row, in turns of a second (default 9)
  --rows NAME,...    only these (default all; a wrong name prints them)
  --python PROGRAM   a Python with numpy; with aiohttp (and PyTorch, for a GPU) it also measures
                     what users write today

Needs wrk, and gnuplot for the plot.
TEXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=
arguments=()
while (($#)); do
    case $1 in
    --python)
        python=${2-}
        shift
        ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) arguments+=("$1") ;;
    esac
    shift
done
if [[ -z $python ]]; then
    python=python3
    [[ ! -x build-tests/venv/bin/python ]] || python='build-tests/venv/bin/python'
fi
command -v wrk >/dev/null || { echo 'serve.sh: needs wrk' >&2 && exit 2; }
PYTHONPATH=tests/bench exec "$python" -m serving "${arguments[@]}"

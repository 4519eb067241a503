#!/usr/bin/env python3
"""Writes tests/RELIABILITY.md from the rows that the scripts of this folder, and other tests, wrote.

A row file has the members `script`, `machine`, `date`, `command` and `figures`, a list of objects with
`row` (a key of figures.json), `figure`, `met` (true, false or null) and `note`. Any test or program may
write one; the file's name does not matter.
"""

import argparse
import json
from pathlib import Path

import figure

HEAD = """# Reliability: the figures

Each row is a promise about gemmd that a test or a script checks: what the row means, its bar, and the
last figure that was measured. `tests/reliability/report.py` writes this file from the JSON files in
`tests/reliability/rows`; edit neither. A script of `tests/reliability` runs on any machine, takes
seconds with `--quick`, and with `--rows tests/reliability/rows` replaces its row:

```sh
build-tests/venv/bin/python tests/reliability/handovers.py --rows tests/reliability/rows
build-tests/venv/bin/python tests/reliability/report.py
```

| row | what it means | bar | figure | verdict |
|---|---|---|---|---|
"""
RUNS = """
## Runs

| row | date | command | machine |
|---|---|---|---|
"""
NOTES = """
## Notes

"""
VERDICT = {True: "met", False: "**missed**", None: "not judged"}


def read_rows(folder):
    """(row, figure, run) of every figure, in the order of the files' names."""
    found = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text())
        found += [(one["row"], one, run) for one in run["figures"]]
        if not run["figures"] and run.get("why_not_run"):
            found += [(row, {"figure": f"could not run: {run['why_not_run']}", "met": None, "note": ""},
                       run) for row, known in figure.bars().items()
                      if Path(run["script"]).name in known["by"]]
    return found


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def render(bars, found):
    unknown = sorted({row for row, _, _ in found} - bars.keys())
    if unknown:
        raise SystemExit(f"report.py: figures.json does not have the rows {', '.join(unknown)}")
    table, runs, notes = "", "", ""
    for row, known in bars.items():
        mine = [(one, run) for name, one, run in found if name == row]
        for number, (one, run) in enumerate(mine):
            first = number == 0
            table += (f"| {row if first else ''} | {cell(known['means']) if first else ''} | "
                      f"{cell(known['bar']) if first else ''} | {cell(one['figure'])} | "
                      f"{VERDICT[one['met']]}{' (quick run)' if run.get('quick') else ''} |\n")
            if one.get("note"):
                notes += f"- {row}: {one['note']}.\n"
        for run in {id(run): run for _, run in mine}.values():
            runs += (f"| {row} | {run['date']} | `{cell(run['command'])}` | {cell(run['machine'])}, load "
                     f"average {run.get('load_average', 'not noted')} |\n")
        if not mine:
            by = f"; measured by {known['by']}" if known["by"] else ""
            table += (f"| {row} | {cell(known['means'])} | {cell(known['bar'])} | no run is recorded{by} "
                      "| none |\n")
    return HEAD + table + RUNS + runs + (NOTES + notes if notes else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=Path, default=Path(__file__).parent / "rows")
    parser.add_argument("--out", type=Path, default=figure.ROOT / "tests/RELIABILITY.md")
    options = parser.parse_args()
    options.out.write_text(render(figure.bars(), read_rows(options.rows)))


if __name__ == "__main__":
    main()

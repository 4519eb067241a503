#!/usr/bin/env python3
"""What systemd-analyze security says of the unit of the daemon."""

import os
import re
import shutil
import subprocess

import figure


def measure(options):
    """The exposure of deploy/systemd/gemmd.service: 0 is closed, 10 is open."""
    del options
    if shutil.which("systemd-analyze") is None:
        raise figure.CannotRun("systemd-analyze is not installed.")
    ran = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager",
                          figure.ROOT / "deploy/systemd/gemmd.service"], capture_output=True, text=True, check=False,
                         env={**os.environ, "SYSTEMD_COLORS": "0", "COLUMNS": "200"})
    found = re.search(r"Overall exposure level for \S+: ([\d.]+) (\w+)", ran.stdout)
    if found is None:
        raise figure.CannotRun(f"systemd-analyze says {ran.stderr.strip()[-200:]}.")
    exposure = float(found[1])
    return [figure.Figure(
        "F21", f"exposure {found[1]} ({found[2]})", False if exposure > 1.5 else None,
        "whether CUDA works under the unit is not judged, because none of the machines of these runs has both a GPU "
        "and systemd as its service manager; test_systemd.py checks that the unit lets the daemon open the devices of "
        "the driver and lock memory")]


if __name__ == "__main__":
    figure.main(measure)

"""The version of the Python packages of this tree, for hatch."""

import subprocess
from pathlib import Path

__version__ = subprocess.run([Path(__file__).parent / "version.sh", "wheel"], check=True, capture_output=True,
                             text=True).stdout.strip()

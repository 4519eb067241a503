"""Starts that cannot succeed: one sentence that names the reason, and a status."""

import pathlib
import subprocess

import pytest

from daemon import PATIENCE_S


@pytest.mark.skipif(pathlib.Path("/proc/driver/nvidia").exists(), reason="this host has a GPU")
def test_no_gpu_where_one_is_demanded(gemmd, tmp_path):
    path = tmp_path / "gemmd.sock"
    result = subprocess.run([gemmd, "--backend", "cuda", "--listen", f"unix:{path}"],
                            capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("gemmd: ") and result.stderr.count("\n") == 1
    assert "there is no CUDA device" in result.stderr or "CUDA" in result.stderr
    assert not path.exists(), "the file of its socket stays behind"

"""The programs in client/examples, against a real daemon."""

import os
import re
import subprocess

from daemon import PATIENCE_S


def test_products_in_a_libuv_loop(gemmd, url):
    program = gemmd.parent.parent / "tests" / "example_uv"
    result = subprocess.run([program], env={**os.environ, "GEMMD_URL": url}, capture_output=True,
                            text=True, timeout=PATIENCE_S, check=False)
    assert result.returncode == 0, result
    assert re.match(r"2000 products, 0 failed, \d+ a second\n", result.stdout), result

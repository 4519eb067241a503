"""The programs in client/examples, against a real daemon: what they print is right, and is what the
comment at the head of each says that it prints."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from daemon import PATIENCE_S

EXAMPLES = Path(__file__).resolve().parents[2] / "client/examples"


@pytest.fixture
def example(gemmd, url):
    """example(name) -> the lines that it prints, after it has ended with status 0."""

    def runner(name, address=url):
        program = gemmd.parent.parent / "tests" / f"example_{name}"
        result = subprocess.run([program], env={**os.environ, "GEMMD_URL": address},
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout.splitlines()

    return runner


def shown(name):
    """The lines that the comment at the head of an example shows after "Prints"."""
    head = (EXAMPLES / f"{name}.c").read_text().partition("*/")[0]
    return re.findall(r"^ \*     (.*)$", head.partition("\n * Prints ")[2], re.M)


def numbers(lines):
    return np.array([line.split() for line in lines], np.float64)


def test_every_example_is_run_here():
    tested = set(re.findall(r'example\("(\w+)"', Path(__file__).read_text()))
    assert tested == {path.stem for path in EXAMPLES.glob("*.c")}


def test_a_product(example):
    *matrix, kernel = example("product")
    a = np.array([[1, 0, -1], [2, 1, 0]])
    b = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 7, 6, 5]])
    np.testing.assert_array_equal(numbers(matrix), np.maximum(2 * a @ b + [2, 5, 12, 16], 0))
    assert re.fullmatch(r"computed by \w+", kernel)
    assert matrix == shown("product")[:-1]


def test_a_resident_weight(example, session, url):
    printed = example("resident_weight")
    weight = np.arange(8).reshape(2, 4)
    assert printed[:2] == ["created", "unchanged"]
    np.testing.assert_array_equal(numbers(printed[2:]), [[1, 0], [1, 1], [1, 2]] @ weight)
    assert printed == shown("resident_weight")
    assert session.get(f"{url}/tensors/example-weight").status_code == 404, "it was removed"


def test_a_job(example, session, url):
    name, before, after, *matrix = example("job")
    assert re.fullmatch(r"job [0-9a-f]{32}", name)
    assert before in ("queued", "running", "done")
    np.testing.assert_array_equal(numbers(matrix), np.array([[1, 2], [3, 4]]) @ [[5, 6], [7, 8]])
    assert [after, *matrix] == shown("job")[2:]
    assert session.get(f"{url}/jobs/{name.split()[1]}").status_code == 404, "it was deleted"


def test_requests_in_flight(example):
    printed = dict(line.split(": ") for line in example("asynchronous"))
    assert sorted(printed) == [str(number) for number in range(8)]
    product = np.array([[1, 2], [3, 4]]) @ [[5, 6], [7, 8]]
    for number, values in printed.items():
        np.testing.assert_array_equal(numbers([values]).reshape(2, 2), int(number) * product)
    assert shown("asynchronous") == [f"{number}: {printed[number]}" for number in ("1", "0", "2")]


def test_shared_memory(example, start, tmp_path):
    address = f"unix:{tmp_path}/gemmd.sock"
    start(listen=(address,))
    *corners, way = example("shared_memory", address)
    i, j = np.indices((256, 256), np.float64)
    np.testing.assert_array_equal(numbers(corners), ((i + j) @ (i - j))[::255, ::255])
    assert way == "through shared memory"
    assert [*corners, way] == shown("shared_memory")


def test_shared_memory_is_not_needed(example):
    """Over TCP the same program computes the same."""
    *corners, way = example("shared_memory")
    assert (corners, way) == (shown("shared_memory")[:-1], "through the socket")


def test_products_in_a_libuv_loop(example):
    line, = example("uv")
    assert re.fullmatch(r"2000 products, 0 failed, \d+ a second", line)
    assert re.fullmatch(r"2000 products, 0 failed, \d+ a second", *shown("uv"))

"""The counts of tests/bench/code_path.py, on calls and sources of a few lines."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("code_path", ROOT / "tests/bench/code_path.py")
code_path = importlib.util.module_from_spec(spec)
spec.loader.exec_module(code_path)

# One call of 1, which calls 2 twice and 3 in the second of these, then a call of 4.
RECORDS = [(10, 1), (11, 2), (12, 0), (13, 2), (14, 3), (15, 0), (16, 0), (17, 0), (18, 4), (19, 0)]
FUNCTIONS = {1: code_path.Function("one", "server/http/request.c"),
             2: code_path.Function("two", "server/api/info.c"),
             3: code_path.Function("three", "proto/size.h"),
             4: code_path.Function("four", "server/http/request.c")}
ORDER = code_path.read_order((ROOT / "CONTRIBUTING.md").read_text())


def depths(calls):
    return [(depth, address) for depth, address, _ in code_path.flatten(calls)]


def test_records_become_a_forest():
    assert depths(code_path.forest(RECORDS, 0, 100)) == [(0, 1), (1, 2), (1, 2), (2, 3), (0, 4)]


def test_a_window_may_begin_within_a_call():
    """The returns from 2 and 1, which began before the window, end no call."""
    assert depths(code_path.forest(RECORDS, 14, 100)) == [(0, 3), (0, 4)]


def test_a_window_ends():
    assert depths(code_path.forest(RECORDS, 0, 18)) == [(0, 1), (1, 2), (1, 2), (2, 3)]


def test_calls_of_an_idle_thread_are_left_out_as_often_as_it_makes_them():
    idle = [(20, 4), (21, 0)]
    busy = code_path.forest(RECORDS + idle, 0, 100)
    assert depths(code_path.without_idle(busy, code_path.forest(idle, 0, 100))) == [
        (0, 1), (1, 2), (1, 2), (2, 3), (0, 4)]


def test_a_call_with_other_calls_inside_is_not_idle():
    busy = code_path.forest(RECORDS, 0, 100)
    assert depths(code_path.without_idle(busy, code_path.forest([(30, 1), (31, 0)], 0, 100))) == depths(busy)


def test_rooms_are_folders_and_files_of_the_server_itself():
    assert [code_path.room(file) for file in ("server/api/v2/infer.c", "server/main_loop.c", "proto/size.h")] == [
        "server/api/v2", "server/main_loop", "proto"]


def test_rooms_stand_in_the_order_of_contributing():
    rooms = ["server/main", "server/daemon", "server/api/compute", "server/http", "server/scheduler", "server/tensors",
             "server/device/cpu", "server/base", "kernels/cpu", "proto"]
    heights = [code_path.height(room, ORDER) for room in rooms]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == len(heights)
    assert code_path.height("server/shm", ORDER) == code_path.height("server/tensors", ORDER)


def test_every_room_of_the_server_has_a_place():
    rooms = {code_path.room(str(path.relative_to(ROOT))) for path in (ROOT / "server").rglob("*.c")}
    assert all(code_path.height(room, ORDER) > 1 for room in rooms)


def test_numbers_of_a_sequence():
    sequence = list(code_path.flatten(code_path.forest(RECORDS, 0, 100)))
    assert dict(code_path.numbers(sequence, FUNCTIONS, ORDER)) == {
        "calls": 5,
        "functions": 4,
        ".c files that define them": 2,
        "headers that define them": 1,
        "rooms": 3,
        "returns to a room": 1,  # from 3 to 4; the first calls into a room are no returns
        "returns to a file": 1,
        "climbs": 2,  # from http to api, twice
    }


def test_calls_within_a_room_and_down_are_no_climbs():
    pairs = [("server/http", "server/http"), ("server/http", "server/base"), ("server/tensors", "server/shm"),
             ("proto", "kernels"), ("server/device/cpu", "server/scheduler")]
    assert code_path.count_climbs(pairs, ORDER) == 2


def test_lines_of_functions():
    source = ("static int one(void)\n{\n    return 1;\n}\n\nvoid none(int a,\n          int b)\n{\n}\n\n"
              "struct s\n{\n    int a;\n};\n")
    assert code_path.function_lines(source) == [1, 0]


def test_users_of_headers_are_other_files_than_the_own_c():
    files = {"proto/a.h": "", "proto/a.c": '#include "proto/a.h"\n', "proto/b.c": '#include "proto/a.h"\n',
             "proto/b.h": '#include <proto/a.h>\n'}
    assert code_path.users(files) == {"proto/a.h": {"proto/b.c"}, "proto/b.h": set()}


def test_numbers_of_a_tree():
    short = "int f(void)\n{\n    return 1;\n}\n"
    numbers = dict(code_path.tree_numbers({
        "server/a.c": short * 20, "server/b.c": '#include "proto/c.h"\n' + short, "proto/c.h": "",
        "kernels/cuda/k.cu": short, "tests/t.c": short,
        "README.md": "one\ntwo\n"}))
    assert numbers["functions"] == 21
    assert numbers["median of their lines"] == 1
    assert numbers["functions of three lines or fewer, in percent"] == 100
    assert numbers["C sources under 40 lines"] == 2
    assert numbers["headers with one user besides their own .c"] == 1
    assert numbers["median of the lines of a .c of server/"] == 42.5
    assert numbers["lines of the product's sources, with CUDA"] == 89
    assert numbers["lines of all text files of the tree"] == 95

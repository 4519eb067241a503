"""Includes go one way: down the order of the rooms in CONTRIBUTING.md, and never in a circle."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A file may include headers of its own room and of rooms after it.
SERVER = ["main", "daemon", "daemon_devices", "main_loop", "reload", "liveness", "device_restarts",
          "api", "http", "net", "jobs", "scheduler", "tensors", "shm", "device", "observe", "config", "base"]
# The top rooms that a top room may include.
TOP = {
    "server": {"server", "kernels", "proto"},
    "kernels": {"kernels", "proto"},
    "client": {"client", "proto"},
    "proto": {"proto"},
    "documents": {"documents", "server", "client", "proto"},
}
# What http/ must not know, although these rooms lie below it: it serves any endpoint.
UNKNOWN_TO_HTTP = {"jobs", "tensors", "device", "scheduler"}
INCLUDE = re.compile(r'#\s*include\s+"((?:server|kernels|client|proto|documents)/[^"]+)"')


def sources(root=ROOT):
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *TOP],
                           cwd=root, check=True, capture_output=True, text=True).stdout.split()
    return [name for name in names
            if re.search(r"\.(c|h|cu|cuh)$", name) and (root / name).exists()]


def includes():
    """(file, line number, included file) of every include of one of our headers."""
    for name in sources():
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            if found := INCLUDE.match(line):
                yield name, number, found[1]


def server_room(name):
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else parts[1].rsplit(".", 1)[0]


def may_include(name, included):
    top, other = name.split("/")[0], included.split("/")[0]
    if top != other or top != "server":
        return other in TOP[top]
    room, below = server_room(name), server_room(included)
    if room == "http" and below in UNKNOWN_TO_HTTP:
        return False
    return SERVER.index(room) <= SERVER.index(below)


def circles(edges):
    """The files of each circle of includes, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for after in sorted(edges.get(node, ())):
            if after not in index:
                visit(after)
            if after in stack:
                low[node] = min(low[node], low[after])
        if low[node] == index[node]:
            circle = [stack.pop()]
            while circle[-1] != node:
                circle.append(stack.pop())
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def object_files(build):
    """Every object file of our libraries and programs, by the source file it was compiled from."""
    compiled = json.loads((build / "compile_commands.json").read_text())
    for command in compiled:
        source = Path(command["file"])
        if ROOT in source.parents and source.relative_to(ROOT).parts[0] in TOP:
            path = build / re.search(r" -o (\S+\.o)\b", command["command"])[1]
            if path.exists():
                yield str(source.relative_to(ROOT)), path


def uses(build):
    """Which source file calls functions of which other one, or reads its variables."""
    defined, undefined = {}, {}
    sources_of = {str(path): source for source, path in object_files(build)}
    for line in subprocess.run(["nm", "--print-file-name", *sources_of], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        path, _, rest = line.partition(":")
        *_, kind, symbol = rest.split()
        if kind == "U":
            undefined.setdefault(sources_of[path], set()).add(symbol)
        elif kind.isupper():
            defined[symbol] = sources_of[path]
    return {source: {defined[symbol] for symbol in symbols if symbol in defined} - {source}
            for source, symbols in undefined.items()}


def test_the_rule_itself():
    assert may_include("server/api/info.c", "server/http/request.h")
    assert not may_include("server/http/request.c", "server/api/services.h")
    assert not may_include("server/http/request.c", "server/device/device.h")
    assert not may_include("server/base/inbox.h", "server/config/config.h")
    assert not may_include("server/api/info.c", "server/daemon.h")
    assert not may_include("kernels/backend.c", "server/base/clock.h")
    assert not may_include("proto/error.c", "kernels/gemm.h")
    assert may_include("documents/gemmd.c", "server/config/config_option.h")
    assert not may_include("server/config/config_help.c", "documents/document.h")
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}}) == []


def test_rooms_include_only_rooms_below_them():
    known = list(includes())
    assert len(known) > 500
    assert [f"{name}:{number}: {included}" for name, number, included in known
            if not may_include(name, included)] == []


def test_every_room_of_the_server_has_its_place():
    rooms = {server_room(name) for name in sources() if name.startswith("server/")}
    assert rooms == set(SERVER)


def test_no_circle_of_files(request):
    """Files that call each other in a circle cannot be read one after the other."""
    edges = uses(Path(request.config.getoption("--gemmd")).resolve().parents[1])
    assert len(edges) > 200 and "server/http/respond.c" in edges["server/http/request.c"]
    assert circles(edges) == []

"""How the daemon, gemmctl and libgemmd.so are built: what makes a fault in their memory hard to exploit."""

import json
import platform
import re
import subprocess

import pytest

NAMES = ["gemmd", "gemmctl", "libgemmd.so"]


@pytest.fixture(params=NAMES)
def binary(request, gemmd):
    if request.param == "libgemmd.so":
        return gemmd.parent.parent / "lib" / request.param
    return gemmd.with_name(request.param)


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, str(path)], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def flags_of(dynamic, tag):
    """The flags in one entry of the dynamic section."""
    entry = re.search(rf"\({tag}\)\s+(?:Flags:)?(.*)", dynamic)
    return entry[1].split() if entry else []


def test_position_independent(binary):
    assert re.search(r"Type:\s+DYN", readelf("--file-header", binary)), f"{binary} has fixed addresses"
    dynamic = readelf("--dynamic", binary)
    assert "TEXTREL" not in dynamic, f"{binary} relocates its code"
    if binary.suffix != ".so":
        assert "PIE" in flags_of(dynamic, "FLAGS_1"), f"{binary} is no position-independent executable"


def test_relocations_are_read_only(binary):
    assert "GNU_RELRO" in readelf("--segments", binary), f"{binary} is linked without -z relro"
    assert "NOW" in flags_of(readelf("--dynamic", binary), "FLAGS_1"), f"{binary} is linked without -z now"


def test_no_segment_is_writable_and_executable(binary):
    segments = re.findall(r"^\s+(LOAD|GNU_STACK)\s.*\s((?:R| )(?:W| )(?:E| ))\s+0x",
                          readelf("--segments", binary), re.MULTILINE)
    assert "GNU_STACK" in dict(segments), f"{binary} does not say that its stack holds no code"
    for name, flags in segments:
        assert not ("W" in flags and "E" in flags), f"{name} of {binary} is writable and executable"
        assert name != "GNU_STACK" or "E" not in flags, f"the stack of {binary} is executable"


def test_stack_protector_and_fortify(binary, instrumented):
    if instrumented:
        pytest.skip("a sanitizer takes the place of these checks")
    symbols = readelf("--dyn-syms", binary)
    assert "__stack_chk_fail" in symbols, f"{binary} is compiled without -fstack-protector-strong"
    assert re.search(r"__\w+_chk(@|\s)", symbols), f"{binary} is compiled without _FORTIFY_SOURCE"


def test_every_source_is_compiled_hardened(gemmd, instrumented):
    """The level of FORTIFY and the stack clash protection cannot be read from a binary for sure."""
    if instrumented:
        pytest.skip("a sanitizer takes the place of these checks")
    build = gemmd.parent.parent
    commands = json.loads((build / "compile_commands.json").read_text())
    expected = ["-D_FORTIFY_SOURCE=3", "-fstack-protector-strong", "-fstack-clash-protection"]
    if platform.machine() == "x86_64":
        expected.append("-fcf-protection")
    rooms = re.compile(r"/(proto|kernels|server|client)/[^:]*\.c$")
    sources = [entry for entry in commands if rooms.search(entry["file"])]
    assert len(sources) > 100
    for entry in sources:
        for option in expected:
            assert option in entry["command"].split(), f"{entry['file']} is compiled without {option}"


def test_bytes_do_not_depend_on_the_build_folder(binary, gemmd, instrumented):
    if instrumented:
        pytest.skip("debug information names the sources")
    folder = str(gemmd.parent.parent)
    assert folder.encode() not in binary.read_bytes(), f"{binary} contains the path of its build folder"

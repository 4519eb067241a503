"""The reference of libgemmd, in Markdown, from its headers: each section, each comment with what it describes."""

import re
import textwrap

HEADERS = ("client/include/gemmd/gemmd.h", "client/include/gemmd/arrays.h", "client/include/gemmd/sequences.h",
           "client/include/gemmd/adapters/uv.h", "proto/include/gemmd/dtypes.h", "proto/include/gemmd/errors.h")
PART = re.compile(r"""/\*(?P<comment>.*?)\*/\n
                   | (?P<macro>\#define(?:[^\n]*\\\n)*[^\n]*\n)
                   | (?P<directive>\#[^\n]*\n | extern\ "C"\ \{\n | \}\n)
                   | (?P<declaration>[A-Za-z_](?:[^;{]|\{(?:[^{}]|\{[^{}]*\})*\})*?(?:;|\)\n\{(?:.|\n)*?\n\})[^\n]*\n)
                   | (?P<blank>\s+)""", re.X | re.S)


def plain(line):
    """A line without characters that mean something to Markdown, but for those in backticks."""
    return "".join(part if number % 2 else re.sub(r"([\\*_<>#$\[\]])", r"\\\1", part)
                   for number, part in enumerate(re.split(r"(`[^`]*`)", line)))


def prose(comment):
    """The text of a comment. Indented lines are code or a list, and stay as they are."""
    text = "\n".join(re.sub(r"^ ?\*? ?", "", line, count=1).rstrip() for line in comment.split("\n")).strip("\n ")
    made = ""
    for block in re.findall(r"(?:  .*(?:\n|\Z))+|(?:(?!  ).*(?:\n|\Z))+?(?=  |\Z)", text):
        made += f"\n```text\n{textwrap.dedent(block).rstrip()}\n```\n" if block.startswith("  ") else plain(block)
    return made


def parts(text):
    """Pairs of a kind and a text, in the order of the header."""
    at = 0
    while at < len(text):
        found = PART.match(text, at)
        if found is None:
            raise ValueError(f"no comment, declaration or directive: {text[at:at + 80]!r}")
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


def section(header, text):
    made, code = [f"\n## `<{header.partition('include/')[2]}>`\n"], []

    def end_code():
        if code:
            made.append("```c\n" + "".join(code).rstrip() + "\n```\n")
            code.clear()
    for kind, part in parts(text):
        if kind in ("comment", "directive"):
            end_code()
        if kind == "comment" and part.startswith(" ----"):
            made.append(f"### {part.strip(' -')}\n")
        elif kind == "comment":
            made.append(prose(part) + "\n")
        elif kind == "declaration" or kind == "macro" and len(part.split()) > 2 and "GEMMD_API" not in part:
            code.append(part.removeprefix("GEMMD_API "))
    end_code()
    return "\n".join(made)


def reference(root):
    return "".join(section(header, (root / header).read_text(encoding="utf-8")) for header in HEADERS)

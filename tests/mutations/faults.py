"""Small faults in C code: where they can be planted, and how the code looks with one of them."""

import dataclasses
import re

# What is not code: comments, strings, characters, and lines of the preprocessor with their continuations.
NOT_CODE = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'"""
                      r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*$""", re.S | re.M)

SWAPS = {
    "comparison": [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
                   (r" == ", " != "), (r" != ", " == ")],
    "logic": [(r" && ", " || "), (r" \|\| ", " && ")],
    "arithmetic": [(r" \+ ", " - "), (r" - ", " + "), (r" \* (?=[\w(])", " / "), (r" / ", " * "),
                   (r" % ", " / "), (r" << ", " >> "), (r" >> ", " << ")],
    "flag": [(r" \| ", " & "), (r" & ", " | "), (r" \|= ", " &= ")],
    "assignment": [(r" \+= ", " -= "), (r" -= ", " += "), (r"\+\+;", "--;"), (r"--;", "++;")],
    "result": [(r"return true;", "return false;"), (r"return false;", "return true;"),
               (r"return GEMMD_OK;", "return GEMMD_ERR_INTERNAL;"), (r"return NULL;", "return (void *)1;")],
}
NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
CONDITION = re.compile(r"\b(if|while) \((?=[^;{}]*\)$)(.*)\)$", re.M)
CALL = re.compile(r"^( +)(?:\(void\))?[a-z]\w*\([^;{}]*\);$", re.M)
BODY = re.compile(r"^\{$.*?^\}$", re.S | re.M)


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    start: int  # in the text of the file
    end: int
    replacement: str

    def planted(self, text):
        return text[:self.start] + self.replacement + text[self.end:]


def blanked(text):
    """The text with spaces in place of everything that is not code."""
    return NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def faults_of(text):
    """All faults that can be planted into the functions of a C file."""
    code = blanked(text)
    found = []
    for body in BODY.finditer(code):
        inside = body.group()

        def add(kind, match, replacement, first=body.start(), group=0):
            found.append(Fault(kind, first + match.start(group), first + match.end(group),
                               replacement))

        for kind, swaps in SWAPS.items():
            for pattern, replacement in swaps:
                for match in re.finditer(pattern, inside):
                    add(kind, match, replacement)
        for match in NUMBER.finditer(inside):
            add("constant", match, str(int(match.group()) + 1))
        for match in CONDITION.finditer(inside):
            original = text[body.start() + match.start(2):body.start() + match.end(2)]
            add("negation", match, f"!({original})", group=2)
        for match in CALL.finditer(inside):
            add("missing call", match, match.group(1) + ";")
    return found

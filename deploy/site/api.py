"""Prints the daemon's page about its API for a host on which no daemon is: without the forms that send requests."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "server/api/docs"


def main():
    names = re.search(r"set\(scripts (.*)\)", (DOCS / "embed.cmake").read_text(encoding="utf-8"))[1].split()
    style = (DOCS / "page.css").read_text(encoding="utf-8") + "#ask:not(.wrong), #ask label, #ask input, .try { display: none; }\n"
    script = "".join((DOCS / "js" / f"{name}.js").read_text(encoding="utf-8") for name in names)
    page = (DOCS / "page.html").read_text(encoding="utf-8").replace('<a href="./">Dashboard</a>', '<a href="../">Documents</a>')
    print(page.replace("@STYLE@", style).replace("@SCRIPT@", script), end="")


if __name__ == "__main__":
    main()

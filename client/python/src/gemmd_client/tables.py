"""What notebooks show of clients, tensors and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def table(title: str, rows: Mapping[str, object]) -> str:
    """Returns a table of HTML with a title above the names and values."""
    cells = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>"
                    f"{escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table><caption>gemmd {escape(title)}</caption>{cells}</table>"

"""The tables of docs/concepts/terms.md: what is called how."""

from __future__ import annotations

from support.command import ROOT

PAGE = ROOT / "docs" / "concepts" / "terms.md"


def term_rows(heading: str = "# Terms") -> list[list[str]]:
    """The cells of the table under a heading."""
    part = PAGE.read_text().split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]

"""The first line of a finding in text: its number, its code, and what fixing it saves."""

from __future__ import annotations

from typing import Final

from gpuledger.present.safe_text import display_width
from gpuledger.present.terminal import Style, Terminal

_CODES: Final = 16
"""Columns of a finding's code, with the gap after it."""


def finding_head(number: int, code: str, saves: str, terminal: Terminal, *styles: Style) -> list[str]:
    """A finding's number and code, with what it saves beside it, or below where the terminal is narrow."""
    head = f"  {number}  {terminal.painted(code, 'bold')}"
    if not saves:
        return [head]
    space, saving = " " * (_CODES - len(code)), terminal.painted(saves, *styles)
    is_narrow = terminal.width is not None and 5 + _CODES + display_width(saves) > terminal.width
    return [head, f"     {saving}"] if is_narrow else [f"{head}{space}{saving}"]

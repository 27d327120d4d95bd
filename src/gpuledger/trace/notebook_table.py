"""A small table for a notebook, as HTML without scripts or style sheets: every text escaped, long ones cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpuledger.visible_text import visible

FIRST_ROWS: Final = 10
"""So many rows of a long table are shown."""
_LONGEST: Final = 120


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *said: str) -> str:
    """A table under what is said of it; numbers stand to the right, what is not there is empty."""
    head = "".join(f"<th>{html_text(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    above = "".join(f"<p>{html_text(sentence)}</p>" for sentence in said if sentence)
    return f"<div>{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def rows_text(count: int) -> str:
    """How many rows there are."""
    return "1 row" if count == 1 else f"{count:,} rows"


def html_text(text: str) -> str:
    """A text from anywhere as HTML."""
    from html import escape  # with all entities by name, which only notebooks need

    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return escape(visible(short))


def _cell(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td style="text-align: right">{value}</td>'
    return f'<td style="text-align: left">{"" if value is None else html_text(str(value))}</td>'

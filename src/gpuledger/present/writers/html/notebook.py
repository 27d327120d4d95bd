"""Results in a notebook, as HTML without scripts or style sheets: a report has its ledger bar, others their tables.

A notebook has its own style and may be dark, so text takes the colour around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from gpuledger.messages import capitalised
from gpuledger.present import document as doc
from gpuledger.present.charts.svg import ByColour, hatch, svg
from gpuledger.present.digits import shown_text
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Sheet
from gpuledger.present.writers.html.tables import Room, cut
from gpuledger.trace.notebook_table import html_table
from gpuledger.units import share_text

_ROOM = Room(rows=20, letters=300)
_MOST = 5
"""So many findings are shown."""


class _Around(ByColour):
    """Text in the colour of the text around it."""

    def fill(self, tone: str) -> str:
        return 'fill="currentColor"' if tone in ("ink", "muted") else super().fill(tone)


def fragment_html(blocks: Iterable[doc.Block], width_em: int = 80) -> str:
    """What a notebook shows of a result: its sentences and tables, long tables by their first rows."""
    return f'<div style="max-width: {width_em}em">{"".join(_blocks_html(blocks))}</div>'


def _blocks_html(blocks: Iterable[doc.Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case doc.Opening(name, headline):
                yield f"<p><b>{_text(name)}</b> {_text(headline)}</p>"
            case doc.Conclusion(text) | doc.Heading(text):
                yield f"<p><b>{_text(text)}</b></p>"
            case doc.Paragraph(text):
                yield f"<p>{_text(text)}</p>"
            case doc.Points(title, items):
                yield f"<p>{_text(title)}</p><ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"
            case doc.Remarks(items):
                yield from (f"<p>{_text(item)}</p>" for item in items)
            case doc.SheetBlock(sheet):
                yield _sheet_html(sheet)
            case doc.Group(inner):
                yield from _blocks_html(inner)
            case doc.LedgerBlock(title, chart=chart):
                paint = _Around()
                yield f"<p>{_text(title)}</p>"
                yield f'<svg width="0" height="0" aria-hidden="true"><defs>{hatch(paint)}</defs></svg>'
                yield svg(chart.picture(str), paint)
            case doc.Findings():
                yield from _findings_html(block)
            case _:  # what is drawn with letters, and what only other media show
                continue


def _findings_html(block: doc.Findings) -> Iterator[str]:
    """The first ones, a line each."""
    items = []
    for shown in block.entries[:_MOST]:
        saving = ""
        if shown.saving is not None and shown.share is not None:
            saving = f", {shown.saving} ({share_text(shown.share)})"
        code, claim = shown.finding.code, capitalised(shown.finding.claim)
        items.append(f"<li><b>{_text(code)}</b>{_text(saving)}: {_text(claim)}.</li>")
    if items:
        yield f"<ol>{''.join(items)}</ol>"
    if len(block.entries) > _MOST:
        yield f"<p>{len(block.entries) - _MOST} more: <code>report.findings</code></p>"


def _sheet_html(sheet: Sheet) -> str:
    exact = not sheet.rounded
    headings = [column.title(exact=exact) for column in sheet.columns]
    shown = [
        [shown_text(cell, column, exact=exact) for cell, column in zip(row, sheet.columns, strict=True)]
        for row in (*sheet.rows[: _ROOM.rows], *sheet.foot)
    ]
    rest = len(sheet.rows) - _ROOM.rows
    return html_table(headings, shown, sheet.title, f"{rest} more rows" if rest > 0 else "")


def _text(text: str) -> str:
    return escape(visible(cut(text, _ROOM.letters, str)))

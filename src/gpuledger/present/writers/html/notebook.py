"""Results in a notebook, as HTML without scripts or style sheets: a report has its ledger bar, others their tables.

A notebook has its own style and may be dark, so text takes the colour around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from gpuledger.analyse.inventory import contents
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.messages import capitalised
from gpuledger.present.charts.svg import ByColour, hatch, svg
from gpuledger.present.digits import shown_text
from gpuledger.present.document import (
    Block,
    Conclusion,
    Document,
    Group,
    Heading,
    Opening,
    Paragraph,
    Points,
    Remarks,
    SheetBlock,
)
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.time_breakdown import ledger_picture
from gpuledger.present.views.report import ledger_title, saving_words, verdict
from gpuledger.present.writers.html.parts import Reader, Room
from gpuledger.present.writers.html.tables import cut
from gpuledger.trace.notebook_table import html_table
from gpuledger.units import share_text

_ROOM = Room(rows=20, letters=300)
_MOST = 5
"""So many findings are shown."""


class _Around(ByColour):
    """Text in the colour of the text around it."""

    def fill(self, tone: str) -> str:
        return 'fill="currentColor"' if tone in ("ink", "muted") else super().fill(tone)


def notebook_html(report: ProfiledRun) -> str:
    """What a notebook shows of a report."""
    about = contents(report.trace)
    scene = Scene(report, about, Reader("en", _ROOM, "", ""))
    paint = _Around()
    lines = [
        f"<p><b>{_text(report.name)}</b> {_text(origin_line(report.trace, about))}</p>",
        f"<p><b>{_text(verdict(report))}</b></p>",
        f"<p>{_text(ledger_title(scene.device))}</p>",
        f'<svg width="0" height="0" aria-hidden="true"><defs>{hatch(paint)}</defs></svg>',
        svg(ledger_picture(scene), paint),
    ]
    steady = {device.gpu: device.steady_ns for device in report.devices}
    items = []
    for found in report.findings[:_MOST]:
        saving = ""
        if found.saving_ns and found.gpu in steady:
            saving = f", {saving_words(found)} ({share_text(found.saving_ns / steady[found.gpu])})"
        items.append(f"<li><b>{_text(found.code)}</b>{_text(saving)}: {_text(capitalised(found.claim))}.</li>")
    if items:
        lines.append(f"<ol>{''.join(items)}</ol>")
    if len(report.findings) > _MOST:
        lines.append(f"<p>{len(report.findings) - _MOST} more: <code>report.findings</code></p>")
    return f'<div style="max-width: 60em">{"".join(lines)}</div>'


def fragment_html(document: Document) -> str:
    """What a notebook shows of any other result: its sentences and tables, long tables by their first rows."""
    return f'<div style="max-width: 80em">{"".join(_blocks_html(document.blocks()))}</div>'


def _blocks_html(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Opening(name=name, headline=headline):
                yield f"<p><b>{_text(name)}</b> {_text(headline)}</p>"
            case Conclusion(text=text):
                yield f"<p><b>{_text(text)}</b></p>"
            case Heading(text=text):
                yield f"<p><b>{_text(text)}</b></p>"
            case Paragraph(text=text):
                yield f"<p>{_text(text)}</p>"
            case Points(title=title, items=items):
                yield f"<p>{_text(title)}</p><ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"
            case Remarks(items=items):
                yield from (f"<p>{_text(item)}</p>" for item in items)
            case SheetBlock(sheet=sheet):
                yield _sheet_html(sheet)
            case Group(blocks=inner):
                yield from _blocks_html(inner)
            case _:  # what is drawn with letters, and what only other media show
                continue


def _sheet_html(sheet: Sheet) -> str:
    exact = not sheet.rounded
    headings = [column.title(exact=exact) for column in sheet.columns]
    rows = [*sheet.rows[: _ROOM.rows], *sheet.foot]
    shown = [
        [shown_text(cell, column, exact=exact) for cell, column in zip(row, sheet.columns, strict=True)] for row in rows
    ]
    rest = len(sheet.rows) - _ROOM.rows
    return html_table(headings, shown, sheet.title, f"{rest} more rows" if rest > 0 else "")


def _text(text: str) -> str:
    return escape(visible(cut(text, _ROOM.letters, str)))

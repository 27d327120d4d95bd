"""NVIDIA's tables together, with what a reader should know about the profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.present.document import Document, Remarks, SheetBlock, SheetTitle
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Sheet
from gpuledger.present.writers.json import health_json, sheet_json
from gpuledger.trace.model import Note, NotMeasured, Severity

NamedSheet = tuple[str, Sheet | NotMeasured]


def stats_document(profile: str, named: Sequence[NamedSheet], notes: Iterable[Note]) -> Document:
    """The tables, then the notes; JSON is the document gpuledger.stats/1."""
    sheets = tuple(sheet for _, sheet in named if isinstance(sheet, Sheet))
    remarks = tuple(_remarks(named, notes))
    tables = [SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in sheets]
    return Document(
        blocks=lambda: (*tables, Remarks(remarks, 6)) if remarks else tuple(tables),
        data=lambda: {
            "schema": "gpuledger.stats/1",
            "profile": profile,
            "reports": [sheet_json(name, sheet) for name, sheet in named],
            "health": health_json(notes),
        },
        sheets=lambda: sheets,
        remarks=remarks,
    )


def _remarks(named: Sequence[NamedSheet], notes: Iterable[Note]) -> list[str]:
    """What to say beside the tables: which have no data and why, and what was lost.

    nsys's own warnings are only counted here; `info` lists them.
    """
    lines = []
    for name, sheet in named:
        if isinstance(sheet, NotMeasured):
            lines.append(f"note: {name}: no data: {visible(sheet.reason)}")
        elif not sheet.rows:
            lines.append(f"note: {name}: no data: nothing of the kind was recorded")
    from_nsys = 0
    for note in notes:
        if note.code.startswith("nsys-"):
            from_nsys += note.count
        elif note.severity is not Severity.INFO:
            lines.append(f"note: {visible(note.sentence)}")
    if from_nsys:
        lines.append(f"note: nsys itself warned {from_nsys} times while capturing; `gpuledger info` lists them")
    return lines

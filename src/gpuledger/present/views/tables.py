"""The document of a verb that asks one question: its tables, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.present.document import Document, SheetBlock, SheetTitle
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.tables_page import tables_page
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.health import Note


def tables_document(verb: str, profile: str, sheets: Sequence[Sheet], notes: Iterable[Note], zero_ns: int) -> Document:
    """Tables for every format; JSON is the document gpuledger.VERB/1. Instants in it are told from `zero_ns`."""
    return Document(
        blocks=lambda: tuple(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in sheets),
        data=lambda: {
            "schema": f"gpuledger.{verb}/1",
            "profile": profile,
            "zero_ns": zero_ns,
            "tables": tables_json(sheets),
            "health": health_json(notes),
        },
        sheets=lambda: tuple(sheets),
        page=lambda reader: tables_page(profile, (), sheets, reader),
    )

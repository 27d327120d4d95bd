"""Several tables together, in each format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.present.sheet import Sheet
from gpuledger.present.writers.csv import sheet_csv
from gpuledger.present.writers.json import document, health_json, sheet_json
from gpuledger.present.writers.markdown import sheet_markdown
from gpuledger.present.writers.terminal import sheet_text
from gpuledger.trace.health import Note


def sheets(form: str, verb: str, profile: str, made: Sequence[Sheet], notes: Iterable[Note], width: int | None) -> str:
    """Tables in one of the formats; JSON is the document gpuledger.VERB/1."""
    if form == "json":
        tables = [{"table": sheet.name, **_without_name(sheet)} for sheet in made]
        return document(
            {"schema": f"gpuledger.{verb}/1", "profile": profile, "tables": tables, "health": health_json(notes)}
        )
    draw = {"csv": sheet_csv, "md": sheet_markdown}.get(form)
    return "\n".join(draw(sheet) if draw else sheet_text(sheet, width) for sheet in made)


def _without_name(sheet: Sheet) -> dict[str, object]:
    content = sheet_json(sheet.name, sheet)
    del content["report"]
    return content

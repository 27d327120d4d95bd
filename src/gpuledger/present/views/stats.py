"""NVIDIA's tables together, in each format, with what a reader should know about the profile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuledger.present.safe_text import visible, wrapped
from gpuledger.present.sheet import Sheet
from gpuledger.present.writers.csv import sheet_csv
from gpuledger.present.writers.json import document, health_json, sheet_json
from gpuledger.present.writers.markdown import escaped, sheet_markdown
from gpuledger.present.writers.terminal import sheet_text
from gpuledger.trace.health import Note, NotMeasured, Severity

NamedSheet = tuple[str, Sheet | NotMeasured]


def stats_text(named: Sequence[NamedSheet], notes: Iterable[Note], width: int | None) -> str:
    """For a terminal: one table after the other, then the notes."""
    blocks = [sheet_text(sheet, width) for _, sheet in named if isinstance(sheet, Sheet)]
    closing = "".join(f"{wrapped(line, width, 6)}\n" for line in remarks(named, notes))
    return "\n".join([*blocks, closing] if closing else blocks)


def stats_markdown(named: Sequence[NamedSheet], notes: Iterable[Note]) -> str:
    """For a document."""
    blocks = [sheet_markdown(sheet) for _, sheet in named if isinstance(sheet, Sheet)]
    closing = "".join(f"- {escaped(line)}\n" for line in remarks(named, notes))
    return "\n".join([*blocks, closing] if closing else blocks)


def stats_csv(named: Sequence[NamedSheet]) -> str:
    """One table after the other, an empty line between two."""
    return "\n".join(sheet_csv(sheet) for _, sheet in named if isinstance(sheet, Sheet))


def stats_json(profile: str, named: Sequence[NamedSheet], notes: Iterable[Note]) -> str:
    """The document gpuledger.stats/1."""
    return document(
        {
            "schema": "gpuledger.stats/1",
            "profile": profile,
            "reports": [sheet_json(name, sheet) for name, sheet in named],
            "health": health_json(notes),
        }
    )


def remarks(named: Sequence[NamedSheet], notes: Iterable[Note]) -> list[str]:
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

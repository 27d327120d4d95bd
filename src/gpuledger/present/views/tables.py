"""A verb that asks one question: the answer, then its tables, as a document and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.messages import Message, say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import Note, always_shown


class TableAnswer(Struct, frozen=True):
    """One GPU's answer to a question."""

    sentences: tuple[str, ...]
    """The answer, then what to do."""
    sheets: tuple[Sheet, ...]
    shown: tuple[Sheet, ...] = ()
    """For people, where they are to see other tables than programs."""


def answer_blocks(sentences: Sequence[str]) -> list[doc.Block]:
    """The answer, and under it what to do."""
    return [doc.Conclusion(sentences[0]), *([doc.Remarks(tuple(sentences[1:]))] if sentences[1:] else [])]


def answers_document(
    verb: str, profile: str, answers: Sequence[TableAnswer], notes: Iterable[Note], zero_ns: int
) -> doc.Document:
    """The answers of all GPUs, then their tables."""
    return tables_document(
        verb,
        profile,
        [sheet for answer in answers for sheet in answer.sheets],
        notes,
        zero_ns,
        sentences=[answer.sentences for answer in answers],
        shown=[sheet for answer in answers for sheet in answer.shown or answer.sheets],
    )


def tables_document(
    verb: str,
    profile: str,
    sheets: Sequence[Sheet],
    notes: Iterable[Note],
    zero_ns: int,
    *,
    sentences: Sequence[Sequence[str]] = (),
    shown: Sequence[Sheet] | None = None,
) -> doc.Document:
    """Sentences for each GPU, then tables; JSON is the document gpuledger.VERB/1. Instants are told from `zero_ns`."""
    notes = tuple(notes)
    first = [block for of_gpu in sentences for block in answer_blocks(of_gpu)]
    always = [say("Note: {sentence}.", sentence=sentence) for sentence in always_shown(notes)]
    first += [doc.Remarks(tuple(always))] if always else []
    people = sheets if shown is None else shown

    return doc.Document(
        blocks=lambda: (*first, *(doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True) for sheet in people)),
        data=doc.json_by("tables.answer_json", verb, profile, zero_ns, sheets, notes),
        sheets=lambda: tuple(sheets),
        page=lambda: tables_page(profile, list(map(doc.Paragraph, chain(*sentences, always))), people),
    )


def stretch_text(steps: int | None, gpu: int) -> str:
    """What figures per step are of; None: there are no steps."""
    if steps is None:
        return say("the whole window, GPU {gpu}", gpu=gpu)
    if steps == 1:
        return say("one step, GPU {gpu}", gpu=gpu)
    return say("mean of {steps} steady steps, GPU {gpu}", steps=steps, gpu=gpu)


_OF_WINDOW: Final[Mapping[str, str]] = {
    say("Per step"): say("Time"),
    say("Time per step"): say("Time"),
    say("Host per step"): say("Host"),
    say("GPU per step"): "GPU",
    say("Share of step"): say("Share"),
    say("GPU activities per step"): say("GPU activities"),
    say("FLOPs counted per step"): say("FLOPs counted"),
    say("Beyond light, per step"): say("Beyond light"),
    say("Step"): say("Now"),
    say("New step"): say("Then"),
    say("Of the new step"): say("Share"),
}
_OF_ALL_STEPS: Final = frozenset((say("All steps"), say("Idle, all steps"), say("Other work, all steps")))


def stretch_sheet(sheet: Sheet, *, has_steps: bool) -> Sheet:
    """A table as people see it: without steps, what would be of one step and of all is there once, as the window's."""
    if has_steps:
        return sheet
    kept = [
        place
        for place, column in enumerate(sheet.columns)
        if column.name not in _OF_ALL_STEPS and (column.name not in _OF_WINDOW or column.unit is not Unit.MEAN)
    ]

    def row(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
        told = (cells[place] for place in kept)
        return tuple(_OF_WINDOW.get(cell, cell) if isinstance(cell, Message) else cell for cell in told)

    def named(column: Column) -> Column:
        name, page_name = (_OF_WINDOW.get(text, text) for text in (column.name, column.page_name))
        return replace(column, name=name, page_name=page_name)

    columns = tuple(named(sheet.columns[place]) for place in kept)
    return replace(sheet, columns=columns, rows=tuple(map(row, sheet.rows)), foot=tuple(map(row, sheet.foot)))


def tables_page(
    profile: str,
    sentences: Sequence[doc.Paragraph],
    sheets: Sequence[Sheet],
    *,
    more: Sequence[doc.Block] = (),
    charts: Sequence[doc.Chart] = (),
) -> doc.Page:
    """The first sentence as the verdict, the others under it, pictures, each table under its title, and what else."""
    blocks: list[doc.Block] = [block for sheet in sheets for block in (doc.Heading(sheet.title), doc.SheetBlock(sheet))]
    return doc.Page(
        profile,
        verdict=sentences[0].text if sentences else "",
        opening=tuple(doc.Paragraph(sentence.text, "lead") for sentence in sentences[1:]),
        sections=(
            *((doc.Section("charts", say("Roofline"), tuple(charts)),) if charts else ()),
            *doc.chapters([*blocks, *more]),
            doc.AGAIN,
        ),
    )

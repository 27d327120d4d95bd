"""The document of a verb that asks one question: the answer, then its tables, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from gpuledger.messages import say
from gpuledger.present.document import Block, Conclusion, Document, Paragraph, Remarks, SheetBlock, SheetTitle
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.tables_page import tables_page
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.model import Note, told_always


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """One GPU's answer to a question."""

    sentences: tuple[str, ...]
    """The answer, then what to do."""
    sheets: tuple[Sheet, ...]
    shown: tuple[Sheet, ...] = ()
    """For people, where they are to see other tables than programs."""


def answer_blocks(told: Sequence[str]) -> list[Block]:
    """The answer, and under it what to do."""
    return [Conclusion(told[0]), *([Remarks(tuple(told[1:]))] if told[1:] else [])]


def answers_document(
    verb: str, profile: str, answers: Sequence[TableAnswer], notes: Iterable[Note], zero_ns: int
) -> Document:
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
) -> Document:
    """Sentences for each GPU, then tables; JSON is the document gpuledger.VERB/1. Instants are told from `zero_ns`."""
    notes = tuple(notes)
    first = [block for told in sentences for block in answer_blocks(told)]
    always = [say("Note: {sentence}.", sentence=sentence) for sentence in told_always(notes)]
    first += [Remarks(tuple(always))] if always else []
    people = sheets if shown is None else shown
    return Document(
        blocks=lambda: (*first, *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in people)),
        data=lambda: {
            "schema": f"gpuledger.{verb}/1",
            "profile": profile,
            "zero_ns": zero_ns,
            "tables": tables_json(sheets),
            "health": health_json(notes),
        },
        sheets=lambda: tuple(sheets),
        page=lambda reader: tables_page(profile, list(map(Paragraph, chain(*sentences, always))), people, reader),
    )

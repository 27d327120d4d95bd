"""A page of a few sentences and tables: what a verb shows as HTML that answers with figures per step of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuledger.messages import say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.sheet import Sheet

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader


def stretch_text(steps: int | None, gpu: int) -> str:
    """What figures per step are of; None: there are no steps."""
    if steps is None:
        return say("the whole window, GPU {gpu}", gpu=gpu)
    if steps == 1:
        return say("one step, GPU {gpu}", gpu=gpu)
    return say("mean of {steps} steady steps, GPU {gpu}", steps=steps, gpu=gpu)


def tables_page(
    profile: str,
    sentences: Sequence[Paragraph],
    sheets: Sequence[Sheet],
    reader: Reader,
    *,
    more: Sequence[Block] = (),
) -> Page:
    """The sentences as the verdict, then each table under its title, then what else is to be said."""
    from gpuledger.present.writers.html.blocks import block_sections
    from gpuledger.present.writers.html.parts import Command, Page, Section
    from gpuledger.present.writers.html.tables import cut

    name = cut(profile, reader.room.letters, reader.tell)
    blocks: list[Block] = [block for sheet in sheets for block in (Heading(sheet.title), SheetBlock(sheet))]
    return Page(
        title=f"{name} · gpuledger",
        name=name,
        headline="",
        verdict=" ".join(cut(reader.tell(sentence.text), reader.room.letters, reader.tell) for sentence in sentences),
        tiles=(),
        sections=(
            *block_sections([*blocks, *more], reader, ""),
            Section("again", say("Reproduce"), (Command(reader.command),)),
        ),
    )

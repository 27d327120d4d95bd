"""An alignment as a page: the conclusion, the seven checks with their verdicts, and the kernels side by side."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.align.alignment import Alignment
from gpuledger.messages import say
from gpuledger.present.document import Block, Heading
from gpuledger.present.views.align import CHECKS, VERDICT_WORDS, about, checks_block, evidence_blocks, title
from gpuledger.present.writers.html.blocks import block_sections
from gpuledger.present.writers.html.parts import Command, Page, Reader, Section, Tile
from gpuledger.present.writers.html.tables import cut
from gpuledger.trace.model import Note
from gpuledger.units import time_text


def align_page(made: Alignment, health: Sequence[Note], reader: Reader) -> Page:
    """The page."""
    name, verdict, headline = (
        cut(reader.tell(text), reader.room.letters, reader.tell) for text in (title(made), made.conclusion, about(made))
    )
    return Page(
        title=f"{name} · gpuledger",
        name=name,
        headline=headline,
        verdict=verdict,
        tiles=_tiles(made),
        sections=(
            *block_sections(_blocks(made, health), reader, ""),
            Section("again", say("Reproduce"), (Command(reader.command),)),
        ),
    )


def _blocks(made: Alignment, health: Sequence[Note]) -> list[Block]:
    return [Heading(CHECKS), checks_block(made), Heading(say("What was seen")), *evidence_blocks(made, health)]


def _tiles(made: Alignment) -> tuple[Tile, ...]:
    sides = ((say("Mock, GPU time per forward"), made.sides.mock), (say("Model"), made.sides.e2e))
    tiles = [Tile(name, time_text(side.gpu_ns)) for name, side in sides if side.gpu_ns is not None]
    return Tile(say("Verdict"), VERDICT_WORDS[made.verdict]), *tiles

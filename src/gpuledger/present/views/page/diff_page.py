"""A comparison as a page: the verdict, the parts that sum to the difference as a waterfall, and the tables of text."""

from __future__ import annotations

from gpuledger.answers.several_profiles import Compared
from gpuledger.messages import say
from gpuledger.present.views.diff.document import diff_blocks, verdict_text
from gpuledger.present.views.diff.tables import signed_share, signed_time
from gpuledger.present.writers.html.blocks import block_sections
from gpuledger.present.writers.html.parts import Command, Page, Reader, Section, Tile
from gpuledger.present.writers.html.tables import cut
from gpuledger.units import time_text


def diff_page(compared: Compared, reader: Reader) -> Page:
    """The page."""
    diff = compared.diff
    before, after = (cut(side.name, reader.room.letters, reader.tell) for side in (diff.before, diff.after))
    return Page(
        title=f"{reader.tell(say('{before} against {after}', before=before, after=after))} · gpuledger",
        name=f"{before} → {after}",
        headline="",
        verdict=reader.tell(say("{told}.", told=verdict_text(diff))),
        tiles=_tiles(compared),
        sections=(
            *block_sections(diff_blocks(compared), reader, say("Compared")),
            Section("again", say("Reproduce"), (Command(reader.command),)),
        ),
    )


def _tiles(compared: Compared) -> tuple[Tile, ...]:
    diff = compared.diff
    change = Tile(say("Change"), signed_time(diff.delta_ns), signed_share(diff.share))
    return (
        Tile(say("Before"), time_text(diff.before.median_ns)),
        Tile(say("After"), time_text(diff.after.median_ns)),
        change,
    )

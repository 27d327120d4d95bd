"""Who was late, and when, as tables: a number per rank and step, and the ranks that others waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.ranks.rank_times import LateAt, Lateness, Straggler
from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit

_STRAGGLER: Final = (
    Column("rank", say("Rank"), Unit.TEXT),
    Column("late", say("Last to arrive"), Unit.COUNT),
    Column("of", say("of"), Unit.COUNT, detail=3),
    Column("caused_percent", say("Waited for"), Unit.SHARE_PERCENT, detail=1),
    Column("saves_percent", say("Step shorter by"), Unit.SHARE_PERCENT),
    Column("compute_percent", say("Extra compute"), Unit.CHANGE_PERCENT),
    Column("worst_step", say("Latest in step"), Unit.ID, detail=1),
    Column("worst_ns", say("by"), Unit.NS, detail=2),
    Column("profile", say("Profile"), Unit.TEXT, detail=4),
)

_LATE_AT: Final = {
    LateAt.COLLECTIVES: say("how late a rank reached a step's collectives, at most"),
    LateAt.STEPS: say("how much longer a step took than on the fastest rank"),
}


def lateness_words(late: Lateness) -> str:
    """What the numbers are."""
    return _LATE_AT[late.seen_at]


def lateness_sheet(late: Lateness) -> Sheet:
    """The whole of it as a table: a row per rank, a column per step."""
    columns = [Column(f"step_{step}_ns", f"Step {step}", Unit.NS) for step in late.steps]
    rows = tuple((rank, *row) for rank, row in zip(late.ranks, late.late_ns.tolist(), strict=True))
    title = f"By rank and step: {lateness_words(late)}"
    return Sheet("fleet_late", title, (Column("rank", "Rank", Unit.TEXT), *columns), rows)


def straggler_sheet(stragglers: Sequence[Straggler]) -> Sheet:
    """The ranks that others waited for, the most waited for first."""
    rows = tuple(map(_row, stragglers))
    return Sheet("fleet_stragglers", say("Stragglers: ranks that others wait for"), _STRAGGLER, rows)


def _row(straggler: Straggler) -> tuple[Cell, ...]:
    ratio, worst = straggler.compute_ratio, straggler.worst
    return (
        straggler.label,
        straggler.late,
        straggler.counted,
        100 * straggler.caused_ns / straggler.all_caused_ns if straggler.all_caused_ns else 0.0,
        None if straggler.saves_share is None else 100 * straggler.saves_share,
        None if ratio is None else 100 * (ratio - 1),
        worst.step if worst else None,
        worst.late_ns if worst else None,
        straggler.profile,
    )

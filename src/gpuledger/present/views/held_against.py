"""Use from samples held against Nsight Compute's counters of the same kernels: an answer, two tables and JSON."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any, Final

from gpuledger.analyse.utilization.against_counters import HeldAgainst, agreement
from gpuledger.catalog.gpu_metrics import OF_KERNELS
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import Message, say
from gpuledger.present.document import Block, Heading, Paragraph, SheetBlock
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.kernel_use import NAMES
from gpuledger.units import count_text, share_text

_SHOWN: Final = 8
"""Kernels that people are shown, the most time first."""

_SUMMARY: Final = (
    Column("counter", say("Counter"), Unit.TEXT),
    Column("kernels", say("Kernels"), Unit.FIGURE),
    Column("mean_error", say("Mean error by time"), Unit.FIGURE),
    Column("held", say("In interval"), Unit.FIGURE),
)
_EACH: Final = (
    Column("kernel", say("Kernel"), Unit.TEXT),
    Column("counter", say("Counter"), Unit.TEXT),
    Column("samples", say("Samples"), Unit.FIGURE),
    Column("interval", say("Interval"), Unit.FIGURE),
    Column("ncu", "ncu", Unit.FIGURE),
    Column("holds", say("In interval"), Unit.TEXT),
)


def against_blocks(held: tuple[HeldAgainst, ...]) -> list[Block]:
    """What agrees and what does not, kernel by kernel; nothing where no kernel is in both."""
    return [*summary_blocks(held), SheetBlock(_kernels_sheet(held))] if held else []


def summary_blocks(held: tuple[HeldAgainst, ...]) -> list[Block]:
    """The same by counter alone."""
    if not held:
        return []
    return [
        Heading(say("Samples vs Nsight Compute")),
        Paragraph(_sentence(held)),
        SheetBlock(_summary_sheet(held)),
    ]


def _sentence(held: tuple[HeldAgainst, ...]) -> Message:
    """How many kernels are in both, and how often the interval has what ncu counted."""
    inside = sum(each.is_held for each in held)
    return say(
        "For the {kernels} kernels in both (by name, grid and block), the intervals from samples "
        "contain {share} of the {count} values that Nsight Compute measured.",
        kernels=count_text(len({id(each.kernel) for each in held})),
        share=share_text(inside / len(held)),
        count=count_text(len(held)),
    )


def _summary_sheet(held: tuple[HeldAgainst, ...]) -> Sheet:
    """A row per counter."""
    rows: list[tuple[Cell, ...]] = []
    for metric in OF_KERNELS:
        if (found := agreement(held, metric)) is not None:
            error = say("{points} points", points=f"{found.mean_error:.1f}")
            rows.append((NAMES[metric], count_text(found.kernels), error, share_text(found.held_share)))
    return Sheet("against_ncu", say("Samples vs Nsight Compute"), _SUMMARY, tuple(rows))


def _kernels_sheet(held: tuple[HeldAgainst, ...]) -> Sheet:
    """The kernels with the most time, a row per counter."""
    rows: list[tuple[Cell, ...]] = []
    for kernel, figures in islice(groupby(held, key=lambda each: each.kernel), _SHOWN):
        for place, each in enumerate(figures):
            name = "" if place else label(kernel.full_name)
            interval = say("{low} to {high} %", low=round(each.sampled.low), high=round(each.sampled.high))
            sides = (_percent(each.sampled.percent), interval, _percent(each.counted))
            rows.append((name, NAMES[each.metric], *sides, say("yes") if each.is_held else say("no")))
    return Sheet("against_ncu_kernels", say("Kernels with the most time"), _EACH, tuple(rows))


def _percent(value: float) -> str:
    return share_text(value / 100)


def against_json(held: tuple[HeldAgainst, ...]) -> dict[str, Any]:
    """Every counter of every kernel that both have; percent, and points where they differ."""
    counters = {metric: found for metric in OF_KERNELS if (found := agreement(held, metric)) is not None}
    return {
        "counters": {
            metric.value: {
                "kernels": found.kernels,
                "mean_error_points": round(found.mean_error, 3),
                "held_share": found.held_share,
                "near_share": found.near_share,
            }
            for metric, found in counters.items()
        },
        "kernels": [
            {
                "name": each.kernel.name,
                "grid": list(each.kernel.grid),
                "block": list(each.kernel.block),
                "ns": each.kernel.time_ns,
                "counter": each.metric.value,
                "percent": round(each.sampled.percent, 2),
                "low": round(each.sampled.low, 2),
                "high": round(each.sampled.high, 2),
                "ncu_percent": round(each.counted, 2),
                "held": each.is_held,
            }
            for each in held
        ],
    }

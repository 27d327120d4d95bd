"""Gaps as tables: by cause, by trigger, by length, and the longest ones."""

from __future__ import annotations

import numpy as np

from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.ledger.gaps import CAUSES, TRIGGERS, histogram
from gpuledger.ledger.ranges import ranges_around
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import Trace

LONGEST = 20
_SHARE = Column("share_percent", "Share", Unit.SHARE_PERCENT)


def gap_sheets(trace: Trace, device: Device) -> list[Sheet]:
    """All tables about one GPU's gaps."""
    made = [_by_cause(device), _by_trigger(device), _by_length(device), _longest(trace, device)]
    gpu = device.gpu
    return [Sheet(f"{sheet.name}_gpu{gpu}", f"{sheet.title}, GPU {gpu}", sheet.columns, sheet.rows) for sheet in made]


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _by_cause(device: Device) -> Sheet:
    gaps = device.ledger.gaps
    sums = gaps.by_cause.sums()
    total = sum(sums.values())
    columns = (Column("cause", "Cause", Unit.TEXT), Column("time_ns", "Time", Unit.NS), _SHARE)
    rows: list[tuple[Cell, ...]] = [
        (cause, time, _percent(time, total)) for cause, time in sorted(sums.items(), key=lambda e: (-e[1], e[0]))
    ]
    return Sheet("gaps_by_cause", "Idle time by cause", columns, (*rows, ("total", total, _percent(total, total))))


def _by_trigger(device: Device) -> Sheet:
    columns = (
        Column("trigger", "Trigger", Unit.TEXT),
        Column("call", "Call", Unit.TEXT),
        Column("gaps", "Gaps", Unit.COUNT),
        Column("time_ns", "Time", Unit.NS),
        _SHARE,
    )
    total = sum(time for time, _ in device.triggers.values())
    rows = tuple((t, call, count, time, _percent(time, total)) for (t, call), (time, count) in device.triggers.items())
    return Sheet("gaps_by_trigger", "Idle time by trigger, steady steps", columns, rows)


def _by_length(device: Device) -> Sheet:
    columns = (
        Column("length", "Length", Unit.TEXT),
        Column("gaps", "Gaps", Unit.COUNT),
        Column("time_ns", "Time", Unit.NS),
        _SHARE,
    )
    buckets = histogram(device.ledger.gaps)
    total = sum(time for _, _, time in buckets)
    rows = tuple((name, count, time, _percent(time, total)) for name, count, time in buckets)
    return Sheet("gaps_by_length", "Gaps by length", columns, rows)


def _longest(trace: Trace, device: Device) -> Sheet:
    gaps, found = device.ledger.gaps, device.found
    columns = (
        Column("length_ns", "Length", Unit.NS),
        Column("start_ns", "Start", Unit.INSTANT_NS, detail=2),
        Column("trigger", "Trigger", Unit.TEXT),
        Column("cause", "Largest cause", Unit.TEXT),
        Column("cause_ns", "Cause", Unit.NS, detail=1),
        Column("before", "Before", Unit.TEXT, detail=3, shorten=label),
        Column("range", "Range", Unit.TEXT, detail=4),
        Column("tid", "Thread", Unit.ID, detail=5),
        Column("after", "After", Unit.TEXT, shorten=label),
    )

    def name(activity: int) -> str | None:
        return trace.strings.text(int(found.name[activity])) if activity >= 0 else None

    rows = []
    largest = gaps.by_cause.largest()
    for at in np.argsort(-gaps.length_ns, kind="stable")[:LONGEST].tolist():
        cause = CAUSES[largest[at]]
        trigger = TRIGGERS[gaps.trigger[at]]
        if gaps.drained_by[at]:
            trigger = f"{trigger} by {gaps.draining[gaps.drained_by[at]]}"
        ends = (name(int(gaps.before[at])), name(int(gaps.after[at])))
        length, start = int(gaps.length_ns[at]), int(gaps.start_ns[at])
        call = int(gaps.call[at])
        where = " > ".join(ranges_around(trace, device.host.calls, call))
        owner = int(device.host.calls["tid"][call]) if call >= 0 else None
        largest_ns = int(gaps.by_cause.of(cause)[at])
        rows.append((length, start, trigger, cause, largest_ns, ends[0], where, owner, ends[1]))
    return Sheet("gaps_longest", f"The {LONGEST} longest gaps", columns, tuple(rows))

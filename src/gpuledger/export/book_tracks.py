"""The books on a timeline: one GPU's steps, idle gaps and curves in, tracks, records and levels out.

A gap is named by its largest cause, so that a viewer colours it by cause; what set it off, and its time by cause, are
arguments. A step's arguments are its lines of the ledger, which sum to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.over_time import busy_share, memory_events, queue_depth
from gpuledger.export.timeline import (
    Argument,
    ArgumentColumn,
    Levels,
    Records,
    Track,
    TrackKind,
    UniqueNumbers,
    by_name,
    text_argument,
)
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.phases import PHASES
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints

BINS: Final = 1000
"""Parts of the window for which the share of busy time is told."""

_STEPS, FINDINGS, PATH, _IDLE, _BUSY, _QUEUE, _MEMORY = range(7)
"""The order in which tracks of a GPU are shown."""


def book_side(
    trace: Trace, device: Device, above: Track, numbers: UniqueNumbers
) -> tuple[list[Track], list[Records], list[Levels]]:
    """All that the books say of one GPU."""
    tracks: list[Track] = []
    records: list[Records] = []
    levels: list[Levels] = []

    def track(kind: TrackKind, name: str, order: int, unit: str = "") -> int:
        new_track = Track(numbers.uuid(), kind, name, above.uuid, above.pid, numbers.like(0), order, unit)
        tracks.append(new_track)
        return new_track.uuid

    if device.steps is not None:
        records.append(_steps(device, track(TrackKind.SLICES, "steps", _STEPS)))
    if len(device.ledger.gaps):
        records.append(_gaps(trace, device, track(TrackKind.SLICES, "idle, by cause", _IDLE)))
    instants, share = busy_share(device, BINS)
    end = device.ledger.window.end_ns
    uuid = track(TrackKind.COUNTER, "busy", _BUSY, "%")
    levels.append(Levels(uuid, np.append(instants, end), np.append(100 * share, 0.0)))
    instants, depth = queue_depth(device)
    if len(instants):
        levels.append(Levels(track(TrackKind.COUNTER, "launches in the queue", _QUEUE, "launches"), instants, depth))
    events, _, level = memory_events(trace, device.gpu)
    if len(events):
        levels.append(Levels(track(TrackKind.COUNTER, "memory in use", _MEMORY, "bytes"), events["start_ns"], level))
    return tracks, records, levels


def in_a_row(
    track: Ints | int,
    start_ns: Ints,
    end_ns: Ints,
    titles: Sequence[str],
    title: NDArray[Any],
    category: str,
    arguments: tuple[Argument, ...],
    *,
    instant: bool = False,
) -> Records:
    """Records that follow each other."""
    count = len(start_ns)
    return Records(
        start_ns=start_ns,
        end_ns=end_ns,
        track=np.full(count, track) if isinstance(track, int) else track,
        rank=np.arange(count),
        titles=titles,
        title=title.astype(np.int64),
        categories=(category,),
        category=np.zeros(count, np.int64),
        instant=np.full(count, instant),
        arguments=arguments,
    )


def _gaps(trace: Trace, device: Device, track: int) -> Records:
    gaps, name = device.ledger.gaps, np.append(device.work.name, -1)
    causes = {f"{cause}_ns": ArgumentColumn((gaps.by_cause.of(cause),), absent=0) for cause in CAUSES}
    drained = np.where(gaps.drained_by > 0, gaps.drained_by, -1)
    texts = trace.strings.texts
    arguments = (
        text_argument("trigger", TRIGGERS, gaps.trigger),
        text_argument("drained_by", gaps.draining, drained),
        *by_name(causes),
        text_argument("before", texts, name[gaps.before]),
        text_argument("after", texts, name[gaps.after]),
    )
    return in_a_row(track, gaps.start_ns, gaps.end_ns, CAUSES, gaps.by_cause.largest(), "idle", arguments)


def _steps(device: Device, track: int) -> Records:
    steps, ledger = device.steps, device.ledger
    if steps is None:
        raise ValueError("no steps")
    begins, ends = steps.start_ns, steps.end_ns
    books = ledger.books[np.searchsorted(ledger.tiles_ns, steps.edges_ns[:-1])]
    filled = [(index, line) for index, line in enumerate(ledger.lines) if books[:, index].any()]
    lines = {f"{line}_ns": ArgumentColumn((books[:, index],), absent=0) for index, line in filled}
    number = np.arange(len(steps))
    phase = np.array(device.phases.of_step, np.int64)
    arguments = (
        Argument("warm_up", ArgumentColumn(((number < steps.warm_up).astype(np.int8),), absent=0)),
        *((text_argument("phase", PHASES, np.where(phase > 0, phase, -1)),) if len(phase) == len(steps) else ()),
        *by_name(lines),
    )
    titles = [f"step {index}" for index in range(len(steps))]
    return in_a_row(track, begins, ends, titles, number, "step", arguments)

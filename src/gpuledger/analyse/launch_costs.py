"""What launching costs over one GPU's steady steps: launch calls, calls that wait, the queue, and launches by range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.activity_bins import launch_delays
from gpuledger.analyse.call_times import CallTimes, most_time_first
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.catalog.name_likeness import counted_as
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, pairs_inside
from gpuledger.trace.statistics import median, summarise

TINY_NS: Final = 5_000
"""An activity shorter than this costs less than its launch."""

AHEAD_NS: Final = 10_000
"""Work that was queued for longer was launched well ahead."""

_MOST_RANGES: Final = 20


@dataclass(frozen=True, slots=True)
class QueueDelays:
    """From a launch call's return to the start of what it launched."""

    median_ns: float
    p10_ns: float
    p90_ns: float
    ahead_share: float
    """Of the activities, those that waited longer than AHEAD_NS."""


@dataclass(frozen=True, slots=True)
class LaunchQueue:
    """How far the host runs ahead."""

    activities: int
    activities_per_step: float
    tiny_share: float | None
    """Of the activities, those shorter than TINY_NS; None where there are none."""
    launched: int
    """Of the activities, those whose launch call was recorded."""
    delays: QueueDelays | None
    """None where no launch call was recorded."""


@dataclass(frozen=True, slots=True)
class RangeLaunches:
    """The launch calls inside the ranges of one name, the ranges inside them included."""

    name: str
    instances: int
    launches: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """All of it, for one GPU. Calls have the most time first, ranges the most launches."""

    gpu: int
    steps: int
    steady_ns: int
    launch_calls: tuple[CallTimes, ...]
    waiting_calls: tuple[CallTimes, ...]
    queue: LaunchQueue
    by_range: tuple[RangeLaunches, ...]


def launch_costs(trace: Trace, device: Device) -> LaunchCosts:
    """What launching costs on one GPU."""
    host = device.host
    waits = device.steady_calls & host.are(CallKind.SYNC)
    return LaunchCosts(
        gpu=device.gpu,
        steps=device.step_count,
        steady_ns=device.steady_ns,
        launch_calls=most_time_first(host.calls.at(device.steady_launches)),
        waiting_calls=most_time_first(host.calls.at(np.flatnonzero(waits))),
        queue=_queue(device),
        by_range=_by_range(trace, device, device.steady_launches),
    )


def _queue(device: Device) -> LaunchQueue:
    activities = device.work
    here = activities.on(device.gpu)
    here = here[device.begins_steady(activities.start_ns[here])]
    delay = launch_delays(device)
    length = activities.end_ns[here] - activities.start_ns[here]
    return LaunchQueue(
        activities=len(here),
        activities_per_step=len(here) / device.step_count,
        tiny_share=float((length < TINY_NS).mean()) if len(here) else None,
        launched=len(delay),
        delays=_delays(delay) if len(delay) else None,
    )


def _delays(delay: Ints) -> QueueDelays:
    return QueueDelays(
        median_ns=median(delay),
        p10_ns=float(np.percentile(delay, 10)),
        p90_ns=float(np.percentile(delay, 90)),
        ahead_share=float((delay > AHEAD_NS).mean()),
    )


def _by_range(trace: Trace, device: Device, launches: Positions) -> tuple[RangeLaunches, ...]:
    """Launch calls inside each range, the ranges around it included."""
    calls = device.host.calls.at(launches)
    ranges = spans_of_time(trace)
    outer, inner = pairs_inside(
        ranges["start_ns"], ranges["end_ns"], thread(ranges), calls["start_ns"], calls["end_ns"], thread(calls)
    )
    kinds, kind = trace.strings.kinds(ranges.codes("name")[outer], lambda text: counted_as(text or ""))
    first, number = group(kind)
    times = summarise(calls.duration_ns[inner], number)
    instances = np.bincount(number[group(number, outer)[0]], minlength=len(first))
    names = [kinds[position] for position in kind[first].tolist()]
    by_range = [
        RangeLaunches(name, count, statistics.count, statistics.total)
        for name, count, statistics in zip(names, instances.tolist(), times, strict=True)
    ]
    return tuple(sorted(by_range, key=lambda entry: (-entry.launches, entry.name))[:_MOST_RANGES])

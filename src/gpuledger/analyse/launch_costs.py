"""What launching costs over one GPU's steady steps: launch calls, calls that wait, the queue, and launches by range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.activity_bins import launch_delays
from gpuledger.analyse.call_times import CallTimes, most_time_first
from gpuledger.analyse.range_nest import Nest
from gpuledger.catalog.call_kinds import CallKind
from gpuledger.catalog.name_likeness import counted_as
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import Nesting, calls_in_ranges, spans_of_time
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import Rows

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
    waits, launches = device.steady_calls & host.are(CallKind.SYNC), device.steady_launches
    return LaunchCosts(
        gpu=device.gpu,
        steps=device.step_count,
        steady_ns=device.steady_ns,
        launch_calls=most_time_first(host.calls.only("name").at(launches)),
        waiting_calls=most_time_first(host.calls.at(np.flatnonzero(waits))),
        queue=_queue(device),
        by_range=_by_range(trace, device, launches),
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
    calls = device.host.calls.only("pid", "tid").at(launches)
    ranges = spans_of_time(trace)
    count, time = _inside(ranges, calls)
    names, number = trace.strings.kinds(ranges.codes("name"), lambda text: counted_as(text or ""))
    amounts = [np.bincount(number, column, minlength=len(names)) for column in (count > 0, count, time)]
    by_range = [
        RangeLaunches(name, int(instances), int(inside), int(total))
        for name, instances, inside, total in zip(names, *(column.tolist() for column in amounts), strict=True)
        if inside
    ]
    return tuple(sorted(by_range, key=lambda entry: (-entry.launches, entry.name))[:_MOST_RANGES])


def _inside(ranges: Rows, calls: Rows) -> tuple[Ints, Ints]:
    """For each range how many of the calls lie in it, and their time."""
    nesting = Nesting.of(ranges) if (calls["end_ns"] > calls["start_ns"]).all() else None
    amounts = np.stack((np.ones(len(calls), np.int64), calls.duration_ns))
    if nesting is None:
        outer, inner = calls_in_ranges(ranges, calls)
        count, time = (_added(outer, column[inner], len(ranges)) for column in amounts)
        return count, time
    held = nesting.innermost(calls)
    inside, nest = np.flatnonzero(held >= 0), Nest(ranges, nesting.above)
    count, time = (nest.summed_up(_added(held[inside], column[inside], len(ranges))) for column in amounts)
    return count, time


def _added(place: Positions, amount: Ints, places: int) -> Ints:
    whole = np.zeros(places, np.int64)
    np.add.at(whole, place, amount)
    return whole

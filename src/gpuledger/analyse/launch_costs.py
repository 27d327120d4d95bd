"""What launching costs over one GPU's steady steps: launch calls, calls that wait, the queue, and launches by range."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.attribution.ranges import Nest
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import without_ids
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import calls_in_ranges
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, union
from gpuledger.trace.statistics import Statistics, percentile_in_order, summarise
from gpuledger.trace.tables import Rows


class CallTimes(Struct, frozen=True):
    """The calls of one function, in nanoseconds. `order` is the profiler's numbering of names."""

    name: str
    order: int
    times: Statistics


def by_function(calls: Rows, chosen: Positions | None = None) -> list[CallTimes]:
    """One entry per function as recorded, version suffix included, in no particular order; of the chosen calls."""
    names, length = calls.codes("name"), calls.duration_ns
    if chosen is not None:
        names, length = names[chosen], length[chosen]
    first, number = group(names)
    codes = names[first]
    del names
    times = summarise(length, number.astype(np.int32))
    return [
        CallTimes(text or "", code, statistics)
        for text, code, statistics in zip(calls.strings.decode(codes), codes.tolist(), times, strict=True)
    ]


def most_time_first(calls: Rows, chosen: Positions | None = None) -> tuple[CallTimes, ...]:
    """The same, sorted."""
    return tuple(sorted(by_function(calls, chosen), key=lambda function: -function.times.total))


TINY_NS: Final = 5_000  # an activity shorter than this takes longer to launch than to run
AHEAD_NS: Final = 10_000  # work that was queued for longer was launched well ahead

_MOST_RANGES: Final = 20

DELAYS: Final[tuple[tuple[str, int | None], ...]] = (
    (say("during the call"), 0),
    ("0-2 us", 2_000),
    ("2-5 us", 5_000),
    ("5-10 us", 10_000),
    ("10-100 us", 100_000),
    ("0.1-1 ms", 1_000_000),
    (say("over 1 ms"), None),
)
"""How long launched work waited, each bucket up to but not including its bound."""


class QueueDelays(Struct, frozen=True):
    """From a launch call's return to the start of what it launched; 0 for what began before the call returned."""

    median_ns: float
    p10_ns: float
    p90_ns: float
    ahead_share: float  # of the activities, those that waited longer than AHEAD_NS
    by_bucket: tuple[tuple[str, int], ...]  # how many activities waited how long, see DELAYS


class LaunchQueue(Struct, frozen=True):
    """How far the host runs ahead."""

    activities: int
    activities_per_step: float
    tiny_share: float | None  # of the activities, those shorter than TINY_NS; None where there are none
    launched: int  # of the activities, those whose launch call was recorded
    delays: QueueDelays | None  # None where no launch call was recorded


class RangeLaunches(Struct, frozen=True):
    """The launch calls inside the ranges of one name, the ranges inside them included."""

    name: str
    instances: int
    launches: int
    total_ns: int


class LaunchCosts(Struct, frozen=True):
    """All of it, for one GPU. Calls have the most time first, ranges the most launches."""

    gpu: int
    steps: int
    steady_ns: int
    launch_calls: tuple[CallTimes, ...]
    waiting_calls: tuple[CallTimes, ...]
    waited_ns: int  # when any thread was in one, in the steady stretch: two that wait at once wait once
    queue: LaunchQueue
    by_range: tuple[RangeLaunches, ...]
    families: tuple[tuple[str, Statistics], ...]  # the kernels of each family, and how long they run; the most first


def launch_costs(trace: Trace, device: Device) -> LaunchCosts:
    """What launching costs on one GPU."""
    host = device.host
    waits, launches = np.flatnonzero(device.steady_calls & host.are(CallKind.SYNC)), device.steady_launches
    waited = union(host.calls["start_ns"][waits], host.calls["end_ns"][waits])
    return LaunchCosts(
        gpu=device.gpu,
        steps=device.step_count,
        steady_ns=device.steady_ns,
        launch_calls=most_time_first(host.calls, launches),
        waiting_calls=most_time_first(host.calls, waits),
        waited_ns=int(device.steady_part_ns(waited.start_ns, waited.end_ns).sum()),
        queue=_queue(device),
        by_range=_by_range(trace, device, launches),
        families=_families(device),
    )


def _families(device: Device) -> tuple[tuple[str, Statistics], ...]:
    work = device.work.of(device.gpu)
    kernels = np.flatnonzero(device.begins_steady(work.start_ns) & (work.family >= 0))
    family = work.family[kernels]
    first, number = group(family)
    times = summarise(work.end_ns[kernels] - work.start_ns[kernels], number)
    families = zip((work.families[family] for family in family[first].tolist()), times, strict=True)
    return tuple(sorted(families, key=lambda entry: (-entry[1].count, entry[0])))


def _queue(device: Device) -> LaunchQueue:
    work = device.work.of(device.gpu)
    steady = device.begins_steady(work.start_ns)
    tiny, count = (work.end_ns - work.start_ns < TINY_NS) & steady, int(np.count_nonzero(steady))
    delay, delays = _launch_delays(device), None
    delay.sort()  # once for all that is asked of it
    if len(delay):
        ahead = len(delay) - int(np.searchsorted(delay, AHEAD_NS, side="right"))
        up_to = np.searchsorted(delay, [bound for _, bound in DELAYS if bound is not None]).tolist()
        counts = np.diff([0, *up_to, len(delay)]).tolist()
        buckets = tuple((name, count) for (name, _), count in zip(DELAYS, counts, strict=True))
        np.maximum(delay, 0, out=delay)
        low, middle, high = (percentile_in_order(delay, percent) for percent in (10, 50, 90))
        delays = QueueDelays(middle, low, high, ahead / len(delay), buckets)
    return LaunchQueue(
        activities=count,
        activities_per_step=count / device.step_count,
        tiny_share=int(np.count_nonzero(tiny)) / count if count else None,
        launched=len(delay),
        delays=delays,
    )


def _launch_delays(device: Device) -> Ints:
    """From a launch call's return to the start of what it launched, in the steady stretch; negative where work began
    before the call returned."""
    work, returned = device.work.of(device.gpu), device.host.calls["end_ns"]
    counts = device.begins_steady(work.start_ns) & (work.launch >= 0)
    delay, filled = np.empty(int(np.count_nonzero(counts)), np.int64), 0
    for part in sweep.parts(len(counts)):
        begun, call = work.start_ns[part][counts[part]], work.launch[part][counts[part]]
        delay[filled : filled + len(call)] = begun - returned[call]
        filled += len(call)
    return delay


def _by_range(trace: Trace, device: Device, launches: Positions) -> tuple[RangeLaunches, ...]:
    """Launch calls inside each range, the ranges around it included."""
    ranges = device.host.ranges
    count, time = _inside(device.host, launches)
    bare = trace.strings.rewritten(ranges.codes("name"), without_ids)
    names, number = bare.strings.kinds(bare.codes, str)
    amounts = [np.bincount(number, column, minlength=len(names)) for column in (count > 0, count, time)]
    by_range = [
        RangeLaunches(name, int(instances), int(inside), int(total))
        for name, instances, inside, total in zip(names, *(column.tolist() for column in amounts), strict=True)
        if inside
    ]
    return tuple(sorted(by_range, key=lambda entry: (-entry.launches, entry.name))[:_MOST_RANGES])


def _inside(host: Host, chosen: Positions) -> tuple[Ints, Ints]:
    """For each range how many of the chosen calls lie in it, and their time."""
    length = (host.calls["end_ns"] - host.calls["start_ns"])[chosen]
    ones, places = np.ones(len(chosen), np.int64), len(host.ranges)
    if host.nesting is None or not (length > 0).all():
        outer, inner = calls_in_ranges(host.ranges, host.calls.only("pid", "tid").at(chosen))
        count, time = (sweep.sums(outer, column[inner], places) for column in (ones, length))
        return count, time
    held, nest = host.range_of_call[chosen], Nest(host.ranges, host.nesting.above)
    sums = (sweep.sums(held, column, places) for column in (ones, length))
    count, time = (nest.summed_up(own) for own in sums)
    return count, time

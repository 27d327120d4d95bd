"""What launching costs over one GPU's steady steps: launch calls, calls that wait, the queue, and launches by range."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.attribution.ranges import Nest
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import without_ids
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import calls_in_ranges
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit, share
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


class CallRow(Row, frozen=True):
    """The calls of one function in the steady steps."""

    gpu: Gpu
    name: Annotated[str, Label(say("Call"), meaning="without the version that nsys appends")]
    calls: Annotated[int, Label(say("Calls"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN)]
    total_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    mean_ns: Annotated[float, Label(say("Avg"), Unit.MEAN_NS, detail=1)]
    median_ns: Annotated[float, Label(say("Med"), Unit.MEAN_NS, detail=2)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of the steady steps")]


class LaunchRangeRow(Row, frozen=True):
    """The launch calls inside the ranges of one name, the ranges inside them included."""

    gpu: Gpu
    range: Annotated[str, Label(say("Range"))]
    instances: Annotated[int, Label(say("Instances"), Unit.COUNT)]
    launches: Annotated[int, Label(say("Launches"), Unit.COUNT)]
    per_instance: Annotated[float, Label(say("Per instance"), Unit.MEAN)]
    total_ns: Annotated[int, Label(say("Time"), Unit.NS)]


class LaunchFamilyRow(Row, frozen=True):
    """The kernels of one family in the steady steps."""

    gpu: Gpu
    family: Annotated[str, Label(say("Family"))]
    kernels: Annotated[int, Label(say("Kernels"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN)]
    total_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    median_ns: Annotated[float, Label(say("Median"), Unit.MEAN_NS)]


class QueueRow(Row, frozen=True):
    """How far the host runs ahead of one GPU in the steady steps."""

    gpu: Gpu
    activities: Annotated[int, Label(say("GPU activities"), Unit.COUNT)]
    per_step: Annotated[float | None, Label(say("Per step"), Unit.MEAN)]
    tiny_share: Annotated[float | None, Label(say("under 5 us"), Unit.SHARE, detail=1)]
    launched_share: Annotated[
        float | None, Label(say("launch recorded"), Unit.SHARE, detail=2, meaning="launched by a recorded call")
    ]
    queued_p10_ns: Annotated[float | None, Label(say("queued, P10"), Unit.MEAN_NS, detail=3)]
    queued_median_ns: Annotated[
        float | None,
        Label(say("queued, median"), Unit.MEAN_NS, meaning="from the launch call's return to the start on the GPU"),
    ]
    queued_p90_ns: Annotated[float | None, Label(say("P90"), Unit.MEAN_NS, detail=3)]
    ahead_share: Annotated[float | None, Label(say("queued over 10 us"), Unit.SHARE, meaning="the host is ahead")]


class LaunchCosts(Struct, frozen=True):
    """All of it, for one GPU. Calls have the most time first, ranges the most launches."""

    gpu: int
    steady_ns: int
    launch_calls: tuple[CallRow, ...]
    waiting_calls: tuple[CallRow, ...]
    waited_ns: int  # when any thread was in one, in the steady stretch: two that wait at once wait once
    queue: QueueRow
    by_delay: tuple[tuple[str, int], ...]  # how many activities waited how long, see DELAYS; empty: not recorded
    by_range: tuple[LaunchRangeRow, ...]
    by_family: tuple[LaunchFamilyRow, ...]


def launch_costs(trace: Trace, device: Device) -> LaunchCosts:
    """What launching costs on one GPU."""
    host, (queue, by_delay) = device.host, _queue(device)
    waits, launches = np.flatnonzero(device.steady_calls & host.are(CallKind.SYNC)), device.steady_launches
    waited = union(host.calls["start_ns"][waits], host.calls["end_ns"][waits])
    return LaunchCosts(
        gpu=device.gpu,
        steady_ns=device.steady_ns,
        launch_calls=call_rows(device, launches),
        waiting_calls=call_rows(device, waits),
        waited_ns=int(device.steady_part_ns(waited.start_ns, waited.end_ns).sum()),
        queue=queue,
        by_delay=by_delay,
        by_range=_by_range(trace, device, launches),
        by_family=_families(device),
    )


def per_step(device: Device, count: int) -> float | None:
    """None without steps."""
    return None if device.steps is None else count / device.step_count


def call_rows(device: Device, chosen: Positions) -> tuple[CallRow, ...]:
    """Some of the steady steps' calls by function, the most time first."""
    return tuple(
        CallRow(
            gpu=device.gpu,
            name=short_function_name(function.name),
            calls=function.times.count,
            per_step=per_step(device, function.times.count),
            total_ns=function.times.total,
            mean_ns=function.times.average,
            median_ns=function.times.median,
            share=share(function.times.total, device.steady_ns),
        )
        for function in sorted(by_function(device.host.calls, chosen), key=lambda function: -function.times.total)
    )


def _families(device: Device) -> tuple[LaunchFamilyRow, ...]:
    work = device.work.of(device.gpu)
    kernels = np.flatnonzero(device.begins_steady(work.start_ns) & (work.family >= 0))
    family = work.family[kernels]
    first, number = group(family)
    times = summarise(work.end_ns[kernels] - work.start_ns[kernels], number)
    rows = (
        LaunchFamilyRow(
            device.gpu, work.families[family], time.count, per_step(device, time.count), time.total, time.median
        )
        for family, time in zip(family[first].tolist(), times, strict=True)
    )
    return tuple(sorted(rows, key=lambda row: (-row.kernels, row.family)))


def _queue(device: Device) -> tuple[QueueRow, tuple[tuple[str, int], ...]]:
    work = device.work.of(device.gpu)
    steady = device.begins_steady(work.start_ns)
    tiny, count = (work.end_ns - work.start_ns < TINY_NS) & steady, int(np.count_nonzero(steady))
    delay, buckets, ahead_share = _launch_delays(device), tuple[tuple[str, int], ...](), None
    delay.sort()  # once for all that is asked of it
    low, middle, high = [None] * 3
    if len(delay):
        ahead_share = (len(delay) - int(np.searchsorted(delay, AHEAD_NS, side="right"))) / len(delay)
        up_to = np.searchsorted(delay, [bound for _, bound in DELAYS if bound is not None]).tolist()
        counts = np.diff([0, *up_to, len(delay)]).tolist()
        buckets = tuple((name, count) for (name, _), count in zip(DELAYS, counts, strict=True))
        np.maximum(delay, 0, out=delay)
        low, middle, high = (percentile_in_order(delay, percent) for percent in (10, 50, 90))
    row = QueueRow(
        gpu=device.gpu,
        activities=count,
        per_step=per_step(device, count),
        tiny_share=int(np.count_nonzero(tiny)) / count if count else None,
        launched_share=share(len(delay), count),
        queued_p10_ns=low,
        queued_median_ns=middle,
        queued_p90_ns=high,
        ahead_share=ahead_share,
    )
    return row, buckets


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


def _by_range(trace: Trace, device: Device, launches: Positions) -> tuple[LaunchRangeRow, ...]:
    """Launch calls inside each range, the ranges around it included."""
    ranges = device.host.ranges
    count, time = _inside(device.host, launches)
    bare = trace.strings.rewritten(ranges.codes("name"), without_ids)
    names, number = bare.strings.kinds(bare.codes, str)
    amounts = [np.bincount(number, column, minlength=len(names)) for column in (count > 0, count, time)]
    by_range = [
        LaunchRangeRow(device.gpu, name, int(instances), int(inside), inside / instances, int(total))
        for name, instances, inside, total in zip(names, *(column.tolist() for column in amounts), strict=True)
        if inside
    ]
    return tuple(sorted(by_range, key=lambda row: (-row.launches, row.range))[:_MOST_RANGES])


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

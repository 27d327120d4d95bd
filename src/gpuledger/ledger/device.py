"""One device's figures per step: the ledger, the triggers, and how much the host does itself. The findings' input.

With steps, figures are those of the steady ones together, so that lines still sum. Without, the window is one step.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.catalog.calls import CallKind
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.books import Ledger, Line, LineKind, ledger, with_triggers
from gpuledger.ledger.causes import TRIGGERS, Cause, Trigger, by_trigger
from gpuledger.ledger.host import Host, host_and_activities
from gpuledger.ledger.levels import Level, LevelFinder
from gpuledger.ledger.lost_work import LostWork, lost_work
from gpuledger.ledger.steps import DECODE, PREFILL, Phases, Steps, phases, steps, warm_up
from gpuledger.ledger.window import Window, busy, default_window, nothing_recorded, windows
from gpuledger.messages import say
from gpuledger.selection import Selection
from gpuledger.trace.keys import distinct, equal, group
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, Span, Spans, clip, covered, holds, intersection, total
from gpuledger.trace.statistics import summarise
from gpuledger.trace.sweep import side_by_side, sums
from gpuledger.trace.tables import Table
from gpuledger.units import count_text

CLOCKS_NS: Final = 3_000
"""How far the clocks of host and GPU disagree in any recording: work may seem to end that long after a wait for it."""


class Device(Struct, frozen=True, dict=True):
    """One GPU's books, steps and triggers."""

    work: Activities
    host: Host
    ledger: Ledger
    steps: Steps | None
    level_finder: LevelFinder
    phases: Phases  # prefill or decode: of the steps, or of the window where there are none
    lost: LostWork  # what is missing from the profile, whichever GPU it ran on

    @property
    def gpu(self) -> int:
        return self.ledger.gpu

    @cached_property
    def zero_ns(self) -> int:
        """The instant that times are told from and `--time` counts from: where the profile's whole window begins."""
        whole = default_window(self.host, self.work)
        return self.ledger.window.start_ns if isinstance(whole, NotMeasured) else whole.start_ns

    @cached_property
    def steady(self) -> Span:
        """From where to where it counts: the steps without warm-up, or the whole window."""
        if self.steps is None:
            return self.ledger.window
        edges = self.steps.edges_ns
        return Span(int(edges[self.steps.warm_up]), int(edges[-1]))

    @cached_property
    def steady_stretches(self) -> Spans:
        """What counts there: all of it, or of a range's instances what they hold."""
        return clip(self.ledger.busy.stretches, self.steady)

    def begins_steady(self, start_ns: Ints) -> NDArray[np.bool_]:
        return holds(self.steady_stretches, start_ns)

    def steady_part_ns(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """How much of each of these lies in the steady stretch."""
        if len(self.steady_stretches) == 1:
            return np.clip(end_ns, *self.steady) - np.clip(start_ns, *self.steady)
        return covered(self.steady_stretches, start_ns, end_ns)

    @cached_property
    def steady_tiles(self) -> NDArray[np.bool_]:
        start = self.ledger.tiles_ns[:-1]
        return (start >= self.steady.start_ns) & (start < self.steady.end_ns)

    @property
    def levels(self) -> tuple[Level, ...]:
        """All that repeats in the whole profile, steps or not."""
        return self.level_finder.levels

    def release_caches(self) -> None:
        """What only the books needed, a quarter of a profile's size. It is found again where somebody asks."""
        self.host.release_threads()
        self.level_finder.release_caches()
        self.work.__dict__.pop("stream", None)

    @property
    def coverage(self) -> float:
        """The share of the window that the steady stretch holds."""
        return self.steady_ns / self.ledger.window_ns if self.ledger.window_ns else 1.0

    @property
    def step_count(self) -> int:
        return 1 if self.steps is None else len(self.steps) - self.steps.warm_up

    @cached_property
    def line_ns(self) -> dict[Line, int]:
        """Time of each line in the steady stretch; sums to it."""
        sums = self.ledger.books[self.steady_tiles].sum(axis=0).tolist()
        return {line: amount for line, amount in zip(self.ledger.lines, sums, strict=True) if amount}

    @cached_property
    def steady_ns(self) -> int:
        return total(self.steady_stretches)

    @cached_property
    def steady_gap_ns(self) -> Ints:
        """How much of each gap lies in the steady stretch: together its idle time."""
        return self.steady_part_ns(self.ledger.gaps.start_ns, self.ledger.gaps.end_ns)

    @cached_property
    def steady_gaps(self) -> NDArray[np.bool_]:
        """Which gaps lie in the steady stretch, if only in part."""
        return self.steady_gap_ns > 0

    @cached_property
    def steady_calls(self) -> NDArray[np.bool_]:
        return self.begins_steady(self.host.calls["start_ns"])

    @property
    def late_launches(self) -> tuple[int, int, int]:
        """How many launches seem to come well after their work began, of how many, and by how much at most. None does:
        the clocks of host and GPU differ by as much. Of all GPUs."""
        launched = np.flatnonzero(self.work.launch >= 0)
        late_ns = self.host.calls["start_ns"][self.work.launch[launched]] - self.work.start_ns[launched]
        return int(np.count_nonzero(late_ns > CLOCKS_NS)), len(launched), int(late_ns.max(initial=0))

    @property
    def steady_launches(self) -> NDArray[np.intp]:
        """The calls that launched what ran in the steady stretch: the host may have made them long before."""
        steady = self.begins_steady(self.work.start_ns) & equal(self.work.gpu, self.gpu)
        launched = np.zeros(len(self.host.calls) + 1, np.bool_)  # the last is for what no call launched
        launched[self.work.launch[steady]] = True
        return np.flatnonzero(launched[:-1] & self.host.are(CallKind.LAUNCH))

    @cached_property
    def triggers(self) -> dict[tuple[Trigger, str], tuple[int, int]]:
        """For each (trigger, draining call) the idle time and the gaps of the steady stretch, the most time first."""
        gaps = self.ledger.gaps
        trigger, call = gaps.trigger[self.steady_gaps], gaps.drained_by[self.steady_gaps]
        first, number = group(trigger, call)
        times = summarise(self.steady_gap_ns[self.steady_gaps], number)
        by_trigger = {
            (TRIGGERS[trigger[row]], gaps.draining[call[row]]): (gaps_ns.total, gaps_ns.count)
            for row, gaps_ns in zip(first.tolist(), times, strict=True)
        }
        return dict(sorted(by_trigger.items(), key=lambda item: (-item[1][0], item[0])))

    @cached_property
    def idle_by_trigger(self) -> dict[Trigger, int]:
        """The idle time of the steady stretch by what set it off, the most first: what a report shows first."""
        return by_trigger(self.ledger.gaps.trigger, self.steady_gap_ns)

    @cached_property
    def shown_ns(self) -> dict[Line, int]:
        """The steady stretch as reports show it: `line_ns` with idle time by what set it off."""
        return with_triggers(self.line_ns, self.idle_by_trigger)

    @cached_property
    def shown_tiles(self) -> tuple[tuple[Line, ...], NDArray[np.int64]]:
        """The books of each tile as reports show them."""
        return self.ledger.shown_tiles()

    def exposed_ns(self, kind: LineKind) -> int:
        """Communication or copies in the steady stretch that nothing hid."""
        return self.line_ns.get(Line(kind), 0)

    def exposed_beside_lost_ns(self, kind: LineKind) -> int:
        """Communication or copies in the steady stretch that missing work may have hidden."""
        if self.gpu not in self.lost.spans:
            return 0
        exposed = self.ledger.busy.comm if kind is LineKind.COMM else self.ledger.busy.copy
        return total(clip(intersection(exposed, self.lost.spans[self.gpu]), self.steady))

    def idle_ns(self, cause: Cause) -> int:
        """Idle time of one cause in the steady stretch."""
        return self.line_ns.get(Line.of_cause(cause), 0)

    @cached_property
    def compute_ns(self) -> int:
        return sum(amount for line, amount in self.line_ns.items() if line.is_compute)

    @cached_property
    def kernel_ns(self) -> Ints:
        """How long kernels that begin in the steady stretch compute, by the code of their name."""
        work = self.work
        mine = (work.state == State.COMPUTE) & (work.gpu == self.gpu)
        rows = np.flatnonzero(mine & self.begins_steady(work.start_ns))
        names = work.name[rows]
        return sums(names, work.end_ns[rows] - work.start_ns[rows], int(names.max(initial=-1)) + 1)

    @cached_property
    def device_floor_ns(self) -> int:
        """The least that the steady stretch could take with an ideal host: busy, turnaround and time inside graphs.
        Where work is missing the device may have been busy."""
        floor = (None, Cause.TURNAROUND, Cause.GRAPH, Cause.LOST)  # a line without a cause is busy time
        return sum(amount for line, amount in self.line_ns.items() if line.cause in floor)

    def gaps_of(self, trigger: Trigger) -> NDArray[np.intp]:
        """Positions of the steady gaps with this trigger."""
        return np.flatnonzero(self.steady_gaps & (self.ledger.gaps.trigger == TRIGGERS.index(trigger)))

    def causes_of(self, trigger: Trigger) -> dict[Cause, int]:
        """The time of the steady gaps with this trigger, by cause."""
        return self.ledger.gaps.by_cause.sums(self.gaps_of(trigger))


_OTHER_ACCELERATORS: Final = {
    "mtia": "an MTIA accelerator",
    "hpu": "a Gaudi accelerator",
    "privateuse1": "a device that an extension of PyTorch drives",
}
"""By how Kineto's categories of their events begin."""


def analyse_devices(trace: Trace, name: str, wanted: Selection, *, shows_levels: bool = False) -> tuple[Device, ...]:
    """Every GPU at work in a trace that was read whole; `name` is what a refusal calls it. Whoever `shows_levels` has
    them found on the way, which takes less than to find them later."""
    host, work = host_and_activities(trace, wanted.families)
    window = default_window(host, work)
    if isinstance(window, NotMeasured):
        recorded = sum(len(trace[table]) for table in (Table.KERNELS, Table.COPIES, Table.GRAPHS))
        if recorded:
            raise NothingRecorded(
                f"{name}: all GPU work that was recorded takes 0 ns",
                found=f"kernels, copies and graphs: {count_text(recorded)}; none ends after it begins",
                hint="were times rounded when the file was written? `gpuledger stats` lists what there is",
            )
        origin = trace.origin
        for category, accelerator in _OTHER_ACCELERATORS.items():
            if count := sum(rows for table, rows in origin.source_rows if table.startswith(category)):
                raise NothingRecorded(
                    f"{name}: what was recorded ran on {accelerator}, not on a GPU",
                    found=f"{origin.tool}, {count_text(count)} events of {category}",
                    hint="only GPUs are supported; `gpuledger info` says what else there is",
                )
        if host.captures:
            launches = int(np.count_nonzero(host.are(CallKind.LAUNCH)))
            raise NothingRecorded(
                f"{name}: CUDA graphs are captured in it, and nothing runs",
                found=f"{origin.tool}, {count_text(launches)} launches",
                hint="record later, when the graphs are launched; `gpuledger explain CAPTURE-WARMUP` says how",
            )
        raise nothing_recorded(trace, name, window.reason)
    return devices(trace, work, host, window, wanted, shows_levels=shows_levels)


def devices(
    trace: Trace, work: Activities, host: Host, window: Span, wanted: Selection, *, shows_levels: bool = False
) -> tuple[Device, ...]:
    """Every GPU that did anything in the window."""
    gpus = distinct(work.gpu).tolist()
    if wanted.device is not None and wanted.device not in gpus:
        raise NothingRecorded(f"nothing ran on GPU {wanted.device}", found=f"GPUs in use: {', '.join(map(str, gpus))}")
    chosen = gpus if wanted.device is None else [wanted.device]
    lost = lost_work(trace, host, work)
    looked_at = windows(trace, work, host, chosen, window, wanted)
    booked = tuple(
        _device(trace, work, host, lost, gpu, part, wanted, shows_levels=shows_levels)
        for gpu, part in looked_at.items()
    )
    host.release_order()
    for device in booked:
        device.release_caches()
    return booked


def _device(
    trace: Trace,
    work: Activities,
    host: Host,
    lost: LostWork,
    gpu: int,
    window: Window,
    wanted: Selection,
    *,
    shows_levels: bool,
) -> Device:
    """One GPU: when it was busy, its steps, and the books of its window cut at those."""
    levels, rows = LevelFinder(trace, work, host, gpu), len(work.of(gpu))
    split, steps_of_run = side_by_side(
        rows, lambda: busy(work, gpu, window.stretches), lambda: steps(trace, work, host, levels, wanted)
    )
    cut = _steps_in_window(steps_of_run, gpu, window, wanted)
    edges = np.empty(0, np.int64) if cut is None else cut.edges_ns

    def phases_beside_levels() -> Phases:
        if shows_levels:
            _ = levels.levels
        levels.release_caches()
        return phases(trace, work, host, gpu, np.array(window.span) if cut is None else edges, window.stretches)

    phase, books = side_by_side(
        rows,
        phases_beside_levels,
        lambda: ledger(work, host, gpu, window.stretches, edges, split, lost),
    )
    if cut is not None and 2 * phase.of_step.count(DECODE) > len(phase.of_step):
        # the prefill that comes before a run of decode steps is no step of theirs, nor is a shorter run before it
        leading = next((step for step, number in enumerate(phase.of_step) if number != PREFILL), 0)
        last_run = len(phase.of_step) - phase.of_step[::-1].index(PREFILL) if PREFILL in phase.of_step else 0
        leading = last_run if 2 * last_run < len(phase.of_step) else leading
        cut = replace(cut, warm_up=max(cut.warm_up, leading))
    return Device(work, host, books, cut, levels, phase, lost)


def _steps_in_window(of_the_run: Steps | None, gpu: int, window: Window, wanted: Selection) -> Steps | None:
    """The steps in the window: where instances of a range are looked at, those, if no others are asked for."""
    asked = (wanted.range_pattern, wanted.kernel_pattern, wanted.level)
    if any(pattern is not None for pattern in asked) or len(window.begin_ns) < 2:
        return None if of_the_run is None else _clip_steps(of_the_run, window)
    source = say("marked by ranges matching '{pattern}'", pattern=wanted.scope_pattern or "")
    instances = Steps(gpu, source, np.append(window.begin_ns, window.span.end_ns), 0, window.stretches)
    first, last = 0, len(instances)
    if of_the_run is not None:  # what lies outside the run's own steady steps is no steadier for being looked at alone
        steady = (int(of_the_run.edges_ns[of_the_run.warm_up]), int(of_the_run.edges_ns[-1]))
        first, last = np.searchsorted(window.begin_ns, steady).tolist()
        if 2 * (last - first) < len(instances):
            first, last = 0, len(instances)
    edges = np.append(window.begin_ns[:last], instances.end_ns[last - 1])
    return replace(instances, edges_ns=edges, warm_up=first + warm_up(instances.length_ns[first:last]))


def _clip_steps(cut: Steps, window: Window) -> Steps | None:
    """The steps, as far as they lie in the window. A step's first launch may lie before it: the window begins with the
    launch of the first activity."""
    edges = np.clip(cut.edges_ns, *window.span)
    inside = covered(window.stretches, edges[:-1], edges[1:]) > 0
    if not inside.any():
        return None
    return replace(
        cut,
        edges_ns=np.append(edges[:-1][inside], edges[1:][inside][-1]),
        warm_up=min(int(np.count_nonzero(inside[: cut.warm_up])), int(np.count_nonzero(inside)) - 1),
        stretches=window.stretches if len(window.stretches) > 1 else None,
    )

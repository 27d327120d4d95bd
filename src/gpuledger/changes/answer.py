"""What changes would do to the steady stretch: alone, one after the other, and what would be left to fix then.

Changes of the dependency graph in, the stretch as a replay has it out, by the ledger's kinds of time. Where there are
only printed tables of `nsys stats`, sums are all there is, and the answer is Amdahl's (`speed_up_of_tables`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.diff.run_side import RangeRole, RunSide, range_shares
from gpuledger.changes.changes import ProgramChange, edits_of
from gpuledger.errors import NothingRecorded
from gpuledger.findings.finding import PlainSaving
from gpuledger.findings.plain_host import PlainHost
from gpuledger.ledger.books import Line
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.replay.critical_path import critical_path
from gpuledger.replay.edits import Edit, apply_edits
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.spans import Spans, cut_to, intersection, total, union
from gpuledger.trace.sweep import states
from gpuledger.units import share_text, time_text


class FasterPart(Struct, frozen=True):
    """A part of a whole, made faster."""

    change: str
    assumption: str
    whole_ns: int
    part_ns: int
    saving_ns: int

    @property
    def new_whole_ns(self) -> int:
        return self.whole_ns - self.saving_ns

    @property
    def speed_up(self) -> float | None:
        """None if nothing is left."""
        return self.whole_ns / self.new_whole_ns if self.new_whole_ns else None

    @property
    def limit(self) -> float | None:
        """The speed-up if the part took no time at all; None if nothing else remains."""
        return self.whole_ns / (self.whole_ns - self.part_ns) if self.whole_ns != self.part_ns else None


def speed_up_of_tables(side: RunSide, wanted: str, factor: float) -> FasterPart:
    """A range of tables made `factor` times as fast: the whole is that of the program's own ranges."""
    shares = range_shares(side)
    ranges = {run_range.name: run_range for run_range in side.ranges or ()}
    chosen = ranges.get(wanted.removeprefix("range:").removeprefix(":"))
    if chosen is None:
        known = ", ".join(list(ranges)[:12])
        raise NothingRecorded(f"{side.name}: has no range '{wanted}'", found=f"its ranges are {known or 'none'}")
    if shares.share(chosen) is None:
        raise NothingRecorded(
            f"{side.name}: {chosen.name} is {shares.roles[chosen.name]}, so it is no part of the whole",
            found=f"the whole is made of {', '.join(shares.names(RangeRole.PART))}",
        )
    said = say(
        "the whole is {parts}, one after another; setup and library ranges are left out",
        parts=", ".join(shares.names(RangeRole.HOLDS)[-1:] or shares.names(RangeRole.PART)),
    )
    return FasterPart(
        say("{what} {factor}x faster", what=wanted, factor=f"{factor:g}"),
        said,
        shares.whole_ns,
        chosen.host_ns,
        round(chosen.host_ns - chosen.host_ns / factor),
    )


class ReplayedStretch(Struct, frozen=True):
    """Kinds of time sum to the stretch: each instant is of the first that applies."""

    steady_ns: int
    compute_ns: int
    comm_ns: int
    """Communication that nothing hides."""
    copy_ns: int
    idle_ns: int

    @property
    def busy_ns(self) -> int:
        return self.steady_ns - self.idle_ns

    def no_shorter_than(self, least_ns: int) -> ReplayedStretch:
        """The same, but for what a change would save beyond what is lost to what it is about: that stays idle."""
        more = max(least_ns - self.steady_ns, 0)
        return replace(self, steady_ns=self.steady_ns + more, idle_ns=self.idle_ns + more)


def replayed_stretch(scenario: Scenario, edits: Sequence[Edit]) -> ReplayedStretch:
    """What the steady stretch would be with these changes; where some of its steps are replayed, all are like them."""
    times, work = scenario.times(*edits), scenario.part.work
    here = work.on(scenario.device.gpu)
    here = here[np.argsort(times.start[here], kind="stable")]
    bounds = np.array([[scenario.instant(times, instant) for instant in stretch] for stretch in scenario.stretches])
    windows = union(*bounds.reshape(-1, 2).T)  # where what is measured lies then
    if not len(windows):
        return ReplayedStretch(0, 0, 0, 0, 0)
    start, end, whose = cut_to(times.start[here], times.end[here], windows)
    spans, _ = states(start, end, work.state[here[whose]], (int(windows.start_ns[0]), int(windows.end_ns[-1])))
    exposed = (total(intersection(Spans(*bounds), windows)) for bounds in spans)
    whole, comm, copy, idle = (scenario.of_steady(ns) for ns in (total(windows), *exposed))
    return ReplayedStretch(whole, whole - comm - copy - idle, comm, copy, idle)


MOST_LEFT: Final = 5
WORTH_TELLING: Final = 0.01
"""Of the new step: less is not left to fix."""

MOSTLY_BUSY: Final = 0.9


class Effect(Struct, frozen=True):
    """One change alone."""

    change: ProgramChange
    then: ReplayedStretch
    utmost: ReplayedStretch | None
    """With infinite speed."""
    note: str
    plain: PlainSaving | None
    """Without the profiler; None where the program was not run without it."""


class Left(Struct, frozen=True):
    """What a finding's fix would still save after the changes."""

    code: str
    then: ReplayedStretch
    is_bound: bool


class ReplayedChanges(Struct, frozen=True):
    """What the changes that were asked about would do. Times are of the whole stretch of so many steps."""

    gpu: int
    steps: int
    has_steps: bool
    """Without, the stretch is the whole window, and no step of a run."""
    now: ReplayedStretch
    alone: tuple[Effect, ...]
    in_order: tuple[ReplayedStretch, ...]
    """After the first, after the first two, and so on."""
    chain_now: Mapping[Line, int]
    chain_then: Mapping[Line, int]
    """The chain that makes the stretch as long as it is, by what it consists of; sums to the stretch."""
    left: tuple[Left, ...]
    """The largest first."""
    plain_ns: int | None
    """What the stretch takes without the profiler, where that is known."""
    plain: PlainSaving | None
    """What all changes save of that."""

    @property
    def then(self) -> ReplayedStretch:
        """With all changes."""
        return self.in_order[-1]

    def step_ns(self, stretch_ns: int) -> int:
        """So much of the stretch, per step."""
        return stretch_ns // self.steps


def answer(scenario: Scenario, changes: Sequence[ProgramChange], fixes: Mapping[str, ProgramChange]) -> ReplayedChanges:
    """Replay the changes, and after them each of the fixes that a finding may ask for."""
    now, host, steps = replayed_stretch(scenario, ()), PlainHost(scenario), scenario.device.step_count

    def chain(kept_ns: int, *changes: ProgramChange) -> dict[Line, int]:
        path = critical_path(scenario, *edits_of(changes))
        lines = {line: scenario.of_steady(time_ns) for line, (time_ns, _) in path.by_line().items()}
        stays = Line.of_cause(Cause.UNATTRIBUTED)
        return {**lines, stays: lines.get(stays, 0) + kept_ns} if kept_ns else lines

    def alone_effect(change: ProgramChange) -> Effect:
        then = _capped(now, replayed_stretch(scenario, (change.edit,)), change, is_alone=True)
        utmost = None if change.utmost is None else replayed_stretch(scenario, (change.utmost,))
        return Effect(change, then, utmost, _note(change, now, then, steps), _plain(host, (change,), now, then))

    alone = tuple(map(alone_effect, changes))
    in_order = _in_order(scenario, now, changes)
    kept_ns = in_order[-1].steady_ns - replayed_stretch(scenario, edits_of(changes)).steady_ns
    return ReplayedChanges(
        gpu=scenario.device.gpu,
        steps=steps,
        has_steps=scenario.device.steps is not None,
        now=now,
        alone=alone,
        in_order=in_order,
        chain_now=chain(0),
        chain_then=chain(kept_ns, *changes),
        left=_left(scenario, changes, in_order[-1], kept_ns, fixes),
        plain_ns=host.steady_ns,
        plain=alone[0].plain if len(changes) == 1 else _plain(host, changes, now, in_order[-1]),
    )


def _capped(
    before: ReplayedStretch, then: ReplayedStretch, change: ProgramChange, *, is_alone: bool = False
) -> ReplayedStretch:
    """What a change leaves, where it saves no more than reports say: alone so much, after others what was lost."""
    if change.finding is None:
        return then
    most_ns = change.finding.saving_ns if is_alone else change.finding.most_ns
    return then.no_shorter_than(before.steady_ns - most_ns)


def _in_order(
    scenario: Scenario, now: ReplayedStretch, changes: Sequence[ProgramChange]
) -> tuple[ReplayedStretch, ...]:
    """After the first, after the first two, and so on; each adds what reports say it adds after those before it."""
    before, saved, stretches = now, 0, list[ReplayedStretch]()
    for count, change in enumerate(changes, 1):
        then = replayed_stretch(scenario, edits_of(changes[:count]))
        saved += before.steady_ns - _capped(before, then, change, is_alone=count == 1).steady_ns
        stretches.append(then.no_shorter_than(now.steady_ns - saved))
        before = then
    return tuple(stretches)


def _plain(
    host: PlainHost, changes: Sequence[ProgramChange], now: ReplayedStretch, then: ReplayedStretch
) -> PlainSaving | None:
    """Without the profiler: as reports say, else where that run is known; what makes the step longer saves nothing."""
    if len(changes) == 1 and changes[0].finding is not None:
        return changes[0].finding.plain
    if host.steady_ns is None:
        return None
    edits = edits_of(changes)
    return host.saving(lambda graph: apply_edits(graph, edits), max(now.steady_ns - then.steady_ns, 0), now.steady_ns)


def _note(change: ProgramChange, now: ReplayedStretch, then: ReplayedStretch, steps: int) -> str:
    """Why a change saves less than one may think."""
    less, more = now.busy_ns - then.busy_ns, then.idle_ns - now.idle_ns
    if less > 0 and 2 * more > less:
        return say(
            "the GPU is busy {less} less, and idle {more} longer",
            less=time_text(less // steps),
            more=time_text(more // steps),
        )
    saved = now.steady_ns - then.steady_ns
    saves_little = saved < WORTH_TELLING * now.steady_ns
    if saves_little and less <= 0 and now.busy_ns > MOSTLY_BUSY * now.steady_ns:
        return say("the GPU is busy for {share} of the step already", share=share_text(now.busy_ns / now.steady_ns))
    return change.note


def _left(
    scenario: Scenario,
    changes: Sequence[ProgramChange],
    then: ReplayedStretch,
    kept_ns: int,
    fixes: Mapping[str, ProgramChange],
) -> tuple[Left, ...]:
    """What is still worth fixing; of codes that stand for the same change the first."""
    done = {change.code for change in changes}
    left = []
    for code, fix in fixes.items():
        if code not in done:
            after = replayed_stretch(scenario, edits_of((*changes, fix)))
            after = after.no_shorter_than(after.steady_ns + kept_ns)
            left.append(Left(code, _capped(then, after, fix), fix.is_bound))
    worth = [one for one in left if then.steady_ns - one.then.steady_ns >= WORTH_TELLING * then.steady_ns]
    return tuple(sorted(worth, key=lambda one: one.then.steady_ns)[:MOST_LEFT])

"""What changes would do to the steady stretch: alone, one after the other, and what would be left to fix then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.findings.finding import PlainSaving
from gpuledger.findings.plain import PlainHost
from gpuledger.ledger.lines import Line
from gpuledger.messages import say
from gpuledger.replay.critical_path import critical_path
from gpuledger.replay.edits import edited
from gpuledger.replay.scenario import Scenario
from gpuledger.units import share_text, time_text
from gpuledger.whatif.change import ProgramChange, edits_of
from gpuledger.whatif.replayed_stretch import ReplayedStretch, replayed_stretch

MOST_LEFT: Final = 5
WORTH_TELLING: Final = 0.01
"""Of the new step: less is not left to fix."""

MOSTLY_BUSY: Final = 0.9


@dataclass(frozen=True, slots=True)
class Effect:
    """One change alone."""

    change: ProgramChange
    then: ReplayedStretch
    utmost: ReplayedStretch | None
    """With infinite speed."""
    note: str
    plain: PlainSaving | None
    """Without the profiler; None where the program was not run without it."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a finding's fix would still save after the changes."""

    code: str
    then: ReplayedStretch
    is_bound: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What the changes that were asked about would do. Times are of the whole stretch of so many steps."""

    gpu: int
    steps: int
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


def answer(scenario: Scenario, changes: Sequence[ProgramChange], fixes: Mapping[str, ProgramChange]) -> Answer:
    """Replay the changes, and after them each of the fixes that a finding may ask for."""
    now, host = replayed_stretch(scenario, ()), PlainHost(scenario)
    alone = tuple(_alone(scenario, change, now, host) for change in changes)
    in_order = [alone[0].then]
    in_order += [replayed_stretch(scenario, edits_of(changes[:count])) for count in range(2, len(changes) + 1)]
    return Answer(
        gpu=scenario.device.gpu,
        steps=scenario.device.step_count,
        now=now,
        alone=alone,
        in_order=tuple(in_order),
        chain_now=_chain(scenario, ()),
        chain_then=_chain(scenario, changes),
        left=_left(scenario, changes, in_order[-1], fixes),
        plain_ns=host.steady_ns,
        plain=alone[0].plain if len(changes) == 1 else _plain(host, changes, now, in_order[-1]),
    )


def _alone(scenario: Scenario, change: ProgramChange, now: ReplayedStretch, host: PlainHost) -> Effect:
    then = replayed_stretch(scenario, (change.edit,))
    utmost = None if change.utmost is None else replayed_stretch(scenario, (change.utmost,))
    note = _note(change, now, then, scenario.device.step_count)
    return Effect(change, then, utmost, note, _plain(host, (change,), now, then))


def _chain(scenario: Scenario, changes: Sequence[ProgramChange]) -> dict[Line, int]:
    path = critical_path(scenario, *edits_of(changes))
    return {line: scenario.of_steady(time_ns) for line, (time_ns, _) in path.by_line().items()}


def _plain(
    host: PlainHost, changes: Sequence[ProgramChange], now: ReplayedStretch, then: ReplayedStretch
) -> PlainSaving | None:
    """Without the profiler, where that run is known; what makes the step longer saves nothing."""
    if host.steady_ns is None:
        return None
    edits = edits_of(changes)
    return host.saving(lambda graph: edited(graph, edits), max(now.steady_ns - then.steady_ns, 0), now.steady_ns)


def _note(change: ProgramChange, now: ReplayedStretch, then: ReplayedStretch, steps: int) -> str:
    """Why a change saves less than one may think."""
    less, more = now.busy_ns - then.busy_ns, then.idle_ns - now.idle_ns
    if less > 0 and 2 * more > less:
        return say(
            "the GPU is busy {less} less per step, and idle {more} longer",
            less=time_text(less // steps),
            more=time_text(more // steps),
        )
    saved = now.steady_ns - then.steady_ns
    if change.reported_ns is not None and saved - change.reported_ns > WORTH_TELLING * now.steady_ns:
        reported = time_text(change.reported_ns // steps)
        return say("reports claim no more than the {time} per step lost to it", time=reported)
    saves_little = saved < WORTH_TELLING * now.steady_ns
    if saves_little and less <= 0 and now.busy_ns > MOSTLY_BUSY * now.steady_ns:
        return say("the GPU is busy for {share} of the step already", share=share_text(now.busy_ns / now.steady_ns))
    return change.note


def _left(
    scenario: Scenario, changes: Sequence[ProgramChange], then: ReplayedStretch, fixes: Mapping[str, ProgramChange]
) -> tuple[Left, ...]:
    """What is still worth fixing; of codes that stand for the same change the first."""
    done = {change.code for change in changes}
    left = [
        Left(code, replayed_stretch(scenario, edits_of((*changes, fix))), fix.is_bound)
        for code, fix in fixes.items()
        if code not in done
    ]
    worth = [one for one in left if then.steady_ns - one.then.steady_ns >= WORTH_TELLING * then.steady_ns]
    return tuple(sorted(worth, key=lambda one: one.then.steady_ns)[:MOST_LEFT])

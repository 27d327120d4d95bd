"""The changes that one can ask about, by the names that reports print: a name in, the change of the graph out.

A change has its words, what it takes for granted, and the edit of the graph that it is. A name that the profile has
none of is refused, with those that come near.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.light.books import SOURCES
from gpuledger.analyse.light.kernel_light import KernelLight, LightSource, kernel_light
from gpuledger.analyse.light.reachable import Floats
from gpuledger.analyse.light.slow_kernels import reachable_ns
from gpuledger.analyse.light.steady_kernels import Mask, use_and_clock
from gpuledger.catalog.calls import CALL_KINDS, CallKind
from gpuledger.changes.named_work import NamedKernels, NamedLines, NamedRanges, NamedWork, named_work
from gpuledger.errors import GpuledgerError, MeansSeveral, NothingRecorded
from gpuledger.findings.finding import Finding
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.pages import codes
from gpuledger.findings.rules import EDIT_OF, RULE_OF
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import Line, LineKind
from gpuledger.ledger.causes import Cause, Trigger, idle_label
from gpuledger.ledger.device import Device
from gpuledger.ledger.launched_in import matching_ranges, near_names, nothing_matches, range_names
from gpuledger.ledger.ranges import thread
from gpuledger.messages import Message, joined, say
from gpuledger.regex import NamePattern
from gpuledger.replay.edits import (
    Edit,
    apply_edits,
    scale_calls,
    scale_operations,
    with_durations,
    with_free_launches,
    with_launch_cost,
    without_calls,
    without_code,
    without_lags,
    without_latency,
    without_waits,
)
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.scenario import Scenario, replay_window, scenario
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, covered, holds, union
from gpuledger.trace.tables import Rows
from gpuledger.units import FACTORS, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.stretches import SampledUse


class Turn(IntEnum):
    """When a change is made, whatever the order in which it is asked for, so that all together is one answer.

    What goes must go before the rest becomes faster: it is measured in time as it was recorded.
    """

    GOES = 0
    SCALES = 1
    COSTS = 2


class ProgramChange(Struct, frozen=True):
    """One change."""

    words: str
    assumption: str
    edit: Edit
    turn: Turn = Turn.GOES
    about_ns: int | None = None
    """What it is about, in the whole stretch, as reports print it; None where they print no such line."""
    utmost: Edit | None = None
    """The same change with infinite speed, for the limit; None where there is none beyond the change."""
    is_bound: bool = False
    """Whether no program will save as much: an upper bound."""
    note: str = ""
    """What else is to be said of it."""
    finding: Finding | None = None
    """What reports say of it, if they do."""
    code: str = ""
    """The finding that it acts on, if it does."""


def edits_of(changes: Iterable[ProgramChange]) -> list[Edit]:
    """The edits of several changes, in the order in which they are made."""
    return [change.edit for change in sorted(changes, key=lambda change: change.turn)]


class RangeParts(Struct, frozen=True, eq=False):
    """Positions among a graph's calls and operations."""

    calls: Positions
    """Those that begin inside."""
    code_ns: Ints
    """For each of the graph's calls, how much of the code before it lies inside."""
    operations: Positions
    """What the calls launched."""


def range_parts(scenario: Scenario, ranges: Rows) -> RangeParts:
    """What of the graph lies in these ranges, each on its own thread."""
    graph, threads = scenario.graph, thread(ranges)
    recorded = graph.recorded
    inside = np.zeros(len(graph.calls) + 1, np.bool_)  # the last is for what no call launched
    code = np.zeros(len(graph.calls), np.int64)
    for number, thread_id in enumerate(scenario.part.host.threads.tolist()):
        own = ranges.where(threads == thread_id)
        mine = np.flatnonzero(graph.calls.thread == number)
        if not len(own) or not len(mine):
            continue
        opened, begin = union(own["start_ns"], own["end_ns"]), recorded.call_begin[mine]
        inside[mine] = holds(opened, begin)
        code[mine] = covered(opened, np.append(begin[:1], recorded.call_end[mine][:-1]), begin)
    return RangeParts(np.flatnonzero(inside[:-1]), code, np.flatnonzero(inside[graph.operations.call]))


HIDES: Final[Mapping[LineKind, str]] = {LineKind.COMM: "COMM-EXPOSED", LineKind.COPY: "COPY-EXPOSED"}
"""The fix that hides each kind of exposed work."""

_STATES: Final = {LineKind.COMPUTE: State.COMPUTE, LineKind.COMM: State.COMM, LineKind.COPY: State.COPY}

_IN_CODE: Final = frozenset({Cause.DISPATCH, Cause.HOST_CODE, Cause.OS, Cause.WAIT_THREAD, Cause.PROFILER})
"""Causes that are code between calls; there is a kind of call for others, and some are the device's own."""

_ON_DEVICE: Final = frozenset(
    {Cause.TURNAROUND, Cause.GRAPH, Cause.DEVICE_WAIT, Cause.PAGE_MIGRATION, Cause.CONTEXT_SWITCH}
)
_IN_CALLS: Final = {Cause[kind.name]: kind for kind in CALL_KINDS}
_REMOVED: Final[Mapping[Trigger | None, Message]] = {
    **dict.fromkeys(_ON_DEVICE, say("queued work starts as soon as its stream gets to it")),
    **dict.fromkeys(_IN_CALLS, say("these calls take no time; what they put on the GPU stays")),
    **dict.fromkeys(_IN_CODE, say("the code that the host runs meanwhile takes no time")),
    Cause.SYNC: say("calls that wait return at once, and nothing needs what they waited for"),
    Cause.LAUNCH_LATENCY: say("work starts as soon as the call that launches it has returned"),
}
"""What it means that idle time of a cause is not there. What the others were is not known: lost, or not recorded."""


WHOLE_STEP: Final = "step"
"""What `--graph` calls all that a steady step launches, where no range is called so: programs may have no ranges."""
_MOST_LISTED: Final = 12


def _refuse_out_of_bounds(factor: float) -> None:
    if not FACTORS[0] <= factor <= FACTORS[1]:
        raise GpuledgerError(
            f"nothing can be asked to be {factor:g} times as fast",
            hint=f"factors are from {FACTORS[0]:g} to {FACTORS[1]:,}",
        )


class Changes:
    """Makes the changes of one device; `sampled`: of a long run of like steps for as many as are needed."""

    def __init__(
        self,
        trace: Trace,
        device: Device,
        findings: Sequence[Finding],
        *,
        sampled: bool = False,
        use: SampledUse | None = None,
    ) -> None:
        self.trace, self.device = trace, device
        self.scenario: Final = scenario(trace, device, sampled=sampled)
        self._as_findings: Final = sampled or replay_window(trace, device).rows is None
        """Whether this is the scenario that findings' own edits are for."""
        self.fixes: Final = Fixes(trace, self.scenario, *use_and_clock(use))
        self.findings: Final[dict[str, Finding]] = {}
        for finding in findings:
            if finding.gpu == device.gpu:
                self.findings.setdefault(finding.code, finding)

    def fix(self, code: str) -> ProgramChange:
        """What a finding asks for is done."""
        wanted = code.upper()
        words, finding = say("{code} fixed", code=wanted), self.findings.get(wanted)
        if wanted not in self._fixable:
            raise self._no_fix(wanted)
        if finding is None or finding.edit is None:
            note, edit = say("the report has no such finding"), EDIT_OF[wanted](self.fixes)
            return ProgramChange(words, "", edit, is_bound=RULE_OF[wanted].is_bound, note=note, code=wanted)
        edit = finding.edit if self._as_findings else EDIT_OF[wanted](self.fixes)
        return ProgramChange(
            words,
            finding.assumption,
            edit,
            is_bound=finding.is_bound,
            code=wanted,
            finding=finding,
        )

    def every_fix(self) -> dict[str, ProgramChange]:
        """Of each code; of codes that stand for the same change the one that was found, else the first."""
        by_edit: dict[object, str] = {}
        for code in self._fixable:
            by_edit.setdefault(EDIT_OF.get(code, code), code)
        return {code: self.fix(code) for code in by_edit.values()}

    @property
    def _fixable(self) -> list[str]:
        """The codes that a change stands for: those that were found, then the others."""
        reported = [code for code, finding in self.findings.items() if finding.edit is not None]
        return list(dict.fromkeys((*(code for code in reported if self._as_findings or code in EDIT_OF), *EDIT_OF)))

    def speed_up(self, name: str, factor: float) -> ProgramChange:
        """A line, a range or a kernel made `factor` times as fast."""
        _refuse_out_of_bounds(factor)
        meant = named_work(self.trace, self.device, name)
        if isinstance(meant, NamedLines) and meant.trigger is not None:
            raise NothingRecorded(
                f"'{name}' is idle time, which has no pace",
                hint=f"--remove='{name}' does without it; speed up what the host does: "
                + ", ".join(sorted(line.detail for line in self.device.line_ns if line.cause in _REMOVED)),
            )
        if isinstance(meant, NamedLines) and any(line.cause is Cause.SYNC for line in meant.lines):
            raise NothingRecorded(
                f"waiting cannot be made faster ('{name}')", hint=f"--remove={Cause.SYNC} lets the waits return at once"
            )
        return ProgramChange(
            say("{what} {factor}x faster", what=name, factor=f"{factor:g}"),
            self._what_changes(meant),
            self._scale(meant, 1 / factor),
            Turn.SCALES,
            meant.time_ns,
            self._scale(meant, 0.0),
        )

    def light(self, name: str) -> ProgramChange:
        """Kernels take what the GPU's roofs allow: those of a kernel's, a family's, an operator's or a range's name."""
        return self._at_pace(
            name,
            self.fixes.busy.once(kernel_light).light_ns,
            say("{what} at its light", what=name),
            say("each of these kernels takes what its arithmetic and its bytes need at the GPU's peaks"),
        )

    def reachable(self, name: str) -> ProgramChange:
        """They take what well-made kernels do; the limit is at their light."""
        reached = self._at_pace(
            name,
            self.fixes.busy.once(reachable_ns),
            say("{what} at a reachable rate", what=name),
            say(
                "each of these kernels reaches what others did on an H200: 80 % of the arithmetic peak, or 88 % of the "
                "bandwidth; attention what its length allows"
            ),
        )
        return replace(reached, utmost=self.light(name).edit, is_bound=False)

    def _at_pace(self, name: str, duration_ns: Floats, words: Message, assumption: Message) -> ProgramChange:
        kernels = self.fixes.busy
        light, meant = kernels.once(kernel_light), self._kernels_meant(name)
        known, whole_ns = meant & light.is_known, max(int(kernels.own_ns[meant].sum()), 1)
        if not known.any():
            raise NothingRecorded(
                f"what '{name}' would take at the GPU's roofs is not known",
                found=self._with_light(light),
                hint="record shapes (torch.profiler with record_shapes=True) or samples (`gpuledger capture nsys`)",
            )
        operations, less = kernels.operations[known], np.rint(duration_ns[known]).astype(np.int64)
        source = LightSource(int(np.bincount(light.source[known], kernels.own_ns[known]).argmax()))
        told = [assumption, say("known from {source}", source=SOURCES[source])]
        unknown_ns = int(kernels.own_ns[meant & ~known].sum())
        if unknown_ns:
            told.append(say("{share} of it is not known, and stays", share=share_text(unknown_ns / whole_ns)))
        return ProgramChange(
            words,
            joined(say("; "), told),
            lambda graph: with_durations(graph, operations, np.minimum(graph.operations.duration_ns[operations], less)),
            about_ns=self.scenario.of_steady(whole_ns),
            is_bound=True,
        )

    def _kernels_meant(self, name: str) -> Mask:
        """The steady kernels of an operator (anywhere inside it), a family, a kernel or a range; refuses others."""
        kernels = self.fixes.busy
        inside = kernels.once(kernel_light).inside(name.removeprefix("operator:"))
        if inside.any():
            return inside
        try:
            named = named_work(self.trace, self.device, name)
        except MeansSeveral:
            raise
        except NothingRecorded:
            known = self._with_light(kernels.once(kernel_light))
            near = near_names(name, [line.family for line in self.device.line_ns if line.family] + self._operators())
            hint = f"names that come near: {', '.join(near)}" if near else "`gpuledger kernels PROFILE` lists kernels"
            raise NothingRecorded(
                f"GPU {self.device.gpu} has no kernel, family, operator or range '{name}'", found=known, hint=hint
            ) from None
        if isinstance(named, NamedLines) and (named.trigger or all(line.is_idle for line in named.lines)):
            hint = f"--remove='{name}' does without it"
            raise NothingRecorded(f"'{name}' is idle time, which has no light", hint=hint)
        if isinstance(named, NamedRanges):
            return kernels.place_of(range_parts(self.scenario, named.ranges).operations)
        return kernels.place_of(self._operations(named))

    def _operators(self) -> list[str]:
        """Those that launched steady kernels, the longest first."""
        light = self.fixes.busy.once(kernel_light)
        launched = light.kind >= 0
        took = np.bincount(light.kind[launched], light.took_ns[launched], len(light.kinds))
        return list(dict.fromkeys(light.kinds[kind][0] for kind in np.argsort(-took).tolist() if took[kind]))

    def _with_light(self, light: KernelLight) -> str:
        """What can be asked for."""
        kernels = self.fixes.busy
        families = sorted(kernels.by_family(light.is_known[:, None].astype(np.float64)))
        operators = self._operators()
        listed = ", ".join(operators[:_MOST_LISTED]) + (", ..." if len(operators) > _MOST_LISTED else "")
        return f"families with a known light: {', '.join(families) or 'none'}\noperators: {listed or 'none'}"

    def remove(self, name: str) -> ProgramChange:
        """A cause of idle time, or work, is not there: what is gone is not launched either."""
        meant = named_work(self.trace, self.device, name)
        if isinstance(meant, NamedLines) and meant.trigger is not None:
            code = next((code for code in EDIT_OF if RULE_OF[code].triggers[:1] == (meant.trigger,)), None)
            if code is not None:
                return replace(self.fix(code), words=say("no {cause}", cause=name), about_ns=meant.time_ns)
            if not isinstance(meant.trigger, Cause):
                raise NothingRecorded(f"no change removes '{name}': it happens once")
            meant = NamedLines((Line.of_cause(meant.trigger),), meant.time_ns)  # no finding is about it
        if isinstance(meant, NamedLines) and all(line.is_idle for line in meant.lines):
            words = dict.fromkeys(_REMOVED[line.cause] for line in meant.lines if line.cause in _REMOVED)
            assumption, edit = joined(say("; "), words), self._scale(meant, 0.0)
        elif isinstance(meant, NamedRanges):
            assumption = say("none of it runs, on the host or on the GPU")
            edit = _remove_range(range_parts(self.scenario, meant.ranges))
        else:
            assumption = say("it does not run, and is not launched")
            edit = self.fixes.not_launched(self._operations(meant))
        note = self._other_row(meant) if isinstance(meant, NamedLines) else ""
        return ProgramChange(say("no {cause}", cause=name), assumption, edit, about_ns=meant.time_ns, note=note)

    def _other_row(self, meant: NamedLines) -> str:
        """Where one cause is meant: that the report's row of that name is more, or less, than what is booked to it."""
        cause = meant.lines[0].cause if len(meant.lines) == 1 else None
        row_ns = 0 if cause is None else self.device.idle_by_trigger.get(cause, 0)
        if cause is None or row_ns in (0, meant.time_ns):
            return ""
        return say(
            "this is where the host was; the report's row '{row}', {time}, is all idle time that it set off",
            row=idle_label(cause),
            time=time_text(row_ns // self.device.step_count),
        )

    def hide(self, kind: LineKind) -> ProgramChange:
        """Exposed communication or copies run beside compute."""
        return ProgramChange(
            say("{kind} hidden", kind=kind),
            say("it runs on a stream of its own: only what needs its result waits for it, and compute is not slowed"),
            EDIT_OF[HIDES[kind]](self.fixes),
            about_ns=self.device.exposed_ns(kind),
            code=HIDES[kind],
        )

    def graph(self, pattern: str) -> ProgramChange:
        """What is launched in ranges that match is launched as a CUDA graph."""
        ranges, fixes = matching_ranges(self.trace, NamePattern(pattern)), self.fixes
        launches, code = fixes.steady_calls(CallKind.LAUNCH, CallKind.CALL), fixes.code_ns(Cause.DISPATCH)
        title = say("range '{pattern}' in a graph", pattern=pattern)
        if len(ranges):
            parts = range_parts(self.scenario, ranges)
            launches, code = np.intersect1d(parts.calls, launches), np.minimum(code, parts.code_ns)
        elif pattern == WHOLE_STEP:
            title = say("the whole step in a graph")
        else:
            raise nothing_matches(pattern, "range", range_names(self.trace))
        if not len(launches) and not len(ranges):
            raise NothingRecorded(
                "no launch was recorded in the steady steps: what a graph would save of them is not known",
                hint="record the calls too: `nsys profile --trace=cuda`, `rocprofv3 --hip-trace`",
            )
        if not len(launches):
            raise NothingRecorded(f"nothing is launched in ranges that match '{pattern}' in the steady steps")
        dispatch = code[launches]
        return ProgramChange(
            title,
            say("shapes are static, launching costs nothing, and kernels follow each other 0.5 us apart; waits stay"),
            lambda graph: with_free_launches(graph, launches, dispatch),
            is_bound=True,
        )

    def host(self, factor: float) -> ProgramChange:
        """A host that is `factor` times as fast in the steady steps."""
        _refuse_out_of_bounds(factor)
        steady = np.flatnonzero(self.fixes.steady)
        return ProgramChange(
            say("a host {factor}x faster", factor=f"{factor:g}"),
            say("all code and CUDA calls of all threads, but not what they wait for"),
            _scale_host(steady, 1 / factor),
            Turn.SCALES,
            utmost=_scale_host(steady, 0.0),
        )

    def launch_cost(self, cost_ns: int) -> ProgramChange:
        """Each call that launches something takes so long."""
        calls = self.fixes.steady_calls(CallKind.LAUNCH)
        if not len(calls):
            raise NothingRecorded("the steady steps have no launch calls")
        usual = time_text(self.fixes.usual_launch_ns)
        return ProgramChange(
            say("launch calls of {time}", time=time_text(cost_ns)),
            say("the code before each call takes as long as it does now; a launch usually takes {time}", time=usual),
            lambda graph: with_launch_cost(graph, calls, cost_ns),
            Turn.COSTS,
            utmost=lambda graph: with_launch_cost(graph, calls, 0),
        )

    def _no_fix(self, code: str) -> NothingRecorded:
        known = f"codes that can be fixed: {', '.join(sorted(self._fixable))}"
        if code in codes():
            return NothingRecorded(
                f"{code} has no change to replay: it was not found, or it does not name one", found=known
            )
        near = get_close_matches(code, self._fixable, n=3)
        hint = f"names that come near: {', '.join(near)}" if near else ""
        return NothingRecorded(f"there is no finding {code}", found=known, hint=hint)

    # what a name stands for, so many times as long

    def _scale(self, meant: NamedWork, share: float) -> Edit:
        if isinstance(meant, NamedRanges):
            return _scale_range(range_parts(self.scenario, meant.ranges), share)
        operations = self._operations(meant)
        causes = self._scale_causes(meant.lines, share) if isinstance(meant, NamedLines) else []
        return lambda graph: apply_edits(scale_operations(graph, operations, share), causes)

    def _scale_causes(self, lines: Sequence[Line], share: float) -> list[Edit]:
        """Of lines of idle time those that a change can do something about; refuses if there are none."""
        causes = [line.cause for line in lines if isinstance(line.cause, Cause)]
        changing = [cause for cause in causes if cause in _REMOVED]
        if causes and not changing:
            raise NothingRecorded(f"no change removes '{causes[0].label}': its cause is unknown")
        return [self._scale_cause(cause, share) for cause in changing]

    def _scale_cause(self, cause: Cause, share: float) -> Edit:
        """Idle time of a cause becomes shorter as what it is due to does."""
        if cause in _IN_CODE:
            code = np.where(self.fixes.steady, self.fixes.code_ns(cause), 0)
            after = np.flatnonzero(code)
            return lambda graph: without_code(graph, after, _less(code[after], share))
        if cause is Cause.SYNC:
            waits = self.fixes.steady_calls(CallKind.SYNC)
            return lambda graph: scale_calls(without_waits(graph, waits), waits, 0.0)
        if cause in _IN_CALLS:
            calls = self.fixes.steady_calls(_IN_CALLS[cause])
            return lambda graph: scale_calls(graph, calls, share)
        gaps = self.device.ledger.gaps
        chosen = np.flatnonzero(self.device.steady_gaps & (gaps.by_cause.of(cause) > 0) & (gaps.after >= 0))
        here, operations = self.scenario.part.places(gaps.after[chosen])
        less = _less(gaps.by_cause.of(cause)[chosen[here]], share)
        if cause is Cause.LAUNCH_LATENCY:
            return lambda graph: without_latency(graph, operations, less)
        return lambda graph: without_lags(graph, operations, less)

    def _operations(self, meant: NamedLines | NamedKernels) -> Positions:
        """What of the steady stretch is meant, among the graph's operations; of lines of idle time nothing."""
        if isinstance(meant, NamedKernels):
            return self.scenario.part.places(meant.operations)[1]
        work = self.fixes.work
        here = work.on(self.device.gpu)
        here = here[self.device.begins_steady(work.start_ns[here])]
        chosen = np.zeros(len(here), np.bool_)
        for line in meant.lines:
            if line.is_idle:
                continue
            of_line = work.state[here] == _STATES[line.kind]
            if line.is_compute:
                of_line &= work.family[here] == work.families.index(line.family)
            chosen |= of_line
        return here[chosen]

    def _what_changes(self, meant: NamedWork) -> str:
        match meant:
            case NamedRanges():
                return say("the host code and calls inside it, and everything launched there, speed up by that factor")
            case NamedLines(lines=lines) if all(line.is_idle for line in lines):
                return say("what the host or the GPU did meanwhile speeds up by that factor")
            case _:
                return say("each of these takes that much less time; nothing else changes")


def _less(now_ns: Ints, share: float) -> Ints:
    """What goes so that this share is left."""
    left: Ints = np.rint(now_ns * share).astype(np.int64)
    return now_ns - left


def _scale_host(calls: Positions, share: float) -> Edit:
    def changed(graph: DependencyGraph) -> DependencyGraph:
        quick = without_code(graph, calls, _less(graph.code_before(calls), share))
        return scale_calls(quick, calls, share)

    return changed


def _scale_range(parts: RangeParts, share: float) -> Edit:
    inside = np.flatnonzero(parts.code_ns)
    less = _less(parts.code_ns[inside], share)

    def changed(graph: DependencyGraph) -> DependencyGraph:
        quick = scale_operations(without_code(graph, inside, less), parts.operations, share)
        return scale_calls(quick, parts.calls, share)

    return changed


def _remove_range(parts: RangeParts) -> Edit:
    code = parts.code_ns.copy()
    code[parts.calls] = 0
    after = np.flatnonzero(code)
    return lambda graph: without_code(without_calls(graph, parts.calls, parts.code_ns[parts.calls]), after, code[after])

"""The levels of a run: everything that repeats, from requests over steps to layers, and which of them is the step.

A level is a way to say which repetition each activity belongs to. It comes from ranges, from kernels that mark the end
of something (the choice of a token, the update of parameters), from graph launches, or from the period of the kernel
sequence. Its coverage is the share of the window, idle time included, that its instances hold: an activity holds its
own time and the idle time before it.

What covers less than COVERAGE of the time that was recorded is not the step by itself: it is a layer, or a phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.name_likeness import normalised
from gpuledger.catalog.step_marks import (
    OPTIMIZER,
    PROFILER_STEP,
    SAMPLING,
    is_measured_name,
    is_operator_name,
    is_part_name,
    is_step_name,
)
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.kernel_periods import FEWEST, period, repetitions, with_what_follows
from gpuledger.ledger.launched_in import launched_in, main_process
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.ledger.unrecorded import LEAST_NS, waits_for_unrecorded
from gpuledger.messages import Message, say
from gpuledger.trace.columns import distinct, equal
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, furthest
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import Codes
from gpuledger.trace.tables import Rows

COVERAGE: Final = 0.8
"""What holds less of the recorded time is not the step by itself."""

_WORTH_SHOWING: Final = 0.1
"""A level that holds less of the recorded time is not shown."""

_DEEPEST: Final = 6
"""Ranges nested deeper than this are no levels."""

_MOST_KINDS: Final = 12
"""So many kinds of range are tried at each depth, those that are open the longest."""

_ALIKE: Final = 0.9
"""Instances that have so many of their kernels in common are of one kind."""

_TOKENS_PER_CALL: Final = 8
"""From so many tokens in each instance of a range on, the range is a request and the token is the step."""


class LevelSource(IntEnum):
    """What tells one instance from the next; the first that gives a step is taken."""

    MEASURED = 0
    PROFILER = 1
    NAMED = 2
    RANGE = 3
    TOKEN = 4
    OPTIMIZER = 5
    GRAPH = 6
    PERIOD = 7


_BY_NAME: Final = (LevelSource.MEASURED, LevelSource.NAMED, LevelSource.RANGE)
_WORDS: Final = {
    LevelSource.PROFILER: say("torch's ProfilerStep"),
    LevelSource.TOKEN: say("kernels that choose a token"),
    LevelSource.OPTIMIZER: say("kernels that update parameters"),
    LevelSource.GRAPH: say("graph launches"),
    LevelSource.PERIOD: say("the period of the kernel sequence"),
}


@dataclass(frozen=True, slots=True)
class Level:
    """One thing that repeats."""

    name: str
    """Of ranges: theirs, with # for numbers."""
    source: LevelSource
    count: int
    median_ns: int
    coverage: float
    """The share of the window that its instances hold."""

    @property
    def words(self) -> Message:
        """What its instances were found by."""
        return say("the range '{name}'", name=self.name) if self.source in _BY_NAME else _WORDS[self.source]

    @property
    def kind(self) -> Message:
        """The same beside its name."""
        return say("ranges") if self.source in _BY_NAME else _WORDS[self.source]


@dataclass(frozen=True, slots=True)
class LevelMembers:
    """A level with the instance that each activity belongs to, -1 for none."""

    level: Level
    member: Positions
    of_recorded: float
    """The share of the recorded time; for ranges, of what their process launched while it was recorded."""


class LevelFinder:
    """Finds the levels of one GPU."""

    def __init__(self, trace: Trace, work: Activities, host: Host, window: Span) -> None:
        self._trace, self._work, self._host = trace, work, host
        self._start_ns, self._window_ns = window.start_ns, window.end_ns - window.start_ns
        self._held_ns = held_ns(work, window.start_ns) if len(work) else np.zeros(0, np.int64)
        self._recorded_ns = np.maximum(self._held_ns - self._unrecorded_ns(), 0)
        # what was launched before the recording began, or by another process, can be in no range of the program
        own = equal(work.pid, main_process(work)) & (work.launch >= 0) if len(work) else np.zeros(0, np.bool_)
        self._in_reach_ns = int(self._recorded_ns[own if own.any() else slice(None)].sum())

    def all(self) -> list[LevelMembers]:
        """Every level, ranges from the outside in; the kernel sequence is asked where nothing else gives a step."""
        found = [*self._of_ranges(), *self._of_marks(), *self._of_graphs()]
        if step_of(found) is None:
            found += self._of_period()
        return found

    def level(self, name: str, source: LevelSource, member: Positions | None) -> LevelMembers | None:
        """A level from its members; None where there are none."""
        if member is None or not len(member) or member.max() < 0:
            return None
        inside = member >= 0
        lengths = np.bincount(member[inside], weights=self._recorded_ns[inside]).astype(np.int64)
        covered = int(self._recorded_ns[inside].sum())
        level = Level(name, source, len(lengths), int(median(lengths)), covered / max(self._window_ns, 1))
        is_range = source in _OF_RANGES
        whole_ns = self._in_reach_ns if is_range else int(self._recorded_ns.sum())
        return LevelMembers(level, member, covered / max(whole_ns, 1))

    def _unrecorded_ns(self) -> Ints:
        """For each activity the time before it in which the device worked on what nobody recorded."""
        work, unrecorded = self._work, np.zeros(len(self._work), np.int64)
        if not len(work) or not len(self._host.calls):
            return unrecorded
        ended = np.append(self._start_ns, np.maximum(furthest(work.end_ns)[:-1], self._start_ns))
        idle = np.flatnonzero(work.start_ns - ended > LEAST_NS)
        waits = idle[waits_for_unrecorded(work, self._host, idle)]
        returned = self._host.calls["end_ns"][work.launch[waits]]
        unrecorded[waits] = work.start_ns[waits] - np.maximum(ended[waits], returned)
        return unrecorded

    def _of_ranges(self) -> Iterator[LevelMembers]:
        ranges = spans_of_time(self._trace)
        if not len(ranges) or not len(self._work):
            return
        ranges = ranges.where(equal(ranges["pid"], main_process(self._work)))
        for depth in range(min(int(ranges["depth"].max(initial=-1)), _DEEPEST) + 1):
            yield from self._of_depth(ranges.where(ranges["depth"] == depth))

    def _of_depth(self, ranges: Rows) -> Iterator[LevelMembers]:
        """The kinds of range at one depth, those that are open the longest."""
        names, kind = self._trace.strings.kinds(ranges.codes("name"), normalised)
        open_ns = np.bincount(kind, weights=ranges.duration_ns, minlength=len(names))
        for number in np.argsort(-open_ns, kind="stable")[:_MOST_KINDS].tolist():
            instances = ranges.where(kind == number)
            example = self._trace.strings.text(int(instances.codes("name")[0])) or ""
            source = _source_of(example)
            if source is LevelSource.RANGE and (len(instances) < 2 or is_operator_name(example)):
                continue
            members = self.level(names[number], source, launched_in(self._work, self._host, instances))
            repeats = members is not None and (source is not LevelSource.RANGE or members.level.count > 1)
            if members is not None and repeats and members.of_recorded >= _WORTH_SHOWING:
                yield members

    def _of_marks(self) -> Iterator[LevelMembers]:
        """Tokens and updates, by the kernels that end them."""
        for source, name, pattern in (
            (LevelSource.TOKEN, "token", SAMPLING),
            (LevelSource.OPTIMIZER, "update", OPTIMIZER),
        ):
            marks = self._marked_by(pattern)
            if marks.any():
                member = up_to(self._ends(_last_of_each_run(marks)), len(marks))
                members = self.level(name, source, _without_first_if_other(self._work.name, member))
                if members is not None:
                    yield members

    def _ends(self, marks: Positions) -> Positions:
        """Where steps end that have these marks: after what follows each mark at the end of the sequence too."""
        return with_what_follows(self._work.name, marks, int(median(np.diff(marks))) if len(marks) > 1 else 0)

    def _marked_by(self, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        names, strings = self._work.name, self._trace.strings
        codes = [code for code in distinct(names).tolist() if code >= 0 and pattern.search(strings.text(code) or "")]
        marks: NDArray[np.bool_] = np.isin(names, codes)
        return marks

    def _of_graphs(self) -> Iterator[LevelMembers]:
        members = self.level("graph", LevelSource.GRAPH, _by_graph(self._work))
        if members is not None:
            yield members

    def _of_period(self) -> list[LevelMembers]:
        """The kernel sequence's own repetition."""
        if not len(self._work):
            return []
        members = self.level("kernel sequence", LevelSource.PERIOD, repetitions(self._work.name, self._work.end_ns))
        if members is None or members.level.count < FEWEST:
            return []
        return [members]


_MARKS: Final = (LevelSource.TOKEN, LevelSource.OPTIMIZER)
_OF_RANGES: Final = (LevelSource.PROFILER, *_BY_NAME)


def _source_of(range_name: str) -> LevelSource:
    """What ranges of this name say of themselves."""
    if PROFILER_STEP.match(range_name):
        return LevelSource.PROFILER
    if is_measured_name(range_name):
        return LevelSource.MEASURED
    return LevelSource.NAMED if is_step_name(range_name) else LevelSource.RANGE


def held_ns(work: Activities, start_ns: int) -> Ints:
    """For each activity its own time and the idle time before it; together the time from `start_ns` to the last end."""
    reached = np.maximum(furthest(work.end_ns), start_ns)
    return np.diff(reached, prepend=start_ns)


def step_of(found: list[LevelMembers]) -> LevelMembers | None:
    """The level that is the step; None where none covers enough.

    What a benchmark says that it measures is the step whatever else was recorded: its warm-up, its checks.
    """
    measured = [members for members in found if members.level.source is LevelSource.MEASURED]
    measured = [members for members in measured if members.level.count >= FEWEST]
    if measured:
        return max(measured, key=lambda members: members.level.coverage)
    covering = [members for members in found if members.of_recorded >= COVERAGE]
    marked = {members.level.source: members for members in covering if members.level.source in _MARKS}
    annotated = _annotated(covering)
    token = marked.get(LevelSource.TOKEN)
    if token is not None and token.level.count >= FEWEST:
        if annotated is None:
            return token
        is_request = annotated.level.source is not LevelSource.NAMED
        if is_request and token.level.count >= _TOKENS_PER_CALL * annotated.level.count:
            return token
    if annotated is not None:
        return annotated
    update = marked.get(LevelSource.OPTIMIZER)
    if update is not None and update.level.count > 1:
        return update
    return next((members for members in covering if _may_be_unannounced(members.level, found)), None)


def _may_be_unannounced(level: Level, found: list[LevelMembers]) -> bool:
    """Whether a level that nothing calls a step may be one: a part's range, graph launches, the kernels' own period.

    Where kernels mark the end of steps, what repeats more often is a part of them. So it is where ranges stand for some
    phases of the run only: what repeats through all of them is what these have in common, a layer.
    """
    if level.count < FEWEST or level.source not in (LevelSource.RANGE, LevelSource.GRAPH, LevelSource.PERIOD):
        return False
    marks = [members.level.count for members in found if members.level.source in _MARKS]
    phases = [members.level.count for members in found if _is_phase(members)]
    return level.count <= max(marks, default=level.count) and level.count <= min(phases, default=level.count)


def _is_phase(members: LevelMembers) -> bool:
    is_range = members.level.source is LevelSource.RANGE and not is_part_name(members.level.name)
    return is_range and members.of_recorded < COVERAGE


def _annotated(covering: list[LevelMembers]) -> LevelMembers | None:
    """torch's steps; else the innermost ranges that are called steps; else the outermost kind of range that repeats."""
    by_source = {
        source: [members for members in covering if members.level.source is source]
        for source in (LevelSource.PROFILER, LevelSource.NAMED, LevelSource.RANGE)
    }
    if by_source[LevelSource.PROFILER]:
        return by_source[LevelSource.PROFILER][0]
    if by_source[LevelSource.NAMED]:
        return by_source[LevelSource.NAMED][-1]
    repeated = [
        members
        for members in by_source[LevelSource.RANGE]
        if members.level.count >= FEWEST and not is_part_name(members.level.name)
    ]
    return repeated[0] if repeated else None


def _without_first_if_other(names: Codes, member: Positions) -> Positions:
    """The first instance left out where its kernels are others than those of the next two, as a prefill's are."""
    kernels = [names[(member == instance) & (names >= 0)] for instance in range(3)]
    if not all(map(len, kernels)) or _likeness(*kernels[1:]) < _ALIKE or _likeness(*kernels[:2]) >= _ALIKE:
        return member
    return np.maximum(member - 1, -1)


def _likeness(first: Codes, second: Codes) -> float:
    """The share of the kernels that two sequences have in common."""
    length = int(max(first.max(), second.max())) + 1
    counts = [np.bincount(names, minlength=length) for names in (first, second)]
    return float(np.minimum(*counts).sum() / max(np.maximum(*counts).sum(), 1))


def _last_of_each_run(marks: NDArray[np.bool_]) -> Positions:
    """Of marks that come in runs, one run a step, the last of each run: those with most of a step behind them."""
    positions = np.flatnonzero(marks)
    following = np.append(np.diff(positions), len(marks))
    return positions[following > following[:-1].max(initial=0) / 4]


def up_to(marks: Positions, count: int) -> Positions:
    """For each of so many activities the mark that it comes before or is; -1 for what follows the last mark."""
    member = np.searchsorted(marks, np.arange(count), side="left")
    return np.where(member < len(marks), member, -1)


def _by_graph(work: Activities) -> Positions | None:
    """One instance per graph launch, or per period of the sequence of graphs launched."""
    nodes = np.flatnonzero((work.graph_node >= 0) & (work.correlation >= 0))
    whole = np.flatnonzero(work.name < 0)
    launched = np.union1d(nodes, whole)
    if not len(launched):
        return None
    first, number = group(work.pid[launched], work.correlation[launched])
    by_time = np.argsort(work.start_ns[launched[first]], kind="stable")
    rank = np.empty(len(first), np.intp)
    rank[by_time] = np.arange(len(first))
    graph = np.where(work.graph_node[launched[first]] >= 0, work.graph_node[launched[first]], -1)[by_time]
    length = period(graph)
    if length is None:
        return None
    member = np.full(len(work), -1, np.intp)
    member[launched] = rank[number] // length
    return member

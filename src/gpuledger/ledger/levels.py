"""The levels of a run: everything that repeats, from requests over steps to layers, and which of them is the step.

A level is a way to say which repetition each activity belongs to. It comes from ranges, from kernels that mark the end
of something (the choice of a token, the update of parameters), from graph launches, or from the period of the kernel
sequence. Its coverage is the share of the window, idle time included, that its instances hold: an activity holds its
own time and the idle time before it.

What covers less than COVERAGE of the time that was recorded is not the step by itself: it is a layer, or a phase.

The period of a sequence of kernels: names in the order of execution in, which repetition each belongs to out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import normalised
from gpuledger.catalog.range_names import (
    OPTIMIZER,
    PROFILER_STEP,
    SAMPLING,
    is_layer_name,
    is_measured_name,
    is_operator_name,
    is_part_name,
    is_step_name,
)
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.busy import default_window
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import launched_in, main_process, nothing_matches
from gpuledger.ledger.lost_work import LEAST_NS, waits_for_unrecorded
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.messages import Message, say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, equal, group
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, Span, furthest
from gpuledger.trace.statistics import median, nearest_percentiles
from gpuledger.trace.strings import Codes
from gpuledger.trace.tables import Rows

FEWEST: Final = 3
"""Fewer repetitions than this are none."""

_MOSTLY: Final = 0.8
"""So many of the distances, or of the stretches, must be alike."""

_KERNEL_PERIODS_ALIKE: Final = 0.9
"""Two stretches are alike when so many of their kernels are the same."""

_LEAST_COVERED: Final = 0.5
"""A period that holds fewer of the kernels than this is not one of the whole sequence."""

_SLOWER: Final = 1.25
"""A repetition that takes this many times the usual holds something that the others do not."""


def repetitions(names: Codes, end_ns: Ints) -> Positions | None:
    """For each kernel the outermost repetition that it belongs to, -1 for none; None if nothing repeats."""
    for code in _rarest_first(names):
        marks = np.flatnonzero(names == code)
        distances = np.diff(marks)
        usual = int(median(distances))
        alike = distances == usual
        covers = alike.sum() * usual >= _LEAST_COVERED * len(names)
        if usual > 1 and covers and alike.mean() >= _MOSTLY and _stretches_alike(names, marks, usual):
            by_count = _steps_by_distance(names, marks, usual)
            return (
                by_count if by_count is not None else _steps_by_time(end_ns, _from_first_to_last(names, marks, usual))
            )
    return None


def period(sequence: Ints) -> int | None:
    """The shortest period of a sequence that repeats at least FEWEST times; None if it has none."""
    for length in range(1, len(sequence) // FEWEST + 1):
        if (sequence[length:] == sequence[:-length]).mean() >= 0.95:
            return length
    return None


def with_what_follows(names: Codes, marks: Positions, usual: int) -> Positions:
    """Marks moved to the end of what follows each, if that is what follows the last one, as it is for most of them."""
    tail = names[marks[-1] + 1 :]
    if len(tail) >= usual:
        return marks
    follows = np.array([np.array_equal(names[mark + 1 : mark + 1 + len(tail)], tail) for mark in marks.tolist()])
    return marks + len(tail) * follows if follows.mean() >= _MOSTLY else marks


def _rarest_first(names: Codes) -> list[int]:
    codes, counts = np.unique(names, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return [int(codes[index]) for index in order if counts[index] >= FEWEST and codes[index] >= 0]


def _stretches_alike(names: Codes, marks: Positions, length: int) -> bool:
    """Whether most stretches of the usual length before a mark hold the same kernels in the same order."""
    ends = marks[1:][np.diff(marks) == length]
    stretches = names[ends[:, None] - np.arange(length)[None, :]]
    model = stretches[len(stretches) // 2]
    return bool(((stretches == model).mean(axis=1) >= _KERNEL_PERIODS_ALIKE).mean() >= _MOSTLY)


def _steps_by_distance(names: Codes, marks: Positions, usual: int) -> Positions | None:
    """Layers made steps where every so many of them is followed by more kernels than the others."""
    longer = np.flatnonzero(np.diff(marks) > usual)
    layers = _regular(longer)
    if layers is None:
        return None
    last_layers = np.append(marks[longer], marks[-1])
    length = int(median(np.diff(last_layers)))
    return _from_first_to_last(names, last_layers, length)


def _steps_by_time(end_ns: Ints, member: Positions) -> Positions:
    """Layers made steps where every so many of them takes longer: what comes once a step shows in its length."""
    ends = np.full(int(member.max()) + 1, np.iinfo(np.int64).min)
    sweep.fold("most", member, end_ns, ends)
    lengths = np.diff(ends)
    slow = 1 + np.flatnonzero(lengths > _SLOWER * median(lengths)) if len(lengths) else np.empty(0, np.intp)
    layers = _regular(slow) if len(slow) >= FEWEST else None
    if layers is None:
        return member
    first = int(slow[0]) % layers
    steps = (len(ends) - first) // layers
    merged = (member - first) // layers
    return np.where((member >= 0) & (merged >= 0) & (merged < steps), merged, -1)


def _regular(positions: NDArray[np.signedinteger]) -> int | None:
    """The distance between neighbours, where most have the same, over one; None where they have not."""
    distances = np.diff(positions)
    if not len(distances):
        return None
    usual = int(median(distances))
    return usual if usual > 1 and (distances == usual).mean() >= _MOSTLY else None


def _from_first_to_last(names: Codes, marks: Positions, usual: int) -> Positions:
    """Steps from marks at equal distances: the last ends with the sequence, if what follows each mark is the same.

    The first has the usual length if its kernels are the usual ones; else it begins after the first mark. What lies
    before the first step and after the last is in none.
    """
    marks = with_what_follows(names, marks, usual)
    first, model = marks[0] - usual + 1, names[marks[-1] - usual + 1 : marks[-1] + 1]
    if first < 0 or (names[first : marks[0] + 1] == model).mean() < _KERNEL_PERIODS_ALIKE:
        first, marks = marks[0] + 1, marks[1:]
    position = np.arange(len(names))
    member = np.searchsorted(marks, position, side="left")
    return np.where((position >= first) & (position <= marks[-1]), member, -1)


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
    LevelSource.PROFILER: say("marked by torch's ProfilerStep"),
    LevelSource.TOKEN: say("ended by token-sampling kernels"),
    LevelSource.OPTIMIZER: say("ended by optimizer kernels"),
    LevelSource.GRAPH: say("one per graph launch"),
    LevelSource.PERIOD: say("inferred from repeating kernels"),
}


def source_words(source: LevelSource, name: str) -> Message:
    """What the instances of a level were found by."""
    return say("marked by the range '{name}'", name=name) if source in _BY_NAME else _WORDS[source]


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
    def kind(self) -> Message:
        """What its instances were found by, beside its name."""
        return say("marked by ranges") if self.source in _BY_NAME else _WORDS[self.source]


@dataclass(frozen=True, slots=True, eq=False)
class LevelMembers:
    """A level before it is described. Which activity belongs to which instance is a column as long as the profile."""

    name: str
    source: LevelSource
    length_ns: Ints
    """The recorded time of each instance."""
    of_recorded: float
    """The share of the recorded time; for ranges, of what their process launched while it was recorded."""
    find: Callable[[], Positions | None]
    """Which instance each activity belongs to, -1 for none: looked for again, rather than kept for every level."""

    @property
    def count(self) -> int:
        return len(self.length_ns)

    @property
    def covered_ns(self) -> int:
        return int(self.length_ns.sum())


class LevelFinder:
    """The levels of one GPU over the whole profile: the step, found with as little as it takes, and all of them."""

    def __init__(self, trace: Trace, work: Activities, host: Host, gpu: int) -> None:
        self.gpu: Final = gpu
        self._trace, self._work, self._host = trace, work.of(gpu), host
        whole = default_window(host, work)
        self._window = Span(0, 0) if isinstance(whole, NotMeasured) else whole
        self._known: dict[tuple[LevelSource, int], LevelMembers | None] = {}
        self._latest: tuple[LevelMembers, Positions] | None = None

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Every level, ranges from the outside in; the kernel sequence is asked where nothing else gives a step."""
        chosen = self.step()
        found = [members for kind in range(len(self._kinds)) if (members := self._of_kind(kind)) is not None]
        repeated = [members for members in found if members.source is not LevelSource.RANGE or members.count > 1]
        shown = [members for members in repeated if members.of_recorded >= _WORTH_SHOWING]
        shown += [members for source in _MARKS if (members := self._of_marks(source)) is not None]
        shown += [members for members in (self._of_graphs(),) if members is not None]
        if chosen is None or chosen.source is LevelSource.PERIOD:
            shown += [members for members in (self._of_period(),) if members is not None]
        self._latest = None
        self.__dict__.pop("_recorded_ns", None)  # a column as long as the profile, which is not needed any more
        return tuple(map(self._described, shown))

    def member(self, level: LevelMembers) -> Positions:
        """Which instance of a level each activity belongs to; -1 for none."""
        latest, self._latest = self._latest, None
        if latest is not None and latest[0] is level:
            return latest[1]
        member = level.find()
        if member is None:
            raise ValueError(f"level {level.name} has no instances")
        return member

    def step(self) -> LevelMembers | None:
        """The level that is the step; None where none covers enough.

        What a benchmark says that it measures is the step whatever else was recorded: its warm-up, its checks.
        """
        measured = [members for members in self._of_source(LevelSource.MEASURED) if members.count >= FEWEST]
        if measured:
            return max(measured, key=lambda members: members.covered_ns)
        annotated = self._annotated()
        if annotated is not None and annotated.source is LevelSource.NAMED:
            return annotated
        token = self._of_marks(LevelSource.TOKEN)
        fewest = FEWEST if annotated is None else _TOKENS_PER_CALL * annotated.count
        if token is not None and _covers(token) and token.count >= fewest:
            return token
        if annotated is not None:
            return annotated
        update = self._of_marks(LevelSource.OPTIMIZER)
        if update is not None and _covers(update) and update.count > 1:
            return update
        unannounced = (*self._of_source(LevelSource.RANGE), self._of_graphs(), self._of_period())
        return next((members for members in unannounced if members is not None and self._may_be_step(members)), None)

    def outermost(self) -> LevelMembers | None:
        """The first level that repeats and covers what was recorded, step or not."""
        levels = (*self._of_source(LevelSource.RANGE), self._of_graphs(), self._of_period())
        known = (members for members in levels if members is not None)
        return next((members for members in known if members.count >= FEWEST and _covers(members)), None)

    def named(self, name: str) -> LevelMembers:
        """The level of this name; of several that hold it, the first."""
        members = [self._of_kind(kind) for kind in range(len(self._kinds))]
        members += [*map(self._of_marks, _MARKS), self._of_graphs(), self._of_period()]
        known = [level for level in members if level is not None]
        exact = [level for level in known if level.name == name]
        alike = [level for level in known if name and name.lower() in level.name.lower()]
        if not (exact or alike):
            raise nothing_matches(name, "level", [level.name for level in known])
        return (exact or alike)[0]

    def _annotated(self) -> LevelMembers | None:
        """torch's steps; else the innermost ranges called steps; else the outermost kind of range that repeats."""
        for source in (LevelSource.PROFILER, LevelSource.NAMED):
            covering = [members for members in self._of_source(source) if _covers(members)]
            if covering:
                return covering[-1]
        for members in self._of_source(LevelSource.RANGE):
            if members.count >= FEWEST and _covers(members) and not is_part_name(members.name):
                return members
        return None

    def _may_be_step(self, members: LevelMembers) -> bool:
        """Whether a level that nothing calls a step may be one: a part's range, graph launches, the kernels' period.

        Where kernels mark the end of steps, what repeats more often is a part of them. So it is where ranges stand for
        some phases of the run only: what repeats through all of them is what these have in common, a layer. And so it
        is where each repetition holds the ranges of one layer alone.
        """
        if members.count < FEWEST or not _covers(members) or self._repeats_with_layers(members):
            return False
        marks = [mark.count for source in _MARKS if (mark := self._of_marks(source)) is not None]
        phases = [phase.count for phase in self._of_source(LevelSource.RANGE) if _is_phase(phase)]
        most = min(max(marks, default=members.count), *phases, members.count)
        return members.count <= most

    def _repeats_with_layers(self, members: LevelMembers) -> bool:
        """Whether kernels that nothing else announces repeat as often as ranges of numbered layers are opened."""
        if members.source is LevelSource.RANGE:
            return False
        ranges, strings = spans_of_time(self._trace), self._trace.strings
        opened = strings.each(ranges.codes("name"), is_layer_name, np.bool_) if len(ranges) else np.zeros(0, np.bool_)
        _, kind = strings.kinds(ranges.codes("name")[opened], normalised)
        return any(members.count <= count <= 2 * members.count + 2 for count in np.bincount(kind).tolist())

    @cached_property
    def _recorded_ns(self) -> NDArray[np.signedinteger]:
        """For each activity the time that it holds, less what the device spent on work that nobody recorded."""
        held, work = held_ns(self._work, self._window.start_ns), self._work
        if not len(self._host.calls):
            return held
        idle = np.flatnonzero(held - (work.end_ns - work.start_ns) > LEAST_NS)
        waits = idle[waits_for_unrecorded(work, self._host, idle)]
        returned = self._host.calls["end_ns"][work.launch[waits]]
        waited = work.start_ns[waits] - np.maximum(work.end_ns[waits] - held[waits], returned)
        held[waits] -= np.maximum(waited, 0)
        return held.astype(np.int32) if held.max(initial=0) <= np.iinfo(np.int32).max else held

    @cached_property
    def _in_reach_ns(self) -> int:
        """What ranges of the main process can hold: not what another process launched, or one before the recording."""
        work = self._work
        own = equal(work.pid, main_process(work)) & (work.launch >= 0)
        return int(self._recorded_ns[own].sum()) if own.any() else int(self._recorded_ns.sum())

    @cached_property
    def _kinds(self) -> list[tuple[str, LevelSource, Rows]]:
        """The kinds of range, from the outside in, at each depth those first that are open the longest."""
        ranges = spans_of_time(self._trace).only("start_ns", "end_ns", "pid", "depth", "name")
        if not len(ranges) or not len(self._work):
            return []
        ranges = ranges.where(equal(ranges["pid"], main_process(self._work)))
        kinds = []
        for depth in range(min(int(ranges["depth"].max(initial=-1)), _DEEPEST) + 1):
            kinds += self._of_depth(ranges.where(ranges["depth"] == depth))
        return kinds

    def _of_depth(self, ranges: Rows) -> list[tuple[str, LevelSource, Rows]]:
        strings, kinds = self._trace.strings, []
        names, kind = strings.kinds(ranges.codes("name"), normalised)
        open_ns = np.bincount(kind, weights=ranges.duration_ns, minlength=len(names))
        for number in np.argsort(-open_ns, kind="stable")[:_MOST_KINDS].tolist():
            instances = np.flatnonzero(kind == number)
            example = strings.text(int(ranges.codes("name")[instances[0]])) or ""
            source = _source_of(example)
            if source is not LevelSource.RANGE or (len(instances) > 1 and not is_operator_name(example)):
                kinds.append((names[number], source, ranges.at(instances)))
        return kinds

    def _of_source(self, source: LevelSource) -> Iterator[LevelMembers]:
        """The levels of ranges of one sort, from the outside in."""
        for kind, (_, of, _) in enumerate(self._kinds):
            if of is source and (members := self._of_kind(kind)) is not None:
                yield members

    def _of_kind(self, kind: int) -> LevelMembers | None:
        name, source, instances = self._kinds[kind]
        return self._once((source, kind), name, lambda: launched_in(self._work, self._host, instances))

    def _of_marks(self, source: LevelSource) -> LevelMembers | None:
        """Tokens or updates, by the kernels that end them."""
        name, pattern = _MARKS[source]
        return self._once((source, 0), name, lambda: self._ending_with(pattern))

    def _of_graphs(self) -> LevelMembers | None:
        return self._once((LevelSource.GRAPH, 0), "graph", lambda: _by_graph(self._work))

    def _of_period(self) -> LevelMembers | None:
        work = self._work
        return self._once(
            (LevelSource.PERIOD, 0),
            "kernel sequence",
            lambda: repetitions(work.name, work.end_ns),
        )

    def _once(
        self, key: tuple[LevelSource, int], name: str, find: Callable[[], Positions | None]
    ) -> LevelMembers | None:
        """The level of this key, which is looked for when it is first asked for."""
        if key not in self._known:
            self._latest = None
            member = find()
            if member is None or not len(member) or member.max() < 0:
                self._known[key] = None
            else:
                length = sweep.fold("sum", member, self._recorded_ns, np.zeros(int(member.max()) + 1, np.int64))
                whole_ns = self._in_reach_ns if key[0] in _OF_RANGES else int(self._recorded_ns.sum())
                level = LevelMembers(name, key[0], length, int(length.sum()) / max(whole_ns, 1), find)
                self._known[key], self._latest = level, (level, member)
        return self._known[key]

    def _described(self, members: LevelMembers) -> Level:
        [middle] = nearest_percentiles(members.length_ns, 50)  # as steps are told
        window_ns = self._window.end_ns - self._window.start_ns
        coverage = members.covered_ns / max(window_ns, 1)
        return Level(members.name, members.source, members.count, middle, coverage)

    def _ending_with(self, pattern: re.Pattern[str]) -> Positions | None:
        """Instances that end with the last of each run of kernels that match."""
        names, strings = self._work.name, self._trace.strings
        codes = [code for code in distinct(names).tolist() if code >= 0 and pattern.search(strings.text(code) or "")]
        if not codes:
            return None
        marks = _last_of_each_run(np.flatnonzero(np.isin(names, codes)), len(names))
        usual = int(median(np.diff(marks))) if len(marks) > 1 else 0
        return _without_first_if_other(names, up_to(with_what_follows(names, marks, usual), len(names)))


_MARKS: Final = {LevelSource.TOKEN: ("token", SAMPLING), LevelSource.OPTIMIZER: ("update", OPTIMIZER)}
_OF_RANGES: Final = (LevelSource.PROFILER, *_BY_NAME)


def _covers(members: LevelMembers) -> bool:
    return members.of_recorded >= COVERAGE


def _is_phase(members: LevelMembers) -> bool:
    """Whether ranges that are called after no part of a model stand for a part of the run only."""
    is_shown = members.count > 1 and members.of_recorded >= _WORTH_SHOWING
    return is_shown and not _covers(members) and not is_part_name(members.name)


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


def _last_of_each_run(marks: Positions, count: int) -> Positions:
    """Of marks that come in runs, one run a step, the last of each run: those with most of a step behind them."""
    following = np.append(np.diff(marks), count)
    last: Positions = marks[following > following[:-1].max(initial=0) / 4]
    return last


def up_to(marks: Positions, count: int) -> Positions:
    """For each of so many activities the mark that it comes before or is; -1 for what follows the last mark."""
    member = np.searchsorted(marks, np.arange(count), side="left")
    instances: Positions = np.where(member < len(marks), member, -1)
    return instances


def _by_graph(work: Activities) -> Positions | None:
    """One instance per graph launch, or per period of the sequence of graphs launched."""
    launched = np.flatnonzero((work.graph_node >= 0) | (work.name < 0))
    correlation = work.gathered_at("correlation", launched)
    is_known = (correlation >= 0) | (work.name[launched] < 0)
    launched, correlation = launched[is_known], correlation[is_known]
    if not len(launched):
        return None
    first, number = group(work.pid[launched], correlation)
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

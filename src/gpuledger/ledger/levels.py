"""The levels of a run: everything that repeats, from requests over steps to layers, and which of them is the step.

A level is a way to say which repetition each activity belongs to. It comes from ranges, from kernels that mark the end
of something (the choice of a token, the update of parameters), from graph launches, or from the period of the kernel
sequence. Its coverage is the share of the window, idle time included, that its instances hold: an activity holds its
own time and the idle time before it.

What covers less than COVERAGE of the time that was recorded is not the step by itself: it is a layer, or a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import without_ids, without_numbers
from gpuledger.catalog.range_names import (
    LIBRARIES,
    PROFILER_STEP,
    chooses_token,
    is_dalis,
    is_layer_name,
    is_measured_name,
    is_operator_name,
    is_part_name,
    is_step_name,
    updates_parameters,
)
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import LaunchedTime, launched_in, main_process, nothing_matches
from gpuledger.ledger.lost_work import LEAST_NS, waits_for_unrecorded
from gpuledger.ledger.ranges import spans_of_time
from gpuledger.ledger.window import default_window
from gpuledger.messages import Message, say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, distinct, equal, group, is_among, occurrences
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, Span, furthest
from gpuledger.trace.statistics import median, nearest_percentiles
from gpuledger.trace.strings import Codes, Strings
from gpuledger.trace.tables import Rows

FEWEST: Final = 3  # fewer repetitions than this are none
_MOSTLY: Final = 0.8  # so many of the distances, or of the stretches, must be alike
_SAME_PERIOD: Final = 0.9  # two stretches are alike when so many of their kernels are the same

_LEAST_COVERED: Final = 0.5
"""A period that holds fewer of the kernels than this is not one of the whole sequence; nor are ranges nobody calls
steps the run that hold less of its time."""

_MAX_OF_FEW: Final = 0.75  # a repetition that holds more of the time of a few is something that happens once
_SLOWER: Final = 1.25  # a repetition that takes this many times the usual holds something that the others do not


def repetitions(work: Activities) -> Positions | None:
    """For each kernel the outermost repetition that it belongs to, -1 for none; None if nothing repeats.

    Many copies before the first kernel, as of weights, are in none. Copies that repeat without kernels between them are
    no repetition of a program that has kernels. A copy ends no repetition if it, and the pause
    after it, take longer than what repeats between two of its kind: a simulation writes its state every so many steps.
    """
    kernels = np.flatnonzero(work.state != State.COPY)
    leading = int(kernels[0]) if len(kernels) else 0
    before = leading if leading >= np.diff(kernels, append=len(work)).max(initial=0) else 0
    run = _ActivityRun(work.name[before:], work.start_ns[before:], work.end_ns[before:], work.state[before:])
    copied: tuple[Positions, float] | None = None
    for marks, member in run.repeating():
        if not run.holds_kernels(member):
            continue
        if copied is None and run.state[marks[0]] == State.COPY:
            copied = member, min(median((run.end_ns - run.start_ns)[marks]), median(run.pauses_ns[marks]))
            continue
        if copied is not None and copied[1] <= median(run.lengths(member)):
            break
        return np.append(np.full(before, -1), member)
    return None if copied is None else np.append(np.full(before, -1), copied[0])


class _ActivityRun(Struct, frozen=True, eq=False):
    """Activities in order of time, and what repeats among them."""

    names: Codes
    start_ns: Ints
    end_ns: Ints
    state: NDArray[np.int8]

    def repeating(self) -> Iterator[tuple[Positions, Positions]]:
        """What is seldom and marks a repetition each time, the most seldom first; with the repetition of each."""
        names, kernel_count = self.names, np.cumsum(self.state != State.COPY)
        codes, counts = occurrences(names)
        rarest_first = codes[np.argsort(counts, kind="stable")]
        for code in rarest_first[np.sort(counts, kind="stable") >= FEWEST].tolist():
            if code < 0:
                continue
            marks = np.flatnonzero(names == code)
            distances = np.diff(marks)
            usual = int(median(distances))
            alike = distances == usual
            covers = alike.sum() * usual >= _LEAST_COVERED * len(names)
            if usual > 1 and covers and alike.mean() >= _MOSTLY and _stretches_alike(names, marks, usual):
                kernels = np.diff(kernel_count[marks])
                longer = np.flatnonzero(kernels > median(kernels))
                if _regular(longer) is None:
                    yield marks, self._steps_by_time(_from_first_to_last(names, marks, usual))
                else:  # layers: every so many of them is followed by more kernels than the others, and ends a step
                    last_layers = np.append(marks[longer], marks[-1])
                    yield marks, _from_first_to_last(names, last_layers, int(median(np.diff(last_layers))))

    def holds_kernels(self, member: Positions) -> bool:
        """Whether most repetitions hold a kernel; of copies alone none can."""
        of_kernels = member[(self.state != State.COPY) & (member >= 0)]
        holding = 1 + np.count_nonzero(np.diff(of_kernels)) if len(of_kernels) else 0
        return bool(holding >= _MOSTLY * (int(member.max()) + 1)) or not (self.state != State.COPY).any()

    @property
    def pauses_ns(self) -> Ints:
        """How long nothing runs after each activity."""
        pauses: Ints = np.maximum(np.append(self.start_ns[1:], self.end_ns[-1:]) - furthest(self.end_ns), 0)
        return pauses

    def _ends(self, member: Positions) -> Ints:
        return sweep.fold("most", member, self.end_ns, np.full(int(member.max()) + 1, np.iinfo(np.int64).min))

    def lengths(self, member: Positions) -> Ints:
        """How long repetitions take, but the first."""
        return np.diff(self._ends(member))

    def _steps_by_time(self, member: Positions) -> Positions:
        """Layers made steps where every so many of them takes longer: what comes once a step shows in its length. Not
        where copies alone take longer than one of them, and so do the pauses after them."""
        ends = self._ends(member)
        lengths = np.diff(ends)
        slow = 1 + np.flatnonzero(lengths > _SLOWER * median(lengths)) if len(lengths) else np.empty(0, np.intp)
        layers = _regular(slow) if len(slow) >= FEWEST else None
        if layers is None:
            return member
        first_after = sweep.search(self.start_ns, ends)
        for spent in (self.end_ns - self.start_ns, self.pauses_ns):
            sums = np.append(0, np.cumsum(np.where(self.state == State.COPY, spent, 0)))
            if median(np.diff(sums[first_after])[slow - 1]) <= median(lengths):
                break
        else:
            return member
        first = int(slow[0]) % layers
        steps = (len(ends) - first) // layers
        merged = (member - first) // layers
        return np.where((member >= 0) & (merged >= 0) & (merged < steps), merged, -1)


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


def _stretches_alike(names: Codes, marks: Positions, length: int) -> bool:
    """Whether most stretches of the usual length before a mark hold the same kernels in the same order."""
    ends = marks[1:][np.diff(marks) == length]
    stretches = names[ends[:, None] - np.arange(length)[None, :]]
    model = stretches[len(stretches) // 2]
    return bool(((stretches == model).mean(axis=1) >= _SAME_PERIOD).mean() >= _MOSTLY)


def _regular(positions: NDArray[np.signedinteger]) -> int | None:
    """The distance between neighbours, where most have the same, over one; None where they have not."""
    distances = np.diff(positions)
    if not len(distances):
        return None
    usual = int(median(distances))
    return usual if usual > 1 and (distances == usual).mean() >= _MOSTLY else None


def _from_first_to_last(names: Codes, marks: Positions, usual: int) -> Positions:
    """Steps from marks at equal distances: the last ends with the sequence, if what follows each mark is the same. The
    first has the usual length if its kernels are the usual ones; else it begins after the first mark. What lies before
    the first step and after the last is in none."""
    marks = with_what_follows(names, marks, usual)
    first, model = marks[0] - usual + 1, names[marks[-1] - usual + 1 : marks[-1] + 1]
    if first < 0 or (names[first : marks[0] + 1] == model).mean() < _SAME_PERIOD:
        first, marks = marks[0] + 1, marks[1:]
    position = np.arange(len(names))
    member = np.searchsorted(marks, position, side="left")
    return np.where((position >= first) & (position <= marks[-1]), member, -1)


COVERAGE: Final = 0.8  # what holds less of the recorded time is not the step by itself

AT_START: Final = 0.2
"""A run whose kernels take no more than this share of the time has not begun yet: it loads, compiles and copies."""

_WORTH_SHOWING: Final = 0.1  # a level that holds less of the recorded time is not shown
_DEEPEST: Final = 6  # ranges nested deeper than this are no levels
_MOST_KINDS: Final = 12  # kinds of range tried at each depth, those that are open the longest
_ALIKE: Final = 0.9  # instances that have so many of their kernels in common are of one kind

_TOKENS_PER_CALL: Final = 8
"""From so many tokens in each instance of a range on, the range is a request and the token is the step; from FEWEST
updates of parameters on, it is an epoch."""


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


class Level(Struct, frozen=True):
    """One thing that repeats."""

    name: str  # of ranges: theirs, with # for numbers
    source: LevelSource
    count: int
    median_ns: int
    coverage: float  # the share of the window that its instances hold

    @property
    def kind(self) -> Message:
        """What its instances were found by, beside its name."""
        return say("marked by ranges") if self.source in _BY_NAME else _WORDS[self.source]


class LevelMembers(Struct, frozen=True, eq=False):
    """A level before it is described. Which activity belongs to which instance is a column as long as the profile."""

    name: str
    source: LevelSource
    length_ns: Ints  # the recorded time of each instance
    of_recorded: float
    """The share of the recorded time; for ranges, of what their process launched while it was recorded."""
    find: Callable[[], Positions | None]
    """Which instance each activity belongs to, -1 for none: looked for again, rather than kept for every level."""
    ranges: Rows | None = None  # what marks its instances on the host, where ranges do

    @property
    def count(self) -> int:
        return len(self.length_ns)

    @property
    def covered_ns(self) -> int:
        return int(self.length_ns.sum())


def _kinds_by_process(trace: Trace) -> dict[int, list[tuple[str, LevelSource, Rows]]]:
    """The kinds of range of each process, from the outside in, at each depth those first that are open the longest."""
    ranges, strings = spans_of_time(trace).only("start_ns", "end_ns", "pid", "depth", "name", "domain"), trace.strings
    in_domain = strings.each(ranges.codes("domain"), lambda domain: domain.lower() in LIBRARIES, np.bool_)
    every = strings.rewritten(ranges.codes("name"), without_ids)
    ranges = ranges.where(~(in_domain | every.strings.each(every.codes, is_dalis, np.bool_)))
    return {process: _kinds(ranges.at(own), strings) for process, own in RowsByKey.of(ranges["pid"])}


def _kinds(ranges: Rows, strings: Strings) -> list[tuple[str, LevelSource, Rows]]:
    kinds = []
    for depth in range(min(int(ranges["depth"].max(initial=-1)), _DEEPEST) + 1):
        there = ranges.where(ranges["depth"] == depth)
        bare = strings.rewritten(there.codes("name"), without_ids)
        names, kind = bare.strings.kinds(bare.codes, without_numbers)
        open_ns = np.bincount(kind, weights=there.duration_ns, minlength=len(names))
        for number in np.argsort(-open_ns, kind="stable")[:_MOST_KINDS].tolist():
            instances = np.flatnonzero(kind == number)
            example = strings.text(int(there.codes("name")[instances[0]])) or ""
            source = _source_of(example)
            if source is not LevelSource.RANGE or (len(instances) > 1 and not is_operator_name(example)):
                kinds.append((names[number], source, there.at(instances)))
    return kinds


class LevelFinder:
    """The levels of one GPU over the whole profile: the step, found with as little as it takes, and all of them."""

    def __init__(self, trace: Trace, work: Activities, host: Host, gpu: int) -> None:
        self.gpu: Final = gpu
        self._trace, self._work, self._host = trace, work.of(gpu), host
        whole = default_window(host, work)
        self._window = Span(0, 0) if isinstance(whole, NotMeasured) else whole
        self._known: dict[tuple[LevelSource, int], LevelMembers | None] = {}
        self._latest: tuple[LevelMembers, Positions] | None = None

    def release_caches(self) -> None:
        """What is as long as the profile, and needed for levels alone."""
        for column in ("_recorded_ns", "_launched"):
            self.__dict__.pop(column, None)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """Every level, ranges from the outside in; the kernel sequence is asked where nothing else gives a step."""
        step = self.step()
        shown = [
            level
            for level in self._of_ranges()
            if level.of_recorded >= _WORTH_SHOWING and (level.source is not LevelSource.RANGE or level.count > 1)
        ]
        infers = step is None or step.source is LevelSource.PERIOD
        sources = (*_MARKS, LevelSource.GRAPH, *([LevelSource.PERIOD] if infers else []))
        shown += filter(None, map(self._level, sources))
        self._latest = None
        self.release_caches()
        window_ns = max(self._window.end_ns - self._window.start_ns, 1)
        return tuple(
            Level(
                level.name,
                level.source,
                level.count,
                nearest_percentiles(level.length_ns, 50)[0],  # as steps are told
                level.covered_ns / window_ns,
            )
            for level in shown
        )

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
        """The level that is the step; None where none covers enough. What a benchmark says that it measures is the step
        whatever else was recorded: its warm-up, its checks."""
        measured = [level for level in self._of_ranges(LevelSource.MEASURED) if level.count >= FEWEST]
        if measured:
            return max(measured, key=lambda level: level.covered_ns)
        annotated = self._annotated()
        if annotated is not None and annotated.source is LevelSource.NAMED:
            return annotated
        token = self._level(LevelSource.TOKEN)
        fewest = FEWEST if annotated is None else _TOKENS_PER_CALL * annotated.count
        if token is not None and self._covers(token) and token.count >= fewest:
            return token
        if annotated is not None and annotated.source is LevelSource.PROFILER:
            return annotated
        update = self._level(LevelSource.OPTIMIZER)
        fewest = 2 if annotated is None else FEWEST * annotated.count
        if update is not None and self._covers(update) and update.count >= fewest:
            return update
        if annotated is not None:
            return annotated
        return next(filter(self._may_be_step, self._unannounced()), None)

    def outermost(self) -> LevelMembers | None:
        """The first level that repeats and covers what was recorded, step or not."""
        return next((level for level in self._unannounced() if level.count >= FEWEST and self._covers(level)), None)

    def _unannounced(self) -> Iterator[LevelMembers]:
        """The levels that nothing calls a step."""
        yield from self._of_ranges(LevelSource.RANGE)
        yield from filter(None, map(self._level, (LevelSource.GRAPH, LevelSource.PERIOD)))

    def named(self, name: str) -> LevelMembers:
        """The level of this name; of several that hold it, the first."""
        others = map(self._level, (*_MARKS, LevelSource.GRAPH, LevelSource.PERIOD))
        known = [*self._of_ranges(), *filter(None, others)]
        exact = [level for level in known if level.name == name]
        alike = [level for level in known if name and name.lower() in level.name.lower()]
        if not (exact or alike):
            raise nothing_matches(name, "level", [level.name for level in known])
        return (exact or alike)[0]

    def _annotated(self) -> LevelMembers | None:
        """torch's steps; else the innermost ranges called steps; else the outermost kind of range that repeats."""
        for source in (LevelSource.PROFILER, LevelSource.NAMED):
            covering = [level for level in self._of_ranges(source) if self._covers(level)]
            if covering:
                return covering[-1]
        for level in self._of_ranges(LevelSource.RANGE):
            if level.count >= FEWEST and self._covers(level) and not is_part_name(level.name):
                return level
        return None

    def _covers(self, level: LevelMembers) -> bool:
        """Whether a level holds what was recorded, or all but the run's start and what comes after some instances. What
        is only idle or copied before the first instance is the start. Most instances, from the end of the one before
        on, hold hardly anything else."""
        if level.of_recorded >= COVERAGE:
            return True
        is_called_so = level.source in (LevelSource.MEASURED, LevelSource.PROFILER, LevelSource.NAMED)
        if level.count < (FEWEST if is_called_so else 2 * FEWEST):
            return False
        if level.source is LevelSource.RANGE and level.of_recorded < _LEAST_COVERED:
            return False
        work, recorded, member = self._work, self._recorded_ns, self.member(level)
        inside = np.flatnonzero(member >= 0)
        first, last = int(inside[0]), int(inside[-1]) + 1
        following = np.minimum(furthest(member[first:last]) + 1, level.count - 1)
        tile = np.where(member[first:last] >= 0, member[first:last], following)
        tile_ns = sweep.sums(tile, recorded[first:last], level.count)
        of_kernels = np.where(work.state != State.COPY, work.end_ns - work.start_ns, 0)[:first].sum()
        start_ns = int(recorded[:first].sum()) if of_kernels <= AT_START * recorded[:first].sum() else 0
        usual = median(level.length_ns / np.maximum(tile_ns, 1))
        return bool(usual >= COVERAGE and tile_ns.sum() >= COVERAGE * (int(recorded.sum()) - start_ns))

    def _may_be_step(self, level: LevelMembers) -> bool:
        """Whether a level that nothing calls a step may be one: a part's range, graph launches, the kernels' period.

        Where kernels mark the end of steps, what repeats more often is a part of them. So it is where ranges stand for
        some phases of the run only: what repeats through all of them is what these have in common, a layer. And so it
        is where each repetition holds the ranges of one layer alone. A few kernels that come again are no steps where
        nearly all of their time is one repetition, and not the first: what happens once has no mean.
        """
        if level.count < FEWEST or not self._covers(level) or self._repeats_with_layers(level):
            return False
        later = level.length_ns[1:]
        if level.source is LevelSource.PERIOD and level.count < 2 * FEWEST and later.max() > _MAX_OF_FEW * later.sum():
            return False
        marks = [mark.count for mark in map(self._level, _MARKS) if mark is not None]
        phases = [
            phase.count
            for phase in self._of_ranges(LevelSource.RANGE)
            if phase.count > 1 and _WORTH_SHOWING <= phase.of_recorded < COVERAGE and not is_part_name(phase.name)
        ]
        return level.count <= min(max(marks, default=level.count), *phases, level.count)

    def _repeats_with_layers(self, level: LevelMembers) -> bool:
        """Whether kernels that nothing else announces repeat as often as ranges of numbered layers are opened."""
        if level.source is LevelSource.RANGE:
            return False
        names = self._trace.strings.rewritten(spans_of_time(self._trace).codes("name"), without_ids)
        opened = names.strings.each(names.codes, is_layer_name, np.bool_)
        _, kind = names.strings.kinds(names.codes[opened], without_numbers)
        return any(level.count <= count <= 2 * level.count + 2 for count in np.bincount(kind).tolist())

    @cached_property
    def _recorded_ns(self) -> NDArray[np.signedinteger]:
        """For each activity the time that it holds, less what the device spent on work that nobody recorded."""
        held, work = time_until_end(self._work, self._window.start_ns), self._work
        if not len(self._host.calls):
            return held
        long = [np.empty(0, np.intp)]
        for part in sweep.parts(len(held)):
            before = held[part] - work.end_ns[part]
            before += work.start_ns[part]
            long.append(part.start + np.flatnonzero(before > LEAST_NS))
        idle = np.concatenate(long)
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

    @property
    def _kinds(self) -> list[tuple[str, LevelSource, Rows]]:
        kinds = self._host.once(_kinds_by_process, self._trace) if len(self._work) else {}
        return kinds.get(main_process(self._work), []) if kinds else []

    def _of_ranges(self, *wanted: LevelSource) -> Iterator[LevelMembers]:
        """The levels of ranges of some sort, or of any, from the outside in."""
        for kind, (_, source, _) in enumerate(self._kinds):
            if (not wanted or source in wanted) and (level := self._level(source, kind)) is not None:
                yield level

    def _level(self, source: LevelSource, kind: int = 0) -> LevelMembers | None:
        """The level of a source, of ranges that of a kind; looked for when it is first asked for."""
        key, work, host = (source, kind), self._work, self._host
        if key in self._known:
            return self._known[key]
        strings, ranges = self._trace.strings, self._kinds[kind][2] if source in _OF_RANGES else None
        find: Callable[[], Positions | None]  # none holds on to this finder: what goes in a circle stays in memory
        match source:
            case LevelSource.TOKEN | LevelSource.OPTIMIZER:
                name, find = _MARKS[source][0], lambda: _ending_with(work, strings, _MARKS[source][1])
            case LevelSource.GRAPH:
                name, find = "graph", lambda: _by_graph(work)
            case LevelSource.PERIOD:
                name, find = "kernel sequence", lambda: repetitions(work)
            case _:
                marked = self._kinds[kind][2]
                name, find = self._kinds[kind][0], lambda: launched_in(work, host, marked)
        self._latest, self._known[key] = None, None
        if ranges is not None:
            length, whole_ns, member = self._launched.held_ns(ranges), self._in_reach_ns, None
        else:
            member, whole_ns = find(), int(self._recorded_ns.sum())
            length = np.zeros(0, np.int64)
            if member is not None:
                length = np.zeros(int(member.max(initial=-1)) + 1, np.int64)
                sweep.fold("sum", member, self._recorded_ns, length)
        if len(length):
            level = LevelMembers(name, source, length, int(length.sum()) / max(whole_ns, 1), find, ranges)
            self._known[key], self._latest = level, None if member is None else (level, member)
        return self._known[key]

    @cached_property
    def _launched(self) -> LaunchedTime:
        return LaunchedTime(self._host.calls, main_process(self._work), self._work.launch, self._recorded_ns)


_MARKS: Final = {LevelSource.TOKEN: ("token", chooses_token), LevelSource.OPTIMIZER: ("update", updates_parameters)}
_OF_RANGES: Final = (LevelSource.PROFILER, *_BY_NAME)


def _ending_with(work: Activities, strings: Strings, is_mark: Callable[[str], bool]) -> Positions | None:
    """Instances that end with the last of each run of kernels that match. The first is left out where its kernels are
    others than those of the next two, as a prefill's are."""
    names = work.name
    codes = [code for code in distinct(names).tolist() if code >= 0 and is_mark(strings.text(code) or "")]
    if not codes:
        return None
    marks = np.flatnonzero(is_among(names, codes))
    # those with most of a step behind them: of as many kernels as most kernels are in, whatever is copied between
    following = np.diff(np.cumsum(work.state != State.COPY)[marks])
    by_length = np.sort(following)
    in_most = by_length[np.searchsorted(np.cumsum(by_length), by_length.sum() / 2)] if len(following) else 0
    marks = marks[np.append(following > in_most / 4, True)]
    usual = int(median(np.diff(marks))) if len(marks) > 1 else 0
    member = index_of_next_mark(with_what_follows(names, marks, usual), len(names))
    first, second, third = (names[(member == instance) & (names >= 0)] for instance in range(3))
    is_other = all(map(len, (first, second, third))) and _likeness(second, third) >= _ALIKE > _likeness(first, second)
    return np.maximum(member - 1, -1) if is_other else member


def _source_of(range_name: str) -> LevelSource:
    """What ranges of this name say of themselves."""
    if PROFILER_STEP.match(range_name):
        return LevelSource.PROFILER
    if is_measured_name(range_name):
        return LevelSource.MEASURED
    return LevelSource.NAMED if is_step_name(range_name) else LevelSource.RANGE


def time_until_end(work: Activities, start_ns: int) -> Ints:
    """For each activity its own time and the idle time before it; together the time from `start_ns` to the last end."""
    held = furthest(work.end_ns)
    np.maximum(held, start_ns, out=held)
    for part in reversed([*sweep.parts(len(held))]):  # from behind: what stands before a part is still a time
        some = held[part]
        some[1:] -= some[:-1]
        some[:1] -= held[part.start - 1] if part.start else start_ns
    return held


def _likeness(first: Codes, second: Codes) -> float:
    """The share of the kernels that two sequences have in common."""
    length = int(max(first.max(), second.max())) + 1
    counts = [np.bincount(names, minlength=length) for names in (first, second)]
    return float(np.minimum(*counts).sum() / max(np.maximum(*counts).sum(), 1))


def index_of_next_mark(marks: Positions, count: int) -> Positions:
    """Index of the next mark at or after each activity; -1 after the last."""
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

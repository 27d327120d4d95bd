"""Steps: which launches belong together, and where that cuts the device's time.

A range, a marker kernel or a graph launch only says which activities belong to step i. The step ends when the last of
them ends, the next one begins there, and the first begins with its first launch call. So steps tile the device's time
and their lengths sum to it. Host times of a range are never used as device times.

A range counts what any thread of its process launches while it is open: autograd launches from threads of its own.
Where several processes share a GPU, the steps are those of the process that launched the most.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.name_likeness import normalised
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import by_range, launched_in, main_process, nothing_matches, range_names
from gpuledger.messages import Message, say
from gpuledger.trace import sweep
from gpuledger.trace.columns import distinct, equal, take
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.statistics import median
from gpuledger.trace.strings import Codes
from gpuledger.trace.tables import Rows, Table

PROFILER_STEP: Final = re.compile(r"^ProfilerStep#\d+$")
"""What torch.profiler calls the steps of its schedule."""

_PROFILER: Final = say("torch's ProfilerStep")

FEWEST: Final = 3
"""Fewer repetitions than this are no steps."""

COVERAGE: Final = 0.5
"""The steps must hold this share of a device's activities to be found without being asked for."""

DEEPEST: Final = 4
"""Ranges nested deeper than this are no steps."""

MOST_KINDS: Final = 50
"""So many kinds of range are tried at each depth; a step's range is among the first."""

WARM_UP_RATIO: Final = 1.25
"""A leading step that takes this many times the median of the rest is warm-up."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one GPU. `edges_ns` has one more entry than there are steps."""

    gpu: int
    source: str
    """In words: what the steps were found by."""
    edges_ns: Ints
    warm_up: int
    """How many leading steps are left out of the statistics."""

    def __len__(self) -> int:
        return len(self.edges_ns) - 1

    @property
    def length_ns(self) -> Ints:
        return np.diff(self.edges_ns)

    @property
    def steady_ns(self) -> Ints:
        """The lengths of the steps that count."""
        return self.length_ns[self.warm_up :]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asks for: how steps are found (both None: find out), and kernel families of their own."""

    range_pattern: str | None = None
    kernel_pattern: str | None = None
    families: tuple[tuple[str, str], ...] = ()
    device: int | None = None
    time_ns: tuple[int | None, int | None] | None = None
    """A stretch of the window, from its start."""
    scope_pattern: str | None = None
    """Only from the first to the last activity launched in ranges that match."""


def steps(trace: Trace, work: Activities, host: Host, gpu: int, wanted: Wanted) -> Steps | None:
    """The steps of one GPU, from the first source that gives any; None if nothing repeats."""
    own = work.of(gpu)
    if wanted.range_pattern is not None:
        member = by_range(trace, own, host, re.compile(wanted.range_pattern))
        if member is None:
            raise nothing_matches(wanted.range_pattern, "range", range_names(trace))
        source = say("ranges matching '{pattern}'", pattern=wanted.range_pattern)
        return _tiled(own, host, gpu, source, member)
    if wanted.kernel_pattern is not None:
        member = _by_kernel(trace, own, re.compile(wanted.kernel_pattern))
        if member is None:
            names = {trace.strings.text(code) or "" for code in distinct(own.name).tolist()}
            raise nothing_matches(wanted.kernel_pattern, "kernel", sorted(names))
        source = say("kernels matching '{pattern}'", pattern=wanted.kernel_pattern)
        return _tiled(own, host, gpu, source, member)
    sources: tuple[tuple[Message, Callable[[], NDArray[np.intp] | None]], ...] = (
        (_PROFILER, lambda: by_range(trace, own, host, PROFILER_STEP)),
        (say("a repeated range"), lambda: _by_repeated_range(trace, own, host)),
        (say("graph launches"), lambda: _by_graph(own)),
        (say("the period of the kernel sequence"), lambda: _by_period(own)),
    )
    for source, find in sources:
        member = find()
        fewest = 1 if source is _PROFILER else FEWEST  # one is enough where it is called a step
        if member is not None and _covers(own, member) and member.max() + 1 >= fewest:
            return _tiled(own, host, gpu, source, member)
    return None


def _tiled(work: Activities, host: Host, gpu: int, source: str, member: NDArray[np.intp]) -> Steps | None:
    """Edges from which activity belongs to which step."""
    count = int(member.max()) + 1
    ends = np.full(count, np.iinfo(np.int64).min)
    sweep.fold("most", member, work.end_ns, ends)
    first = np.flatnonzero(member == member.min(where=member >= 0, initial=count))
    call = work.launch[first]
    began = host.calls["start_ns"][call[call >= 0]]
    start = min(int(work.start_ns[first].min()), *began.tolist()) if len(began) else int(work.start_ns[first].min())
    edges = distinct(np.append(start, furthest(ends)[ends > start]))
    if len(edges) < 2:
        return None
    return Steps(gpu, source, edges, _warm_up(np.diff(edges)))


def _warm_up(lengths: Ints) -> int:
    """How many leading steps are clearly slower than what follows; never more than half."""
    count = 0
    while count < len(lengths) // 2 and lengths[count] > WARM_UP_RATIO * median(lengths[count + 1 :]):
        count += 1
    return count


def _covers(work: Activities, member: NDArray[np.intp]) -> bool:
    """Whether the steps hold most of what the main process ran on this GPU."""
    main = equal(work.pid, main_process(work))
    inside, all_of_it = take(member, main) >= 0, np.count_nonzero(main)
    return bool(np.count_nonzero(inside) >= COVERAGE * all_of_it)


def _by_repeated_range(trace: Trace, work: Activities, host: Host) -> NDArray[np.intp] | None:
    """The outermost kind of range that repeats and launches most of the work."""
    ranges = trace[Table.RANGES]
    stacked = ranges.where(ranges.codes("kind") == trace.strings.code("push_pop"))
    for depth in range(min(int(stacked["depth"].max(initial=-1)), DEEPEST) + 1):
        best = _most_launching(trace, work, host, stacked.where(stacked["depth"] == depth))
        if best is not None and _covers(work, best):
            return best
    return None


def _most_launching(trace: Trace, work: Activities, host: Host, ranges: Rows) -> NDArray[np.intp] | None:
    """Of the kinds of range that repeat, numbers in their names left out, the one that launches the most."""
    _, kind = trace.strings.kinds(ranges.codes("name"), normalised)
    counts = np.bincount(kind)
    best: NDArray[np.intp] | None = None
    for number in np.flatnonzero(counts >= FEWEST)[:MOST_KINDS].tolist():
        member = launched_in(work, host, ranges.where(kind == number))
        if member is not None and (best is None or (member >= 0).sum() > (best >= 0).sum()):
            best = member
    return best


def _by_kernel(trace: Trace, work: Activities, pattern: re.Pattern[str]) -> NDArray[np.intp] | None:
    """Each activity whose name matches ends a step."""
    codes = distinct(work.name).tolist()
    matching = [code for code in codes if code >= 0 and pattern.search(trace.strings.text(code) or "")]
    marks = np.isin(work.name, matching)
    return _ending_at(marks) if marks.any() else None


def _ending_at(marks: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Steps that end with each marked activity; what follows the last mark is in none."""
    member = np.cumsum(marks).astype(np.intp) - marks
    return np.where(member < marks.sum(), member, -1)


def _by_graph(work: Activities) -> NDArray[np.intp] | None:
    """One step per graph launch, or per period of the sequence of graphs launched."""
    nodes = np.flatnonzero((work.graph_node >= 0) & (work.correlation >= 0))
    whole = np.flatnonzero(work.name < 0)
    launched = np.union1d(nodes, whole)
    if not len(launched):
        return None
    rows = launched
    first, number = group(work.pid[rows], work.correlation[rows])
    by_time = np.argsort(work.start_ns[rows[first]], kind="stable")
    rank = np.empty(len(first), np.intp)
    rank[by_time] = np.arange(len(first))
    graph = np.where(work.graph_node[rows[first]] >= 0, work.graph_node[rows[first]], -1)[by_time]
    period = _period(graph)
    if period is None:
        return None
    member = np.full(len(work), -1, np.intp)
    member[launched] = rank[number] // period
    return member


def _by_period(work: Activities) -> NDArray[np.intp] | None:
    """Steps of the kernel sequence's own period: the rarest kernel that comes at equal distances marks them."""
    names = work.name
    for code in _rarest_first(names):
        marks = np.flatnonzero(names == code)
        distances = np.diff(marks)
        usual = int(median(distances))
        alike = distances == usual
        covers = alike.sum() * usual >= COVERAGE * len(names)
        if usual > 1 and covers and alike.mean() >= 0.8 and _segments_alike(names, marks, usual):
            return _layers_together(work, _from_first_to_last(names, marks, usual))
    return None


def _layers_together(work: Activities, member: NDArray[np.intp]) -> NDArray[np.intp]:
    """Periods that are layers, made steps: those that take long at equal distances each begin one.

    The kernel sequence of equal layers repeats with each layer; what only happens once a step shows in its length.
    """
    inside = member >= 0
    ends = np.full(int(member.max()) + 1, np.iinfo(np.int64).min)
    sweep.fold("most", member, work.end_ns, ends)
    lengths = np.diff(ends)
    long = 1 + np.flatnonzero(lengths > WARM_UP_RATIO * median(lengths)) if len(lengths) else np.empty(0, np.intp)
    if len(long) < FEWEST:
        return member
    distances = np.diff(long)
    layers = int(median(distances))
    if layers < 2 or (distances == layers).mean() < 0.8:
        return member
    first = int(long[0]) % layers
    steps = (len(ends) - first) // layers
    merged = (member - first) // layers
    return np.where(inside & (merged >= 0) & (merged < steps), merged, -1)


def _from_first_to_last(names: Codes, marks: NDArray[np.intp], usual: int) -> NDArray[np.intp]:
    """Steps from marks at equal distances: the last ends with the sequence, if what follows each mark is the same.

    The first has the usual length if its kernels are the usual ones; else it begins after the first mark. What lies
    before the first step and after the last is in none.
    """
    tail = names[marks[-1] + 1 :]
    if len(tail) < usual:
        follows = [np.array_equal(names[mark + 1 : mark + 1 + len(tail)], tail) for mark in marks.tolist()]
        if np.mean(follows) >= 0.8:
            marks = marks + len(tail)
    first, model = marks[0] - usual + 1, names[marks[-1] - usual + 1 : marks[-1] + 1]
    if first < 0 or (names[first : marks[0] + 1] == model).mean() < 0.9:
        first, marks = marks[0] + 1, marks[1:]
    position = np.arange(len(names))
    member = np.searchsorted(marks, position, side="left")
    return np.where((position >= first) & (position <= marks[-1]), member, -1)


def _rarest_first(names: Codes) -> list[int]:
    codes, counts = np.unique(names, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return [int(codes[index]) for index in order if counts[index] >= FEWEST and codes[index] >= 0]


def _segments_alike(names: Codes, marks: NDArray[np.intp], length: int) -> bool:
    """Whether most stretches of the usual length before a mark hold the same kernels in the same order."""
    ends = marks[1:][np.diff(marks) == length]
    stretches = names[ends[:, None] - np.arange(length)[None, :]]
    model = stretches[len(stretches) // 2]
    return bool(((stretches == model).mean(axis=1) >= 0.9).mean() >= 0.8)


def _period(sequence: Ints) -> int | None:
    """The shortest period of a sequence that repeats at least FEWEST times; None if it has none."""
    for period in range(1, len(sequence) // FEWEST + 1):
        if (sequence[period:] == sequence[:-period]).mean() >= 0.95:
            return period
    return None

"""Sequences of kernels: an operation's forwards as columns, two forwards side by side, a short one found in a long one.

A forward is one run of the operation: a sequence of kernels. Where kernels of a forward overlap, an instant belongs to
the one that started first, so their own times add up to the time in which any of them ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, zip_longest
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import COMMUNICATION, OTHER, family
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE, carries, label, likeness, parse, without_tile
from gpuledger.errors import GpuledgerError
from gpuledger.trace.deadline import check
from gpuledger.trace.keys import Positions
from gpuledger.trace.measured import Dim3
from gpuledger.trace.spans import Ints, furthest, shares_in_order
from gpuledger.trace.tables import NOT_RECORDED
from gpuledger.units import count_text


@lru_cache(maxsize=65536)
def bare(name: str) -> str:
    """A kernel's name in the form by which both sides are compared; made once, as it takes time."""
    return parse(name).bare


class ForwardKernel(Struct, frozen=True):
    """One kernel of a forward. None: the profile does not say."""

    name: str
    time_ns: int  # its own part of the time in which kernels of the forward ran
    grid: Dim3 | None = None
    block: Dim3 | None = None
    stream: int | None = None
    in_graph: bool | None = None

    @property
    def bare(self) -> str:
        return bare(self.name)

    @property
    def shape(self) -> tuple[Dim3, Dim3] | None:
        return None if self.grid is None or self.block is None else (self.grid, self.block)


class Forwards(Struct, frozen=True, dict=True):
    """All forwards of an operation on one GPU, as columns of their kernels: by forward, then by start."""

    profile: str
    gpu_name: str
    rank: int | None
    forward: Ints  # the forward of each kernel, numbered from 0
    start_ns: Ints
    end_ns: Ints
    name: Ints  # position in `names`
    names: tuple[str, ...]
    grid: NDArray[np.int32]
    block: NDArray[np.int32]
    stream: Ints
    in_graph: NDArray[np.bool_]
    step: Ints  # the step of each forward
    found_by: str  # what the steps were found by; empty where there are none
    notes: tuple[str, ...] = ()  # what is to be said about how the forwards were found

    def __len__(self) -> int:
        return len(self.step)

    @cached_property
    def first(self) -> Positions:
        """Where each forward's kernels begin, and where the last one's end."""
        return np.searchsorted(self.forward, np.arange(len(self) + 1))

    @cached_property
    def own_ns(self) -> Ints:
        """Each kernel's own part of its forward."""
        own_start, own_end = shares_in_order(*self._apart)
        return own_end - own_start

    @cached_property
    def gap_ns(self) -> Ints:
        """How long nothing of the forward ran before each kernel; 0 before the first."""
        start, end = self._apart
        gap = np.maximum(start - np.append(start[:1], furthest(end)[:-1]), 0)
        gap[self.first[:-1]] = 0
        return gap

    @cached_property
    def _apart(self) -> tuple[Ints, Ints]:
        """The times with the forwards moved so far apart that none overlaps another."""
        length = int(self.end_ns.max()) - int(self.start_ns.min()) + 1
        return self.start_ns + length * self.forward, self.end_ns + length * self.forward

    @cached_property
    def gpu_ns(self) -> Ints:
        return np.add.reduceat(self.own_ns, self.first[:-1])

    @cached_property
    def compute_ns(self) -> Ints:
        """The same without communication."""
        talks = np.array([family(name) == COMMUNICATION for name in self.names], np.bool_)
        return np.add.reduceat(np.where(talks[self.name], 0, self.own_ns), self.first[:-1])

    @cached_property
    def elapsed_ns(self) -> Ints:
        """From each forward's first start to its last end."""
        return np.maximum.reduceat(self.end_ns, self.first[:-1]) - self.start_ns[self.first[:-1]]

    @cached_property
    def place(self) -> Positions:
        """Which of its step's forwards each one is."""
        return np.arange(len(self)) - np.searchsorted(self.step, self.step)

    @cached_property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """The bare names of each forward's kernels; each sequence is made once, as there are few of them."""
        bares, made = tuple(map(bare, self.names)), dict[bytes, tuple[str, ...]]()
        listed = []
        for names in np.split(self.name, self.first[1:-1]):
            key = names.tobytes()
            if key not in made:
                made[key] = tuple(bares[code] for code in names.tolist())
            listed.append(made[key])
        return tuple(listed)

    def kernels(self, number: int) -> tuple[ForwardKernel, ...]:
        mine = slice(*self.first[number : number + 2].tolist())
        name, own_ns, stream, in_graph = (
            column[mine].tolist() for column in (self.name, self.own_ns, self.stream, self.in_graph)
        )
        shapes = map(triple, self.grid[mine]), map(triple, self.block[mine])
        rows = zip((self.names[place] for place in name), own_ns, *shapes, stream, in_graph, strict=True)
        return tuple(ForwardKernel(*row) for row in rows)


def triple(values: NDArray[np.int32]) -> Dim3 | None:
    """Grid or block; None where it was not recorded."""
    x, y, z = (int(value) for value in values)
    return None if x == NOT_RECORDED else (x, y, z)


INSERTED, MISSING = "inserted", "missing"  # in the mock only; in the model only

MATCHED: Final = (EXACT, FUNCTION, FAMILY)  # levels at which two kernels do the same work

SAME_SHAPE: Final = 6

POINTS: Final = {EXACT: 5, FUNCTION: 4, FAMILY: 1, NONE: -1_000}
"""What a pair counts; SAME_SHAPE where name, grid and block are the same."""

GAP: Final = 2  # what a kernel without a partner costs

REPLACES: Final = 0.1  # one kernel stands for another if its time is at least this part of the other's

MOST_CELLS: Final = 400_000_000
"""So many pairs of kernels are weighed against each other, two bits each: those of two forwards of 20,000 kernels."""


class AlignRow(Struct, frozen=True):
    """One line: a kernel of the mock, one of the model, or both."""

    mock: ForwardKernel | None
    e2e: ForwardKernel | None
    level: str  # exact, function or family; none where another kernel stands in a kernel's place; inserted; missing
    moved: bool = False  # both sides run it, at different places of the sequence

    @property
    def matched(self) -> bool:
        return self.level in MATCHED

    @property
    def kernels(self) -> tuple[ForwardKernel, ...]:
        return tuple(kernel for kernel in (self.mock, self.e2e) if kernel is not None)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(kernel.name for kernel in self.kernels)

    @property
    def same_shape(self) -> bool | None:
        """Whether grid and block are the same; None where that is not known or not a question."""
        if self.mock is None or self.e2e is None or self.mock.shape is None or self.e2e.shape is None:
            return None
        return self.mock.shape == self.e2e.shape

    @property
    def ratio(self) -> float | None:
        """The mock's time over the model's."""
        if self.mock is None or self.e2e is None or not self.e2e.time_ns:
            return None
        return self.mock.time_ns / self.e2e.time_ns

    @property
    def shape_differs(self) -> bool:
        """One kernel launched in two shapes; of a retiled one the shape follows from the tile."""
        return self.level == EXACT and self.same_shape is False


class PairPoints:
    """What pairing each kernel of the mock with each of the model's counts: by names, of which there are few."""

    def __init__(self, mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> None:
        (our_names, self._our_name), (their_names, self._their_name) = (
            _numbered([kernel.name for kernel in kernels]) for kernels in (mock, e2e)
        )
        shape = _numbered([kernel.shape for kernel in (*mock, *e2e)])[1]
        self._our_shape, self._their_shape = np.split(shape, [len(mock)])
        self._by_name = np.full((len(their_names), len(our_names)), POINTS[NONE], np.int64)
        marks = [_marks(name) for name in our_names]
        for row, theirs in enumerate(their_names):
            their_marks = _marks(theirs)
            for column, ours in enumerate(our_names):
                if not their_marks.isdisjoint(marks[column]):  # of few pairs; and looking closer takes time
                    self._by_name[row, column] = POINTS[likeness(ours, theirs)]

    def of(self, theirs: int) -> Ints:
        """With one of the model's, for each kernel of the mock."""
        counts: Ints = self._by_name[self._their_name[theirs]][self._our_name]
        counts[(counts == POINTS[EXACT]) & (self._our_shape == self._their_shape[theirs])] = SAME_SHAPE
        return counts


Label = TypeVar("Label", bound=Hashable)


def _numbered(labels: Sequence[Label]) -> tuple[list[Label], Positions]:
    """The different ones, and for each the position of its own among those."""
    number: dict[Label, int] = {}
    numbers = [number.setdefault(label, len(number)) for label in labels]
    return list(number), np.array(numbers, np.intp)


@lru_cache(maxsize=65536)
def _marks(name: str) -> frozenset[tuple[str, str]]:
    """What two kernels must have at least one of in common to be alike."""
    marks = {("short", parse(name).short), ("untiled", without_tile(name)), ("family", family(name))}
    return frozenset(marks - {("family", OTHER)})


def with_gaps(scores: Ints) -> Ints:
    """The best that each place of the mock can have if kernels before it may be left out at GAP each."""
    cost = GAP * np.arange(len(scores))
    return furthest(scores + cost) - cost


def similarity(mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> float:
    """How alike two sequences are: 1 where all is the same, less the more is left over."""
    whole = SAME_SHAPE * (len(mock) + len(e2e)) / 2
    return _best(mock, e2e)[0] / whole if whole else 1.0


def align_kernels(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel], *, ordered: bool = True
) -> tuple[AlignRow, ...]:
    """Every kernel of both sides in one row. Where the order is not known, names alone make pairs."""
    if ordered:
        lines = _best(mock, e2e)[1]
    else:
        lines = [(index, None) for index in range(len(mock))] + [(None, index) for index in range(len(e2e))]
    paired = {ours: theirs for ours, theirs in lines if ours is not None and theirs is not None}
    moved = _paired_elsewhere(mock, e2e, paired, ordered=ordered)
    back = {theirs: ours for ours, theirs in moved.items()}
    rows = []
    for ours, theirs in lines:
        partner = back.get(theirs) if ours is None and theirs is not None else ours
        if theirs is None:
            rows += [AlignRow(mock[ours], None, INSERTED)] if ours is not None and ours not in moved else []
        elif partner is None:
            rows.append(AlignRow(None, e2e[theirs], MISSING))
        else:
            level = likeness(mock[partner].name, e2e[theirs].name)
            rows.append(AlignRow(mock[partner], e2e[theirs], level, moved=ours is None and ordered))
    return tuple(_with_replaced(rows) if ordered else rows)


_DIAGONAL, _UP, _LEFT, _FIRST = range(4)


def _best(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]
) -> tuple[int, list[tuple[int | None, int | None]]]:
    """The alignment with the most points: their number, and the lines in order."""
    if len(mock) * len(e2e) > MOST_CELLS:
        raise GpuledgerError(
            f"forwards of {count_text(len(mock))} and {count_text(len(e2e))} kernels are too long to be aligned",
            found=f"{count_text(MOST_CELLS)} pairs at most",
            hint="isolate a smaller operation: --range=REGEX in the model, --mock-range=REGEX in the mock",
        )
    # from the end to the beginning, so that the way back leads forward, and of equally good pairs takes the first
    pairs = PairPoints(mock[::-1], e2e[::-1])
    row = -GAP * np.arange(len(mock) + 1)
    is_diagonal, is_up = np.empty((2, len(e2e), len(mock) // 8 + 1), np.uint8)  # a bit for each place
    for index in range(len(e2e)):
        check()
        diagonal, up = row[:-1] + pairs.of(index), row[1:] - GAP
        row = with_gaps(np.append(row[0] - GAP, np.maximum(diagonal, up)))
        is_diagonal[index] = np.packbits(np.append(False, row[1:] == diagonal))
        is_up[index] = np.packbits(np.append(True, row[1:] == up))

    def step_from(theirs: int, ours: int) -> int:
        bit = 128 >> ours % 8
        if is_diagonal[theirs, ours // 8] & bit:
            return _DIAGONAL
        return _UP if is_up[theirs, ours // 8] & bit else _LEFT

    lines: list[tuple[int | None, int | None]] = []
    theirs = ours = 0
    while theirs < len(e2e) or ours < len(mock):
        step = step_from(len(e2e) - theirs - 1, len(mock) - ours) if theirs < len(e2e) else _LEFT
        lines.append((ours if step != _UP else None, theirs if step != _LEFT else None))
        ours += step != _UP
        theirs += step != _LEFT
    return int(row[-1]), lines


def _paired_elsewhere(
    mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel], paired: dict[int, int], *, ordered: bool
) -> dict[int, int]:
    """Pairs among what is left over, wherever it stands: the same kernel first, then the same function.

    A family alone says too little to pair kernels at different places; where no place is known it has to do.
    """
    taken = set(paired.values())
    ours = [index for index in range(len(mock)) if index not in paired]
    theirs = [index for index in range(len(e2e)) if index not in taken]
    keys: list[Callable[[ForwardKernel], object]] = [
        lambda kernel: (kernel.bare, kernel.shape),
        lambda kernel: kernel.bare,
        lambda kernel: (without_tile(kernel.name), label(kernel.name) if carries(kernel.name) else ""),
    ]
    if not ordered:
        keys.append(lambda kernel: None if family(kernel.name) == OTHER else family(kernel.name))
    elsewhere: dict[int, int] = {}
    for key in keys:
        waiting: dict[object, list[int]] = {}
        for index in reversed(theirs):
            waiting.setdefault(key(e2e[index]), []).append(index)
        for index in ours:
            if waiting.get(wanted := key(mock[index])) and wanted is not None:
                elsewhere[index] = waiting[wanted].pop()
        taken = set(elsewhere.values())
        ours = [index for index in ours if index not in elsewhere]
        theirs = [index for index in theirs if index not in taken]
    return elsewhere


def _with_replaced(rows: Sequence[AlignRow]) -> Iterable[AlignRow]:
    """The rows with what is left over on both sides at one place put side by side."""
    for is_left_over, stretch in groupby(rows, key=lambda row: row.level in (INSERTED, MISSING)):
        group = list(stretch)
        ours = [row.mock for row in group if row.mock is not None]
        theirs = [row.e2e for row in group if row.e2e is not None]
        shorter, longer = sorted(sum(kernel.time_ns for kernel in kernels) for kernels in (ours, theirs))
        if is_left_over and ours and theirs and shorter >= REPLACES * longer:
            yield from (AlignRow(left, right, NONE) for left, right in zip_longest(ours, theirs))
        else:
            yield from group


TOLL: Final = 0.5  # a stretch counts if it has more than this part of the points that the sequence itself would have

KEEP: Final = 0.85  # of the best stretch's points; one with less is another operation that resembles this one

MOST_KERNELS: Final = 200_000  # kernels of the long sequence looked at, which takes seconds

SEARCH_MOST_CELLS: Final = 40_000_000
"""So many pairs of kernels are weighed, a byte each: of a mock of more than 200 kernels, fewer of the model's."""


class Occurrence(Struct, frozen=True):
    """A stretch of the long sequence: from `start` up to, not including, `end`."""

    start: int
    end: int
    points: int


def kernels_searched(mock: Sequence[ForwardKernel], length: int) -> int:
    """How many kernels of a sequence of this length are looked at."""
    return min(length, MOST_KERNELS, SEARCH_MOST_CELLS // max(len(mock), 1))


def occurrences(
    mock: Sequence[ForwardKernel], kinds: Sequence[ForwardKernel], sequence: Positions
) -> tuple[Occurrence, ...]:
    """Where `mock` occurs in `sequence`, whose kernels are positions in `kinds`."""
    sequence = sequence[: kernels_searched(mock, len(sequence))]
    if not len(mock) or not len(sequence):
        return ()
    pairs = PairPoints(mock, kinds)
    table = np.stack([pairs.of(kind) for kind in range(len(kinds))], axis=1)
    stretches = _stretches(table, sequence, int(TOLL * SAME_SHAPE * len(mock)))
    best = max((stretch.points for stretch in stretches), default=0)
    return tuple(stretch for stretch in reversed(stretches) if stretch.points >= KEEP * best)


def _stretches(table: Ints, sequence: Positions, toll: int) -> list[Occurrence]:
    """The stretches of `sequence` that together have the most points after each has paid the toll, the last first."""
    count = len(sequence)
    came_from = np.empty((count, len(table)), np.uint8)  # where the best score of each place of both came from
    outside = np.zeros(count + 1, np.int64)  # the best score of all stretches that ended before each kernel
    ended_at = np.full(count + 1, -1, np.int64)  # the mock's kernel that a stretch ended with just before; -1: none did
    row = np.full(len(table), -1, np.int64)  # nothing has begun before the first kernel
    for index, kind in enumerate(sequence.tolist()):
        base = int(outside[index])
        before = np.append(base, row[:-1])
        diagonal, up = np.maximum(before, base) + table[:, kind], row - GAP
        row = with_gaps(np.maximum(diagonal, up))
        matched = np.where(before <= base, _FIRST, _DIAGONAL)
        came_from[index] = np.where(row == diagonal, matched, np.where(row == up, _UP, _LEFT))
        last = int(row.argmax())
        outside[index + 1] = max(base, int(row[last]) - toll)
        if row[last] - toll > base:
            ended_at[index + 1] = last
    stretches = []
    position = count
    while position > 0:
        ours, end, score = int(ended_at[position]), position, int(outside[position]) + toll
        position -= 1
        if ours >= 0:
            while (step := came_from[position, ours]) != _FIRST:
                position -= step != _LEFT
                ours -= step != _UP
            stretches.append(Occurrence(position, end, score - int(outside[position])))
    return stretches


MAIN_SHARE: Final = 0.9  # the longest kernels that together hold this share of a side's time are its main ones


def main_names(kernels: Sequence[ForwardKernel]) -> frozenset[str]:
    """The bare names of a side's main kernels."""
    times = Counter[str]()
    for kernel in kernels:
        times[kernel.bare] += kernel.time_ns
    total, held, main = sum(times.values()), 0, []
    for name in sorted(times, key=lambda name: -times[name]):
        if held >= MAIN_SHARE * total:
            break
        main.append(name)
        held += times[name]
    return frozenset(main)

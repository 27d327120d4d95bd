"""The books: every nanosecond of a device's window on exactly one line, for the whole window and for each step of it.

Lines are `compute.FAMILY`, exposed `comm` and `copy`, and `idle.CAUSE`. They are disjoint and sum to the window, in
integer nanoseconds; the program checks that on every run and stops if they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import compress
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.causes import CAUSES, TRIGGERS, Trigger, by_trigger, idle_label
from gpuledger.ledger.gaps import Gaps, gaps
from gpuledger.ledger.host import Host
from gpuledger.ledger.lost_work import NOTHING_LOST, LostWork
from gpuledger.ledger.window import Busy, busy
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.spans import Ints, Span, Spans, covered, cut_to, total
from gpuledger.trace.sweep import side_by_side


class LineKind(StrEnum):
    """What a GPU does at an instant; the first that applies."""

    COMPUTE = "compute"
    COMM = "comm"
    COPY = "copy"
    IDLE = "idle"


EXPOSED = {LineKind.COMM: say("exposed communication"), LineKind.COPY: say("exposed copies")}
"""What lines of work that nothing hides are called."""

_BRIEF = {LineKind.COMM: say("communication"), LineKind.COPY: say("copies")}


class Line(str):
    """One line, by its name."""

    __slots__ = ("cause", "family", "kind")

    kind: LineKind
    family: str  # of compute; else empty
    cause: Trigger | None  # of idle time; else None. In the books a cause, in what reports show first a trigger

    def __new__(cls, name: str) -> Line:
        """The line that is called so; ValueError where there can be none."""
        if isinstance(name, Line):
            return name
        kind, _, rest = name.partition(".")
        if kind == LineKind.IDLE and rest not in TRIGGERS:
            raise ValueError(f"{rest!r} is no cause of idle time")
        line = super().__new__(cls, name)
        line.kind = LineKind(kind)
        line.family = rest if line.kind is LineKind.COMPUTE else ""
        line.cause = TRIGGERS[TRIGGERS.index(rest)] if line.kind is LineKind.IDLE else None
        return line

    def __reduce__(self) -> tuple[Any, ...]:
        return Line, (str(self),)

    @classmethod
    def of_family(cls, family: str) -> Line:
        return cls(f"{LineKind.COMPUTE}.{family}")

    @classmethod
    def of_cause(cls, cause: Trigger) -> Line:
        return cls(f"{LineKind.IDLE}.{cause}")

    @property
    def detail(self) -> str:
        """The family of compute, or the cause of idle time; empty for the others."""
        return self.family or str(self.cause or "")

    @property
    def is_compute(self) -> bool:
        return self.kind is LineKind.COMPUTE

    @property
    def is_idle(self) -> bool:
        return self.kind is LineKind.IDLE

    @property
    def label(self) -> str:
        if self.cause is not None:
            return idle_label(self.cause)
        return say("compute: {family}", family=self.family) if self.is_compute else EXPOSED[self.kind]

    @property
    def brief_label(self) -> str:
        """The same where the kind is known from what stands around it."""
        if self.cause is not None:
            return self.cause.label
        return self.family if self.is_compute else _BRIEF[self.kind]


UNCLASSIFIED = Line.of_family("other")  # compute in kernels of no known family

WHOLE_GRAPHS = Line.of_family("graph")  # compute in graphs that were traced whole

COMM = Line(LineKind.COMM)
COPY = Line(LineKind.COPY)

OTHER_FAMILIES = say("  other families")  # what reports call the families of compute that they show together
SMALL_FAMILY = 0.02  # families with less than this share of compute are shown together


def small_families(line_ns: Mapping[Line, int]) -> list[Line]:
    """The lines of compute that reports show together."""
    compute = {line: ns for line, ns in line_ns.items() if line.is_compute}
    return [line for line, ns in compute.items() if ns < SMALL_FAMILY * sum(compute.values())]


class Ledger(Struct, frozen=True):
    """One device's books. Tiles are consecutive parts of the window; `books` has a row per tile, a column per line.
    Where the window consists of several stretches, a row holds what lies in them."""

    gpu: int
    window: Span  # from the first instant to the last
    lines: tuple[Line, ...]
    tiles_ns: Ints  # where tiles begin and end: one more than there are tiles
    books: NDArray[np.int64]
    busy: Busy
    gaps: Gaps

    @property
    def window_ns(self) -> int:
        return total(self.busy.stretches)

    def total(self) -> dict[Line, int]:
        """The whole window by line, lines without time left out."""
        sums = self.books.sum(axis=0).tolist()
        return {line: amount for line, amount in zip(self.lines, sums, strict=True) if amount}

    def shown_total(self) -> dict[Line, int]:
        """The same as reports show it: idle time by what set it off."""
        return with_triggers(self.total(), by_trigger(self.gaps.trigger, self.gaps.length_ns))

    def shown_tiles(self) -> tuple[tuple[Line, ...], NDArray[np.int64]]:
        """The books as reports show them: lines, and a row per tile."""
        work = [not line.is_idle for line in self.lines]
        gaps, trigger = self.gaps, self.gaps.trigger.astype(np.int16)
        idle = sweep.tiles(gaps.start_ns, gaps.end_ns, trigger, self.tiles_ns, len(TRIGGERS))
        lines = (*compress(self.lines, work), *map(Line.of_cause, TRIGGERS))
        return lines, np.concatenate((self.books[:, work], idle), axis=1)


def with_triggers(line_ns: Mapping[Line, int], idle_ns: Mapping[Trigger, int]) -> dict[Line, int]:
    """Lines of the books with idle time by what set it off, instead of where the host was."""
    work_ns = {line: ns for line, ns in line_ns.items() if not line.is_idle}
    return work_ns | {Line.of_cause(trigger): ns for trigger, ns in idle_ns.items()}


def ledger(
    work: Activities,
    host: Host,
    gpu: int,
    window: Span | Spans,
    cuts: Ints,
    known: Busy | None = None,
    lost: LostWork = NOTHING_LOST,
) -> Ledger:
    """Book one device's window, cut at the sorted instants `cuts`; `known` is what `busy` gives, if it is known."""
    split = known or busy(work, gpu, window)
    window = Span(int(split.stretches.start_ns[0]), int(split.stretches.end_ns[-1]))
    inside = distinct(cuts[(cuts > window.start_ns) & (cuts < window.end_ns)])
    tiles = np.concatenate(([window.start_ns], inside, [window.end_ns]))
    own = work.of(gpu)
    family = np.where(own.state == State.COMPUTE, own.family, np.int16(-1))

    def computing() -> NDArray[np.int64]:
        host.precompute_threads()  # while what comes first is decided of each gap
        return compute_by(own, split, tiles, family, len(work.families))

    compute, idle = side_by_side(len(own), computing, lambda: gaps(work, host, split, inside, lost))
    exposed = np.stack([covered(spans, tiles[:-1], tiles[1:]) for spans in (split.comm, split.copy)], axis=1)
    books = np.concatenate((compute, exposed, idle.by_tile_ns), axis=1)
    lines = (*map(Line.of_family, work.families), *map(Line, EXPOSED), *map(Line.of_cause, CAUSES))
    length = covered(split.stretches, tiles[:-1], tiles[1:])
    if not np.array_equal(books.sum(axis=1), length):
        off = int(np.abs(books.sum(axis=1) - length).sum())
        raise BooksDoNotBalance(
            f"the ledger of GPU {gpu} is off by {off} ns",
            found=f"{len(work)} activities, {len(idle)} gaps, {len(tiles) - 1} tiles",
            hint="this is a bug in gpuledger; please report it with the output of `gpuledger info`",
        )
    return Ledger(gpu, window, lines, tiles, books, split, idle)


def compute_by(
    own: Activities, split: Busy, tiles: Ints, label: NDArray[np.signedinteger], labels: int
) -> NDArray[np.int64]:
    """Compute time by tile and label of the device's own activities; what is no compute has label -1. An instant
    belongs to the kernel that started first."""
    start, end = own.start_ns, own.end_ns
    if len(split.stretches) > 1:
        start, end, whose = cut_to(start, end, split.stretches)
        label = label[whose]
    return sweep.tiles(start, end, label.astype(np.int16, copy=False), tiles, labels)

"""The books: every nanosecond of a device's window on exactly one line, for the whole window and for each step of it.

Lines are `compute.FAMILY`, `comm`, `copy` and `idle.CAUSE`. They are disjoint and sum to the window, in integer
nanoseconds; the program checks that on every run and stops if they do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import BooksDoNotBalance
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.busy import Busy, busy
from gpuledger.ledger.causes import CAUSES
from gpuledger.ledger.gaps import Gaps, gaps
from gpuledger.ledger.host import Host
from gpuledger.ledger.lines import EXPOSED, Line
from gpuledger.ledger.lost_work import NOTHING_LOST, LostWork
from gpuledger.trace import sweep
from gpuledger.trace.columns import distinct
from gpuledger.trace.parallel import side_by_side
from gpuledger.trace.spans import Ints, Span, Spans, covered, cut_to, total


@dataclass(frozen=True, slots=True)
class Ledger:
    """One device's books. Tiles are consecutive parts of the window; `books` has a row per tile, a column per line.

    Where the window consists of several stretches, a row holds what lies in them.
    """

    gpu: int
    window: Span
    """From the first instant to the last."""
    lines: tuple[Line, ...]
    tiles_ns: Ints
    """Where tiles begin and end: one more than there are tiles."""
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
    compute, idle = side_by_side(
        len(work), lambda: _compute(work, split, tiles), lambda: gaps(work, host, split, inside, lost)
    )
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


def _compute(work: Activities, split: Busy, tiles: Ints) -> NDArray[np.int64]:
    """Compute time by tile and family."""
    own = work.of(split.gpu)
    family = np.where(own.state == State.COMPUTE, own.family, np.int16(-1))
    return compute_by(own, split, tiles, family, len(work.families))


def compute_by(
    own: Activities, split: Busy, tiles: Ints, label: NDArray[np.signedinteger], labels: int
) -> NDArray[np.int64]:
    """Compute time by tile and label of the device's own activities; what is no compute has label -1.

    An instant belongs to the kernel that started first.
    """
    start, end = own.start_ns, own.end_ns
    if len(split.stretches) > 1:
        start, end, whose = cut_to(start, end, split.stretches)
        label = label[whose]
    return sweep.tiles(start, end, label.astype(np.int16, copy=False), tiles, labels)

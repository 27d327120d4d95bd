"""Both sides and their kernels side by side: what the checks look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.align.forwards import ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.align.sequence_alignment import INSERTED, MATCHED, MISSING, aligned
from gpuledger.catalog.kernel_names import label
from gpuledger.catalog.name_likeness import EXACT
from gpuledger.messages import say
from gpuledger.trace.kernel_report import Dim3

LONGEST: Final = 44
"""So many letters of a kernel's name stand in a sentence."""


@dataclass(frozen=True, slots=True)
class AlignRow:
    """One line: a kernel of the mock, one of the model, or both."""

    mock: ForwardKernel | None
    e2e: ForwardKernel | None
    level: str
    """As in `sequence_alignment.AlignedPair`."""
    moved: bool

    @property
    def matched(self) -> bool:
        return self.level in MATCHED

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(kernel.name for kernel in (self.mock, self.e2e) if kernel is not None)

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


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The two sides, and every kernel of both in one row."""

    mock: OperationSide
    e2e: OperationSide
    rows: tuple[AlignRow, ...]
    whole: bool = True
    """Whether the model's side holds all that belongs to the operation; else a missing kernel cannot be told."""

    @property
    def matched(self) -> tuple[AlignRow, ...]:
        return tuple(row for row in self.rows if row.matched)

    def rows_at(self, level: str) -> tuple[AlignRow, ...]:
        return tuple(row for row in self.rows if row.level == level)


def compared(mock: OperationSide, e2e: OperationSide, *, whole: bool = True) -> SideBySide:
    """Lay the two forwards side by side."""
    pairs = aligned(mock.kernels, e2e.kernels, ordered=mock.ordered and e2e.ordered)
    rows = tuple(
        AlignRow(
            None if pair.mock is None else mock.kernels[pair.mock],
            None if pair.e2e is None else e2e.kernels[pair.e2e],
            pair.level,
            pair.moved,
        )
        for pair in pairs
    )
    return SideBySide(mock, e2e, rows, whole)


def repeats(sides: SideBySide, critical_share: float) -> frozenset[int]:
    """Positions of rows of one side that are one more call of a kernel which both sides run: a matter of how often.

    A kernel with a launch shape that the other side never has is another piece of work of the same name, and not one
    more call, if it takes a critical share of the time and shapes tell pieces of work apart at all.
    """
    calls: dict[tuple[str, str], list[AlignRow]] = {}
    for row in sides.matched:
        for level, kernel in ((INSERTED, row.mock), (MISSING, row.e2e)):
            if kernel is not None:
                calls.setdefault((level, kernel.bare), []).append(row)
    again = set()
    for index, row in enumerate(sides.rows):
        alone = row.mock if row.level == INSERTED else row.e2e if row.level == MISSING else None
        if alone is not None:
            critical = critical_share * (sides.mock if row.level == INSERTED else sides.e2e).gpu_ns
            if _is_repeat(alone, calls.get((row.level, alone.bare), []), critical):
                again.add(index)
    return frozenset(again)


def _is_repeat(alone: ForwardKernel, pairs: Sequence[AlignRow], critical_ns: float) -> bool:
    if not pairs:
        return False
    shapes_tell = any(row.same_shape for row in pairs)
    same = any(alone.shape == kernel.shape for row in pairs for kernel in (row.mock, row.e2e) if kernel is not None)
    return same or not shapes_tell or alone.time_ns < critical_ns


def called(name: str) -> str:
    """A kernel's name for a sentence: its label, cut in the middle where it is long."""
    short = label(name)
    return short if len(short) <= LONGEST else f"{short[: LONGEST - 15]}…{short[-14:]}"


def with_calls(kernel: str, calls: int) -> str:
    """A kernel, and how often it is called if that is more than once."""
    return say("{kernel} ({count} calls)", kernel=kernel, count=calls) if calls > 1 else kernel


def shape_text(shape: tuple[Dim3, Dim3] | None) -> str:
    """`4x12x1 of 384x1x1`: blocks, and threads in each."""
    if shape is None:
        return say("unknown")
    grid, block = ("x".join(map(str, side)) for side in shape)
    return say("{grid} of {block}", grid=grid, block=block)


def by_name(kernels: Iterable[ForwardKernel]) -> dict[str, int]:
    """The time of each kernel name, the longest first."""
    times: dict[str, int] = {}
    for kernel in kernels:
        times[kernel.bare] = times.get(kernel.bare, 0) + kernel.time_ns
    return dict(sorted(times.items(), key=lambda item: -item[1]))

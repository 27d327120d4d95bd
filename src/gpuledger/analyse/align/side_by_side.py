"""Both sides of an alignment with their kernels side by side, and what a check of them answers.

Checks give a verdict, figures and what they found. Differences that the user knows of and accepts, each with a reason,
come from the content of a TOML file.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from gpuledger.analyse.align.kernel_sequences import INSERTED, MATCHED, MISSING, ForwardKernel, align_kernels
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.catalog.kernel_names import EXACT, label
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.regex import NamePattern
from gpuledger.rows import LabelledCode
from gpuledger.trace.measured import Dim3
from gpuledger.verdicts import FAIL, PASS, UNDECIDED, DoubtfulFigure

LONGEST: Final = 44  # so many letters of a kernel's name stand in a sentence


class AlignRow(Struct, frozen=True):
    """One line: a kernel of the mock, one of the model, or both."""

    mock: ForwardKernel | None
    e2e: ForwardKernel | None
    level: str  # as in `AlignedPair`
    moved: bool

    @property
    def matched(self) -> bool:
        return self.level in MATCHED

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(kernel.name for kernel in (self.mock, self.e2e) if kernel is not None)

    @property
    def bares(self) -> tuple[str, ...]:
        return tuple(kernel.bare for kernel in (self.mock, self.e2e) if kernel is not None)

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


class SideBySide(Struct, frozen=True):
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


def lay_side_by_side(mock: OperationSide, e2e: OperationSide, *, whole: bool = True) -> SideBySide:
    """Lay the two forwards side by side."""
    pairs = align_kernels(mock.kernels, e2e.kernels, ordered=mock.ordered and e2e.ordered)

    def at(kernels: tuple[ForwardKernel, ...], position: int | None) -> ForwardKernel | None:
        return None if position is None else kernels[position]

    rows = (AlignRow(at(mock.kernels, pair.mock), at(e2e.kernels, pair.e2e), pair.level, pair.moved) for pair in pairs)
    return SideBySide(mock, e2e, tuple(rows), whole)


def repeats(sides: SideBySide, critical_share: float) -> frozenset[int]:
    """Positions of rows of one side that are one more call of a kernel which both sides run: a matter of how often.

    A kernel with a launch shape that the other side never has is another piece of work of the same name, and not one
    more call, if it takes a critical share of the time and shapes tell pieces of work apart at all.
    """
    shapes: dict[tuple[str, str], set[tuple[Dim3, Dim3] | None]] = {}  # that both sides' calls of a kernel have
    shapes_tell: set[tuple[str, str]] = set()
    for row in sides.matched:
        for level, kernel in ((INSERTED, row.mock), (MISSING, row.e2e)):
            if kernel is not None:
                called = level, kernel.bare
                shapes.setdefault(called, set()).update(each.shape for each in (row.mock, row.e2e) if each is not None)
                if row.same_shape:
                    shapes_tell.add(called)
    critical_ns = {INSERTED: critical_share * sides.mock.gpu_ns, MISSING: critical_share * sides.e2e.gpu_ns}
    again = set()
    for index, row in enumerate(sides.rows):
        alone = row.mock if row.level == INSERTED else row.e2e if row.level == MISSING else None
        called = row.level, "" if alone is None else alone.bare
        if alone is None or called not in shapes:
            continue
        if alone.shape in shapes[called] or called not in shapes_tell or alone.time_ns < critical_ns[row.level]:
            again.add(index)
    return frozenset(again)


def short_label(name: str) -> str:
    """A kernel's name for a sentence: its label, cut in the middle where it is long."""
    short = label(name)
    return short if len(short) <= LONGEST else f"{short[: LONGEST - 15]}…{short[-14:]}"


def shape_text(shape: tuple[Dim3, Dim3] | None) -> str:
    """`4x12x1 of 384x1x1`: blocks, and threads in each."""
    if shape is None:
        return say("unknown")
    grid, block = ("x".join(map(str, side)) for side in shape)
    return say("{grid} of {block}", grid=grid, block=block)


_HINT = 'write [[difference]] with reason = "..." and check = "latency" or kernel = "REGEX", or both'


class KnownDifference(Struct, frozen=True):
    """One accepted difference."""

    reason: str
    check: str | None = None
    kernel: NamePattern | None = None

    def covers(self, check: str, names: tuple[str, ...]) -> bool:
        """Whether this is about what `check` found, about these kernels or about none in particular."""
        if self.check is not None and self.check != check:
            return False
        return self.kernel is None or any(self.kernel.search(name) for name in names)

    def __str__(self) -> str:
        parts = [f"check {self.check}" if self.check else "", f"kernel '{self.kernel.pattern}'" if self.kernel else ""]
        return ", ".join(part for part in parts if part)


class KnownDifferences(Struct, frozen=True):
    """All of them."""

    differences: tuple[KnownDifference, ...] = ()

    def find(self, check: str, names: tuple[str, ...], *, of_kernels: bool = False) -> KnownDifference | None:
        """The first that accepts what `check` found about these kernels, of those that name kernels if so asked."""
        chosen = (known for known in self.differences if not of_kernels or known.kernel is not None)
        return next((known for known in chosen if known.covers(check, names)), None)


def known(content: Mapping[str, object], file: str, checks: tuple[str, ...]) -> KnownDifferences:
    """From a TOML file's content; `checks` are the names that a check may have."""
    entries = content.get("difference")
    if not isinstance(entries, list) or not entries:
        raise GpuledgerError(f"{file}: no [[difference]] in it", hint=_HINT)
    return KnownDifferences(
        tuple(_difference(entry, f"{file}: difference {number}", checks) for number, entry in enumerate(entries, 1))
    )


def _difference(entry: object, where: str, checks: tuple[str, ...]) -> KnownDifference:
    if not isinstance(entry, dict):
        raise GpuledgerError(f"{where} is no table", hint=_HINT)
    if unknown := entry.keys() - {"check", "kernel", "reason"}:
        raise GpuledgerError(f"{where} has an unknown key '{min(unknown)}'", hint=_HINT)
    if not all(isinstance(value, str) for value in entry.values()):
        raise GpuledgerError(f"{where} holds something that is no text", hint=_HINT)
    if not str(entry.get("reason", "")).strip():
        raise GpuledgerError(f"{where} gives no reason", hint=_HINT)
    check, kernel = entry.get("check"), entry.get("kernel")
    if check is None and kernel is None:
        raise GpuledgerError(f"{where} names neither a check nor a kernel", hint=_HINT)
    if check is not None and check not in checks:
        raise GpuledgerError(f"{where}: there is no check '{check}'", found=f"checks: {', '.join(checks)}")
    try:
        pattern = None if kernel is None else NamePattern(kernel)
    except re.error as error:
        raise GpuledgerError(f"{where}: '{kernel}' is no regular expression: {error}") from None
    return KnownDifference(str(entry["reason"]).strip(), check, pattern)


KNOWN, WARN, NOT_MEASURED = "KNOWN", "WARN", "NOT MEASURED"
"""KNOWN: all that was found is accepted. NOT_MEASURED: neither passed nor failed."""

VERDICTS: Final = (NOT_MEASURED, PASS, KNOWN, WARN, UNDECIDED, FAIL)

COUNTING: Final = (FAIL, UNDECIDED, WARN)  # verdicts that say something against a mock


class CheckName(LabelledCode):
    """What is asked."""

    NAMES = "names", say("kernel names")
    COUNTS = "counts", say("calls per forward")
    MISSING = "missing", say("missing kernels")
    EXTRA = "extra", say("extra kernels")
    LATENCY = "latency", say("latency per forward")
    GRAPH = "graph", say("CUDA graphs")
    SHAPE = "shape", say("launch shape")


CHECKS: Final = tuple(CheckName)
NAMES, COUNTS, MISSING_KERNELS, EXTRA_KERNELS, LATENCY, GRAPH, SHAPE = CHECKS

Figure = int | float | str | None


def worst(verdicts: Iterable[str]) -> str:
    """The worst of some verdicts."""
    return max(verdicts, key=VERDICTS.index, default=PASS)


class Tier(Struct, frozen=True):
    """How close latencies have to be: within `passes` times is a pass, within `warns` times a warning."""

    name: str
    passes: float
    warns: float
    bounds_count: bool  # whether exactly the limit is within

    def verdict(self, factor: float) -> str:
        """`factor`: how many times the shorter side's time the longer one takes."""
        within = operator.le if self.bounds_count else operator.lt
        return PASS if within(factor, self.passes) else WARN if within(factor, self.warns) else FAIL

    def verdict_of(self, ratio: DoubtfulFigure) -> str:
        """Of a ratio that may be either side's: undecided where its ends do not agree."""
        factors = [max(end, 1 / end) if end > 0 else math.inf for end in (ratio.low, ratio.high)]
        nearest = 1.0 if ratio.low <= 1 <= ratio.high else min(factors)
        nearer, farther = self.verdict(nearest), self.verdict(max(factors))
        return nearer if nearer == farther else UNDECIDED


TIERS: Final = {
    tier.name: tier
    for tier in (Tier("mock", 1.10, 2.0, bounds_count=False), Tier("same-module", 1.01, 1.10, bounds_count=True))
}


class AcceptedDifference(Struct, frozen=True):
    """One that the user knows of."""

    sentence: str
    difference: KnownDifference


class AlignCheck(Struct, frozen=True):
    """One check's answer."""

    check: CheckName
    verdict: str
    mock: str  # the mock's figure, for people
    e2e: str
    figures: Mapping[str, Figure]
    evidence: tuple[str, ...] = ()
    accepted: tuple[AcceptedDifference, ...] = ()
    remedy: str | None = None

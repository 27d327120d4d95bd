"""A side from NVIDIA's cuda_gpu_kern_sum, where only that was kept: names, calls and mean times per forward.

Order, launch shapes, graphs and single forwards cannot be told from it, and its means include the warm-up. How many
forwards it holds follows from the calls of the main kernels, or is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from gpuledger.analyse.align.alignment import Isolation
from gpuledger.analyse.align.checks import main_names
from gpuledger.analyse.align.forwards import ForwardKernel
from gpuledger.analyse.align.operation_kernels import no_match
from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.catalog.kernel_names import label, parse
from gpuledger.catalog.name_likeness import EXACT, FUNCTION, likeness
from gpuledger.errors import NothingRecorded
from gpuledger.messages import say
from gpuledger.trace.printed_tables import PrintedTables, SummaryRow
from gpuledger.units import count_text

REPORT: Final = "cuda_gpu_kern_sum"
"""The table that is needed."""


@dataclass(frozen=True, slots=True)
class FromTable:
    """A side, what is to be said of it, and whether all kernels that could belong to it are in it."""

    side: OperationSide
    notes: tuple[str, ...]
    whole: bool = True


def mock_from_table(run: PrintedTables, isolation: Isolation, forwards: int | None) -> FromTable:
    """The mock: every kernel of the table, or those that match the pattern."""
    rows = _rows(run)
    count = forwards or _common_divisor(rows)
    side, notes = _side(run.name, _matching(run, rows, isolation), count)
    how = say("given") if forwards else say("by the greatest common divisor of the main kernels' calls")
    return FromTable(side, (_counted(run, count, how), *notes))


def model_from_table(run: PrintedTables, isolation: Isolation, mock: OperationSide, forwards: int | None) -> FromTable:
    """The operation in the model: kernels that match the pattern, or that are like the mock's."""
    rows = _rows(run)
    if isolation.by == "range":
        raise NothingRecorded(
            f"{run.name}: {REPORT} does not say what ran in which range",
            hint="use --pattern=REGEX, or give the profile itself instead of its tables",
        )
    chosen = _matching(run, rows, isolation) if isolation.expression else _like_the_mocks(run, rows, mock.kernels)
    whole = isolation.expression is not None or len(chosen) == len(rows)
    count = forwards or _by_the_mock(chosen, mock)
    how = say("given") if forwards else say("by the calls of the mock's longest kernel")
    side, notes = _side(run.name, chosen, count)
    return FromTable(side, (_counted(run, count, how), *notes), whole)


def _counted(run: PrintedTables, forwards: int, how: str) -> str:
    """How many forwards a table holds, and how that is known."""
    return say(
        "{profile}: {forwards} ({how}); means of the whole profile",
        profile=run.name,
        forwards=forwards_text(forwards),
        how=how,
    )


def _rows(run: PrintedTables) -> list[SummaryRow]:
    table = run.tables.get(REPORT)
    rows = [row for row in table.rows if row.count > 0 and row.total_ns is not None] if table is not None else []
    if not rows:
        held = ", ".join(run.tables) or "no table"
        raise NothingRecorded(
            f"{run.name}: no kernels in {REPORT}",
            found=f"it holds {held}",
            hint=f"print it with `nsys stats --report={REPORT} --format=csv`",
        )
    return rows


def _side(name: str, rows: Sequence[SummaryRow], forwards: int) -> tuple[OperationSide, tuple[str, ...]]:
    kernels, rare = [], []
    for row in rows:
        calls = round(row.count / forwards)
        if calls < 1:
            rare.append(row)
            continue
        kernels += [ForwardKernel(row.name, round((row.total_ns or 0) / row.count))] * calls
    notes = []
    if rare:
        shown = ", ".join(f"{label(row.name)} ({count_text(row.count)})" for row in rare[:3])
        listed = say("{names} and {count} more", names=shown, count=len(rare) - 3) if len(rare) > 3 else shown
        notes.append(
            say(
                "{profile}: left out because they run in fewer than half of the forwards: {kernels}",
                profile=name,
                kernels=listed,
            )
        )
    if not kernels:
        raise NothingRecorded(f"{name}: no kernel runs in each of {count_text(forwards)} forwards")
    side = OperationSide(name, "", tuple(kernels), forwards, compared=forwards, alike=forwards, ordered=False)
    return side, tuple(notes)


def _common_divisor(rows: Sequence[SummaryRow]) -> int:
    """Of the calls of the main kernels: others may be initialisation."""
    main = main_names([ForwardKernel(row.name, row.total_ns or 0) for row in rows])
    return gcd(*(row.count for row in rows if parse(row.name).bare in main))


def _by_the_mock(rows: Sequence[SummaryRow], mock: OperationSide) -> int:
    """So many that the mock's longest kernel with a like in the model is called as often in each."""
    times: dict[str, list[int]] = {}
    for kernel in mock.kernels:
        times.setdefault(kernel.name, []).append(kernel.time_ns)
    for name in sorted(times, key=lambda kernel_name: -sum(times[kernel_name])):
        for wanted in (EXACT, FUNCTION):
            like = [row.count for row in rows if likeness(name, row.name) == wanted]
            if like:
                return max(round(sum(like) / len(times[name])), 1)
    return gcd(*(row.count for row in rows))


def _matching(run: PrintedTables, rows: Sequence[SummaryRow], isolation: Isolation) -> list[SummaryRow]:
    """Rows that match the pattern; all where there is none."""
    pattern = isolation.kernel_pattern
    if pattern is None:
        return list(rows)
    matching = [row for row in rows if pattern.search(row.name)]
    if not matching:
        raise no_match(run.name, pattern.pattern, _longest(rows))
    return matching


def _like_the_mocks(run: PrintedTables, rows: Sequence[SummaryRow], mock: Sequence[ForwardKernel]) -> list[SummaryRow]:
    """Rows called as the mock's kernels are, or nearly so where none is."""
    wanted: set[str] = set()
    for name in {kernel.name for kernel in mock}:
        alike = {how: {row.name for row in rows if likeness(name, row.name) == how} for how in (EXACT, FUNCTION)}
        wanted |= alike[EXACT] or alike[FUNCTION]
    if not wanted:
        raise NothingRecorded(f"{run.name}: no kernel is like one of the mock's", found=_longest(rows))
    return [row for row in rows if row.name in wanted]


def _longest(rows: Sequence[SummaryRow]) -> str:
    return f"its longest kernels: {', '.join(label(row.name) for row in rows[:5])}"

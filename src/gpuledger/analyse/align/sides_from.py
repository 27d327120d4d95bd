"""The sides of an alignment from what was given: a profile, a table of `nsys stats`, or what `gpuledger time` measured.

Of a mock's profile the forwards of its busiest GPU, of a model's those of each GPU. Of NVIDIA's cuda_gpu_kern_sum,
where only that was kept, names, calls and mean times per forward. Of a timing the time of a forward, and whether it ran
in a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.align.alignment import Isolation
from gpuledger.analyse.align.checks import main_names
from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, forwards_from
from gpuledger.analyse.align.operation_kernels import (
    by_pattern,
    by_range,
    by_sequence,
    by_steps,
    matching_names,
    no_match,
)
from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.catalog.kernel_names import EXACT, FUNCTION, label, likeness, parse
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.device import analyse_devices
from gpuledger.messages import say
from gpuledger.selection import Selection
from gpuledger.timing.timed_operations import CALL, TimedOperation
from gpuledger.trace.measured import PrintedTables, SummaryRow
from gpuledger.trace.model import Trace
from gpuledger.units import count_text

_ALL: Final = Isolation("auto")  # a mock is the operation, all of it


class Ranks(Struct, frozen=True):
    """The forwards on each GPU that runs the operation, and what is to be said about how they were found."""

    forwards: tuple[Forwards, ...]
    notes: tuple[str, ...]


def mock_forwards(
    trace: Trace, profile: str, wanted: Selection, mock_range: str | None = None, isolation: Isolation = _ALL
) -> Ranks:
    """A forward of the mock is a step of it, or a range that matches; with a pattern, what matches of it."""
    devices = analyse_devices(trace, profile, wanted)
    busiest = max(devices, key=lambda device: device.compute_ns)
    operation = by_steps(busiest, profile) if mock_range is None else by_range(trace, busiest, profile, mock_range)
    if isolation.kernel_pattern is not None:
        operation = matching_names(trace, busiest, profile, operation, isolation.kernel_pattern)
    notes = list(operation.notes)
    if len(devices) > 1:
        gpus = {"count": len(devices), "gpu": busiest.gpu}
        notes.append(
            say("{profile}: {count} GPUs in use; GPU {gpu}, the busiest, is taken as the mock", profile=profile, **gpus)
        )
    return Ranks((forwards_from(trace, busiest, profile, operation.kernel, operation.forward),), tuple(notes))


def model_forwards(
    trace: Trace, profile: str, wanted: Selection, isolation: Isolation, mock: Sequence[ForwardKernel]
) -> Ranks:
    """The operation on every GPU of the model; a GPU that does not run it is left out if another one does."""
    forwards: list[Forwards] = []
    notes: list[str] = []
    refused: list[NothingRecorded] = []
    for device in analyse_devices(trace, profile, wanted):
        try:
            if isolation.expression is None:
                operation = by_sequence(trace, device, profile, mock)
            elif isolation.by == "range":
                operation = by_range(trace, device, profile, isolation.expression)
            else:
                operation = by_pattern(trace, device, profile, isolation.expression, mock)
        except NothingRecorded as error:
            refused.append(error)
            continue
        forwards.append(forwards_from(trace, device, profile, operation.kernel, operation.forward))
        notes += operation.notes
    if not forwards:
        raise refused[0]
    return Ranks(tuple(forwards), tuple(dict.fromkeys(notes)))


REPORT: Final = "cuda_gpu_kern_sum"  # the table that is needed


class FromTable(Struct, frozen=True):
    """A side, what is to be said of it, and whether all kernels that could belong to it are in it."""

    side: OperationSide
    notes: tuple[str, ...]
    whole: bool = True


def mock_from_table(run: PrintedTables, isolation: Isolation, forwards: int | None) -> FromTable:
    """The mock: every kernel of the table, or those that match the pattern."""
    rows = _rows(run)
    main = main_names([ForwardKernel(row.name, row.total_ns or 0) for row in rows])  # others may be initialisation
    count = forwards or gcd(*(row.count for row in rows if parse(row.name).bare in main))
    how = say("given") if forwards else say("by the greatest common divisor of the main kernels' calls")
    return _side(run.name, _matching(run, rows, isolation), count, how)


def model_from_table(run: PrintedTables, isolation: Isolation, mock: OperationSide, forwards: int | None) -> FromTable:
    """The operation in the model: kernels that match the pattern, or that are like the mock's."""
    rows = _rows(run)
    if isolation.by == "range":
        raise NothingRecorded(
            f"{run.name}: {REPORT} does not say what ran in which range",
            hint="use --pattern=REGEX, or give the profile itself instead of its tables",
        )
    if isolation.expression:
        chosen = _matching(run, rows, isolation)
    else:
        wanted = set[str]().union(*(_alike(kernel.name, rows) for kernel in mock.kernels))
        if not wanted:
            raise NothingRecorded(f"{run.name}: no kernel is like one of the mock's", found=_longest(rows))
        chosen = [row for row in rows if row.name in wanted]
    times: dict[str, list[int]] = {}
    for kernel in mock.kernels:
        times.setdefault(kernel.name, []).append(kernel.time_ns)
    # so many that the mock's longest kernel with a like in the model is called as often in each
    by_time = sorted(times, key=lambda name: -sum(times[name]))
    longest = next((name for name in by_time if _alike(name, chosen)), None)
    if longest is None:
        count = gcd(*(row.count for row in chosen))
    else:
        alike = _alike(longest, chosen)
        count = max(round(sum(row.count for row in chosen if row.name in alike) / len(times[longest])), 1)
    how = say("given") if forwards else say("by the calls of the mock's longest kernel")
    whole = isolation.expression is not None or len(chosen) == len(rows)
    return _side(run.name, chosen, forwards or count, how, whole=whole)


def _alike(name: str, rows: Sequence[SummaryRow]) -> set[str]:
    """The names of rows that are this kernel, or nearly so where none is."""
    levels = {row.name: likeness(name, row.name) for row in rows}
    return next(
        (same for level in (EXACT, FUNCTION) if (same := {row for row in levels if levels[row] == level})), set()
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


def _side(name: str, rows: Sequence[SummaryRow], forwards: int, how: str, *, whole: bool = True) -> FromTable:
    kernels: list[ForwardKernel] = []
    rare = []
    for row in rows:
        calls = round(row.count / forwards)
        kernels += [ForwardKernel(row.name, round((row.total_ns or 0) / row.count))] * calls
        if calls < 1:
            rare.append(f"{label(row.name)} ({count_text(row.count)})")
    text = forwards_text(forwards)
    notes = [say("{profile}: {forwards} ({how}); means of the whole profile", profile=name, forwards=text, how=how)]
    if rare:
        shown = ", ".join(rare[:3])
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
    return FromTable(side, tuple(notes), whole)


def _matching(run: PrintedTables, rows: Sequence[SummaryRow], isolation: Isolation) -> list[SummaryRow]:
    """Rows that match the pattern; all where there is none."""
    pattern = isolation.kernel_pattern
    if pattern is None:
        return list(rows)
    matching = [row for row in rows if pattern.search(row.name)]
    if not matching:
        raise no_match(run.name, pattern.pattern, _longest(rows))
    return matching


def _longest(rows: Sequence[SummaryRow]) -> str:
    return f"its longest kernels: {', '.join(label(row.name) for row in rows[:5])}"


def side_of_timing(timed: TimedOperation, name: str) -> OperationSide:
    """One operation, its usual call standing for a forward."""
    samples = np.array(timed.samples_ns).round().astype(np.int64)
    low, high = np.percentile(samples, (10, 90)).astype(np.int64).tolist()
    usual_ns = round(timed.median_ns)
    in_graph = timed.graph if timed.device == "cuda" else None
    return OperationSide(
        profile=name,
        gpu_name=timed.device_name,
        kernels=(ForwardKernel(CALL, usual_ns, in_graph=in_graph),),
        forwards=len(samples),
        compared=len(samples),
        alike=len(samples),
        spread_ns=(low, high),
        bounds_ns=timed.bounds_ns,
        near_ns=timed.near_ns,
        timed_s=timed.seconds,
        is_timed=True,
    )

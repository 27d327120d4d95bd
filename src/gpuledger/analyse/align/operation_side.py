"""One side of an alignment: the forwards of an operation in, the one that stands for them out.

The first forward is left out where there are others: it may pay for what the others find ready. Forwards that run
different kernels are different operations to compare with, so one sequence of kernels is chosen, and of its forwards
the one with the median GPU time. Of several ranks, each forward counts where it computes the longest.

Of NVIDIA's cuda_gpu_kern_sum, where only that was kept, a side has names, calls and mean times per forward; of what
`gpuledger time` measured the time of a forward, and whether it ran in a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, main_names, similarity
from gpuledger.analyse.align.operation_kernels import Isolation, no_match
from gpuledger.catalog.kernel_names import EXACT, FUNCTION, label, likeness, parse
from gpuledger.errors import NothingRecorded
from gpuledger.messages import say
from gpuledger.timing.settle import interval_with_halves
from gpuledger.timing.timed_operations import CALL, TimedOperation
from gpuledger.trace.measured import PrintedTables, SummaryRow
from gpuledger.trace.spans import Ints
from gpuledger.trace.statistics import median
from gpuledger.units import count_text

LONG_GAP_NS: Final = 1_000_000
"""A gap inside a forward that is longer is no mere path to the next launch: a plan is made, a module loaded."""

FEWEST_WAITS: Final = 3  # in fewer forwards, standing still is an accident

RARE: Final = 0.1  # a sequence of kernels that fewer of the forwards run is not chosen to stand for them

QUARTER: Final = 4  # drift compares the last quarter of the steps with the first


class Wait(Struct, frozen=True):
    """Where forwards of a side stand still: before one kernel, for long."""

    kernel: str
    gap_ns: int  # the middle one of the long gaps
    forwards: int  # in so many of the forwards compared
    opens_step: bool  # whether each of them is the first forward of its step, and steps have others


class OperationSide(Struct, frozen=True):
    """One side, as far as checks need it: the forward that stands for all, and how the others spread around it."""

    profile: str
    gpu_name: str
    kernels: tuple[ForwardKernel, ...]
    forwards: int  # all in the steady steps
    steps: int = 0
    found_by: str = ""
    compared: int = 1  # those that were candidates: without the first, and of several ranks one each
    alike: int = 1  # of them, those with the sequence of kernels that was chosen
    ranks: int = 1
    elapsed_ns: int | None = None  # from a forward's first start to its last end, the median
    spread_ns: tuple[int, int] | None = None  # the 10th and the 90th percentile of GPU time
    bounds_ns: tuple[float, float] | None = None
    """Where the usual GPU time lies, in 95 of 100 cases; None where too few forwards were seen."""
    near_ns: tuple[float, float] | None = None
    """Of a pair timed in turns: the same by the rounds alone, which is enough to pass, not to fail."""
    timed_s: float = 0.0  # how long it was timed
    drift_share: float | None = None
    """How much longer forwards of the last quarter of steps take than those of the first."""
    wait: Wait | None = None
    ordered: bool = True  # whether `kernels` are in the order in which they ran
    is_whole: bool = True  # whether they are all that belongs to the operation; else a missing one cannot be told
    notes: tuple[str, ...] = ()  # what is to be said about how the forwards were found
    is_timed: bool = False
    """Whether a clock alone was looked at: one kernel stands for all, and which there are is not known."""

    @property
    def gpu_ns(self) -> int:
        return sum(kernel.time_ns for kernel in self.kernels)

    @property
    def per_step(self) -> float:
        return self.forwards / self.steps if self.steps else float(self.forwards)


_Forward = tuple[Forwards, int]  # one forward of one rank


def _candidates(ranks: Sequence[Forwards]) -> list[_Forward]:
    """All forwards but the first; of several ranks, each from the one that computes the longest.

    The others wait for it in the next collective, so its time is the operation's, and it waits the least itself.
    """
    longest = max(len(forwards) for forwards in ranks)
    compute = np.full((len(ranks), longest), -1, np.int64)
    for rank, forwards in enumerate(ranks):
        compute[rank, : len(forwards)] = forwards.compute_ns
    first = 1 if longest > 1 else 0
    return [(ranks[rank], number) for number, rank in enumerate(compute.argmax(axis=0)[first:].tolist(), first)]


def side(ranks: Sequence[Forwards], mock: Sequence[ForwardKernel] | None = None) -> OperationSide:
    """The side that these forwards make, one entry per rank; of the model's, the sequence nearest to the mock's."""
    candidates = _candidates(ranks)
    variants: dict[tuple[str, ...], list[_Forward]] = {}
    for forwards, number in candidates:
        variants.setdefault(forwards.sequences[number], []).append((forwards, number))
    by_count = sorted(variants.values(), key=lambda variant: -len(variant))
    usual = [variant for variant in by_count if len(variant) >= RARE * len(candidates)]
    chosen = usual[0] if usual else candidates  # none is usual where each is different, as with a loop of experts
    if usual and mock is not None:  # the first of equal ones
        chosen = max(usual, key=lambda variant: similarity(mock, variant[0][0].kernels(variant[0][1])))
    times = np.array([forwards.gpu_ns[number] for forwards, number in chosen], np.int64)
    typical, place = chosen[int(np.argsort(times, kind="stable")[(len(times) - 1) // 2])]
    low, high = np.percentile(times, (10, 90)).astype(np.int64).tolist()
    whole = max(ranks, key=len)
    return OperationSide(
        profile=typical.profile,
        gpu_name=typical.gpu_name,
        kernels=typical.kernels(place),
        forwards=len(whole),
        steps=len(np.unique(whole.step)) if whole.found_by else 0,
        found_by=whole.found_by,
        compared=len(candidates),
        alike=len(chosen) if usual else 1,
        ranks=len(ranks),
        elapsed_ns=int(median(np.array([forwards.elapsed_ns[number] for forwards, number in chosen]))),
        spread_ns=(low, high),
        bounds_ns=interval_with_halves(times.tolist()),
        drift_share=_drift(chosen, times),
        wait=_wait(chosen) if usual else None,
        notes=tuple(dict.fromkeys(note for forwards in ranks for note in forwards.notes)),
    )


def _drift(chosen: Sequence[_Forward], times: Ints) -> float | None:
    """How much the median GPU time changes from the first quarter of the steps to the last; None for few steps."""
    step = np.array([forwards.step[number] for forwards, number in chosen], np.int64)
    distinct = np.unique(step)
    quarter = len(distinct) // QUARTER
    if quarter < 2:
        return None
    early, late = (median(times[np.isin(step, which)]) for which in (distinct[:quarter], distinct[-quarter:]))
    return late / early - 1 if early else None


def _wait(chosen: Sequence[_Forward]) -> Wait | None:
    """The kernel before which the most forwards stand still for long."""
    gaps = np.array([forwards.gap_ns[forwards.first[n] : forwards.first[n + 1]] for forwards, n in chosen], np.int64)
    long = gaps > LONG_GAP_NS
    where = int(long.sum(axis=0).argmax())
    waiting = np.flatnonzero(long[:, where])
    if len(waiting) < FEWEST_WAITS:
        return None
    forwards, number = chosen[int(waiting[0])]
    place = np.array([forwards.place[number] for forwards, number in chosen])
    return Wait(
        kernel=forwards.kernels(number)[where].name,
        gap_ns=int(median(gaps[waiting, where])),
        forwards=len(waiting),
        opens_step=not place[waiting].any() and bool(place.any()),
    )


def forwards_text(count: int) -> str:
    """How many forwards, in words."""
    return say("1 forward") if count == 1 else say("{count} forwards", count=count_text(count))


REPORT: Final = "cuda_gpu_kern_sum"  # the table that is needed


def mock_from_table(run: PrintedTables, isolation: Isolation, forwards: int | None) -> OperationSide:
    """The mock: every kernel of the table, or those that match the pattern."""
    rows = _rows(run)
    main = main_names([ForwardKernel(row.name, row.total_ns or 0) for row in rows])  # others may be initialisation
    count = forwards or gcd(*(row.count for row in rows if parse(row.name).bare in main))
    how = say("given") if forwards else say("by the greatest common divisor of the main kernels' calls")
    return _table_side(run.name, _matching(run, rows, isolation), count, how)


def model_from_table(
    run: PrintedTables, isolation: Isolation, mock: OperationSide, forwards: int | None
) -> OperationSide:
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
    # forwards per instance: how often the mock's longest kernel with a match runs on each side
    by_time = sorted(times, key=lambda name: -sum(times[name]))
    longest = next((name for name in by_time if _alike(name, chosen)), None)
    if longest is None:
        count = gcd(*(row.count for row in chosen))
    else:
        alike = _alike(longest, chosen)
        count = max(round(sum(row.count for row in chosen if row.name in alike) / len(times[longest])), 1)
    how = say("given") if forwards else say("by the calls of the mock's longest kernel")
    is_whole = isolation.expression is not None or len(chosen) == len(rows)
    return _table_side(run.name, chosen, forwards or count, how, is_whole=is_whole)


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


def _table_side(
    name: str, rows: Sequence[SummaryRow], forwards: int, how: str, *, is_whole: bool = True
) -> OperationSide:
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
    return OperationSide(
        name,
        "",
        tuple(kernels),
        forwards,
        compared=forwards,
        alike=forwards,
        ordered=False,
        is_whole=is_whole,
        notes=tuple(notes),
    )


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

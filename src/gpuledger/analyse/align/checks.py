"""The seven checks: kernels side by side in, a verdict with figures for each question out.

Each difference has one home, so that one fault fails one check. Another kernel in a kernel's place is a matter of
names; one more call of a kernel that both sides run, of counts; a kernel that the other side never runs is missing or
extra; the time of what both sides run is latency's, and the launch shape of the same kernel the last one's.

The check of speed: how long the kernels take that both sides run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from gpuledger.analyse.align.kernel_sequences import INSERTED, MISSING, ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.align.side_by_side import (
    COUNTS,
    EXTRA_KERNELS,
    FAIL,
    GRAPH,
    LATENCY,
    MISSING_KERNELS,
    NAMES,
    NOT_MEASURED,
    PASS,
    SHAPE,
    WARN,
    AcceptedDifference,
    AlignCheck,
    AlignRow,
    Figure,
    FoundDifference,
    KnownDifferences,
    SideBySide,
    Tier,
    by_name,
    called,
    repeats,
    shape_text,
    sifted,
    verdict_of,
    with_calls,
)
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE
from gpuledger.messages import say
from gpuledger.units import count_text, share_text, time_text

OTHER_SPEED: Final = 2.0
"""A critical kernel that is so many times faster or slower is worth a warning even where the sum hides it."""

NAMED: Final = 3  # so many kernels are named that make up the difference

_TITLE: Final = say("latency per forward")


def latency(sides: SideBySide, tier: Tier, known: KnownDifferences, critical_share: float) -> AlignCheck:
    """Compare the time of the matched kernels."""
    if not sides.matched:
        why = (say("no kernel runs on both sides"),)
        return AlignCheck(LATENCY, _TITLE, NOT_MEASURED, "", "", _figures(sides, (), tier), why)
    rows, set_aside = _set_aside(sides.matched, tier, known)
    mock, e2e = _times(rows)
    factor = factor_of(mock, e2e)
    verdict = tier.verdict(factor)
    items = [] if verdict == PASS else [FoundDifference(verdict, _whole(mock, e2e, tier))]
    hidden = [row for row in rows if _is_hidden(row, e2e, critical_share)] if verdict == PASS else []
    items += [FoundDifference(WARN, say("the sum hides {kernel}", kernel=_one(row)), row.names) for row in hidden]
    counted, accepted = sifted(LATENCY, items, known)
    evidence = [item.sentence for item in counted]
    if verdict != PASS and counted:
        evidence += _makes_it_up(rows, mock - e2e)
        evidence += _spread(sides)
    return AlignCheck(
        check=LATENCY,
        title=_TITLE,
        verdict=verdict_of(counted, (*set_aside, *accepted)),
        mock=time_text(mock),
        e2e=say("{time} ({ratio})", time=time_text(e2e), ratio=_times_text(mock, e2e)),
        figures=_figures(sides, rows, tier),
        evidence=tuple(evidence),
        accepted=(*set_aside, *accepted),
    )


def factor_of(mock_ns: int, e2e_ns: int) -> float:
    """How many times the shorter side's time the longer one takes; 1 where both take none."""
    shorter, longer = sorted((mock_ns, e2e_ns))
    return 1.0 if not longer else longer / shorter if shorter else math.inf


def _set_aside(
    matched: Sequence[AlignRow], tier: Tier, known: KnownDifferences
) -> tuple[list[AlignRow], tuple[AcceptedDifference, ...]]:
    """The rows without those whose speed the user knows to differ."""
    rows, accepted = [], []
    for row in matched:
        difference = known.of_kernel(LATENCY, row.names) if tier.verdict(_row_factor(row)) != PASS else None
        if difference is None:
            rows.append(row)
        else:
            accepted.append(AcceptedDifference(_one(row), difference))
    return rows, tuple(accepted)


def _times(rows: Sequence[AlignRow]) -> tuple[int, int]:
    mock = sum(row.mock.time_ns for row in rows if row.mock is not None)
    return mock, sum(row.e2e.time_ns for row in rows if row.e2e is not None)


def _row_factor(row: AlignRow) -> float:
    return factor_of(*_times([row]))


def _is_hidden(row: AlignRow, e2e_ns: int, critical_share: float) -> bool:
    longer = max(_times([row]))
    return longer >= critical_share * e2e_ns and _row_factor(row) >= OTHER_SPEED


def _whole(mock: int, e2e: int, tier: Tier) -> str:
    limit = tier.passes if tier.verdict(factor_of(mock, e2e)) == WARN else tier.warns
    return say(
        "{mock} in the mock, {e2e} in the model: the mock is {ratio} (limit {limit} x)",
        mock=time_text(mock),
        e2e=time_text(e2e),
        ratio=_times_text(mock, e2e),
        limit=f"{limit:.2f}",
    )


def _times_text(mock: int, e2e: int) -> str:
    factor = factor_of(mock, e2e)
    rounded = f"{factor:.2f}"
    if rounded == "1.00":
        return say("the same")
    return say("{ratio} x slower", ratio=rounded) if mock > e2e else say("{ratio} x faster", ratio=rounded)


def _one(row: AlignRow) -> str:
    mock, e2e = _times([row])
    return say(
        "{kernel}: {mock} in the mock, {e2e} in the model",
        kernel=called(row.names[0]),
        mock=time_text(mock),
        e2e=time_text(e2e),
    )


def _makes_it_up(rows: Sequence[AlignRow], difference: int) -> list[str]:
    """The kernels that make up most of the difference, calls of one name together."""
    grouped: dict[tuple[str, ...], list[AlignRow]] = {}
    for row in rows:
        grouped.setdefault(row.names, []).append(row)
    parts = sorted(
        ((names, *_times(named), len(named)) for names, named in grouped.items()),
        key=lambda part: -(part[1] - part[2]) * (1 if difference > 0 else -1),
    )
    lines = list[str]()
    for names, mock, e2e, calls in parts[:NAMED]:
        part = (mock - e2e) / difference if difference else 0.0
        if part > 0:
            lines.append(
                say(
                    "{kernel}: {mock} in the mock, {e2e} in the model, {share} of the difference",
                    kernel=with_calls(called(names[0]), calls),
                    mock=time_text(mock),
                    e2e=time_text(e2e),
                    share=share_text(part),
                )
            )
    return lines


def _spread(sides: SideBySide) -> list[str]:
    if sides.mock.spread_ns is None or sides.e2e.spread_ns is None:
        return []
    (a, b), (c, d) = sides.mock.spread_ns, sides.e2e.spread_ns
    mock = say("{start} to {end}", start=time_text(a), end=time_text(b))
    e2e = say("{start} to {end}", start=time_text(c), end=time_text(d))
    return [say("P10 to P90 of the forwards: {mock} in the mock, {e2e} in the model", mock=mock, e2e=e2e)]


def _figures(sides: SideBySide, rows: Sequence[AlignRow], tier: Tier) -> dict[str, Figure]:
    mock, e2e = _times(rows)
    return {
        "mock_ns": mock,
        "e2e_ns": e2e,
        "ratio": mock / e2e if e2e else None,
        "tier": tier.name,
        "pass_within": tier.passes,
        "warn_within": tier.warns,
        "mock_gpu_ns": sides.mock.gpu_ns,
        "e2e_gpu_ns": sides.e2e.gpu_ns,
        "mock_elapsed_ns": sides.mock.elapsed_ns,
        "e2e_elapsed_ns": sides.e2e.elapsed_ns,
    }


MAIN_SHARE: Final = 0.9  # the longest kernels that together hold this share of a side's time are its main ones
CRITICAL_SHARE: Final = 0.05  # a kernel with this share of the operation's time is critical
COUNT_SHARE: Final = 0.1  # calls may differ by this share, or by one, before it is a failure


_TITLES: Final = {
    NAMES: say("kernel names"),
    COUNTS: say("calls per forward"),
    MISSING_KERNELS: say("missing kernels"),
    EXTRA_KERNELS: say("extra kernels"),
    SHAPE: say("launch shape"),
}
"""The checks that need to know kernels."""

_GRAPHS: Final = say("CUDA graphs")


def checks(sides: SideBySide, tier: Tier, known: KnownDifferences) -> tuple[AlignCheck, ...]:
    """All seven, in order."""
    if sides.mock.is_timed:
        names, counts, missing, extra, shape = (
            AlignCheck(check, title, NOT_MEASURED, "", "", {}, (say("a timing does not tell which kernels ran"),))
            for check, title in _TITLES.items()
        )
        told = latency(sides, tier, known, CRITICAL_SHARE), _graph(sides, known)
        return names, counts, missing, extra, *told, shape
    return (
        _names(sides, known),
        _counts(sides, known),
        _missing(sides, known),
        _extra(sides, known),
        latency(sides, tier, known, CRITICAL_SHARE),
        _graph(sides, known),
        _shape(sides, known),
    )


def main_names(kernels: Sequence[ForwardKernel]) -> frozenset[str]:
    """The bare names of a side's main kernels."""
    times = by_name(kernels)
    total, held, main = sum(times.values()), 0, []
    for name, time in times.items():
        if held >= MAIN_SHARE * total:
            break
        main.append(name)
        held += time
    return frozenset(main)


def _names(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the main kernels of either side are those of the other."""
    mains = main_names(sides.mock.kernels), main_names(sides.e2e.kernels)
    items, exact = [], [set[str](), set[str]()]
    for row in sides.rows:
        kernels_of = list(zip((row.mock, row.e2e), mains, exact, strict=True))
        is_main = any(kernel is not None and kernel.bare in main for kernel, main, _ in kernels_of)
        if row.level == EXACT:
            for kernel, main, names in kernels_of:
                names |= {kernel.bare} & main if kernel is not None else set()
        elif row.level == NONE:
            items.append(FoundDifference(FAIL if is_main else WARN, _instead(row), row.names))
        elif row.level in (FUNCTION, FAMILY) and is_main:
            items.append(FoundDifference(WARN, _alike(row), row.names))
    items = list({item.sentence: item for item in items}.values())
    counted, accepted = sifted(NAMES, items, known)
    levels = {level: len(sides.rows_at(level)) for level in (EXACT, FUNCTION, FAMILY, NONE)}
    return AlignCheck(
        check=NAMES,
        title=_TITLES[NAMES],
        verdict=verdict_of(counted, accepted),
        mock=say("{count} of {main} main the same", count=len(exact[0]), main=len(mains[0])),
        e2e=say("{count} of {main}", count=len(exact[1]), main=len(mains[1])),
        figures={"main_mock": len(mains[0]), "main_e2e": len(mains[1]), "main_exact": len(exact[1]), **levels},
        evidence=tuple(item.sentence for item in counted),
        accepted=accepted,
    )


def _alike(row: AlignRow) -> str:
    ours, theirs = (called(name) for name in row.names)
    if ours == theirs:
        return say("{kernel} has other template arguments in the model than in the mock", kernel=ours)
    if row.level == FUNCTION:
        return say(
            "{ours} in the mock is {theirs} in the model: other template arguments or another tile",
            ours=ours,
            theirs=theirs,
        )
    return say(
        "{ours} in the mock is {theirs} in the model: another kernel of the same family", ours=ours, theirs=theirs
    )


def _instead(row: AlignRow) -> str:
    if row.mock is None or row.e2e is None:
        return say(
            "only {whose} runs {kernel}; the other side runs something else there",
            whose=say("the model") if row.mock is None else say("the mock"),
            kernel=called(row.names[0]),
        )
    ours, theirs = (called(name) for name in row.names)
    return say("the mock runs {ours} where the model runs {theirs}", ours=ours, theirs=theirs)


def _counts(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """How often a forward runs what both sides run."""
    more: dict[str, dict[str, list[str]]] = {INSERTED: {}, MISSING: {}}
    for index in sorted(repeats(sides, CRITICAL_SHARE)):
        row = sides.rows[index]
        more[row.level].setdefault(_bares(row)[0], []).append(row.names[0])
    items, shared = [], []
    for level, named in more.items():
        for bare, names in named.items():
            both = sum(1 for row in sides.matched if bare in _bares(row))
            calls = (both + len(names), both) if level == INSERTED else (both, both + len(names))
            sentence = say(
                "{kernel}: called {mock} x in the mock's forward, {e2e} x in the model's",
                kernel=called(names[0]),
                mock=calls[0],
                e2e=calls[1],
            )
            if level == MISSING and not sides.whole:
                shared.append(say("{sentence}, perhaps by other operations", sentence=sentence))
            else:
                items.append(FoundDifference(WARN, sentence, tuple(names), len(names)))
    counted, accepted = sifted(COUNTS, items, known)
    mock, e2e = (len(sides.matched) + sum(map(len, more[level].values())) for level in (INSERTED, MISSING))
    apart = sum(item.amount for item in counted)
    verdict = verdict_of(counted, accepted)
    if apart > max(1, COUNT_SHARE * e2e):
        verdict = FAIL
    elif shared and verdict == PASS:
        verdict = NOT_MEASURED
    return AlignCheck(
        check=COUNTS,
        title=_TITLES[COUNTS],
        verdict=verdict,
        mock=say("{count} of {of} kernels", count=count_text(mock), of=count_text(len(sides.mock.kernels))),
        e2e=say("{count} of {main}", count=count_text(e2e), main=count_text(len(sides.e2e.kernels))),
        figures={
            "mock": mock,
            "e2e": e2e,
            "apart": apart,
            "mock_all": len(sides.mock.kernels),
            "e2e_all": len(sides.e2e.kernels),
        },
        evidence=(*(item.sentence for item in counted), *shared),
        accepted=accepted,
    )


def _bares(row: AlignRow) -> tuple[str, ...]:
    return tuple(kernel.bare for kernel in (row.mock, row.e2e) if kernel is not None)


def _missing(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the mock runs every kernel of the model's operation."""
    alone = _alone(sides, MISSING)
    items = list(_one_sided(alone, sides.e2e, say("the mock does not run")))
    counted, accepted = sifted(MISSING_KERNELS, items, known)
    verdict = verdict_of(counted, accepted)
    time = sum(row.e2e.time_ns for row in alone if row.e2e is not None)
    evidence = tuple(item.sentence for item in counted)
    if not sides.whole and verdict == PASS:
        verdict = NOT_MEASURED
        evidence = (say("the model's table does not say which of its other kernels belong to the operation"),)
    return AlignCheck(
        check=MISSING_KERNELS,
        title=_TITLES[MISSING_KERNELS],
        verdict=verdict,
        mock=say("{count} missing", count=count_text(len(alone))) if alone else say("none"),
        e2e=_of_time(time, sides.e2e),
        figures={
            "missing": len(alone),
            "missing_ns": time,
            "missing_share": _share(time, sides.e2e),
            "critical_share": CRITICAL_SHARE,
        },
        evidence=evidence,
        accepted=accepted,
    )


def _extra(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the mock runs nothing else."""
    alone = _alone(sides, INSERTED)
    items = list(_one_sided(alone, sides.mock, say("the model does not run")))
    counted, accepted = sifted(EXTRA_KERNELS, items, known)
    time = sum(row.mock.time_ns for row in alone if row.mock is not None)
    return AlignCheck(
        check=EXTRA_KERNELS,
        title=_TITLES[EXTRA_KERNELS],
        verdict=verdict_of(counted, accepted),
        mock=say("{count} extra", count=count_text(len(alone))) if alone else say("none"),
        e2e=_of_time(time, sides.mock),
        figures={
            "extra": len(alone),
            "extra_ns": time,
            "extra_share": _share(time, sides.mock),
            "critical_share": CRITICAL_SHARE,
        },
        evidence=tuple(item.sentence for item in counted),
        accepted=accepted,
    )


def _alone(sides: SideBySide, level: str) -> tuple[AlignRow, ...]:
    """What one side runs and the other never does."""
    again = repeats(sides, CRITICAL_SHARE)
    return tuple(row for index, row in enumerate(sides.rows) if row.level == level and index not in again)


def _one_sided(rows: Iterable[AlignRow], side: OperationSide, what: str) -> Iterable[FoundDifference]:
    """One item for each kernel name, all its calls together, the longest first."""
    grouped: dict[str, list[ForwardKernel]] = {}
    for row in rows:
        for kernel in (row.mock, row.e2e):
            if kernel is not None:
                grouped.setdefault(kernel.bare, []).append(kernel)
    for kernels in sorted(grouped.values(), key=lambda kernels: -sum(kernel.time_ns for kernel in kernels)):
        share = _share(sum(kernel.time_ns for kernel in kernels), side)
        critical = share >= CRITICAL_SHARE
        sentence = say(
            "{what} {kernel}: {share} of the operation's time",
            what=what,
            kernel=with_calls(called(kernels[0].name), len(kernels)),
            share=share_text(share),
        )
        yield FoundDifference(FAIL if critical else WARN, sentence, (kernels[0].name,), len(kernels))


def _share(time_ns: int, side: OperationSide) -> float:
    return time_ns / side.gpu_ns if side.gpu_ns else 0.0


def _of_time(time_ns: int, side: OperationSide) -> str:
    return say("{share} of time", share=share_text(_share(time_ns, side))) if time_ns else ""


def _graph(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether both sides run in CUDA graphs, or neither does."""
    mock, e2e = (_in_graph(side) for side in (sides.mock, sides.e2e))
    if mock is None or e2e is None:
        figures = dict.fromkeys(("mock_in_graph", "mock_kernels", "e2e_in_graph", "e2e_kernels"))
        return AlignCheck(GRAPH, _GRAPHS, NOT_MEASURED, "", "", figures, (say("what ran in a graph is unknown"),))
    ours, theirs = (_state(*counts) for counts in (mock, e2e))
    same = ours == theirs or (0 < mock[0] < mock[1] and 0 < e2e[0] < e2e[1])
    items = (
        []
        if same
        else [FoundDifference(WARN, say("the mock runs {ours}, the model {theirs}", ours=ours, theirs=theirs))]
    )
    counted, accepted = sifted(GRAPH, items, known)
    return AlignCheck(
        check=GRAPH,
        title=_GRAPHS,
        verdict=verdict_of(counted, accepted),
        mock=ours,
        e2e=theirs,
        figures={"mock_in_graph": mock[0], "mock_kernels": mock[1], "e2e_in_graph": e2e[0], "e2e_kernels": e2e[1]},
        evidence=tuple(item.sentence for item in counted),
        accepted=accepted,
    )


def _in_graph(side: OperationSide) -> tuple[int, int] | None:
    """How many of how many kernels ran in a graph; None where that is not known."""
    if any(kernel.in_graph is None for kernel in side.kernels):
        return None
    return sum(bool(kernel.in_graph) for kernel in side.kernels), len(side.kernels)


def _state(inside: int, count: int) -> str:
    if 0 < inside < count:
        return say("{count} of {of} kernels in a graph", count=count_text(inside), of=count_text(count))
    return say("in a graph") if inside else say("eager")


def _shape(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the same kernels are launched in the same shape."""
    known_shapes = [row for row in sides.rows_at(EXACT) if row.same_shape is not None]
    differ = [row for row in known_shapes if row.shape_differs]
    items = [FoundDifference(WARN, _shapes(row), row.names) for row in differ]
    counted, accepted = sifted(SHAPE, items, known)
    verdict = verdict_of(counted, accepted) if known_shapes else NOT_MEASURED
    return AlignCheck(
        check=SHAPE,
        title=_TITLES[SHAPE],
        verdict=verdict,
        mock=say("{count} of {of} the same", count=len(known_shapes) - len(differ), of=len(known_shapes))
        if known_shapes
        else "",
        e2e="",
        figures={"compared": len(known_shapes), "differ": len(differ)},
        evidence=tuple(item.sentence for item in counted) if known_shapes else (_no_shapes(sides),),
        accepted=accepted,
    )


def _shapes(row: AlignRow) -> str:
    ours, theirs = (kernel.shape if kernel is not None else None for kernel in (row.mock, row.e2e))
    return say(
        "{kernel}: {mock} in the mock, {e2e} in the model",
        kernel=called(row.names[0]),
        mock=shape_text(ours),
        e2e=shape_text(theirs),
    )


def _no_shapes(sides: SideBySide) -> str:
    if not sides.rows_at(EXACT):
        return say("no kernel has the same name on both sides")
    return say("grid and block are not recorded")

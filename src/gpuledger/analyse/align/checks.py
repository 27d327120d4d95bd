"""The seven checks: kernels side by side in, a verdict with figures for each question out.

Each difference has one home, so that one fault fails one check. Another kernel in a kernel's place is a matter of
names; one more call of a kernel that both sides run, of counts; a kernel that the other side never runs is missing or
extra; the time of what both sides run is latency's, and the launch shape of the same kernel the last one's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.align.kernel_sequences import INSERTED, MISSING, ForwardKernel
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.align.side_by_side import (
    CHECKS,
    COUNTS,
    EXTRA_KERNELS,
    GRAPH,
    KNOWN,
    LATENCY,
    MISSING_KERNELS,
    NAMES,
    NOT_MEASURED,
    SHAPE,
    VERDICTS,
    WARN,
    AcceptedDifference,
    AlignCheck,
    AlignRow,
    CheckName,
    Figure,
    KnownDifferences,
    SideBySide,
    Tier,
    repeats,
    shape_text,
    short_label,
    worst,
)
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE
from gpuledger.messages import say
from gpuledger.units import count_text, share_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED, DoubtfulFigure

OTHER_SPEED: Final = 2.0
"""A critical kernel that is so many times faster or slower is worth a warning even where the sum hides it."""

NAMED: Final = 3  # so many kernels are named that make up the difference
MAIN_SHARE: Final = 0.9  # the longest kernels that together hold this share of a side's time are its main ones
CRITICAL_SHARE: Final = 0.05  # a kernel with this share of the operation's time is critical
COUNT_SHARE: Final = 0.1  # calls may differ by this share, or by one, before it is a failure


class FoundDifference(Struct, frozen=True):
    """One difference that a check found. `names` are the kernels that it is about."""

    verdict: str
    sentence: str
    names: tuple[str, ...] = ()
    amount: int = 1


_Sifted = tuple[list[FoundDifference], tuple[AcceptedDifference, ...]]


def checks(sides: SideBySide, tier: Tier, known: KnownDifferences) -> tuple[AlignCheck, ...]:
    """All seven, in order."""
    latency, graph = _latency(sides, tier, known), _graph(sides, known)
    if sides.mock.is_timed:
        unknown = {check: _not_measured(check, say("a timing does not tell which kernels ran"), {}) for check in CHECKS}
        return tuple((unknown | {LATENCY: latency, GRAPH: graph}).values())
    missing, extra = (_alone(check, sides, known) for check in (MISSING_KERNELS, EXTRA_KERNELS))
    return (_names(sides, known), _counts(sides, known), missing, extra, latency, graph, _shape(sides, known))


def _sifted(check: str, items: Iterable[FoundDifference], known: KnownDifferences) -> _Sifted:
    """What counts, the worst first, and what is accepted."""
    counted, accepted = [], []
    for item in sorted(items, key=lambda item: -VERDICTS.index(item.verdict)):
        difference = known.find(check, item.names)
        if difference is None:
            counted.append(item)
        else:
            accepted.append(AcceptedDifference(item.sentence, difference))
    return counted, tuple(accepted)


def _answer(check: CheckName, sifted: _Sifted, mock: str, e2e: str, figures: dict[str, Figure]) -> AlignCheck:
    """The check's answer: its verdict is the worst of what counts."""
    counted, accepted = sifted
    verdict = worst((KNOWN if accepted else PASS, *(item.verdict for item in counted)))
    evidence = tuple(item.sentence for item in counted)
    return AlignCheck(check, verdict, mock, e2e, figures, evidence, accepted)


def _not_measured(check: CheckName, why: str, figures: dict[str, Figure]) -> AlignCheck:
    return AlignCheck(check, NOT_MEASURED, "", "", figures, (why,))


def main_names(kernels: Sequence[ForwardKernel]) -> frozenset[str]:
    """The bare names of a side's main kernels."""
    times: dict[str, int] = {}
    for kernel in kernels:
        times[kernel.bare] = times.get(kernel.bare, 0) + kernel.time_ns
    total, held, main = sum(times.values()), 0, []
    for name in sorted(times, key=lambda name: -times[name]):
        if held >= MAIN_SHARE * total:
            break
        main.append(name)
        held += times[name]
    return frozenset(main)


def _names(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the main kernels of either side are those of the other."""
    mains = main_names(sides.mock.kernels), main_names(sides.e2e.kernels)
    items, exact = {}, [set[str](), set[str]()]
    for row in sides.rows:
        kernels_of = list(zip((row.mock, row.e2e), mains, exact, strict=True))
        is_main = any(kernel is not None and kernel.bare in main for kernel, main, _ in kernels_of)
        if row.level == EXACT:
            for kernel, main, names in kernels_of:
                names |= {kernel.bare} & main if kernel is not None else set()
        elif row.level == NONE or (row.level in (FUNCTION, FAMILY) and is_main):
            sentence = _other_kernel(row)
            verdict = FAIL if row.level == NONE and is_main else WARN
            items[sentence] = FoundDifference(verdict, sentence, row.names)
    levels = {level: len(sides.rows_at(level)) for level in (EXACT, FUNCTION, FAMILY, NONE)}
    return _answer(
        NAMES,
        _sifted(NAMES, items.values(), known),
        say("{count} of {main} main the same", count=len(exact[0]), main=len(mains[0])),
        say("{count} of {main}", count=len(exact[1]), main=len(mains[1])),
        {"main_mock": len(mains[0]), "main_e2e": len(mains[1]), "main_exact": len(exact[1]), **levels},
    )


def _other_kernel(row: AlignRow) -> str:
    if row.mock is None or row.e2e is None:
        whose = say("the model") if row.mock is None else say("the mock")
        kernel = short_label(row.names[0])
        return say("only {whose} runs {kernel}; the other side runs something else there", whose=whose, kernel=kernel)
    both = {"ours": short_label(row.mock.name), "theirs": short_label(row.e2e.name)}
    if row.level == NONE:
        return say("the mock runs {ours} where the model runs {theirs}", **both)
    if both["ours"] == both["theirs"]:
        return say("{kernel} has other template arguments in the model than in the mock", kernel=both["ours"])
    if row.level == FUNCTION:
        return say("{ours} in the mock is {theirs} in the model: other template arguments or another tile", **both)
    return say("{ours} in the mock is {theirs} in the model: another kernel of the same family", **both)


def _counts(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """How often a forward runs what both sides run."""
    more: dict[str, dict[str, list[str]]] = {INSERTED: {}, MISSING: {}}
    for index in sorted(repeats(sides, CRITICAL_SHARE)):
        row = sides.rows[index]
        more[row.level].setdefault(row.bares[0], []).append(row.names[0])
    items, shared = [], []
    matched = Counter(bare for row in sides.matched for bare in set(row.bares))
    for level, names_of in more.items():
        for bare, names in names_of.items():
            mock, e2e = (matched[bare] + len(names) if level == side else matched[bare] for side in (INSERTED, MISSING))
            times = {"kernel": short_label(names[0]), "mock": mock, "e2e": e2e}
            sentence = say("{kernel}: called {mock} x in the mock's forward, {e2e} x in the model's", **times)
            if level == MISSING and not sides.whole:
                shared.append(say("{sentence}, perhaps by other operations", sentence=sentence))
            else:
                items.append(FoundDifference(WARN, sentence, tuple(names), len(names)))
    sifted = _sifted(COUNTS, items, known)
    mock, e2e = (len(sides.matched) + sum(map(len, more[level].values())) for level in (INSERTED, MISSING))
    apart, every = sum(item.amount for item in sifted[0]), (len(sides.mock.kernels), len(sides.e2e.kernels))
    answer = _answer(
        COUNTS,
        sifted,
        say("{count} of {of} kernels", count=count_text(mock), of=count_text(every[0])),
        say("{count} of {main}", count=count_text(e2e), main=count_text(every[1])),
        {"mock": mock, "e2e": e2e, "apart": apart, "mock_all": every[0], "e2e_all": every[1]},
    )
    verdict = NOT_MEASURED if shared and answer.verdict == PASS else answer.verdict
    if apart > max(1, COUNT_SHARE * e2e):
        verdict = FAIL
    return replace(answer, verdict=verdict, evidence=(*answer.evidence, *shared))


def _alone(check: CheckName, sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the mock runs every kernel of the model's operation (missing), and no other (extra)."""
    is_missing = check == MISSING_KERNELS
    level, side = (MISSING, sides.e2e) if is_missing else (INSERTED, sides.mock)
    what = say("the mock does not run") if is_missing else say("the model does not run")
    again, whole_ns = repeats(sides, CRITICAL_SHARE), side.gpu_ns
    rows = [row for index, row in enumerate(sides.rows) if row.level == level and index not in again]
    kernels = [kernel for row in rows for kernel in (row.mock, row.e2e) if kernel is not None]
    calls_of: dict[str, list[ForwardKernel]] = {}
    for kernel in kernels:
        calls_of.setdefault(kernel.bare, []).append(kernel)

    def share_of(calls: Iterable[ForwardKernel]) -> float:
        return sum(kernel.time_ns for kernel in calls) / whole_ns if whole_ns else 0.0

    items = []
    for calls in sorted(calls_of.values(), key=lambda calls: -sum(kernel.time_ns for kernel in calls)):
        share, kernel_text = share_of(calls), _with_calls(calls[0].name, len(calls))
        sentence = say(
            "{what} {kernel}: {share} of the operation's time", what=what, kernel=kernel_text, share=share_text(share)
        )
        verdict = FAIL if share >= CRITICAL_SHARE else WARN
        items.append(FoundDifference(verdict, sentence, (calls[0].name,), len(calls)))
    count, time, share = count_text(len(rows)), sum(kernel.time_ns for kernel in kernels), share_of(kernels)
    found = say("{count} missing", count=count) if is_missing else say("{count} extra", count=count)
    answer = _answer(
        check,
        _sifted(check, items, known),
        found if rows else say("none"),
        say("{share} of time", share=share_text(share)) if time else "",
        {check: len(rows), f"{check}_ns": time, f"{check}_share": share, "critical_share": CRITICAL_SHARE},
    )
    if is_missing and not sides.whole and answer.verdict == PASS:
        why = say("the model's table does not say which of its other kernels belong to the operation")
        return replace(answer, verdict=NOT_MEASURED, evidence=(why,))
    return answer


def _latency(sides: SideBySide, tier: Tier, known: KnownDifferences) -> AlignCheck:
    """Whether the kernels that both sides run take as long."""
    rows, set_aside = _set_aside(sides.matched, tier, known)
    mock, e2e = _times(rows)
    figures: dict[str, Figure] = {
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
    if not sides.matched:
        return _not_measured(LATENCY, say("no kernel runs on both sides"), figures)
    factor = _factor(mock, e2e)
    doubt = _ratio(mock, e2e, [(side.bounds_ns, side) for side in (sides.mock, sides.e2e)])
    near = _ratio(mock, e2e, [(side.near_ns, side) for side in (sides.mock, sides.e2e)])
    if near is not None and tier.verdict_of(near) == PASS:
        doubt = near
    figures |= {"ratio_low": doubt.low, "ratio_high": doubt.high} if doubt is not None else {}
    undecided = sides.mock.is_timed if doubt is None else tier.verdict_of(doubt) == UNDECIDED
    verdict, rounded = UNDECIDED if undecided else tier.verdict(factor), f"{factor:.2f}"
    ratio = say("{ratio}x slower", ratio=rounded) if mock > e2e else say("{ratio}x faster", ratio=rounded)
    ratio = say("the same") if rounded == "1.00" else ratio
    if verdict == PASS:
        hidden = [(row, _times([row])) for row in rows]
        items = [
            FoundDifference(WARN, say("the sum hides {kernel}", kernel=_row_times(row)), row.names)
            for row, times in hidden
            if max(times) >= CRITICAL_SHARE * e2e and _factor(*times) >= OTHER_SPEED
        ]
    elif verdict == UNDECIDED:
        items = [FoundDifference(UNDECIDED, _what_would_decide(doubt, tier, sides.mock))]
    else:
        sentence = say(
            "{mock} in the mock, {e2e} in the model: the mock is {ratio} (limit {limit}x)",
            mock=time_text(mock),
            e2e=time_text(e2e),
            ratio=ratio,
            limit=f"{tier.passes if verdict == WARN else tier.warns:.2f}",
        )
        items = [FoundDifference(verdict, sentence)]
    counted, accepted = _sifted(LATENCY, items, known)
    sifted = counted, (*set_aside, *accepted)
    answer = _answer(
        LATENCY, sifted, time_text(mock), say("{time} ({ratio})", time=time_text(e2e), ratio=ratio), figures
    )
    if verdict in (PASS, UNDECIDED) or not counted:
        return answer
    return replace(answer, evidence=(*answer.evidence, *_largest_changes(rows, mock - e2e), *_spread(sides)))


def _ratio(
    mock_ns: int, e2e_ns: int, known: Sequence[tuple[tuple[float, float] | None, OperationSide]]
) -> DoubtfulFigure | None:
    """The ratio with its interval, from where each side's time lies; None where one does not say."""
    ends = [(lies[0] / side.gpu_ns, lies[1] / side.gpu_ns) for lies, side in known if lies is not None and side.gpu_ns]
    if len(ends) < 2 or not e2e_ns:
        return None
    (low, high), (e2e_low, e2e_high) = ends
    ratio, samples = mock_ns / e2e_ns, min(side.alike for _, side in known)
    return DoubtfulFigure(ratio, ratio * low / e2e_high, ratio * high / e2e_low if e2e_low else math.inf, samples)


def _what_would_decide(doubt: DoubtfulFigure | None, tier: Tier, mock: OperationSide) -> str:
    """Why the times do not tell, and how many would."""
    if doubt is None:
        return say(
            "too few samples, or a host's times of two runs, tell too little: `gpuledger time A B` times both in turns "
            "until their difference is known (--seconds)"
        )
    limits = (1 / tier.warns, 1 / tier.passes, tier.passes, tier.warns)
    held = [limit for limit in limits if doubt.low <= limit <= doubt.high]
    crossed = min(held, key=lambda limit: abs(limit - doubt.value))
    needed = doubt.deciding_samples(crossed)
    ends = {"low": f"{doubt.low:.3f}", "high": f"{doubt.high:.3f}", "limit": f"{crossed:.3f}"}
    told = say("the mock takes {low} to {high}x the model's time, and a limit is {limit}x", **ends)
    if needed is None:
        return say("{told}: as near to it that no number of samples would tell", told=told)
    count = count_text(needed)
    if mock.is_timed:
        seconds = f"{math.ceil(mock.timed_s * needed / mock.alike) or 1}"
        return say(
            "{told}; `gpuledger time --seconds={seconds}` would decide: about {count} samples that stay as they are",
            told=told,
            seconds=seconds,
            count=count,
        )
    return say("{told}; about {count} forwards a side would decide", told=told, count=count)


def _factor(mock_ns: int, e2e_ns: int) -> float:
    """How many times the shorter side's time the longer one takes; 1 where both take none."""
    shorter, longer = sorted((mock_ns, e2e_ns))
    return 1.0 if not longer else longer / shorter if shorter else math.inf


def _set_aside(
    matched: Sequence[AlignRow], tier: Tier, known: KnownDifferences
) -> tuple[list[AlignRow], list[AcceptedDifference]]:
    """The rows without those whose speed the user knows to differ."""
    rows, accepted = [], []
    for row in matched:
        is_other = tier.verdict(_factor(*_times([row]))) != PASS
        difference = known.find(LATENCY, row.names, of_kernels=True) if is_other else None
        if difference is None:
            rows.append(row)
        else:
            accepted.append(AcceptedDifference(_row_times(row), difference))
    return rows, accepted


def _times(rows: Sequence[AlignRow]) -> tuple[int, int]:
    mock = sum(row.mock.time_ns for row in rows if row.mock is not None)
    return mock, sum(row.e2e.time_ns for row in rows if row.e2e is not None)


def _row_times(row: AlignRow) -> str:
    return _both(row, *map(time_text, _times([row])))


def _both(row: AlignRow, mock: str, e2e: str) -> str:
    return say("{kernel}: {mock} in the mock, {e2e} in the model", kernel=short_label(row.names[0]), mock=mock, e2e=e2e)


def _with_calls(name: str, calls: int) -> str:
    """A kernel, and how often it is called if that is more than once."""
    return say("{kernel} ({count} calls)", kernel=short_label(name), count=calls) if calls > 1 else short_label(name)


def _largest_changes(rows: Sequence[AlignRow], difference: int) -> list[str]:
    """The kernels that make up most of the difference, calls of one name together."""
    rows_of: dict[tuple[str, ...], list[AlignRow]] = {}
    for row in rows:
        rows_of.setdefault(row.names, []).append(row)
    parts = [(_with_calls(names[0], len(calls)), *_times(calls)) for names, calls in rows_of.items()]
    parts.sort(key=lambda part: (part[2] - part[1]) * (1 if difference > 0 else -1))
    return [
        say(
            "{kernel}: {mock} in the mock, {e2e} in the model, {share} of the difference",
            kernel=kernel,
            mock=time_text(mock),
            e2e=time_text(e2e),
            share=share_text((mock - e2e) / difference),
        )
        for kernel, mock, e2e in parts[:NAMED]
        if difference and (mock - e2e) / difference > 0
    ]


def _spread(sides: SideBySide) -> list[str]:
    spreads = [side.spread_ns for side in (sides.mock, sides.e2e) if side.spread_ns is not None]
    if len(spreads) < 2:
        return []
    mock, e2e = (say("{start} to {end}", start=time_text(low), end=time_text(high)) for low, high in spreads)
    return [say("P10 to P90 of the forwards: {mock} in the mock, {e2e} in the model", mock=mock, e2e=e2e)]


def _graph(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether both sides run in CUDA graphs, or neither does."""
    keys = ("mock_in_graph", "mock_kernels", "e2e_in_graph", "e2e_kernels")
    both = [[kernel.in_graph for kernel in side.kernels] for side in (sides.mock, sides.e2e)]
    if any(None in inside for inside in both):
        return _not_measured(GRAPH, say("what ran in a graph is unknown"), dict.fromkeys(keys))
    counts = [(sum(map(bool, inside)), len(inside)) for inside in both]
    ours, theirs = (
        say("{count} of {of} kernels in a graph", count=count_text(inside), of=count_text(count))
        if 0 < inside < count
        else say("in a graph")
        if inside
        else say("eager")
        for inside, count in counts
    )
    same = ours == theirs or all(0 < inside < count for inside, count in counts)
    sentence = say("the mock runs {ours}, the model {theirs}", ours=ours, theirs=theirs)
    sifted = _sifted(GRAPH, [] if same else [FoundDifference(WARN, sentence)], known)
    return _answer(GRAPH, sifted, ours, theirs, dict(zip(keys, (*counts[0], *counts[1]), strict=True)))


def _shape(sides: SideBySide, known: KnownDifferences) -> AlignCheck:
    """Whether the same kernels are launched in the same shape."""
    exact = sides.rows_at(EXACT)
    compared = [row for row in exact if row.same_shape is not None]
    differing = [row for row in compared if row.shape_differs]
    shapes = [[shape_text(kernel.shape if kernel else None) for kernel in (row.mock, row.e2e)] for row in differing]
    items = [FoundDifference(WARN, _both(row, *both), row.names) for row, both in zip(differing, shapes, strict=True)]
    figures: dict[str, Figure] = {"compared": len(compared), "differ": len(items)}
    if not compared:
        unnamed = say("no kernel has the same name on both sides")
        return _not_measured(SHAPE, say("grid and block are not recorded") if exact else unnamed, figures)
    same = say("{count} of {of} the same", count=len(compared) - len(items), of=len(compared))
    return _answer(SHAPE, _sifted(SHAPE, items, known), same, "", figures)

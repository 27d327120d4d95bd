"""The seven checks: two sides in, a verdict with figures for each question out.

Each difference has one home, so that one fault fails one check. Another kernel in a kernel's place is a matter of
names; one more call of a kernel that both sides run, of counts; a kernel that the other side never runs is missing or
extra; the time of what both sides run is latency's, and the launch shape of the same kernel the last one's.

Differences that the user knows of and accepts, each with a reason, come from the content of a TOML file.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.align.kernel_sequences import (
    INSERTED,
    MISSING,
    AlignRow,
    ForwardKernel,
    align_kernels,
    main_names,
)
from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.catalog.kernel_names import EXACT, FAMILY, FUNCTION, NONE, label
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.regex import NamePattern
from gpuledger.rows import LabelledCode
from gpuledger.trace.measured import Dim3
from gpuledger.units import count_text, share_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED, DoubtfulFigure

LONGEST: Final = 44  # letters of a kernel's name in a sentence

OTHER_SPEED: Final = 2.0
"""A critical kernel that is so many times faster or slower is worth a warning even where the sum hides it."""

NAMED: Final = 3  # kernels named that make up the difference

CRITICAL_SHARE: Final = 0.05  # a kernel with this share of the operation's time is critical

COUNT_SHARE: Final = 0.1  # calls may differ by this share, or by one, before it is a failure


class SideBySide(Struct, frozen=True):
    """The two sides, and every kernel of both in one row."""

    mock: OperationSide
    e2e: OperationSide
    rows: tuple[AlignRow, ...]

    @staticmethod
    def of(mock: OperationSide, e2e: OperationSide) -> SideBySide:
        return SideBySide(mock, e2e, align_kernels(mock.kernels, e2e.kernels, ordered=mock.ordered and e2e.ordered))

    @property
    def matched(self) -> tuple[AlignRow, ...]:
        return tuple(row for row in self.rows if row.matched)

    def rows_at(self, level: str) -> tuple[AlignRow, ...]:
        return tuple(row for row in self.rows if row.level == level)


def repeated_rows(sides: SideBySide) -> list[AlignRow]:
    """Rows of one side that are one more call of a kernel which both sides run: a matter of how often.

    A kernel with a launch shape that the other side never has is another piece of work of the same name, and not one
    more call, if it takes a critical share of the time and shapes tell pieces of work apart at all.
    """
    shapes: dict[tuple[str, str], set[tuple[Dim3, Dim3] | None]] = {}  # that both sides' calls of a kernel have
    shapes_tell: set[tuple[str, str]] = set()
    for row in sides.matched:
        for level, kernel in ((INSERTED, row.mock), (MISSING, row.e2e)):
            if kernel is not None:
                called = level, kernel.bare
                shapes.setdefault(called, set()).update(each.shape for each in row.kernels)
                if row.same_shape:
                    shapes_tell.add(called)
    critical_ns = {INSERTED: CRITICAL_SHARE * sides.mock.gpu_ns, MISSING: CRITICAL_SHARE * sides.e2e.gpu_ns}
    again = []
    for row in sides.rows:
        alone, called = row.kernels[0], (row.level, row.kernels[0].bare)
        if row.level in critical_ns and called in shapes:
            is_brief = alone.time_ns < critical_ns[row.level]
            if alone.shape in shapes[called] or called not in shapes_tell or is_brief:
                again.append(row)
    return again


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

    def find(self, check: str, names: tuple[str, ...]) -> KnownDifference | None:
        """The first that accepts what `check` found about these kernels."""
        return next((known for known in self.differences if known.covers(check, names)), None)


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


class FoundDifference(Struct, frozen=True):
    """One difference that a check found. `names` are the kernels that it is about."""

    verdict: str
    sentence: str
    names: tuple[str, ...] = ()


def checks(sides: SideBySide, tier: Tier, known: KnownDifferences) -> tuple[AlignCheck, ...]:
    """All seven, in order."""
    latency, graph = _latency(sides, tier, known), _graph(sides, known)
    if sides.mock.is_timed:
        unknown = {check: _not_measured(check, say("a timing does not tell which kernels ran"), {}) for check in CHECKS}
        return tuple((unknown | {LATENCY: latency, GRAPH: graph}).values())
    again = repeated_rows(sides)
    missing, extra = (_alone(check, sides, again, known) for check in (MISSING_KERNELS, EXTRA_KERNELS))
    return (_names(sides, known), _counts(sides, again, known), missing, extra, latency, graph, _shape(sides, known))


def _answer(
    check: CheckName,
    items: Iterable[FoundDifference],
    known: KnownDifferences,
    figures: dict[str, Figure],
    mock: str,
    e2e: str,
    set_aside: Sequence[AcceptedDifference] = (),
) -> AlignCheck:
    """The check's answer: its verdict is the worst of what was found and is not accepted."""
    counted, accepted = list[FoundDifference](), list(set_aside)
    for item in sorted(items, key=lambda item: -VERDICTS.index(item.verdict)):
        difference = known.find(check, item.names)
        if difference is None:
            counted.append(item)
        else:
            accepted.append(AcceptedDifference(item.sentence, difference))
    verdict = worst((KNOWN if accepted else PASS, *(item.verdict for item in counted)))
    evidence = tuple(item.sentence for item in counted)
    return AlignCheck(check, verdict, mock, e2e, figures, evidence, tuple(accepted))


def _not_measured(check: CheckName, why: str, figures: dict[str, Figure]) -> AlignCheck:
    return AlignCheck(check, NOT_MEASURED, "", "", figures, (why,))


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
        items.values(),
        known,
        {"main_mock": len(mains[0]), "main_e2e": len(mains[1]), "main_exact": len(exact[1]), **levels},
        say("{count} of {main} main the same", count=len(exact[0]), main=len(mains[0])),
        say("{count} of {main}", count=len(exact[1]), main=len(mains[1])),
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


def _counts(sides: SideBySide, again: Sequence[AlignRow], known: KnownDifferences) -> AlignCheck:
    """How often a forward runs what both sides run."""
    more: dict[str, dict[str, list[str]]] = {INSERTED: {}, MISSING: {}}
    for row in again:
        more[row.level].setdefault(row.kernels[0].bare, []).append(row.names[0])
    items, shared, apart = [], [], 0
    matched = Counter(bare for row in sides.matched for bare in {kernel.bare for kernel in row.kernels})
    for level, names_of in more.items():
        for bare, names in names_of.items():
            mock, e2e = (matched[bare] + len(names) if level == side else matched[bare] for side in (INSERTED, MISSING))
            times = {"kernel": short_label(names[0]), "mock": mock, "e2e": e2e}
            sentence = say("{kernel}: called {mock} x in the mock's forward, {e2e} x in the model's", **times)
            if level == MISSING and not sides.e2e.is_whole:
                shared.append(say("{sentence}, perhaps by other operations", sentence=sentence))
            else:
                items.append(FoundDifference(WARN, sentence, tuple(names)))
                apart += len(names) if known.find(COUNTS, tuple(names)) is None else 0
    mock, e2e = (len(sides.matched) + sum(map(len, more[level].values())) for level in (INSERTED, MISSING))
    every = len(sides.mock.kernels), len(sides.e2e.kernels)
    answer = _answer(
        COUNTS,
        items,
        known,
        {"mock": mock, "e2e": e2e, "apart": apart, "mock_all": every[0], "e2e_all": every[1]},
        say("{count} of {of} kernels", count=count_text(mock), of=count_text(every[0])),
        say("{count} of {main}", count=count_text(e2e), main=count_text(every[1])),
    )
    verdict = NOT_MEASURED if shared and answer.verdict == PASS else answer.verdict
    if apart > max(1, COUNT_SHARE * e2e):
        verdict = FAIL
    return replace(answer, verdict=verdict, evidence=(*answer.evidence, *shared))


def _alone(check: CheckName, sides: SideBySide, again: Sequence[AlignRow], known: KnownDifferences) -> AlignCheck:
    """Whether the mock runs every kernel of the model's operation (missing), and no other (extra)."""
    is_missing = check == MISSING_KERNELS
    level, side = (MISSING, sides.e2e) if is_missing else (INSERTED, sides.mock)
    what = say("the mock does not run") if is_missing else say("the model does not run")
    repeated = set(map(id, again))
    kernels = [row.kernels[0] for row in sides.rows_at(level) if id(row) not in repeated]
    calls_of: dict[str, list[ForwardKernel]] = {}
    for kernel in kernels:
        calls_of.setdefault(kernel.bare, []).append(kernel)

    def share_of(calls: Iterable[ForwardKernel]) -> float:
        return sum(kernel.time_ns for kernel in calls) / side.gpu_ns if side.gpu_ns else 0.0

    items = []
    for calls in sorted(calls_of.values(), key=lambda calls: -sum(kernel.time_ns for kernel in calls)):
        share, kernel_text = share_of(calls), _with_calls(calls[0].name, len(calls))
        sentence = say(
            "{what} {kernel}: {share} of the operation's time", what=what, kernel=kernel_text, share=share_text(share)
        )
        items.append(FoundDifference(FAIL if share >= CRITICAL_SHARE else WARN, sentence, (calls[0].name,)))
    count, time, share = count_text(len(kernels)), sum(kernel.time_ns for kernel in kernels), share_of(kernels)
    found = say("{count} missing", count=count) if is_missing else say("{count} extra", count=count)
    answer = _answer(
        check,
        items,
        known,
        {check: len(kernels), f"{check}_ns": time, f"{check}_share": share, "critical_share": CRITICAL_SHARE},
        found if kernels else say("none"),
        say("{share} of time", share=share_text(share)) if time else "",
    )
    if is_missing and not side.is_whole and answer.verdict == PASS:
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
    both = sides.mock, sides.e2e
    doubt = _ratio(mock, e2e, both, [side.bounds_ns for side in both])
    near = _ratio(mock, e2e, both, [side.near_ns for side in both])
    if near is not None and tier.verdict_of(near) == PASS:
        doubt = near
    figures |= {"ratio_low": doubt.low, "ratio_high": doubt.high} if doubt is not None else {}
    undecided = sides.mock.is_timed if doubt is None else tier.verdict_of(doubt) == UNDECIDED
    verdict, rounded = UNDECIDED if undecided else tier.verdict(factor), f"{factor:.2f}"
    ratio = say("{ratio}x slower", ratio=rounded) if mock > e2e else say("{ratio}x faster", ratio=rounded)
    ratio = say("the same") if rounded == "1.00" else ratio
    if verdict == PASS:
        items = [
            FoundDifference(WARN, say("the sum hides {kernel}", kernel=_row_times(row)), row.names)
            for row in rows
            if max(times := _times([row])) >= CRITICAL_SHARE * e2e and _factor(*times) >= OTHER_SPEED
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
    beside = say("{time} ({ratio})", time=time_text(e2e), ratio=ratio)
    answer = _answer(LATENCY, items, known, figures, time_text(mock), beside, set_aside)
    if verdict in (PASS, UNDECIDED) or not answer.evidence:
        return answer
    spread, known_spreads = list[str](), [side.spread_ns for side in both if side.spread_ns is not None]
    if len(known_spreads) == len(both):
        ours, theirs = (
            say("{start} to {end}", start=time_text(low), end=time_text(high)) for low, high in known_spreads
        )
        spread.append(say("P10 to P90 of the forwards: {mock} in the mock, {e2e} in the model", mock=ours, e2e=theirs))
    return replace(answer, evidence=(*answer.evidence, *_largest_changes(rows, mock - e2e), *spread))


def _ratio(
    mock_ns: int, e2e_ns: int, sides: Sequence[OperationSide], bounds: Sequence[tuple[float, float] | None]
) -> DoubtfulFigure | None:
    """The ratio with its interval, from where each side's time lies; None where one does not say."""
    ends = [
        (low_high[0] / side.gpu_ns, low_high[1] / side.gpu_ns)
        for side, low_high in zip(sides, bounds, strict=True)
        if low_high is not None and side.gpu_ns
    ]
    if len(ends) < 2 or not e2e_ns:
        return None
    (low, high), (e2e_low, e2e_high) = ends
    ratio, samples = mock_ns / e2e_ns, min(side.alike for side in sides)
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
    """The rows without those whose speed the user knows to differ, by a difference that names kernels."""
    of_kernels = KnownDifferences(tuple(one for one in known.differences if one.kernel is not None))
    rows, accepted = [], []
    for row in matched:
        is_other = tier.verdict(_factor(*_times([row]))) != PASS
        difference = of_kernels.find(LATENCY, row.names) if is_other else None
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
    items = [] if same else [FoundDifference(WARN, sentence)]
    return _answer(GRAPH, items, known, dict(zip(keys, (*counts[0], *counts[1]), strict=True)), ours, theirs)


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
    return _answer(SHAPE, items, known, figures, same, "")

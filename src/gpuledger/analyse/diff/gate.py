"""A comparison as a gate: `--fail-on` expressions in, for each whether it tripped out.

    WHAT[:REGEX]>LIMIT      step>2%   step>500us   launches>0   kernel:flash>5%   idle:launch>100us

A limit in per cent is of the value before. A gate fails if the whole interval of the change is beyond the limit, passes
if the whole is within, and is undecided else. What cannot be measured is an error, never a pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal

from msgspec import Struct

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.noise import LEAST_SHARE, UNSURE_SHARE, Interval, mean_interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunSide
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.books import Line, LineKind
from gpuledger.messages import say
from gpuledger.regex import NamePattern
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.model import NotMeasured
from gpuledger.verdicts import FAIL, UNDECIDED, DoubtfulFigure, Verdict

TIME, COUNT, SIZE = "time", "count", "size"

KINDS: Final[Mapping[str, tuple[str, bool]]] = {
    **dict.fromkeys(("step", "compute", "comm", "copy"), (TIME, False)),
    **dict.fromkeys(("idle", "family", "kernel", "range", "call"), (TIME, True)),
    "launches": (COUNT, False),
    **dict.fromkeys(("copied", "memory"), (SIZE, False)),
}
"""What can be asked about: what is measured, and whether a regular expression may follow."""

UNITS: Final[Mapping[str, tuple[str, int]]] = {
    **{unit: (TIME, 1000**power) for power, unit in enumerate(("ns", "us", "ms", "s"))},
    **{unit: (SIZE, 1000**power) for power, unit in enumerate(("B", "kB", "MB", "GB"))},
}

GRAMMAR: Final = """WHAT[:REGEX]>LIMIT, e.g. 'step>2%', 'launches>0', 'kernel:flash>5%', 'step>500us'
WHAT   step, compute, comm, copy, idle[:CAUSE], family:REGEX, kernel:REGEX, range:REGEX, call:REGEX (time);
       launches (a count); copied, memory (bytes)
LIMIT  a number with %, ns, us, ms, s, B, kB, MB or GB behind it, or nothing for counts and for 0"""

_FORM: Final = re.compile(r"(?P<what>[a-z]+)(?::(?P<pattern>.+))?>(?P<limit>\d+(?:\.\d+)?) ?(?P<unit>%|[A-Za-z]*)")


class BadExpression(ValueError):
    """An expression that is none; the text says why."""


class DiffGate(Struct, frozen=True):
    """One expression, understood."""

    text: str
    what: str
    pattern: str | None
    limit: Decimal  # in per cent, nanoseconds, bytes or pieces
    is_share: bool

    @property
    def measures(self) -> str:
        return KINDS[self.what][0]


class GateOutcome(Row, frozen=True):
    """What became of one gate. Values are per step, in nanoseconds, bytes or pieces."""

    gate: Annotated[str, Label(say("Gate"))]
    verdict: Annotated[Verdict, Label(say("Verdict"))]
    measures: Annotated[str, Label(say("Measures"), meaning="time, count or size")]
    before: Annotated[float, Label(say("Before"), Unit.AMOUNT)]
    after: Annotated[float, Label(say("After"), Unit.AMOUNT)]
    change_share: Annotated[float | None, Label(say("Change"), Unit.CHANGE)]
    interval: tuple[float, float] | None
    """Of the change."""
    no_interval: str | None
    """Why there is none."""
    tripped: bool
    """Whether it fails, or is undecided where that counts as a failure."""
    may_be_noise: bool
    """Whether it is over the limit, but may be chance."""
    deciding_steps: Annotated[int | None, Label(say("Steps needed"), Unit.COUNT)]
    """So many steps a side would decide what is undecided; null where nothing is, or no number would."""


def parse_gate(text: str) -> DiffGate:
    """An expression understood, or BadExpression."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadExpression(f"{text!r} is no gate")
    what, pattern, unit, limit = match["what"], match["pattern"], match["unit"], Decimal(match["limit"])
    if what not in KINDS:
        raise BadExpression(f"{text!r}: there is no {what!r} to compare")
    measures, takes_pattern = KINDS[what]
    if pattern is not None and not takes_pattern:
        raise BadExpression(f"{text!r}: {what} takes no regular expression")
    if pattern is None and what in ("family", "kernel", "range", "call"):
        raise BadExpression(f"{text!r}: which {what}? Write {what}:REGEX>...")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise BadExpression(f"{text!r}: {pattern!r} is no regular expression: {error}") from None
    if unit != "%" and (unit or (limit and measures != COUNT)):
        if unit not in UNITS:
            why = f"{unit!r} is no unit" if unit else f"a {measures} needs a unit"
            raise BadExpression(f"{text!r}: {why}")
        of, factor = UNITS[unit]
        if of != measures:
            raise BadExpression(f"{text!r}: {unit} is no unit of a {measures}")
        limit *= factor
    return DiffGate(text.strip(), what, pattern, limit, unit == "%")


def outcome(gate: DiffGate, diff: Diff, *, undecided: Literal["fail", "pass"] = "pass") -> GateOutcome:
    """Whether the comparison trips the gate; NothingRecorded where that cannot be told."""
    before, after, interval = _measured(gate, diff)
    limit = float(gate.limit / 100 * Decimal(before) if gate.is_share else gate.limit)
    if gate.what == "step":  # less is no change, however sure
        limit = max(limit, LEAST_SHARE * before)
    grown, steps = after - before, min(diff.before.steps, diff.after.steps)
    unsure = UNSURE_SHARE * before if gate.what == "step" else 0.0
    ends = (
        (grown - unsure, grown + unsure) if isinstance(interval, NotMeasured) else (interval.low_ns, interval.high_ns)
    )
    change = DoubtfulFigure(grown, min(grown, ends[0]), max(grown, ends[1]), steps)
    verdict = change.at_most(limit)
    is_open = verdict == UNDECIDED
    return GateOutcome(
        gate=gate.text,
        verdict=verdict,
        measures=gate.measures,
        before=before,
        after=after,
        change_share=grown / before if before else None if after else 0.0,
        interval=None if isinstance(interval, NotMeasured) else (interval.low_ns, interval.high_ns),
        no_interval=interval.reason if isinstance(interval, NotMeasured) else None,
        tripped=verdict == FAIL or (is_open and undecided == "fail"),
        may_be_noise=is_open and grown > limit,
        deciding_steps=change.deciding_samples(limit) if is_open else None,
    )


_Values = tuple[float, float, Interval | NotMeasured]  # a value per step before and after, and what the noise allows


def _measured(gate: DiffGate, diff: Diff) -> _Values:
    sides = (diff.before, diff.after)
    match gate.what:
        case "step":
            if diff.verdict is None:
                raise _unknown(gate, "`nsys stats` tables do not show how long a step takes")
            return diff.before.median_ns, diff.after.median_ns, diff.interval
        case "launches":
            launches = [side.launches.per_step for side in sides if side.launches is not None]
            if len(launches) < len(sides):
                raise _unknown(gate, "launch calls are not recorded on both sides")
            return _by_step(*launches)
        case "memory":
            peaks = [side.peak_bytes for side in sides if side.peak_bytes is not None]
            if len(peaks) < len(sides):
                raise _unknown(
                    gate, "memory in use is not recorded on both sides; nsys does with --cuda-memory-usage=true"
                )
            return peaks[0], peaks[1], NotMeasured("one figure a side")
        case "copied":
            return _sums(sides, lambda side: sum(copied.bytes or 0 for copied in side.copies))
        case "kernel" | "range" | "call":
            return _named(gate, sides)
        case _:
            return _lines(gate, sides)


def _sums(sides: tuple[RunSide, RunSide], total: Callable[[RunSide], int]) -> _Values:
    before, after = (total(side) / side.steps for side in sides)
    return before, after, NotMeasured("a sum")


def _named(gate: DiffGate, sides: tuple[RunSide, RunSide]) -> _Values:
    """Kernels, ranges or calls whose names match; with an interval where all of them are known step by step."""
    totals, vectors, names = list[float](), list[list[int]](), list[str]()
    is_any = False
    for side in sides:
        total, by_step, every = _matching(side, gate)
        totals.append(total / side.steps)
        names += every
        is_any = is_any or bool(by_step)
        known = [amounts for amounts in by_step if amounts is not None]
        if len(known) == len(by_step):
            vectors.append([sum(amounts) for amounts in zip([0] * side.steps, *known, strict=True)])
    if not is_any:
        raise _unknown(gate, f"no {gate.what} matches", list(dict.fromkeys(names)))
    interval = mean_interval(*vectors) if len(vectors) == len(sides) else NotMeasured("not known step by step")
    return totals[0], totals[1], interval


def _matching(side: RunSide, gate: DiffGate) -> tuple[int, list[tuple[int, ...] | None], list[str]]:
    """Time in all steps, the same by step for each name that matches (None: not known), and all names there are."""
    if gate.what == "kernel":
        every = (*side.kernels, *side.comm)
        kernels = [kernel for kernel in every if _matches(gate, kernel.name)]
        by_step = [side.kernel_steps.get(name) for name in dict.fromkeys(kernel.bare for kernel in kernels)]
        return sum(kernel.time_ns for kernel in kernels), by_step, [kernel.name for kernel in every]
    if gate.what == "call":
        calls = [call for call in side.calls or () if _matches(gate, call.name)]
        return sum(call.time_ns for call in calls), [None] * len(calls), [call.name for call in side.calls or ()]
    ranges = [run_range for run_range in side.ranges or () if _matches(gate, run_range.name)]
    names = {run_range.name for run_range in ranges}
    outer = [run_range for run_range in ranges if names.isdisjoint(run_range.inside)] or ranges[:1]
    by_step = [side.range_steps.get(run_range.name) for run_range in outer]
    return sum(run_range.host_ns for run_range in outer), by_step, [run_range.name for run_range in side.ranges or ()]


def _lines(gate: DiffGate, sides: tuple[RunSide, RunSide]) -> _Values:
    """Lines of the ledger: compute, a family of it, exposed communication and copies, idle time."""
    if any(side.whole == KERNEL_TIME for side in sides):
        if gate.what not in ("family", "compute"):
            raise _unknown(gate, "tables of `nsys stats` do not say when the GPU was idle")
        return _sums(
            sides, lambda side: sum(kernel.time_ns for kernel in side.kernels if _matches(gate, kernel.family))
        )

    kind = LineKind.COMPUTE if gate.what == "family" else LineKind(gate.what)

    def belongs(line: Line) -> bool:
        return line.kind is kind and (gate.pattern is None or _matches(gate, line.detail))

    every = [line for side in sides for line in side.lines]
    if gate.pattern is not None and not any(map(belongs, every)):
        names = dict.fromkeys(line.detail for line in every if line.kind is kind and line.detail)
        raise _unknown(gate, f"no {gate.what} matches", list(names))
    return _by_step(*(side.line_steps(belongs).tolist() for side in sides))


def _by_step(before: Sequence[int], after: Sequence[int]) -> _Values:
    return sum(before) / len(before), sum(after) / len(after), mean_interval(before, after)


def _matches(gate: DiffGate, name: str) -> bool:
    return gate.pattern is None or NamePattern(gate.pattern).search(name) is not None


def _unknown(gate: DiffGate, why: str, names: Sequence[str] = ()) -> NothingRecorded:
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return NothingRecorded(f"--fail-on '{gate.text}': {why}", found=f"there are: {shown}" if names else "")

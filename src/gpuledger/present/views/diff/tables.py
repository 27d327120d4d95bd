"""The tables of a comparison: why (the parts), launches, kernels, calls, ranges, memory, gates; and changes as text.

A change is signed and has a unit; before and after stand in one unit where one serves both (`17.8 -> 1.28 ms`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from gpuledger.analyse.diff.compare import (
    AVOIDABLE,
    CALLS,
    LIGHT,
    LOST,
    MIX,
    OTHER_COMPUTE,
    OVERLAP,
    PER_CALL,
    UNKNOWN,
    UNLIKE,
    BusyChange,
    Diff,
    DiffPart,
    UseChange,
)
from gpuledger.analyse.diff.gate import COUNT, TIME, GateOutcome
from gpuledger.analyse.diff.noise import Controls
from gpuledger.analyse.diff.run_side import STEP
from gpuledger.answers.several_profiles import Compared, PerStep, RangeChange, change_share
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line, LineKind
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, three_figures, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

MOST_KERNELS: Final = 10
MOST_CALLS: Final = 8
MOST_RANGES: Final = 10
MOST_USES: Final = 12
_ROOM: Final = 8
"""Columns of a bar on each side of its axis."""

_NAME: Final = 20
"""Letters of a kernel's name beside a part: with them a line of the waterfall fits 80 columns."""

_LITTLE: Final = 0.0005
"""Rows of tables are left out if they changed by less than this share of the step."""

_NAMED_CONTROLS: Final = 6

ARROW: Final = "->"
_TIME_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))

_EXPOSED: Final = {LineKind.COMM: say("exposed communication"), LineKind.COPY: say("exposed copies")}

_PART_WORDS: Final = {
    CALLS: say("calls{per}", per=""),
    PER_CALL: say("time per call"),
    MIX: say("mix"),
    OVERLAP: say("overlap"),
    OTHER_COMPUTE: say("other compute"),
    UNLIKE: say("unlike steps"),
}

_LEVEL_WORDS: Final = {
    "place": say("place"),
    "shape": say("shape"),
    "name": say("name"),
    "function": say("function"),
    "family": say("family"),
    "new": say("new"),
    "vanished": say("vanished"),
    "operator": say("operator"),
    "numbers": say("numbers"),
    "renamed": say("renamed"),
}
"""How kernels and ranges were paired."""

_T = TypeVar("_T")


def signed_time(ns: float) -> str:
    """A change of a duration: -822142 -> '-822 us'; nothing is '0'."""
    whole = round(ns)
    return f"{_sign(whole)}{time_text(abs(whole))}" if whole else "0"


def signed_share(share: float) -> str:
    """A change as a share: 0.123 -> '+12.3 %'; what was not there before is 'new'."""
    if math.isinf(share):
        return say("new")
    return f"{100 * share:+.1f} %" if round(1000 * share) else "0.0 %"


def interval_text(low_ns: float, high_ns: float) -> str:
    """'95 % interval -4.60 to -3.90 ms'."""
    factor, unit = _time_unit(max(abs(low_ns), abs(high_ns)))
    low, high = (f"{_sign(end)}{three_figures(abs(end) / factor)}" for end in (low_ns, high_ns))
    return say("95 % interval {interval}", interval=say("{low} to {high} {unit}", low=low, high=high, unit=unit))


def times(before_ns: float, after_ns: float) -> str:
    """'17.8 -> 1.28 ms' where one unit serves both, else each with its own; a side that there is none of is '-'."""
    unit = _time_unit(before_ns)
    if before_ns and after_ns and unit == _time_unit(after_ns):
        return f"{three_figures(before_ns / unit[0])} {ARROW} {three_figures(after_ns / unit[0])} {unit[1]}"
    before, after = (time_text(round(ns)) if ns else "-" for ns in (before_ns, after_ns))
    return f"{before} {ARROW} {after}"


def _shares_text(before: float | None, after: float | None) -> str:
    """'15.4 -> 18.8 %'; a side that there is none of is '-', and nothing at all is empty."""
    if before is None and after is None:
        return ""
    one, other = ("-" if share is None else f"{100 * share:.1f}" for share in (before, after))
    return f"{one} {ARROW} {other} %"


def _sizes(before: float, after: float) -> str:
    return f"{bytes_text(round(before))} {ARROW} {bytes_text(round(after))}"


def _counts(before: float, after: float) -> str:
    """'314 -> 2'; a count per step may have decimals."""
    return f"{_count_text(before)} {ARROW} {_count_text(after)}"


def _count_text(count: float) -> str:
    """A count per step: whole where it nearly is, else to three figures."""
    nearest = round(count)
    if abs(count - nearest) < 0.005 or abs(count) >= 1000:
        return f"{nearest:,}"
    return three_figures(count)


def _bar(amount: float, largest: float, *, left: bool, right: bool) -> str:
    """A signed bar around an axis: below zero to the left of it. Sides that no bar needs are left out."""
    halves = round(2 * _ROOM * abs(amount) / largest) if largest else 0
    drawn = "█" * (halves // 2)
    below = ("▐" * (halves % 2) + drawn if amount < 0 else "").rjust(_ROOM) if left else ""
    above = (drawn + "▌" * (halves % 2) if amount > 0 else "").ljust(_ROOM) if right else ""
    return f"{below}│{above}"


def _time_unit(ns: float) -> tuple[int, str]:
    return next((unit for unit in _TIME_UNITS if abs(ns) >= unit[0]), _TIME_UNITS[-1])


def _sign(amount: float) -> str:
    return "-" if amount < 0 else "+" if amount > 0 else ""


def part_name(part: str) -> str:
    """How people call a part."""
    if not isinstance(part, Line):
        return _PART_WORDS[part]
    return part.label if part.is_idle else _EXPOSED[part.kind]


def parts_sheet(found: Diff) -> Sheet:
    """The parts as a waterfall, largest first, and their sum."""
    largest = max((abs(part.ns) for part in found.parts), default=0)
    left, right = any(part.ns < 0 for part in found.parts), any(part.ns > 0 for part in found.parts)
    parts: list[DiffPart] = sorted((part for part in found.parts if part.ns), key=lambda part: -abs(part.ns))
    total: dict[str, Cell] = {
        "part": TOTAL,
        "change": signed_time(found.delta_ns),
        "bar": "",
        "what": times(found.before.median_ns, found.after.median_ns),
    }
    columns = (
        Column("part", say("Part"), Unit.TEXT, lambda part: part_name(part.name)),
        Column("change", say("Change"), Unit.FIGURE, lambda part: signed_time(part.ns)),
        Column("bar", "", Unit.TEXT, lambda part: _bar(part.ns, largest, left=left, right=right), detail=2),
        Column("what", say("What changed"), Unit.TEXT, lambda part: _what_changed(found, part.name), detail=1),
    )
    return Sheet.of("diff_parts", say("Why"), columns, parts, foot=(total,))


BUSY_NAMES: Final = {
    LIGHT: say("light: the work itself"),
    LOST: say("lost: time beyond that"),
    AVOIDABLE: say("avoidable work"),
    UNKNOWN: say("unknown"),
}


def busy_sheet(changed: Sequence[BusyChange]) -> Sheet:
    """Compute by what it was good for, before and after; sums to the change in compute."""
    whole_ns = sum(change.delta_ns for change in changed)
    total: dict[str, Cell] = {
        "what": say("compute"),
        "before_ns": sum(change.before_ns for change in changed),
        "after_ns": sum(change.after_ns for change in changed),
        "change": signed_time(whole_ns),
    }
    columns = (
        Column("what", say("Compute"), Unit.TEXT, lambda change: BUSY_NAMES[change.name]),
        Column("before_ns", say("Before"), Unit.NS),
        Column("after_ns", say("After"), Unit.NS),
        Column("change", say("Change"), Unit.FIGURE, lambda change: signed_time(change.delta_ns)),
    )
    return Sheet.of("diff_busy", say("Compute at the speed of light"), columns, changed, foot=(total,))


def phases_sheet(changed: Sequence[BusyChange]) -> Sheet:
    """Phases of a layer, idle time and other work, before and after: sums to the mean step."""
    columns = (
        Column("phase", say("Phase"), Unit.TEXT, "name"),
        Column("before_ns", say("Before"), Unit.MEAN_NS),
        Column("after_ns", say("After"), Unit.MEAN_NS),
        Column("change", say("Change"), Unit.FIGURE, lambda change: signed_time(change.delta_ns)),
    )
    return Sheet.of("diff_phases", say("Phases of a layer"), columns, changed)


def _what_changed(found: Diff, part: str) -> str:
    before, after = found.before, found.after
    if part in (CALLS, MIX):
        chosen = [change for change in found.changes if bool(change.by_mix_ns) == (part == MIX)]
        numbers = [sum(change.calls[side] for change in chosen) for side in (0, 1)]
        levels = [change.pair.level for change in chosen]
        words: list[str] = [say("{count} kernels", count=_counts(numbers[0], numbers[1]))]
        if "new" in levels:
            words.append(say("{count} new", count=levels.count("new")))
        if "vanished" in levels:
            words.append(say("{count} gone", count=levels.count("vanished")))
        return joined(say(", "), words)
    if part == PER_CALL:
        most = max(found.changes, key=lambda change: abs(change.by_time_ns))
        short, _, inner = label(most.pair.first.name).partition("…")
        return say("most in {kernel}", kernel=cut_label(inner or short, _NAME))
    if part == OVERLAP:
        return say("side by side: {times}", times=times(*(side.overlap_ns / side.steps for side in (before, after))))
    if part == OTHER_COMPUTE:
        return say("started before the steps")
    if part == UNLIKE:
        return say("skew {times}", times=times(before.mean_ns - before.median_ns, after.mean_ns - after.median_ns))
    line = Line(part)
    return times(before.shown_mean_ns.get(line, 0.0), after.shown_mean_ns.get(line, 0.0))


def launches_sheet(before: PerStep, after: PerStep, whole: str) -> Sheet:
    """Number, time and cost of launches told apart."""
    per = say(" per step") if whole == STEP else ""
    each = [side.ns / side.count if side.count else 0.0 for side in (before, after)]
    return Sheet.of(
        "diff_launches",
        say("Launches"),
        (
            Column("figure", "", Unit.TEXT, lambda row: row[0]),
            Column("before", say("Before"), Unit.FIGURE, lambda row: row[1](row[2])),
            Column("after", say("After"), Unit.FIGURE, lambda row: row[1](row[3])),
            Column("change", say("Change"), Unit.FIGURE, lambda row: signed_share(change_share(row[2], row[3]))),
        ),
        (
            (say("calls{per}", per=per), _count_text, before.count, after.count),
            (say("time in them{per}", per=per), _rounded_time, before.ns, after.ns),
            (say("time each"), _rounded_time, each[0], each[1]),
        ),
    )


def _rounded_time(ns: float) -> str:
    return time_text(round(ns))


def kernels_sheet(found: Diff) -> Sheet:
    """The kernels that changed the most."""
    return Sheet.of(
        "diff_kernels",
        say("Kernels"),
        (
            Column("kernel", say("Kernel"), Unit.TEXT, "pair.first.name", shorten=label),
            Column("match", say("Match"), Unit.TEXT, lambda change: _LEVEL_WORDS[change.pair.level], detail=1),
            Column("calls", say("Calls"), Unit.FIGURE, lambda change: _counts(*change.calls)),
            Column("each", say("Time each"), Unit.FIGURE, lambda change: times(*change.each_ns)),
            Column("change", say("Change"), Unit.FIGURE, lambda change: signed_time(change.ns[1] - change.ns[0])),
        ),
        _largest((*found.changes, *found.comm), lambda change: change.delta_ns, found, MOST_KERNELS),
    )


_Both = tuple[str, tuple[PerStep, PerStep]]
"""A name, and what both sides do of it."""


def _counts_of(row: _Both) -> str:
    return _counts(row[1][0].count, row[1][1].count)


def _times_of(row: _Both) -> str:
    return times(row[1][0].ns, row[1][1].ns)


def calls_sheet(compared: Compared) -> Sheet:
    """The CUDA functions that changed the most on the host."""

    def moved(row: _Both) -> float:
        return row[1][1].ns - row[1][0].ns

    def each(row: _Both) -> str:
        before, after = (side.ns / side.count if side.count else 0.0 for side in row[1])
        return times(before, after)

    columns = (
        Column("function", say("CUDA call"), Unit.TEXT, lambda row: row[0]),
        Column("calls", say("Calls"), Unit.FIGURE, _counts_of),
        Column("each", say("Time each"), Unit.FIGURE, each, detail=1),
        Column("change", say("Time"), Unit.FIGURE, lambda row: signed_time(moved(row))),
        Column("share", say("Change"), Unit.FIGURE, lambda row: signed_share(change_share(row[1][0].ns, row[1][1].ns))),
    )
    title = say("CUDA calls")
    return Sheet.of("diff_calls", title, columns, _largest(compared.calls.items(), moved, compared.diff, MOST_CALLS))


def ranges_sheet(compared: Compared) -> Sheet:
    """The ranges that changed the most on the host; corrected by the controls where there are any."""
    found = compared.diff
    controls = found.controls if isinstance(found.controls, Controls) else None
    corrects = controls is not None and not controls.is_noise
    of_whole = say("Share of step") if found.before.whole == STEP else say("Of the whole")

    def role(change: RangeChange) -> Message:
        is_control = controls is not None and change.pair.name in controls.names
        return say("control") if is_control else _LEVEL_WORDS[change.pair.level]

    def corrected(change: RangeChange) -> str:
        return "" if change.corrected_share is None else signed_share(change.corrected_share)

    columns = (
        Column("range", say("Range"), Unit.TEXT, "pair.name"),
        Column("match", say("Match"), Unit.TEXT, role, detail=2),
        Column("host", say("Host time"), Unit.FIGURE, lambda change: times(*change.host_ns)),
        Column("share", say("Change"), Unit.FIGURE, lambda change: signed_share(change.share)),
        Column("of_whole", of_whole, Unit.FIGURE, lambda change: _shares_text(*change.of_whole), detail=1),
        *((Column("corrected", say("Corrected"), Unit.FIGURE, corrected, detail=1),) if corrects else ()),
        Column("gpu", say("GPU time"), Unit.FIGURE, lambda change: times(*change.gpu_ns) if change.gpu_ns else "", 3),
    )
    chosen = _largest(compared.ranges, lambda change: change.host_ns[1] - change.host_ns[0], found, MOST_RANGES)
    return Sheet.of("diff_ranges", say("Ranges"), columns, chosen)


def memory_sheet(compared: Compared) -> Sheet:
    """Copies by kind, allocation calls, and the most memory in use, where they changed."""
    allocating = {call.name for side in compared.sides for call in side.calls or () if call.kind == "alloc"}
    copies = [
        (kind, (old, new))
        for kind, (old, new) in compared.copies.items()
        if (old.count, old.bytes) != (new.count, new.bytes)
    ]
    calls = [row for row in compared.calls.items() if row[0] in allocating and row[1][0].count != row[1][1].count]
    peaks = [side.peak_bytes for side in compared.sides]

    def sizes(row: _Both) -> str:
        before, after = (side.bytes for side in row[1])
        return "" if row[0] in allocating or before is None or after is None else _sizes(before, after)

    rows: list[_Both | dict[str, Cell]] = [*copies, *calls]
    if peaks[0] is not None and peaks[1] is not None and peaks[0] != peaks[1]:
        rows.append({"memory": say("peak in use"), "count": "", "bytes": _sizes(peaks[0], peaks[1]), "time": ""})
    columns = (
        Column("memory", say("Memory"), Unit.TEXT, lambda row: row[0]),
        Column("count", say("Number"), Unit.FIGURE, _counts_of),
        Column("bytes", say("Bytes"), Unit.FIGURE, sizes),
        Column("time", say("Time"), Unit.FIGURE, _times_of, detail=1),
    )
    return Sheet.of("diff_memory", say("Memory"), columns, rows)


def use_sheet(changes: Sequence[UseChange]) -> Sheet:
    """What the same kernels use of the GPU before and after, where both have samples; the most time first."""
    from gpuledger.present.views.utilization import NAMES, figure_text  # few profiles have samples

    def points(change: UseChange) -> Message:
        return say("{points} points", points=f"{change.points:+.0f}")

    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT, "after_kernel.name", shorten=label),
        Column("counter", say("Counter"), Unit.TEXT, lambda change: NAMES[change.metric]),
        Column("before", say("before"), Unit.FIGURE, lambda change: figure_text(change.before)),
        Column("after", say("after"), Unit.FIGURE, lambda change: figure_text(change.after)),
        Column("change", say("Change"), Unit.FIGURE, points),
    )
    return Sheet.of("diff_use", say("GPU utilization of matched kernels"), columns, changes[:MOST_USES])


def gates_sheet(outcomes: Sequence[GateOutcome]) -> Sheet:
    """Each gate with its figures and what became of it."""

    def result(outcome: GateOutcome) -> Term:
        badge = "bad" if outcome.tripped else "warn" if outcome.verdict == UNDECIDED else "good"
        return Term(outcome.verdict, _VERDICT_WORDS[outcome.verdict], badge=badge)

    columns = [
        Column("gate", say("Gate"), Unit.TEXT, "gate.text"),
        Column("values", say("Before -> after"), Unit.FIGURE, gate_values),
        Column("change", say("Change"), Unit.FIGURE, lambda outcome: signed_share(outcome.share)),
        Column("result", say("Result"), Unit.TEXT, result),
    ]
    if any(outcome.verdict == UNDECIDED for outcome in outcomes):
        columns += [
            Column("interval", say("95 % interval"), Unit.TEXT, _gate_interval),
            Column("deciding_steps", say("Steps needed"), Unit.COUNT),
        ]
    return Sheet.of("diff_gates", say("Gates"), tuple(columns), outcomes)


_VERDICT_WORDS: Final = {PASS: say("PASS"), FAIL: say("FAIL"), UNDECIDED: say("UNDECIDED")}


def _gate_interval(outcome: GateOutcome) -> str:
    """Of the change, as a share where there was anything before."""
    if isinstance(outcome.interval, NotMeasured):
        return "-"
    ends = outcome.interval.low_ns, outcome.interval.high_ns
    start, end = (signed_share(change / outcome.before) if outcome.before else f"{change:+.4g}" for change in ends)
    return say("{start} to {end}", start=start, end=end)


def gate_values(outcome: GateOutcome) -> str:
    """Before and after, in the gate's unit."""
    return {TIME: times, COUNT: _counts}.get(outcome.gate.measures, _sizes)(outcome.before, outcome.after)


def gate_result(outcome: GateOutcome) -> str:
    """In a word, and where that is undecided the interval and what would decide."""
    if outcome.verdict != UNDECIDED:
        return _VERDICT_WORDS[outcome.verdict]
    if isinstance(outcome.interval, NotMeasured):
        return say("UNDECIDED: {why}", why=outcome.interval.reason)
    if outcome.deciding_steps is None:
        return say("UNDECIDED: {interval}; record several runs", interval=_gate_interval(outcome))
    steps = count_text(outcome.deciding_steps)
    return say(
        "UNDECIDED: {interval}; {steps} steps a side would decide", interval=_gate_interval(outcome), steps=steps
    )


def controls_text(controls: Controls, delta_ns: int) -> str:
    """What the controls say, in sentences."""
    listed = joined(say(", "), controls.names[:_NAMED_CONTROLS])
    more = len(controls.names) - _NAMED_CONTROLS
    went = say(
        "Controls: {ranges} {why}; their host time went {times} ({change})",
        ranges=say("{names} and {count} more", names=listed, count=more) if more > 0 else listed,
        why=say("did not change")
        if controls.known
        else say("have the same name and number on both sides, and are taken to be unchanged"),
        times=times(controls.before_ns, controls.after_ns),
        change=signed_share(controls.ratio - 1),
    )
    if controls.is_noise:
        return say("{controls}, which may be noise: no correction.", controls=went)
    pace = (
        say("{controls}, so the host itself was slower.", controls=went)
        if controls.ratio > 1
        else say("{controls}, so the host itself was faster.", controls=went)
    )
    if controls.corrected_delta_ns is None:
        return say("{controls} Corrected changes of ranges are shown next to the raw ones.", controls=pace)
    return say(
        "{controls} With host-caused idle time scaled to the speed before, {raw} becomes {corrected}.",
        controls=pace,
        raw=signed_time(delta_ns),
        corrected=signed_time(controls.corrected_delta_ns),
    )


def _largest(rows: Iterable[_T], moved: Callable[[_T], float], found: Diff, most: int) -> list[_T]:
    """The rows that changed the most, those that hardly did left out."""
    least = _LITTLE * min(found.before.median_ns, found.after.median_ns)
    return [row for row in sorted(rows, key=lambda row: -abs(moved(row))) if abs(moved(row)) > least][:most]

"""The tables of a comparison: why (the parts), launches, kernels, calls, ranges, memory, gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gpuledger.analyse.diff.compare import CALLS, MIX, OTHER_COMPUTE, PER_CALL, UNLIKE, Diff, TimeChange
from gpuledger.analyse.diff.gate import COUNT, TIME, GateOutcome
from gpuledger.analyse.diff.noise import Controls
from gpuledger.analyse.diff.pairs import RangePair
from gpuledger.analyse.diff.run_side import STEP, Call, Copied, RunSide
from gpuledger.analyse.range_tree import range_shares
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line, LineKind
from gpuledger.messages import joined, say
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.diff.figures import (
    bar,
    change_share,
    count_of,
    counts,
    interval_text,
    shares_text,
    signed_share,
    signed_time,
    sizes,
    times,
)
from gpuledger.units import bytes_text, time_text

MOST_KERNELS: Final = 10
MOST_CALLS: Final = 8
MOST_RANGES: Final = 10
_ROOM: Final = 8
"""Columns of a bar on each side of its axis."""

_NAME: Final = 20
"""Letters of a kernel's name beside a part: with them a line of the waterfall fits 80 columns."""

_LITTLE: Final = 0.0005
"""Rows of tables are left out if they changed by less than this share of the step."""

_EXPOSED: Final = {LineKind.COMM: say("exposed communication"), LineKind.COPY: say("exposed copies")}

_PART_WORDS: Final = {
    CALLS: say("calls{per}", per=""),
    PER_CALL: say("time per call"),
    MIX: say("mix"),
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
    "numbers": say("numbers"),
    "renamed": say("renamed"),
}
"""How kernels and ranges were paired."""


def part_name(part: str) -> str:
    """How people call a part."""
    if not isinstance(part, Line):
        return _PART_WORDS[part]
    return part.label if part.is_idle else _EXPOSED[part.kind]


def parts_sheet(found: Diff) -> Sheet:
    """The parts as a waterfall, largest first, and their sum."""
    largest = max((abs(part.ns) for part in found.parts), default=0)
    left, right = any(part.ns < 0 for part in found.parts), any(part.ns > 0 for part in found.parts)
    rows: list[tuple[Cell, ...]] = []
    for part in sorted(found.parts, key=lambda each: -abs(each.ns)):
        if part.ns:
            drawn = bar(part.ns, largest, _ROOM, left=left, right=right)
            rows.append((part_name(part.name), signed_time(part.ns), drawn, _what_changed(found, part.name)))
    total = (TOTAL, signed_time(found.delta_ns), "", times(found.before.median_ns, found.after.median_ns))
    columns = (
        Column("part", say("Part"), Unit.TEXT),
        Column("change", say("Change"), Unit.FIGURE),
        Column("bar", "", Unit.TEXT, detail=2),
        Column("what", say("What changed"), Unit.TEXT, detail=1),
    )
    return Sheet("diff_parts", say("Why"), columns, tuple(rows), foot=(total,))


def _what_changed(found: Diff, part: str) -> str:
    before, after = found.before, found.after
    if part in (CALLS, MIX):
        chosen = [change for change in found.changes if bool(change.by_mix_ns) == (part == MIX)]
        numbers = [sum(change.calls[at] for change in chosen) for at in (0, 1)]
        levels = [change.pair.level for change in chosen]
        said: list[str] = [say("{count} kernels", count=counts(numbers[0], numbers[1]))]
        if "new" in levels:
            said.append(say("{count} new", count=levels.count("new")))
        if "vanished" in levels:
            said.append(say("{count} gone", count=levels.count("vanished")))
        return joined(say(", "), said)
    if part == PER_CALL:
        most = max(found.changes, key=lambda change: abs(change.by_time_ns))
        short, _, inner = label(most.pair.first.name).partition("…")
        return say("most in {kernel}", kernel=cut_label(inner or short, _NAME))
    if part == OTHER_COMPUTE:
        return say("started before the steps")
    if part == UNLIKE:
        away = [side.mean_ns - side.median_ns for side in (before, after)]
        return say("skew {times}", times=times(*away))
    line = Line(part)
    return times(before.line_mean_ns(line), after.line_mean_ns(line))


def launches_sheet(before: RunSide, after: RunSide) -> Sheet | None:
    """Number, time and cost of launches told apart; None where launch calls are not recorded."""
    if before.launches is None or after.launches is None:
        return None
    sides = [(side.launches, side.steps) for side in (before, after) if side.launches is not None]
    n = [launches.calls / steps for launches, steps in sides]
    t = [launches.time_ns / steps for launches, steps in sides]
    each = [launches.time_ns / launches.calls if launches.calls else 0.0 for launches, _ in sides]
    columns = (
        Column("figure", "", Unit.TEXT),
        Column("before", say("Before"), Unit.FIGURE),
        Column("after", say("After"), Unit.FIGURE),
        Column("change", say("Change"), Unit.FIGURE),
    )
    per = say(" per step") if before.whole == STEP else ""
    rows = (
        (say("calls{per}", per=per), count_of(n[0]), count_of(n[1]), signed_share(change_share(*n))),
        (say("time in them{per}", per=per), *(time_text(round(ns)) for ns in t), signed_share(change_share(*t))),
        (say("time each"), *(time_text(round(ns)) for ns in each), signed_share(change_share(*each))),
    )
    return Sheet("diff_launches", say("Launches"), columns, rows)


def kernels_sheet(found: Diff) -> Sheet:
    """The kernels that changed the most."""
    changed = _largest((*found.changes, *found.comm), lambda change: change.delta_ns, found, MOST_KERNELS)
    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT, shorten=label),
        Column("match", say("Match"), Unit.TEXT, detail=1),
        Column("calls", say("Calls"), Unit.FIGURE),
        Column("each", say("Time each"), Unit.FIGURE),
        Column("change", say("Change"), Unit.FIGURE),
    )
    rows = tuple(_kernel(change) for change in changed)
    return Sheet("diff_kernels", say("Kernels"), columns, rows)


def _kernel(change: TimeChange) -> tuple[Cell, ...]:
    moved = change.ns[1] - change.ns[0]
    return (
        change.pair.first.name,
        _LEVEL_WORDS[change.pair.level],
        counts(*change.calls),
        times(*change.each_ns),
        signed_time(moved),
    )


def calls_sheet(found: Diff) -> Sheet:
    """The CUDA functions that changed the most on the host."""
    rows = []
    for name, one, other in _largest(calls_paired(found), lambda row: row[2][1] - row[1][1], found, MOST_CALLS):
        each = [ns / count if count else 0.0 for count, ns in (one, other)]
        change = signed_time(other[1] - one[1])
        rows.append(
            (name, counts(one[0], other[0]), times(*each), change, signed_share(change_share(one[1], other[1])))
        )
    columns = (
        Column("function", say("CUDA call"), Unit.TEXT),
        Column("calls", say("Calls"), Unit.FIGURE),
        Column("each", say("Time each"), Unit.FIGURE, detail=1),
        Column("change", say("Time"), Unit.FIGURE),
        Column("share", say("Change"), Unit.FIGURE),
    )
    return Sheet("diff_calls", say("CUDA calls"), columns, tuple(rows))


_T = TypeVar("_T")

Counted = tuple[str, tuple[float, float], tuple[float, float]]
"""A name, and calls and time per step before and after."""


def calls_paired(found: Diff) -> list[Counted]:
    """CUDA functions on either side, the most time first."""
    sides: list[dict[str, Call]] = [
        {call.name: call for call in side.calls or ()} for side in (found.before, found.after)
    ]
    rows = []
    for name in dict.fromkeys((*sides[0], *sides[1])):
        held = [calls.get(name) for calls in sides]
        numbers = [
            (call.calls / side.steps, call.time_ns / side.steps) if call is not None else (0.0, 0.0)
            for call, side in zip(held, (found.before, found.after), strict=True)
        ]
        rows.append((name, numbers[0], numbers[1]))
    return sorted(rows, key=lambda row: (-max(row[1][1], row[2][1]), row[0]))


def ranges_sheet(found: Diff) -> Sheet:
    """The ranges that changed the most on the host; corrected by the controls where there are any."""
    guards = found.controls if isinstance(found.controls, Controls) else None
    corrects = guards is not None and not guards.is_noise
    wholes = RangeWholes(found)

    def row(pair: RangePair) -> tuple[Cell, ...]:
        host = range_host_ns(found, pair)
        share = change_share(*host)
        corrected = signed_share((1 + share) / guards.ratio - 1) if guards is not None and guards.corrects(pair) else ""
        role = say("control") if guards is not None and pair.name in guards.names else _LEVEL_WORDS[pair.level]
        gpu = [_gpu_ns(found, pair, at) for at in (0, 1)]
        on_gpu = "" if gpu[0] is None or gpu[1] is None else times(gpu[0], gpu[1])
        return (pair.name, role, times(*host), signed_share(share), shares_text(*wholes.of(pair)), corrected, on_gpu)

    chosen = _largest(
        found.ranges, lambda pair: range_host_ns(found, pair)[1] - range_host_ns(found, pair)[0], found, MOST_RANGES
    )
    columns = (
        Column("range", say("Range"), Unit.TEXT),
        Column("match", say("Match"), Unit.TEXT, detail=2),
        Column("host", say("Host time"), Unit.FIGURE),
        Column("share", say("Change"), Unit.FIGURE),
        Column(
            "of_whole",
            say("Share of step") if found.before.whole == STEP else say("Of the whole"),
            Unit.FIGURE,
            detail=1,
        ),
        *([Column("corrected", say("Corrected"), Unit.FIGURE, detail=1)] if corrects else []),
        Column("gpu", say("GPU time"), Unit.FIGURE, detail=3),
    )
    rows = tuple(row(pair) if corrects else (*row(pair)[:5], row(pair)[6]) for pair in chosen)
    return Sheet("diff_ranges", say("Ranges"), columns, rows)


class RangeWholes:
    """What the ranges of both sides are shares of: the step, or in tables the program's own ranges."""

    def __init__(self, found: Diff) -> None:
        self._before, self._after = range_shares(found.before), range_shares(found.after)

    def of(self, pair: RangePair) -> tuple[float | None, float | None]:
        """A range's shares before and after; None where it is no part of the whole, or not there."""
        old = None if pair.before is None else self._before.share(pair.before)
        new = None if pair.after is None else self._after.share(pair.after)
        return old, new


def range_host_ns(found: Diff, pair: RangePair) -> tuple[float, float]:
    """Host time per step, before and after."""
    old = 0.0 if pair.before is None else pair.before.host_ns / found.before.steps
    new = 0.0 if pair.after is None else pair.after.host_ns / found.after.steps
    return old, new


def _gpu_ns(found: Diff, pair: RangePair, at: int) -> float | None:
    held, side = ((pair.before, found.before), (pair.after, found.after))[at]
    if held is None:
        return 0.0
    return None if held.gpu_ns is None else held.gpu_ns / side.steps


def memory_sheet(found: Diff) -> Sheet:
    """Copies by kind, allocation calls, and the most memory in use."""
    columns = (
        Column("memory", say("Memory"), Unit.TEXT),
        Column("count", say("Number"), Unit.FIGURE),
        Column("bytes", say("Bytes"), Unit.FIGURE),
        Column("time", say("Time"), Unit.FIGURE, detail=1),
    )
    rows: list[tuple[Cell, ...]] = []
    for kind, one, other in copies_paired(found):
        if (one[0], one[1]) != (other[0], other[1]):
            size = "" if one[1] is None or other[1] is None else sizes(one[1], other[1])
            rows.append((kind, counts(one[0], other[0]), size, times(one[2], other[2])))
    for name, old, new in calls_paired(found):
        kinds = {call.name: call.kind for side in (found.before, found.after) for call in side.calls or ()}
        if kinds[name] == "alloc" and old[0] != new[0]:
            rows.append((name, counts(old[0], new[0]), "", times(old[1], new[1])))
    peaks = (found.before.peak_bytes, found.after.peak_bytes)
    if peaks[0] is not None and peaks[1] is not None and peaks[0] != peaks[1]:
        rows.append((say("peak in use"), "", sizes(peaks[0], peaks[1]), ""))
    return Sheet("diff_memory", say("Memory"), columns, tuple(rows))


CopiedPerStep = tuple[float, float | None, float]


def copies_paired(found: Diff) -> list[tuple[str, CopiedPerStep, CopiedPerStep]]:
    """Number, bytes and time per step of each kind of copy, before and after."""
    sides: list[dict[str, Copied]] = [{each.kind: each for each in side.copies} for side in (found.before, found.after)]

    def numbers(at: int, kind: str) -> CopiedPerStep:
        steps = (found.before, found.after)[at].steps
        held = sides[at].get(kind)
        if held is None:
            return (0.0, 0.0, 0.0)
        return (held.count / steps, None if held.bytes is None else held.bytes / steps, held.time_ns / steps)

    return [(kind, numbers(0, kind), numbers(1, kind)) for kind in dict.fromkeys((*sides[0], *sides[1]))]


def gates_sheet(outcomes: Sequence[GateOutcome]) -> Sheet:
    """Each gate with its figures and what became of it."""
    columns = (
        Column("gate", say("Gate"), Unit.TEXT),
        Column("values", say("Before -> after"), Unit.FIGURE),
        Column("change", say("Change"), Unit.FIGURE),
        Column("result", say("Result"), Unit.TEXT),
    )
    rows = tuple(
        (outcome.gate.text, gate_values(outcome), signed_share(outcome.share), _gate_term(outcome))
        for outcome in outcomes
    )
    return Sheet("diff_gates", say("Gates"), columns, rows)


def _gate_term(outcome: GateOutcome) -> Term:
    result = gate_result(outcome)
    return Term(result, result, badge="bad" if outcome.tripped else "good")


def gate_values(outcome: GateOutcome) -> str:
    """Before and after, in the gate's unit."""
    if outcome.gate.measures == TIME:
        return times(outcome.before, outcome.after)
    if outcome.gate.measures == COUNT:
        return counts(outcome.before, outcome.after)
    return f"{bytes_text(round(outcome.before))} -> {bytes_text(round(outcome.after))}"


def gate_result(outcome: GateOutcome) -> str:
    """In a word or two."""
    if outcome.tripped:
        return say("TRIPPED")
    return say("passed: may be noise") if outcome.in_noise else say("passed")


def controls_text(guards: Controls, delta_ns: int) -> str:
    """What the controls say, in sentences."""
    listed = joined(say(", "), guards.names[:6])
    more = len(guards.names) - 6
    said = say(
        "Controls: {ranges} {why}; their host time went {times} ({change})",
        ranges=say("{names} and {count} more", names=listed, count=more) if more > 0 else listed,
        why=say("did not change")
        if guards.known
        else say("have the same name and number on both sides, and are taken to be unchanged"),
        times=times(guards.before_ns, guards.after_ns),
        change=signed_share(guards.ratio - 1),
    )
    if guards.is_noise:
        return say("{controls}, which may be noise: no correction.", controls=said)
    said = (
        say("{controls}, so the host itself was slower.", controls=said)
        if guards.ratio > 1
        else say("{controls}, so the host itself was faster.", controls=said)
    )
    if guards.corrected_delta_ns is None:
        return say("{controls} Corrected changes of ranges are shown next to the raw ones.", controls=said)
    return say(
        "{controls} With host-caused idle time scaled to the speed before, {raw} becomes {corrected}.",
        controls=said,
        raw=signed_time(delta_ns),
        corrected=signed_time(guards.corrected_delta_ns),
    )


def interval_of(low_ns: float, high_ns: float) -> str:
    """An interval in words."""
    return say("95 % interval {interval}", interval=interval_text(low_ns, high_ns))


def _largest(rows: Sequence[_T], moved: Callable[[_T], float], found: Diff, most: int) -> list[_T]:
    """The rows that changed the most, those that hardly did left out."""
    least = _LITTLE * min(found.before.median_ns, found.after.median_ns)
    chosen = sorted(rows, key=lambda row: -abs(moved(row)))
    return [row for row in chosen if abs(moved(row)) > least][:most]

"""Whether a run is faster than another, by how much, how sure that is, and why: one answer, times per step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.diff.compare import (
    CALLS,
    MIX,
    OVERLAP,
    PER_CALL,
    UNLIKE,
    BusyChangeRow,
    Diff,
    FamilyChangeRow,
    LineChangeRow,
    PhaseChangeRow,
    StepPart,
    TimeChange,
    UseChange,
    change_rows,
    launch_split,
)
from gpuledger.analyse.diff.gate import GateOutcome
from gpuledger.analyse.diff.noise import Controls
from gpuledger.analyse.diff.pairs import Overlap, PairLevel
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunKernel, RunSide, range_shares
from gpuledger.analyse.phases.phase_costs import IDLE, OTHER_WORK
from gpuledger.analyse.utilization.kernel_use import UseFigure
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.palette import line_tone
from gpuledger.present.row_sheets import row_from
from gpuledger.present.views.answer import Answer, reasons
from gpuledger.present.views.compare.diff_words import (
    HOST_ALONE,
    change_text,
    controls_text,
    gate_text,
    side_text,
    times,
    verdict_text,
)
from gpuledger.rows import Label, Row, Unit
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import NotMeasured
from gpuledger.units import signed_time, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

COMMENT_MARK: Final = "<!-- gpuledger -->"

_MOST_SHOWN: Final = {"kernels": 10, "calls": 8, "ranges": 10, "use": 12}
"""Rows that people see; programs have all."""

_LITTLE: Final = 0.0005
"""People see no rows that changed by less than this share of the step."""

_MOST_PARTS: Final = 8
"""Of a comment."""


class PartRow(Row, frozen=True):
    """One reason why a step takes longer, or less: below zero. With both sides known, `ns` is after less before."""

    part: Annotated[StepPart | Line, Label(say("Part"))]
    ns: Annotated[int, Label(say("Change"), Unit.CHANGE_NS, is_summed=True)]
    before_ns: Annotated[int | None, Label(say("Before"), Unit.NS, 1)] = None
    after_ns: Annotated[int | None, Label(say("After"), Unit.NS, 1)] = None
    before_calls: Annotated[float | None, Label(say("Calls before"), Unit.MEAN, 3)] = None
    after_calls: Annotated[float | None, Label(say("Calls after"), Unit.MEAN, 3)] = None
    most_in: Annotated[str | None, Label(say("Most in"), detail=2, shorten=label)] = None


class KernelChangeRow(Row, frozen=True):
    """Kernels that stand for each other."""

    kernel: Annotated[str, Label(say("Kernel"), shorten=label)]
    delta_ns: Annotated[int, Label(say("Change"), Unit.CHANGE_NS)]
    before_calls: Annotated[float, Label(say("Calls before"), Unit.MEAN, 1)]
    after_calls: Annotated[float, Label(say("Calls after"), Unit.MEAN, 1)]
    before_each_ns: Annotated[int | None, Label(say("Each before"), Unit.NS)]
    after_each_ns: Annotated[int | None, Label(say("Each after"), Unit.NS)]
    match: Annotated[PairLevel, Label(say("Match"), detail=2)]
    before_ns: Annotated[int, Label(say("Before"), Unit.NS, 3)]
    after_ns: Annotated[int, Label(say("After"), Unit.NS, 3)]
    family: Annotated[str, Label(say("Family"), detail=4)]
    by_calls_ns: int
    by_time_per_call_ns: int
    by_mix_ns: int
    before: tuple[RunKernel, ...]
    """In all steps."""
    after: tuple[RunKernel, ...]


class CallChangeRow(Row, frozen=True):
    """A CUDA function, on the host."""

    function: Annotated[str, Label(say("CUDA call"))]
    delta_ns: Annotated[int, Label(say("Time"), Unit.CHANGE_NS)]
    delta_share: Annotated[float | None, Label(say("Change"), Unit.CHANGE)]
    before_calls: Annotated[float, Label(say("Calls before"), Unit.MEAN, 1)]
    after_calls: Annotated[float, Label(say("Calls after"), Unit.MEAN, 1)]
    before_each_ns: Annotated[int | None, Label(say("Each before"), Unit.NS, 2)]
    after_each_ns: Annotated[int | None, Label(say("Each after"), Unit.NS, 2)]
    before_ns: Annotated[int, Label(say("Before"), Unit.NS, 3)]
    after_ns: Annotated[int, Label(say("After"), Unit.NS, 3)]


class LaunchChangeRow(CallChangeRow, frozen=True):
    """All launch calls."""

    by_number_ns: Annotated[int, Label(say("By number"), Unit.CHANGE_NS, 4)]
    by_cost_ns: Annotated[int, Label(say("By cost"), Unit.CHANGE_NS, 4)]


class RangeChangeRow(Row, frozen=True):
    """A kind of range."""

    range: Annotated[str, Label(say("Range"))]
    renamed_from: Annotated[str | None, Label(say("Renamed from"), detail=5)]
    before_host_ns: Annotated[int, Label(say("Host before"), Unit.NS)]
    after_host_ns: Annotated[int, Label(say("Host after"), Unit.NS)]
    delta_ns: Annotated[int, Label(say("Change"), Unit.CHANGE_NS, 1)]
    delta_share: Annotated[float | None, Label(say("Change"), Unit.CHANGE)]
    corrected_share: Annotated[float | None, Label(say("Corrected"), Unit.CHANGE, 1, "by the controls")]
    before_share: Annotated[float | None, Label(say("Share before"), Unit.SHARE, 2)]
    after_share: Annotated[float | None, Label(say("Share after"), Unit.SHARE, 2)]
    match: Annotated[PairLevel, Label(say("Match"), detail=3)]
    before_gpu_ns: Annotated[int | None, Label(say("GPU before"), Unit.NS, 4)]
    after_gpu_ns: Annotated[int | None, Label(say("GPU after"), Unit.NS, 4)]
    before_wait_ns: Annotated[int | None, Label(say("Waits before"), Unit.NS, 5)]
    after_wait_ns: Annotated[int | None, Label(say("Waits after"), Unit.NS, 5)]
    before_instances: Annotated[float, Label(say("Instances before"), Unit.MEAN, 5)]
    after_instances: Annotated[float, Label(say("Instances after"), Unit.MEAN, 5)]
    inside: tuple[str, ...]
    """The ranges around it."""
    unchanged: bool
    """Whether its instances make the same calls and launch the same work."""


class MemoryChangeRow(Row, frozen=True):
    """Copies of a kind, or the most memory in use."""

    what: Annotated[str, Label(say("Memory"))]
    before_count: Annotated[float | None, Label(say("Number before"), Unit.MEAN)] = None
    after_count: Annotated[float | None, Label(say("Number after"), Unit.MEAN)] = None
    before_bytes: Annotated[int | None, Label(say("Bytes before"), Unit.BYTES)] = None
    after_bytes: Annotated[int | None, Label(say("Bytes after"), Unit.BYTES)] = None
    before_ns: Annotated[int | None, Label(say("Before"), Unit.NS, 1)] = None
    after_ns: Annotated[int | None, Label(say("After"), Unit.NS, 1)] = None


class UseChangeRow(Row, frozen=True):
    """A counter of the same kernel, where it surely changed: outside both intervals."""

    kernel: Annotated[str, Label(say("Kernel"), shorten=label)]
    counter: Annotated[str, Label(say("Counter"))]
    before_share: Annotated[float, Label(say("Before"), Unit.SHARE)]
    after_share: Annotated[float, Label(say("After"), Unit.SHARE)]
    grid: Annotated[Dim3, Label(say("Grid"), Unit.TRIPLE, 2)]
    block: Annotated[Dim3, Label(say("Block"), Unit.TRIPLE, 2)]
    before_ns: Annotated[int, Label(say("Time before"), Unit.NS, 3, "in all steps")]
    after_ns: Annotated[int, Label(say("Time after"), Unit.NS, 3, "in all steps")]
    figures: tuple[UseFigure, UseFigure]


class GpuStep(Struct, frozen=True):
    """The usual step of a GPU that ran something."""

    gpu: int
    step_ns: int


class DiffSide(Struct, frozen=True):
    """One side."""

    name: str
    tool: str
    gpu: int
    gpu_name: str | None
    clock_hz: int | None
    busy_clock_hz: float | None
    """The mean SM clock while kernels ran, from samples."""
    ranks: int | None
    step_ns_by_gpu: tuple[GpuStep, ...]
    source: str | None
    """What steps were found by; null where there are none."""
    run_steps: tuple[int, ...]
    """Steps of each run."""
    steps: int
    median_ns: int
    """The usual step, or what `whole` says."""
    mean_ns: int
    losses: tuple[str, ...]


_BUSY_UNKNOWN: Final = NotMeasured(say("little is known of the compute of one run"))
_NOT_SAMPLED: Final = NotMeasured(say("no GPU metrics were sampled in one run"))


class DiffAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.diff/1"):
    """What changed from one run to another. Times are per step, where there are steps."""

    verdict: str | None
    """faster, slower or no change; null for tables of `nsys stats`, which have no steps."""
    step_delta_ns: int | None
    """After less before, of the median step; of the window where there are no steps; null for tables."""
    delta_share: float | None
    """Null where there was nothing before."""
    interval_ns: tuple[int, int] | None
    """At least 95 of 100 such intervals hold the true difference; null where noise is not known."""
    no_interval: str | None
    """Why there is none."""
    whole: str
    """What is compared: step, window or kernel time."""
    before: DiffSide
    after: DiffSide
    matched: Overlap
    """Kernel time in kernels that found a partner."""
    controls: Controls | None
    corrected_step_delta_ns: int | None
    """The difference at the host's speed before; null where controls do not show that it was another."""
    compared: tuple[str, str]
    """Both sides in words."""
    notes: tuple[str, ...]
    parts: Annotated[tuple[PartRow, ...], Label(say("Why"), meaning="sum to the difference")]
    gates: Annotated[tuple[GateOutcome, ...], Label(say("Gates"))]
    busy: Annotated[
        tuple[BusyChangeRow, ...], Label(say("Work or pace: the change in compute by what it was good for"))
    ]
    phases: Annotated[tuple[PhaseChangeRow, ...], Label(say("Phases of a layer"))]
    launches: Annotated[tuple[LaunchChangeRow, ...], Label(say("Launches"))]
    kernels: Annotated[tuple[KernelChangeRow, ...], Label(say("Kernels that changed most"))]
    calls: Annotated[tuple[CallChangeRow, ...], Label(say("CUDA calls that changed most, on the host"))]
    ranges: Annotated[tuple[RangeChangeRow, ...], Label(say("Ranges that changed most"))]
    memory: Annotated[tuple[MemoryChangeRow, ...], Label(say("Memory"))]
    use: Annotated[tuple[UseChangeRow, ...], Label(say("GPU utilization of matched kernels, from samples"))]
    lines: Annotated[tuple[LineChangeRow, ...], Label(say("Lines of the ledger"))]
    families: Annotated[tuple[FamilyChangeRow, ...], Label(say("Kernels by family"))]

    _PER_STEP = ("kernels", "calls", "ranges", "memory", "launches", "phases")

    @property
    def delta_ns(self) -> int:
        """What the parts sum to."""
        return self.after.median_ns - self.before.median_ns

    def title(self, table: str) -> str:
        title = super().title(table)
        if table == "parts":
            whole = {STEP: say("per step, "), KERNEL_TIME: say("kernel time, ")}.get(self.whole, "")
            return say("Why ({whole}parts sum to the difference)", whole=whole)
        return say("{title}, per step", title=title) if self.whole == STEP and table in self._PER_STEP else title

    def shown_rows(self, table: str) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(self, table)
        if table in ("busy", "phases"):
            return rows if any(row.delta_ns for row in rows) else ()
        if table == "memory":
            return [
                row
                for row in rows
                if (row.before_count, row.before_bytes) != (row.after_count, row.after_bytes)
                and None not in (row.before_bytes or row.before_count, row.after_bytes or row.after_count)
            ]
        if table in ("kernels", "calls", "ranges"):
            least = _LITTLE * min(self.before.median_ns, self.after.median_ns)
            rows = [row for row in rows if abs(row.delta_ns) > least]
        return rows[: _MOST_SHOWN.get(table)]

    def blocks(self) -> Iterator[doc.Block]:
        yield doc.Conclusion(self.sentences[0])
        if rest := self.sentences[1:]:
            yield doc.Remarks(rest)
        before, after = self.before.median_ns, self.after.median_ns
        tiles = (doc.Tile(say("Before"), time_text(before)), doc.Tile(say("After"), time_text(after)))
        yield doc.Tiles((*tiles, doc.Tile(say("Change"), signed_time(self.delta_ns), change_text(self.delta_share))))
        sides = (say("before: {side}", side=self.compared[0]), say("after: {side}", side=self.compared[1]))
        yield doc.Points(say("Compared"), sides, is_section=True)
        if self.gates:
            yield doc.Points(say("Gates"), tuple(map(gate_text, self.gates)), is_section=True)
        for table in self.tables():
            if table not in ("gates", "lines", "families") and self.shown_rows(table):
                yield doc.SheetBlock(self.sheet(table), doc.SheetTitle.NAMED, tells_hidden=True)
                if table == "parts":
                    yield doc.Only(doc.Medium.PAGE, (self._waterfall(),))
        if self.notes:
            yield doc.Points(say("Notes"), self.notes, is_section=True)

    def _waterfall(self) -> doc.Chart:
        """From the step before to the step after."""
        changes = []
        for row in self.parts:
            tone = "compute-gemm" if row.ns < 0 else "compute-moe"
            tone = line_tone(row.part) if isinstance(row.part, Line) else tone
            changes.append(Change(row.part.label, row.ns, signed_time(row.ns), tone))
        before, after = self.before.median_ns, self.after.median_ns
        said = say(
            "{before} before, {after} after: {parts}",
            before=time_text(before),
            after=time_text(after),
            parts=joined("; ", (joined(" ", (change.name, change.text)) for change in changes)),
        )
        title = say("From before to after, part by part")
        ends = (say("before"), before, time_text(before)), (say("after"), after, time_text(after))
        return doc.Chart(partial(waterfall, title, said, ends[0], changes, ends[1]), name="waterfall")

    def places(self) -> list[str]:
        """The part, the range and the kernel that moved most in the direction of the whole."""
        way = 1 if self.delta_ns > 0 else -1
        said = list[str]()
        part = max(self.parts, key=lambda row: way * row.ns, default=None)
        if part is not None and way * part.ns > 0:
            said.append(say("{part}: {change}", part=part.part.label, change=signed_time(part.ns)))
        both = [row for row in self.ranges if row.before_host_ns and row.after_host_ns]
        most = max((way * row.delta_ns for row in both), default=0)
        inner = [row for row in both if 3 * way * row.delta_ns >= most > 0]  # with much of what its parents have
        for row in sorted(inner, key=lambda row: -len(row.inside))[:1]:
            went = times(row.before_host_ns, row.after_host_ns)
            said.append(say("range {range}, host time: {times}", range=range_text(row), times=went))
        kernel = max(self.kernels, key=lambda row: way * row.delta_ns, default=None)
        if kernel is not None and way * kernel.delta_ns > 0:
            went = times(kernel.before_ns, kernel.after_ns)
            said.append(say("kernel {kernel}: {times}", kernel=cut_label(label(kernel.kernel)), times=went))
        return said

    def comment(self) -> doc.Document:
        """For a pull request: the gates, or the verdict; the largest parts; the places that moved most."""
        verdicts = {FAIL if gate.tripped else gate.verdict for gate in self.gates}
        worst = next((each for each in (FAIL, UNDECIDED) if each in verdicts), PASS if verdicts else UNDECIDED)
        blocks: list[doc.Block] = [mark(), doc.Heading(say("gpuledger: {verdict}", verdict=worst), 3)]
        blocks.append(doc.Conclusion(self.sentences[0]))
        if self.gates:
            blocks.append(doc.Points(say("Gates"), tuple(map(gate_text, self.gates))))
        if self.parts:
            blocks.append(doc.SheetBlock(replace(self, parts=self.parts[:_MOST_PARTS]).sheet("parts")))
        if places := self.places():
            blocks.append(doc.Points(say("Where to look"), tuple(places)))
        if notes := (*(sentence for sentence in self.sentences if sentence == HOST_ALONE), *self.notes):
            blocks.append(doc.Points(say("Notes"), notes))
        return replace(self.document(), blocks=lambda: tuple(blocks))


def mark() -> doc.Drawn:
    """What a comment begins with and nobody sees: whoever posts it finds the one before by it, and replaces that."""
    return doc.Drawn(lambda *_: "", lambda *_: COMMENT_MARK)


def range_text(row: RangeChangeRow) -> str:
    """Both names, where it was renamed."""
    return row.range if row.renamed_from is None else f"{row.renamed_from} -> {row.range}"


def diff_answer(found: Diff, gates: Sequence[GateOutcome] = ()) -> DiffAnswer:
    """The comparison."""
    before, after = found.before, found.after
    interval = found.interval
    launches = _launches(before, after)
    controls = None if isinstance(found.controls, NotMeasured) else found.controls
    return DiffAnswer(
        profile=f"{before.name} → {after.name}",
        sentences=tuple(_sentences(found, launches)),
        not_measured=reasons(
            busy=[found.busy or _BUSY_UNKNOWN], use=[_NOT_SAMPLED if found.use is None else found.use]
        ),
        verdict=found.verdict,
        step_delta_ns=None if before.whole == KERNEL_TIME else found.delta_ns,
        delta_share=found.share,
        interval_ns=None
        if isinstance(interval, NotMeasured)
        else (math.floor(interval.low_ns), math.ceil(interval.high_ns)),
        no_interval=interval.reason if isinstance(interval, NotMeasured) else None,
        whole=before.whole,
        before=_side(before),
        after=_side(after),
        matched=found.overlap,
        controls=controls,
        corrected_step_delta_ns=None if controls is None or controls.is_noise else controls.corrected_delta_ns,
        compared=(side_text(before), side_text(after)),
        notes=found.notes,
        gates=tuple(gates),
        parts=tuple(
            sorted((_part(found, part.name, part.ns) for part in found.parts if part.ns), key=lambda row: -abs(row.ns))
        ),
        busy=found.busy,
        phases=found.phases,
        launches=launches,
        kernels=tuple(sorted(map(_kernel, (*found.changes, *found.comm)), key=_largest_first)),
        calls=tuple(sorted(_calls(before, after), key=_largest_first)),
        ranges=tuple(sorted(_ranges(found), key=_largest_first)),
        memory=tuple(_memory(before, after)),
        use=tuple(map(_use, found.use or ())),
        lines=change_rows(
            LineChangeRow,
            {line: before.line_mean_ns(line) for line in before.lines},
            {line: after.line_mean_ns(line) for line in after.lines},
        ),
        families=change_rows(FamilyChangeRow, _families(before), _families(after)),
    )


def _sentences(found: Diff, launches: Sequence[LaunchChangeRow]) -> Iterator[str]:
    """The verdict, then what to be careful of, what changed most, and what the host did."""
    yield say("{told}.", told=verdict_text(found))
    if found.is_host_alone:
        yield HOST_ALONE
    if not any(part.ns for part in found.parts) and (found.before.median_ns or found.after.median_ns):
        yield say("No part differs.")
    if any(row.delta_ns for row in found.phases):
        most = next(row for row in found.phases if row.phase not in (IDLE, OTHER_WORK))
        went = times(most.before_ns, most.after_ns)
        yield say("Of the phases {phase} changed most: {went}.", phase=most.phase, went=went)
    if isinstance(found.controls, Controls):
        yield controls_text(found.controls, found.delta_ns)
    for row in launches:
        if row.by_number_ns or row.by_cost_ns:
            yield say(
                "Time in launch calls: {change}; {number} from the number and kind of calls, {cost} from what each "
                "costs.",
                change=signed_time(row.by_number_ns + row.by_cost_ns),
                number=signed_time(row.by_number_ns),
                cost=signed_time(row.by_cost_ns),
            )


def _side(side: RunSide) -> DiffSide:
    by_gpu = tuple(GpuStep(gpu, step_ns) for gpu, step_ns in side.gpus.items())
    return row_from(DiffSide, side, mean_ns=round(side.mean_ns), step_ns_by_gpu=by_gpu)


def _part(found: Diff, part: StepPart | Line, ns: int) -> PartRow:
    before, after = found.before, found.after
    if part in (CALLS, MIX, PER_CALL):
        changed = {CALLS: "by_calls_ns", MIX: "by_mix_ns", PER_CALL: "by_time_ns"}[StepPart(part)]
        chosen = [change for change in found.changes if bool(change.by_mix_ns) == (part == MIX)]
        old, new = (sum(change.calls[side] for change in chosen) for side in (0, 1))
        most = max(found.changes, key=lambda change: abs(getattr(change, changed)))
        return PartRow(part, ns, None, None, old, new, most.pair.first.name)
    if part == OVERLAP:
        sides = (-before.overlap_ns / before.steps, -after.overlap_ns / after.steps)  # counted once, it shortens a step
    elif part == UNLIKE:
        sides = (before.median_ns - before.mean_ns, after.median_ns - after.mean_ns)
    elif isinstance(part, Line):
        sides = (before.shown_mean_ns.get(part, 0.0), after.shown_mean_ns.get(part, 0.0))
    else:
        return PartRow(part, ns)
    return PartRow(part, ns, round(sides[0]), round(sides[1]))


def _kernel(change: TimeChange) -> KernelChangeRow:
    before_ns, after_ns = _rounded(change.ns)
    return KernelChangeRow(
        kernel=change.pair.first.name,
        delta_ns=after_ns - before_ns,
        before_calls=change.calls[0],
        after_calls=change.calls[1],
        before_each_ns=round(change.each_ns[0]) if change.calls[0] else None,
        after_each_ns=round(change.each_ns[1]) if change.calls[1] else None,
        match=PairLevel(change.pair.level),
        before_ns=before_ns,
        after_ns=after_ns,
        family=change.pair.first.family,
        by_calls_ns=round(change.by_calls_ns),
        by_time_per_call_ns=round(change.by_time_ns),
        by_mix_ns=round(change.by_mix_ns),
        before=change.pair.before,
        after=change.pair.after,
    )


def _largest_first(row: Any) -> int:
    return -abs(int(row.delta_ns))


def _call_fields(function: str, calls: _Pair, ns: _Pair) -> dict[str, Any]:
    each = [round(time / count) if count else None for time, count in zip(ns, calls, strict=True)]
    return {
        "function": function,
        "delta_ns": round(ns[1] - ns[0]),
        "delta_share": _change_share(*ns),
        "before_calls": calls[0],
        "after_calls": calls[1],
        "before_each_ns": each[0],
        "after_each_ns": each[1],
        "before_ns": round(ns[0]),
        "after_ns": round(ns[1]),
    }


def _change_share(before: float, after: float) -> float | None:
    """None for what was not there before."""
    return (after - before) / before if before else None if after else 0.0


def _launches(before: RunSide, after: RunSide) -> tuple[LaunchChangeRow, ...]:
    """One row; none where launches are not recorded."""
    split = launch_split(before, after)
    if before.launches is None or after.launches is None or split is None:
        return ()
    both = before.launches, after.launches
    calls = _per_step(before, after, both, lambda launches: launches.calls)
    ns = _per_step(before, after, both, lambda launches: launches.time_ns)
    number, cost = map(round, split)
    return (LaunchChangeRow(**_call_fields(say("launch calls"), calls, ns), by_number_ns=number, by_cost_ns=cost),)


_T = TypeVar("_T")
_Pair = tuple[float, float]
"""Before and after."""


def _by_name(before: Iterable[_T], after: Iterable[_T], name: Callable[[_T], str]) -> Iterator[tuple[_T | None, ...]]:
    """What has the same name on both sides."""
    old, new = ({name(part): part for part in side} for side in (before, after))
    return ((old.get(key), new.get(key)) for key in old | new)


def _per_step(before: RunSide, after: RunSide, both: Sequence[_T | None], of: Callable[[_T], int]) -> _Pair:
    """Per step, nothing where a side has none of the kind."""
    one, other = both
    return (0.0 if one is None else of(one) / before.steps), (0.0 if other is None else of(other) / after.steps)


def _calls(before: RunSide, after: RunSide) -> Iterator[CallChangeRow]:
    for both in _by_name(before.calls or (), after.calls or (), lambda call: call.name):
        calls = _per_step(before, after, both, lambda call: call.calls)
        ns = _per_step(before, after, both, lambda call: call.time_ns)
        yield CallChangeRow(**_call_fields(next(filter(None, both)).name, calls, ns))


def _ranges(found: Diff) -> Iterator[RangeChangeRow]:
    per_step = partial(_per_step, found.before, found.after)
    whole_before, whole_after = range_shares(found.before), range_shares(found.after)
    for pair in found.ranges:
        both = pair.before, pair.after
        names = [one.name for one in both if one is not None]
        host, instances = per_step(both, lambda one: one.host_ns), per_step(both, lambda one: one.instances)
        gpu: tuple[int | None, int | None] = (None, None)
        wait: tuple[int | None, int | None] = (None, None)
        if all(one is None or one.gpu_ns is not None for one in both):
            gpu = _rounded(per_step(both, lambda one: one.gpu_ns or 0))
        if all(one is None or one.wait_ns is not None for one in both):
            wait = _rounded(per_step(both, lambda one: one.wait_ns or 0))
        share, corrected = _change_share(*host), None
        if share is not None and isinstance(found.controls, Controls) and found.controls.corrects(pair):
            corrected = (1 + share) / found.controls.ratio - 1  # had the host been as fast as before
        yield RangeChangeRow(
            range=names[-1],
            renamed_from=names[0] if names[0] != names[-1] else None,
            before_host_ns=round(host[0]),
            after_host_ns=round(host[1]),
            delta_ns=round(host[1] - host[0]),
            delta_share=share,
            corrected_share=corrected,
            before_share=None if pair.before is None else whole_before.share(pair.before),
            after_share=None if pair.after is None else whole_after.share(pair.after),
            match=PairLevel(pair.level),
            before_gpu_ns=gpu[0],
            after_gpu_ns=gpu[1],
            before_wait_ns=wait[0],
            after_wait_ns=wait[1],
            before_instances=instances[0],
            after_instances=instances[1],
            inside=() if pair.after is None else pair.after.inside,
            unchanged=pair.unchanged,
        )


def _rounded(pair: _Pair) -> tuple[int, int]:
    return round(pair[0]), round(pair[1])


def _memory(before: RunSide, after: RunSide) -> Iterator[MemoryChangeRow]:
    """Copies by kind, allocating calls, and the most memory in use."""
    per_step = partial(_per_step, before, after)
    for copies in _by_name(before.copies, after.copies, lambda copied: copied.kind):
        is_known = all(copied is None or copied.bytes is not None for copied in copies)
        size: tuple[int | None, int | None] = (None, None)
        if is_known:
            size = _rounded(per_step(copies, lambda copied: copied.bytes or 0))
        count = per_step(copies, lambda copied: copied.count)
        time = _rounded(per_step(copies, lambda copied: copied.time_ns))
        yield MemoryChangeRow(next(filter(None, copies)).kind, *count, *size, *time)
    old, new = ([call for call in side.calls or () if call.kind == "alloc"] for side in (before, after))
    for calls in _by_name(old, new, lambda call: call.name):
        time = _rounded(per_step(calls, lambda call: call.time_ns))
        count = per_step(calls, lambda call: call.calls)
        yield MemoryChangeRow(next(filter(None, calls)).name, *count, before_ns=time[0], after_ns=time[1])
    if before.peak_bytes is not None or after.peak_bytes is not None:
        yield MemoryChangeRow(say("peak in use"), None, None, before.peak_bytes, after.peak_bytes)


def _use(change: UseChange) -> UseChangeRow:
    kernel = change.after_kernel
    return UseChangeRow(
        kernel.name,
        change.metric.value,
        change.before.percent / 100,
        change.after.percent / 100,
        kernel.grid,
        kernel.block,
        change.before_kernel.time_ns,
        kernel.time_ns,
        (change.before, change.after),
    )


def _families(side: RunSide) -> dict[str, float]:
    sums = Counter[str]()
    for kernel in side.kernels:
        sums[kernel.family] += kernel.time_ns
    return {family: ns / side.steps for family, ns in sums.items()}

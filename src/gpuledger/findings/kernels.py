"""Findings about kernels and their launches: casts that could go, kernels too short for a launch, loops of small ones,
kernels far from their roof, and clocks well below what the GPU can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.idle.launch_costs import TINY_NS
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.catalog.kernel_types import changes_type
from gpuledger.findings import advice
from gpuledger.findings.finding import MOST_EXAMPLES, Evidence, Finding, count_words, per_step, worth_telling
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule, are_steady, steady_rows
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.replay.edits import GRAPH_TURNAROUND_NS
from gpuledger.trace.keys import Positions, distinct, is_among
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import count_text, share_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import KernelMatch
    from gpuledger.analyse.utilization.stretches import Clock

MUCH_TURNAROUND: Final = 0.05
"""Below this share of the time, what the device takes from kernel to kernel is its usual due."""

LEAST_CAST: Final = 0.01  # of the time: a few casts are part of most programs

LEAST_LAUNCHES: Final = 10
"""Fewer launches in all, in one step or in many, are no run: each of them was late for a reason of its own."""

MOST_KERNELS: Final = 3  # so many slow kernels are told, each as a finding of its own


def _casts(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    trace, device = subject.trace, subject.device
    codes = distinct(trace[Table.KERNELS].codes("name")).tolist()
    casts = [code for code in codes if changes_type(trace.strings.text(code) or "")]
    if not casts:
        return ()
    kernels = steady_rows(trace[Table.KERNELS], device, "name", "pid", "correlation")
    cast_rows = kernels.where(is_among(kernels.codes("name"), casts))
    if not len(cast_rows):
        return ()
    # where the host cannot keep up, launches that go away save their share of what is lost between launches
    late = device.idle_by_trigger.get(QueueTrigger.BEHIND, 0)
    time = int(cast_rows.duration_ns.sum()) + late * len(cast_rows) // len(kernels)
    if time < LEAST_CAST * device.steady_ns:
        return ()
    count = count_words(device, len(cast_rows), say("kernel"), say("kernels"))
    claim = say("{kernels} that only convert dtypes: {time}", kernels=count, time=per_step(device, time))
    names = joined(say(", "), sorted({label(trace.strings.text(code) or "") for code in casts})[:3])
    evidence, edit = (_of_kernels(names, cast_rows, np.ones(len(cast_rows), np.bool_)),), subject.fixes.kernels(casts)
    saving, assumption = subject.saved_ns(edit, time), say("the dtype is kept, or converted inside another kernel")
    return [rule.finding(device, claim, evidence, saving, assumption, explains=time, edit=edit)]


def _of_kernels(
    sentence: str, kernels: Rows, chosen: NDArray[np.bool_], share: float | None = None, of: str = ""
) -> Evidence:
    """A sentence about the chosen kernels, the longest of them as the example."""
    count = int(np.count_nonzero(chosen))
    length = kernels.duration_ns
    length[~chosen] = np.iinfo(np.int64).min + 1
    rows = kernels.at(largest(length, min(count, MOST_EXAMPLES)))
    return Evidence(
        sentence,
        span=Span(int(rows["start_ns"][0]), int(rows["end_ns"][0])),
        pid=int(rows["pid"][0]),
        kernel=rows.texts("name")[0] or "",
        correlations=tuple(rows["correlation"].tolist()),
        count=count,
        share=share,
        of=of,
    )


def _tiny(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Where kernels are too short to be worth a launch: the host falls behind, or the device goes from one to the next.

    What the device needs between two kernels it also needs in a graph, only less.
    """
    device, kernels = subject.device, subject.trace[Table.KERNELS]
    behind, between = device.gaps_of(QueueTrigger.BEHIND), device.gaps_of(Cause.TURNAROUND)
    if device.idle_ns(Cause.TURNAROUND) < MUCH_TURNAROUND * device.steady_ns:
        between = between[:0]
    steady = are_steady(kernels, device)
    if not (len(behind) or len(between)) or not steady.any():
        return ()
    tiny = steady & (kernels.duration_ns < TINY_NS)
    share = float(np.count_nonzero(tiny) / np.count_nonzero(steady))
    gaps, gap_ns, chosen = device.ledger.gaps, device.steady_gap_ns, np.concatenate((behind, between))
    before_tiny = _ends_before_tiny(device, chosen)
    all_ns, tiny_gaps = int(gap_ns[chosen].sum()), chosen[before_tiny]
    time = int(gap_ns[tiny_gaps].sum())
    kept = GRAPH_TURNAROUND_NS * int(np.count_nonzero(before_tiny[len(behind) :]))
    lost = max(time - kept, 0)
    if np.count_nonzero(tiny) < LEAST_LAUNCHES or share < 0.5 or 2 * time < all_ns or not worth_telling(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    claim = say(
        "{share} of the kernels take under 5 us, less than a launch: {time} of gaps",
        share=share_text(share),
        time=per_step(device, time),
    )
    assumption = say("the gaps close, as in a captured graph")
    evidence = _of_kernels(rule.fix or "", kernels.only("name", "pid", "correlation"), tiny, share, say("the kernels"))
    longest = int(tiny_gaps[gap_ns[tiny_gaps].argmax()])
    evidence = replace(evidence, span=Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest])))
    return [rule.finding(device, claim, (evidence,), saving, assumption, explains=time, edit=edit)]


def as_part(evidence: Evidence) -> Evidence:
    """The evidence of tiny kernels, where those are part of why launches come late."""
    share = share_text(evidence.share or 0.0)
    return replace(evidence, sentence=say("{share} of the kernels take under 5 us, less than a launch", share=share))


def _ends_before_tiny(device: Device, chosen: Positions) -> NDArray[np.bool_]:
    """Which of these gaps a tiny kernel ends."""
    work, after = device.work, device.ledger.gaps.after[chosen]
    before: NDArray[np.bool_] = work.end_ns[after] - work.start_ns[after] < TINY_NS
    return before


def headroom(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """One finding for each of the kernels that would save the most, of those that Nsight Compute profiled."""
    if subject.kernels is None:
        return ()
    worth = [match for match in subject.kernels.matches if worth_telling(subject.device, match.saving_ns)]
    ranked = sorted(worth, key=lambda match: -match.saving_ns)[:MOST_KERNELS]
    return [slow for match in ranked if (slow := _far_from_its_roof(rule, subject, match)) is not None]


def _far_from_its_roof(rule: Rule[OneGpu], subject: OneGpu, match: KernelMatch) -> Finding | None:
    if match.launch is None:
        return None
    device, judged, entry = subject.device, match.launch, match.entry
    roof = judged.verdict.roof_share
    if isinstance(roof, NotMeasured):
        return None
    claim = say(
        "{kernel} takes {time} and reaches {share} of its nearest roof",
        kernel=cut_label(label(entry.name)),
        time=per_step(device, entry.time_ns),
        share=share_text(roof),
    )
    edit = subject.fixes.faster_kernel(entry.name, match.saving_ns / max(entry.time_ns, 1))
    saving = subject.saved_ns(edit, match.saving_ns)
    reasons, assumption = [judged.verdict.because[0]], say("it reaches 90 % of that roof")
    if judged.verdict.wasted is not None and judged.verdict.is_by_waste:
        reasons.append(judged.verdict.wasted.sentence)
        assumption = say("its accesses are coalesced")
    sentences = (*reasons, judged.advice[0])
    evidence = tuple(Evidence(sentence, kernel=entry.name, count=entry.calls) for sentence in sentences)
    lost = match.saving_ns
    return rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)


LEAST_PART: Final = 0.2  # loops that hold less of what launching costs are not what to begin with

MOST_PART: Final = 0.85
"""Where loops are nearly all of what launching costs, LAUNCH-BOUND says so, with the loop as evidence."""

MOST_NAMES: Final = 2


def _kernel_loop(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Part of what the host launches are the same few kernels, for one tensor after the other."""
    device, repeated = subject.device, subject.fixes.looped.repeated
    if not len(repeated) or are_most_of_launching(subject):
        return ()
    edit = rule.edit_of(subject)
    lost = _host_ns(subject)
    saving = subject.saved_ns(edit, lost)
    if not worth_telling(device, saving):
        return ()
    count = round(len(repeated) * device.step_count / subject.scenario.part.steps)
    launches = count_words(device, count, say("launch"), say("launches"))
    claim = say(
        "small kernels launched in a loop, tensor by tensor: {launches} cost the host {time}",
        launches=launches,
        time=per_step(device, lost),
    )
    assumption = say("one kernel handles all tensors: only the first round of each loop is launched")
    evidence = loop_evidence(subject)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)]


def _host_ns(subject: OneGpu) -> int:
    """What the host takes to launch what is repeated."""
    calls, looping = subject.fixes.graph.calls, subject.fixes.looping
    return subject.scenario.of_steady(
        int(calls.duration_ns[looping].sum() + subject.scenario.graph.code_before(looping).sum())
    )


def are_most_of_launching(subject: OneGpu) -> bool:
    """Whether loops are nearly all of what launching costs."""
    if not len(subject.fixes.looped.repeated):
        return False
    part, bound = map(subject.scenario.saved_ns, (subject.fixes.loops(), subject.fixes.launches()))
    return part > MOST_PART * bound


def is_what_to_begin_with(part: Finding, bound: Finding) -> bool:
    """Whether a finding is about loops that hold much of what a bound is about: it says what can be had, and how."""
    return part.code == "KERNEL-LOOP" and part.gpu == bound.gpu and part.saving_ns >= LEAST_PART * bound.saving_ns


def loop_evidence(subject: OneGpu) -> tuple[Evidence, ...]:
    """The longest loop: its kernels, and how often they run; nothing where there is none."""
    looped, work = subject.fixes.looped, subject.fixes.work
    loop = looped.longest
    if loop is None:
        return ()
    own = looped.operations[loop.start : loop.end]
    names = [subject.trace.strings.text(code) or "" for code in distinct(work.name[own[: loop.period]]).tolist()]
    shown = joined(say(", "), list(dict.fromkeys(cut_label(label(name)) for name in names))[:MOST_NAMES])
    words = {"kernels": count_text(loop.period), "times": count_text(loop.times), "names": shown}
    sentence = (
        say("one kernel runs {times} times in a row: {names}", **words)
        if loop.period == 1
        else say("the same {kernels} kernels run {times} times in a row, with {names}", **words)
    )
    share = len(looped.repeated) / max(len(looped.operations), 1)
    return (
        Evidence(
            sentence,
            span=Span(int(work.start_ns[own[0]]), int(work.end_ns[own[-1]])),
            pid=int(work.pid[own[0]]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", own[:MOST_EXAMPLES]).tolist()),
            count=loop.end - loop.start,
            share=share,
            of=say("the kernels"),
        ),
    )


HELD_DOWN: Final = 0.85  # of the highest clock: from there on it is well below

MOSTLY_BUSY: Final = 0.8
"""A GPU that works less of the time than this idles, and its clock follows: nothing is said of it."""

LEAST_NS: Final = 50_000_000  # so long kernels must have run under the samples: clocks follow power by milliseconds
FIXED: Final = 0.02  # a clock that varies by less of its mean is set, not regulated


def _clocks_low(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """A clock that is set has a bound of what it costs; one that power or heat holds down is only told."""
    if subject.use is None or (clock := subject.use[1].clock) is None:
        return ()
    device, highest = subject.device, clock.top_hz
    busy_share = 1 - sum(ns for line, ns in device.line_ns.items() if line.is_idle) / max(device.steady_ns, 1)
    # a clock that is still rising at the end was low because the GPU had idled
    low = max(clock.mean_hz, clock.late_hz) < HELD_DOWN * highest
    if not low or busy_share < MOSTLY_BUSY or clock.busy_ns < LEAST_NS:
        return ()
    if not clock.varies_by(FIXED):
        return [_fixed_clock(rule, subject, clock)]
    claim = say(
        "under load the SM clock drops to {mean} MHz on average, {share} of the {highest} MHz maximum",
        **_clock_words(clock),
    )
    assumption = say("power, temperature or a set limit holds it down; the cost is unknown")
    low_clock = rule.finding(device, claim, (_clock_evidence(clock),), 0, assumption)
    return [replace(low_clock, confidence=say("low"))]


def _fixed_clock(rule: Rule[OneGpu], subject: OneGpu, clock: Clock) -> Finding:
    """What a higher clock would save of the kernels whose speed it is; memory has a clock of its own."""
    from gpuledger.analyse.utilization.kernel_use import CLASSES, UseClass
    from gpuledger.analyse.utilization.stretches import compute_split

    device, highest, use = subject.device, clock.top_hz, subject.use
    claim = say("the SM clock stays at {mean} MHz, {share} of the {highest} MHz maximum", **_clock_words(clock))
    class_of_row = None if use is None else use[0].class_of_row
    at_roof_ns = compute_split(device, class_of_row).steady_total[UseClass.COMPUTE_ROOF]
    less = 1 - clock.mean_hz / highest
    lost = round(at_roof_ns * less)
    assumption = say("compute-bound kernels run at the maximum clock")
    evidence = [_clock_evidence(clock)]
    if class_of_row is None or not lost:
        return rule.finding(device, claim, tuple(evidence), 0, assumption)
    edit = subject.fixes.faster_rows(class_of_row == CLASSES.index(UseClass.COMPUTE_ROOF), less)
    share = at_roof_ns / device.compute_ns
    told = say("{share} of compute time is at the compute roof, which scales with the clock", share=share_text(share))
    evidence.append(Evidence(told, share=share, of=say("compute time")))
    saving = subject.saved_ns(edit, lost)
    return rule.finding(device, claim, tuple(evidence), saving, assumption, explains=lost, edit=edit)


def _clock_words(clock: Clock) -> dict[str, str]:
    mean, highest = (count_text(round(hertz / 1e6)) for hertz in (clock.mean_hz, clock.top_hz))
    return {"mean": mean, "share": share_text(clock.mean_hz / clock.top_hz), "highest": highest}


def _clock_evidence(clock: Clock) -> Evidence:
    lowest, most = (count_text(round(hertz / 1e6)) for hertz in (clock.lowest_hz, clock.most_hz))
    ends = {"lowest": lowest, "most": most, "count": count_text(clock.samples)}
    return Evidence(say("{lowest} to {most} MHz in {count} samples while kernels ran", **ends), count=clock.samples)


RULES: Final = (
    Rule("CAST", _casts, advice.CAST),
    Rule(
        "TINY-KERNELS",
        _tiny,
        advice.TINY_KERNELS,
        edit=Fixes.launches,
        triggers=(QueueTrigger.BEHIND, Cause.TURNAROUND),
        is_bound=True,
        is_slowed=True,
    ),
    Rule(
        "KERNEL-LOOP",
        _kernel_loop,
        advice.KERNEL_LOOP,
        edit=Fixes.loops,
        triggers=(QueueTrigger.BEHIND,),
        is_slowed=True,
    ),
    Rule(
        "CLOCKS-LOW",
        _clocks_low,
        say("see what holds it down: `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`; unlock with `nvidia-smi -rgc`"),
        is_bound=True,
    ),
)

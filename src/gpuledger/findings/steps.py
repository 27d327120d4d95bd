"""Findings about when time is lost, not why: what every so many steps do more, steps that take unusually long, a run
that becomes slower, a slow first start.

And how far a finding is believed that rests on one gap alone: what was seen once may not happen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import cut_label, without_numbers
from gpuledger.findings import advice
from gpuledger.findings.finding import LEAST_SHARE, Evidence, Finding, is_once, only_gap, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger, Trigger, idle_label
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import MOST_OF_PERIOD, Periodic, Variation, variation
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.spans import Ints, Span, Spans, covered
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text


def _comparable(device: Device) -> Variation | None:
    """How steps vary; None where work is missing: a step that lost its marker, or half of its work, looks unusual."""
    return None if device.lost.is_notable else variation(device)


class StepAmounts(Struct, frozen=True):
    """Time that each step has of something, and which of the steps do more every so many."""

    label: str
    of_step_ns: Ints
    is_slow: NDArray[np.bool_]
    is_usual: NDArray[np.bool_]  # the steady ones of the others

    @property
    def usual_ns(self) -> int:
        return int(median(self.of_step_ns[self.is_usual])) if self.is_usual.any() else 0

    @property
    def more_ns(self) -> int:
        return max(int((self.of_step_ns[self.is_slow] - self.usual_ns).sum()), 0)


class PeriodicSteps:
    """The steps of one GPU of which every so many do more; lines of busy time and triggers of idle time by step."""

    def __init__(self, device: Device, varies: Variation, periodic: Periodic) -> None:
        self.device, self.steps, self.periodic = device, varies.steps, periodic
        self._edges_ns = varies.steps.edges_ns
        self._is_usual = ~periodic.is_slow
        self._is_usual[: varies.steps.warm_up] = False

    def _amounts(self, label: str, of_step_ns: Ints) -> StepAmounts:
        return StepAmounts(label, of_step_ns, self.periodic.is_slow, self._is_usual)

    def of_lines(self, *kinds: LineKind) -> list[StepAmounts]:
        books = self.device.ledger
        rows = books.books[np.searchsorted(books.tiles_ns, self._edges_ns[:-1])]
        return [self._amounts(line.label, rows[:, at]) for at, line in enumerate(books.lines) if line.kind in kinds]

    def of_trigger(self, trigger: Trigger) -> StepAmounts:
        """Gaps that this sets off."""
        gaps, count = self.device.ledger.gaps, len(self.periodic.is_slow)
        step = np.searchsorted(self._edges_ns, gaps.start_ns, side="right") - 1
        mine = (gaps.trigger == TRIGGERS.index(trigger)) & (step >= 0) & (step < count)
        return self._amounts(idle_label(trigger), sweep.sums(step[mine], gaps.length_ns[mine], count))

    @property
    def captures_graphs(self) -> bool:
        """Whether graphs are captured in these steps, and hardly in others: what is launched then is not the same."""
        begun = [spans.start_ns for spans in self.device.host.captures.values()]
        step = np.searchsorted(self._edges_ns, np.concatenate(begun), side="right") - 1 if begun else np.empty(0, int)
        step = step[(step >= 0) & (step < len(self.periodic.is_slow))]
        slow = self.periodic.is_slow[step]
        often = len(np.unique(step[slow])) >= MOST_OF_PERIOD * len(self.periodic.steps)
        return often and bool(slow.mean() >= MOST_OF_PERIOD)

    def usual_ns(self, rule: Rule[OneGpu]) -> int | None:
        """What all steps would lose to a rule's subject if they were usual; None where that is no idle time."""
        amounts = [self.of_trigger(trigger) for trigger in rule.triggers]
        if rule.exposed is not None or rule.code == "COPY-PAGEABLE":
            amounts += self.of_lines(rule.exposed or LineKind.COPY)
        return sum(amount.usual_ns for amount in amounts) * self.device.step_count if amounts else None


def periodic_steps(device: Device) -> PeriodicSteps | None:
    """None where no steps do more at equal distances, or not enough to be told."""
    varies = _comparable(device)
    if varies is None or varies.periodic is None or not worth_telling(device, varies.periodic.more_ns):
        return None
    return PeriodicSteps(device, varies, varies.periodic)


_MORE: Final = say("what these steps take more")
_MOST_PARTS: Final = 3


def _periodic(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """What one step of every so many does more. What is computed then is not saved; all else may go on beside steps."""
    device = subject.device
    steps = periodic_steps(device)
    if steps is None:
        return ()
    more_ns, usual_ns, often = steps.periodic.more_ns, steps.periodic.usual_ns, len(steps.periodic.steps)
    computed = steps.of_lines(LineKind.COMPUTE)
    amounts = (*computed, *steps.of_lines(LineKind.COMM, LineKind.COPY), *map(steps.of_trigger, TRIGGERS))
    parts = sorted(((amount.more_ns, amount.label) for amount in amounts), key=lambda part: -part[0])[:_MOST_PARTS]
    place = _place(steps, subject)
    each = {"count": count_text(steps.periodic.every), "time": time_text(more_ns // often)}
    where = parts[0][1] if place is None else say("in {ranges}", ranges=place.ranges[0])
    claim = say("every {count} steps one takes {time} longer, mainly {line}", **each, line=where)
    if steps.captures_graphs:
        claim = say("every {count} steps one takes {time} longer, in which CUDA graphs are captured", **each)
    example = say(
        "step {step} and {count} more: {time} each time, {usual} the usual step",
        step=steps.periodic.steps[0],
        count=count_text(often - 1),
        time=time_text(usual_ns + more_ns // often),
        usual=time_text(usual_ns),
    )
    evidence = [Evidence(example, span=_step_span(device, steps.periodic.steps[0]), count=often)]
    evidence += [] if place is None else [place]
    for part_ns, label in parts:
        share = part_ns / more_ns
        words = say("{share} of it {cause}", share=share_text(share), cause=label)
        evidence.append(Evidence(words, share=share, of=_MORE))
    saving = max(more_ns - sum(amount.more_ns for amount in computed), 0)
    assumption = say("it goes on beside the steps: copies on a stream of their own, files written by another thread")
    finding = rule.finding(device, claim, tuple(evidence), saving, assumption, explains=more_ns)
    return [replace(finding, fix=advice.CAPTURED_ANEW) if steps.captures_graphs else finding]


def _place(steps: PeriodicSteps, subject: OneGpu) -> Evidence | None:
    """The range, or Python's function, that opens once each time and holds the most of it; None where none does."""
    periodic, ranges = steps.periodic, subject.trace[Table.RANGES]
    if not len(ranges):
        return None
    names, kind = ranges.strings.kinds(ranges.codes("name"), lambda name: without_numbers(name or ""))
    often, opened = len(periodic.steps), np.bincount(kind, minlength=len(names))
    rows = np.flatnonzero(((opened == often) | (opened == often + 1))[kind])  # it may come after the last step too
    slow = Spans(steps.steps.start_ns[periodic.is_slow], steps.steps.end_ns[periodic.is_slow])
    held = covered(slow, ranges["start_ns"][rows], ranges["end_ns"][rows])
    inside = held >= MOST_OF_PERIOD * ranges.duration_ns[rows]
    rows, held = rows[inside], held[inside]
    of_name = np.bincount(kind[rows], held, len(names))
    best = int(of_name.argmax())
    share = min(float(of_name[best]) / periodic.more_ns, 1.0)
    if share < MOSTLY:
        return None
    first, name = int(rows[kind[rows] == best][0]), cut_label(names[best])
    return Evidence(
        say("{share} of it in {name}", share=share_text(share), name=name),
        Span(int(ranges["start_ns"][first]), int(ranges["end_ns"][first])),
        int(ranges["pid"][first]),
        int(ranges["tid"][first]),
        ranges=(name,),
        count=often,
        share=share,
        of=_MORE,
    )


def _step_span(device: Device, number: int) -> Span | None:
    if device.steps is None:
        return None
    return Span(int(device.steps.edges_ns[number]), int(device.steps.edges_ns[number + 1]))


def _outliers(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = _comparable(device)
    if varies is None:
        return ()
    periodic, edges, gaps = periodic_steps(device), varies.steps.edges_ns, device.ledger.gaps
    cold = device.gaps_of(QueueTrigger.COLD)
    step = np.searchsorted(edges, gaps.start_ns[cold], side="right") - 1
    in_steps = step >= 0
    cold_ns = np.bincount(step[in_steps], gaps.length_ns[cold][in_steps], len(edges))
    outliers = [
        outlier
        for outlier in varies.outliers
        if (periodic is None or not periodic.periodic.is_slow[outlier.step])
        and 2 * cold_ns[outlier.step] < outlier.length_ns - outlier.usual_ns
    ]
    saving = sum(outlier.length_ns - outlier.usual_ns for outlier in outliers)
    if not outliers or not worth_telling(device, saving):
        return ()
    worst = outliers[0]
    figures = {
        "count": count_text(len(outliers)),
        "steps": count_text(device.step_count),
        "time": time_text(worst.length_ns),
        "usual": time_text(worst.usual_ns),
        "line": worst.line.label,
    }
    if len(outliers) == 1:
        claim = say("1 of {steps} steps takes unusually long: {time} against {usual}, most of it {line}", **figures)
    else:
        claim = say(
            "{count} of {steps} steps take unusually long: up to {time} against {usual}, most of it {line}", **figures
        )
    longest = say("the longest is step {step}", step=worst.step)
    evidence = Evidence(longest, _step_span(device, worst.step), count=len(outliers))
    return [rule.finding(device, claim, (evidence,), saving, say("they take as long as the median step"))]


def _drift(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    device = subject.device
    varies = _comparable(device)
    if varies is None or varies.drift is None or not varies.drifts or varies.drift.share < 0:
        return ()
    periodic = periodic_steps(device)
    if periodic is not None and periodic.captures_graphs:  # other graphs take another time
        return ()
    drift = varies.drift
    # none of it in the first third, all of it in the last: on average half. Single long steps are another finding's
    saving = (drift.late_ns - drift.early_ns) * device.step_count // 2
    if not worth_telling(device, saving):
        return ()
    claim = say("steps slow down over the run: {share} from the first third to the last", share=share_text(drift.share))
    times = {"early": time_text(drift.early_ns), "late": time_text(drift.late_ns)}
    grown = say("from {early} to {late}, most of it {line}", **times, line=drift.line.label)
    evidence = Evidence(grown, _step_span(device, len(varies.steps) - 1))
    return [rule.finding(device, claim, (evidence,), saving, say("all steps take as long as the early ones"))]


def _cold_start(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The context, the code or the process was not there yet. Nothing is saved: a longer run pays it once too."""
    device = subject.device
    gaps, chosen = device.ledger.gaps, device.gaps_of(QueueTrigger.COLD)
    time = device.idle_by_trigger.get(QueueTrigger.COLD, 0)
    if not len(chosen) or not worth_telling(device, time):
        return ()
    creating = device.causes_of(QueueTrigger.COLD).get(Cause.CONTEXT, 0)
    longest = int(chosen[gaps.length_ns[chosen].argmax()])
    pid, captures = device.work.pid, device.host.captures
    captured = [
        covered(captures[process], gaps.start_ns[mine], gaps.end_ns[mine]).sum()
        for process in captures
        if len(mine := chosen[pid[gaps.after[chosen]] == process])
    ]
    if 2 * sum(captured) > time:
        claim = say("CUDA graphs are captured: {time}, once", time=time_text(time))
    elif gaps.before[longest] >= 0 and pid[gaps.before[longest]] == pid[gaps.after[longest]]:
        claim = say("libraries are loaded and set up: {time}, once", time=time_text(time))
    elif 2 * creating > time:
        claim = say("the CUDA context is created: {time}, once", time=time_text(creating))
    else:
        claim = say("the first GPU work takes {time} to start, once", time=time_text(time))
    evidence = (*_causes(device, longest), *_calls(device, longest))
    assumption = say("it happens once, however long the program runs")
    finding = rule.finding(device, claim, evidence, 0, assumption, explains=time)
    return [replace(finding, confidence=say("low"))]


def _causes(device: Device, gap: int) -> list[Evidence]:
    """What the time went to, as far as it is notable."""
    gaps = device.ledger.gaps
    span, length = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap])), int(gaps.length_ns[gap])
    booked = sorted(gaps.by_cause.sums(np.array([gap])).items(), key=lambda entry: -entry[1])
    return [
        Evidence(
            say("{share} of it {cause}", share=share_text(time / length), cause=cause.label),
            span,
            share=time / length,
            of=say("the time until the first work"),
        )
        for cause, time in booked
        if time >= LEAST_SHARE * length
    ]


def _calls(device: Device, gap: int) -> list[Evidence]:
    """The call that held the host longest: one that creates the context, or the launch itself."""
    gaps, calls = device.ledger.gaps, device.host.calls
    launch, length = int(gaps.call[gap]), int(gaps.length_ns[gap])
    if launch < 0:
        return []
    creating = device.host.are(CallKind.CONTEXT) & (calls["pid"] == calls["pid"][launch])
    candidates = np.append(np.flatnonzero(creating), launch)
    inside = np.minimum(calls["end_ns"][candidates], gaps.end_ns[gap]) - np.maximum(
        calls["start_ns"][candidates], gaps.start_ns[gap]
    )
    held, share = int(candidates[inside.argmax()]), int(inside.max()) / length
    if share < LEAST_SHARE:
        return []
    name = short_function_name(calls.strings.text(int(calls.codes("name")[held])) or "")
    return [
        Evidence(
            say("{share} of it in {name}", share=share_text(share), name=name),
            Span(int(calls["start_ns"][held]), int(calls["end_ns"][held])),
            int(calls["pid"][held]),
            int(calls.stored("tid")[held]),
            call=name,
            share=share,
            of=say("the time until the first work"),
        )
    ]


def with_confidence(device: Device, rule: Rule[OneGpu], finding: Finding) -> Finding:
    """A finding about gaps, believed highly only if they are several: what was seen once may not happen again.

    Nothing is saved of steps that do not have it: one of many steps, or code, which is known not to be loaded again.
    Nor is memory of one long call allocated in a loop.
    """
    gap = only_gap(device, rule.triggers)
    if gap is None or not finding.saving_ns:
        return finding
    if device.steps is None and Cause.ALLOC in rule.triggers and (one := _one_allocation(device, gap)) is not None:
        others = (piece for piece in finding.evidence if piece.call != one.call)
        return replace(finding, confidence=say("low"), fix=advice.ALLOCATED_ONCE, evidence=(one, *others))
    loads = Cause.LOAD in rule.triggers
    if not (loads or is_once(device, rule.triggers)):
        return replace(finding, confidence=say("medium")) if finding.confidence == "high" else finding
    gaps = device.ledger.gaps
    lengths = np.concatenate([gaps.length_ns[device.gaps_of(trigger)] for trigger in rule.triggers])
    share = float(gaps.length_ns[gap] / lengths.sum())
    words = say("{share} of it in one gap", share=share_text(share))
    if loads:
        words = say("{share} of it in one gap: it is loaded once", share=share_text(share))
    span = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]))
    once = Evidence(words, span, share=share, of=say("the time of its gaps"))
    cold = replace(finding, confidence=say("low"), evidence=(once, *finding.evidence))
    if device.steps is None:
        return cold
    return replace(cold, saving_ns=0, saving_ns_per_step=0, saving_low_ns_per_step=0, edit=None)


def _one_allocation(device: Device, gap: int) -> Evidence | None:
    """The call that allocates for the most of a gap; None where there are many."""
    gaps, calls = device.ledger.gaps, device.host.calls
    span = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]))
    allocating = np.flatnonzero(device.host.are(CallKind.ALLOC))
    inside = np.minimum(calls["end_ns"][allocating], span.end_ns) - np.maximum(
        calls["start_ns"][allocating], span.start_ns
    )
    share = int(inside.max(initial=0)) / (span.end_ns - span.start_ns)
    if share < MOSTLY:
        return None
    held = int(allocating[inside.argmax()])
    name = short_function_name(calls.strings.text(int(calls.codes("name")[held])) or "")
    return Evidence(
        say("{share} of it in one call of {name}", share=share_text(share), name=name),
        Span(int(calls["start_ns"][held]), int(calls["end_ns"][held])),
        int(calls["pid"][held]),
        int(calls.stored("tid")[held]),
        call=name,
        share=share,
        of=say("the longest gap"),
    )


RULES: Final = (
    Rule("STEP-PERIODIC", _periodic, advice.STEP_PERIODIC),
    Rule("STEP-OUTLIERS", _outliers, None, is_symptom=True),
    Rule("STEP-DRIFT", _drift, None, is_symptom=True),
    Rule("COLD-START", _cold_start, None, triggers=(QueueTrigger.COLD,)),
)

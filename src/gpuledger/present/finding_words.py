"""What is said of a finding, wherever it is shown: a finding in, messages out."""

from __future__ import annotations

from gpuledger.findings.finding import Finding
from gpuledger.messages import Message, say
from gpuledger.present.document import Points, ShownFinding, TimelinePlace
from gpuledger.units import time_text


def shown_finding(finding: Finding, share: float | None = None, place: TimelinePlace | None = None) -> ShownFinding:
    """A finding with what it saves, if anything, and the first thing to try."""
    saving = saving_words(finding) if finding.saving_ns else None
    return ShownFinding(finding, saving, finding.fix, share, place)


def saving_words(finding: Finding) -> Message:
    """What fixing it would save."""
    per_step_ns = finding.saving_ns_per_step
    time = time_text(finding.saving_ns if per_step_ns is None else per_step_ns)
    if per_step_ns is None:
        return say("saves at most {time}", time=time) if finding.is_bound else say("saves {time}", time=time)
    if finding.is_bound:
        return say("saves at most {time} per step", time=time)
    return say("saves {time} per step", time=time)


def saving_range_words(finding: Finding) -> Message:
    """The same as a range where ranks differ in what they would save; also where it is nothing."""
    if not finding.saving_ns:
        return say("saves nothing")
    low_ns, most_ns = finding.saving_low_ns_per_step, finding.saving_ns_per_step
    if low_ns is None or most_ns is None or finding.is_bound or time_text(low_ns) == time_text(most_ns):
        return saving_words(finding)
    return say("saves {least} to {most} per step", least=time_text(low_ns), most=time_text(most_ns))


def then_words(finding: Finding) -> Message | None:
    """What it saves once those before it are fixed, where that is another number than what it saves alone."""
    if finding.then_ns is None:
        return None
    time = time_text(finding.then_ns // finding.steps)
    if time == time_text(finding.saving_ns // finding.steps):
        return None
    if 100 * finding.then_ns < finding.saving_ns:
        return say("saves nothing more once those above are fixed")
    if finding.saving_ns_per_step is None:
        return say("saves {time} once those above are fixed", time=time)
    return say("saves {time} per step once those above are fixed", time=time)


def unsure_words(finding: Finding) -> Message | None:
    """What it saves without the profiler: where that was measured, or most of the saving may be the profiler's own."""
    if finding.plain is None:
        return None
    if finding.plain.ns is not None and (told := plain_words(finding)) is not None:
        return say("without the profiler {saving}", saving=told)
    if not finding.is_unsure:
        return None
    if 100 * finding.plain.low_ns < finding.saving_ns:
        return say("perhaps nothing without the profiler, which slows each call")
    low = time_text(finding.plain.low_ns // finding.steps)
    if finding.saving_ns_per_step is None:
        return say("perhaps only {low} without the profiler, which slows each call", low=low)
    return say("perhaps only {low} per step without the profiler, which slows each call", low=low)


def plain_range(finding: Finding) -> tuple[str, str] | None:
    """From where to where the saving per step may lie without the profiler."""
    if not finding.saving_ns or finding.plain is None or finding.saving_ns_per_step is None:
        return None
    return time_text(finding.plain.low_ns // finding.steps), time_text(finding.plain.high_ns // finding.steps)


def plain_words(finding: Finding) -> Message | None:
    """What would be saved without the profiler."""
    bounds = plain_range(finding)
    if bounds is None or finding.plain is None:
        return None
    low, high = bounds
    if finding.plain.ns is None:
        return say("{low} to {high} per step (no unprofiled run to compare with)", low=low, high=high)
    time = time_text(finding.plain.ns // finding.steps)
    return say("{time} per step ({low} to {high})", time=time, low=low, high=high)


def fix_words(fix: Message) -> Message:
    """What to do about a finding."""
    return say("fix: {what}", what=fix)


def finding_points(shown: ShownFinding) -> Points:
    """Its code and claim, and below what to do, the evidence and the next command."""
    finding = shown.finding
    return Points(
        say("{code}: {claim}", code=finding.code, claim=finding.claim),
        (
            *([fix_words(shown.fix)] if shown.fix else []),
            *finding.sentences,
            say("next: {command}", command=finding.next),
        ),
    )

"""A finding about loops of small kernels: what is done tensor by tensor, where one kernel could do it for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.evidence import MOST_EXAMPLES, Evidence
from gpuledger.findings.finding import Finding, counted, finding, per_step, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import joined, say
from gpuledger.trace.columns import distinct
from gpuledger.trace.spans import Span
from gpuledger.units import count_text

LEAST_PART: Final = 0.2
"""Loops that hold less of what launching costs are not what to begin with."""

MOST_PART: Final = 0.85
"""Where loops are nearly all of what launching costs, LAUNCH-BOUND says so, with the loop as evidence."""

MOST_NAMES: Final = 2


def _looped(subject: OneGpu) -> Sequence[Finding]:
    """Part of what the host launches are the same few kernels, for one tensor after the other."""
    device, repeated = subject.device, subject.fixes.looped.repeated
    if not len(repeated) or are_most_of_launching(subject):
        return ()
    edit = subject.edit("KERNEL-LOOP")
    lost = _host_ns(subject)
    saving = subject.saved_ns(edit, lost)
    if not worth_telling(device, saving):
        return ()
    count = round(len(repeated) * device.step_count / subject.scenario.part.steps)
    launches = counted(device, count, say("launch"), say("launches"))
    claim = say(
        "small kernels launched in a loop, tensor by tensor: {launches} cost the host {time}",
        launches=launches,
        time=per_step(device, lost),
    )
    assumption = say("one kernel handles all tensors: only the first round of each loop is launched")
    evidence = loop_evidence(subject)
    return [finding(device, "KERNEL-LOOP", claim, evidence, saving, assumption, explains=lost, edit=edit)]


def _host_ns(subject: OneGpu) -> int:
    """What the host takes to launch what is repeated."""
    calls, looping = subject.fixes.graph.calls, subject.fixes.looping
    return subject.scenario.of_steady(int(calls.duration_ns[looping].sum() + calls.code_ns[looping].sum()))


def are_most_of_launching(subject: OneGpu) -> bool:
    """Whether loops are nearly all of what launching costs."""
    if not len(subject.fixes.looped.repeated):
        return False
    part, bound = (subject.scenario.saved_ns(subject.edit(code)) for code in ("KERNEL-LOOP", "LAUNCH-BOUND"))
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


RULES: Final = (Rule("KERNEL-LOOP", _looped, (QueueTrigger.BEHIND,)),)

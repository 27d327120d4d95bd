"""How far a finding is believed whose time lies in one gap: what was seen once may not happen again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import call_evidence, call_name, per_step
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, share_text, time_text

OCCUPATIONS: Final[tuple[Trigger, ...]] = (
    *(Cause.LOAD, Cause.ALLOC, Cause.OS, Cause.WAIT_THREAD, Cause.HOST_CODE, QueueTrigger.COMPILE),
)
"""What a host does instead of launching, and sets gaps off with."""

MIN_ONE_GAP_SHARE: Final = 0.9  # a finding that has this share of its time in one gap rests on that gap alone
MIN_STEPS: Final = 6  # of fewer steps nobody can tell whether what one of them has comes again


def only_gap(device: Device, triggers: Sequence[Trigger]) -> int | None:
    """The gap that holds nearly all of what these set off; None where there are several."""
    chosen = np.concatenate([np.empty(0, np.intp), *map(device.gaps_of, triggers)])
    lengths = device.ledger.gaps.length_ns[chosen]
    is_one = len(lengths) and lengths.max() >= MIN_ONE_GAP_SHARE * lengths.sum()
    return int(chosen[lengths.argmax()]) if is_one else None


def is_once(device: Device, triggers: Sequence[Trigger]) -> bool:
    """Whether the host is occupied with this in one of many steps only."""
    has_many = device.steps is not None and device.step_count >= MIN_STEPS
    return has_many and set(triggers) <= set(OCCUPATIONS) and only_gap(device, triggers) is not None


def lost_time_words(device: Device, time: int, triggers: Sequence[Trigger]) -> str:
    """What is lost to these, for one step; of one gap alone the whole."""
    if not is_once(device, triggers):
        seen_once = (
            device.steps is None and set(triggers) <= set(OCCUPATIONS) and only_gap(device, triggers) is not None
        )
        return say("{time}, once,", time=time_text(time)) if seen_once else per_step(device, time)
    return say("{time}, once in {steps} steps,", time=time_text(time), steps=count_text(device.step_count))


_ALLOCATED_ONCE: Final = say("nothing, where the program runs for long: it is paid once; else allocate, or pin, less")


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
        return replace(finding, confidence=say("low"), fix=_ALLOCATED_ONCE, evidence=(one, *others))
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
    sentence = say("{share} of it in one call of {name}", share=share_text(share), name=call_name(calls, held))
    return call_evidence(calls, held, sentence, share=share, of=say("the longest gap"))

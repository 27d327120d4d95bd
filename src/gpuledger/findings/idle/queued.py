"""Work that is queued and does not run.

DEVICE-WAIT: the work was queued, but the device did not start it.

The time breakdown has `idle: queued, not started`. On the timeline the launch call had returned long before; the host
is ahead, nothing runs, and yet the next kernel starts late. It waits for something on the device's side: an event,
another stream, another GPU or a host function.

GPU-SHARED: the GPU switched between processes.

The time breakdown has `idle: another process`. On the timeline activities of two processes alternate on one GPU, with
a pause at each change although the next work was queued.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.idle.occupied import gap_time
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit, without_lags


def device_is_blocked(rule: Rule[OneGpu], subject: OneGpu, *, doing: Message) -> Sequence[Finding]:
    """Work was queued, and the device did not run it."""
    device, [cause] = subject.device, rule.triggers
    time, _ = gap_time(device, cause)
    if not time or not is_significant(device, time):
        return ()
    claim, edit = say("{doing}: {time}", doing=doing, time=per_step(device, time)), rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, time), say("this wait disappears")
    return [rule.finding(device, claim, gap_evidence(subject, cause), saving, assumption, explains=time, edit=edit)]


def start_when_queued(fixes: Fixes, trigger: Trigger) -> Edit:
    """What was queued begins as soon as its stream comes to it."""
    chosen, operations = fixes.gaps_with_ends(trigger)
    less = fixes.device.ledger.gaps.length_ns[chosen]
    return lambda graph: without_lags(graph, operations, less)


DEVICE_WAIT: Final = Rule(
    "DEVICE-WAIT",
    partial(device_is_blocked, doing=say("work was queued but not started: the GPU waited for something else")),
    say("record the event right after the producer, and launch that work earlier"),
    edit=partial(start_when_queued, trigger=Cause.DEVICE_WAIT),
    triggers=(Cause.DEVICE_WAIT,),
)

GPU_SHARED: Final = Rule(
    "GPU-SHARED",
    partial(device_is_blocked, doing=say("the GPU switched between processes")),
    say("give the process the GPU for itself, or run both under MPS"),
    edit=partial(start_when_queued, trigger=Cause.CONTEXT_SWITCH),
    triggers=(Cause.CONTEXT_SWITCH,),
)

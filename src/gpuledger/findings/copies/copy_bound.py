"""COPY-BOUND: copies are most of what the GPU does.

`exposed copies` is the largest line of the time breakdown: larger than compute, communication and any cause of idle
time. The GPU looks busy, but only its copy engines are, not its SMs. Faster kernels change nothing, and there is not
enough compute to hide the copies under.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.memory.figures import MEMSET, WITHIN_DEVICE, CopyFlow
from gpuledger.findings.copies.flows import (
    are_most_of_time,
    at_rate,
    could_be_hidden_ns,
    exposed_copies_ns,
    exposed_flows,
    launched_flows,
    pageable_loss_ns,
    run_beside_compute,
    way_words,
)
from gpuledger.findings.finding import Finding
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import LineKind
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit
from gpuledger.units import bytes_text, share_text


def _copy_bound(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Copies are most of what the GPU does: what counts is their rate and their bytes, not what runs beside them."""
    device, flows = subject.device, launched_flows(subject)
    if not are_most_of_time(device, flows):
        return ()
    exposed, slow = exposed_copies_ns(flows), sum(flow.slow_ns for flow in flows if not flow.is_pageable)
    hidden = could_be_hidden_ns(device, exposed - pageable_loss_ns(flows) - slow)
    edit = fast_and_hidden(subject.fixes)
    saving = subject.saved_ns(edit, slow + hidden)
    most, share = flows[0], share_text(exposed / device.steady_ns)
    size, rate = bytes_text(most.total_bytes // device.step_count), most.bytes_per_s
    mostly = {"share": share, "way": way_words(most)}
    claim = say("copies not overlapped with compute take {share} of the time, mostly {way}", **mostly)
    if rate is not None:
        claim = say(
            "copies not overlapped with compute take {share} of the time, mostly {way}: {size} at {rate}/s",
            **mostly,
            size=size if device.steps is None else say("{size} per step", size=size),
            rate=bytes_text(rate),
        )
    evidence, assumption = exposed_flows(subject, flows), _assumption(slow, hidden)
    bound = rule.finding(device, claim, evidence, saving, assumption, explains=exposed, edit=edit if saving else None)
    return [replace(bound, fix=_what_helps(most))]


def _assumption(slow: int, hidden: int) -> str:
    if slow > hidden:
        return say("copies run at the link's rate, and compute hides as much of them as it can")
    if hidden:
        return say("compute hides as much of the copies as it can; beyond that, only fewer bytes help")
    return say("the copies run at full speed: only fewer bytes help")


def _what_helps(flow: CopyFlow) -> Message:
    """What to try for the flow with the most time."""
    if flow.is_pageable:
        return say(
            "pin the host memory (COPY-PAGEABLE); then copy in chunks, each while the previous one is computed on"
        )
    if not flow.is_at_rate and flow.are_small:
        return say("the copies are too small for the link: pack them into a few large ones")
    if not flow.is_at_rate:
        return say(
            "large copies below the link's rate: look for other traffic on it, host memory on the wrong "
            "NUMA node, or a narrower slot"
        )
    if flow.kind == MEMSET:
        return say("clear only what is read before it is written, or once instead of every step")
    if flow.kind in WITHIN_DEVICE:
        return say("at full memory bandwidth only fewer bytes help: write results in place, or where they are used")
    return say(
        "at the link's rate only fewer bytes help: keep data where it is used, copy a smaller dtype "
        "or compress; overlap the rest in chunks with compute"
    )


def fast_and_hidden(fixes: Fixes) -> Edit:
    """Copies come at the rate that their way allows, and run beside compute."""
    hidden = run_beside_compute(fixes, State.COPY)
    fast = at_rate(fixes, fixes.steady_operations(State.COPY), fixes.copy_flows)
    return lambda graph: fast(hidden(graph))


RULE: Final = Rule(
    "COPY-BOUND",
    _copy_bound,
    say("copy fewer bytes, and those at the link's rate"),
    exposed=LineKind.COPY,
    is_symptom=True,
)

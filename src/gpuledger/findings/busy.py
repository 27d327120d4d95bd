"""Findings about a GPU that is busy with the wrong work: kernels that need not run, or that others do much faster.

They are told by names, sizes and by what follows what (`analyse.busy`): less sure than what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import Shortened
from gpuledger.catalog.frameworks import framework_of
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.advice import advice_for
from gpuledger.findings.evidence import LEAST_SHARE, MOST_EXAMPLES, Evidence
from gpuledger.findings.finding import Finding, counted, finding, per_step, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import Message, joined, say
from gpuledger.trace.columns import distinct
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.units import share_text

LEAST: Final = 0.03
"""What would save less of the time than this is no matter."""

LEAST_COPIED: Final = 0.1
"""So much may be copied within the GPU: what is written into a cache is a copy as well."""

LEAST_SORTED: Final = 0.1
"""So much may be sorted: whether all of it is needed cannot be seen."""

MOST_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class FixWords:
    """What kernels do, and what is assumed of those that would run instead."""

    doing: Message
    assumption: Message


def _found(code: str, least: float, words: Mapping[str, FixWords], subject: OneGpu) -> Sequence[Finding]:
    device, scene, work = subject.device, subject.scenario, subject.fixes.work
    chosen = subject.fixes.faster(code)
    if not len(chosen):
        return ()
    took = (work.end_ns - work.start_ns)[chosen.operations]
    less = (took - chosen.duration_ns).sum() + _between_ns(subject, chosen)
    time, lost = (scene.of_steady(int(amount)) for amount in (took.sum(), less))
    if lost < least * device.steady_ns:
        return ()
    edit = subject.edit(code)
    count = round(len(chosen) * device.step_count / scene.part.steps)
    kernels = counted(device, count, say("kernel"), say("kernels"))
    said = words[chosen.kind]
    claim = say("{doing}: {kernels}, {time}", doing=said.doing, kernels=kernels, time=per_step(device, time))
    evidence = _evidence(subject, chosen, time / device.steady_ns)
    saving = subject.saved_ns(edit, lost)
    if not worth_telling(device, saving):
        return ()
    told = finding(device, code, claim, evidence, saving, said.assumption, explains=lost, edit=edit)
    confidence = told.confidence if chosen.was_sampled else say("medium")  # by their names
    return [replace(told, fix=_fix(subject, code, chosen), confidence=confidence)]


def _between_ns(subject: OneGpu, chosen: Shortened) -> int:
    """What the device takes to get to those kernels that would not run."""
    device, gaps = subject.device, subject.device.ledger.gaps
    own = np.concatenate([device.gaps_of(trigger) for trigger in (Cause.TURNAROUND, Cause.GRAPH)])
    here, operations = subject.scenario.part.places(gaps.after[own])
    gone = np.isin(operations, chosen.operations[chosen.duration_ns == 0])
    return int(gaps.length_ns[own[here]][gone].sum())


def _evidence(subject: OneGpu, chosen: Shortened, share: float) -> tuple[Evidence, ...]:
    """The kernels that take the most of it."""
    work, strings = subject.fixes.work, subject.trace.strings
    took = (work.end_ns - work.start_ns)[chosen.operations]
    codes, number = np.unique(work.name[chosen.operations], return_inverse=True)
    by_name = np.bincount(number, weights=took)
    names = [strings.text(int(code)) or "" for code in codes[np.argsort(-by_name, kind="stable")]]
    shown = list(dict.fromkeys(cut_label(label(name)) for name in names))[:MOST_NAMES]
    rows = chosen.operations[largest(took, MOST_EXAMPLES)]
    first = int(rows[0])
    return (
        Evidence(
            say("{share} of the time in {names}", share=share_text(share), names=joined(say(", "), shown)),
            span=Span(int(work.start_ns[first]), int(work.end_ns[first])),
            pid=int(work.pid[first]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", rows).tolist()),
            count=len(chosen),
            share=share if share >= LEAST_SHARE else None,
            of=say("the time"),
        ),
    )


def _fix(subject: OneGpu, code: str, chosen: Shortened) -> Message:
    """What to change, in the words of the framework."""
    strings = subject.trace.strings
    framework = framework_of(strings.text(int(name)) or "" for name in distinct(subject.fixes.busy.names))
    return advice_for(code, chosen.kind, framework)


def _rule(code: str, doing: Message, assumption: Message, least: float = LEAST) -> Rule[OneGpu]:
    return Rule(code, partial(_found, code, least, {"": FixWords(doing, assumption)}), is_estimate=True)


PRECISION: Final = {
    "fp32": FixWords(
        say("FP32 matrix kernels, which do not run on tensor cores"),
        say("they run in bfloat16 on tensor cores, and the tensors around them are half the size"),
    ),
    "tf32": FixWords(
        say("TF32 matrix kernels, at half the tensor-core rate of 16-bit types"),
        say("they run in bfloat16, and the tensors around them are half the size"),
    ),
    "fp64": FixWords(
        say("FP64 kernels, in a program that otherwise uses none"),
        say("they run in FP32, on half the bytes"),
    ),
}

RULES: Final = (
    Rule("PRECISION", partial(_found, "PRECISION", LEAST, PRECISION), is_estimate=True),
    _rule(
        "ATTENTION-UNFUSED",
        say("attention is not fused: the full score matrix is written, masked, normalized and read back"),
        say("one fused kernel does it all and never writes the score matrix"),
    ),
    _rule(
        "LAYOUT",
        say("layout conversions between kernels"),
        say("one layout throughout: these kernels go away, and batch norms read contiguous memory"),
    ),
    _rule(
        "DEVICE-COPY",
        say("device-to-device tensor copies"),
        say("tensors are written in place or used as views: these kernels go away"),
        LEAST_COPIED,
    ),
    _rule(
        "FULL-SORT",
        say("whole tensors are sorted"),
        say("only the largest values are needed: picking them takes a fifth of a sort"),
        LEAST_SORTED,
    ),
    _rule(
        "UNFUSED-CHAIN",
        say("chains of elementwise kernels, each reading what the last one wrote"),
        say("one fused kernel reads and writes the data once"),
    ),
    _rule(
        "OPTIMIZER-UNFUSED",
        say("the optimizer updates parameters one by one, in many passes over memory"),
        say("a fused optimizer reads and writes parameter, gradient and moments once"),
    ),
    _rule(
        "GEMM-LOOP",
        say("the same small GEMM runs over and over"),
        say("one batched or grouped GEMM does them all"),
    ),
    _rule(
        "UNDER-FILLED",
        say("kernels with too few blocks leave most SMs idle"),
        say("their work is spread over all SMs"),
    ),
)

"""Findings about a GPU that is busy with the wrong work: kernels that need not run, or that others do much faster.

They are told by names and by what follows what (`analyse.busy_kernels`): less sure than what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.busy_kernels import Shortened
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.evidence import LEAST_SHARE, MOST_EXAMPLES, Evidence
from gpuledger.findings.finding import Finding, counted, finding, per_step
from gpuledger.findings.fixes import SHORTENED
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.messages import Message, joined, say
from gpuledger.trace.spans import Span
from gpuledger.units import share_text

LEAST: Final = 0.03
"""What would save less of the time than this is no matter."""

LEAST_COPIED: Final = 0.1
"""So much may be copied within the GPU: what is written into a cache is a copy as well."""

MOST_NAMES: Final = 3


def _found(code: str, least: float, doing: Message, assumption: Message, subject: OneGpu) -> Sequence[Finding]:
    device, scene, work = subject.device, subject.scenario, subject.fixes.work
    chosen = SHORTENED[code](subject.fixes.busy)
    if not len(chosen):
        return ()
    took = (work.end_ns - work.start_ns)[chosen.operations]
    time, lost = (scene.of_steady(int(amount)) for amount in (took.sum(), (took - chosen.duration_ns).sum()))
    if lost < least * device.steady_ns:
        return ()
    edit = subject.edit(code)
    count = round(len(chosen) * device.step_count / scene.part.steps)
    kernels = counted(device, count, say("kernel"), say("kernels"))
    claim = say("{doing}: {kernels}, {time}", doing=doing, kernels=kernels, time=per_step(device, time))
    evidence = _evidence(subject, chosen, time / device.steady_ns)
    told = finding(device, code, claim, evidence, subject.saved_ns(edit, lost), assumption, explains=lost, edit=edit)
    return [replace(told, confidence=say("medium"))]  # by their names


def _evidence(subject: OneGpu, chosen: Shortened, share: float) -> tuple[Evidence, ...]:
    """The kernels that take the most of it."""
    work, strings = subject.fixes.work, subject.trace.strings
    took = (work.end_ns - work.start_ns)[chosen.operations]
    codes, number = np.unique(work.name[chosen.operations], return_inverse=True)
    by_name = np.bincount(number, weights=took)
    names = [strings.text(int(code)) or "" for code in codes[np.argsort(-by_name, kind="stable")]]
    shown = list(dict.fromkeys(cut_label(label(name)) for name in names))[:MOST_NAMES]
    rows = chosen.operations[np.argsort(-took, kind="stable")[:MOST_EXAMPLES]]
    first = int(rows[0])
    return (
        Evidence(
            say("{share} of the time in {names}", share=share_text(share), names=joined(say(", "), shown)),
            span=Span(int(work.start_ns[first]), int(work.end_ns[first])),
            pid=int(work.pid[first]),
            kernel=names[0],
            correlations=tuple(work.correlation[rows].tolist()),
            count=len(chosen),
            share=share if share >= LEAST_SHARE else None,
            of=say("the time"),
        ),
    )


def _rule(code: str, doing: Message, assumption: Message, least: float = LEAST) -> Rule[OneGpu]:
    return Rule(code, partial(_found, code, least, doing, assumption))


RULES: Final = (
    _rule(
        "PRECISION",
        say("matrix kernels in single or double precision, which tensor cores do not run"),
        say("they run in bfloat16 on tensor cores, and the tensors around them take half the bytes"),
    ),
    _rule(
        "ATTENTION-UNFUSED",
        say("attention is not fused: all scores are written, masked, normalised and read again"),
        say("a fused kernel does it between the two products, without writing the scores"),
    ),
    _rule(
        "LAYOUT",
        say("tensors change their layout between kernels"),
        say("one layout throughout: these kernels do not run"),
    ),
    _rule(
        "DEVICE-COPY",
        say("tensors are copied within the GPU"),
        say("written in place, or used as views: these kernels do not run"),
        LEAST_COPIED,
    ),
    _rule(
        "UNFUSED-CHAIN",
        say("kernels by element follow each other, each reading what the last one wrote"),
        say("one kernel reads and writes once, and takes what the longest of them takes"),
    ),
)

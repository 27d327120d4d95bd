"""What findings save together: each alone, and each after those before it.

Savings do not add: a gap that a wait leaves behind may be filled by launching faster, and two faults may hide one
another so that mending either alone saves nothing. So the findings of the GPU that is told first are replayed one after
the other, in the order in which they are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuledger.findings.finding import Finding, worth_telling
from gpuledger.findings.rule import OneGpu
from gpuledger.replay.edits import Edit


def in_order(ranked: Sequence[Finding], subjects: Mapping[int, OneGpu]) -> tuple[Finding, ...]:
    """The findings with what they save in this order; what saves next to nothing alone and after others is left out."""
    main = next((found.gpu for found in ranked if found.edit is not None), -1)
    told: list[Finding] = []
    mended: list[Edit] = []
    saved = 0
    for found in ranked:
        if found.edit is None:
            told.append(found)
            continue
        subject = subjects[found.gpu]
        then = None
        if found.gpu == main:
            together = max(subject.scenario.saved_ns(*mended, found.edit), saved)
            then = min(together - saved, found.explains_ns)
        if not worth_telling(subject.device, max(found.saving_ns, then or 0)):
            continue
        if found.gpu == main:
            then = then if mended else found.saving_ns  # nothing is mended before it
            mended.append(found.edit)
            saved = together
        told.append(replace(found, then_ns=then))
    return tuple(told)

"""The order of findings, the most profitable first, and which of one GPU's are told as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.idle.kernel_loop import is_what_to_begin_with
from gpuledger.findings.idle.tiny_kernels import as_part
from gpuledger.findings.rule import OneGpu
from gpuledger.findings.rules import RULE_OF
from gpuledger.findings.steps.periodic_steps import periodic_steps
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.replay.edits import Edit

MIN_USUAL_SHARE: Final = 0.2  # a finding of which the usual steps lose less than this share is about what few steps do
ESTIMATE_ERROR_SHARE: Final = 0.25  # savings by what other kernels would take are off by as much


def merge_launch_findings(found: Sequence[Finding]) -> list[Finding]:
    """Late launches and tiny kernels of one GPU, which have one edit, as one finding; no part of it saves more.

    It is about tiny kernels where the device's own pace between them loses more than late launches do.
    """
    by_code = {finding.code: finding for finding in found}
    late, tiny, loop = map(by_code.get, ("LAUNCH-BOUND", "TINY-KERNELS", "KERNEL-LOOP"))
    if late is not None and tiny is not None:
        if tiny.saving_ns > late.saving_ns:
            del by_code["LAUNCH-BOUND"]
        else:
            del by_code["TINY-KERNELS"]
            by_code["LAUNCH-BOUND"] = replace(late, evidence=(*late.evidence, *map(as_part, tiny.evidence)))
    for code in ("LAUNCH-BOUND", "TINY-KERNELS"):
        if loop is not None and code in by_code and by_code[code].saving_ns < loop.saving_ns:
            by_code[code] = _with_part(by_code[code], loop)
    return [by_code[finding.code] for finding in found if finding.code in by_code]


def merge_periodic_findings(device: Device, found: list[Finding]) -> list[Finding]:
    """What every so many steps do more as one finding; what the usual steps hardly have becomes its evidence."""
    periodic = next((finding for finding in found if finding.code == "STEP-PERIODIC"), None)
    of_steps = None if periodic is None else periodic_steps(device)
    if periodic is None or of_steps is None:
        return found
    if any(finding.code == "RECOMPILE" and 2 * finding.saving_ns > periodic.saving_ns for finding in found):
        return [finding for finding in found if finding is not periodic]  # of which it says why
    kept, parts = [], []
    for finding in found:
        usual_ns = None if finding is periodic else of_steps.usual_ns(RULE_OF[finding.code])
        if usual_ns is None or usual_ns >= MIN_USUAL_SHARE * finding.most_ns:
            kept.append(finding)
            continue
        for piece in finding.evidence[:1]:
            words = say("{code}: {what}", code=finding.code, what=piece.sentence)
            parts.append(replace(piece, sentence=words))
    whole = replace(periodic, evidence=(*periodic.evidence, *parts))
    return [whole if finding is periodic else finding for finding in kept]


def _with_part(bound: Finding, part: Finding) -> Finding:
    """A bound that is no less than what a part of it saves."""
    first, second = bound.edit, part.edit
    return replace(
        bound,
        saving_ns=part.saving_ns,
        saving_ns_per_step=part.saving_ns_per_step,
        explains_ns=max(bound.explains_ns, part.saving_ns),
        edit=bound.edit if first is None or second is None else lambda graph: second(first(graph)),
    )


def order_findings(findings: list[Finding]) -> list[Finding]:
    """By what they save in the run that was recorded; what may be the profiler's own gives way to what is not.

    Of neighbours, what is sure comes before an estimate that may be no more. What is left of another's time comes after
    that, and a bound after what can be had of it. A symptom comes after the causes that explain half of it, and before
    what explains less.
    """
    by_saving = sorted(findings, key=lambda finding: (-finding.saving_ns, finding.code))
    ranked = [finding for finding in by_saving if not RULE_OF[finding.code].is_symptom]
    for position, (first, second) in enumerate(pairwise(list(ranked))):
        is_near = second.saving_ns > (1 - ESTIMATE_ERROR_SHARE) * first.saving_ns
        is_surer = RULE_OF[first.code].is_estimate and not (RULE_OF[second.code].is_estimate or second.is_unsure)
        if is_near and is_surer:
            ranked[position], ranked[position + 1] = ranked[position + 1], ranked[position]
    for unsure in [finding for finding in reversed(ranked) if finding.is_unsure]:
        surer = [other for other in ranked if not other.is_recording and other.saving_ns > unsure.middle_ns]
        _put_behind(ranked, unsure, surer)
    for bound in [finding for finding in reversed(ranked) if finding.is_bound]:
        _put_behind(ranked, bound, [part for part in ranked if is_what_to_begin_with(part, bound)])
    for later in [finding for finding in ranked if finding.follows]:
        _put_behind(ranked, later, [finding for finding in ranked if finding.code == later.follows])
    for symptom in (finding for finding in by_saving if RULE_OF[finding.code].is_symptom):
        ranked.insert(sum(2 * cause.saving_ns >= symptom.explains_ns for cause in ranked), symptom)
    return ranked


def _put_behind(ranked: list[Finding], later: Finding, firsts: Sequence[Finding]) -> None:
    """Move a finding behind others that come first, where it is not."""
    place = max((ranked.index(first) for first in firsts), default=-1)
    if place > ranked.index(later):
        ranked.remove(later)
        ranked.insert(place, later)


def in_order(ranked: Sequence[Finding], subjects: Mapping[int, OneGpu]) -> tuple[Finding, ...]:
    """The findings with what they save in this order; what saves next to nothing alone and after others is left out."""
    main = next((finding.gpu for finding in ranked if finding.edit is not None), -1)
    kept: list[Finding] = []
    fixed: list[Edit] = []
    saved = 0
    for finding in ranked:
        if finding.edit is None:
            kept.append(finding)
            continue
        subject = subjects[finding.gpu]
        then = None
        if finding.gpu == main:
            together = max(subject.scenario.saved_ns(*fixed, finding.edit), saved)
            then = min(together - saved, finding.most_ns)
        if not is_significant(subject.device, max(finding.saving_ns, then or 0)):
            continue
        if finding.gpu == main:
            then = then if fixed else finding.saving_ns  # nothing is fixed before it
            fixed.append(finding.edit)
            saved = together
        kept.append(replace(finding, then_ns=then))
    return tuple(kept)

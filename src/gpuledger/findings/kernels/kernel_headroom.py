"""KERNEL-HEADROOM: a kernel that matters runs well below what the GPU can do.

The step is mostly compute, and one kernel or family has a large share of it. Nsight Compute, the shapes of its
operator or samples of the GPU's counters show that the kernel is far from the memory roof and from the compute roof of
this device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.analyse.light.slow_kernels import LEAST_LOST, at_reachable_pace
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.ledger.activity import State
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, with_durations
from gpuledger.trace.model import NotMeasured
from gpuledger.units import share_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import KernelMatch

FIX: Final = FixWords.of(
    say("see what holds the kernel back: `gpuledger kernels PROFILE -- COMMAND` prints the ncu command for it")
)
MAX_KERNELS: Final = 3  # slow kernels told, each as a finding of its own

_WITHOUT_COUNTERS: Final = rewrite_rule(
    "KERNEL-HEADROOM",
    at_reachable_pace,
    say("a kernel far from its roof, for a reason that is not in the profile"),
    say("it reaches the pace of other kernels that are limited by the same"),
    FIX,
    least=LEAST_LOST,
)


def _far_from_roof(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """By Nsight Compute one for each of the kernels that would save the most; without it by what they could take."""
    if subject.kernels is None:
        return _WITHOUT_COUNTERS.find(rule, subject)
    worth = [match for match in subject.kernels.matches if is_significant(subject.device, match.saving_ns)]
    ranked = sorted(worth, key=lambda match: -match.saving_ns)[:MAX_KERNELS]
    by_counters = replace(rule, fix=None)
    return [slow for match in ranked if (slow := _far_from_its_roof(by_counters, subject, match)) is not None]


def _far_from_its_roof(rule: Rule[OneGpu], subject: OneGpu, match: KernelMatch) -> Finding | None:
    if match.launch is None:
        return None
    device, judged, entry = subject.device, match.launch, match.entry
    roof = judged.verdict.roof_share
    if isinstance(roof, NotMeasured):
        return None
    claim = say(
        "{kernel} takes {time} and reaches {share} of its nearest roof",
        kernel=cut_label(label(entry.name)),
        time=per_step(device, entry.time_ns),
        share=share_text(roof),
    )
    edit = faster_kernel(subject.fixes, entry.name, match.saving_ns / max(entry.time_ns, 1))
    saving = subject.saved_ns(edit, match.saving_ns)
    reasons, assumption = [judged.verdict.because[0]], say("it reaches 90 % of that roof")
    if judged.verdict.wasted is not None and judged.verdict.is_by_waste:
        reasons.append(judged.verdict.wasted.sentence)
        assumption = say("its accesses are coalesced")
    sentences = (*reasons, judged.advice[0])
    evidence = tuple(Evidence(sentence, kernel=entry.name, count=entry.calls) for sentence in sentences)
    lost = match.saving_ns
    return rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)


def faster_kernel(fixes: Fixes, name: str, share: float) -> Edit:
    """Kernels of one name take that share of their time less."""
    work, chosen = fixes.work, fixes.steady_operations(State.COMPUTE)
    chosen = chosen[work.name[chosen] == fixes.trace.strings.code(name)]
    duration = np.rint((work.end_ns - work.start_ns)[chosen] * (1 - share)).astype(np.int64)
    return lambda graph: with_durations(graph, chosen, duration)


RULE: Final = replace(_WITHOUT_COUNTERS, find=_far_from_roof)

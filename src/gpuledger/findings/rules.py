"""Every rule, and what a profile is found to have: figures in, findings out, the most profitable first.

What a code means is on its page, `explain/CODE.md`. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gpuledger.analyse.program_ranges import ProgramRanges
from gpuledger.findings import (
    busy,
    capture,
    clocks,
    cold_start,
    copies,
    idle,
    kernels,
    loops,
    memory,
    memory_snapshot,
    overlap,
    ranks,
    steps,
    unified_memory,
)
from gpuledger.findings.cold_start import believed
from gpuledger.findings.finding import Finding
from gpuledger.findings.in_order import in_order
from gpuledger.findings.plain import with_plain_savings
from gpuledger.findings.rule import Capture, LazyScenario, OneGpu, Rule
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Trace
from gpuledger.trace.parallel import side_by_side

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import MatchedTimeline
    from gpuledger.analyse.use.stretches import SampledUse

OF_ONE_GPU: Final[tuple[Rule[OneGpu], ...]] = (
    *idle.RULES,
    *cold_start.RULES,
    *copies.RULES,
    *overlap.RULES,
    *memory.RULES,
    *unified_memory.RULES,
    *kernels.RULES,
    *loops.RULES,
    *busy.RULES,
    *clocks.RULES,
    *steps.RULES,
)
RULES: Final[tuple[Rule[Any], ...]] = (
    *OF_ONE_GPU,
    *capture.FIRST,
    *capture.RULES,
    *ranks.RULES,
    *memory_snapshot.RULES,
)
"""All there are."""

REFUSALS: Final = ("CAPTURE-EMPTY",)
"""Codes that have a page, and that a refusal names instead of a finding."""

RULE_OF: Final[Mapping[str, Rule[Any]]] = {rule.code: rule for rule in reversed(RULES)}
"""By code: of a code that one profile and a whole job can have, the profile's."""

ESTIMATED: Final = 0.25
"""Savings by what other kernels would take are off by as much."""

ALIKE: Final = 0.1
"""Savings that differ by less than this share are taken for equal."""


def codes() -> tuple[str, ...]:
    """Every code that has a page, in the order of the alphabet."""
    return tuple(sorted({rule.code for rule in RULES} | set(REFUSALS)))


def findings(
    trace: Trace,
    devices: Sequence[Device],
    profiled: Mapping[int, MatchedTimeline] | None = None,
    use: Mapping[int, SampledUse] | None = None,
) -> tuple[Finding, ...]:
    """All findings; each code once, for the device where it costs the most. Of slow kernels several are told.

    `profiled` holds what Nsight Compute says of each GPU, `use` what samples say.
    """
    best: dict[str, Finding] = {}
    subjects: dict[int, OneGpu] = {}
    ranges = ProgramRanges(trace)
    for device in devices:
        counted, sampled = (profiled or {}).get(device.gpu), (use or {}).get(device.gpu)
        subject = OneGpu(trace, device, ranges, LazyScenario(trace, device, sampled), counted, sampled)
        about_gaps, others = side_by_side(  # the first go through all gaps, the others through all kernels
            len(device.work),
            lambda subject=subject: _told(subject, idle.RULES),  # type: ignore[misc]
            lambda subject=subject: _told(subject, OF_ONE_GPU[len(idle.RULES) :]),  # type: ignore[misc]
        )
        subjects[device.gpu] = subject
        for found in (*about_gaps, *others):
            key = found.claim if found.code == "KERNEL-HEADROOM" else found.code
            if key not in best or found.saving_ns > best[key].saving_ns:
                best[key] = found
    whole = Capture(trace, devices)
    first, last = ([found for rule in rules for found in rule.find(whole)] for rules in (capture.FIRST, capture.RULES))
    return (*first, *in_order(_ranked(with_plain_savings(list(best.values()), subjects)), subjects), *last)


def _told(subject: OneGpu, rules: Sequence[Rule[OneGpu]]) -> list[Finding]:
    return [believed(subject.device, rule, found) for rule in rules for found in rule.find(subject)]


def _ranked(found: list[Finding]) -> list[Finding]:
    """By what they may be expected to save; of neighbours that save about the same, the one that explains more idle
    time itself comes first, and what goes before what would be faster by an estimate.

    What is left of another's time comes after that, and a bound after what can be had of it. A symptom comes after the
    causes that explain half of it, and before what explains less.
    """
    found = sorted(found, key=lambda finding: (-finding.expected_ns, finding.code))
    ranked = [finding for finding in found if not RULE_OF[finding.code].is_symptom]
    for position, (first, second) in enumerate(pairwise(list(ranked))):
        alike = second.expected_ns > (1 - ALIKE) * first.expected_ns
        is_near = second.expected_ns > (1 - ESTIMATED) * first.expected_ns
        is_surer = RULE_OF[first.code].is_estimate and not (RULE_OF[second.code].is_estimate or second.is_unsure)
        explains_more = first.explains_ns < min(second.explains_ns, first.saving_ns / 2)
        if (alike and explains_more) or (is_near and is_surer):
            ranked[position], ranked[position + 1] = ranked[position + 1], ranked[position]
    for later in [finding for finding in ranked if finding.follows]:
        _put_behind(ranked, later, [finding for finding in ranked if finding.code == later.follows])
    for bound in [finding for finding in reversed(ranked) if finding.is_bound]:
        _put_behind(ranked, bound, [part for part in ranked if loops.is_what_to_begin_with(part, bound)])
    for symptom in (finding for finding in found if RULE_OF[finding.code].is_symptom):
        ranked.insert(sum(2 * cause.saving_ns >= symptom.explains_ns for cause in ranked), symptom)
    return ranked


def _put_behind(ranked: list[Finding], later: Finding, firsts: Sequence[Finding]) -> None:
    """Move a finding behind others that come first, where it is not."""
    place = max((ranked.index(first) for first in firsts), default=-1)
    if place > ranked.index(later):
        ranked.remove(later)
        ranked.insert(place, later)

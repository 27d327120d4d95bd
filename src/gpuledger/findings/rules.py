"""Every rule, and what a profile is found to have: books in, findings out, the most profitable first.

Each has what it saves alone, after those before it, and without the profiler: the same edits on a host that it does not
slow down. What a code means is on its `page`, `explain/CODE.md`. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gpuledger.attribution.ranges import ProgramRanges
from gpuledger.catalog.frameworks import framework_of
from gpuledger.findings import busy, capture, copies, idle, kernels, memory, ranks, steps
from gpuledger.findings.advice import in_words_of
from gpuledger.findings.finding import Finding, PlainSaving, worth_telling
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import Capture, LazyScenario, OneGpu, Rule
from gpuledger.findings.steps import with_confidence
from gpuledger.ledger.device import Device
from gpuledger.replay.edits import Edit, scale_host
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.sweep import side_by_side

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.utilization.stretches import SampledUse


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
            then = min(together - saved, finding.explains_ns)
        if not worth_telling(subject.device, max(finding.saving_ns, then or 0)):
            continue
        if finding.gpu == main:
            then = then if fixed else finding.saving_ns  # nothing is fixed before it
            fixed.append(finding.edit)
            saved = together
        kept.append(replace(finding, then_ns=then))
    return tuple(kept)


MOST_SLOWED: Final = 1.8
"""How much slower tracing makes a host that does little but launch, at most: 1.1 to 1.8 times on H200 hosts."""

MOST_SLOWED_BY: Final = {"torch.profiler": 4.0}
"""The same of a tool that notes each operator: 2.5 and 4.0 times in two programs, with the operators' shapes."""

EITHER_WAY: Final = 0.2
"""Without the profiler a saving may be less or more by that share: a host's pace differs from run to run."""

_HALVINGS: Final = 12


def with_plain_savings(findings: Sequence[Finding], subjects: Mapping[int, OneGpu]) -> list[Finding]:
    """The findings with what they save without the profiler, where that can be replayed."""
    hosts = {
        gpu: PlainHost(subjects[gpu].scenario)
        for gpu in {finding.gpu for finding in findings if finding.edit is not None}
    }
    plain = []
    for finding in findings:
        if finding.edit is not None:
            saving = hosts[finding.gpu].saving(finding.edit, finding.saving_ns, finding.explains_ns)
            low = None if finding.saving_ns_per_step is None else saving.low_ns // finding.steps
            finding = replace(finding, plain=saving, saving_low_ns_per_step=low)
        plain.append(finding)
    return plain


class PlainHost:
    """The host of a scenario, without the profiler."""

    def __init__(self, scene: Scenario) -> None:
        self.scene = scene

    @cached_property
    def steady_ns(self) -> int | None:
        """What the steady stretch takes without the profiler; None where that is not known."""
        device = self.scene.device
        plain_ns = self.scene.trace.plain_window_ns
        if isinstance(plain_ns, NotMeasured):
            return None
        return round(device.steady_ns * plain_ns / device.ledger.window_ns)

    @cached_property
    def scale(self) -> float:
        """How long the host takes for what takes it 1 under the profiler."""
        if self.steady_ns is None:
            return 1 / MOST_SLOWED_BY.get(self.scene.trace.origin.tool, MOST_SLOWED)
        low, high = 0.05, 1.5
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if self._takes(middle) < self.steady_ns:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def _takes(self, scale: float, *edits: Edit) -> int:
        return self.scene.steady_ns(lambda graph: scale_host(graph, scale), *edits)

    @cached_property
    def _at_pace_ns(self) -> int:
        return self._takes(self.scale)

    def saving(self, edit: Edit, saving_ns: int, lost_ns: int) -> PlainSaving:
        """Of a change that saves so much under the profiler, of so much lost."""
        edited_ns = self.scene.steady_ns(edit, lambda graph: scale_host(graph, self.scale))
        at_pace = min(max(self._at_pace_ns - edited_ns, 0), lost_ns)
        if self.steady_ns is None:
            return PlainSaving(None, *_range(at_pace, saving_ns, self.scene.device.steady_ns))
        in_proportion = round(saving_ns * self.steady_ns / self.scene.device.steady_ns)
        return PlainSaving((at_pace + in_proportion) // 2, *_range(at_pace, in_proportion, self.steady_ns))


def _range(one_ns: int, other_ns: int, steady_ns: int) -> tuple[int, int]:
    """What lies between them, and a little beyond; never all that there is."""
    low, high = sorted((one_ns, other_ns))
    return round(low * (1 - EITHER_WAY)), min(round(high * (1 + EITHER_WAY)), max(high, steady_ns))


OF_ONE_GPU: Final[tuple[Rule[OneGpu], ...]] = (
    *idle.RULES,
    *copies.RULES,
    *memory.OF_A_RUN,
    *kernels.RULES,
    *busy.RULES,
    *steps.RULES,
)
RULES: Final[tuple[Rule[Any], ...]] = (
    *OF_ONE_GPU,
    *capture.FIRST,
    *capture.RULES,
    *ranks.RULES,
    *memory.RULES,
)
"""All there are."""

REFUSALS: Final = ("CAPTURE-EMPTY",)
"""Codes that have a page, and that a refusal names instead of a finding."""

RULE_OF: Final[Mapping[str, Rule[Any]]] = {rule.code: rule for rule in reversed(RULES)}
"""By code: of a code that one profile and a whole job can have, the profile's."""

EDIT_OF: Final[Mapping[str, Callable[[Fixes], Edit]]] = {
    rule.code: rule.edit for rule in OF_ONE_GPU if rule.edit is not None
}
"""What stands for acting on a code. Others are about the capture, say when and not why, or edit what they found."""

ESTIMATED: Final = 0.25
"""Savings by what other kernels would take are off by as much."""


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
            lambda subject=subject: _of_rules(subject, idle.RULES),  # type: ignore[misc]
            lambda subject=subject: _of_rules(subject, OF_ONE_GPU[len(idle.RULES) :]),  # type: ignore[misc]
        )
        subjects[device.gpu] = subject
        for finding in (*about_gaps, *others):
            key = finding.claim if finding.code == "KERNEL-HEADROOM" else finding.code
            if key not in best or finding.saving_ns > best[key].saving_ns:
                best[key] = finding
    whole = Capture(trace, devices)
    first, last = (
        [finding for rule in rules for finding in rule.findings(whole)] for rules in (capture.FIRST, capture.RULES)
    )
    ranked = in_order(_rank(with_plain_savings(list(best.values()), subjects)), subjects)
    framework = framework_of(trace)
    return (*first, *(in_words_of(framework, finding) for finding in ranked), *last)


def _of_rules(subject: OneGpu, rules: Sequence[Rule[OneGpu]]) -> list[Finding]:
    return [with_confidence(subject.device, rule, finding) for rule in rules for finding in rule.findings(subject)]


def _rank(findings: list[Finding]) -> list[Finding]:
    """By what they may be expected to save; of neighbours, what is sure comes before an estimate that may be no more.

    What is left of another's time comes after that, and a bound after what can be had of it. A symptom comes after the
    causes that explain half of it, and before what explains less.
    """
    by_saving = sorted(findings, key=lambda finding: (-finding.expected_ns, finding.code))
    ranked = [finding for finding in by_saving if not RULE_OF[finding.code].is_symptom]
    for position, (first, second) in enumerate(pairwise(list(ranked))):
        is_near = second.expected_ns > (1 - ESTIMATED) * first.expected_ns
        is_surer = RULE_OF[first.code].is_estimate and not (RULE_OF[second.code].is_estimate or second.is_unsure)
        if is_near and is_surer:
            ranked[position], ranked[position + 1] = ranked[position + 1], ranked[position]
    for later in [finding for finding in ranked if finding.follows]:
        _put_behind(ranked, later, [finding for finding in ranked if finding.code == later.follows])
    for bound in [finding for finding in reversed(ranked) if finding.is_bound]:
        _put_behind(ranked, bound, [part for part in ranked if kernels.is_what_to_begin_with(part, bound)])
    for symptom in (finding for finding in by_saving if RULE_OF[finding.code].is_symptom):
        ranked.insert(sum(2 * cause.saving_ns >= symptom.explains_ns for cause in ranked), symptom)
    return ranked


def _put_behind(ranked: list[Finding], later: Finding, firsts: Sequence[Finding]) -> None:
    """Move a finding behind others that come first, where it is not."""
    place = max((ranked.index(first) for first in firsts), default=-1)
    if place > ranked.index(later):
        ranked.remove(later)
        ranked.insert(place, later)


def page(code: str, language: str = "en") -> str:
    """The page about a code."""
    folder = ("explain",) if language == "en" else ("explain", language)
    return files(__package__).joinpath(*folder, f"{code}.md").read_text(encoding="utf-8")

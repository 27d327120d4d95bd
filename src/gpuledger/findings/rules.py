"""Every rule, and what a profile is found to have: books in, findings out, the most profitable first.

Each has what it saves alone, after those before it, and without the profiler: the same edits on a host that records no
events. What a code means is on its `page`, `explain/CODE.md`. CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from gpuledger.attribution.ranges import ProgramRanges
from gpuledger.catalog.frameworks import framework_of
from gpuledger.findings import busy, capture, copies, idle, kernels, memory, ranks, steps
from gpuledger.findings.advice import in_words_of
from gpuledger.findings.finding import Finding, PlainSaving, worth_telling
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import Capture, LazyScenario, OneGpu, Rule
from gpuledger.findings.steps import with_confidence
from gpuledger.ledger.activity import calls_in_layers
from gpuledger.ledger.causes import TRIGGERS, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, without_events
from gpuledger.replay.graph import NEVER
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.keys import Positions, is_among, search
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.sweep import side_by_side
from gpuledger.trace.tables import Rows, Table

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.utilization.against_counters import CountedUse
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
            then = min(together - saved, finding.most_ns)
        if not worth_telling(subject.device, max(finding.saving_ns, then or 0)):
            continue
        if finding.gpu == main:
            then = then if fixed else finding.saving_ns  # nothing is fixed before it
            fixed.append(finding.edit)
            saved = together
        kept.append(replace(finding, then_ns=then))
    return tuple(kept)


CALL_COST_NS: Final = (0, 13_000)
"""What recording one CUDA call costs the host, at least and at most: seen with nsys on H200 hosts."""

OPERATOR_COST_NS: Final = (1_200, 3_300)  # what torch.profiler costs for each operator and CUDA call that it records
SHAPES_COST_NS: Final = (2_800, 4_400)  # the same where it records the shapes of the operators' inputs
STACKS_COST_NS: Final = 4_800  # the most where it records Python's functions too

EITHER_WAY: Final = 0.2
"""Without the profiler a saving may be less or more by that share: a host's pace differs from run to run."""

_HALVINGS: Final = 12
_FIT_NS: Final = (-5_000, 50_000)
"""Between these lies what an event costs, by the run without the profiler; below 0 where that was the slower one."""


def with_plain_savings(findings: Sequence[Finding], subjects: Mapping[int, OneGpu]) -> list[Finding]:
    """The findings with what they save without the profiler, where that can be replayed."""
    hosts = {
        gpu: PlainHost(subjects[gpu].scenario)
        for gpu in {finding.gpu for finding in findings if finding.edit is not None}
    }
    plain = []
    for finding in findings:
        if finding.edit is not None:
            triggers = RULE_OF[finding.code].triggers
            if finding.follows == "LAUNCH-BOUND":
                triggers = (*triggers, QueueTrigger.BEHIND)
            saving = hosts[finding.gpu].saving(finding.edit, finding.saving_ns, finding.most_ns, triggers)
            low = None if finding.saving_ns_per_step is None else saving.low_ns // finding.steps
            finding = replace(finding, plain=saving, saving_low_ns_per_step=low)
        plain.append(finding)
    return plain


class PlainHost:
    """The host of a scenario, without the profiler: it does not take the time to record events."""

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
    def _noted(self) -> Rows:
        """What was recorded between CUDA calls, and cost time: operators and ranges by torch, else the system's calls.

        Python's functions are in what an operator costs; NVTX ranges cost far less than a call.
        """
        trace = self.scene.trace
        if trace.origin.tool != "torch.profiler":
            return calls_in_layers(trace, "os")
        ranges = trace[Table.RANGES]
        others = [trace.strings.code(kind) for kind in ("mark", "python")]
        return ranges.where(~is_among(ranges.codes("kind"), others))

    @cached_property
    def events(self) -> Ints:
        """For each call how many events were recorded in it, and since the thread's last one."""
        graph, host = self.scene.graph, self.scene.part.host
        events = np.bincount(graph.node_of_call, minlength=len(graph.calls))
        owner, start = thread(self._noted), self._noted["start_ns"]
        by_thread, order = np.argsort(graph.calls.thread, kind="stable"), np.lexsort((start, owner))
        caller, ended = graph.calls.thread[by_thread], graph.recorded.call_end[by_thread]
        since = np.diff(search(owner[order], start[order], host.threads[caller], ended, side="right"), prepend=0)
        is_first = np.diff(caller, prepend=-1) != 0
        events[by_thread] += np.where(is_first, 0, since)
        return events

    @cached_property
    def cost_ns(self) -> tuple[float, float]:
        """What one event cost, at least and at most: as the run without the profiler has it, else as was measured."""
        if self.steady_ns is not None:
            low, high = map(float, _FIT_NS)
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if self._takes(middle) < self.steady_ns else (middle, high)
            return (low + high) / 2, (low + high) / 2
        trace = self.scene.trace
        if trace.origin.tool != "torch.profiler":
            return CALL_COST_NS
        ranges = trace[Table.RANGES]
        least, most = SHAPES_COST_NS if (ranges.codes("inputs") != NO_TEXT).any() else OPERATOR_COST_NS
        has_stacks = (ranges.codes("kind") == trace.strings.code("python")).any()
        return least, STACKS_COST_NS if has_stacks else most

    def _takes(self, cost_ns: float, *edits: Edit) -> int:
        return self.scene.steady_ns(*edits, without_events(self.scene.graph, self.events, cost_ns))

    @cached_property
    def _in_gaps(self) -> tuple[Positions, Positions, Ints]:
        """Calls on the way to the launch that ends a steady gap, the gap, and the host's time in it since the last."""
        graph, device, host = self.scene.graph, self.scene.device, self.scene.device.host
        gaps, begin, end = device.ledger.gaps, graph.recorded.call_begin, graph.recorded.call_end
        gap = np.searchsorted(gaps.start_ns, end) - 1
        if not len(host.calls) or not len(gaps.start_ns):
            return gap[:0], gap[:0], end[:0]
        call = gaps.call[gap]
        launched = np.where(call >= 0, host.calls["start_ns"][call], NEVER)
        awaited = host.threads[host.thread_of_call[call]]
        is_own = awaited == self.scene.part.host.threads[graph.calls.thread]
        here = np.flatnonzero((gap >= 0) & (begin <= launched) & is_own & device.steady_gaps[gap])
        gap, since = gap[here], (begin - graph.calls.code_ns)[here]
        spent = np.minimum(end[here], gaps.end_ns[gap]) - np.maximum(since, gaps.start_ns[gap])
        return here, gap, np.maximum(spent, 0)

    def slowed_share(self, triggers: Sequence[Trigger], cost_ns: float) -> float:
        """How much of the host's time in the gaps that these set off events take, where one costs so much."""
        here, gap, spent = self._in_gaps
        chosen = is_among(self.scene.device.ledger.gaps.trigger[gap], [TRIGGERS.index(trigger) for trigger in triggers])
        events, spent = self.events[here[chosen]], spent[chosen]
        return float(np.minimum(events * cost_ns, spent).sum() / max(int(spent.sum()), 1))

    def saving(self, edit: Edit, saving_ns: int, most_ns: int, triggers: Sequence[Trigger] = ()) -> PlainSaving:
        """Of a change that saves so much of what these set off under the profiler, and never more than `most_ns`."""
        if self.steady_ns is None:
            high, low = (round(saving_ns * (1 - self.slowed_share(triggers, cost))) for cost in self.cost_ns)
            return PlainSaving(None, *_range(low, high, min(most_ns, self.scene.device.steady_ns)))
        at_pace = min(max(self._at_pace_ns - self._takes(self.cost_ns[0], edit), 0), most_ns)
        in_proportion = round(saving_ns * self.steady_ns / self.scene.device.steady_ns)
        bounds = _range(at_pace, in_proportion, min(most_ns, self.steady_ns))
        return PlainSaving(min((at_pace + in_proportion) // 2, bounds[1]), *bounds)

    @cached_property
    def _at_pace_ns(self) -> int:
        return self._takes(self.cost_ns[0])


def _range(one_ns: int, other_ns: int, most_ns: int) -> tuple[int, int]:
    """What lies between them, and a little beyond; never more than there is."""
    low, high = sorted((one_ns, other_ns))
    return min(round(low * (1 - EITHER_WAY)), most_ns), min(round(high * (1 + EITHER_WAY)), most_ns)


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

REFUSALS: Final = ("CAPTURE-EMPTY",)  # codes that have a page, and that a refusal names instead of a finding

RULE_OF: Final[Mapping[str, Rule[Any]]] = {rule.code: rule for rule in reversed(RULES)}
"""By code: of a code that one profile and a whole job can have, the profile's."""

EDIT_OF: Final[Mapping[str, Callable[[Fixes], Edit]]] = {
    rule.code: rule.edit for rule in OF_ONE_GPU if rule.edit is not None
}
"""What stands for acting on a code. Others are about the capture, say when and not why, or edit what they found."""

SELDOM: Final = 0.2  # a finding of which the usual steps lose less than this share is about what few steps do
MOST_GPUS: Final = 64
"""GPUs that rules run on, at most: each saving replays all GPUs of the profile."""

ESTIMATED: Final = 0.25  # savings by what other kernels would take are off by as much


def findings(
    trace: Trace,
    devices: Sequence[Device],
    profiled: Mapping[int, MatchedTimeline] | None = None,
    use: Mapping[int, SampledUse] | None = None,
) -> tuple[Finding, ...]:
    """All findings; `profiled` holds what Nsight Compute says of each GPU, `use` what samples say."""
    return findings_of(trace, subjects_of(trace, devices, profiled, use))


def subjects_of(
    trace: Trace,
    devices: Sequence[Device],
    profiled: Mapping[int, MatchedTimeline] | None = None,
    use: Mapping[int, SampledUse] | None = None,
    counted_use: CountedUse | None = None,
) -> dict[int, OneGpu]:
    """What rules are asked about, by GPU."""
    ranges, subjects = ProgramRanges(trace), dict[int, OneGpu]()
    for device in devices:
        counted, sampled = (profiled or {}).get(device.gpu), (use or {}).get(device.gpu)
        replays = LazyScenario(trace, device, sampled, counted_use)
        subjects[device.gpu] = OneGpu(trace, device, ranges, replays, counted, sampled)
    return subjects


def findings_of(trace: Trace, subjects: Mapping[int, OneGpu]) -> tuple[Finding, ...]:
    """Each code once, for the device where it costs the most. Of slow kernels several are told.

    Of graphs being captured nothing else is told: it happens once.
    """
    whole = Capture(trace, [subject.device for subject in subjects.values()])
    first, last = (
        [finding for rule in rules for finding in rule.findings(whole)] for rules in (capture.FIRST, capture.RULES)
    )
    if any(finding.code == capture.GRAPH_CAPTURE.code for finding in first):
        return (*first, *(finding for finding in last if finding.code != capture.GRAPH_CAPTURE.code))
    best: dict[str, Finding] = {}
    for subject in asked_about(subjects.values()):
        device = subject.device
        about_gaps, others = side_by_side(  # the first go through all gaps, the others through all kernels
            len(device.work),
            lambda subject=subject: _of_rules(subject, idle.RULES),  # type: ignore[misc]
            lambda subject=subject: _of_rules(subject, OF_ONE_GPU[len(idle.RULES) :]),  # type: ignore[misc]
        )
        for finding in _periodic_once(device, _launching_once((*about_gaps, *others))):
            key = finding.claim if finding.code == "KERNEL-HEADROOM" else finding.code
            if key not in best or finding.saving_ns > best[key].saving_ns:
                best[key] = finding
    kept = capture.believed(trace, list(best.values()), {rule.code for rule in idle.RULES})
    ranked = in_order(_rank(with_plain_savings(kept, subjects)), subjects)
    framework = framework_of(trace)
    return (*first, *(in_words_of(framework, finding) for finding in ranked), *last)


def _working(subjects: Collection[OneGpu]) -> Collection[OneGpu]:
    """The GPUs that compute or communicate: nobody waits for one that is only copied to while others work."""
    working = [each for each in subjects if each.device.compute_ns or len(each.device.ledger.busy.comm)]
    return working or subjects


def asked_about(subjects: Collection[OneGpu]) -> Collection[OneGpu]:
    """Those of the working ones that work the least, and the most: others may wait for these."""
    working = _working(subjects)
    if len(working) <= MOST_GPUS:
        return working
    ordered = sorted(working, key=lambda subject: (subject.device.device_floor_ns, -subject.device.gpu))
    asked = (*ordered[: MOST_GPUS // 2], *ordered[-(MOST_GPUS // 2) :])
    return sorted(asked, key=lambda subject: subject.device.gpu)


def _of_rules(subject: OneGpu, rules: Sequence[Rule[OneGpu]]) -> list[Finding]:
    return [with_confidence(subject.device, rule, finding) for rule in rules for finding in rule.findings(subject)]


def _launching_once(found: Sequence[Finding]) -> list[Finding]:
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
            by_code["LAUNCH-BOUND"] = replace(late, evidence=(*late.evidence, *map(kernels.as_part, tiny.evidence)))
    for code in ("LAUNCH-BOUND", "TINY-KERNELS"):
        if loop is not None and code in by_code and by_code[code].saving_ns < loop.saving_ns:
            by_code[code] = _with_part(by_code[code], loop)
    return [by_code[finding.code] for finding in found if finding.code in by_code]


def _periodic_once(device: Device, found: list[Finding]) -> list[Finding]:
    """What every so many steps do more as one finding; what the usual steps hardly have becomes its evidence."""
    periodic = next((finding for finding in found if finding.code == "STEP-PERIODIC"), None)
    of_steps = None if periodic is None else steps.periodic_steps(device)
    if periodic is None or of_steps is None:
        return found
    if any(finding.code == "RECOMPILE" and 2 * finding.saving_ns > periodic.saving_ns for finding in found):
        return [finding for finding in found if finding is not periodic]  # of which it says why
    kept, parts = [], []
    for finding in found:
        usual_ns = None if finding is periodic else of_steps.usual_ns(RULE_OF[finding.code])
        if usual_ns is None or usual_ns >= SELDOM * finding.most_ns:
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


def _rank(findings: list[Finding]) -> list[Finding]:
    """By what they save in the run that was recorded; what may be the profiler's own gives way to what is not.

    Of neighbours, what is sure comes before an estimate that may be no more. What is left of another's time comes after
    that, and a bound after what can be had of it. A symptom comes after the causes that explain half of it, and before
    what explains less.
    """
    by_saving = sorted(findings, key=lambda finding: (-finding.saving_ns, finding.code))
    ranked = [finding for finding in by_saving if not RULE_OF[finding.code].is_symptom]
    for position, (first, second) in enumerate(pairwise(list(ranked))):
        is_near = second.saving_ns > (1 - ESTIMATED) * first.saving_ns
        is_surer = RULE_OF[first.code].is_estimate and not (RULE_OF[second.code].is_estimate or second.is_unsure)
        if is_near and is_surer:
            ranked[position], ranked[position + 1] = ranked[position + 1], ranked[position]
    for unsure in [finding for finding in reversed(ranked) if finding.is_unsure]:
        surer = [other for other in ranked if not other.is_recording and other.saving_ns > unsure.middle_ns]
        _put_behind(ranked, unsure, surer)
    for bound in [finding for finding in reversed(ranked) if finding.is_bound]:
        _put_behind(ranked, bound, [part for part in ranked if kernels.is_what_to_begin_with(part, bound)])
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

"""All rules asked of a profile: books in, findings out, the most profitable first.

Each has what it saves alone, after those before it, and without the profiler: the same edits on a host that records no
events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from gpuledger.attribution.ranges import ProgramRanges
from gpuledger.catalog.frameworks import framework_of
from gpuledger.findings.about_gaps import ABOUT_GAPS
from gpuledger.findings.capture.capture_damaged import drop_findings_on_damaged_data
from gpuledger.findings.capture.capture_warmup import GRAPH_CAPTURE
from gpuledger.findings.finding import Finding
from gpuledger.findings.fix_words import in_words_of
from gpuledger.findings.plain_host import PlainHost
from gpuledger.findings.ranking import in_order, merge_launch_findings, merge_periodic_findings, order_findings
from gpuledger.findings.rule import Capture, LazyScenario, OneGpu, Rule
from gpuledger.findings.rules import ABOUT_WORK, FIRST, LAST, RULE_OF
from gpuledger.findings.single_gap import with_confidence
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.trace.model import Trace
from gpuledger.trace.sweep import side_by_side

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.step_kernels import MatchedTimeline
    from gpuledger.analyse.utilization.against_counters import CountedUse
    from gpuledger.analyse.utilization.stretches import SampledUse

MAX_GPUS: Final = 64
"""GPUs that rules run on, at most: each saving replays all GPUs of the profile."""


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
    first, last = ([finding for rule in rules for finding in rule.findings(whole)] for rules in (FIRST, LAST))
    if any(finding.code == GRAPH_CAPTURE.code for finding in first):
        return (*first, *(finding for finding in last if finding.code != GRAPH_CAPTURE.code))
    best: dict[str, Finding] = {}
    for subject in asked_about(subjects.values()):
        device = subject.device
        about_gaps, others = side_by_side(  # the first go through all gaps, the others through all kernels
            len(device.work),
            lambda subject=subject: _of_rules(subject, ABOUT_GAPS),  # type: ignore[misc]
            lambda subject=subject: _of_rules(subject, ABOUT_WORK),  # type: ignore[misc]
        )
        for finding in merge_periodic_findings(device, merge_launch_findings((*about_gaps, *others))):
            key = finding.claim if finding.code == "KERNEL-HEADROOM" else finding.code
            if key not in best or finding.saving_ns > best[key].saving_ns:
                best[key] = finding
    kept = drop_findings_on_damaged_data(trace, list(best.values()), {rule.code for rule in ABOUT_GAPS})
    ranked = in_order(order_findings(with_plain_savings(kept, subjects)), subjects)
    framework = framework_of(trace)
    return (*first, *(in_words_of(framework, finding) for finding in ranked), *last)


def _working(subjects: Collection[OneGpu]) -> Collection[OneGpu]:
    """The GPUs that compute or communicate: nobody waits for one that is only copied to while others work."""
    working = [each for each in subjects if each.device.compute_ns or len(each.device.ledger.busy.comm)]
    return working or subjects


def asked_about(subjects: Collection[OneGpu]) -> Collection[OneGpu]:
    """Those of the working ones that work the least, and the most: others may wait for these."""
    working = _working(subjects)
    if len(working) <= MAX_GPUS:
        return working
    ordered = sorted(working, key=lambda subject: (subject.device.device_floor_ns, -subject.device.gpu))
    asked = (*ordered[: MAX_GPUS // 2], *ordered[-(MAX_GPUS // 2) :])
    return sorted(asked, key=lambda subject: subject.device.gpu)


def _of_rules(subject: OneGpu, rules: Sequence[Rule[OneGpu]]) -> list[Finding]:
    return [with_confidence(subject.device, rule, finding) for rule in rules for finding in rule.findings(subject)]


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

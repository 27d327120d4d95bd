"""Findings about kernels: casts that could go, kernels too short for a launch, kernels far from their roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.catalog.kernel_types import changes_type
from gpuledger.findings.evidence import MOST_EXAMPLES, Evidence
from gpuledger.findings.finding import Finding, counted, finding, per_step, worth_telling
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.steady_rows import are_steady, steady_rows
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import joined, say
from gpuledger.replay.edits import GRAPH_TURNAROUND_NS
from gpuledger.trace.columns import distinct
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import share_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import KernelMatch

TINY_NS: Final = 5_000
"""A kernel this short takes longer to launch than to run."""

MUCH_TURNAROUND: Final = 0.05
"""Below this share of the time, what the device takes from kernel to kernel is its usual due."""

LEAST_CAST: Final = 0.01
"""Of the time: a few casts are part of most programs."""

MOST_KERNELS: Final = 3
"""So many slow kernels are told, each as a finding of its own."""


def _casts(subject: OneGpu) -> Sequence[Finding]:
    trace, device = subject.trace, subject.device
    codes = distinct(trace[Table.KERNELS].codes("name")).tolist()
    casts = [code for code in codes if changes_type(trace.strings.text(code) or "")]
    if not casts:
        return ()
    kernels = steady_rows(trace[Table.KERNELS], device, "name", "pid", "correlation")
    cast_rows = kernels.where(np.isin(kernels.codes("name"), casts))
    if not len(cast_rows):
        return ()
    # where the host cannot keep up, launches that go away save their share of what is lost between launches
    late = int(device.ledger.gaps.length_ns[device.gaps_of(QueueTrigger.BEHIND)].sum())
    time = int(cast_rows.duration_ns.sum()) + late * len(cast_rows) // len(kernels)
    if time < LEAST_CAST * device.steady_ns:
        return ()
    count = counted(device, len(cast_rows), say("kernel"), say("kernels"))
    claim = say("{kernels} that only convert dtypes: {time}", kernels=count, time=per_step(device, time))
    names = joined(say(", "), sorted({label(trace.strings.text(code) or "") for code in casts})[:3])
    evidence, edit = (_of_kernels(names, cast_rows, np.ones(len(cast_rows), np.bool_)),), subject.fixes.kernels(casts)
    saving, assumption = subject.saved_ns(edit, time), say("the dtype is kept, or converted inside another kernel")
    return [finding(device, "CAST", claim, evidence, saving, assumption, explains=time, edit=edit)]


def _of_kernels(
    sentence: str, kernels: Rows, chosen: NDArray[np.bool_], share: float | None = None, of: str = ""
) -> Evidence:
    """A sentence about the chosen kernels, the longest of them as the example."""
    count = int(np.count_nonzero(chosen))
    length = np.where(chosen, kernels.duration_ns, np.iinfo(np.int64).min + 1)
    rows = kernels.at(largest(length, min(count, MOST_EXAMPLES)))
    return Evidence(
        sentence,
        span=Span(int(rows["start_ns"][0]), int(rows["end_ns"][0])),
        pid=int(rows["pid"][0]),
        kernel=rows.texts("name")[0] or "",
        correlations=tuple(rows["correlation"].tolist()),
        count=count,
        share=share,
        of=of,
    )


def _tiny(subject: OneGpu) -> Sequence[Finding]:
    """Where kernels are too short to be worth a launch: the host falls behind, or the device goes from one to the next.

    What the device needs between two kernels it also needs in a graph, only less.
    """
    device, kernels = subject.device, subject.trace[Table.KERNELS]
    behind, between = device.gaps_of(QueueTrigger.BEHIND), device.gaps_of(Cause.TURNAROUND)
    if device.idle_ns(Cause.TURNAROUND) < MUCH_TURNAROUND * device.steady_ns:
        between = between[:0]
    steady = are_steady(kernels, device)
    if not (len(behind) or len(between)) or not steady.any():
        return ()
    tiny = steady & (kernels.duration_ns < TINY_NS)
    share = float(np.count_nonzero(tiny) / np.count_nonzero(steady))
    gaps, chosen = device.ledger.gaps, np.concatenate((behind, between))
    before_tiny = _ends_before_tiny(device, chosen)
    all_ns, tiny_gaps = int(gaps.length_ns[chosen].sum()), chosen[before_tiny]
    time = int(gaps.length_ns[tiny_gaps].sum())
    kept = GRAPH_TURNAROUND_NS * int(np.count_nonzero(before_tiny[len(behind) :]))
    lost = max(time - kept, 0)
    if share < 0.5 or 2 * time < all_ns or not worth_telling(device, lost):
        return ()
    edit = subject.edit("TINY-KERNELS")
    saving = subject.saved_ns(edit, lost)
    claim = say(
        "{share} of the kernels take under 5 us, less than a launch: {time} of gaps",
        share=share_text(share),
        time=per_step(device, time),
    )
    advice = say("fuse them, batch them, or capture the step in a CUDA graph")
    assumption = say("the gaps close, as in a CUDA graph")
    evidence = _of_kernels(advice, kernels.only("name", "pid", "correlation"), tiny, share, say("the kernels"))
    longest = int(tiny_gaps[gaps.length_ns[tiny_gaps].argmax()])
    evidence = replace(evidence, span=Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest])))
    return [finding(device, "TINY-KERNELS", claim, (evidence,), saving, assumption, explains=time, edit=edit)]


def _ends_before_tiny(device: Device, chosen: Positions) -> NDArray[np.bool_]:
    """Which of these gaps a tiny kernel ends."""
    work, after = device.work, device.ledger.gaps.after[chosen]
    before: NDArray[np.bool_] = work.end_ns[after] - work.start_ns[after] < TINY_NS
    return before


def _headroom(subject: OneGpu) -> Sequence[Finding]:
    """One finding for each of the kernels that would save the most, of those that Nsight Compute profiled."""
    if subject.kernels is None:
        return ()
    worth = [match for match in subject.kernels.matches if worth_telling(subject.device, match.saving_ns)]
    ranked = sorted(worth, key=lambda match: -match.saving_ns)[:MOST_KERNELS]
    return [told for match in ranked if (told := _far_from_its_roof(subject, match)) is not None]


def _far_from_its_roof(subject: OneGpu, match: KernelMatch) -> Finding | None:
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
    edit = subject.fixes.faster_kernel(entry.name, match.saving_ns / max(entry.time_ns, 1))
    saving = subject.saved_ns(edit, match.saving_ns)
    reasons, assumption = [judged.verdict.because[0]], say("it reaches 90 % of that roof")
    if judged.verdict.wasted is not None and judged.verdict.is_by_waste:
        reasons.append(judged.verdict.wasted.sentence)
        assumption = say("its accesses are coalesced")
    told = (*reasons, judged.advice[0])
    evidence = tuple(Evidence(sentence, kernel=entry.name, count=entry.calls) for sentence in told)
    lost = match.saving_ns
    return finding(device, "KERNEL-HEADROOM", claim, evidence, saving, assumption, explains=lost, edit=edit)


RULES: Final = (
    Rule("CAST", _casts),
    Rule("TINY-KERNELS", _tiny, (QueueTrigger.BEHIND, Cause.TURNAROUND)),
    Rule("KERNEL-HEADROOM", _headroom),
)

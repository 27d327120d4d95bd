"""CLOCKS-LOW: the GPU's clock is well below what it can have.

The GPU is busy, and everything on it is slower than on another GPU of its kind, or than yesterday. Matrix products use
every cycle of the tensor cores, but there are too few cycles per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import GRAPH_FAMILY, State
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, scale_operations
from gpuledger.units import count_text, share_text

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.stretches import Clock

LOW_CLOCK_SHARE: Final = 0.85  # of the highest clock: from there on it is well below
MIN_CLOCKED_BUSY_SHARE: Final = 0.8
"""A GPU that works less of the time than this idles, and its clock follows: nothing is said of it."""

MIN_SAMPLED_NS: Final = (
    50_000_000  # so long kernels must have run under the samples: clocks follow power by milliseconds
)
MAX_SET_CLOCK_VARIATION: Final = 0.02  # a clock that varies by less of its mean is set, not regulated


def _clocks_low(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """A clock that is set has a bound of what it costs; one that power or heat holds down is only told."""
    if subject.use is None or (clock := subject.use[1].clock) is None:
        return ()
    device, highest = subject.device, clock.top_hz
    busy_share = 1 - sum(ns for line, ns in device.line_ns.items() if line.is_idle) / max(device.steady_ns, 1)
    # a clock that is still rising at the end was low because the GPU had idled
    low = max(clock.mean_hz, clock.late_hz) < LOW_CLOCK_SHARE * highest
    if not low or busy_share < MIN_CLOCKED_BUSY_SHARE or clock.busy_ns < MIN_SAMPLED_NS:
        return ()
    if not clock.varies_by(MAX_SET_CLOCK_VARIATION):
        return [_fixed_clock(rule, subject, clock)]
    claim = say(
        "under load the SM clock drops to {mean} MHz on average, {share} of the {highest} MHz maximum",
        **_clock_words(clock),
    )
    assumption = say("power, temperature or a set limit holds it down; the cost is unknown")
    low_clock = rule.finding(device, claim, (_clock_evidence(clock),), 0, assumption)
    return [replace(low_clock, confidence=say("low"))]


def _fixed_clock(rule: Rule[OneGpu], subject: OneGpu, clock: Clock) -> Finding:
    """What a higher clock would save of the kernels whose speed it is; memory has a clock of its own."""
    from gpuledger.analyse.utilization.kernel_use import CLASSES, UseClass
    from gpuledger.analyse.utilization.stretches import compute_split

    device, highest, use = subject.device, clock.top_hz, subject.use
    claim = say("the SM clock stays at {mean} MHz, {share} of the {highest} MHz maximum", **_clock_words(clock))
    class_of_row = None if use is None else use[0].class_of_row
    at_roof_ns = compute_split(device, class_of_row).steady_total[UseClass.COMPUTE_ROOF]
    less = 1 - clock.mean_hz / highest
    lost = round(at_roof_ns * less)
    assumption = say("compute-bound kernels run at the maximum clock")
    evidence = [_clock_evidence(clock)]
    if class_of_row is None or not lost:
        return rule.finding(device, claim, tuple(evidence), 0, assumption)
    edit = faster_rows(subject.fixes, class_of_row == CLASSES.index(UseClass.COMPUTE_ROOF), less)
    share = at_roof_ns / device.compute_ns
    told = say("{share} of compute time is at the compute roof, which scales with the clock", share=share_text(share))
    evidence.append(Evidence(told, share=share, of=say("compute time")))
    saving = subject.saved_ns(edit, lost)
    return rule.finding(device, claim, tuple(evidence), saving, assumption, explains=lost, edit=edit)


def faster_rows(fixes: Fixes, chosen_rows: NDArray[np.bool_], share: float) -> Edit:
    """Kernels in these rows of their table take that share of their time less."""
    work = fixes.work
    chosen = fixes.steady_operations(State.COMPUTE)
    chosen = chosen[work.family[chosen] != work.families.index(GRAPH_FAMILY)]
    chosen = chosen[chosen_rows[work.row[chosen]]]
    return lambda graph: scale_operations(graph, chosen, 1 - share)


def _clock_words(clock: Clock) -> dict[str, str]:
    mean, highest = (count_text(round(hertz / 1e6)) for hertz in (clock.mean_hz, clock.top_hz))
    return {"mean": mean, "share": share_text(clock.mean_hz / clock.top_hz), "highest": highest}


def _clock_evidence(clock: Clock) -> Evidence:
    lowest, most = (count_text(round(hertz / 1e6)) for hertz in (clock.lowest_hz, clock.most_hz))
    ends = {"lowest": lowest, "most": most, "count": count_text(clock.samples)}
    return Evidence(say("{lowest} to {most} MHz in {count} samples while kernels ran", **ends), count=clock.samples)


RULE: Final = Rule(
    "CLOCKS-LOW",
    _clocks_low,
    say("see what holds it down: `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`; unlock with `nvidia-smi -rgc`"),
    is_bound=True,
)

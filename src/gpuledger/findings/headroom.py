"""Kernels that are far from their roof and take much of the step: what making each as fast as can be would save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import WORTH_TELLING, Finding, finding, per_step
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured
from gpuledger.units import share_text

if TYPE_CHECKING:
    from gpuledger.analyse.kernels.timeline_match import Joined, Match

MOST_KERNELS: Final = 3
"""So many kernels are told, each as a finding of its own."""


def about_the_kernels(device: Device, found: Joined) -> list[Finding]:
    """One finding for each of the kernels that would save the most."""
    worth = [each for each in found.matches if each.saving_ns >= WORTH_TELLING * device.steady_ns]
    ranked = sorted(worth, key=lambda each: -each.saving_ns)[:MOST_KERNELS]
    return [made for each in ranked if (made := _headroom(device, each)) is not None]


def _headroom(device: Device, match: Match) -> Finding | None:
    if match.launch is None:
        return None
    judged, entry = match.launch, match.entry
    roof = judged.verdict.roof_share
    if isinstance(roof, NotMeasured):
        return None
    claim = say(
        "{kernel} takes {time} and reaches {share} of its nearest roof",
        kernel=cut_label(label(entry.name)),
        time=per_step(device, entry.time_ns),
        share=share_text(roof),
    )
    saving = match.saving_ns
    # a host that is behind hides what faster kernels save: the step takes what the longer of the two needs
    floor = max(device.host_floor_ns, device.device_floor_ns - saving)
    at_least = max(min(saving, device.steady_ns - floor), 0)
    assumption = say("it reaches 90 % of that roof, and the host keeps up")
    evidence = (judged.verdict.because[0], judged.advice[0])
    return finding(device, "KERNEL-HEADROOM", claim, evidence, saving, assumption, at_least=at_least)

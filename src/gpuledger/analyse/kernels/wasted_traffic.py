"""How much of what a kernel moves nobody uses: accesses of neighbouring threads that do not share sectors of 32 bytes.

One launch in, the share of its global sectors that carry nothing needed out, and what coalescing would save: NVIDIA's
own estimate where its rules gave one, else that share, as a kernel bound by memory takes as long as its traffic.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpuledger.catalog import ncu_metrics as m
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Profiled
from gpuledger.units import share_text

MUCH: Final = 0.2
"""From this share of wasted sectors, and of the kernel's time, on it is worth telling."""

CACHED: Final = 0.5
"""Where so much of the traffic is found in L2, wasted sectors need not come from DRAM."""

UNCOALESCED: Final = "UncoalescedGlobalAccess"
PATTERN: Final = "MemoryCacheAccessPattern"
"""NVIDIA's rules about it."""

_EXCESSIVE: Final = re.compile(r"\((?P<percent>\d+(?:\.\d+)?)% of the total")
_USED: Final = re.compile(r"only (?P<used>\d+(?:\.\d+)?) of the 32 bytes")


@dataclass(frozen=True, slots=True)
class WastedTraffic:
    """Sectors of 32 bytes that are moved, and that coalesced accesses would not need."""

    share: float
    """Of all sectors of global accesses."""
    saving_share: float
    """How much of the kernel's time coalesced accesses would save."""
    is_nvidias: bool
    """Whether that is NVIDIA's estimate."""

    @property
    def sentence(self) -> str:
        share, saving = share_text(self.share), share_text(self.saving_share)
        if self.is_nvidias:
            return say(
                "{share} of the sectors that its global accesses move are excessive (uncoalesced): NVIDIA estimates "
                "that {saving} of the kernel's time would go",
                share=share,
                saving=saving,
            )
        return say(
            "{share} of the sectors that its global accesses move are excessive (uncoalesced): up to {saving} of the "
            "kernel's time would go",
            share=share,
            saving=saving,
        )


def wasted_traffic(launch: Profiled, l2_hit: float | NotMeasured, limiter: str) -> WastedTraffic | None:
    """What a launch bound by this memory wastes; None where that is little, or nothing says so."""
    share = _wasted_share(launch)
    if share is None or share < MUCH:
        return None
    estimates = [
        rule.speedup_share
        for rule in launch.advice
        if rule.rule in (UNCOALESCED, PATTERN) and rule.scope != "local" and rule.speedup_share is not None
    ]
    if estimates:
        saving = min(max(estimates), 1.0)
        return WastedTraffic(share, saving, is_nvidias=True) if saving >= MUCH else None
    if limiter == "L1":  # shared memory's accesses keep it busy too
        return None
    if limiter == "DRAM" and (isinstance(l2_hit, NotMeasured) or l2_hit >= CACHED):
        return None
    return WastedTraffic(share, share, is_nvidias=False)


def _wasted_share(launch: Profiled) -> float | None:
    """The share of wasted sectors: by the counters of the source, NVIDIA's rule, or the bytes used of each sector."""
    moved, excessive = launch.metric(*m.GLOBAL_SECTORS), launch.metric(*m.EXCESSIVE_SECTORS)
    if not isinstance(moved, NotMeasured) and not isinstance(excessive, NotMeasured) and moved > 0:
        return min(max(excessive / moved, 0.0), 1.0)
    said = {rule.rule: rule.message for rule in reversed(launch.advice)}
    if match := _EXCESSIVE.search(said.get(UNCOALESCED, "")):
        return min(float(match["percent"]) / 100, 1.0)
    used = [value for names in m.USED_OF_SECTOR if not isinstance(value := launch.metric(*names), NotMeasured)]
    if not any(used) and (match := _USED.search(said.get(PATTERN, ""))):
        used = [float(match["used"])]
    used = [value for value in used if value > 0]  # 0: there are no such accesses
    return max(1 - max(used) / m.SECTOR_BYTES, 0.0) if used else None

"""The figures of one profiled launch that verdicts and tables use, each with one definition.

Shares are of the device's peak, from 0 to 1. Occupancy efficiency is the achieved occupancy over the one that the
launch's resources allow. A share above 1 is kept and named as unreliable: Nsight Compute replays a kernel for several
passes, and over a very short one its counters do not add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuledger.analyse.kernels.device_roofs import memory_rate, roofs
from gpuledger.catalog import ncu_metrics as m
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Profiled
from gpuledger.units import share_text

Figure = float | NotMeasured

SHARES: Mapping[str, tuple[str, ...]] = {
    "sm_share": m.SM_SHARE,
    "sm_busy_share": m.SM_BUSY,
    "memory_share": m.MEMORY_SHARE,
    "dram_share": m.DRAM_SHARE,
    "l2_share": m.L2_SHARE,
    "l1_share": m.L1_SHARE,
    "l2_hit_share": m.L2_HIT,
    "l1_hit_share": m.L1_HIT,
    "occupancy_share": m.OCCUPANCY,
    "occupancy_limit_share": m.OCCUPANCY_LIMIT,
}
"""Figures that are shares of a whole, by the metrics that give them."""


@dataclass(frozen=True, slots=True)
class LaunchFigures:
    """One launch in numbers."""

    duration_ns: int | NotMeasured
    dram_bytes_per_s: Figure
    shares: Mapping[str, Figure]
    """By the keys of SHARES, and `occupancy_efficiency`."""
    pipes: Mapping[str, float]
    """How busy each pipeline of the multiprocessors was, where that was measured."""
    stalls: Mapping[str, float]
    """Warps that stood still per issued instruction, by reason."""
    waves: Figure
    """How often the grid fills the device: below 1 it never does."""
    unreliable: tuple[str, ...]
    """What in these figures cannot be right, and why."""

    def share(self, key: str) -> Figure:
        return self.shares[key]


def figures(launch: Profiled) -> LaunchFigures:
    """The figures of one launch."""
    shares: dict[str, Figure] = {key: launch.metric(*names) for key, names in SHARES.items()}
    rate, roof = memory_rate(launch, "DRAM"), roofs(launch).memory.get("DRAM")
    if isinstance(shares["dram_share"], NotMeasured) and not isinstance(rate, NotMeasured) and roof is not None:
        shares["dram_share"] = rate / roof.per_s
    if isinstance(shares["l1_share"], NotMeasured):
        shares["l1_share"] = _l1_of_elapsed(launch)
    achieved, allowed = shares["occupancy_share"], shares["occupancy_limit_share"]
    if isinstance(achieved, NotMeasured) or isinstance(allowed, NotMeasured) or not allowed:
        shares["occupancy_efficiency"] = NotMeasured("achieved or possible occupancy was not collected")
    else:
        shares["occupancy_efficiency"] = achieved / allowed
    duration = launch.metric(*m.DURATION)
    return LaunchFigures(
        duration_ns=duration if isinstance(duration, NotMeasured) else round(duration),
        dram_bytes_per_s=rate,
        shares=shares,
        pipes=_pipes(launch),
        stalls={
            match["why"]: value
            for name, value in launch.metrics.items()
            if (match := m.STALLS.fullmatch(name)) and match["why"] not in _NO_STALL
        },
        waves=launch.metric(*m.WAVES),
        unreliable=tuple(_unreliable(shares)),
    )


_NO_STALL = ("selected", "not_selected")
"""Warps that are issued, or could be: no reason to wait."""


def _l1_of_elapsed(launch: Profiled) -> Figure:
    """L1's share of the peak over all cycles, from that over active ones; the latter where cycles were not counted."""
    share = launch.metric(*m.L1_SHARE_OF_ACTIVE)
    active, elapsed = launch.metric(*m.SM_ACTIVE), launch.metric(*m.SM_ELAPSED)
    if isinstance(share, NotMeasured) or isinstance(active, NotMeasured) or isinstance(elapsed, NotMeasured):
        return share
    return share * active / elapsed if elapsed else share


def _pipes(launch: Profiled) -> dict[str, float]:
    shares = {}
    for pipe, counters in m.PIPES.items():
        value = launch.metric(*(f"{counter}{suffix}" for suffix in m.PIPE_SUFFIXES for counter in counters))
        if not isinstance(value, NotMeasured):
            shares[pipe] = value
    return shares


def _unreliable(shares: Mapping[str, Figure]) -> list[str]:
    """Shares of a whole that are over it."""
    return [
        say(
            "{figure} reads {value}, over 100 %: on a kernel this short the replay passes do not add up",
            figure=FIGURE_NAMES[key],
            value=share_text(value),
        )
        for key, value in shares.items()
        if not isinstance(value, NotMeasured) and value > 1
    ]


FIGURE_NAMES: Mapping[str, str] = {
    "sm_share": say("SM throughput"),
    "sm_busy_share": say("SM efficiency"),
    "memory_share": say("memory throughput"),
    "dram_share": say("DRAM throughput"),
    "l2_share": say("L2 throughput"),
    "l1_share": say("L1 throughput"),
    "l2_hit_share": say("L2 hit rate"),
    "l1_hit_share": say("L1 hit rate"),
    "occupancy_share": say("occupancy"),
    "occupancy_limit_share": say("theoretical occupancy"),
    "occupancy_efficiency": say("occupancy efficiency"),
    "dram_bytes_per_s": say("DRAM bandwidth"),
}
"""What figures are called."""

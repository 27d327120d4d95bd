"""What limits a kernel, and how far it is from the nearest roof: figures in, a verdict with its reasons out.

A unit that is busy for most of its peak limits the kernel: a level of memory, or a pipeline. Where none is, the kernel
waits: for more blocks, for its last wave, for warps, for its own start. All limits that decide stand here, and so does
the one definition of each figure of a launch that verdicts and tables use.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from math import prod
from typing import Final

from msgspec import Struct

from gpuledger.analyse.roofline.roofs import memory_rate, roofs
from gpuledger.catalog import ncu_metrics as m
from gpuledger.messages import say
from gpuledger.trace.measured import Profiled
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, share_text, three_figures, time_text

Figure = float | NotMeasured

_SHARES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "sm_share": (say("SM throughput"), m.SM_SHARE),
    "sm_busy_share": (say("SM efficiency"), m.SM_BUSY),
    "memory_share": (say("memory throughput"), m.MEMORY_SHARE),
    "dram_share": (say("DRAM throughput"), m.DRAM_SHARE),
    "l2_share": (say("L2 throughput"), m.L2_SHARE),
    "l1_share": (say("L1 throughput"), m.L1_SHARE),
    "l2_hit_share": (say("L2 hit rate"), m.L2_HIT),
    "l1_hit_share": (say("L1 hit rate"), m.L1_HIT),
    "occupancy_share": (say("occupancy"), m.OCCUPANCY),
    "occupancy_limit_share": (say("theoretical occupancy"), m.OCCUPANCY_LIMIT),
}
"""Figures that are shares of a whole: what they are called, and the metrics that give them."""

FIGURE_NAMES: Final[Mapping[str, str]] = {
    **{key: name for key, (name, _) in _SHARES.items()},
    "occupancy_efficiency": say("occupancy efficiency"),
    "dram_bytes_per_s": say("DRAM bandwidth"),
}


class LaunchFigures(Struct, frozen=True):
    """One launch in numbers."""

    duration_ns: int | NotMeasured
    dram_bytes_per_s: Figure
    shares: Mapping[str, Figure]  # by the keys of _SHARES, and `occupancy_efficiency`
    pipes: Mapping[str, float]  # how busy each pipeline of the multiprocessors was, where that was measured
    stalls: Mapping[str, float]  # warps that stood still per issued instruction, by reason
    waves: Figure  # how often the grid fills the device: below 1 it never does
    unreliable: tuple[str, ...]  # what in these figures cannot be right, and why


def figures(launch: Profiled) -> LaunchFigures:
    """The figures of one launch."""
    shares: dict[str, Figure] = {key: launch.metric(*metrics) for key, (_, metrics) in _SHARES.items()}
    rate, roof = memory_rate(launch, "DRAM"), roofs(launch).memory.get("DRAM")
    if isinstance(shares["dram_share"], NotMeasured) and not isinstance(rate, NotMeasured) and roof is not None:
        shares["dram_share"] = rate / roof.per_s
    if isinstance(shares["l1_share"], NotMeasured):
        # the share of the peak over all cycles, from that over active ones; the latter where cycles were not counted
        share = launch.metric(*m.L1_SHARE_OF_ACTIVE)
        active, elapsed = launch.metric(*m.SM_ACTIVE), launch.metric(*m.SM_ELAPSED)
        shares["l1_share"] = share
        if not isinstance(share, NotMeasured) and not isinstance(active, NotMeasured):
            shares["l1_share"] = share if isinstance(elapsed, NotMeasured) or not elapsed else share * active / elapsed
    achieved, allowed = shares["occupancy_share"], shares["occupancy_limit_share"]
    if isinstance(achieved, NotMeasured) or isinstance(allowed, NotMeasured) or not allowed:
        shares["occupancy_efficiency"] = NotMeasured("achieved or possible occupancy was not collected")
    else:
        shares["occupancy_efficiency"] = achieved / allowed
    duration = launch.metric(*m.DURATION)
    pipes = {
        pipe: launch.metric(*(f"{counter}{suffix}" for suffix in m.PIPE_SUFFIXES for counter in counters))
        for pipe, counters in m.PIPES.items()
    }
    stalls = ((m.STALLS.fullmatch(name), value) for name, value in launch.metrics.items())
    return LaunchFigures(
        duration_ns=duration if isinstance(duration, NotMeasured) else round(duration),
        dram_bytes_per_s=rate,
        shares=shares,
        pipes={pipe: share for pipe, share in pipes.items() if not isinstance(share, NotMeasured)},
        # warps that are issued, or could be, have no reason to wait
        stalls={
            match["why"]: value for match, value in stalls if match and match["why"] not in ("selected", "not_selected")
        },
        waves=launch.metric(*m.WAVES),
        unreliable=tuple(
            say(
                "{figure} reads {value}, over 100 %: on a kernel this short the replay passes do not add up",
                figure=FIGURE_NAMES[key],
                value=share_text(share),
            )
            for key, share in shares.items()
            if not isinstance(share, NotMeasured) and share > 1
        ),
    )


MUCH: Final = 0.2  # from this share of wasted sectors, and of the kernel's time, on it is worth telling
CACHED: Final = 0.5  # where so much of the traffic is found in L2, wasted sectors need not come from DRAM

UNCOALESCED: Final = "UncoalescedGlobalAccess"
PATTERN: Final = "MemoryCacheAccessPattern"  # NVIDIA's rules about it

_EXCESSIVE: Final = re.compile(r"\((?P<percent>\d+(?:\.\d+)?)% of the total")
_USED: Final = re.compile(r"only (?P<used>\d+(?:\.\d+)?) of the 32 bytes")


class WastedTraffic(Struct, frozen=True):
    """Sectors of 32 bytes that are moved, and that coalesced accesses would not need."""

    share: float  # of all sectors of global accesses
    saving_share: float  # how much of the kernel's time coalesced accesses would save
    is_nvidias: bool  # whether that is NVIDIA's estimate

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
    is_cached = limiter == "DRAM" and (isinstance(l2_hit, NotMeasured) or l2_hit >= CACHED)
    # L1 is kept busy by shared memory's accesses too
    return None if limiter == "L1" or is_cached else WastedTraffic(share, share, is_nvidias=False)


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


BUSY: Final = 0.6
"""From this share of its peak on, a unit is what limits a kernel. NVIDIA's own rules draw the line there too."""

ALIKE: Final = 0.1
"""Compute and memory that differ by less than this limit a kernel together; the verdict is compute's then, as caches
and shared memory are busy because they feed it."""

FULL: Final = 0.9  # a grid of this many waves or more fills the device; a persistent kernel has a little under one
TAIL: Final = 0.2  # a last wave that leaves this share of the multiprocessors' time unused is worth naming
LOW_OCCUPANCY: Final = 0.35  # fewer warps than this share of the possible rarely hide memory latency
UNEVEN: Final = 0.8  # multiprocessors that work this share of the busiest one's time, or less, are unevenly loaded

REACHABLE: Final = 0.9
"""How much of a peak a kernel can sustain: the best GEMMs and copies seen reach 89 to 92 % of theirs."""

SHORT_NS: Final = 10_000  # a kernel this short spends much of its time starting and ending


class KernelVerdict(Struct, frozen=True):
    """What limits a kernel. `because` holds the figures that decided, the first one the most."""

    bound: str  # memory, compute, latency, or unknown
    limiter: str  # which memory, which pipeline, or what it waits for: a key of `advice.ADVICE`
    roof_share: float | NotMeasured  # how much of the nearest roof is used
    because: tuple[str, ...]
    wasted: WastedTraffic | None = None  # what of its traffic is not used, where memory limits it and that is much

    @property
    def headroom(self) -> float | NotMeasured:
        """What share of the time would go if the kernel reached as much of its nearest roof as can be reached. A kernel
        can be at the roof with traffic that it does not need: then what going without that would save."""
        if isinstance(self.roof_share, NotMeasured):
            return self.roof_share
        return max(self._below_the_roof, 0.0 if self.wasted is None else self.wasted.saving_share)

    @property
    def _below_the_roof(self) -> float:
        if isinstance(self.roof_share, NotMeasured):
            return 0.0
        return min(max(1 - self.roof_share / REACHABLE, 0.0), 1.0)

    @property
    def is_by_waste(self) -> bool:
        """Whether wasted traffic, not the distance to the roof, is what could go."""
        return self.wasted is not None and self.wasted.saving_share >= self._below_the_roof


def verdict(launch: Profiled, measured: LaunchFigures | None = None) -> KernelVerdict:
    """What limits one launch."""
    measured = figures(launch) if measured is None else measured
    levels = {level: measured.shares[f"{level.lower()}_share"] for level in ("DRAM", "L2", "L1")}
    memory = {level: share for level, share in levels.items() if not isinstance(share, NotMeasured)}
    compute = dict(measured.pipes)
    whole = measured.shares["sm_share"]
    if not isinstance(whole, NotMeasured) and whole > max(compute.values(), default=0.0) + 0.005:
        # where no single pipeline is as busy it is the rate of instructions; without pipelines it may be any unit
        compute["issue" if measured.pipes else "sm"] = whole
    if not memory and not compute:
        why = say("neither compute nor memory throughput was collected")
        return KernelVerdict("unknown", "unmeasured", NotMeasured(str(why)), (why,))
    level, of_memory = _largest(memory)
    if "DRAM" in memory and memory["DRAM"] >= of_memory - ALIKE:
        level = "DRAM"  # what comes from DRAM passes the caches, and makes them as busy
    pipe, of_compute = _largest(compute)
    nearest = max(of_memory, of_compute)
    if nearest < BUSY and not (level and pipe):
        known = say("compute") if pipe else say("memory")
        why = say("only {known} is known, at {share} of its peak", known=known, share=share_text(nearest))
        return KernelVerdict("unknown", "unmeasured", NotMeasured(str(why)), (why,))
    if nearest < BUSY:
        reasons = _latency(launch, measured)
        shares = {"compute": share_text(of_compute), "memory": share_text(of_memory)}
        low = say("compute reaches {compute} and memory {memory} of their peaks", **shares)
        return KernelVerdict("latency", reasons[0][0], nearest, (*(text for _, text in reasons), low))
    if pipe and of_compute >= of_memory - ALIKE:
        beside = (_percent_of(level, memory[level]),) if level and memory[level] >= BUSY else ()
        return KernelVerdict("compute", pipe, nearest, (_percent_of(pipe, of_compute), *beside))
    hit = measured.shares["l2_hit_share"]
    wasted = wasted_traffic(launch, hit, level)
    because = [_percent_of(level, memory[level])] + ([] if wasted is None else [wasted.sentence])
    if not isinstance(hit, NotMeasured) and hit <= 1:
        because.append(say("L2 hit rate {share}: data that is read once cannot hit", share=share_text(hit)))
    return KernelVerdict("memory", level, nearest, tuple(because), wasted)


def _largest(shares: Mapping[str, float]) -> tuple[str, float]:
    return max(shares.items(), key=lambda item: item[1]) if shares else ("", 0.0)


def _percent_of(name: str, share: float) -> str:
    return say("{unit} runs at {share} of its peak", unit=UNITS[name], share=share_text(share))


UNITS: Final[Mapping[str, str]] = {
    "DRAM": say("DRAM"),
    "L2": say("the L2 cache"),
    "L1": say("L1 and shared memory"),
    "tensor": say("the tensor pipeline"),
    "fp64": say("the FP64 pipeline"),
    "fma": say("the FMA pipeline"),
    "alu": say("the integer and logic pipeline"),
    "fp16": say("the FP16 pipeline"),
    "special functions": say("the special-function pipeline"),
    "load/store": say("the load/store pipeline"),
    "uniform": say("the uniform pipeline"),
    "texture": say("the texture pipeline"),
    "issue": say("instruction issue"),
    "sm": say("the busiest SM unit"),
}
"""What a unit is called in a sentence."""


def _latency(launch: Profiled, measured: LaunchFigures) -> list[tuple[str, str]]:
    """What a kernel waits for that keeps no unit busy, the weightiest reason first; never empty."""
    reasons = [*_blocks_and_waves(launch, measured.waves), *_few_warps(launch, measured)]
    mean, most = launch.metric(*m.SM_ACTIVE), launch.metric(*m.SM_ACTIVE_MOST)
    if not isinstance(mean, NotMeasured) and not isinstance(most, NotMeasured) and most and mean <= UNEVEN * most:
        share = share_text(mean / most)
        reasons.append(("uneven", say("on average, SMs are busy for {share} of the busiest one's time", share=share)))
    if not isinstance(measured.duration_ns, NotMeasured) and measured.duration_ns < SHORT_NS:
        reasons.append(("short", say("it runs for only {time}", time=time_text(measured.duration_ns))))
    if measured.stalls:
        stall, waits = _largest(measured.stalls)
        reason = STALLS.get(stall, stall.replace("_", " "))
        text = say("each instruction waits {cycles} cycles {reason}", cycles=three_figures(waits), reason=reason)
        reasons.append(("stalls", text))
    return reasons or [("unexplained", say("the collected metrics do not show what it waits for"))]


def _blocks_and_waves(launch: Profiled, waves: Figure) -> list[tuple[str, str]]:
    """Whether there are too few blocks to fill the device, and what the last wave leaves unused of it."""
    reasons: list[tuple[str, str]] = []
    processors = launch.metric(*m.SM_COUNT)
    if launch.grid is not None and not isinstance(processors, NotMeasured) and prod(launch.grid) < FULL * processors:
        counts = {"blocks": count_text(prod(launch.grid)), "processors": count_text(int(processors))}
        reasons.append(("too few blocks", say("{blocks} blocks for {processors} SMs", **counts)))
    elif not isinstance(waves, NotMeasured) and waves < FULL:
        reasons.append(("too few blocks", say("the grid is {waves} waves", waves=three_figures(waves))))
    if not isinstance(waves, NotMeasured) and waves > 1 and (lost := 1 - waves / math.ceil(waves)) >= TAIL:
        text = say(
            "{waves} waves take as long as {whole}: {share} of SM time is lost in the last one",
            waves=three_figures(waves),
            whole=count_text(math.ceil(waves)),
            share=share_text(lost),
        )
        reasons.append(("tail", text))
    return reasons


def _few_warps(launch: Profiled, measured: LaunchFigures) -> list[tuple[str, str]]:
    achieved, allowed = (measured.shares[key] for key in ("occupancy_share", "occupancy_limit_share"))
    if isinstance(achieved, NotMeasured) or achieved >= LOW_OCCUPANCY:
        return []
    if isinstance(allowed, NotMeasured) or allowed >= 2 * achieved:
        return [("occupancy", say("occupancy is only {share}", share=share_text(achieved)))]
    limits = {
        name: value for name, key in m.BLOCK_LIMITS.items() if not isinstance(value := launch.metric(key), NotMeasured)
    }
    by = min(limits, key=lambda name: limits[name]) if limits else ""
    text = say(
        "occupancy is {share}; {resource} allow no more than {allowed}",
        share=share_text(achieved),
        resource=RESOURCES.get(by, say("its resources")),
        allowed=share_text(allowed),
    )
    return [("occupancy", text)]


RESOURCES: Final[Mapping[str, str]] = {
    "registers": say("its registers"),
    "shared memory": say("its blocks' shared memory"),
    "warps": say("its blocks' size"),
    "blocks": say("the blocks that fit on an SM"),
    "barriers": say("its barriers"),
}


STALLS: Final[Mapping[str, str]] = {
    "long_scoreboard": say("for data from L1, L2 or DRAM"),
    "short_scoreboard": say("for data from shared memory"),
    "barrier": say("at a barrier of the block"),
    "membar": say("at a memory barrier"),
    "math_pipe_throttle": say("for a busy pipeline"),
    "mio_throttle": say("for a full queue of memory instructions"),
    "lg_throttle": say("for a full queue of global memory instructions"),
    "tex_throttle": say("for a full queue of texture instructions"),
    "wait": say("for a fixed latency"),
    "no_instruction": say("for instructions to be fetched"),
    "branch_resolving": say("for a branch to be resolved"),
    "dispatch_stall": say("for the dispatcher"),
    "drain": say("for stores to drain at the end"),
    "imc_miss": say("for constants"),
    "sleeping": say("asleep"),
    "gmma": say("for the tensor cores"),
}

"""How fast a device could be: one profiled launch in; the roofs over it, and where it stands under them, out.

The report's own peaks come first: peak per cycle times the clock of that launch, else a rate divided by the share of
the peak that it is. What the report does not say comes from the table of GPUs, at the clocks of the data sheet. A
launch stands at operations per byte of DRAM, L2 and L1, and at so much of each roof.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct, field

from gpuledger.catalog import ncu_metrics as m
from gpuledger.catalog.gpus import peak_bytes_per_s, peaks_of
from gpuledger.trace.measured import Profiled
from gpuledger.trace.model import Gpu, NotMeasured

REPORT = "the report's peak at the launch's clock"
SHARE = "the rate and its share of the peak"
TABLE = "the data sheet"


class Roof(Struct, frozen=True):
    """One limit of a device: bytes or operations per second at most."""

    per_s: float
    source: str


class Roofs(Struct, frozen=True):
    """The limits over one launch. A level or type that is not there is not known."""

    memory: Mapping[str, Roof] = field(default_factory=dict)  # bytes per second by level: DRAM, L2, L1
    compute: Mapping[str, Roof] = field(default_factory=dict)
    """Operations per second: `tensor fp16`, `tensor bf16`, …, and `fp32`, `fp64`, `fp16` outside tensor cores."""


class RoofLevel(Struct, frozen=True):
    """Where one level's traffic and limit are found."""

    rate: tuple[str, ...]
    per_cycle: tuple[str, ...]
    clock: tuple[str, ...]
    share: tuple[str, ...]  # shares of the peak that belong to `rate`


LEVELS: Mapping[str, RoofLevel] = {
    "DRAM": RoofLevel(m.DRAM_RATE, m.DRAM_PEAK_PER_CYCLE, m.DRAM_CLOCK, m.DRAM_SHARE),
    "L2": RoofLevel(m.L2_RATE, m.L2_PEAK_PER_CYCLE, m.L2_CLOCK, ()),
    "L1": RoofLevel(m.L1_RATE, m.L1_PEAK_PER_CYCLE, m.L1_CLOCK, ()),
}


def device_of(launch: Profiled) -> Gpu | NotMeasured:
    """The GPU that a launch ran on, as far as the report describes it."""
    name = launch.texts.get(m.DEVICE_NAME)
    if name is None:
        return NotMeasured("the report does not name the GPU")
    count = launch.metric(*m.SM_COUNT)
    return Gpu(
        name,
        compute_capability=launch.compute_capability,
        sm_count=None if isinstance(count, NotMeasured) else int(count),
    )


def roofs(launch: Profiled) -> Roofs:
    """The limits over one launch, at its own clocks where the report has them."""
    gpu = device_of(launch)
    memory = {name: roof for name in LEVELS if (roof := _memory(launch, gpu, name)) is not None}
    peaks = gpu if isinstance(gpu, NotMeasured) else peaks_of(gpu)
    compute: dict[str, Roof] = {}
    if not isinstance(peaks, NotMeasured):
        compute = {
            f"tensor {kind}": Roof(tera * 1e12, TABLE)
            for kind, tera in peaks.tera.items()
            if tera > peaks.plain.get(kind, 0.0)  # else the figure is that of the other units
        }
        compute |= {kind: Roof(tera * 1e12, TABLE) for kind, tera in peaks.plain.items()}
    return Roofs(memory, compute | _compute(launch))


def memory_rate(launch: Profiled, level: str) -> float | NotMeasured:
    """Bytes per second that a launch moved at DRAM, L2 or L1."""
    rate = launch.metric(*LEVELS[level].rate)
    if level != "DRAM" or not isinstance(rate, NotMeasured):
        return rate
    read, write = launch.metric(*m.DRAM_READ_RATE), launch.metric(*m.DRAM_WRITE_RATE)
    if not isinstance(read, NotMeasured) and not isinstance(write, NotMeasured):
        return read + write
    size, duration = launch.metric(*m.DRAM_BYTES), launch.metric(*m.DURATION)
    read, write = launch.metric(*m.DRAM_READ_BYTES), launch.metric(*m.DRAM_WRITE_BYTES)
    if isinstance(size, NotMeasured) and not isinstance(read, NotMeasured) and not isinstance(write, NotMeasured):
        size = read + write
    if isinstance(size, NotMeasured) or isinstance(duration, NotMeasured) or not duration:
        return rate
    return size / duration * 1e9


def _memory(launch: Profiled, gpu: Gpu | NotMeasured, name: str) -> Roof | None:
    level = LEVELS[name]
    per_cycle, clock = launch.metric(*level.per_cycle), launch.metric(*level.clock)
    if not isinstance(per_cycle, NotMeasured) and not isinstance(clock, NotMeasured):
        return Roof(per_cycle * clock, REPORT)
    rate, share = memory_rate(launch, name), launch.metric(*level.share or ("",))
    if not isinstance(rate, NotMeasured) and not isinstance(share, NotMeasured) and rate > 0 and share > 0:
        return Roof(rate / share, SHARE)
    peak = peak_bytes_per_s(gpu) if name == "DRAM" and isinstance(gpu, Gpu) else None
    return Roof(peak, TABLE) if isinstance(peak, float) else None


def _compute(launch: Profiled) -> dict[str, Roof]:
    """Dense peaks of tensor cores, of the ways to compute in a type the fastest; and outside them, of fused
    multiply-adds in every lane."""
    clock = launch.metric(*m.SM_CLOCK)
    if isinstance(clock, NotMeasured):
        return {}
    fastest: dict[str, float] = {}
    for name, value in launch.metrics.items():
        match = m.TENSOR_OPS.fullmatch(name.removesuffix(".peak_sustained"))
        if match is not None and name.endswith(".peak_sustained") and match["sparse"] != "on":
            kind = f"tensor {match['type']}"
            fastest[kind] = max(fastest.get(kind, value * clock), value * clock)
    for kind, fused in (("fp32", "ffma"), ("fp64", "dfma"), ("fp16", "hfma")):
        peak = launch.metric(m.THREAD_OP_PEAK.format(op=fused))
        if not isinstance(peak, NotMeasured):
            fastest[kind] = peak * m.THREAD_OPS[kind][fused] * clock
    return {kind: Roof(per_s, REPORT) for kind, per_s in fastest.items()}


class RooflinePoint(Struct, frozen=True):
    """One launch at one level of memory."""

    level: str
    kind: str  # what it mostly computes in
    operations_per_byte: float
    operations_per_s: float
    share: float  # of the roof at that intensity


def operations_per_s(launch: Profiled) -> dict[str, float] | NotMeasured:
    """What a launch computed in its own time, by kind (`tensor fp16`, `fp32`, …); only what it did."""
    duration, clock = launch.metric(*m.DURATION), launch.metric(*m.SM_CLOCK)
    per_s: dict[str, float] = defaultdict(float)
    counted = False
    for name, value in launch.metrics.items():
        match = m.TENSOR_OPS.fullmatch(name)
        if match is not None and not isinstance(duration, NotMeasured) and duration:
            counted = True
            per_s[f"tensor {match['type']}"] += value / duration * 1e9
    for kind, weights in m.THREAD_OPS.items():
        for op, weight in weights.items():
            per_cycle = launch.metric(m.THREAD_OP_PER_CYCLE.format(op=op))
            count = launch.metric(*(name.format(op=op) for name in m.THREAD_OP_COUNT))
            if not isinstance(per_cycle, NotMeasured) and not isinstance(clock, NotMeasured):
                counted, rate = True, per_cycle * clock
            elif not isinstance(count, NotMeasured) and not isinstance(duration, NotMeasured) and duration:
                counted, rate = True, count / duration * 1e9
            else:
                continue
            per_s[kind] += weight * rate
    if not counted:
        return NotMeasured("operations were not counted; collect the roofline sections")
    return {kind: rate for kind, rate in per_s.items() if rate > 0}


def points(launch: Profiled, over: Roofs) -> tuple[RooflinePoint, ...]:
    """The launch at each level where its traffic, its operations and the roofs are known."""
    done = operations_per_s(launch)
    main = "" if isinstance(done, NotMeasured) else max(done, key=done.__getitem__, default="")
    if isinstance(done, NotMeasured) or main not in over.compute:
        return ()
    standing, total, dram = [], sum(done.values()), memory_rate(launch, "DRAM")
    for level in LEVELS:
        rate = memory_rate(launch, level)
        if isinstance(rate, NotMeasured) or rate <= 0 or level not in over.memory:
            continue
        if level == "L1" and not isinstance(dram, NotMeasured) and rate < dram:
            continue  # bulk copies (TMA) go to shared memory past what counts as L1 traffic
        roof = min(total / rate * over.memory[level].per_s, over.compute[main].per_s)
        if 0 < roof < math.inf:  # else a peak of 0, or one that no device has: there is no such roof
            standing.append(RooflinePoint(level, main, total / rate, total, total / roof))
    return tuple(standing)

"""How fast a device could be: one profiled launch in, the roofs over it out, each with where the figure is from.

The report's own peaks come first: peak per cycle times the clock of that launch, else a rate divided by the share of
the peak that it is. What the report does not say comes from the table of GPUs, at the clocks of the data sheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.catalog import ncu_metrics as m
from gpuledger.catalog.gpu_peaks import peak_bytes_per_s, peaks_of
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.kernel_report import Profiled
from gpuledger.trace.model import Gpu

REPORT = "the report's peak at the launch's clock"
SHARE = "the rate and its share of the peak"
TABLE = "the data sheet"


@dataclass(frozen=True, slots=True)
class Roof:
    """One limit of a device: bytes or operations per second at most."""

    per_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Roofs:
    """The limits over one launch. A level or type that is not there is not known."""

    memory: Mapping[str, Roof] = field(default_factory=dict)
    """Bytes per second by level: DRAM, L2, L1."""
    compute: Mapping[str, Roof] = field(default_factory=dict)
    """Operations per second: `tensor fp16`, `tensor bf16`, …, and `fp32`, `fp64`, `fp16` outside tensor cores."""


@dataclass(frozen=True, slots=True)
class RoofLevel:
    """Where one level's traffic and limit are found."""

    rate: tuple[str, ...]
    per_cycle: tuple[str, ...]
    clock: tuple[str, ...]
    share: tuple[str, ...]
    """Shares of the peak that belong to `rate`."""


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
    compute = {} if isinstance(gpu, NotMeasured) else _from_table(gpu)
    return Roofs(memory, compute | _tensor(launch) | _plain(launch))


def memory_rate(launch: Profiled, level: str) -> float | NotMeasured:
    """Bytes per second that a launch moved at DRAM, L2 or L1."""
    rate = launch.metric(*LEVELS[level].rate)
    if level != "DRAM" or not isinstance(rate, NotMeasured):
        return rate
    read, write = launch.metric(*m.DRAM_READ_RATE), launch.metric(*m.DRAM_WRITE_RATE)
    if not isinstance(read, NotMeasured) and not isinstance(write, NotMeasured):
        return read + write
    size, duration = _dram_bytes(launch), launch.metric(*m.DURATION)
    if isinstance(size, NotMeasured) or isinstance(duration, NotMeasured) or not duration:
        return rate
    return size / duration * 1e9


def _dram_bytes(launch: Profiled) -> float | NotMeasured:
    both = launch.metric(*m.DRAM_BYTES)
    read, write = launch.metric(*m.DRAM_READ_BYTES), launch.metric(*m.DRAM_WRITE_BYTES)
    if isinstance(both, NotMeasured) and not isinstance(read, NotMeasured) and not isinstance(write, NotMeasured):
        return read + write
    return both


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


def _tensor(launch: Profiled) -> dict[str, Roof]:
    """Dense peaks of tensor cores: of the ways to compute in a type, the fastest."""
    clock = launch.metric(*m.SM_CLOCK)
    if isinstance(clock, NotMeasured):
        return {}
    fastest: dict[str, Roof] = {}
    for name, value in launch.metrics.items():
        match = m.TENSOR_OPS.fullmatch(name.removesuffix(".peak_sustained"))
        if match is None or not name.endswith(".peak_sustained") or match["sparse"] == "on":
            continue
        kind = f"tensor {match['type']}"
        if kind not in fastest or value * clock > fastest[kind].per_s:
            fastest[kind] = Roof(value * clock, REPORT)
    return fastest


def _plain(launch: Profiled) -> dict[str, Roof]:
    """Peaks outside tensor cores: fused multiply-adds in every lane."""
    clock = launch.metric(*m.SM_CLOCK)
    if isinstance(clock, NotMeasured):
        return {}
    peaks = {}
    for kind, fused in (("fp32", "ffma"), ("fp64", "dfma"), ("fp16", "hfma")):
        peak = launch.metric(m.THREAD_OP_PEAK.format(op=fused))
        if not isinstance(peak, NotMeasured):
            peaks[kind] = Roof(peak * m.THREAD_OPS[kind][fused] * clock, REPORT)
    return peaks


def _from_table(gpu: Gpu) -> dict[str, Roof]:
    peaks = peaks_of(gpu)
    if isinstance(peaks, NotMeasured):
        return {}
    tensor = {
        f"tensor {kind}": Roof(tera * 1e12, TABLE)
        for kind, tera in peaks.tera.items()
        if tera > peaks.plain.get(kind, 0.0)  # else the figure is that of the other units
    }
    return tensor | {kind: Roof(tera * 1e12, TABLE) for kind, tera in peaks.plain.items()}

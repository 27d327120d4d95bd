"""Traces of a GPU that was sampled: kernels with known levels in, what nsys would have recorded out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.tables import Table
from support.traces.trace_notation import TraceText

SM_ACTIVE, TENSOR = "SMs Active [Throughput %]", "Tensor Active [Throughput %]"
H200 = Gpu("NVIDIA H200", None, (9, 0), 132, None, 4_814_304_000_000, 1_980_000_000)
PERIOD_NS = 50_000


class Ran(Struct, frozen=True):
    """One launch."""

    start_ns: int
    end_ns: int
    name: str
    blocks: int = 1024


def sampled(
    launches: Sequence[Ran],
    levels: Mapping[str, Mapping[str, float]],
    *,
    lag_ns: int = PERIOD_NS,
    period_ns: int = PERIOD_NS,
    gpu: Gpu = H200,
) -> Trace:
    """A trace of kernels one at a time whose samples are the mean of their levels, rounded up as nsys does."""
    ends = np.arange(period_ns, launches[-1].end_ns + period_ns, period_ns)
    rows = []
    start, stop = (np.array([getattr(ran, side) for ran in launches]) for side in ("start_ns", "end_ns"))
    for counter, by_kernel in levels.items():
        level = np.array([by_kernel.get(ran.name, 0.0) for ran in launches])
        done = np.append(0.0, np.cumsum(level * (stop - start)))
        so_far = np.interp(np.append(0, ends), np.stack((start, stop), 1).reshape(-1), np.repeat(done, 2)[1:-1])
        mean = np.ceil(np.diff(so_far) / period_ns - 1e-9).astype(int).tolist()
        rows += [(end - lag_ns, counter, value) for end, value in zip(ends.tolist(), mean, strict=True)]
    rows.sort(key=lambda row: row[0])
    return with_samples(launches, rows, gpu)


def with_samples(launches: Sequence[Ran], rows: Sequence[tuple[int, str, int]], gpu: Gpu = H200) -> Trace:
    """A trace with these samples: stamp, counter, value."""
    made = TraceText(1)
    made.rows = {
        Table.KERNELS: [
            {"start_ns": ran.start_ns, "end_ns": ran.end_ns, "name": ran.name}
            | {"grid": (ran.blocks, 1, 1), "block": (256, 1, 1)}
            for ran in launches
        ],
        Table.METRICS: [
            {"start_ns": stamp, "end_ns": stamp, "name": counter, "value": value} for stamp, counter, value in rows
        ],
    }
    trace = made.trace()
    return replace(trace, origin=replace(trace.origin, gpus=(gpu,)))


def in_turn(names: Sequence[str], lengths_ns: Sequence[int], rounds: int, gap_ns: int = 1_700) -> list[Ran]:
    """Kernels one after another, again and again."""
    launches, now = list[Ran](), 10_000
    for _ in range(rounds):
        for name, length in zip(names, lengths_ns, strict=True):
            launches.append(Ran(now, now + length, name))
            now += length + gap_ns
    return launches

"""Programs of operators, launches and graphs, as a few lines of Python make them: kernels by hand, no profile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger import Table, Trace
from gpuledger.ledger.device import Device
from gpuledger.selection import Selection
from gpuledger.trace.model import Gpu
from gpuledger.trace.spans import depths, parents
from gpuledger.trace.strings import Strings
from gpuledger.verbs.report import build_report
from support.trace_notation import of_tables, table

LAYER = ("norm", "gemm", "attention", "gemm2")


class Op(Struct, frozen=True):
    name: str
    start: int
    end: int
    tid: int = 1
    inputs: str = ""
    kind: str = "op"


class Launch(Struct, frozen=True):
    """A call, and the kernels that it launched: (start, end, name), a graph's several."""

    start: int
    end: int
    kernels: tuple[tuple[int, int, str], ...]
    tid: int = 1
    name: str = "cudaLaunchKernel"
    grid: int = 1
    kernel: str = ""
    """What the call says that it launches, as ROCm's do."""


def traced(found: Sequence[Op], launches: Sequence[Launch], *, gpu: str = "NVIDIA H200") -> Trace:
    """A trace of operators, calls and kernels. Correlations are the positions of the launches."""
    work = [(at, launch, kernel) for at, launch in enumerate(launches) for kernel in launch.kernels]
    texts = [op.name for op in found] + [op.inputs for op in found] + [op.kind for op in found]
    texts += [launch.name for launch in launches] + [kernel[2] for *_, kernel in work] + ["runtime"]
    texts += [launch.kernel for launch in launches]
    strings = Strings(dict.fromkeys(texts))
    start, end, tid = (np.array([getattr(op, key) for op in found], np.int64) for key in ("start", "end", "tid"))
    parent = np.full(len(found), -1)
    for kind in {op.kind for op in found}:
        mine = np.flatnonzero([op.kind == kind for op in found])
        up = parents(start[mine], end[mine], tid[mine])
        parent[mine] = np.where(up >= 0, mine[up], -1)
    tables = {
        Table.RANGES: table(
            Table.RANGES,
            strings,
            len(found),
            start_ns=start,
            end_ns=end,
            tid=tid,
            name=[op.name for op in found],
            kind=[op.kind for op in found],
            parent=parent,
            depth=depths(parent),
            inputs=np.array([strings.code(op.inputs) if op.inputs else -1 for op in found]),
        ),
        Table.CALLS: table(
            Table.CALLS,
            strings,
            len(launches),
            start_ns=[launch.start for launch in launches],
            end_ns=[launch.end for launch in launches],
            tid=[launch.tid for launch in launches],
            correlation=np.arange(len(launches)),
            name=[launch.name for launch in launches],
            layer=["runtime"] * len(launches),
            stack=np.full(len(launches), -1),
            kernel=np.array([strings.code(launch.kernel) if launch.kernel else -1 for launch in launches]),
        ),
        Table.KERNELS: table(
            Table.KERNELS,
            strings,
            len(work),
            start_ns=[kernel[0] for *_, kernel in work],
            end_ns=[kernel[1] for *_, kernel in work],
            name=[kernel[2] for *_, kernel in work],
            correlation=[at for at, *_ in work],
            grid=[(launch.grid, 1, 1) for _, launch, _ in work],
            graph_node=np.full(len(work), -1),
        ),
    }
    made = of_tables(strings, {each: rows for each, rows in tables.items() if len(rows)})
    return replace(made, origin=replace(made.origin, gpus=(Gpu(gpu),)))


def whole(trace: Trace) -> tuple[Device, ...]:
    """Every GPU with the whole window as the stretch that counts."""
    return tuple(replace(device, steps=None) for device in build_report(trace, "test", Selection()).devices)


def layers(start: int, count: int, outer: str) -> tuple[list[Op], list[Launch], int]:
    """An eager pass over equal layers, each in an annotation of its own, all in one."""
    found, launches, at = [], [], start
    for layer in range(count):
        begin = at
        for kernel in LAYER:
            found.append(Op(f"aten::{kernel}", at, at + 8))
            launches.append(Launch(at + 1, at + 5, ((at + 6, at + 9, kernel),)))
            at += 10
        found.append(Op(f"layer{layer}", begin, at, kind="push_pop"))
    found.append(Op(outer, start, at + 1, kind="push_pop"))
    return found, launches, at + 1


def graph_of(count: int, at: int, extra: tuple[str, ...] = ()) -> Launch:
    kernels = [*LAYER * count, *extra]
    placed = tuple((at + 10 + 5 * place, at + 14 + 5 * place, name) for place, name in enumerate(kernels))
    return Launch(at, at + 5, placed, name="cudaGraphLaunch")


def captured(start: int, kernels: Sequence[str]) -> tuple[list[Op], list[Launch], int]:
    """A capture: launch calls that run nothing."""
    found, at = [Op("capture", start, start + 20 * len(kernels) + 20, kind="push_pop")], start + 10
    launches = [Launch(start + 1, start + 2, (), name="cudaStreamBeginCapture")]
    for kernel in kernels:
        found.append(Op(f"aten::{kernel}", at, at + 8))
        launches.append(Launch(at + 1, at + 5, ()))
        at += 10
    launches.append(Launch(at, at + 1, (), name="cudaStreamEndCapture"))
    return found, launches, start + 20 * len(kernels) + 30

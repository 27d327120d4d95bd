"""Programs of operators, launches and graphs, as a few lines of Python make them: kernels by hand, no profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpuledger import Table, Trace
from gpuledger.ledger.device import Device
from gpuledger.selection import Selection
from gpuledger.trace.model import Gpu
from gpuledger.verbs.report import build_report
from support.traces.trace_notation import TraceText

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
    rows: dict[Table, list[dict[str, Any]]] = {
        Table.RANGES: [
            {"start_ns": op.start, "end_ns": op.end, "tid": op.tid, "name": op.name, "kind": op.kind}
            | ({"inputs": op.inputs} if op.inputs else {})
            for op in found
        ],
        Table.CALLS: [
            {"start_ns": launch.start, "end_ns": launch.end, "tid": launch.tid, "name": launch.name}
            | {"correlation": at, "layer": "runtime"}
            | ({"kernel": launch.kernel} if launch.kernel else {})
            for at, launch in enumerate(launches)
        ],
        Table.KERNELS: [
            {"start_ns": start, "end_ns": end, "name": name, "correlation": at}
            | {"grid": (launch.grid, 1, 1), "graph_node": -1}
            for at, launch in enumerate(launches)
            for start, end, name in launch.kernels
        ],
    }
    text = TraceText(1)
    text.rows = {which: each for which, each in rows.items() if each}
    made = text.trace()
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

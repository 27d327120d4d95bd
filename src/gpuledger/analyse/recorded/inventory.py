"""What is in a profile, what is not, and which questions that leaves open; and the kernels of no known family."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.activity import State, cuda_calls, launching_call
from gpuledger.ledger.books import UNCLASSIFIED
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.rows import Gpu, Label, Row, Unit
from gpuledger.trace.keys import KeyPositions, group
from gpuledger.trace.model import NOT_DESCRIBED, NotMeasured, Process, Trace, os_pid
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import Table
from gpuledger.units import share_text

ON_GPU = (Table.KERNELS, Table.COPIES, Table.GRAPHS)  # the tables that record work on a GPU

# What it means for later questions when a profile lacks a table; the others leave no question open.
MEANING = {
    Table.KERNELS: say("no GPU time by kernel"),
    Table.COPIES: say("no copies or memsets ran, or they were not traced"),
    Table.CALLS: say("launch overhead, syncs and the cause of GPU idle time stay unknown"),
    Table.RANGES: say("no breakdown by step or layer; steps must be inferred from the kernels"),
    Table.ALLOCS: say("peak memory and allocation churn stay unknown"),
    Table.OVERHEADS: say("profiler overhead cannot be separated"),
}

OS_CALLS_MISSING = say("time blocked in OS calls cannot be separated from host code")


class GpuUse(Row, frozen=True):
    """One GPU, as far as the profile describes it, and what ran on it."""

    gpu: Gpu
    name: Annotated[str, Label(say("Name"))]
    bus: str | None
    compute_capability: tuple[int, int] | None
    memory_bytes: Annotated[int | None, Label(say("Memory"), Unit.BYTES, detail=2)]
    sm_count: Annotated[int | None, Label(say("SMs"), Unit.COUNT, detail=1)]
    bandwidth_bytes_per_s: int | None
    clock_hz: int | None
    l2_bytes: int | None
    processes: Annotated[int, Label(say("Processes"), Unit.COUNT, detail=3)]
    streams: Annotated[int, Label(say("Streams"), Unit.COUNT)]
    kernels: Annotated[int, Label(say("Kernels"), Unit.COUNT)]
    copies: Annotated[int, Label(say("Copies"), Unit.COUNT)]
    graphs: Annotated[int, Label(say("Graphs"), Unit.COUNT, detail=4)]

    @property
    def is_used(self) -> bool:
        return bool(self.streams)


class ProcessUse(Row, frozen=True):
    """One process and what it did."""

    pid: Annotated[int | None, Label("PID", Unit.ID, meaning="null: several processes together")]
    name: Annotated[str | None, Label(say("Process"))]
    threads: Annotated[int, Label(say("Threads"), Unit.COUNT)]
    calls: Annotated[int, Label(say("Calls"), Unit.COUNT)]
    ranges: Annotated[int, Label(say("Ranges"), Unit.COUNT)]
    gpu_work: Annotated[int, Label(say("GPU work"), Unit.COUNT)]


class Missing(Row, frozen=True):
    """Something that the profile does not hold, why, and what that means; never counted as 0."""

    what: Annotated[str, Label(say("Not in the profile"))]
    reason: Annotated[str, Label(say("Why"))]
    means: Annotated[str, Label(say("What that means"))]


class Contents(Struct, frozen=True):
    """The inventory of one profile."""

    span: Span | NotMeasured
    gpus: tuple[GpuUse, ...]
    processes: tuple[ProcessUse, ...]
    rows: tuple[tuple[str, int], ...]  # rows of each of our tables that the profile holds
    missing: tuple[Missing, ...]
    launched: float | NotMeasured  # share of GPU work whose launch call was recorded too


def missing(trace: Trace) -> tuple[Missing, ...]:
    """What a trace that was read whole does not hold, and what that leaves open."""
    tables = [
        Missing(table.value, trace.absent[table].reason, means)
        for table, means in MEANING.items()
        if table in trace.absent
    ]
    calls, tool = trace[Table.CALLS], trace.origin.tool
    if calls.strings.code("os") not in calls.codes("layer"):
        reason = say("{tool} records no OS calls", tool=tool)
        if tool == "nsys":
            reason = say("no {table} were recorded (looked for {names})", table="OS calls", names="OSRT_API")
        tables.append(Missing("OS calls", reason, OS_CALLS_MISSING))
    return tuple(tables)


_AT_ONCE: Final = 1 << 20
"""Rows whose calls are looked for at a time."""


def contents(trace: Trace) -> Contents:
    """Take stock of a trace that was read whole."""
    uses = [_gpu_use(trace, index) for index in range(len(trace.origin.gpus))]
    calls, on_gpu = cuda_calls(trace), [trace[table] for table in ON_GPU]
    places = KeyPositions.of(calls["pid"], calls["correlation"])
    launched = 0
    for rows in on_gpu:
        at_once = max(len(rows), 1) if places is None else _AT_ONCE  # without places each look sorts all calls
        for first in range(0, len(rows), at_once):
            part = rows.between(slice(first, first + at_once))
            call = launching_call(part["pid"], part["correlation"], calls, places)
            launched += int(np.count_nonzero(call >= 0))
    count = sum(map(len, on_gpu))
    return Contents(
        span=trace.span,
        gpus=tuple(use for use in uses if use.is_used or use.name != NOT_DESCRIBED),
        processes=tuple(_process_use(trace, process) for process in trace.origin.processes),
        rows=tuple((table.value, len(rows)) for table, rows in trace.tables.items()),
        missing=missing(trace),
        launched=launched / count if count else NotMeasured("no GPU work was recorded"),
    )


def _gpu_use(trace: Trace, index: int) -> GpuUse:
    here = {
        table: trace[table].only("pid", "context", "stream").where(trace[table]["gpu"] == index) for table in ON_GPU
    }
    streams = {key for rows in here.values() for key in _distinct(rows["pid"], rows["context"], rows["stream"])}
    return GpuUse(
        gpu=index,
        **asdict(trace.origin.gpus[index]),
        kernels=len(here[Table.KERNELS]),
        copies=len(here[Table.COPIES]),
        graphs=len(here[Table.GRAPHS]),
        streams=len(streams),
        processes=len({pid for pid, _, _ in streams}),
    )


def _process_use(trace: Trace, process: Process) -> ProcessUse:
    calls, ranges = (trace[table].where(trace[table]["pid"] == process.pid) for table in (Table.CALLS, Table.RANGES))
    threads = {key for rows in (calls, ranges) for key in _distinct(rows["tid"])}
    work = sum(int((trace[table]["pid"] == process.pid).sum()) for table in ON_GPU)
    return ProcessUse(os_pid(process.pid), process.name, len(threads), len(calls), len(ranges), work)


def _distinct(*columns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> set[tuple[int, ...]]:
    first, _ = group(*columns)
    return set(zip(*(column[first].tolist() for column in columns), strict=True))


MOST_NAMES: Final = 3
NOT_NOTHING: Final = 0.0005
"""Less is told as 0.0 %."""


def unclassified_names(trace: Trace, device: Device) -> tuple[str, ...]:
    """A few of them, the most time first."""
    work = device.work
    unknown = np.array([family == OTHER for family in work.families], np.bool_)
    mine = np.flatnonzero((work.state == State.COMPUTE) & (work.gpu == device.gpu) & (work.family >= 0))
    mine = mine[unknown[work.family[mine]]]
    mine = mine[device.begins_steady(work.start_ns[mine])]
    first, number = group(work.name[mine])
    time = np.bincount(number, weights=(work.end_ns - work.start_ns)[mine], minlength=len(first))
    codes = work.name[mine[first[np.argsort(-time, kind="stable")]]]
    names = [trace.strings.text(code) or "" for code in codes.tolist()]
    return tuple(list(dict.fromkeys(cut_label(label(name)) for name in names if name))[:MOST_NAMES])


def about_unclassified(trace: Trace, device: Device) -> Message | None:
    """How much of compute they are; None where that is nothing, or as good as nothing."""
    time = device.line_ns.get(UNCLASSIFIED, 0)
    if time < NOT_NOTHING * device.compute_ns or not time:
        return None
    return say(
        "{share} of compute is in kernels of no known family, mostly {names}; --families assigns one.",
        share=share_text(time / device.compute_ns),
        names=joined(say(", "), (f"`{name}`" for name in unclassified_names(trace, device))),
    )

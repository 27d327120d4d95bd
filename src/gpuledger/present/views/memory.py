"""Memory as tables: copies by kind and memory, allocation calls, and the memory in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.launch_costs import CallTimes
from gpuledger.analyse.memory.figures import CopiesOfKind, MemoryFigures, MemoryTotals, memory_figures
from gpuledger.ledger.activity import shortened
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.trace.model import NotMeasured, Trace

_COPIES: Final = (
    Column("kind", say("Kind"), Unit.TEXT),
    Column("from", say("From"), Unit.TEXT),
    Column("to", say("To"), Unit.TEXT),
    Column("copies", say("Copies"), Unit.COUNT),
    Column("per_step", say("Per step"), Unit.MEAN),
    Column("total_bytes", "MB", Unit.MB, page_name=say("Size")),
    Column("total_ns", say("Time"), Unit.NS),
    Column("bytes_per_s", "MB/s", Unit.MB_PER_S, detail=1, page_name=say("Rate")),
)
_CALLS: Final = (
    Column("name", say("Call"), Unit.TEXT),
    Column("calls", say("Calls"), Unit.COUNT),
    Column("per_step", say("Per step"), Unit.MEAN),
    Column("total_ns", say("Time"), Unit.NS),
)
_IN_USE: Final = (
    Column("figure", say("Figure"), Unit.TEXT),
    Column("bytes", "MB", Unit.MB, page_name=say("Size")),
)


@dataclass(frozen=True, slots=True)
class MemorySheets:
    """The tables about one GPU's memory."""

    copies: Sheet
    allocation_calls: Sheet
    in_use: Sheet


def memory_sheets(trace: Trace, device: Device) -> MemorySheets:
    """All of them, over the steady steps; the memory in use over the whole capture."""
    return sheets_of_memory(device, memory_figures(trace, device))


def sheets_of_memory(device: Device, figures: MemoryFigures) -> MemorySheets:
    """The same of figures that are known."""
    return MemorySheets(
        _copies(device, figures.copies), _calls(device, figures.allocation_calls), _in_use(device, figures.in_use)
    )


def _copies(device: Device, copies: Sequence[CopiesOfKind]) -> Sheet:
    rows = tuple(
        (
            copied.kind,
            copied.source,
            copied.target,
            copied.count,
            copied.count / device.step_count,
            copied.total_bytes,
            copied.total_ns,
            copied.bytes_per_s,
        )
        for copied in copies
    )
    return Sheet(f"copies_gpu{device.gpu}", say("Copies, steady steps, GPU {gpu}", gpu=device.gpu), _COPIES, rows)


def _calls(device: Device, functions: Sequence[CallTimes]) -> Sheet:
    rows = tuple(
        (
            shortened(function.name),
            function.times.count,
            function.times.count / device.step_count,
            function.times.total,
        )
        for function in functions
    )
    title = say("Allocation calls, steady steps, GPU {gpu}", gpu=device.gpu)
    return Sheet(f"allocation_calls_gpu{device.gpu}", title, _CALLS, rows)


def _in_use(device: Device, totals: MemoryTotals | NotMeasured) -> Sheet:
    name, title = f"memory_in_use_gpu{device.gpu}", say("Device memory, GPU {gpu}", gpu=device.gpu)
    if isinstance(totals, NotMeasured):
        return Sheet(name, title, _IN_USE, why_empty=totals.reason)
    rows = (
        (say("peak"), totals.peak_bytes),
        (say("at the end"), totals.end_bytes),
        (say("allocated in total"), totals.allocated_bytes),
    )
    return Sheet(name, title, _IN_USE, rows)

"""What one GPU copies and allocates in its steady steps, and the memory in use over the whole capture, together."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.call_times import CallTimes
from gpuledger.analyse.memory.allocation_calls import allocation_calls
from gpuledger.analyse.memory.copies import CopiesOfKind, copies_by_kind
from gpuledger.analyse.memory.in_use import MemoryTotals, memory_totals
from gpuledger.ledger.device import Device
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """One GPU's."""

    copies: tuple[CopiesOfKind, ...]
    allocation_calls: tuple[CallTimes, ...]
    in_use: MemoryTotals | NotMeasured


def memory_figures(trace: Trace, device: Device) -> MemoryFigures:
    """Ask all of it."""
    return MemoryFigures(copies_by_kind(trace, device), allocation_calls(device), memory_totals(trace, device.gpu))

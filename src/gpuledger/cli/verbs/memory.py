"""`gpuledger memory`: what is copied and allocated."""

from __future__ import annotations

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.memory import memory_sheets
from gpuledger.trace.model import Trace


@question
def memory(trace: Trace, device: Device) -> list[Sheet]:
    """Say what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.

    Copies are told apart by direction and by the memory they touch; pageable memory is slow and blocks the host.
    Allocations are counted from CUDA calls, and from nsys's memory events where they were recorded
    (--cuda-memory-usage=true).

    \b
    Examples:
      gpuledger memory run.sqlite
      gpuledger memory run.sqlite --format=json
    """
    sheets = memory_sheets(trace, device)
    return [sheets.copies, sheets.allocation_calls, sheets.in_use]

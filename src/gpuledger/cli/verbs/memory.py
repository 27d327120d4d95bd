"""`gpuledger memory`: what is copied and allocated."""

from __future__ import annotations

from gpuledger.analyse.memory.memory_figures import memory_figures
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.answers import memory_answer
from gpuledger.present.views.memory import sheets_of_memory
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@question
def memory(trace: Trace, device: Device) -> TableAnswer:
    """Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.

    Copies are split by direction and by the memory they touch; pageable memory is slow and blocks the host.
    Allocations are counted from CUDA calls, and from nsys's memory events where they were recorded
    (--cuda-memory-usage=true).

    \b
    Examples:
      gpuledger memory run.sqlite
      gpuledger memory run.sqlite --format=json
    """
    figures = memory_figures(trace, device)
    sheets = sheets_of_memory(device, figures)
    return TableAnswer(memory_answer(device, figures), (sheets.copies, sheets.allocation_calls, sheets.in_use))

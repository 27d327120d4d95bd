"""`gpuledger memory`: what is copied and allocated; of a memory snapshot, who holds what."""

from __future__ import annotations

from functools import partial

from gpuledger.cli.memory_snapshot import show_snapshot
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import memory_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@partial(question, of_snapshot=show_snapshot)
def memory(trace: Trace, device: Device) -> TableAnswer:
    """Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.

    Copies are split by direction and by the memory they touch; pageable memory is slow and blocks the host.
    Allocations are counted from CUDA calls, and from nsys's memory events where they were recorded
    (--cuda-memory-usage=true).

    PROFILE may also be a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, or `gpuledger capture torch
    --memory`): who holds the peak, by line and by stack; what leaks; what is fragmented; what an out-of-memory was made
    of. No class in the pickle is loaded.

    \b
    Examples:
      gpuledger memory run.sqlite
      gpuledger memory run.sqlite --format=json
      gpuledger memory snapshot.pickle
    """
    return memory_of(trace, device)

"""`gpuledger ranges`: time by NVTX range."""

from __future__ import annotations

from functools import partial

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import ranges_of
from gpuledger.present.views.ranges import printed_ranges_sheet
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@partial(question, of_tables=lambda side: [printed_ranges_sheet(side)], reads_samples=True)
def ranges(trace: Trace, device: Device) -> TableAnswer:
    """Show where PROFILE spends time by NVTX range: host and GPU time, launches, waits.

    GPU work belongs to the ranges around its launch call. Inclusive time counts the ranges inside, exclusive time does
    not; GPU times add up durations, so they can exceed the wall time where streams overlap. Shares are host time in
    the steady steps over the steps' time, so setup and warm-up are left
    out. Where GPU metrics were sampled, each range also has the GPU utilization of its kernels.

    PROFILE may also be tables that `nsys stats` printed (nvtx_sum). There shares are of the time in the program's own
    ranges: those of libraries lie inside them or are setup, and are left out.

    \b
    Examples:
      gpuledger ranges nvtx_sum.txt
      gpuledger ranges run.sqlite
      gpuledger ranges run.sqlite --format=json
    """
    return ranges_of(trace, device)

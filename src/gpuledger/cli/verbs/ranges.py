"""`gpuledger ranges`: time by NVTX range."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuledger.analyse.range_tree import range_tree
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.answers import range_answer
from gpuledger.present.views.ranges import printed_ranges_sheet, ranges_sheet
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.use.kernel_use import UseOfKernels


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
    tree = range_tree(trace, device, _use(trace, device))
    return TableAnswer(range_answer(tree), (ranges_sheet(tree),))


def _use(trace: Trace, device: Device) -> UseOfKernels | None:
    if Table.METRICS not in trace.tables:
        return None
    from gpuledger.analyse.use.kernel_use import use_of_kernels

    use = use_of_kernels(trace, device.gpu, device.ledger.busy.stretches)
    return None if isinstance(use, NotMeasured) else use

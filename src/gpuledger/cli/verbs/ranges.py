"""`gpuledger ranges`: time by NVTX range."""

from __future__ import annotations

from gpuledger.analyse.range_tree import range_tree
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.ranges import ranges_sheet
from gpuledger.trace.model import Trace


@question
def ranges(trace: Trace, device: Device) -> list[Sheet]:
    """Say where PROFILE spends time by NVTX range: host and GPU time, launches, waits.

    GPU work belongs to the ranges around its launch call. Inclusive time counts the ranges inside, exclusive time does
    not; GPU times add up durations, so they can exceed the wall time where streams overlap.

    \b
    Examples:
      gpuledger ranges run.sqlite
      gpuledger ranges run.sqlite --format=json
    """
    return [ranges_sheet(range_tree(trace, device))]

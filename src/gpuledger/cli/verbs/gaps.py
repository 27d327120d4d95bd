"""`gpuledger gaps`: why the GPU was idle."""

from __future__ import annotations

from gpuledger.analyse.gap_summary import gap_summary
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.gaps import gap_sheets
from gpuledger.trace.model import Trace


@question
def gaps(trace: Trace, device: Device) -> list[Sheet]:
    """Say why the GPU was idle in PROFILE: causes, triggers, lengths, the longest gaps.

    A gap is a stretch in which nothing ran on a GPU: no kernel, no copy, no graph, on any stream, of any process. Its
    time is booked to causes, which sum to it; its trigger is what to fix.

    \b
    Examples:
      gpuledger gaps run.sqlite
      gpuledger gaps run.sqlite --format=csv -o gaps.csv
    """
    return gap_sheets(gap_summary(trace, device))

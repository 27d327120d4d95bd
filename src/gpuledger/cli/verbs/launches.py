"""`gpuledger launches`: what launching costs."""

from __future__ import annotations

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import launches_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@question
def launches(trace: Trace, device: Device) -> TableAnswer:
    """Show what launches cost in PROFILE: calls, time, queue, how far the host runs ahead.

    Counts every launch call of CUDA and HIP, graphs included, per step. The queue is the time from a launch
    call's return to the kernel's start: long means that the host runs ahead, which is good.

    \b
    Examples:
      gpuledger launches run.sqlite
      gpuledger launches run.sqlite --format=json
    """
    return launches_of(trace, device)

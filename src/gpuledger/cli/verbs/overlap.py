"""`gpuledger overlap`: what hides under what."""

from __future__ import annotations

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import overlap_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@question
def overlap(trace: Trace, device: Device) -> TableAnswer:
    """Show how compute, communication and copies overlap in PROFILE, and what stays exposed.

    Exposed is what runs while nothing more important does: communication without compute, copies without either.
    Kernels that overlap on one stream (programmatic dependent launch) are listed, with what the overlap gains at most.

    \b
    Examples:
      gpuledger overlap run.sqlite
      gpuledger overlap run.sqlite --format=json
    """
    return overlap_of(trace, device)

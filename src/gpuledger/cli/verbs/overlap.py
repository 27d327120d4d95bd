"""`gpuledger overlap`: what hides under what."""

from __future__ import annotations

from gpuledger.analyse.overlap import overlap as overlap_of
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.answers import overlap_answer
from gpuledger.present.views.overlap import overlap_sheet
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@question
def overlap(trace: Trace, device: Device) -> TableAnswer:  # noqa: ARG001  all questions take the trace
    """Show how compute, communication and copies overlap in PROFILE, and what stays exposed.

    Exposed is what runs while nothing more important does: communication without compute, copies without either.

    \b
    Examples:
      gpuledger overlap run.sqlite
      gpuledger overlap run.sqlite --format=json
    """
    work = overlap_of(device)
    return TableAnswer(overlap_answer(work), (overlap_sheet(work),))

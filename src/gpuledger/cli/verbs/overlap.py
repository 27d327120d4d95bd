"""`gpuledger overlap`: what hides under what."""

from __future__ import annotations

from gpuledger.analyse.overlap import overlap as overlap_of
from gpuledger.analyse.stream_overlap import stream_overlap
from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.answers import overlap_answer, stream_overlap_answer
from gpuledger.present.views.overlap import overlap_sheet, stream_overlap_sheet
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
    work, on_streams = overlap_of(device), stream_overlap(trace, device)
    sentences = (*overlap_answer(work), *stream_overlap_answer(on_streams, device))
    sheets = (overlap_sheet(work), stream_overlap_sheet(on_streams))
    return TableAnswer(sentences, sheets, sheets if on_streams.kernels else sheets[:1])

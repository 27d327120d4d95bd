"""What the collectives of each phase wait for other ranks, and what they move: a GPU and its job in, rows out."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.phases.phase_costs import phase_pieces
from gpuledger.analyse.phases.work_phases import NOWHERE, Asked, work_phases
from gpuledger.analyse.ranks.job import Job
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace import sweep
from gpuledger.trace.keys import group, join
from gpuledger.trace.model import NotMeasured, Trace

NO_COMMUNICATION: Final = NotMeasured(say("no communication kernel was recorded"))
ONE_RANK: Final = NotMeasured(
    say(
        "only one rank was given: separating the wait for other ranks from the transfer takes all "
        "ranks; give their profiles with --ranks"
    )
)


class PhaseWaitRow(Row, frozen=True):
    """The collectives of one phase in the steady steps, in one layer or in all: waiting for other ranks, and moving."""

    gpu: Gpu
    phase: Annotated[str | None, Label(say("Phase"), unknown=say("other work"), meaning="null: of no phase")]
    layer: Annotated[int | None, Label(say("Layer"), unknown=say("all"), meaning="null: all layers together")]
    collectives: Annotated[int, Label(say("Collectives"), Unit.COUNT)]
    matched: Annotated[int, Label(say("Matched"), Unit.COUNT, meaning="found on all ranks; to these the times belong")]
    running_ns: Annotated[int, Label(say("Running"), Unit.NS)]
    wait_ns: Annotated[int, Label(say("Waiting"), Unit.NS)]
    transfer_ns: Annotated[int, Label(say("Transfer"), Unit.NS)]
    wait_share: Annotated[float | None, Label(say("of it waiting"), Unit.SHARE)]


class KnownJob(Struct, frozen=True):
    """A job, and which of its ranks a profile holds, as positions in `Job.ranks`."""

    job: Job
    members: tuple[int, ...]


def talking_ranks(work: Activities) -> int:
    """How many processes on GPUs ran communication kernels."""
    talks = work.state == State.COMM
    return len(group(work.gpu[talks], work.pid[talks])[0])


def phase_waits(
    trace: Trace, device: Device, known: KnownJob | None, asked: Asked = ()
) -> tuple[PhaseWaitRow, ...] | NotMeasured:
    """What the collectives of one GPU wait and move; `known` is the job, if there is more than the one rank."""
    own = device.work.of(device.gpu)
    row = np.flatnonzero(device.begins_steady(own.start_ns) & (own.state == State.COMM))
    if not len(row):
        return NO_COMMUNICATION
    if known is None or len(known.job.ranks) < 2:
        return ONE_RANK
    work = work_phases(trace, device, asked)
    wait, transfer, matched = (np.zeros(len(own), np.int64) for _ in range(3))
    for member in known.members:
        if known.job.ranks[member].gpu not in (None, device.gpu):
            continue
        for lane in known.job.lanes:
            if member not in lane.members:
                continue
            ahead_ns = known.job.clocks[member].offset_ns
            start, end = lane.start_ns(member) + ahead_ns, lane.end_ns(member) + ahead_ns
            here, kernel = join(start, end, own.start_ns[row], own.end_ns[row])
            wait[row[kernel]], transfer[row[kernel]] = lane.wait_ns(member)[here], lane.transfer_ns[here]
            matched[row[kernel]] = 1
    phase, layer = work.phase[row], work.layer[row]
    if (work.layer == NOWHERE).all():  # then layers are counted
        pieces = phase_pieces(device, work)
        layer = pieces.layer[sweep.search(pieces.start_ns, own.start_ns[row], "right") - 1]
    running = np.where(matched > 0, own.end_ns - own.start_ns, 0)
    amounts = [column[row] for column in (matched, running, wait, transfer)]
    names, waits = (*work.phases, None), list[PhaseWaitRow]()
    in_layers = layer != NOWHERE
    for chosen, by in ((np.ones(len(row), np.bool_), np.full(len(row), NOWHERE)), (in_layers, layer[in_layers])):
        first, number = group(phase[chosen], by)
        sums = [sweep.sums(number, column[chosen], len(first)).tolist() for column in amounts]
        seen = np.bincount(number, minlength=len(first)).tolist()
        waits += [
            PhaseWaitRow(
                gpu=device.gpu,
                phase=names[int(phase[chosen][place])],
                layer=None if by[place] == NOWHERE else int(by[place]),
                collectives=count,
                matched=found,
                running_ns=running_ns,
                wait_ns=wait_ns,
                transfer_ns=transfer_ns,
                wait_share=share(wait_ns, running_ns),
            )
            for place, count, found, running_ns, wait_ns, transfer_ns in zip(first.tolist(), seen, *sums, strict=True)
        ]
    return tuple(waits)

"""Waiting against transfer: the collectives of one rank, matched with those of the others, by phase and by layer.

A rank waits in a collective until the last rank arrives; from then to the first end is the transfer. Both are those of
`ranks.matching`, of the steady stretch. From one rank alone neither can be told: its kernel only runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.phases.phase_books import phase_pieces
from gpuledger.analyse.phases.work_phases import NOWHERE, Asked, WorkPhases, work_phases
from gpuledger.analyse.ranks.job import Job
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace import sweep
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import group, join
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints

ONE_RANK: Final = NotMeasured(
    say(
        "only one rank was given: separating the wait for other ranks from the transfer takes all "
        "ranks; give their profiles with --ranks"
    )
)
_SILENT: Final = NotMeasured(say("no communication kernel was recorded"))


@dataclass(frozen=True, slots=True)
class PhaseWait:
    """The collectives of one phase, in one layer or in all."""

    phase: str | None
    """None: of no phase."""
    layer: int | None
    """None: all layers together."""
    seen: int
    matched: int
    """Of them, found on all ranks; to these the times belong."""
    running_ns: int
    wait_ns: int
    transfer_ns: int


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job, and which of its ranks a profile holds, as positions in `Job.ranks`."""

    job: Job
    members: tuple[int, ...]


def talking_ranks(work: Activities) -> int:
    """How many processes on GPUs ran communication kernels."""
    talks = work.state == State.COMM
    return len(group(work.gpu[talks], work.pid[talks])[0])


def phase_waits(
    trace: Trace, device: Device, known: KnownJob | None, asked: Asked = ()
) -> tuple[PhaseWait, ...] | NotMeasured:
    """What the collectives of one GPU wait and move; `known` is the job, if there is more than the one rank."""
    own = device.work.of(device.gpu)
    steady = device.begins_steady(own.start_ns) & (own.state == State.COMM)
    if not steady.any():
        return _SILENT
    if known is None or len(known.job.ranks) < 2:
        return ONE_RANK
    work = work_phases(trace, device, asked)
    row = np.flatnonzero(steady)
    wait, transfer, matched = (np.zeros(len(own), np.int64) for _ in range(3))
    for member in known.members:
        for lane in known.job.lanes:
            if member not in lane.members:
                continue
            column, ahead_ns = lane.members.index(member), known.job.clocks[member].offset_ns
            start, end = (times[:, column] + ahead_ns for times in (lane.start_ns, lane.end_ns))
            here, kernel = join(start, end, own.start_ns[row], own.end_ns[row])
            wait[row[kernel]], transfer[row[kernel]] = lane.wait_ns[here, column], lane.transfer_ns[here]
            matched[row[kernel]] = 1
    phase, layer = work.phase[row], _layers(device, work, row)
    running = np.where(matched > 0, own.end_ns - own.start_ns, 0)
    amounts = [column[row] for column in (matched, running, wait, transfer)]
    names = (*work.phases, None)
    rows = _summed(names, phase, np.full(len(row), NOWHERE), amounts)
    return tuple(rows + [wait for wait in _summed(names, phase, layer, amounts) if wait.layer is not None])


def _layers(device: Device, work: WorkPhases, row: Ints) -> Ints:
    """The layer of each of these activities: that of its range, or the one that is counted where it begins."""
    if (work.layer != NOWHERE).any():
        return work.layer[row]
    pieces = phase_pieces(device, work)
    piece = sweep.search(pieces.start_ns, device.work.of(device.gpu).start_ns[row], "right") - 1
    return pieces.layer[piece]


def _summed(names: Sequence[str | None], phase: Ints, layer: Ints, amounts: Sequence[Ints]) -> list[PhaseWait]:
    """One entry for each phase and layer, layers in order."""
    first, number = group(phase, layer)
    sums = [sweep.fold("sum", number, column, np.zeros(len(first), np.int64)).tolist() for column in amounts]
    seen = np.bincount(number, minlength=len(first)).tolist()
    return [
        PhaseWait(names[int(phase[at])], None if layer[at] == NOWHERE else int(layer[at]), seen[place], *figures)
        for place, (at, *figures) in enumerate(zip(first.tolist(), *sums, strict=True))
    ]

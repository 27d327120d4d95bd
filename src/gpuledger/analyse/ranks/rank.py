"""What one rank contributes to a job: its trace in, a summary out that is small enough to travel between processes.

The figures are those of the rank's GPU, of several the busiest, from the same books as its report, over the steady
stretch. The collectives are that GPU's communication kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.ranks.rank_collectives import Collectives, rank_collectives
from gpuledger.analyse.ranks.rank_traces import Place
from gpuledger.analyse.ranks.rank_work import RankWork, rank_work
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import analysed
from gpuledger.ledger.lines import COMM, Line, LineKind
from gpuledger.ledger.steps import Wanted
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured, Severity
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, covered, intersection, total, union

NOT_KEPT: Final = NotMeasured(say("there is nothing to replay across ranks"))


@dataclass(frozen=True, slots=True, eq=False)
class RankSummary:
    """One rank's part in a job. Times are on the profile's own clock."""

    profile: str
    """The file; ranks of one file have it in common."""
    rank: int | None
    """From the profile's metadata; None where that does not say."""
    world_size: int | None
    gpu_name: str
    window: Span
    steady: Span
    """The steps without warm-up, or the whole window."""
    lines: tuple[tuple[Line, int], ...]
    """The books of the steady stretch, by line; they sum to it."""
    hidden_comm_ns: int
    """Communication of the steady stretch that ran while something computed."""
    exposed: Spans
    """When only communication ran, in the whole window."""
    edges_ns: Ints
    """Where steps begin and end, one more than there are steps; empty where none were found."""
    warm_up: int
    steps_source: str | None
    collectives: Collectives
    losses: tuple[str, ...]
    """What the profile lacks, in sentences."""
    stretches: Spans | None = None
    """What is looked at of the window; None: all of it."""
    zero_ns: int | None = None
    """The instant that times are told from; None: where the window begins."""
    name: str = ""
    """What to call it where no rank is recorded; empty: as the profile."""
    place: Place | None = None
    """Which process and GPU of its profile it is; None: the profile is this one rank's."""
    gpu: int | None = None
    """The GPU's number in its capture; None where the profile does not say which GPU it is."""
    clock: str | None = None
    """What its times are counted by; ranks with the same one are on one clock. None: like no other's."""
    work: RankWork | NotMeasured = NOT_KEPT
    """What is replayed of it together with the other ranks."""

    @property
    def label(self) -> str:
        """What to call it."""
        return self.name or self.profile if self.rank is None else f"rank {self.rank}"

    @property
    def line_ns(self) -> dict[Line, int]:
        return dict(self.lines)

    @property
    def steady_ns(self) -> int:
        return int(self._looked_at_ns(np.array(self.steady))[0])

    @property
    def length_ns(self) -> Ints:
        """How long each step took, warm-up included."""
        return self._looked_at_ns(self.edges_ns)

    def _looked_at_ns(self, edges_ns: Ints) -> Ints:
        """How much of the time from each of these instants to the next is looked at."""
        if self.stretches is None:
            return np.diff(edges_ns)
        return covered(self.stretches, edges_ns[:-1], edges_ns[1:])

    @property
    def begin_ns(self) -> int:
        """The instant that times are told from."""
        return self.window.start_ns if self.zero_ns is None else self.zero_ns

    @property
    def step_count(self) -> int:
        """Steps that count; the steady stretch is one where none were found."""
        return len(self.edges_ns) - 1 - self.warm_up if len(self.edges_ns) else 1

    @property
    def families_ns(self) -> dict[str, int]:
        """Compute of the steady stretch by kernel family."""
        return {line.family: time for line, time in self.lines if line.is_compute}

    @property
    def compute_ns(self) -> int:
        return sum(self.families_ns.values())

    @property
    def exposed_comm_ns(self) -> int:
        return self.line_ns.get(COMM, 0)


def rank_summary(
    trace: Trace, profile: str, wanted: Wanted, *, name: str = "", place: Place | None = None, operations: int = 0
) -> RankSummary:
    """Analyse one rank's trace, read whole; of several GPUs the busiest, or the one that `wanted` names.

    `place` says that the profile holds other ranks too, and which one this is; about so many `operations` are kept to
    be replayed.
    """
    devices = analysed(trace, profile, wanted)
    activities = devices[0].work
    device = max(devices, key=lambda device: device.device_floor_ns)
    losses = [note.sentence for note in trace.health if note.severity is Severity.LOSS]
    if len(devices) > 1:
        losses.append(
            say(
                "this rank used {count} GPUs; only GPU {gpu}, the busiest, is counted (--device=N picks another)",
                count=len(devices),
                gpu=device.gpu,
            )
        )
    gpus, steps, work = trace.origin.gpus, device.steps, device.ledger.busy
    here = activities.on(device.gpu)
    here = here[activities.state[here] == State.COMM]
    communicating = intersection(union(activities.start_ns[here], activities.end_ns[here]), device.steady_stretches)
    return RankSummary(
        profile=profile,
        rank=_at_least(0, trace.origin.rank),
        world_size=_at_least(1, trace.origin.world_size),
        gpu_name=gpus[device.gpu].name if 0 <= device.gpu < len(gpus) else "",
        window=device.ledger.window,
        steady=device.steady,
        lines=tuple(device.line_ns.items()),
        hidden_comm_ns=total(communicating) - device.exposed_ns(LineKind.COMM),
        exposed=work.comm,
        edges_ns=np.empty(0, np.int64) if steps is None else steps.edges_ns,
        warm_up=0 if steps is None else steps.warm_up,
        steps_source=None if steps is None else steps.source,
        collectives=rank_collectives(trace, device),
        losses=tuple(losses),
        stretches=work.stretches if len(work.stretches) > 1 else None,
        zero_ns=device.zero_ns,
        name=name,
        place=place,
        gpu=None if any(note.code == "gpus-assumed" for note in trace.health) else device.gpu,
        clock=trace.origin.capture or (None if place is None else profile),
        work=rank_work(trace, device, operations) if operations else NOT_KEPT,
    )


def _at_least(least: int, number: int | None) -> int | None:
    return number if number is not None and number >= least else None

"""How long each GPU worked: activities in, a partition of the window out.

At every instant a device is in one state: compute, else communication, else copy, else idle. So `comm` and `copy` are
the exposed part; what hides under compute is given beside them. Streams and processes that overlap count once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.activity import Activities, State
from gpuledger.analyse.host import Host
from gpuledger.model.health import NotMeasured
from gpuledger.model.spans import Span, Spans, clip, complement, difference, intersection, shares_in_order, total, union
from gpuledger.model.tables import Table

NEEDS = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
"""One of them at least."""


@dataclass(frozen=True, slots=True)
class Busy:
    """One GPU's window, split by state. The four sets are disjoint and fill the window."""

    gpu: int
    window: Span
    compute: Spans
    comm: Spans
    copy: Spans
    idle: Spans
    hidden_comm_ns: int
    """Communication that ran while something computed."""
    hidden_copy_ns: int
    """Copies that ran while something computed or communicated."""
    families_ns: tuple[tuple[str, int], ...]
    """Compute by kernel family, longest first; sums to compute."""


def default_window(host: Host, found: Activities) -> Span | NotMeasured:
    """From the launch call of the first GPU activity to the end of the last one, the same for all devices."""
    if not len(found):
        return NotMeasured("no GPU work was recorded")
    call = host.launching(found)[found.start_ns == found.start_ns[0]]
    began = host.calls["start_ns"][call[call >= 0]]
    start = min(int(found.start_ns[0]), *began.tolist()) if len(began) else int(found.start_ns[0])
    return Span(start, int(found.end_ns.max()))


def busy(found: Activities, gpu: int, window: Span) -> Busy:
    """What one GPU did in `window`."""
    here = found.on(gpu)
    start = np.clip(found.start_ns[here], window.start_ns, window.end_ns)
    end = np.clip(found.end_ns[here], window.start_ns, window.end_ns)
    state = found.state[here]

    def running(wanted: State) -> Spans:
        return clip(union(start[state == wanted], end[state == wanted]), window)

    computing, communicating, copying = running(State.COMPUTE), running(State.COMM), running(State.COPY)
    comm = difference(communicating, computing)
    above_copy = union(
        np.concatenate((computing.start_ns, communicating.start_ns)),
        np.concatenate((computing.end_ns, communicating.end_ns)),
    )
    working = union(start, end)
    of_compute = np.flatnonzero(state == State.COMPUTE)
    return Busy(
        gpu=gpu,
        window=window,
        compute=computing,
        comm=comm,
        copy=difference(copying, above_copy),
        idle=complement(working, window),
        hidden_comm_ns=total(intersection(communicating, computing)),
        hidden_copy_ns=total(intersection(copying, above_copy)),
        families_ns=_by_family(found, here[of_compute], start[of_compute], end[of_compute]),
    )


def _by_family(found: Activities, rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[tuple[str, int], ...]:
    """Where compute kernels overlap, an instant belongs to the one that started first, on the lower stream on ties."""
    own_start, own_end = shares_in_order(start, end)
    sums = np.zeros(len(found.families), np.int64)
    np.add.at(sums, found.family[rows], own_end - own_start)
    named = [(name, int(amount)) for name, amount in zip(found.families, sums, strict=True) if amount]
    return tuple(sorted(named, key=lambda each: (-each[1], each[0])))

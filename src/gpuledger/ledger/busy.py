"""How long each GPU worked: activities in, a partition of the window out.

At every instant a device is in one state: compute, else communication, else copy, else idle. So `comm` and `copy` are
the exposed part; what hides under compute is given beside them. Streams and processes that overlap count once.
"""

from __future__ import annotations

from msgspec import Struct

from gpuledger.catalog.range_names import is_marked_step
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span, Spans, cut_to, intersection, one_span, total
from gpuledger.trace.sweep import states
from gpuledger.trace.tables import Table

NEEDS = (Table.KERNELS, Table.COPIES, Table.GRAPHS)
"""One of them at least."""


class Busy(Struct, frozen=True):
    """One GPU's window, split by state. The sets are disjoint; compute is what they leave of the window."""

    gpu: int
    stretches: Spans
    """What the window consists of: one stretch, or those of a range's instances."""
    compute_ns: int
    comm: Spans
    copy: Spans
    idle: Spans
    hidden_comm_ns: int
    """Communication that ran while something computed."""
    hidden_copy_ns: int
    """Copies that ran while something computed or communicated."""


def default_window(host: Host, work: Activities) -> Span | NotMeasured:
    """From the launch call of the first GPU activity to the end of the last one, the same for all devices.

    Where that call lies in a range that is called a step, the window begins where the innermost such range opens.
    """
    return host.once(_default_window, host, work)


def _default_window(host: Host, work: Activities) -> Span | NotMeasured:
    if not len(work):
        return NotMeasured("no GPU work was recorded")
    call = work.launch[work.start_ns == work.start_ns[0]]
    call = call[call >= 0]
    start = int(host.calls["start_ns"][call].min(initial=work.start_ns[0]))
    return Span(_step_opens_ns(host, int(call[0]), start) if len(call) else start, int(work.end_ns.max()))


def _step_opens_ns(host: Host, call: int, start_ns: int) -> int:
    """Where the step that a call belongs to opens on the host; `start_ns` where no range is called so."""
    ranges, (pid, end_ns) = host.ranges, (host.calls[name][call] for name in ("pid", "end_ns"))
    around = (ranges["start_ns"] <= start_ns) & (ranges["end_ns"] >= end_ns) & (ranges["pid"] == pid)
    outer = ranges.where(around)
    names = zip(outer["start_ns"].tolist(), outer.texts("name"), strict=True)
    return max((opened for opened, name in names if is_marked_step(name or "")), default=start_ns)


def busy(work: Activities, gpu: int, window: Span | Spans) -> Busy:
    """What one GPU did in a window, which may consist of several stretches."""
    own, stretches = work.of(gpu), one_span(window) if isinstance(window, Span) else window
    whole = (int(stretches.start_ns[0]), int(stretches.end_ns[-1]))
    start, end, state = own.start_ns, own.end_ns, own.state
    if len(stretches) > 1:
        start, end, whose = cut_to(start, end, stretches)
        state = state[whose]
    exposed, hidden = states(start, end, state, whole)
    comm, copy, idle = (Spans(*bounds) for bounds in exposed)
    if len(stretches) > 1:
        idle = intersection(idle, stretches)
    compute_ns = total(stretches) - total(comm) - total(copy) - total(idle)
    return Busy(gpu, stretches, compute_ns, comm, copy, idle, *hidden)

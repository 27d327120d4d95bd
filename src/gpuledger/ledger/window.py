"""The part of the profile that is looked at: the default window, `--time` and `--range` in, stretches of time out.

With `--range`, a stretch is what one instance of a matching range holds on one GPU. It begins where the range opens, or
where the GPU is done with what came before, whichever is later, and ends with the last work that was launched inside.
Stretches of one instance after another do not overlap. What lies between them is left out: of the books, of the gaps,
and of every count. `--time` cuts what is left.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import launching_range, matching_ranges, nothing_matches, range_names
from gpuledger.regex import NamePattern
from gpuledger.selection import Selection
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, furthest, one_span, union
from gpuledger.trace.tables import Rows
from gpuledger.units import instant_text


class Window(Struct, frozen=True, eq=False):
    """What is looked at on one GPU: one stretch, or those of a range's instances."""

    stretches: Spans
    begin_ns: Ints
    """Where each instance begins; one may begin where another ends."""

    @property
    def span(self) -> Span:
        """From the first instant to the last."""
        return Span(int(self.stretches.start_ns[0]), int(self.stretches.end_ns[-1]))


def windows(
    trace: Trace, work: Activities, host: Host, gpus: Iterable[int], window: Span, wanted: Selection
) -> dict[int, Window]:
    """For each GPU the part of the profile's window that is asked for; GPUs with nothing in it are left out."""
    first, last = wanted.time_ns or (None, None)
    asked = Span(
        window.start_ns if first is None else max(window.start_ns + first, window.start_ns),
        window.end_ns if last is None else min(window.start_ns + last, window.end_ns),
    )
    if wanted.scope_pattern is None:
        if asked.end_ns <= asked.start_ns:
            raise _nothing_there(window.start_ns, window)
        whole = one_span(asked)
        return {gpu: Window(whole, whole.start_ns) for gpu in gpus}
    ranges = matching_ranges(trace, NamePattern(wanted.scope_pattern))
    if not len(ranges):
        raise nothing_matches(wanted.scope_pattern, "range", range_names(trace))
    instances = {gpu: _instances(work.of(gpu), host, ranges) for gpu in gpus}
    launched = [(begin, end) for begin, end in instances.values() if len(begin)]
    if not launched:
        where = f"GPU {wanted.device}" if wanted.device is not None else "a GPU"
        raise NothingRecorded(
            f"ranges match '{wanted.scope_pattern}', but no work on {where} was launched inside them",
            found=f"{len(ranges)} ranges, of them the first is '{ranges.texts('name')[0]}'",
        )
    parts = {}
    for gpu, bounds in instances.items():
        begin, end = (np.clip(instants, *asked) for instants in bounds)
        if (end > begin).any():
            parts[gpu] = Window(union(begin, end), begin[end > begin])
    if not parts:
        there = Span(min(int(begin[0]) for begin, _ in launched), max(int(end[-1]) for _, end in launched))
        raise _nothing_there(window.start_ns, there, f" of ranges that match '{wanted.scope_pattern}'")
    return parts


def _nothing_there(zero_ns: int, span: Span, whose: str = "") -> NothingRecorded:
    first, last = (instant_text(instant - zero_ns) if instant != zero_ns else "0" for instant in span)
    return NothingRecorded(
        "there is nothing in that time window", found=f"the GPU work{whose} is between {first} and {last}"
    )


def _instances(own: Activities, host: Host, ranges: Rows) -> tuple[Ints, Ints]:
    """Where each instance begins and ends on a GPU whose activities these are."""
    member = launching_range(own, host, ranges)
    used = distinct(member)
    used = used[used >= 0]
    number = np.full(len(ranges) + 1, -1)  # the last is for what was launched in none
    number[used] = np.arange(len(used))
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    first = sweep.fold("least", number[member], own.start_ns, np.full(len(used), highest))
    last = sweep.fold("most", number[member], own.end_ns, np.full(len(used), lowest))
    order = np.argsort(first, kind="stable")
    first, last, opened = first[order], last[order], ranges["start_ns"][used[order]]
    earlier = sweep.search(own.start_ns, first)  # how many activities began before the instance's own
    done = np.append(lowest, furthest(own.end_ns))[earlier]
    reached = np.append(lowest, furthest(last))[: len(last)]
    begin = np.maximum(np.minimum(first, np.maximum(opened, done)), reached)
    holds = last > begin
    return begin[holds], last[holds]

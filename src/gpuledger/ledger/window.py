"""The part of the profile that is looked at: the default window, `--time` and `--range` in, stretches of time out.

With `--range`, a stretch is what one instance of a matching range holds on one GPU. It begins where the range opens, or
where the GPU is done with what came before, whichever is later, and ends with the last work that was launched inside.
Stretches of one instance after another do not overlap. What lies between them is left out: of the books, of the gaps,
and of every count. `--time` cuts what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import launching_range, matching_ranges, nothing_matches, range_names
from gpuledger.ledger.steps import Wanted
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, Spans, furthest, one_span, union
from gpuledger.trace.tables import Rows
from gpuledger.units import instant_text


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """What is looked at on one GPU: one stretch, or those of a range's instances."""

    stretches: Spans
    begin_ns: Ints
    """Where each instance begins; one may begin where another ends."""

    @property
    def span(self) -> Span:
        """From the first instant to the last."""
        return Span(int(self.stretches.start_ns[0]), int(self.stretches.end_ns[-1]))


def windows(
    trace: Trace, work: Activities, host: Host, gpus: Iterable[int], window: Span, wanted: Wanted
) -> dict[int, Window]:
    """For each GPU the part of the profile's window that is asked for; GPUs with nothing in it are left out."""
    asked = _asked(window, wanted)
    if wanted.scope_pattern is None:
        if asked.end_ns <= asked.start_ns:
            raise _nothing_there(window.start_ns, window)
        whole = one_span(asked)
        return {gpu: Window(whole, whole.start_ns) for gpu in gpus}
    ranges = matching_ranges(trace, re.compile(wanted.scope_pattern))
    if not len(ranges):
        raise nothing_matches(wanted.scope_pattern, "range", range_names(trace))
    launched = {gpu: _instances(work.of(gpu), host, ranges) for gpu in gpus}
    launched = {gpu: stretches for gpu, stretches in launched.items() if len(stretches[0])}
    if not launched:
        where = f"GPU {wanted.device}" if wanted.device is not None else "a GPU"
        raise NothingRecorded(
            f"ranges match '{wanted.scope_pattern}', but no work on {where} was launched inside them",
            found=f"{len(ranges)} ranges, of them the first is '{ranges.texts('name')[0]}'",
        )
    parts = {gpu: _within(*stretches, asked) for gpu, stretches in launched.items()}
    parts = {gpu: part for gpu, part in parts.items() if len(part.stretches)}
    if not parts:
        first = min(int(start[0]) for start, _ in launched.values())
        last = max(int(end[-1]) for _, end in launched.values())
        raise _nothing_there(window.start_ns, Span(first, last), f" of ranges that match '{wanted.scope_pattern}'")
    return parts


def _asked(window: Span, wanted: Wanted) -> Span:
    """The part of the window that `--time` leaves; empty or backward where that is nothing."""
    first, last = wanted.time_ns or (None, None)
    return Span(
        window.start_ns if first is None else max(window.start_ns + first, window.start_ns),
        window.end_ns if last is None else min(window.start_ns + last, window.end_ns),
    )


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
    first, last = (np.full(len(used), bound) for bound in (np.iinfo(np.int64).max, np.iinfo(np.int64).min))
    sweep.fold("least", number[member], own.start_ns, first)
    sweep.fold("most", number[member], own.end_ns, last)
    order = np.argsort(first, kind="stable")
    first, last, opened = first[order], last[order], ranges["start_ns"][used[order]]
    earlier = sweep.search(own.start_ns, first)  # how many activities began before the instance's own
    done = np.append(np.iinfo(np.int64).min, furthest(own.end_ns))[earlier]
    begin = np.minimum(first, np.maximum(opened, done))
    reached = np.append(np.iinfo(np.int64).min, furthest(last)[:-1]) if len(last) else last
    begin = np.maximum(begin, reached)
    holds = last > begin
    return begin[holds], last[holds]


def _within(begin: Ints, end: Ints, asked: Span) -> Window:
    begin, end = np.clip(begin, *asked), np.clip(end, *asked)
    holds = end > begin
    return Window(union(begin[holds], end[holds]), begin[holds])

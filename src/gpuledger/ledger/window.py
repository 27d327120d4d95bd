"""The part of a profile that is looked at, and how long each GPU works in it.

At every instant a device is in one state: compute, else communication, else copy, else idle. So `comm` and `copy` are
the exposed part; what hides under compute is given beside them. Streams and processes that overlap count once.

With `--range`, a stretch is what one instance of a matching range holds on one GPU. It begins where the range opens, or
where the GPU is done with what came before, whichever is later, and ends with the last work launched inside. Stretches
do not overlap; what lies between them is in no book, gap or count. `--time` cuts what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.catalog.range_names import is_marked_step
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.host import Host
from gpuledger.ledger.launched_in import launching_range, matching_ranges, nothing_matches, range_names
from gpuledger.regex import NamePattern, regex
from gpuledger.selection import Selection
from gpuledger.trace import sweep
from gpuledger.trace.keys import distinct
from gpuledger.trace.model import NotMeasured, Severity, Trace
from gpuledger.trace.spans import Ints, Span, Spans, cut_to, furthest, intersection, one_span, total, union
from gpuledger.trace.sweep import states
from gpuledger.trace.tables import Rows, Table
from gpuledger.units import count_text, instant_text

NEEDS = (Table.KERNELS, Table.COPIES, Table.GRAPHS)  # one of them at least


class Busy(Struct, frozen=True):
    """One GPU's window, split by state. The sets are disjoint; compute is what they leave of the window."""

    gpu: int
    stretches: Spans  # what the window consists of: one stretch, or those of a range's instances
    compute_ns: int
    comm: Spans
    copy: Spans
    idle: Spans
    hidden_comm_ns: int  # communication that ran while something computed
    hidden_copy_ns: int  # copies that ran while something computed or communicated


def default_window(host: Host, work: Activities) -> Span | NotMeasured:
    """From the launch call of the first GPU activity to the end of the last one, the same for all devices. Where that
    call lies in a range that is called a step, the window begins where the innermost such range opens."""
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


class Window(Struct, frozen=True, eq=False):
    """What is looked at on one GPU: one stretch, or those of a range's instances."""

    stretches: Spans
    begin_ns: Ints  # where each instance begins; one may begin where another ends

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


_ABOUT_CUDA: Final = regex(r"cuda(?! events collected)", re.IGNORECASE)
"""That no event of it was collected says no more than that there is none."""

_ON_CPU: Final = regex(r"mkldnn|onednn", re.IGNORECASE)
_ON_GPU: Final = regex(r"cudnn|miopen", re.IGNORECASE)
"""Operators that torch has for one of the two alone: where they are in a trace, it ran there."""


def nothing_recorded(trace: Trace, name: str, reason: str) -> NothingRecorded:
    """The refusal: what was recorded instead, and why there may be no work."""
    origin = trace.origin
    events = [f"{table.value} {count_text(len(rows))}" for table, rows in trace.tables.items() if len(rows)]
    found = f"{origin.tool} {origin.tool_version or 'of unknown version'}, {', '.join(events) or 'no event'}"
    if (said := _by_the_recording(trace)) is not None:
        found = f"{found}; {said}"
    hint = "`gpuledger info` says what there is, `gpuledger explain CAPTURE-EMPTY` what it may be"
    ranges, is_torch = trace.tables.get(Table.RANGES), origin.tool.startswith("torch")
    names = trace.strings.distinct(ranges.codes("name")) if ranges is not None and is_torch else []
    operators = [trace.strings.text(code) or "" for code in names]
    on_cpu, on_gpu = (next(filter(where.search, operators), "") for where in (_ON_CPU, _ON_GPU))
    if on_gpu:
        reason = f"{reason}, though {on_gpu} runs on GPUs alone"
        hint = f"record with `ProfilerActivity.CUDA`; {hint}"
    elif on_cpu:
        reason = f"{reason}, and {on_cpu} runs on the CPU alone"
        hint = f"put the model and its inputs on the GPU: `.to('cuda')`; {hint}"
    elif ranges is not None and len(ranges) and not is_torch:
        hint = f"`gpuledger stats --report=nvtx_sum` has the host's time in the ranges; {hint}"
    return NothingRecorded(f"{name}: {reason}", found=found, hint=hint)


def _by_the_recording(trace: Trace) -> str | None:
    """What it says of this: calls without their work, the profiler's own words, what was not traced."""
    origin, notes = trace.origin, trace.health
    said = [note.sentence for note in notes if note.severity is Severity.LOSS]
    said += [note.sentence for note in notes if _ABOUT_CUDA.search(note.sentence)]
    if said:
        return said[0]
    if origin.asked_for is not None and not any(map(_ABOUT_CUDA.search, origin.asked_for)):
        return f"CUDA was not traced, but {', '.join(origin.asked_for)}"
    return None

"""Which function holds lost time: recorded stacks in, the functions behind the time out.

A call made while the GPU waits says where with its stack; a sample taken then says where with its own; the Python
functions that torch.profiler records say it by themselves. All are looked at only on the thread that lost the time.
Functions of CUDA, of the interpreter and of the framework's dispatcher name no place; the operator and the Python
function nearest to the call do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.lost_time import ThreadTime, longest, whole_ns
from gpuledger.analyse.program_ranges import NamedNest
from gpuledger.analyse.range_places import range_places
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.ranges import thread
from gpuledger.messages import say
from gpuledger.trace.keys import RowsByKey, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, covered, intersection, parents, union
from gpuledger.trace.stacks import torch_frame
from gpuledger.trace.tables import Rows, Table

_NO_PLACE: Final = re.compile(
    r"^(0x[0-9a-f]+$|\[|_?Py|cu[A-Z]|cuda[A-Z]|c10::|at::_ops::|std::|__|_IO_|_start$|main$|$)|\(<|::call\(|redispatch|lambda"
)
"""Frames that do not say where: unresolved, the interpreter's, CUDA's, the dispatcher's, the C library's."""

_OPERATOR: Final = re.compile(r"^at::_ops::(?P<name>\w+)::call\(")
_FRAMEWORK: Final = re.compile(r"^(torch/|python\d|<)")
"""Files of the framework and of Python itself: whoever calls them says more."""
_PYTHON: Final = re.compile(r"^.+ \((?P<file>[^()]+):-?\d+\)$")


@dataclass(frozen=True, slots=True)
class StackPlace:
    """A function, and how much of what was looked at is in it: nanoseconds, or samples."""

    name: str
    amount: int
    whole: int
    span: Span | None = None
    """The longest stretch of it; None for samples."""

    @property
    def share(self) -> float:
        return self.amount / max(self.whole, 1)


def calls_place(trace: Trace, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The place of the recorded stacks with the most of the lost time in calls; of all the lost time."""
    calls = trace[Table.CALLS]
    calls = calls.where(calls["stack"] >= 0)
    calls = calls.where(parents(calls["start_ns"], calls["end_ns"], thread(calls)) < 0)  # the driver's call lies inside
    weights = _by_place(trace, calls["stack"], _overlap(calls, lost))
    return _most(weights, whole_ns(lost))


def stacks_place(trace: Trace, stack: Ints, weight_ns: Ints, whole: int) -> StackPlace | None:
    """The place of the stacks with the most weight; -1 is no stack."""
    return _most(_by_place(trace, stack[stack >= 0], weight_ns[stack >= 0]), whole)


def samples_place(trace: Trace, source: str, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The place of most of the samples of one source, `cpu` or `python`, that were taken in the lost time."""
    samples = trace[Table.SAMPLES]
    samples = samples.where((samples["stack"] >= 0) & (samples.codes("source") == trace.strings.code(source)))
    inside = taken_in(samples, lost)
    weights = _by_place(trace, samples["stack"], inside.astype(np.int64))
    return _most(weights, int(inside.sum()))


def function_place(functions: NamedNest, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The function among those that torch recorded that holds the lost time."""
    held = next(iter(range_places(functions, lost)), None)
    if held is None or not held.path:
        return None
    name = place([torch_frame(function) for function in reversed(held.path)])
    return None if name is None else StackPlace(name, held.time_ns, whole_ns(lost), held.span)


def costliest_call(calls: Rows, lost: Sequence[ThreadTime]) -> StackPlace | None:
    """The function of these calls that holds the most of the lost time."""
    overlap = _overlap(calls, lost)
    if not overlap.any():
        return None
    first, number = group(calls.codes("name"))
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, number, overlap)
    most = int(sums.argmax())
    name = calls.strings.text(int(calls.codes("name")[first[most]]))
    rows = np.flatnonzero((number == most) & (overlap > 0))
    row = calls.at(rows[[int(overlap[rows].argmax())]])
    inside = [intersection(part.spans, union(row["start_ns"], row["end_ns"])) for part in _owners(row, lost)]
    amount, whole = int(sums[most]), whole_ns(lost)
    return StackPlace(shortened(name or "?"), amount, whole, longest(inside[0]))


def _owners(row: Rows, lost: Sequence[ThreadTime]) -> list[ThreadTime]:
    return [part for part in lost if part.thread == int(thread(row)[0])]


def place(frames: list[str]) -> str | None:
    """What to call the place of a stack, the innermost frame first: the operator and the Python function around it."""
    operators = [match["name"] for frame in frames if (match := _OPERATOR.match(frame))]
    own = next(iter(own_frames(frames)), None)
    if operators and own:
        return say("{operator} from {function}", operator=f"aten::{operators[-1]}", function=own)
    if operators:
        return f"aten::{operators[-1]}"
    return own or next((_bare(frame) for frame in frames if not _NO_PLACE.search(frame)), None)


def own_frames(frames: Sequence[str]) -> list[str]:
    """The user's own functions among these; where there are none, those of packages; else any of Python."""
    python = [(frame, match["file"]) for frame in frames if (match := _PYTHON.match(frame))]
    users = [frame for frame, file in python if "/" not in file and not file.startswith("<")]
    return users or [frame for frame, file in python if not _FRAMEWORK.match(file)] or [frame for frame, _ in python]


def _bare(frame: str) -> str:
    """A native function without its parameters and template arguments."""
    return re.split(r"[(<]", frame.removeprefix("void "))[0] or frame


def taken_in(samples: Rows, lost: Sequence[ThreadTime]) -> NDArray[np.bool_]:
    """Which samples were taken in the lost time, on the thread that lost it."""
    inside, by_thread = np.zeros(len(samples), np.bool_), RowsByKey.of(thread(samples))
    for part in lost:
        mine = by_thread.rows(part.thread)
        start = samples["start_ns"][mine]
        before = np.searchsorted(part.spans.start_ns, start, side="right") - 1
        inside[mine] |= (before >= 0) & (start < part.spans.end_ns[np.maximum(before, 0)])
    return inside


def _overlap(calls: Rows, lost: Sequence[ThreadTime]) -> Ints:
    """How much of the lost time of its own thread each call holds."""
    overlap, by_thread = np.zeros(len(calls), np.int64), RowsByKey.of(thread(calls))
    for part in lost:
        mine = by_thread.rows(part.thread)
        overlap[mine] = covered(part.spans, calls["start_ns"][mine], calls["end_ns"][mine])
    return overlap


def _by_place(trace: Trace, stacks: Ints, amount: Ints) -> dict[str, int]:
    """The amounts by the place of the stack that each belongs to."""
    counts = np.flatnonzero(amount)
    first, number = group(stacks[counts])
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, number, amount[counts])
    weights: dict[str, int] = {}
    for stack, summed in zip(stacks[counts[first]].tolist(), sums.tolist(), strict=True):
        name = place(trace.stacks.texts(stack, trace.strings))
        if name is not None:
            weights[name] = weights.get(name, 0) + summed
    return weights


def _most(weights: dict[str, int], whole: int) -> StackPlace | None:
    if not weights:
        return None
    name, amount = max(weights.items(), key=lambda item: (item[1], item[0]))
    return StackPlace(name, amount, whole)

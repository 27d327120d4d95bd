"""Where in the program a gap comes from: recorded stacks in, the functions behind the time out.

A call made while the GPU waits says where with its stack; a sample taken then says where with its own. Both are looked
at only on the thread whose launch ended the gap. Functions of CUDA, of the interpreter and of the framework's
dispatcher name no place; the operator and the Python function nearest to the call do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.catalog.call_kinds import CALL_KINDS, CallKind
from gpuledger.ledger.calls import of_layers, shortened
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import say
from gpuledger.trace.columns import distinct
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Spans, covered
from gpuledger.trace.tables import Rows, Table

_NO_PLACE: Final = re.compile(
    r"^(0x[0-9a-f]+$|\[|_?Py|cu[A-Z]|cuda[A-Z]|c10::|at::_ops::|std::|__|_start$|main$|$)|\(<|::call\(|redispatch|lambda"
)
"""Frames that do not say where: unresolved, the interpreter's, CUDA's, the dispatcher's, the C library's."""

_OPERATOR: Final = re.compile(r"^at::_ops::(?P<name>\w+)::call\(")
_PYTHON: Final = re.compile(r"^.+ \((?P<file>[^()]+):-?\d+\)$")


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the program, and its share of what was looked at: call time, or samples."""

    name: str
    share: float
    of_samples: bool


def sites(trace: Trace, device: Device, mine: Positions) -> list[Site]:
    """The places behind most of the gaps `mine`, by calls and by samples; none where the profile holds no stacks."""
    costliest = []
    for weights, of_samples in ((_calls_in(trace, device, mine), False), (_samples_in(trace, device, mine), True)):
        if weights:
            name, most = max(weights.items(), key=lambda item: (item[1], item[0]))
            costliest.append(Site(name, most / sum(weights.values()), of_samples))
    return costliest


def costliest_call(trace: Trace, device: Device, mine: Positions, trigger: str) -> Site | None:
    """The function that held the host in gaps that calls of one kind set off; None for other triggers."""
    host = device.host
    if trigger in (Cause.OS, Cause.WAIT_THREAD):
        calls = of_layers(trace, "os")
    elif trigger in CALL_KINDS:
        calls = host.calls.where(host.are(CallKind(trigger)))
    else:
        return None
    amounts = np.zeros(len(calls), np.int64)
    for chosen, idle in _by_thread(calls, device, mine):
        amounts[chosen] = covered(idle, calls["start_ns"][chosen], calls["end_ns"][chosen])
    first, number = group(calls.codes("name"))
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, number, amounts)
    if not sums.any():
        return None
    name = trace.strings.text(int(calls.codes("name")[first[sums.argmax()]]))
    share = int(sums.max()) / int(device.ledger.gaps.length_ns[mine].sum())
    return Site(shortened(name or "?"), share, of_samples=False)


def place(frames: list[str]) -> str | None:
    """What to call the place of a stack, the innermost frame first: the operator and the Python function around it."""
    operators = [match["name"] for frame in frames if (match := _OPERATOR.match(frame))]
    python = [(frame, match["file"]) for frame in frames if (match := _PYTHON.match(frame))]
    users = [frame for frame, file in python if "/" not in file and not file.startswith("<")]
    own = users[0] if users else python[0][0] if python else None
    if operators and own:
        return say("{operator} from {function}", operator=f"aten::{operators[-1]}", function=own)
    if operators:
        return f"aten::{operators[-1]}"
    return own or next((_bare(frame) for frame in frames if not _NO_PLACE.search(frame)), None)


def _bare(frame: str) -> str:
    """A native function without its parameters and template arguments."""
    return re.split(r"[(<]", frame.removeprefix("void "))[0] or frame


def _calls_in(trace: Trace, device: Device, mine: Positions) -> dict[str, int]:
    """Time in calls that have a stack, by place, within the gaps."""
    calls = trace[Table.CALLS]
    calls = calls.where(calls["stack"] >= 0)
    weights: dict[str, int] = {}
    for chosen, idle in _by_thread(calls, device, mine):
        rows = calls.at(chosen)
        _weigh(weights, trace, rows, covered(idle, rows["start_ns"], rows["end_ns"]).tolist())
    return weights


def _samples_in(trace: Trace, device: Device, mine: Positions) -> dict[str, int]:
    """Samples by place, within the gaps."""
    samples = trace[Table.SAMPLES]
    samples = samples.where(samples["stack"] >= 0)
    weights: dict[str, int] = {}
    for chosen, idle in _by_thread(samples, device, mine):
        rows = samples.at(chosen)
        gap = np.searchsorted(idle.start_ns, rows["start_ns"], side="right") - 1
        inside = (gap >= 0) & (rows["start_ns"] < idle.end_ns[gap])
        _weigh(weights, trace, rows, inside.astype(int).tolist())
    return weights


def _by_thread(rows: Rows, device: Device, mine: Positions) -> list[tuple[Positions, Spans]]:
    """For each thread that ended some of the gaps, which of `rows` are its own, and those gaps."""
    gaps, host = device.ledger.gaps, device.host
    mine = mine[gaps.call[mine] >= 0]
    if not len(rows) or not len(mine):
        return []
    ended_by, owner = host.threads[host.thread_of_call[gaps.call[mine]]], thread(rows)
    by_thread = []
    for number in distinct(ended_by).tolist():
        own = mine[ended_by == number]
        by_thread.append((np.flatnonzero(owner == number), Spans(gaps.start_ns[own], gaps.end_ns[own])))
    return by_thread


def _weigh(weights: dict[str, int], trace: Trace, rows: Rows, amounts: list[int]) -> None:
    by_stack: dict[int, int] = {}
    for stack, amount in zip(rows["stack"].tolist(), amounts, strict=True):
        by_stack[stack] = by_stack.get(stack, 0) + amount
    for stack, amount in by_stack.items():
        name = place(trace.stacks.texts(stack, trace.strings)) if amount else None
        if name is not None:
            weights[name] = weights.get(name, 0) + amount

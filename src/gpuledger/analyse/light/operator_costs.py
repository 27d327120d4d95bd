"""One GPU's operators over its steady steps: their times, their arithmetic, work in graphs, and host against device.

The host's part is in launch calls, moves, indexing, calls that wait, and communication.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct

from gpuledger.analyse.light.kernel_light import LitTime, lit_times
from gpuledger.analyse.light.steady_kernels import all_steady
from gpuledger.analyse.operators.arithmetic import WorkDone, work_done
from gpuledger.analyse.operators.graph_places import GraphNames, graph_names
from gpuledger.analyse.operators.operators import Ops, Paths, ops
from gpuledger.attribution.places import place
from gpuledger.catalog.calls import CallKind, call_kind
from gpuledger.ledger.activity import State, short_function_name, short_names
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, group
from gpuledger.trace.model import Trace

MOST_PLACES: Final = 50  # places of waiting calls told apart

MOVES: Final = ("aten::to", "aten::_to_copy", "aten::copy_")
INDEXING: Final = re.compile(
    r"^aten::_?(index(_\w+)?|gather\w*|scatter\w*|nonzero\w*|masked_(select|scatter)\w*|embedding\w*|take\w*)$"
)


class HostCostKind(StrEnum):
    """What the host was doing."""

    LAUNCH_CALL = "launch call"
    DTYPE_MOVE = "dtype move"
    INDEXING = "indexing"
    WAITING_CALL = "waiting call"
    COMMUNICATION_KERNEL = "communication kernel"


class HostCost(Struct, frozen=True):
    """One function, operator or kernel in the steady steps."""

    kind: HostCostKind
    name: str
    place: str | None  # where in the program, for calls that wait
    count: int
    host_ns: int
    device_ns: int | None  # None for calls that launch nothing


def host_costs(trace: Trace, device: Device, operators: Ops) -> tuple[HostCost, ...]:
    """Kind by kind, within each the most costly first."""
    # of moves between types and places, and of operators that index, with what is inside them
    moves, indexing = (
        [
            HostCost(kind, operator.name, None, operator.count, operator.host_ns, operator.device_ns)
            for operator in operators.by_name
            if matches(operator.name)
        ]
        for kind, matches in ((HostCostKind.DTYPE_MOVE, MOVES.__contains__), (HostCostKind.INDEXING, INDEXING.match))
    )
    return (
        *_launch_calls(device, operators),
        *sorted(moves, key=lambda cost: MOVES.index(cost.name)),
        *sorted(indexing, key=lambda cost: (-cost.host_ns, cost.name)),
        *_waits(trace, device, operators),
        *_communication(device, operators),
    )


def _launch_calls(device: Device, operators: Ops) -> list[HostCost]:
    """The launch calls behind the steps' work, by function: the host may have made them before the steps began."""
    calls = device.host.calls
    names, function = short_names(calls)
    launching = device.work.launch[operators.activity]
    length = (device.work.end_ns - device.work.start_ns)[operators.activity][launching >= 0]
    launching = launching[launching >= 0]
    launches = distinct(launching)
    counts = np.bincount(function[launches], minlength=len(names))
    spent = sweep.sums(function[launches], calls.duration_ns[launches], len(names))
    gpu = sweep.sums(function[launching], length, len(names))
    costs = [
        HostCost(HostCostKind.LAUNCH_CALL, name, None, *amounts)
        for name, *amounts in zip(names, counts.tolist(), spent.tolist(), gpu.tolist(), strict=True)
        if amounts[0] and call_kind(name) is CallKind.LAUNCH
    ]
    return sorted(costs, key=lambda cost: (-cost.host_ns, cost.name))


def _waits(trace: Trace, device: Device, operators: Ops) -> list[HostCost]:
    """Calls that wait for the device, by function and place: the recorded stack's, else the operators around."""
    host, strings = device.host, trace.strings
    waiting = host.calls.where(device.steady_calls & host.are(CallKind.SYNC))
    launching = strings.each(waiting.codes("name"), lambda name: call_kind(name) is CallKind.LAUNCH, np.bool_)
    waiting = waiting.where(~launching)
    paths = Paths(operators.nest)
    around = paths.of_row[innermost(operators.nest.rows, waiting)]
    first, number = group(waiting.codes("name"), waiting["stack"], around)
    counts = np.bincount(number, minlength=len(first)).tolist()
    sums = sweep.sums(number, waiting.duration_ns, len(first))
    by_place: dict[tuple[str, str | None], list[int]] = {}
    for call, count, spent in zip(first.tolist(), counts, sums.tolist(), strict=True):
        where = place(trace.stacks.texts(int(waiting["stack"][call]), strings))
        where = where or " > ".join(paths.names(int(around[call]))) or None
        name = short_function_name(strings.text(int(waiting.codes("name")[call])) or "")
        amounts = by_place.setdefault((name, where), [0, 0])
        amounts[0] += count
        amounts[1] += spent
    costs = [
        HostCost(HostCostKind.WAITING_CALL, name, where, count, spent, None)
        for (name, where), (count, spent) in by_place.items()
    ]
    return sorted(costs, key=lambda cost: (-cost.host_ns, cost.name, cost.place or ""))[:MOST_PLACES]


def _communication(device: Device, operators: Ops) -> list[HostCost]:
    """Kernels that move data between GPUs, DeepEP's among them, with the time of the calls that launched them."""
    work, calls = device.work, device.host.calls
    mine: Positions = operators.activity[work.state[operators.activity] == State.COMM]
    first, number = group(work.name[mine])
    device_ns = sweep.sums(number, (work.end_ns - work.start_ns)[mine], len(first))
    launching = work.launch[mine]
    once, _ = group(number, launching)  # a graph's launch counts once
    once = once[launching[once] >= 0]
    host_ns = sweep.sums(number[once], calls.duration_ns[launching[once]], len(first))
    names = calls.strings.decode(work.name[mine][first].astype(np.int32))
    counts = np.bincount(number, minlength=len(first))
    costs = [
        HostCost(HostCostKind.COMMUNICATION_KERNEL, name or "?", None, *amounts)
        for name, *amounts in zip(names, counts.tolist(), host_ns.tolist(), device_ns.tolist(), strict=True)
    ]
    return sorted(costs, key=lambda cost: (-(cost.device_ns or 0), cost.name))


class OperatorCosts(Struct, frozen=True, eq=False):
    """What operators cost on one GPU. Without operators in the profile, those are empty."""

    gpu: int
    steps: int
    operators: Ops
    work: WorkDone
    graphs: GraphNames
    host: tuple[HostCost, ...]
    lit: Mapping[str, LitTime]
    """What the kernels of operators take at the GPU's roofs, by the name of their innermost operator, where known."""


def operator_costs(trace: Trace, device: Device) -> OperatorCosts:
    """Ask all of it."""
    operators = ops(trace, device)
    work, host = work_done(trace, device, operators), host_costs(trace, device, operators)
    graphs, lit = graph_names(trace, device), _lit_operators(trace, device, operators)
    return OperatorCosts(device.gpu, device.step_count, operators, work, graphs, host, lit)


def _lit_operators(trace: Trace, device: Device, operators: Ops) -> dict[str, LitTime]:
    kernels, rows = all_steady(trace, device), operators.nest.rows
    around = np.full(len(device.work) + 1, -1, np.intp)
    around[operators.activity] = operators.innermost
    launched = np.flatnonzero(around[kernels.operations] >= 0)
    first, number = group(rows.codes("name")[around[kernels.operations[launched]]])
    names = rows.strings.decode(rows.codes("name")[around[kernels.operations[launched[first]]]])
    lit = lit_times(kernels, launched, number, len(first), kernels.took_ns[launched])
    return {name or "?": found for name, found in zip(names, lit, strict=True) if found is not None}

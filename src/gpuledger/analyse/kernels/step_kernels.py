"""What ran on a GPU in a step: kernels in the order of execution, like ones together, their times summing to compute.

Kernels are alike if name, grid, block and place in the program are the same and their times are of one size. Where
kernels overlap, an instant belongs to the one that started first, as in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuledger.analyse.kernels.judgement import OTHER_SIZE
from gpuledger.analyse.launch_places import launched_inside, places
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.trace.kernel_report import Dim3
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, shares_in_order
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Table


@dataclass(frozen=True, slots=True)
class StepKernel:
    """Like kernels of the steady steps."""

    name: str
    bare: str
    grid: Dim3
    block: Dim3
    place: tuple[str, ...]
    in_layer: bool
    calls: int
    """In all steady steps."""
    time_ns: int
    """Its own part of compute in all steady steps."""
    mean_ns: int
    """How long one of them runs."""


@dataclass(frozen=True, slots=True)
class StepOverview:
    """All of a GPU's compute kernels in the steady steps, in the order in which each is first launched."""

    entries: tuple[StepKernel, ...]
    sequence: tuple[int, ...]
    """One step as positions in `entries`: the steady step with the usual number of kernels."""
    layers: int
    other_ns: int
    """Compute that is in no kernel: whole graphs whose kernels were not recorded."""

    @property
    def time_ns(self) -> int:
        return sum(kernel.time_ns for kernel in self.entries) + self.other_ns


def overview(trace: Trace, device: Device, scope: str | None = None) -> StepOverview:
    """The kernels of one GPU's steady steps; with `scope`, those that were launched inside ranges that match it."""
    work, kernels = device.work, trace[Table.KERNELS]
    here = work.on(device.gpu)
    compute = here[work.state[here] == State.COMPUTE]
    own_start, own_end = shares_in_order(work.start_ns[compute], work.end_ns[compute])
    own = device.steady_part_ns(own_start, own_end)
    steady = device.begins_steady(work.start_ns[compute])
    is_kernel = work.name[compute] != NO_TEXT
    wanted = steady & is_kernel
    if scope is not None:
        wanted[wanted] = launched_inside(trace, device, compute[wanted], scope)
    chosen = compute[wanted]
    where = places(trace, device, chosen)
    rows = kernels.at(work.row[chosen])
    bare, name_code = trace.strings.kinds(work.name[chosen], lambda name: parse(name).bare)
    keys = (name_code, *(rows[side][:, axis] for side in ("grid", "block") for axis in range(3)), where.of)
    _, number = group(*keys)
    length = work.end_ns[chosen] - work.start_ns[chosen]
    number = by_size(number, length, device.step_count)
    first, number = _in_order(number)
    times = np.bincount(number, weights=own[wanted]).astype(np.int64)
    calls = np.bincount(number)
    total = np.bincount(number, weights=length)
    texts = {code: trace.strings.text(code) or "" for code in np.unique(work.name[chosen]).tolist()}
    firsts = zip(
        work.name[chosen[first]].tolist(),
        name_code[first].tolist(),
        map(tuple, rows["grid"][first].tolist()),
        map(tuple, rows["block"][first].tolist()),
        where.of[first].tolist(),
        calls.tolist(),
        times.tolist(),
        (total // calls).astype(np.int64).tolist(),
        strict=True,
    )
    entries = tuple(
        StepKernel(texts[code], bare[name], grid, block, where.names[place], where.layered[place], count, time, mean)
        for code, name, grid, block, place, count, time, mean in firsts
    )
    # what began before the steady stretch but reaches into it is compute of no entry
    elsewhere = int(own.sum()) - int(times.sum()) if scope is None else 0
    return StepOverview(entries, _usual_step(device, chosen, number), where.layers, elsewhere)


def by_size(number: Positions, length: Ints, steps: int) -> Positions:
    """Split groups whose times fall into classes far apart; a class that most steps do not have is no class."""
    if not len(number):
        return number
    order = np.lexsort((length, number))
    group_of, ordered = number[order], length[order]
    opens = np.append(True, group_of[1:] != group_of[:-1])
    jumps = np.append(False, ordered[1:] > OTHER_SIZE * np.maximum(ordered[:-1], 1)) & ~opens
    kind = np.cumsum(opens | jumps) - 1
    members, size = np.bincount(kind), np.bincount(number)[group_of[opens | jumps]]
    apart = jumps[opens | jumps] & (2 * members >= steps) & (2 * (size - members) >= steps)
    renumbered = np.where(apart, number.max() + np.cumsum(apart), group_of[opens | jumps])
    numbers = np.empty_like(number)
    numbers[order] = renumbered[kind]
    return numbers


def _in_order(number: Positions) -> tuple[Positions, Positions]:
    """Groups renumbered by their first member: its position, and each member's new number."""
    distinct, first, back = np.unique(number, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(distinct), np.intp)
    rank[order] = np.arange(len(distinct))
    return first[order], rank[back.reshape(-1)]


def _usual_step(device: Device, chosen: Positions, number: Positions) -> tuple[int, ...]:
    if device.steps is None or not len(chosen):
        return tuple(number.tolist())
    step = np.searchsorted(device.steps.edges_ns, device.work.start_ns[chosen], side="right")
    distinct, counts = np.unique(step, return_counts=True)
    usual = np.sort(counts)[len(counts) // 2]
    return tuple(number[step == distinct[(counts == usual).argmax()]].tolist())

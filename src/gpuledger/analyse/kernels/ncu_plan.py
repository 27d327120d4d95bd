"""Which kernels are worth Nsight Compute: one GPU's steady steps in, the kernels to profile and how to pick them out.

Launches of one kernel with the same grid and block, from the same place in the program and of about the same length,
are alike, and one stands for all. Those with the most time are taken until they hold the share of kernel time that was
asked for; none where all of them are next to nothing of the step. Communication is never taken: ncu runs a launch
again and again, and the other ranks take part once, so that it would wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gpuledger.analyse.kernels.ncu_runs import LaunchColumns, NcuRun, ncu_runs
from gpuledger.analyse.kernels.step_kernels import by_size
from gpuledger.analyse.launch_places import LaunchPlaces, places
from gpuledger.catalog.kernel_names import KernelName, parse
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import WHOLE_GRAPHS
from gpuledger.trace.keys import group
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table

COMMUNICATION: Final = "communication: replayed alone, it would wait for the other ranks for ever"
NAMELESS: Final = "its name cannot be typed, so ncu cannot be told to take it"
LITTLE: Final = "little time: the share that was asked for is reached without it"
HARDLY: Final = "kernels are too small a part of the step: faster ones would hardly make it shorter"

WORTHWHILE: Final = 0.05
"""Kernels that are together less than this share of the step are not worth it: no kernel takes less than no time."""

LONGEST_NAME: Final = 2000
"""Longer than any compiler's; an operating system takes no argument of any length."""

_NOT_NVIDIA: Final = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d|\bMI\d{2,3}", re.IGNORECASE)

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """Launches that are alike: one kernel, one grid, one block, one place."""

    name: str
    """In the spelling that all profilers share, parameters left out."""
    function: str
    """The bare name, by which ncu selects."""
    grid: Triple
    block: Triple
    place: tuple[str, ...]
    """Where in the program: the NVTX ranges, numbers left out; or where in a layer."""
    count: int
    """Launches in the steady steps."""
    ns: int
    """Their time."""
    left_out: str | None
    """Why it is not profiled; None: it is."""


@dataclass(frozen=True, slots=True)
class NcuPlan:
    """What to profile of one GPU. Times and counts are of the steady steps together."""

    gpu: int
    steps: int
    steady_ns: int
    kernels: tuple[PlannedKernel, ...]
    """All, longest first."""
    runs: tuple[NcuRun, ...]
    in_graphs: bool
    """Whether kernels to profile ran as nodes of CUDA graphs."""
    whole_graphs_ns: int
    """Time in graphs that were traced whole, whose kernels are not known."""

    @property
    def covered(self) -> tuple[PlannedKernel, ...]:
        return tuple(kernel for kernel in self.kernels if kernel.left_out is None)

    @property
    def kernel_ns(self) -> int:
        return sum(kernel.ns for kernel in self.kernels)

    @property
    def replayable(self) -> tuple[PlannedKernel, ...]:
        """Those that ncu could profile, longest first."""
        return tuple(kernel for kernel in self.kernels if kernel.left_out in (None, LITTLE, HARDLY))

    @property
    def coverage_share(self) -> float:
        """How much of the time of kernels that can be replayed is in those to profile."""
        possible = sum(kernel.ns for kernel in self.replayable)
        return sum(kernel.ns for kernel in self.covered) / possible if possible else 0.0

    @property
    def replayable_share(self) -> float:
        """How much of the step those kernels are; above 1 where they overlap for long."""
        return sum(kernel.ns for kernel in self.replayable) / self.steady_ns

    @property
    def is_worthwhile(self) -> bool:
        """Whether they are enough of the step for faster ones to matter."""
        return self.replayable_share >= WORTHWHILE


def plan(trace: Trace, device: Device, coverage: float, *, together: bool = True, anyway: bool = False) -> NcuPlan:
    """The kernels that hold `coverage` of the kernel time, and the runs of ncu that profile one launch of each.

    Where kernels are hardly any of the step there is none, unless they are wanted `anyway`.
    """
    _must_be_nvidia(trace, device)
    every = trace[Table.KERNELS]
    here = np.flatnonzero(every["gpu"] == device.gpu)
    here = here[np.argsort(every["start_ns"][here], kind="stable")]
    rows, where = every.at(here), _places(trace, device, len(every))
    names = {code: parse(trace.strings.text(code) or "") for code in np.unique(rows.codes("name")).tolist()}
    launches = _launches(rows, names, where.of[here], device)
    communicating = np.unique(device.work.name[device.work.state == State.COMM])
    kernels = _kernels(rows, names, launches, communicating, [where.names[index] for index in where.of[here].tolist()])
    whole_graphs_ns = device.line_ns.get(WHOLE_GRAPHS, 0)
    if not kernels:
        raise _nothing(device, whole_graphs_ns)
    chosen = _chosen(kernels, coverage, 0 if anyway else round(WORTHWHILE * device.steady_ns))
    wanted = [number for number, kernel in chosen.items() if kernel.left_out is None]
    return NcuPlan(
        device.gpu,
        device.step_count,
        device.steady_ns,
        tuple(chosen.values()),
        ncu_runs(launches, wanted, together=together),
        bool((np.isin(launches.alike, wanted) & (rows["graph_node"] >= 0)).any()),
        whole_graphs_ns,
    )


def _places(trace: Trace, device: Device, count: int) -> LaunchPlaces:
    """The place of each row of the table of kernels; of none outside the steady steps."""
    work = device.work
    kernels = np.flatnonzero((work.gpu == device.gpu) & np.isin(work.state, (State.COMPUTE, State.COMM)))
    steady = kernels[device.begins_steady(work.start_ns[kernels]) & (work.name[kernels] != NO_TEXT)]
    known = places(trace, device, steady)
    of = np.full(count, len(known.names))
    of[work.row[steady]] = known.of
    return replace(known, of=of, names=(*known.names, ()))


def _launches(rows: Rows, names: dict[int, KernelName], place: Ints, device: Device) -> LaunchColumns:
    """What ncu would see, in the order of time."""
    functions = {text: index for index, text in enumerate(sorted({name.short for name in names.values()}))}
    canonical = {text: index for index, text in enumerate(sorted({name.canonical for name in names.values()}))}
    codes, code = np.unique(rows.codes("name"), return_inverse=True)
    function = np.array([functions[names[kernel_code].short] for kernel_code in codes.tolist()], np.int64)[code]
    kernel = np.array([canonical[names[kernel_code].canonical] for kernel_code in codes.tolist()], np.int64)[code]
    shape = (*rows["grid"].T, *rows["block"].T)
    steady = device.begins_steady(rows["start_ns"])
    _, alike = group(kernel, *shape, place)
    time = np.maximum(rows.duration_ns, 0)
    sized = by_size(alike[steady], time[steady], device.step_count)
    alike[steady] = sized
    shared = rows["smem_static_bytes"] + rows["smem_dynamic_bytes"]
    _, counted = group(rows["pid"], function, *shape, shared)
    return LaunchColumns(tuple(functions), function, alike, counted, steady, time)


def _kernels(
    rows: Rows,
    names: dict[int, KernelName],
    launches: LaunchColumns,
    communicating: Ints,
    place: Sequence[tuple[str, ...]],
) -> dict[int, PlannedKernel]:
    """The kernels of the steady steps by their number in `alike`, longest first; what cannot be profiled says why."""
    steady = np.flatnonzero(launches.steady)
    first, number = group(launches.alike[steady])
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, launches.ns[steady])
    counts = np.bincount(number, minlength=len(first)).tolist()
    kernels = {}
    for row, count, ns in zip(steady[first].tolist(), counts, total.tolist(), strict=True):
        code = int(rows.codes("name")[row])
        name = names[code]
        impossible = COMMUNICATION if code in communicating else None if _typeable(name.short) else NAMELESS
        grid, block = (_triple(rows, column, row) for column in ("grid", "block"))
        kernels[int(launches.alike[row])] = PlannedKernel(
            name.canonical, name.short, grid, block, place[row], count, ns, impossible
        )
    return dict(sorted(kernels.items(), key=lambda item: (-item[1].ns, item[1].name, item[1].grid, item[1].block)))


def _typeable(function: str) -> bool:
    return 0 < len(function) <= LONGEST_NAME and function.isprintable()


def _triple(rows: Rows, column: str, row: int) -> Triple:
    x, y, z = rows[column][row].tolist()
    return x, y, z


def _chosen(kernels: dict[int, PlannedKernel], coverage: float, worthwhile_ns: int) -> dict[int, PlannedKernel]:
    """The same kernels; those past the coverage are left out, or all where they take less than is worthwhile."""
    possible = sum(kernel.ns for kernel in kernels.values() if kernel.left_out is None)
    if possible < worthwhile_ns:
        return {number: replace(kernel, left_out=kernel.left_out or HARDLY) for number, kernel in kernels.items()}
    needed = coverage * possible
    held, chosen = 0, {}
    for number, kernel in kernels.items():
        if kernel.left_out is None and held >= needed:
            chosen[number] = replace(kernel, left_out=LITTLE)
            continue
        chosen[number] = kernel
        held += kernel.ns if kernel.left_out is None else 0
    return chosen


def _must_be_nvidia(trace: Trace, device: Device) -> None:
    known = trace.origin.gpu(device.gpu)
    if known is not None and _NOT_NVIDIA.search(known.name):
        raise NothingRecorded(
            f"Nsight Compute profiles NVIDIA GPUs only; this ran on {known.name}",
            hint="rocprof-compute does for AMD what ncu does for NVIDIA; gpuledger does not read its results",
        )


def _nothing(device: Device, whole_graphs_ns: int) -> NothingRecorded:
    claim = f"no kernel ran on GPU {device.gpu} in the steady steps"
    if not whole_graphs_ns:
        return NothingRecorded(claim, hint="`gpuledger info` says what there is")
    return NothingRecorded(
        claim,
        found="its work is in CUDA graphs that were traced as a whole: the kernels in them are unknown",
        hint="record again with `nsys profile --cuda-graph-trace=node`",
    )

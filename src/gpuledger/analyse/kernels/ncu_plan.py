"""Which kernels are worth Nsight Compute: one GPU's steady steps in, the kernels to profile and the runs of ncu out.

Launches of one kernel with the same grid and block, from the same place in the program and of about the same length,
are alike, and one stands for all: of one layer's kernels (`--range=layer3`) any layer's at the same position. Those
with the most time are taken until they hold the share of kernel time that was asked for. Communication is never taken:
ncu runs a launch again and again, and the other ranks take part once, so that it would wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.kernels.step_kernels import by_size, telling_shapes
from gpuledger.attribution.launch_places import LaunchPlaces, places
from gpuledger.catalog.kernel_names import KernelName, parse
from gpuledger.errors import NothingRecorded
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import WHOLE_GRAPHS
from gpuledger.ledger.device import Device
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, group, is_among, leave_out, ordinals, same, take
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, holds, one_span
from gpuledger.trace.strings import NO_TEXT
from gpuledger.trace.tables import Rows, Table


class LaunchColumns(Struct, frozen=True, eq=False):
    """The launches of one GPU in the order of time, as columns."""

    functions: tuple[str, ...]
    function: NDArray[np.int32]  # position in `functions`: the bare name, all that ncu filters by
    alike: NDArray[np.int32]  # number of the kernel, grid and block; one launch stands for all of a number
    counted: NDArray[np.int32]  # number of what ncu counts by itself: process, function and launch configuration
    steady: NDArray[np.bool_]
    after_warm_up: NDArray[np.bool_]
    """Those, and of a range's instances what ran between them: what may stand for a launch of theirs."""
    ns: Ints


class NcuRun(Struct, frozen=True):
    """One run of ncu."""

    functions: tuple[str, ...]
    skip: int
    count: int
    launches: int  # how many launches that takes in all, with those that merely have the same name
    ns: int  # how long they ran in the profile


class _Sequence(Struct, frozen=True, eq=False):
    """Launches that ncu counts together; ordinals are from 0 on."""

    function: int
    warm: int  # how many there are before the steady steps
    wanted: tuple[NDArray[np.int32], ...]  # of each wanted kernel among them the ordinals in the steady steps

    @property
    def last(self) -> int:
        """The most that can be skipped with all wanted kernels still to come."""
        return min(int(positions[-1]) for positions in self.wanted)


def ncu_runs(launches: LaunchColumns, wanted: Collection[int], *, together: bool = True) -> tuple[NcuRun, ...]:
    """Runs in which each wanted kernel (a number of `alike`) is met in the steady steps. `together` says that ncu tells
    functions apart when it counts, so that one run may be for several; if not, each function gets a run of its own."""
    ordinal: NDArray[np.int32] = ordinals(launches.counted).astype(np.int32)
    waiting = sorted(_sequences(launches, ordinal, wanted), key=lambda sequence: sequence.last)
    runs = []
    while waiting:  # the fewest numbers to skip that suit all: take along whatever the most pressing one allows
        pressing = waiting[0]
        now, later = list[_Sequence](), list[_Sequence]()
        for sequence in waiting:
            fits = sequence.warm <= pressing.last and (together or sequence.function == pressing.function)
            (now if fits else later).append(sequence)
        runs.append(_run(launches, ordinal, now))
        waiting = later
    return tuple(runs)


def _sequences(launches: LaunchColumns, ordinal: NDArray[np.int32], wanted: Collection[int]) -> list[_Sequence]:
    """The sequences that wanted kernels are in; one that is in several counts where it is most often."""
    rows = np.flatnonzero(launches.after_warm_up & is_among(launches.alike, list(wanted))).astype(np.int32)
    first, pair = group(launches.alike[rows], launches.counted[rows])
    pair = pair.astype(np.int32)
    size, kernel = np.bincount(pair, minlength=len(first)), launches.alike[rows[first]]
    most_first = np.lexsort((-size, kernel))
    main = most_first[np.flatnonzero(np.diff(kernel[most_first], prepend=-1))]
    ordered, ends = take(rows, np.argsort(pair, kind="stable").astype(np.int32)), np.cumsum(size)
    del rows, pair
    members: dict[int, list[Positions]] = {}
    for begin, end in zip((ends - size)[main].tolist(), ends[main].tolist(), strict=True):
        members.setdefault(int(launches.counted[ordered[begin]]), []).append(ordered[begin:end])
    warm = np.full(int(launches.counted.max(initial=-1)) + 1, len(ordinal))
    sweep.fold("least", np.where(launches.after_warm_up, launches.counted, np.int32(-1)), ordinal, warm)
    return [
        _Sequence(int(launches.function[parts[0][0]]), int(warm[counted]), tuple(ordinal[part] for part in parts))
        for counted, parts in members.items()
    ]


def _run(launches: LaunchColumns, ordinal: NDArray[np.int32], sequences: list[_Sequence]) -> NcuRun:
    """The run that meets every wanted kernel of these sequences after all their warm-up, with the fewest launches."""
    functions = sorted({number.function for number in sequences}, key=lambda number: launches.functions[number])
    named = is_among(launches.function, functions)
    numbers, lengths = np.unique(launches.counted[named], return_counts=True)
    passing = lengths[~is_among(numbers, launches.counted[launches.after_warm_up])]
    least = max(sequence.warm for sequence in sequences)
    # skipping more gets past what has the same name, but is only in the warm-up; half the way is kept for shorter runs
    most = (least + min(sequence.last for sequence in sequences)) // 2
    choices = [least, *(length for length in np.unique(passing).tolist() if least < length <= most)]

    def count_after(skip: int) -> int:
        met = [
            int(positions[np.searchsorted(positions, skip)]) for sequence in sequences for positions in sequence.wanted
        ]
        return max(met) - skip + 1

    skip = min(choices, key=lambda skip: (np.clip(lengths - skip, 0, count_after(skip)).sum(), skip))
    count = count_after(skip)
    taken = named & (ordinal >= skip) & (ordinal < skip + count)
    names = tuple(launches.functions[number] for number in functions)
    return NcuRun(names, skip, count, int(taken.sum()), int(launches.ns[taken].sum()))


COMMUNICATION: Final = "communication: replayed alone, it would wait for the other ranks for ever"
NAMELESS: Final = "its name cannot be typed, so ncu cannot be told to take it"
LITTLE: Final = "little time: the share that was asked for is reached without it"

WORTHWHILE: Final = 0.05
"""Kernels that are together less than this share of the step are not worth it: no kernel takes less than no time."""

LONGEST_NAME: Final = 2000  # longer than any compiler's; an operating system takes no argument of any length

_NOT_NVIDIA: Final = re.compile(r"\bAMD\b|Instinct|Radeon|\bgfx\d|\bMI\d{2,3}", re.IGNORECASE)

Triple = tuple[int, int, int]


class PlannedKernel(Struct, frozen=True):
    """Launches that are alike: one kernel, one grid, one block, one place."""

    name: str  # in the spelling that all profilers share, parameters left out
    function: str  # the bare name, by which ncu selects
    grid: Triple
    block: Triple
    place: tuple[str, ...]  # where in the program: the NVTX ranges, numbers left out; or where in a layer
    count: int  # launches in the steady steps
    ns: int  # their time
    left_out: str | None  # why it is not profiled; None: it is


class NcuPlan(Struct, frozen=True, dict=True):
    """What to profile of one GPU. Times and counts are of the steady steps together."""

    gpu: int
    steps: int
    steady_ns: int
    kernels: tuple[PlannedKernel, ...]  # all, longest first
    runs: tuple[NcuRun, ...]
    in_graphs: bool  # whether kernels to profile ran as nodes of CUDA graphs
    whole_graphs_ns: int  # time in graphs that were traced whole, whose kernels are not known

    @property
    def covered(self) -> tuple[PlannedKernel, ...]:
        return tuple(kernel for kernel in self.kernels if kernel.left_out is None)

    @cached_property
    def kernel_ns(self) -> int:
        return sum(kernel.ns for kernel in self.kernels)

    @property
    def replayable(self) -> tuple[PlannedKernel, ...]:
        """Those that ncu could profile, longest first."""
        return tuple(kernel for kernel in self.kernels if kernel.left_out in (None, LITTLE))

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


def plan(trace: Trace, device: Device, coverage: float, *, together: bool = True) -> NcuPlan:
    """The kernels that hold `coverage` of the kernel time, and the runs of ncu that profile one launch of each."""
    known = trace.origin.gpu(device.gpu)
    if known is not None and _NOT_NVIDIA.search(known.name):
        raise NothingRecorded(
            f"Nsight Compute profiles NVIDIA GPUs only; this ran on {known.name}",
            hint="rocprof-compute does for AMD what ncu does for NVIDIA; gpuledger does not read its results",
        )
    every = trace[Table.KERNELS]
    here = np.flatnonzero(every["gpu"] == device.gpu)
    here = here[np.argsort(every["start_ns"][here], kind="stable")].astype(np.int32)
    columns = ("pid", "name", "grid", "block", "smem_static_bytes", "smem_dynamic_bytes", "graph_node")
    in_order = len(here) == len(every) and bool((np.diff(here) == 1).all())
    rows = every.only(*columns) if in_order else every.only(*columns).at(here)
    where = _places(trace, device, len(every))
    names = {code: parse(trace.strings.text(code) or "") for code in np.unique(rows.codes("name")).tolist()}
    launches = _launches(rows, names, where.of[here], device)
    communicating = np.unique(device.work.name[device.work.state == State.COMM])
    kernels = _kernels(rows, names, launches, communicating, where, here)
    whole_graphs_ns = device.line_ns.get(WHOLE_GRAPHS, 0)
    if not kernels:
        opaque = "its work is in CUDA graphs that were traced as a whole: the kernels in them are unknown"
        again = "record again with `nsys profile --cuda-graph-trace=node`"
        raise NothingRecorded(
            f"no kernel ran on GPU {device.gpu} in the steady steps",
            found=opaque if whole_graphs_ns else "",
            hint=again if whole_graphs_ns else "`gpuledger info` says what there is",
        )
    chosen = _chosen(kernels, coverage)
    wanted = [number for number, kernel in chosen.items() if kernel.left_out is None]
    del where, here
    return NcuPlan(
        device.gpu,
        device.step_count,
        device.steady_ns,
        tuple(chosen.values()),
        ncu_runs(launches, wanted, together=together),
        bool((is_among(launches.alike, wanted) & (rows["graph_node"] >= 0)).any()),
        whole_graphs_ns,
    )


def _places(trace: Trace, device: Device, count: int) -> LaunchPlaces:
    """The place of each row of the table of kernels; of none in the warm-up."""
    work = device.work
    kernels = np.flatnonzero((work.gpu == device.gpu) & is_among(work.state, (State.COMPUTE, State.COMM)))
    kernels = kernels[_begins_in(device.steady, work.start_ns[kernels]) & (work.name[kernels] != NO_TEXT)]
    known = places(trace, device, kernels)
    of = np.full(count, len(known.names), np.int32)
    of[work.row_at(kernels)] = known.of
    return replace(known, of=of, names=(*known.names, ()))


def _begins_in(span: Span, start_ns: Ints) -> NDArray[np.bool_]:
    return holds(one_span(span), start_ns)


def _launches(rows: Rows, names: dict[int, KernelName], place: Ints, device: Device) -> LaunchColumns:
    """What ncu would see, in the order of time."""
    functions = {text: index for index, text in enumerate(sorted({name.short for name in names.values()}))}
    canonical = {text: index for index, text in enumerate(sorted({name.canonical for name in names.values()}))}
    first, code = group(rows.codes("name"))
    spelled = [names[kernel_code] for kernel_code in rows.codes("name")[first].tolist()]
    function = np.array([functions[name.short] for name in spelled], np.int32)[code]
    kernel = np.array([canonical[name.canonical] for name in spelled], np.int32)[code]
    del code
    shape = group(*rows.stored("grid").T, *rows.stored("block").T)[1].astype(np.int32)
    smem = rows["smem_static_bytes"] + rows["smem_dynamic_bytes"]
    counted = group(rows["pid"], function, shape, smem)[1].astype(np.int32)
    del smem
    steady, after_warm_up = device.begins_steady(rows["start_ns"]), _begins_in(device.steady, rows["start_ns"])
    alike = group(telling_shapes(kernel, shape)[1], place)[1].astype(np.int32)
    del kernel, shape
    time = np.maximum(rows.duration_ns, 0)
    alike[after_warm_up] = by_size(alike[after_warm_up], time[after_warm_up], device.step_count)
    return LaunchColumns(tuple(functions), function, alike, counted, steady, after_warm_up, time)


def _kernels(
    rows: Rows,
    names: dict[int, KernelName],
    launches: LaunchColumns,
    communicating: Ints,
    where: LaunchPlaces,
    here: Positions,
) -> dict[int, PlannedKernel]:
    """The kernels of the steady steps by their number in `alike`, longest first; what cannot be profiled says why."""
    steady = np.where(launches.steady, launches.alike, np.int32(-1))
    alike = leave_out(steady, np.array([-1]))
    none = np.zeros(int(alike.max(initial=-1)) + 1, np.int64)
    counts, total = (
        sweep.fold("sum", steady, amounts, none.copy())[alike].tolist()
        for amounts in (same(1, len(steady)), launches.ns)
    )
    first = sweep.fold("least", steady, np.arange(len(steady)), none + len(steady))[alike].tolist()
    shapes = ([tuple(triple) for triple in rows.stored(column)[first].tolist()] for column in ("grid", "block"))
    kernels = {}
    for row, count, ns, grid, block in zip(first, counts, total, *shapes, strict=True):
        code = int(rows.codes("name")[row])
        name = names[code]
        is_typeable = 0 < len(name.short) <= LONGEST_NAME and name.short.isprintable()
        impossible = COMMUNICATION if code in communicating else None if is_typeable else NAMELESS
        kernels[int(launches.alike[row])] = PlannedKernel(
            name.canonical, name.short, grid, block, where.names[where.of[here[row]]], count, ns, impossible
        )
    return dict(sorted(kernels.items(), key=lambda item: (-item[1].ns, item[1].name, item[1].grid, item[1].block)))


def _chosen(kernels: dict[int, PlannedKernel], coverage: float) -> dict[int, PlannedKernel]:
    """The same kernels; those past the coverage are left out."""
    possible = sum(kernel.ns for kernel in kernels.values() if kernel.left_out is None)
    held, chosen = 0, dict(kernels)
    for number, kernel in kernels.items():
        if kernel.left_out is None and held >= coverage * possible:
            chosen[number] = replace(kernel, left_out=LITTLE)
        elif kernel.left_out is None:
            held += kernel.ns
    return chosen

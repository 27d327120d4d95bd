"""The steady kernels of a device, stream by stream, what is known of each, and the loops among them.

Positions are of these kernels; `operations` says where they are among the activities that were given.

A loop is a stretch whose kernels are those of a fixed distance before, at least FEWEST times over. Of stretches that
overlap the longest counts, and of its periods the shortest. Kernels of a loop do something to each element of a tensor,
or add it up: so one kernel could do it for all tensors. Layers repeat as well, but each needs what the one before gave.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike, NDArray

from gpuledger.analyse.operators.launching_operators import GraphOperators, LaunchingOperators
from gpuledger.analyse.operators.operators import ANNOTATION, OPERATOR
from gpuledger.analyse.utilization.kernel_use import KernelUse, UseOfKernels
from gpuledger.catalog.gpu_metrics import MEMORY, GpuMetric
from gpuledger.catalog.gpus import occupancy_limit
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.kernel_types import BY_ELEMENT, MATRIX_FAMILIES, ElementKernel, element_kernel, matrix_type
from gpuledger.ledger.activity import Activities, State
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import Host
from gpuledger.ledger.ranges import innermost
from gpuledger.trace.keys import Positions, distinct, group, is_among
from gpuledger.trace.model import Gpu, NotMeasured, Trace
from gpuledger.trace.spans import Ints, covered, furthest, shares_in_order, union
from gpuledger.trace.strings import NO_TEXT, Codes
from gpuledger.trace.tables import Table

FEWEST: Final = 16  # what repeats fewer times than this in a row may be layers, or chance
LONGEST: Final = 24  # a period has no more kernels than this: what is done for one tensor, not a layer


class KernelLoop(Struct, frozen=True):
    """The same `period` kernels over and over, from one position of the sequence to before another."""

    start: int
    end: int
    period: int

    @property
    def times(self) -> int:
        return (self.end - self.start) // self.period

    @property
    def repeated(self) -> slice:
        return slice(self.start + self.period, self.end)


class LoopedKernels(Struct, frozen=True, eq=False):
    """The steady kernels of a device, stream by stream, and the loops among them."""

    operations: Positions
    loops: tuple[KernelLoop, ...]

    @property
    def repeated(self) -> Positions:
        return np.sort(np.concatenate([self.operations[loop.repeated] for loop in self.loops] or [self.operations[:0]]))

    @property
    def longest(self) -> KernelLoop | None:
        return max(self.loops, key=lambda loop: loop.end - loop.start, default=None)


def steady_kernels(device: Device, work: Activities) -> Positions:
    """A device's kernels of the steady stretch, stream by stream. `work` is all or part of the run's."""
    mine = (work.state == State.COMPUTE) & (work.gpu == device.gpu)
    chosen = np.flatnonzero(mine & device.begins_steady(work.start_ns))
    return chosen[np.argsort(work.stream[chosen], kind="stable")]


def looped_kernels(device: Device, work: Activities) -> LoopedKernels:
    """Loops within steps: without steps, what repeats may be the steps themselves."""
    chosen = steady_kernels(device, work)
    if device.steps is None:
        return LoopedKernels(chosen, ())
    step = np.searchsorted(device.steps.edges_ns, work.start_ns[chosen], side="right")
    by_element = np.array([family in BY_ELEMENT for family in work.families], np.bool_)[work.family[chosen]]
    _, stream = group(work.stream[chosen])
    loops = kernel_loops(work.name[chosen], stream * (len(device.steps) + 2) + step)
    return LoopedKernels(chosen, tuple(loop for loop in loops if by_element[loop.start : loop.end].all()))


def kernel_loops(names: Codes, parts: Ints, fewest: int = FEWEST) -> tuple[KernelLoop, ...]:
    """The loops of a sequence, in order. None goes on from one part (a step of a stream) to the next."""
    candidates = [loop for period in range(1, LONGEST + 1) for loop in _of_period(names, parts, period, fewest)]
    is_free = np.ones(len(names), np.bool_)
    chosen = []
    for loop in sorted(candidates, key=lambda loop: (loop.start - loop.end, loop.period)):
        if is_free[loop.start : loop.end].all():
            is_free[loop.start : loop.end] = False
            chosen.append(loop)
    return tuple(sorted(chosen, key=lambda loop: loop.start))


def _of_period(names: Codes, parts: Ints, period: int, fewest: int) -> list[KernelLoop]:
    if len(names) < fewest * period:
        return []
    repeats = (names[period:] == names[:-period]) & (parts[period:] == parts[:-period])
    edges = np.flatnonzero(np.diff(np.concatenate(([False], repeats, [False]))))
    first, last = edges[::2], edges[1::2]
    is_long = last - first >= (fewest - 1) * period
    return [
        KernelLoop(start, end, period)
        for start, end in zip(first[is_long].tolist(), (last[is_long] + period).tolist(), strict=True)
    ]


if TYPE_CHECKING:
    from gpuledger.analyse.utilization.against_counters import CountedUse
    from gpuledger.analyse.utilization.stretches import SampledUse

Mask = NDArray[np.bool_]
Figure = TypeVar("Figure")

LEAST_NS: Final = 5_000  # shorter kernels wait for their launch more than for memory


_WIDE: Final = ("fp64", "fp32", "tf32")
_ROOFS: Final = (GpuMetric.TENSOR, GpuMetric.SM_ISSUE)


class KernelSavings(Struct, frozen=True, eq=False):
    """Operations, and how long they would take; 0: they would not run."""

    operations: Positions
    duration_ns: Ints
    kind: str = ""  # which of several ways of saying it fits, where a code has several
    was_sampled: bool = False  # whether samples of the GPU's use, or what operators were given, say so, too
    are_meant: Mask | None = None
    """Which of them do what is to be done another way, where others only become shorter with them. None: all."""

    def __len__(self) -> int:
        return len(self.operations)


def use_and_clock(use: SampledUse | None) -> tuple[UseOfKernels | None, float | None]:
    """What samples say of kernels, and the mean clock while they ran; None where that was not sampled."""
    return (None, None) if use is None else (use[0], None if use[1].clock is None else use[1].clock.mean_hz)


class SteadyKernels:
    """What one device's steady kernels are."""

    def __init__(
        self,
        trace: Trace,
        device: Device,
        host: Host,
        work: Activities,
        use: UseOfKernels | None = None,
        sampled_hz: float | None = None,
        counted: CountedUse | None = None,
    ) -> None:
        self._trace, self._strings, self._host, self._work = trace, trace.strings, host, work
        self._use, self._device, self.counted = use, device, counted
        self.sampled_hz: Final = sampled_hz  # the mean clock while kernels ran; None where it was not sampled
        self._masks: dict[Callable[[str], bool], Mask] = {}
        self._kept: dict[Callable[[SteadyKernels], Any], Any] = {}
        self.gpu: Final[Gpu | None] = trace.origin.gpu(device.gpu)
        self.capability: Final = None if self.gpu is None else self.gpu.compute_capability
        chosen = steady_kernels(device, work)
        self.operations: Final = chosen[work.name[chosen] != NO_TEXT]  # without graphs that were traced whole

    def __len__(self) -> int:
        return len(self.operations)

    @cached_property
    def step(self) -> NDArray[np.int32]:
        steps = self._device.steps
        edges = self._device.ledger.window if steps is None else steps.edges_ns
        step: NDArray[np.int32] = np.searchsorted(edges, self._work.start_ns[self.operations], "right").astype(np.int32)
        return step

    @cached_property
    def took_ns(self) -> Ints:
        took: Ints = self._work.end_ns[self.operations]
        took -= self._work.start_ns[self.operations]
        return took

    @cached_property
    def step_count(self) -> int:
        return max(len(distinct(self.step)), 1)

    def once(self, figure: Callable[[SteadyKernels], Figure]) -> Figure:
        """What is found of all of them, found once for all who ask."""
        if figure not in self._kept:
            self._kept[figure] = figure(self)
        found: Figure = self._kept[figure]
        return found

    # what a kernel's name says

    @cached_property
    def names(self) -> Codes:
        codes: Codes = self._work.name[self.operations]
        return codes

    @cached_property
    def by_text(self) -> tuple[list[str], NDArray[np.int32]]:
        """The different names, and for each kernel the position of its own."""
        codes = self._strings.distinct(self.names)
        return [self._strings.text(code) or "" for code in codes], np.searchsorted(codes, self.names).astype(np.int32)

    def of_names(self, figure: Callable[[str], float], dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """What a name says of each kernel, asked once for each of the different names."""
        texts, position = self.by_text
        return np.array([figure(text) for text in texts], dtype)[position]

    def named(self, test: Callable[[str], bool]) -> Mask:
        if test not in self._masks:
            self._masks[test] = self.of_names(test, np.bool_)
            self._masks[test].flags.writeable = False
        return self._masks[test]

    def of_families(self, families: frozenset[str]) -> Mask:
        chosen = np.array([family in families for family in self._work.families], np.bool_)
        mask: Mask = chosen[self._work.family[self.operations]]
        return mask

    @cached_property
    def is_matrix(self) -> Mask:
        return self.of_families(MATRIX_FAMILIES)

    @cached_property
    def _matrix_types(self) -> NDArray[np.int8]:
        """Where the name of a matrix kernel says one of the wide types, its number; else -1."""
        texts, position = self.by_text
        types = np.full(len(texts), -1, np.int8)
        for place in distinct(position[self.is_matrix]).tolist():
            kind = matrix_type(texts[place])
            types[place] = -1 if kind is None else _WIDE.index(kind)
        return np.where(self.is_matrix, types[position], -1)

    def multiply_in(self, kind: str) -> Mask:
        """Which matrix kernels work in `fp64`, `fp32` or `tf32`, by their names."""
        mask: Mask = self._matrix_types == _WIDE.index(kind)
        return mask

    def of_elements(self, figure: Callable[[ElementKernel], int]) -> Ints:
        """Something about kernels by element; 0 where the name does not tell."""

        def of_name(name: str) -> int:
            known = element_kernel(name)
            return 0 if known is None else figure(known)

        return self.of_names(of_name)

    # how it is launched

    @cached_property
    def part(self) -> Ints:
        """A number for each stretch that is of one stream and of one step."""
        stream = self._work.stream[self.operations]
        changes = (np.diff(stream) != 0) | (np.diff(self.step) != 0)
        return np.concatenate(([0], np.cumsum(changes))) if len(self) else np.zeros(0, np.int64)

    @cached_property
    def blocks(self) -> Ints:
        """Of each kernel; 0 where its grid is not recorded."""
        kernels = self._trace[Table.KERNELS]
        if "grid" not in kernels:
            return np.zeros(len(self), np.int64)
        sides = kernels.stored("grid")[self._work.row_at(self.operations)]
        blocks: Ints = np.maximum(sides[:, 0], 0).astype(np.int64)
        for axis in (1, 2):  # one after the other: three columns of 64 bits would lie beside this one
            blocks *= np.maximum(sides[:, axis], 0)
        return blocks

    def blocks_at_once(self, which: Positions) -> Ints:
        """How many blocks of some kernels a multiprocessor has room for; 0 where a launch does not tell."""
        kernels, capability = self._trace[Table.KERNELS], self.capability
        columns = ("registers", "smem_static_bytes", "smem_dynamic_bytes")
        if capability is None or "block" not in kernels or not all(column in kernels for column in columns):
            return np.zeros(len(which), np.int64)
        row = self._work.row_at(self.operations[which])
        threads = np.maximum(kernels.stored("block")[row], 0).prod(axis=1)
        needs = (threads, *(kernels.stored(column)[row] for column in columns))
        first, number = group(*needs)
        limits = [
            occupancy_limit(capability, threads, registers, max(static, 0) + max(dynamic, 0))
            for threads, registers, static, dynamic in zip(*(need[first].tolist() for need in needs), strict=True)
        ]
        return np.array([0 if limit is None else limit.blocks for limit in limits], np.int64)[number]

    @cached_property
    def elements(self) -> Ints:
        """Of the tensors that kernels by element go through; 0 where that is not known."""
        return self.blocks * self.of_elements(lambda kernel: kernel.elements_per_block)

    @cached_property
    def are_alone(self) -> Mask:
        """Which kernels have the GPU for themselves from begin to end."""
        start, end = (side[self.operations] for side in (self._work.start_ns, self._work.end_ns))
        order = np.argsort(start, kind="stable")
        latest = furthest(end[order])
        overlaps = latest[:-1] > start[order][1:]
        alone = np.ones(len(self), np.bool_)
        alone[order[1:][overlaps]] = False
        alone[order[:-1][overlaps]] = False
        return alone

    @cached_property
    def operators(self) -> LaunchingOperators | None:
        """What launched them; None where no operators were recorded with their inputs."""
        ranges = self._trace[Table.RANGES]
        has_inputs = bool((ranges.codes("inputs") != NO_TEXT).any())
        if not len(ranges) or (not has_inputs and self._strings.code(OPERATOR) != NO_TEXT):
            return None
        operators = LaunchingOperators(self._trace, self._host, self._work, self.operations)
        return operators if has_inputs or (operators.nest.rows.codes("inputs") != NO_TEXT).any() else None

    @cached_property
    def graph_operators(self) -> GraphOperators | None:
        """What launched those inside CUDA graphs when these were captured, or when the same kernels ran without. None
        where no operators were recorded, or no graphs."""
        places, device, kernels = self._trace.places, self._device, self._trace[Table.KERNELS]
        if places is None and self.operators is not None and "grid" in kernels:
            from gpuledger.analyse.operators.graph_launches import LaunchSide
            from gpuledger.analyse.operators.graph_places import graph_places

            side = LaunchSide(self._trace, device.host, device.work)
            places = graph_places(side, side) if side.may_have_graphs else None
        return GraphOperators(places, self._work, self.operations) if places and places.places else None

    def annotated(self, which: Positions, is_meant: Callable[[str], bool]) -> tuple[list[str], Positions]:
        """The annotations that are meant, and of each of some kernels the one that it was launched in; -1 for none."""
        ranges, launch = self._trace[Table.RANGES], self._work.launch[self.operations[which]]
        mine = np.flatnonzero(ranges.codes("kind") == self._strings.code(ANNOTATION)) if len(which) else which
        meant = mine[self._strings.each(ranges.codes("name")[mine], is_meant, np.bool_)]
        number = np.full(len(which), -1, np.intp)
        if len(meant):
            number[launch >= 0] = innermost(ranges.at(meant), self._host.calls.at(launch[launch >= 0]))
        return [text or "" for text in self._strings.decode(ranges.codes("name")[meant])], number

    def texts(self, which: Positions) -> set[str]:
        texts, position = self.by_text
        return {texts[number] for number in np.unique(position[which]).tolist()}

    @cached_property
    def own_ns(self) -> Ints:
        """The part of each that is its own, where an instant of several belongs to the one that started first."""
        start, end = (side[self.operations] for side in (self._work.start_ns, self._work.end_ns))
        order = np.argsort(start, kind="stable")
        begin, until = shares_in_order(start[order], end[order])
        own = np.zeros(len(self), np.int64)
        own[order] = until - begin
        return own

    def by_family(self, amounts: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The sums of some columns of amounts, by the names of the kernels' families; of those that have any."""
        family, count = self._work.family[self.operations], len(self._work.families)
        sums = np.stack([np.bincount(family, column, count) for column in amounts.T], axis=1)
        return {name: row for name, row in zip(self._work.families, sums, strict=True) if row.any()}

    def text(self, place: int) -> str:
        return self._strings.text(int(self.names[place])) or ""

    def place_of(self, operations: Positions) -> Mask:
        """Which of them these operations are."""
        mask: Mask = is_among(self.operations, operations)
        return mask

    def places(self, operations: Positions) -> NDArray[np.int32]:
        """Where among them these operations are, each of which is one of them."""
        place = np.zeros(len(self._work), np.int32)
        place[self.operations] = np.arange(len(self), dtype=np.int32)
        return place[operations]

    @cached_property
    def page_ns(self) -> Ints:
        """For how long pages of unified memory move under each kernel."""
        work = self._work
        pages = work.migrates & (work.gpu == self._device.gpu)
        moved = union(work.start_ns[pages], work.end_ns[pages])
        return covered(moved, work.start_ns[self.operations], work.end_ns[self.operations])

    # changes

    def gone(self, which: Mask) -> KernelSavings:
        return KernelSavings(self.operations[which], np.zeros(np.count_nonzero(which), np.int64))

    def taking(
        self,
        which: Mask,
        duration_ns: NDArray[Any],
        kind: str = "",
        *,
        was_sampled: bool = False,
        meant: Mask | None = None,
    ) -> KernelSavings:
        """These take so long; durations are of all kernels."""
        duration, are_meant = np.rint(duration_ns[which]).astype(np.int64), None if meant is None else meant[which]
        return KernelSavings(self.operations[which], duration, kind, was_sampled, are_meant)

    # samples

    @cached_property
    def roof_shares(self) -> NDArray[np.float64] | None:
        """How near each kernel is to the nearest roof, 0 to 1, by samples: tensor cores, issue slots, memory."""
        compute, memory = self._sampled(_ROOFS, max), self._sampled(MEMORY, sum)
        return None if compute is None or memory is None else np.maximum(compute, memory)

    @property
    def sampled_clock_hz(self) -> NDArray[np.float64]:
        """The clock while each kernel ran, by samples; without any of it, the mean of all; NaN for neither."""
        mean = np.full(len(self), np.nan if self.sampled_hz is None else self.sampled_hz)
        own = mean if self._use is None else self._by_launch(self._use, lambda kernel: kernel.clock_hz)
        return np.where(np.isnan(own), mean, own)

    @cached_property
    def sampled_roofs(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
        """How near each kernel is to the peak of tensor cores, of memory, and of issue slots, 0 to 1, by samples."""
        tensor, issue = (self._sampled((roof,), max) for roof in _ROOFS)
        memory = self._sampled(MEMORY, sum)
        return None if tensor is None or memory is None or issue is None else (tensor, memory, issue)

    @cached_property
    def counted_roofs(self) -> tuple[NDArray[np.float64], ...] | None:
        """The same by what Nsight Compute counted, then ns and clock of a launch as profiled; None where none was."""
        if self.counted is None or not len(self):
            return None
        keys, number = self.launched
        launches = self.counted.launches(keys)
        counted = [{} if launch is None else launch.percent for launch in launches]
        took, hertz = np.array([(np.nan, np.nan) if one is None else (one.took_ns, one.hertz) for one in launches]).T

        def share(*roof: GpuMetric) -> NDArray[np.float64]:
            percent = [sum(figures.get(metric, np.nan) for metric in roof) for figures in counted]
            return np.array(percent)[number] / 100

        reads, writes, both = MEMORY  # most sets of ncu's count both in one
        moved, either = share(reads, writes), share(both)
        memory = np.where(np.isnan(moved), either, moved)
        return share(_ROOFS[0]), memory, share(_ROOFS[1]), took[number], hertz[number]

    @cached_property
    def launched(self) -> tuple[list[Any], Positions]:
        """The different names, grids and blocks, as texts and triples, and for each kernel the number of its own."""
        shapes, number = self._launches
        texts = [(self._strings.text(name) or "", tuple(shape)) for name, *shape in shapes.tolist()]
        return [(name, shape[:3], shape[3:]) for name, shape in texts], number

    @cached_property
    def _launches(self) -> tuple[Ints, Positions]:
        """The different names, grids and blocks, and for each kernel the number of its own."""
        kernels, row = self._trace[Table.KERNELS], self._work.row_at(self.operations)
        keys = np.column_stack((self.names, kernels.stored("grid")[row], kernels.stored("block")[row]))
        shapes, number = np.unique(keys, axis=0, return_inverse=True)
        return shapes, number.ravel()

    def _sampled(
        self, metrics: tuple[GpuMetric, ...], together: Callable[[list[float]], float]
    ) -> NDArray[np.float64] | None:
        """Some counters of each kernel together, 0 to 1; NaN where they were not sampled, None where nothing was."""
        if self._use is None:
            return None

        def percent(kernel: KernelUse) -> float | None:
            sampled = [kernel.figures[metric].percent for metric in metrics if metric in kernel.figures]
            return together(sampled) if sampled else None

        return self._by_launch(self._use, percent) / 100

    def _by_launch(self, use: UseOfKernels, figure: Callable[[KernelUse], float | None]) -> NDArray[np.float64]:
        """Of each kernel what samples say of those of its name, grid and block; NaN for nothing."""
        by_launch = {(kernel.name, *kernel.grid, *kernel.block): figure(kernel) for kernel in use.kernels}
        launches, number = self.launched
        found = [by_launch.get((parse(name).canonical, *grid, *block)) for name, grid, block in launches]
        return np.array([np.nan if one is None else one for one in found], np.float64)[number]


def all_steady(trace: Trace, device: Device, use: SampledUse | NotMeasured | None = None) -> SteadyKernels:
    """Those of all steady steps, where a replay has some of many."""
    sampled = None if isinstance(use, NotMeasured) else use
    return SteadyKernels(trace, device, device.host, device.work, *use_and_clock(sampled))

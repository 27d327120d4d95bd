"""What a counter is while something runs: samples and their shares in, a level per column and how sure it is out.

Least squares with bounds. A prior keeps what the samples do not tell apart from taking any value: a level is about as
likely anywhere between 0 and what the launch shape allows. Samples that follow one another err alike (a kernel has
phases, a launch is not like the next), so the spread of a level comes from how stretches of time disagree, and from the
residuals as if they were independent, whichever is more.

Kernels of one name, grid and block are taken to use the GPU alike (`LaunchGroups`). Groups, their phases, copies and
nothing are a column of the fit each (`FitColumns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.utilization.samples import ColumnSpans, Floats, SampleShares
from gpuledger.catalog.gpu_metrics import L1_FILL_BYTES_PER_CYCLE, MEMORY, WARPS_PER_SM, GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.kernel_types import NO_MATRIX
from gpuledger.trace.keys import Positions, equal, group
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.spans import Ints, Spans, furthest, holds
from gpuledger.trace.tables import Rows, Table

_ROUGHLY: Final = 1e-2
"""Keeps columns that the samples do not tell apart from taking any value, where only the noise is asked for."""
_FAINT: Final = 0.15  # what a sample of 1 % is taken for at first: it was rounded up, and is mostly next to nothing
_FAINT_ROUNDS: Final = 4  # then it is what the levels say, and they are found again
_MOST_BOUNDS: Final = 60  # how often levels are set to a bound before the rest is taken as it is
_LEAST_NOISE: Final = 0.1  # samples are whole percents: a twelfth, and a little
_STRETCHES: Final = 100
_SAMPLES_PER_STRETCH: Final = 20


class Prior(Struct, frozen=True, eq=False):
    """What is known of levels before looking: a mean and a bound per column, and the inverse of their covariance."""

    mean: Floats
    ceiling: Floats
    precision: Floats


class FittedLevels(Struct, frozen=True, eq=False):
    """Levels of the groups, with the standard deviation of each."""

    level: Floats
    deviation: Floats
    idle: float
    noise: float  # standard deviation of what the levels leave unexplained of a sample


class Mixtures(Struct, frozen=True, eq=False):
    """Samples as mixtures, with what all counters need of them."""

    shares: SampleShares
    squared: Floats
    weights: Floats  # a row per mix of columns that a level is the mean of
    row: Ints  # of each group: its mix
    rough: Floats  # the inverse of `squared`, or nearly

    @classmethod
    def of(cls, shares: SampleShares, weights: Floats, row: Ints) -> Mixtures:
        squared = shares.squared()
        return cls(shares, squared, weights, row, np.linalg.inv(squared + _ROUGHLY * np.eye(len(squared))))


def fit_levels(mixtures: Mixtures, values: NDArray[Any], prior: Prior) -> FittedLevels:
    """The levels of one counter."""
    shares, squared, weights = mixtures.shares, mixtures.squared, mixtures.weights
    seen, faint = before_rounding(values), values == 1
    for _ in range(_FAINT_ROUNDS if faint.any() else 1):
        target = shares.times(seen)
        expected = shares.predicted(np.clip(mixtures.rough @ target, 0.0, prior.ceiling))
        noise = _noise(seen - expected, len(target))
        seen[faint] = np.clip(expected[faint], 0.0, 1.0)
    target = shares.times(seen)
    system = squared + noise * prior.precision
    levels = _bounded_solution(system, target + noise * (prior.precision @ prior.mean), prior.ceiling)
    left = seen - shares.predicted(levels)
    noise = _noise(left, len(target))
    solved = np.linalg.solve(system, weights.T).T
    alone = noise * np.einsum("gc,gc->g", solved, weights)
    together = ((solved @ _pulls(shares, left).T) ** 2).sum(1)
    level, deviation = weights @ levels, np.sqrt(np.maximum(alone, together))
    return FittedLevels(level[mixtures.row], deviation[mixtures.row], float(levels[-1]), noise**0.5)


def before_rounding(values: NDArray[Any]) -> Floats:
    """What nsys most likely measured: it rounds up to whole percents, and 100 is 100."""
    return np.where(values == 1, _FAINT, np.where((values > 1) & (values < 100), values - 0.5, values))


def _noise(left: Floats, columns: int) -> float:
    return max(float(left @ left) / max(len(left) - columns, 1), _LEAST_NOISE)


def _pulls(shares: SampleShares, left: Floats) -> Floats:
    """For stretches of the samples, how far each alone would pull every column."""
    stretches = max(min(len(left) // _SAMPLES_PER_STRETCH, _STRETCHES), 2)
    stretch: Ints = shares.sample * stretches // max(len(left), 1)
    place = stretch * shares.columns + shares.column
    pulls = np.bincount(place, shares.share * left[shares.sample], minlength=stretches * shares.columns)
    by_stretch: Floats = pulls.reshape(stretches, shares.columns) * (stretches / (stretches - 1)) ** 0.5
    return by_stretch


def _bounded_solution(system: Floats, target: Floats, ceiling: Floats) -> Floats:
    """The least squares between 0 and a ceiling: what lies outside is set to the bound, and the rest solved again."""
    bound, levels = np.full(len(target), np.nan), target
    for _ in range(_MOST_BOUNDS):
        free = np.isnan(bound)
        levels = np.where(free, 0.0, bound)
        rest = target[free] - system[np.ix_(free, ~free)] @ bound[~free]
        levels[free] = np.linalg.solve(system[np.ix_(free, free)], rest)
        outside = (levels < 0) | (levels > ceiling)
        if not outside.any():
            break
        bound = np.where(outside, np.where(levels < 0, 0.0, ceiling), bound)
    return np.clip(levels, 0.0, ceiling)


class LaunchGroups(Struct, frozen=True, eq=False):
    """The kernels of one GPU, in the order of the table, and the groups that they make."""

    row: Positions  # of each launch: where it is in the table of kernels
    start_ns: Ints
    end_ns: Ints
    group: Positions  # of each launch
    names: tuple[str, ...]  # of each group: the canonical one
    full_names: tuple[str, ...]  # of each group: as its first launch has it
    grids: tuple[Dim3, ...]
    blocks: tuple[Dim3, ...]
    registers: Ints  # of each group's first launch: registers of a thread; -1 where they were not read
    shared_bytes: Ints  # of each group's first launch: shared memory of a block; -1 where it was not read
    launches: Ints
    total_ns: Ints
    before: Positions  # of each launch: the group of the kernel that it follows at once; -1 where there is none
    after: Positions  # of each launch: the group of the kernel that follows it at once; -1 where there is none

    def __len__(self) -> int:
        return len(self.names)

    @property
    def mean_ns(self) -> Floats:
        return self.total_ns / np.maximum(self.launches, 1)

    def within(self, window: Spans | None) -> tuple[Ints, Ints]:
        """How often kernels of each group were launched, and how long they ran: launches that begin in the window."""
        if window is None:
            return self.launches, self.total_ns
        chosen, count = holds(window, self.start_ns), len(self)
        group, length = self.group[chosen], (self.end_ns - self.start_ns)[chosen]
        return np.bincount(group, minlength=count), np.bincount(group, length, minlength=count).astype(np.int64)

    def of_neighbours(self, level: Floats) -> Floats:
        """Of each group: the levels of what runs right before and right after its launches, added up."""
        known = np.append(level, 0.0)  # -1 is the last
        total = np.bincount(self.group, known[self.before] + known[self.after], minlength=len(self))
        return total / np.maximum(self.launches, 1)

    @property
    def close_share(self) -> Floats:
        """Of each group: the share of its launches that follow another kernel at once."""
        return np.bincount(self.group, self.before >= 0, minlength=len(self)) / np.maximum(self.launches, 1)

    def ceiling(self, metric: GpuMetric, gpu: Gpu | None) -> Floats:
        """What a group's launch shape lets a counter be at most, in percent: a block runs on one multiprocessor."""
        full = np.full(len(self), 100.0)
        if gpu is None or not gpu.sm_count:
            return full
        blocks, threads = (np.array(shape, np.float64).reshape(-1, 3).prod(1) for shape in (self.grids, self.blocks))
        warps = WARPS_PER_SM.get(gpu.compute_capability or (0, 0))
        if metric is GpuMetric.WARPS:
            bound = 100 * blocks * np.ceil(threads / 32) / (gpu.sm_count * warps) if warps else full
        elif metric in MEMORY:
            known = gpu.clock_hz and gpu.bandwidth_bytes_per_s
            bound = 100 * blocks * L1_FILL_BYTES_PER_CYCLE * gpu.clock_hz / gpu.bandwidth_bytes_per_s if known else full
        else:
            bound = 100 * blocks / gpu.sm_count
        return np.where(blocks * threads > 0, np.clip(bound, 0, 100), 100.0)

    def usual_spread(self, metric: GpuMetric) -> Floats:
        """Points by which a counter of each group may well differ from nothing: tensor cores have little to do in
        kernels that multiply no matrices."""
        without = metric is GpuMetric.TENSOR
        return np.array([_NO_MATRIX if without and family(name) in NO_MATRIX else 100.0 for name in self.full_names])


_NO_MATRIX: Final = 3.0
"""Percent of tensor cores' cycles: arithmetic in 16 bits outside matrices takes up to six (H200)."""
_CLOSE_NS: Final = 3_000
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def _group_by_hash(*keys: NDArray[Any]) -> tuple[Positions, Positions]:
    """`group` for many rows and keys: by one number for all keys, unless two rows have it that differ in one."""
    mixed = np.zeros(len(keys[0]), np.uint64)
    for key in keys:
        mixed = (mixed ^ key.astype(np.uint64)) * _ODD
        mixed ^= mixed >> np.uint64(29)
    first, number = group(mixed.view(np.int64))
    return (first, number) if all((key[first][number] == key).all() for key in keys) else group(*keys)


def launch_groups(trace: Trace, gpu: int) -> LaunchGroups:
    """All kernels that ran on one GPU and took any time."""
    kernels = trace[Table.KERNELS]
    ran = equal(kernels["gpu"], gpu) & (kernels["end_ns"] > kernels["start_ns"])
    rows, row = kernels.only("name", "grid", "block").where(ran), np.flatnonzero(ran)
    _, name = trace.strings.kinds(rows.codes("name"), lambda name: parse(name).canonical)
    first, number = _group_by_hash(name, *(rows[shape][:, axis] for shape in ("grid", "block") for axis in range(3)))
    full_names = tuple(trace.strings.text(code) or "" for code in rows.codes("name")[first].tolist())
    grids, blocks = (tuple(tuple(shape) for shape in rows[side][first].tolist()) for side in ("grid", "block"))
    length = rows["end_ns"] - rows["start_ns"]
    registers = shared_bytes = np.full(len(first), -1)
    resources = ("registers", "smem_static_bytes", "smem_dynamic_bytes")
    if all(column in kernels for column in resources):  # a report does not read them
        registers, fixed, asked = (kernels[column][row[first]].astype(np.int64) for column in resources)
        shared_bytes = fixed + asked
    return LaunchGroups(
        row,
        rows["start_ns"],
        rows["end_ns"],
        number,
        tuple(parse(name).canonical for name in full_names),
        full_names,
        grids,
        blocks,
        registers,
        shared_bytes,
        np.bincount(number, minlength=len(first)),
        np.bincount(number, length, minlength=len(first)).astype(np.int64),
        *_neighbours(rows, number),
    )


def _neighbours(rows: Rows, number: Positions) -> tuple[Positions, Positions]:
    """The groups before and after each launch, where the GPU went on at once."""
    order = np.argsort(rows["start_ns"], kind="stable")
    close = rows["start_ns"][order[1:]] - furthest(rows["end_ns"][order])[:-1] < _CLOSE_NS
    before, after = (np.full(len(order), -1) for _ in range(2))
    before[order[1:][close]] = number[order[:-1][close]]
    after[order[:-1][close]] = number[order[1:][close]]
    return before, after


_MOST_GROUPS: Final = 400
_MOST_SHARED: Final = 100
_MOST_SPLIT: Final = 50
"""Kernels with a column of their own, columns that others share, kernels with several columns: by time."""
_FEWEST_LAUNCHES: Final = 8  # of a kernel with several columns
_EDGE: Final = 0.3
_PARTS: Final = (0.4, 0.8, 1.4, 2.0, 3.0, 5.0)
"""In periods: from what length on a kernel has two columns, three, and so on."""
_OFTEN: Final = 400
_PARTS_IF_OFTEN: Final = (0.04, 0.08, 0.12, 0.16, 0.2, 0.3)
"""In periods: from what length on a kernel with so many launches has one column more, two, and so on. Its launches lie
differently in the periods each time, so that many of them show what one period cannot: that a kernel of ten
microseconds reads little at first, and that what is read then is its neighbour's."""
_MOST_WITH_FINER: Final = 300
"""Columns in all, up to which kernels get finer ones, by time: the fit takes time by the cube of their number."""
_MOST_PARTS: Final = 1 + len(_PARTS) + len(_PARTS_IF_OFTEN)
_PHASES_DIFFER: Final = 20.0  # points by which the phases of a kernel usually differ from their mean
_COPY_KINDS: Final = 7
_OTHERS: Final = _COPY_KINDS + 1
_OTHERS_DIFFER, _IDLE_DIFFERS = 40.0, 0.03
_LEAST_CEILING: Final = 0.5


class FitColumns(Struct, frozen=True, eq=False):
    """The columns of one GPU's kernels and of what else ran on it."""

    groups: LaunchGroups
    first: Ints  # of each group: its first column
    parts: Ints  # of each group: how many columns it has
    shared: NDArray[np.bool_]  # of each group: whether its column is other groups' too
    count: int  # columns of kernels; after them come copies, graphs and nothing
    edge_ns: int

    @classmethod
    def of(cls, groups: LaunchGroups, period_ns: int) -> FitColumns:
        order = np.argsort(-groups.total_ns, kind="stable")
        length, rank = groups.mean_ns / period_ns, np.empty(len(groups), np.int64)
        rank[order] = np.arange(len(groups))
        may_split = (rank < _MOST_SPLIT) & (groups.launches >= _FEWEST_LAUNCHES)
        parts = np.where(may_split, 1 + np.searchsorted(_PARTS, length, side="right"), 1)
        may_be_finer = may_split & (groups.launches >= _OFTEN)
        finer = np.where(may_be_finer, np.searchsorted(_PARTS_IF_OFTEN, length, side="right"), 0)
        finer[order[np.cumsum(finer[order]) > _MOST_WITH_FINER - parts.sum()]] = 0
        parts += finer
        shared = rank >= _MOST_GROUPS
        first = np.zeros(len(groups), np.int64)
        own = order[:_MOST_GROUPS]
        first[own] = np.cumsum(parts[own]) - parts[own]
        count = int(parts[own].sum())
        names: dict[str, int] = {}
        for row in order[_MOST_GROUPS:].tolist():
            number = names.setdefault(groups.names[row], min(len(names), _MOST_SHARED - 1))
            first[row] = count + number
        count += min(len(names), _MOST_SHARED)
        return cls(groups, first, parts, shared, count, round(_EDGE * period_ns))

    @property
    def total(self) -> int:
        """Columns with those of copies, graphs and nothing."""
        return self.count + _OTHERS + 1

    def with_parts(self, most: int) -> FitColumns:
        """The same with at most so many columns per kernel; the others stay empty."""
        return replace(self, parts=np.minimum(self.parts, most))

    def spans(self, trace: Trace, gpu: int, launches: Positions | None = None) -> ColumnSpans:
        """When what each column stands for ran; of kernels, some of the launches."""
        groups = self.groups
        chosen = slice(None) if launches is None else launches
        start, end, group_of = groups.start_ns[chosen], groups.end_ns[chosen], groups.group[chosen]
        first, parts = self.first[group_of], self.parts[group_of]
        kernels = (start, end, first)
        if (parts > 1).any():
            whose = np.repeat(np.arange(len(parts)), parts)
            part = np.arange(len(whose)) - np.repeat(np.cumsum(parts) - parts, parts)
            length = (end - start)[whose]
            edges = (self._offset(length, parts[whose], edge) for edge in (part, part + 1))
            begin, end = (start[whose] + edge for edge in edges)
            kernels = (begin, end, first[whose] + part)
        return ColumnSpans.by_start([kernels, *self._other_work(trace, gpu)], self.total - 1)

    def _offset(self, length: Floats, parts: Ints, edge: Ints) -> Ints:
        """Where the edge of a part lies in a launch: its beginning and its end are short, what is between is even."""
        short = np.minimum(self.edge_ns, length / parts)
        between = short + (length - 2 * short) * (edge - 1) / np.maximum(parts - 2, 1)
        offset = np.where(edge == 0, 0, np.where(edge == parts, length, np.where(parts == 2, length / 2, between)))
        return np.round(offset).astype(np.int64)

    def _other_work(self, trace: Trace, gpu: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        for table in (Table.COPIES, Table.GRAPHS):
            if table in trace.tables:
                rows = trace[table].where(equal(trace[table]["gpu"], gpu))
                kind = np.full(len(rows), _COPY_KINDS)
                if table is Table.COPIES:
                    kind = np.minimum(group(rows.codes("kind"))[1], _COPY_KINDS - 1)
                yield rows["start_ns"], rows["end_ns"], self.count + kind

    def _own_columns(self) -> tuple[Ints, Ints, Floats]:
        """For each column of a group that has its own: the group, the column, and its share of a launch's time."""
        own = np.flatnonzero(~self.shared)
        groups = np.repeat(own, self.parts[own])
        part = np.arange(len(groups)) - np.repeat(np.cumsum(self.parts[own]) - self.parts[own], self.parts[own])
        mean, parts = self.groups.mean_ns[groups], self.parts[groups]
        share = (self._offset(mean, parts, part + 1) - self._offset(mean, parts, part)) / np.round(mean)
        return groups, self.first[groups] + part, share

    def mixes(self) -> tuple[Floats, Ints]:
        """A row per mix of columns, how much of its time is in each; and the row of every group. Groups that share a
        column have one row: there may be as many groups as launches, but there are few columns."""
        own, columns_shared = np.flatnonzero(~self.shared), np.unique(self.first[self.shared])
        row = np.empty(len(self.groups), np.int64)
        row[own] = np.arange(len(own))
        row[self.shared] = len(own) + np.searchsorted(columns_shared, self.first[self.shared])
        weights = np.zeros((len(own) + len(columns_shared), self.total))
        groups, columns, share = self._own_columns()
        weights[row[groups], columns] = share
        weights[len(own) + np.arange(len(columns_shared)), columns_shared] = 1.0
        return weights, row

    def prior(self, ceiling: Floats, expected: float, differ: Floats) -> Prior:
        """A level is between nothing and its ceiling; phases of a kernel are near their mean; nothing uses none.
        `differ`: points by which the level of each group differs from what is expected, usually."""
        mean, top = np.zeros(self.total), np.full(self.total, 100.0)
        precision = np.zeros((self.total, self.total))
        np.fill_diagonal(precision[: self.total - 1, : self.total - 1], _OTHERS_DIFFER**-2)
        precision[-1, -1] = _IDLE_DIFFERS**-2
        groups, columns, share = self._own_columns()
        mean[columns], top[columns] = expected * ceiling[groups], ceiling[groups]
        precision[columns, columns] = 0.0
        spread = np.minimum(np.maximum(ceiling, _LEAST_CEILING) / 2, differ)
        for shift in range(1 - _MOST_PARTS, _MOST_PARTS):
            other = np.arange(len(groups)) + shift
            inside = (other >= 0) & (other < len(groups))
            inside[inside] &= groups[other[inside]] == groups[inside]
            here, there = np.flatnonzero(inside), other[inside]
            precision[columns[here], columns[there]] += share[here] * share[there] / spread[groups[here]] ** 2
            count = self.parts[groups[here]]
            apart = (here == there) - share[there] - share[here]
            # the sum over phases of (own level - mean level) squared
            precision[columns[here], columns[there]] += np.where(
                count > 1, (apart + count * share[here] * share[there]) / _PHASES_DIFFER**2, 0.0
            )
        return Prior(mean, top, precision)

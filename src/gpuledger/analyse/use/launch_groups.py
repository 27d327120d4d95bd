"""Kernels that are taken to use the GPU alike: rows of the table in, a group per name, grid and block out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.gpu_metrics import L1_FILL_BYTES_PER_CYCLE, WARPS_PER_SM, GpuMetric
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.kernel_types import NO_MATRIX
from gpuledger.trace.columns import equal
from gpuledger.trace.kernel_report import Dim3
from gpuledger.trace.keys import Positions, group
from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.spans import Ints, furthest
from gpuledger.trace.tables import Rows, Table

Floats = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class LaunchGroups:
    """The kernels of one GPU, in the order of the table, and the groups that they make."""

    row: Positions
    """Of each launch: where it is in the table of kernels."""
    start_ns: Ints
    end_ns: Ints
    group: Positions
    """Of each launch."""
    names: tuple[str, ...]
    """Of each group: the canonical one."""
    full_names: tuple[str, ...]
    """Of each group: as its first launch has it."""
    grids: tuple[Dim3, ...]
    blocks: tuple[Dim3, ...]
    registers: Ints
    """Of each group's first launch: registers of a thread; -1 where they were not read."""
    shared_bytes: Ints
    """Of each group's first launch: shared memory of a block; -1 where it was not read."""
    launches: Ints
    total_ns: Ints
    before: Positions
    """Of each launch: the group of the kernel that it follows at once; -1 where there is none."""
    after: Positions
    """Of each launch: the group of the kernel that follows it at once; -1 where there is none."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def mean_ns(self) -> Floats:
        """How long a launch of each group runs."""
        return self.total_ns / np.maximum(self.launches, 1)

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
        elif metric in (GpuMetric.DRAM_READ, GpuMetric.DRAM_WRITE):
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


def _alike(*keys: NDArray[Any]) -> tuple[Positions, Positions]:
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
    rows = kernels.only("name", "grid", "block").where(ran)
    _, name = trace.strings.kinds(rows.codes("name"), lambda name: parse(name).canonical)
    first, number = _alike(name, *(rows[shape][:, axis] for shape in ("grid", "block") for axis in range(3)))
    full_names = tuple(trace.strings.text(code) or "" for code in rows.codes("name")[first].tolist())
    grids, blocks = (tuple(tuple(shape) for shape in rows[side][first].tolist()) for side in ("grid", "block"))
    length = rows["end_ns"] - rows["start_ns"]
    return LaunchGroups(
        np.flatnonzero(ran),
        rows["start_ns"],
        rows["end_ns"],
        number,
        tuple(parse(name).canonical for name in full_names),
        full_names,
        grids,
        blocks,
        *_resources(kernels, np.flatnonzero(ran)[first]),
        np.bincount(number, minlength=len(first)),
        np.bincount(number, length, minlength=len(first)).astype(np.int64),
        *_neighbours(rows, number),
    )


def _resources(kernels: Rows, chosen: Positions) -> tuple[Ints, Ints]:
    """Registers of a thread and shared memory of a block; a report does not read them."""
    columns = ("registers", "smem_static_bytes", "smem_dynamic_bytes")
    if any(column not in kernels for column in columns):
        return np.full(len(chosen), -1), np.full(len(chosen), -1)
    registers, fixed, asked = (kernels[column][chosen].astype(np.int64) for column in columns)
    return registers, fixed + asked


def _neighbours(rows: Rows, number: Positions) -> tuple[Positions, Positions]:
    """The groups before and after each launch, where the GPU went on at once."""
    order = np.argsort(rows["start_ns"], kind="stable")
    close = rows["start_ns"][order[1:]] - furthest(rows["end_ns"][order])[:-1] < _CLOSE_NS
    before, after = (np.full(len(order), -1) for _ in range(2))
    before[order[1:][close]] = number[order[:-1][close]]
    after[order[:-1][close]] = number[order[1:][close]]
    return before, after

"""The forwards of an operation: positions of kernels in, their columns out, by forward.

A forward is one run of the operation: a sequence of kernels. Where kernels of a forward overlap, an instant belongs to
the one that started first, so their own times add up to the time in which any of them ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.catalog.kernel_names import parse
from gpuledger.ledger.device import Device
from gpuledger.trace.kernel_report import Dim3
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, furthest, shares_in_order
from gpuledger.trace.tables import NOT_RECORDED, Table


@lru_cache(maxsize=65536)
def bare(name: str) -> str:
    """A kernel's name in the form by which both sides are compared; made once, as it takes time."""
    return parse(name).bare


@dataclass(frozen=True, slots=True)
class ForwardKernel:
    """One kernel of a forward. None: the profile does not say."""

    name: str
    time_ns: int
    """Its own part of the time in which kernels of the forward ran."""
    grid: Dim3 | None = None
    block: Dim3 | None = None
    stream: int | None = None
    in_graph: bool | None = None

    @property
    def bare(self) -> str:
        return bare(self.name)

    @property
    def shape(self) -> tuple[Dim3, Dim3] | None:
        """Grid and block."""
        return None if self.grid is None or self.block is None else (self.grid, self.block)


@dataclass(frozen=True)
class Forwards:
    """All forwards of an operation on one GPU, as columns of their kernels: by forward, then by start."""

    profile: str
    gpu_name: str
    rank: int | None
    forward: Ints
    """The forward of each kernel, numbered from 0."""
    start_ns: Ints
    end_ns: Ints
    name: Ints
    """Position in `names`."""
    names: tuple[str, ...]
    grid: NDArray[np.int32]
    block: NDArray[np.int32]
    stream: Ints
    in_graph: NDArray[np.bool_]
    step: Ints
    """The step of each forward."""
    found_by: str
    """What the steps were found by; empty where there are none."""

    def __len__(self) -> int:
        return len(self.step)

    @cached_property
    def first(self) -> Positions:
        """Where each forward's kernels begin, and where the last one's end."""
        return np.searchsorted(self.forward, np.arange(len(self) + 1))

    @cached_property
    def own_ns(self) -> Ints:
        """Each kernel's own part of its forward."""
        start, end = self._apart
        own_start, own_end = shares_in_order(start, end)
        return own_end - own_start

    @cached_property
    def gap_ns(self) -> Ints:
        """How long nothing of the forward ran before each kernel; 0 before the first."""
        start, end = self._apart
        gap = np.maximum(start - np.append(start[:1], furthest(end)[:-1]), 0)
        gap[self.first[:-1]] = 0
        return gap

    @cached_property
    def _apart(self) -> tuple[Ints, Ints]:
        """The times with the forwards moved so far apart that none overlaps another."""
        length = int(self.end_ns.max()) - int(self.start_ns.min()) + 1
        return self.start_ns + length * self.forward, self.end_ns + length * self.forward

    @cached_property
    def gpu_ns(self) -> Ints:
        """How long kernels of each forward ran."""
        return np.add.reduceat(self.own_ns, self.first[:-1])

    @cached_property
    def compute_ns(self) -> Ints:
        """The same without communication."""
        talks = np.array([family(name) == COMMUNICATION for name in self.names], np.bool_)
        return np.add.reduceat(np.where(talks[self.name], 0, self.own_ns), self.first[:-1])

    @cached_property
    def elapsed_ns(self) -> Ints:
        """From each forward's first start to its last end."""
        ends = np.maximum.reduceat(self.end_ns, self.first[:-1])
        return ends - self.start_ns[self.first[:-1]]

    @cached_property
    def place(self) -> Positions:
        """Which of its step's forwards each one is."""
        return np.arange(len(self)) - np.searchsorted(self.step, self.step)

    @cached_property
    def bare(self) -> tuple[str, ...]:
        return tuple(map(bare, self.names))

    def sequence(self, number: int) -> tuple[str, ...]:
        """The bare names of a forward's kernels."""
        names = self.name[self.first[number] : self.first[number + 1]]
        key = names.tobytes()
        if key not in self._sequences:
            self._sequences[key] = tuple(self.bare[code] for code in names.tolist())
        return self._sequences[key]

    @cached_property
    def _sequences(self) -> dict[bytes, tuple[str, ...]]:
        """Those asked for, each made once: there are many forwards and few sequences."""
        return {}

    def kernels(self, number: int) -> tuple[ForwardKernel, ...]:
        """A forward's kernels in order."""
        return tuple(self._kernel(position) for position in range(int(self.first[number]), int(self.first[number + 1])))

    def _kernel(self, position: int) -> ForwardKernel:
        return ForwardKernel(
            self.names[int(self.name[position])],
            int(self.own_ns[position]),
            triple(self.grid[position]),
            triple(self.block[position]),
            int(self.stream[position]),
            bool(self.in_graph[position]),
        )


def triple(values: NDArray[np.int32]) -> Dim3 | None:
    """Grid or block; None where it was not recorded."""
    x, y, z = (int(value) for value in values)
    return None if x == NOT_RECORDED else (x, y, z)


def gathered(trace: Trace, device: Device, profile: str, kernel: Positions, forward: Positions) -> Forwards:
    """Forwards from the positions of their kernels in `device.work`, and for each kernel any number of its forward."""
    work, kernels = device.work, trace[Table.KERNELS]
    begins = np.full(int(forward.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begins, forward, work.start_ns[kernel])
    used = np.unique(forward)
    number = np.empty(len(begins), np.intp)
    number[used[np.argsort(begins[used], kind="stable")]] = np.arange(len(used))
    order = np.lexsort((work.stream[kernel], work.start_ns[kernel], number[forward]))
    kernel, forward = kernel[order], number[forward[order]]
    rows = kernels.at(work.row[kernel])
    codes, name = np.unique(work.name[kernel], return_inverse=True)
    steps = device.steps
    begin = work.start_ns[kernel[np.searchsorted(forward, np.arange(len(used)))]]
    step = np.zeros(len(used), np.int64) if steps is None else np.searchsorted(steps.edges_ns, begin, side="right") - 1
    gpus = trace.origin.gpus
    return Forwards(
        profile=profile,
        gpu_name=gpus[device.gpu].name if 0 <= device.gpu < len(gpus) else "",
        rank=trace.origin.rank,
        forward=forward,
        start_ns=work.start_ns[kernel],
        end_ns=work.end_ns[kernel],
        name=name.reshape(-1),
        names=tuple(trace.strings.text(code) or "" for code in codes.tolist()),
        grid=rows["grid"],
        block=rows["block"],
        stream=work.stream[kernel],
        in_graph=work.graph_node[kernel] >= 0,
        step=step,
        found_by="" if steps is None else steps.source,
    )

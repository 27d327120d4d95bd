"""Kernels that need not run, or that others do much faster: a device's steady kernels in, which and how long out.

All is told by names and by what follows what on a stream. Positions are of the activities that were given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.kernel_loops import steady_kernels
from gpuledger.catalog.gpu_peaks import peaks_of
from gpuledger.catalog.kernel_types import (
    BY_ELEMENT,
    MATRIX_FAMILIES,
    changes_layout,
    changes_type,
    copies_tensor,
    matrix_type,
    names_tensor_core_gpu,
    works_on_floats,
)
from gpuledger.ledger.activity import Activities
from gpuledger.ledger.device import Device
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Gpu, Trace
from gpuledger.trace.spans import Ints

ATTAINED: Final = 0.7
"""Of the ratio of two types' peaks, what kernels of the narrower type usually attain."""

USUALLY_FASTER: Final = 5.0
"""Of a GPU whose peaks are not known but whose kernels are made for tensor cores: V100s have the least, 5.6 times."""

LEAST_FASTER: Final = 2.0
"""Types whose peaks differ by less are not worth a change."""

MOSTLY: Final = 0.3
"""From this share of the kernels' time in a wide type on, the tensors are of that type: others would move half."""

NEAR: Final = 8
"""Attention's two products have at most so many kernels between them and the softmax: scales, masks, casts."""

FEWEST: Final = 3
"""A chain has so many kernels at least."""

LEAST_NS: Final = 5_000
"""Shorter kernels wait for their launch more than for memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Shortened:
    """Operations, and how long they would take; 0: they would not run."""

    operations: Positions
    duration_ns: Ints

    def __len__(self) -> int:
        return len(self.operations)


class BusyKernels:
    """What one device's steady kernels could do without."""

    def __init__(self, trace: Trace, device: Device, work: Activities) -> None:
        self._strings, self._work, self._gpu = trace.strings, work, _gpu(trace, device)
        self.operations: Final = steady_kernels(device, work)
        edges = device.ledger.window if device.steps is None else device.steps.edges_ns
        self._step = np.searchsorted(edges, work.start_ns[self.operations], side="right")
        self.took_ns: Final[Ints] = (work.end_ns - work.start_ns)[self.operations]

    # what a kernel's name says

    def named(self, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Which kernels have a name that passes a test."""
        return self._strings.each(self._work.name[self.operations], lambda name: test(name or ""), np.bool_)

    def of_families(self, families: frozenset[str]) -> NDArray[np.bool_]:
        """Which kernels are of one of these families."""
        chosen = np.array([family in families for family in self._work.families], np.bool_)
        return chosen[self._work.family[self.operations]]

    @cached_property
    def is_matrix(self) -> NDArray[np.bool_]:
        return self.of_families(MATRIX_FAMILIES)

    def gone(self, which: NDArray[np.bool_]) -> Shortened:
        """These do not run."""
        return Shortened(self.operations[which], np.zeros(np.count_nonzero(which), np.int64))

    # kernels that need not run as they do

    def narrower(self) -> Shortened:
        """Matrix kernels of single or double precision in bfloat16 on tensor cores, and what moves such tensors."""
        duration = self.took_ns.astype(np.float64)
        wide = np.zeros(len(duration), np.bool_)
        for kind in ("fp32", "fp64"):
            times = self._times_as_fast(kind)
            if times >= LEAST_FASTER:
                chosen = self.is_matrix & self.named(partial(_is_of, kind))
                duration[chosen] /= times
                wide |= chosen
        if self.took_ns[wide].sum() >= MOSTLY * self.took_ns.sum():
            moved = ~self.is_matrix & self.named(works_on_floats) & (self.took_ns >= LEAST_NS)
            duration[moved] /= 2
            wide |= moved
        return Shortened(self.operations[wide], np.rint(duration[wide]).astype(np.int64))

    def _times_as_fast(self, kind: str) -> float:
        """How many times as fast 16 bits are as a type; 0 where the GPU has no tensor cores, or is not known to."""
        peaks = NotMeasured("no GPU") if self._gpu is None else peaks_of(self._gpu)
        if isinstance(peaks, NotMeasured):
            return USUALLY_FASTER if self.named(names_tensor_core_gpu).any() else 0.0
        narrow = peaks.tera.get("bf16", peaks.tera.get("fp16", 0.0))
        return ATTAINED * narrow / peaks.plain[kind] if kind in peaks.plain else 0.0

    def between_products(self) -> Shortened:
        """What lies between attention's two products: scales, masks, the softmax, casts of all scores."""
        products, softmax = self.of_families(frozenset({"gemm"})), self.of_families(frozenset({"softmax"}))
        places = np.flatnonzero(products)
        at = np.flatnonzero(softmax)
        if len(places) < 2 or not len(at):
            return self.gone(np.zeros(len(products), np.bool_))
        next_place = np.searchsorted(places, at)
        has_both = (next_place > 0) & (next_place < len(places))
        at, next_place = at[has_both], next_place[has_both]
        before, after = places[next_place - 1], places[next_place]
        near = (at - before <= NEAR) & (after - at <= NEAR) & self._are_together(before, after)
        edges = np.zeros(len(products) + 1, np.int64)
        np.add.at(edges, before[near] + 1, 1)
        np.add.at(edges, after[near], -1)
        return self.gone(np.cumsum(edges[:-1]) > 0)

    def _are_together(self, first: Positions, last: Positions) -> NDArray[np.bool_]:
        """Which two kernels are of one stream and of one step."""
        stream = self._work.stream[self.operations]
        together: NDArray[np.bool_] = (stream[first] == stream[last]) & (self._step[first] == self._step[last])
        return together

    def layouts(self) -> Shortened:
        """Kernels that only change a layout."""
        return self.gone(self.named(changes_layout))

    def copies(self) -> Shortened:
        """Kernels that only copy within the GPU."""
        return self.gone(self.named(copies_tensor))

    def chains(self) -> Shortened:
        """Of kernels by element that follow each other, all but the longest: one would read and write once.

        Casts are part of a chain, but are told by themselves.
        """
        linked = self.of_families(BY_ELEMENT) & ~self.named(copies_tensor) & (self.took_ns >= LEAST_NS)
        member = linked & ~self.named(changes_type)
        goes_on = np.append(
            False, linked[:-1] & self._are_together(np.arange(len(linked) - 1), np.arange(1, len(linked)))
        )
        chain = np.cumsum(linked & ~goes_on)
        count = np.bincount(chain[member], minlength=chain[-1] + 1 if len(chain) else 0)
        order = np.flatnonzero(member & (count[chain] >= FEWEST))
        order = order[np.lexsort((-self.took_ns[order], chain[order]))]
        longest = np.unique(chain[order], return_index=True)[1]
        gone = np.zeros(len(member), np.bool_)
        gone[np.delete(order, longest)] = True
        return self.gone(gone)


def _gpu(trace: Trace, device: Device) -> Gpu | None:
    return trace.origin.gpu(device.gpu)


def _is_of(kind: str, name: str) -> bool:
    return matrix_type(name) == kind

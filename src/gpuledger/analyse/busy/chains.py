"""Chains of kernels by element, each of which reads what the last one wrote: one kernel would read and write once.

How long it would take is told by the chain itself. Its kernels' names say how many tensors they move, and of what type:
the fused kernel moves as many as the one that moves the most, of the narrowest type, at the pace of the fastest; once
more for each further sum, which needs all that comes before it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.busy.optimizer import are_updates
from gpuledger.analyse.busy.precision import are_double
from gpuledger.analyse.busy.steady import LEAST_NS, Mask, Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import BY_ELEMENT, is_multi_tensor, only_moves

FEWEST: Final = 3
"""A chain has so many kernels at least; copies and casts between them do not count, but go."""

ALIKE: Final = 4
"""A chain goes through one tensor: where the number of elements changes by more, another begins."""


def fused(kernels: SteadyKernels) -> Shortened:
    """Of each chain one kernel runs."""
    linked = kernels.of_families(BY_ELEMENT) & ~kernels.named(is_multi_tensor) & ~are_updates(kernels)
    linked &= ~are_double(kernels)  # told by themselves
    chain = _chains(kernels, linked)
    count = int(chain.max(initial=-1)) + 1
    place = np.flatnonzero(linked)
    number, took = chain[place], kernels.took_ns[place]
    long = (took >= LEAST_NS) & ~kernels.named(only_moves)[place]
    members = np.bincount(number[long], minlength=count)
    total, one = np.bincount(number, took, minlength=count), _one_kernel_ns(kernels, place, number, count)
    chosen = (members >= FEWEST) & (one < total)
    which = np.zeros(len(kernels), np.bool_)
    which[place] = chosen[number]
    duration = np.zeros(len(kernels))
    longest = _longest(number, took, count)
    duration[place[longest]] = one
    return kernels.taking(which, duration)


def _chains(kernels: SteadyKernels, linked: Mask) -> NDArray[np.int64]:
    """The number of each linked kernel's chain; -1 for the others."""
    begins = linked & (np.append(True, ~linked[:-1]) | (np.diff(kernels.part, prepend=-1) != 0))
    run = np.cumsum(begins)
    breaks = begins | _changes_size(kernels, linked, run)
    return np.where(linked, np.cumsum(breaks & linked) - 1, -1)


def _changes_size(kernels: SteadyKernels, linked: Mask, run: NDArray[np.int64]) -> Mask:
    """Where a kernel goes through much more or much less than the last one of its run whose size is known."""
    known = np.flatnonzero(linked & (kernels.elements > 0) & (kernels.took_ns >= LEAST_NS))
    size = kernels.elements[known]
    differs = (size[1:] > ALIKE * size[:-1]) | (size[:-1] > ALIKE * size[1:])
    changes = np.zeros(len(kernels), np.bool_)
    changes[known[1:][differs & (run[known[1:]] == run[known[:-1]])]] = True
    return changes


def _one_kernel_ns(
    kernels: SteadyKernels, place: NDArray[np.int64], number: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """How long one kernel in place of each chain takes: by what it moves, else as long as the chain's longest."""
    took = kernels.took_ns[place].astype(np.float64)
    longest = np.zeros(count)
    np.maximum.at(longest, number, took)
    tensors, narrow, moved = (
        kernels.of_elements(figure)[place]
        for figure in (lambda one: one.tensors, lambda one: one.element_bytes, lambda one: one.bytes_moved)
    )
    sums = kernels.of_families(frozenset({"reduction"}))[place]
    passes = np.maximum(np.bincount(number[sums], minlength=count), 1)
    known = np.flatnonzero((moved > 0) & (narrow > 0) & (took >= LEAST_NS) & (kernels.elements[place] > 0))
    size, of = kernels.elements[place[known]], number[known]
    pace, width, bytes_each, most = np.full(count, np.inf), np.zeros(count), np.full(count, 8.0), np.zeros(count)
    np.minimum.at(pace, of, took[known] / (moved[known] * size))
    np.maximum.at(width, of, tensors[known])
    np.minimum.at(bytes_each, of, narrow[known])
    np.maximum.at(most, of, size)
    has_pace = np.isfinite(pace)
    one = np.where(has_pace, pace, 0.0) * width * bytes_each * most * passes
    return np.where(has_pace, one, longest)


def _longest(number: NDArray[np.int64], took: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where each chain's longest kernel is."""
    order = np.lexsort((-took, number))
    first = np.searchsorted(number[order], np.arange(count))
    return order[first]

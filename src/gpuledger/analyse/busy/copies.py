"""Tensors that are copied within the GPU: the kernels that copy, and what doing without costs those who read the copy.

A kernel by element that reads a view instead of a copy takes about as long as the copy took: both compute where each
element lies, which over contiguous memory is not needed. Products and attention take views as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import Mask, Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import BY_ELEMENT, copies_tensor
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints

READS_VIEW: Final = 1.1
"""What a kernel by element that reads a view takes, of what copying the view takes (H200)."""

ALIKE: Final = 4
"""Tensors whose numbers of elements differ by more are not one another's copy."""


def views(kernels: SteadyKernels) -> Shortened:
    """Kernels that only copy do not run; those by element that read a copy take as long as it took, at least."""
    copies = kernels.named(copies_tensor)
    reader, copy = _readers(kernels, copies)
    duration = np.zeros(len(kernels))
    np.maximum.at(duration, reader, np.maximum(kernels.took_ns[reader], READS_VIEW * kernels.took_ns[copy]))
    which = copies.copy()
    which[reader] = True
    return kernels.taking(which, duration)


def _readers(kernels: SteadyKernels, copies: Mask) -> tuple[Positions, Positions]:
    """Kernels that go through contiguous tensors right after copies, and the copy that each of them reads.

    The first reads the first copy: `silu(gate.contiguous()) * up.contiguous()` is copy, copy, silu, product.
    """
    by_element = kernels.of_families(BY_ELEMENT)
    is_reader = by_element & ~copies & (kernels.of_elements(lambda kernel: kernel.is_vectorized) > 0)
    is_slow = copies & (kernels.elements > 0)
    run = np.cumsum(np.diff(kernels.part, prepend=-1) != 0) + np.cumsum(~by_element)
    order_of_copy, order_of_reader = _order_in_run(run, is_slow), _order_in_run(run, is_reader)
    copy, reader = np.flatnonzero(is_slow), np.flatnonzero(is_reader)
    width = int(max(order_of_copy.max(initial=0), order_of_reader.max(initial=0))) + 1
    _, of_reader, of_copy = np.intersect1d(
        run[reader] * width + order_of_reader[reader], run[copy] * width + order_of_copy[copy], return_indices=True
    )
    reader, copy = reader[of_reader], copy[of_copy]
    sizes = kernels.elements
    fits = (reader > copy) & (sizes[reader] <= ALIKE * sizes[copy]) & (sizes[copy] <= ALIKE * sizes[reader])
    return reader[fits], copy[fits]


def _order_in_run(run: Ints, chosen: Mask) -> Ints:
    """How many of the chosen lie before each position in its run."""
    before: Ints = np.cumsum(chosen) - chosen
    starts = np.flatnonzero(np.diff(run, prepend=-1) != 0)
    order: Ints = before - np.repeat(before[starts], np.diff(np.append(starts, len(run))))
    return order

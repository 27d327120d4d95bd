"""Parameters that are updated one by one, in many passes over memory: a fused optimizer reads and writes them once.

Adam is told by its last pass, a division; other updates by the same few kernels by element over and over.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import Mask, Shortened, SteadyKernels
from gpuledger.analyse.kernel_loops import kernel_loops
from gpuledger.catalog.kernel_types import BY_ELEMENT, copies_tensor, ends_adam_update, is_multi_tensor
from gpuledger.trace.keys import Positions

FEWEST_ROUNDS: Final = 6
"""The same kernels so many times in a row are a loop over tensors."""

LEAST_TENSORS: Final = 2.5
"""What the passes of an update move on average: gradients and moments come in. Chains over one tensor move two."""

ADAM_KERNELS, MOST_ADAM_KERNELS = 8, 16
"""PyTorch's passes for one parameter, and the most that are taken for one."""

FUSED_PACE: Final = {2: 1.4, 4: 1.2}
ADAM_PACE: Final = {2: 1.87, 4: 1.3}
"""How many times as long fused optimizers of PyTorch take for a byte as single passes do, by the bytes of an element:
SGD with momentum, and Adam, which computes more (H200; SGD in float32 was not measured)."""


def updates(kernels: SteadyKernels) -> tuple[Positions, Positions, Mask]:
    """Of each update of a parameter, where its passes begin and where the next kernel is; which of them are Adam's."""
    single = kernels.of_families(BY_ELEMENT) & ~kernels.named(is_multi_tensor) & ~kernels.named(copies_tensor)
    last = np.flatnonzero(single & kernels.named(ends_adam_update))
    length = np.diff(last, prepend=-1)
    usual = int(np.median(length[1:])) if len(last) > 1 else ADAM_KERNELS
    is_first = (length > MOST_ADAM_KERNELS) | (np.diff(kernels.part[last], prepend=-1) != 0)
    length[is_first] = min(usual, MOST_ADAM_KERNELS)
    begin, end = np.maximum(last - length + 1, 0), last + 1
    are_adam = np.zeros(len(kernels), np.bool_)
    for first, behind in zip(begin.tolist(), end.tolist(), strict=True):
        are_adam[first:behind] = True
    others = single & ~are_adam
    parts = np.where(others, kernels.part, -np.arange(1, len(kernels) + 1))
    tensors = kernels.of_elements(lambda kernel: kernel.tensors)
    loops = [
        loop
        for loop in kernel_loops(kernels.names, parts, FEWEST_ROUNDS)
        if loop.period > 1 and tensors[loop.start : loop.end].mean() >= LEAST_TENSORS
    ]
    rounds = [np.arange(loop.start, loop.end - loop.period + 1, loop.period) for loop in loops]
    more = np.concatenate([begin[:0], *rounds])
    periods = np.repeat([loop.period for loop in loops], [len(starts) for starts in rounds]).astype(np.int64)
    is_adam = np.arange(len(begin) + len(more)) < len(begin)
    return np.concatenate((begin, more)), np.concatenate((end, more + periods)), is_adam


def fused_updates(kernels: SteadyKernels) -> Shortened:
    """Of each update one pass is left, which takes its share of a fused one.

    An update moves two tensors, and one more for each that a pass takes in besides; single passes move many twice.
    """
    begin, end, is_adam = updates(kernels)
    which, duration = np.zeros(len(kernels), np.bool_), np.zeros(len(kernels))
    tensors, narrow = (
        kernels.of_elements(figure) for figure in (lambda one: one.tensors, lambda one: one.element_bytes)
    )
    for first, behind, adam in zip(begin.tolist(), end.tolist(), is_adam.tolist(), strict=True):
        passes = tensors[first:behind]
        known = passes[passes > 0]
        if not len(known):
            continue
        share = (2 + np.maximum(known - 2, 0).sum()) / known.sum()
        pace = (ADAM_PACE if adam else FUSED_PACE)[2 if narrow[first:behind].max() <= 2 else 4]
        which[first:behind] = True
        duration[first] = kernels.took_ns[first:behind].sum() * min(share * pace, 1.0)
    return kernels.taking(which, duration)


def are_updates(kernels: SteadyKernels) -> Mask:
    """Which kernels are passes of an update."""
    which = np.zeros(len(kernels), np.bool_)
    for first, behind in zip(*(side.tolist() for side in updates(kernels)[:2]), strict=True):
        which[first:behind] = True
    return which

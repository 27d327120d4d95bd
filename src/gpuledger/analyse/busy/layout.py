"""Tensors that change their layout on the way: the kernels that do it, and batch norms that suffer from it."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.busy.steady import Shortened, SteadyKernels
from gpuledger.catalog.kernel_types import changes_layout, wants_channels_first

CHANNELS_LAST: Final = {
    "batch_norm_backward_kernel": 0.30,
    "batch_norm_collect_statistics_kernel": 0.56,
    "batch_norm_transform_input_kernel": 0.57,
}
"""What PyTorch's own batch norm takes with the channels last, of its time with the channels first (a ResNet-50 on an
H200): the channels of a pixel lie together, and all threads read what lies side by side."""


def one_layout(kernels: SteadyKernels) -> Shortened:
    """Kernels that only change a layout do not run, and batch norms are those of channels last.

    None where group norms run: PyTorch's want the channels first, and copy all that comes otherwise.
    """
    which = kernels.named(changes_layout)
    duration = np.zeros(len(kernels))
    if kernels.named(wants_channels_first).any():
        return kernels.gone(np.zeros(len(kernels), np.bool_))
    if which.any():
        for name, share in CHANNELS_LAST.items():
            norms = kernels.named(partial(_has, name))
            duration[norms] = share * kernels.took_ns[norms]
            which |= norms
    return kernels.taking(which, duration)


def _has(part: str, name: str) -> bool:
    return part in name

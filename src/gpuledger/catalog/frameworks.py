"""Which framework a program is written in, by the names of its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final


class Framework(Enum):
    """What people change where something is to run otherwise."""

    TENSORRT = auto()
    JAX = auto()
    TORCH = auto()
    CUDA = auto()


_NAMES: Final = {
    Framework.TENSORRT: re.compile(r"myelin|^trt_|genericReformat|nvinfer", re.IGNORECASE),
    Framework.JAX: re.compile(r"^(?:loop|input|wrapped|gemm)_\w*fusion|^fusion(?:_\d+)?$|^wrapped_|xla", re.IGNORECASE),
    Framework.TORCH: re.compile(r"at::(?:native|cuda)|at_cuda_detail|pytorch|c10::|^triton_(?:poi|red|per|tem)_"),
}
"""The first whose names occur: TensorRT and JAX bring no kernels of PyTorch's along, but may be called from it."""


def framework_of(names: Iterable[str]) -> Framework:
    """CUDA, where no framework's kernels are among these."""
    all_names = tuple(names)
    for framework, pattern in _NAMES.items():
        if any(pattern.search(name) for name in all_names):
            return framework
    return Framework.CUDA

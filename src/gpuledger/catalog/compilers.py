"""Who compiles while a program runs, by the Python function or the range that it does so in.

Only what runs while something is compiled: what merely calls a compiled function (`compile_wrapper`, Triton's `run`) is
on the way of every launch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gpuledger.regex import regex
from gpuledger.trace.strings import torch_frame


class Compiler(StrEnum):
    """What makes code, or a graph, that a program then runs."""

    CUDA_GRAPHS = "CUDA graphs"
    TRITON = "Triton"
    TORCH = "torch.compile"
    XLA = "XLA"
    OTHER = "another compiler"

    @property
    def number(self) -> int:
        """Its position among them, which is how columns hold it."""
        return COMPILERS.index(self)


COMPILERS: Final = tuple(Compiler)

NOBODY: Final = -1

_PATTERNS: Final = (
    (Compiler.CUDA_GRAPHS, regex(r"^(?:graph\.__\w+__|(?:CUDAGraph\.)?capture_\w+) \(torch/cuda/graphs\.py:")),
    (
        Compiler.TORCH,
        regex(
            r"\(torch/_dynamo/(?:convert_frame|symbolic_convert|output_graph)\.py:|\(dynamo_timed\)$"
            r"|\(torch/_inductor/(?:compile_fx|scheduler|graph|async_compile)\.py:"
        ),
    ),
    (
        Compiler.TRITON,
        regex(r"^(?:compile|make_[a-z]+|(?:\w+\.)?_?bench\w*) \(triton/|\(triton/compiler/code_generator\.py:"),
    ),
    (
        Compiler.XLA,
        regex(r"\(jax/_src/(?:compiler|interpreters/(?:mlir|pxla|partial_eval))\.py:|^backend_compile|^XlaCompile"),
    ),
    (Compiler.OTHER, regex(r"\((?:numba/core/compiler|cupy/cuda/compiler|torch/utils/cpp_extension)\.py:")),
)
"""Frames as samples have them and torch's are told; ranges as their libraries call them."""

KERNEL_OF_INDUCTOR: Final = regex(r"^triton_")
"""Kernels that torch.compile generates; those that people write in Triton are called as they like."""


def compiler_in(name: str) -> int:
    """Who compiles in a frame or a range, by number; NOBODY in most."""
    frame = torch_frame(name)
    return next((compiler.number for compiler, known in _PATTERNS if known.search(frame)), NOBODY)

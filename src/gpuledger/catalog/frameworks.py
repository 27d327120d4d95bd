"""What a program is written in: a trace in, its framework out, told by names that only this framework gives.

Asked in this order, until one answers: what its kernels are called, with NVTX domains, processes and the profiler's own
tables; then the names of its ranges; then the frames of its stacks. A word of the user's own making proves nothing, so
only prefixes, namespaces and files of the frameworks themselves count. Most tests are plain words in one long text: a
trace has thousands of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from gpuledger.catalog.gpus import AMD
from gpuledger.trace.model import Origin, Trace
from gpuledger.trace.tables import Table


class Framework(Enum):
    """What people change where something is to run otherwise."""

    TENSORRT = auto()
    SGLANG = auto()
    VLLM = auto()
    TENSORFLOW = auto()
    JAX = auto()
    COMPILED = auto()
    """PyTorch, with `torch.compile`."""
    TRITON = auto()
    """PyTorch, with kernels written in Triton."""
    TORCH = auto()
    LLAMA = auto()
    CUPY = auto()
    NUMBA = auto()
    JULIA = auto()
    OPENACC = auto()
    OPENMP = auto()
    CUDA = auto()
    """C++ or Fortran of the user's own."""
    HIP = auto()
    """The same for AMD."""
    ANY = auto()
    """Not known: what is said has to hold for all."""


BASE: Final[Mapping[Framework, Framework]] = dict.fromkeys(
    (Framework.COMPILED, Framework.TRITON, Framework.VLLM, Framework.SGLANG), Framework.TORCH
)
"""Whose words hold as well."""


def is_torch(framework: Framework) -> bool:
    """Whether PyTorch's words are the program's."""
    return BASE.get(framework, framework) is Framework.TORCH


class Signs(Struct, frozen=True):
    """Words that prove a framework; a line break stands for where a name begins or ends."""

    kernels: tuple[str, ...] = ()
    pattern: str = ""
    """Searched where a kernel has one of `hints`."""
    hints: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    """Of NVTX."""
    programs: tuple[str, ...] = ()
    """How a process, or the first words of its command, may begin."""
    tables: tuple[str, ...] = ()
    """How a table of the profiler's may begin."""
    ranges: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()


SIGNS: Final[Mapping[Framework, Signs]] = {
    Framework.TENSORRT: Signs(
        kernels=("myelin", "\ntrt_", "genericReformat", "nvinfer"), domains=("TensorRT",), programs=("trtexec",)
    ),
    Framework.SGLANG: Signs(
        kernels=("sglang::", "sgl_kernel", "sgl_hip"),
        programs=("sglang",),
        ranges=("sglang/srt/", "sgl_kernel::", "\nsglang::"),
        frames=("(sglang/",),
    ),
    Framework.VLLM: Signs(
        kernels=("vllm::",), programs=("VLLM::", "vllm"), ranges=("vllm/", "vllm::", "_vllm_fa"), frames=("(vllm/",)
    ),
    Framework.TENSORFLOW: Signs(
        kernels=("tensorflow::", "EigenMetaKernel"),
        domains=("tensorflow",),
        ranges=("\ntensorflow/",),
        frames=("(tensorflow/",),
    ),
    Framework.JAX: Signs(
        kernels=("xla::", "__xla", "\nwrapped_"),
        pattern=r"^(?:loop|input|wrapped|gemm)_\w*fusion|^fusion(?:_\d+)?$",
        hints=("fusion",),
        domains=("TSL",),
        ranges=("\nTSL:", "\nXlaModule:", "\nPjitFunction("),
        frames=("(jax/", "(jaxlib/"),
    ),
    Framework.COMPILED: Signs(
        kernels=("\ntriton_poi_", "\ntriton_red_", "\ntriton_per_", "\ntriton_tem_", "\ntriton_for_"),
        ranges=("Torch-Compiled Region", "CompiledFxGraph"),
        frames=("(torch/_inductor/",),
    ),
    Framework.TRITON: Signs(kernels=("_0d1d", "_0d1c"), ranges=("triton/runtime/jit.py",)),
    Framework.TORCH: Signs(
        kernels=("at::native", "at::cuda", "at_cuda_detail", "c10::", "pytorch_flash", "torch::"),
        ranges=("\naten::", "\nProfilerStep#", "\nnn.Module: ", "\nautograd::engine", "torch/nn/", "\nOptimizer.step#"),
        frames=("(torch/", "torch::", "at::native"),
    ),
    Framework.LLAMA: Signs(
        kernels=("mul_mat_vec_q", "mul_mat_q<", "ggml_", "\nvoid k_bin_bcast", "quantize_q8_1", "quantize_mmq_q8_1"),
        programs=("llama-", "ggml-", "whisper-"),
    ),
    Framework.CUPY: Signs(kernels=("\ncupy_", "cupy::"), domains=("cupy",), frames=("(cupy/", "(cupyx/")),
    Framework.NUMBA: Signs(
        kernels=("cudapy::", "_ZN6cudapy", ", mutable, aligned>", ", mutable, 1, 0, aligned>"), frames=("(numba/",)
    ),
    Framework.JULIA: Signs(
        kernels=("CuKernelContext", "CuDeviceArray", "CuDeviceVector", "CuDeviceMatrix", "ROCDevice", "\njulia_"),
        programs=("julia",),
    ),
    Framework.OPENACC: Signs(pattern=r"^\w+_\d+_gpu(?:__red)?$", hints=("_gpu\n", "_gpu__red\n"), tables=("OPENACC",)),
    Framework.OPENMP: Signs(kernels=("\nnvkernel_", "__omp_offloading_", "_omp_fn$"), tables=("OPENMP",)),
}
"""The first that is proved. TensorRT, JAX and TensorFlow bring no kernels of PyTorch's along, but may be called from
it; PyTorch may call what stands below it."""

_OF_TORCH: Final = frozenset((Framework.SGLANG, Framework.VLLM, Framework.COMPILED, Framework.TRITON, Framework.TORCH))

_INTERPRETERS: Final = ("python", "pypy", "ipython", "pytest", "torchrun", "uv", "ray")


def framework_of(trace: Trace) -> Framework:
    """ANY, where neither a framework nor a program without one can be told."""
    strings, origin = trace.strings, trace.origin
    kernels = _lines(trace, Table.KERNELS, "name")
    domains, programs = _lines(trace, Table.RANGES, "domain"), _programs(origin)
    tables = tuple(name.upper() for name, count in origin.source_rows if count)
    proved = [
        framework
        for framework, signs in SIGNS.items()
        if _has(kernels, signs.kernels)
        or (_has(kernels, signs.hints) and re.search(signs.pattern, kernels, re.MULTILINE))
        or _has(domains, tuple(f"\n{domain}\n" for domain in signs.domains))
        or _begins(programs, signs.programs)
        or _begins(tables, signs.tables)
    ]
    by_torch = origin.tool == "torch.profiler"
    if not proved or by_torch or proved[0] is Framework.TORCH:  # its engines may run nothing but libraries' kernels
        names = _lines(trace, Table.RANGES, "name")
        proved += [framework for framework, signs in SIGNS.items() if _has(names, signs.ranges)]
    if not proved and len(trace.stacks):
        frames = "\n".join(strings.texts)
        proved = [framework for framework, signs in SIGNS.items() if _has(frames, signs.frames)]
    if by_torch:
        proved = [framework for framework in proved if framework in _OF_TORCH or framework is Framework.TENSORRT]
        proved.append(Framework.TORCH)
    if proved:
        return min(proved, key=list(SIGNS).index)
    return _without_framework(trace, programs)


def is_amd(trace: Trace) -> bool:
    """Whether the GPUs are AMD's: by what they are called, or by HIP's calls, as not every profile names its GPUs."""
    named = any(word in gpu.name for gpu in trace.origin.gpus for word in AMD)
    return named or "\nhip" in _lines(trace, Table.CALLS, "name")


def _without_framework(trace: Trace, programs: Sequence[str]) -> Framework:
    """A program of its own kernels and of libraries, unless an interpreter runs it: that has a framework, unseen."""
    if not programs or any(program.startswith(_INTERPRETERS) for program in programs):
        return Framework.ANY
    return Framework.HIP if is_amd(trace) else Framework.CUDA


_MOST_NAMES: Final = 2_000
"""So many names of a column are looked at: what a framework names, it names everywhere."""


def _lines(trace: Trace, table: Table, column: str) -> str:
    """The distinct texts of a column, each between line breaks."""
    rows = trace.tables.get(table)
    if rows is None or column not in rows:
        return ""
    texts = (*trace.strings.texts, "")  # NO_TEXT is -1, which indexes the last
    return "\n".join(("", *(texts[code] for code in trace.strings.distinct(rows.codes(column))[:_MOST_NAMES]), ""))


def _programs(origin: Origin) -> tuple[str, ...]:
    """What processes are called, without the folder; and what was started, where the profile says so."""
    named = [process.name for process in origin.processes if process.name]
    return tuple(name.replace("\\", "/").rpartition("/")[2] for name in (*named, *origin.private.command[:3]))


def _has(text: str, words: Iterable[str]) -> bool:
    return any(word in text for word in words)


def _begins(texts: Sequence[str], beginnings: tuple[str, ...]) -> bool:
    return bool(beginnings) and any(text.startswith(beginnings) for text in texts)

"""What to change, in the words of the program at hand: no other framework's, and nothing that its GPU cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from gpuledger import findings
from gpuledger.catalog.frameworks import BASE, Framework, framework_of
from gpuledger.errors import GpuledgerError
from gpuledger.findings.finding import Finding
from gpuledger.findings.fix_words import FixWords
from gpuledger.trace.model import Gpu
from gpuledger.verbs.report import build_report
from support.command import ROOT
from support.profiles.corpus import CORPUS
from support.profiles.opened import report_of, trace_of
from support.thorough import some
from support.traces.program import Program

WORDS = {
    Framework.TORCH: r"torch\.|TORCH_|PYTORCH|DataLoader|\.item\(\)|\.cpu\(\)|device=.cuda|non_blocking|pin_memory"
    r"|empty_cache|memory_format|`F\.|attn_implementation|\bforeach\b|GradScaler",
    Framework.VLLM: r"--async-scheduling|--enforce-eager",
    Framework.SGLANG: r"--disable-overlap-schedule|--disable-cuda-graph",
    Framework.JAX: r"\bjax|jnp\.|`lax\.|XLA_|donate_argnums|block_until_ready",
    Framework.TENSORFLOW: r"\btf\.|set_memory_growth|prefetch_to_device",
    Framework.TENSORRT: r"enqueueV3|trtexec|--bf16|--fp16|IOFormats",
    Framework.LLAMA: r"GGML|llama-|--flash-attn",
    Framework.CUPY: r"cupy|CUPY|CuPy|ElementwiseKernel",
    Framework.NUMBA: r"`@?cuda\.[a-z]|Numba|copy_to_host",
    Framework.JULIA: r"CUDA\.[@a-zA-Z]|@cuda |CuArray|Float32|Float16|`@\.`|@views|mul!",
    Framework.OPENACC: r"\bacc (?:data|wait|update)|-gpu=|gang vector|`async`",
    Framework.OPENMP: r"target (?:data|update)|`target`|nowait|teams distribute",
    Framework.CUDA: r"cuda[A-Z]\w+|cublas[A-Z]|CUDNN_|CUBLAS_|CUDA_MODULE|CUDA_R_",
    Framework.HIP: r"\bhip[A-Z]|hipblas",
}
"""What only programs of a framework have. `cudaMalloc` is called by all that run on NVIDIA's."""

BOTH = {
    (Framework.TORCH, Framework.CUDA),  # its own allocator is told from CUDA's
}
WORDED = [
    words
    for module in walk_packages(findings.__path__, f"{findings.__name__}.")
    for words in vars(import_module(module.name)).values()
    if isinstance(words, FixWords)
]


def foreign(framework: Framework, text: str) -> Iterator[str]:
    """Words of other frameworks in it."""
    base = BASE.get(framework, framework)
    for other, pattern in WORDS.items():
        if other not in (framework, base) and (base, other) not in BOTH and (match := re.search(pattern, text)):
            yield f"{match[0]} ({other.name}) for {framework.name}: {text}"


@pytest.mark.parametrize("framework", Framework)
def test_no_advice_is_in_the_words_of_another_framework(framework: Framework) -> None:
    said = [words.words(framework) for words in WORDED]
    assert [word for text in said for word in foreign(framework, text)] == []
    assert all((text[0].islower() or text[0] == "`" or text.startswith(("CuPy", "NumPy", "NHWC"))) for text in said)
    assert all(not text.endswith(".") and len(text) <= 150 for text in said)


def told(framework_kernels: Sequence[str], gpu: Gpu | None = None, us: int = 3) -> dict[str, Finding]:
    """What is said of steps that launch small kernels, read, write and wait in turn."""
    program = Program()
    for _ in range(12):
        with program.range("step"):
            for _ in range(30):
                for kernel in framework_kernels:
                    program.kernel(kernel, us, blocks=2)
            program.read()
            program.host(300)
            program.write()
    return {finding.code: finding for finding in build_report(program.trace(gpu), "x").findings}


KERNELS = {
    Framework.JAX: ("loop_add_fusion", "input_reduce_fusion"),
    Framework.TENSORFLOW: ("void tensorflow::BiasNHWCKernel<float>",),
    Framework.TENSORRT: ("void genericReformat::copyPackedKernel<float>",),
    Framework.LLAMA: ("void mul_mat_vec_q<(ggml_type)2, 1>", "void k_bin_bcast<op_add>"),
    Framework.CUPY: ("cupy_add__float32_float32_float32",),
    Framework.NUMBA: ("cudapy::__main__::add[abi:v1](Array<float, 1, C, mutable, aligned>)",),
    Framework.JULIA: ("_Z16broadcast_kernel15CuKernelContext13CuDeviceArray",),
    Framework.OPENACC: ("jacobi_45_gpu",),
    Framework.OPENMP: ("nvkernel_main_F1L45_2",),
    Framework.CUDA: ("step(float*, int)",),
    Framework.TORCH: ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",),
    Framework.COMPILED: ("triton_poi_fused_add_0",),
}


@pytest.mark.parametrize("framework", KERNELS)
def test_a_program_is_told_what_to_do_in_its_own_words(framework: Framework) -> None:
    found = told(KERNELS[framework])
    assert {"LAUNCH-BOUND", "HOST-SYNC"} & found.keys()
    for finding in found.values():
        for text in (finding.claim, finding.fix or "", finding.assumption):  # evidence names what was recorded
            assert list(foreign(framework, text)) == []
    fixes = " ".join(finding.fix or "" for finding in found.values())
    assert framework in (Framework.LLAMA,) or re.search(WORDS[BASE.get(framework, framework)], fixes)


CAPTURES = sorted(
    path
    for folder in ("nsys", "torch", "places", "serve")
    for path in (ROOT / "captures" / folder).glob("*")
    if path.name.endswith((".sqlite.xz", ".json.gz"))
)
PUBLISHED = sorted(path for path in CORPUS.parent.glob("*/*") if path.name.endswith((".sqlite.xz", ".json.gz")))


@pytest.mark.parametrize("path", some([*CAPTURES, *PUBLISHED], 3, first=1), ids=lambda path: path.name[-60:])
def test_nothing_is_said_of_a_profile_in_another_frameworks_words(path: Path) -> None:
    try:
        framework, findings = framework_of(trace_of(path)), report_of(path).findings
    except GpuledgerError:
        pytest.skip("no GPU work")
    said = [text for finding in findings for text in (finding.fix or "", finding.assumption)]
    assert [word for text in said for word in foreign(framework, text)] == []

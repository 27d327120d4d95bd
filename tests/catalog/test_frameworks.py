"""What a program is written in: names of each framework's own making, and names that prove nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuledger.catalog.compilers import NOBODY, Compiler, compiler_in
from gpuledger.catalog.frameworks import SIGNS, Framework, framework_of, is_amd, is_torch
from gpuledger.trace.model import Gpu, Process, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.traces.trace_notation import of_tables, table

TORCH = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
GEMM = "ampere_sgemm_128x64_tn"


def program(
    *kernels: str,
    domain: str = "",
    ranges: tuple[str, ...] = (),
    process: str | None = "./solve",
    gpu: str = "NVIDIA H200",
    command: tuple[str, ...] = (),
    tables: tuple[tuple[str, int], ...] = (),
    tool: str = "nsys",
) -> Trace:
    strings = Strings(dict.fromkeys((*kernels, domain, *ranges)))
    rows = {
        Table.KERNELS: table(
            Table.KERNELS,
            strings,
            len(kernels),
            start_ns=range(len(kernels)),
            end_ns=range(1, len(kernels) + 1),
            name=kernels,
        ),
        Table.RANGES: table(
            Table.RANGES,
            strings,
            len(ranges),
            start_ns=[0] * len(ranges),
            end_ns=[1] * len(ranges),
            name=ranges,
            domain=[domain] * len(ranges),
        ),
    }
    trace = of_tables(strings, rows, Gpu(gpu))
    private = replace(trace.origin.private, command=command)
    origin = replace(trace.origin, processes=(Process(0, process),), private=private, source_rows=tables, tool=tool)
    return replace(trace, origin=origin)


def test_a_gpu_without_a_name_is_amds_where_calls_are_hips() -> None:
    strings = Strings({"hipLaunchKernel": None})
    calls = table(Table.CALLS, strings, 1, start_ns=[0], end_ns=[1], name=["hipLaunchKernel"])
    assert is_amd(of_tables(strings, {Table.CALLS: calls}, Gpu("")))
    assert is_amd(program("hipcub::scan", gpu="AMD Radeon AI PRO R9700"))
    assert not is_amd(program("hipcub::scan"))


@pytest.mark.parametrize(
    ("trace", "framework"),
    [
        (program(GEMM, TORCH, process="python3"), Framework.TORCH),
        (program(GEMM, ranges=("aten::mm, op_id = 7",), process="python3"), Framework.TORCH),
        (program(GEMM, tool="torch.profiler", process=None), Framework.TORCH),
        (program(TORCH, "triton_poi_fused_add_0"), Framework.COMPILED),
        (program(TORCH, "add_kernel_0d1d2d3de"), Framework.TRITON),
        (program(TORCH, "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>"), Framework.VLLM),
        (program(TORCH, process="VLLM::EngineCore"), Framework.VLLM),
        (program(TORCH, ranges=("sglang/srt/managers/scheduler.py(12): run",)), Framework.SGLANG),
        (program(GEMM, "loop_add_fusion"), Framework.JAX),
        (program(GEMM, "input_reduce_fusion_3", TORCH), Framework.JAX),
        (program(GEMM, domain="TSL", ranges=("TSL:x",), process="python3"), Framework.JAX),
        (program("void tensorflow::BiasNHWCKernel<float>(int)", "loop_add_fusion"), Framework.TENSORFLOW),
        (program("void genericReformat::copyPackedKernel<float>", TORCH), Framework.TENSORRT),
        (program(GEMM, process="trtexec"), Framework.TENSORRT),
        (program("void mul_mat_vec_q<(ggml_type)2, 1>(void const*)", process="llama-cli"), Framework.LLAMA),
        (program("cupy_add__float32_float32_float32", process="python"), Framework.CUPY),
        (program("cudapy::__main__::add[abi:v1](Array<float, 1, C, mutable, aligned>)"), Framework.NUMBA),
        (program("_Z3add15CuKernelContext13CuDeviceArrayI7Float32"), Framework.JULIA),
        (program("gpu_axpy", process="/opt/julia/bin/julia"), Framework.JULIA),
        (program("jacobi_45_gpu", "jacobi_57_gpu__red"), Framework.OPENACC),
        (program("main", tables=(("OPENACC_LAUNCH_EVENTS", 3),)), Framework.OPENACC),
        (program("nvkernel_main_F1L45_2"), Framework.OPENMP),
        (program("__omp_offloading_10302_2a_main_l45"), Framework.OPENMP),
        (program("step(float*)"), Framework.CUDA),
        (program("step(float*)", gpu="AMD Instinct MI300X"), Framework.HIP),
        (program(GEMM, process="python3"), Framework.ANY),
        (program(GEMM, process=None), Framework.ANY),
        # words of the user's own making
        (program("torch_like(float*)", "image_fusion(float*)", "xla_free(int)", "my_gpu(int)"), Framework.CUDA),
        (program("step(float*)", ranges=("torch", "jax step", "vllm")), Framework.CUDA),
        (program(), Framework.CUDA),
    ],
)
def test_the_framework_of_a_program(trace: Trace, framework: Framework) -> None:
    assert framework_of(trace) is framework


def test_every_framework_with_signs_is_found_by_each_of_its_kernels_words() -> None:
    for framework, signs in SIGNS.items():
        for word in signs.kernels:
            found = framework_of(program(word.strip("\n") if word.startswith("\n") else f"x{word}"))
            assert found is framework, (framework, word, found)


def test_what_is_built_on_torch_speaks_its_words() -> None:
    assert is_torch(Framework.VLLM)
    assert is_torch(Framework.TORCH)
    assert not is_torch(Framework.JAX)
    assert not is_torch(Framework.ANY)


@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        ("torch/_dynamo/convert_frame.py(1234): __call__", Compiler.TORCH),
        ("_compile (torch/_dynamo/convert_frame.py:700)", Compiler.TORCH),
        ("torch/_dynamo/eval_frame.py(791): compile_wrapper", None),  # on the way of every call
        ("triton/compiler/compiler.py(481): run", None),  # of every launch
        ("compile (triton/compiler/compiler.py:230)", Compiler.TRITON),
        ("graph.__enter__ (torch/cuda/graphs.py:180)", Compiler.CUDA_GRAPHS),
        ("CUDAGraph.replay (torch/cuda/graphs.py:88)", None),
        ("compile_or_get_cached (jax/_src/compiler.py:411)", Compiler.XLA),
        ("XlaCompileBackend:#module=jit_step", Compiler.XLA),
        ("compile (train.py:12)", None),
        ("re.compile", None),
    ],
)
def test_only_what_compiles_is_a_compiler(name: str, compiler: Compiler | None) -> None:
    assert compiler_in(name) == (NOBODY if compiler is None else compiler.number)

"""A GPU that is busy with the wrong work: each fault in a program, and the program without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from gpuledger.analyse.wasted_work import ADAM_PACE, FEWEST, FEWEST_PRODUCTS, FUSED_PACE, NEAR, START_NS
from gpuledger.catalog.gpus import PEAKS
from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.trace.model import Gpu
from support.book_checks import analysed
from support.program import Program

STEPS, PROCESSORS = 8, 132
H200 = Gpu("NVIDIA H200", sm_count=PROCESSORS)


class Kernel(NamedTuple):
    name: str
    us: int
    blocks: int = 10_000


def torch_kernel(what: str, tensors: int, element: str = "c10::BFloat16", lanes: int = 8) -> str:
    pointers = f"std::array<char*, {tensors}ul>"
    return f"void at::native::vectorized_elementwise_kernel<{lanes}, at::native::{what}<{element}>, {pointers} >"


GEMV, NARROW_GEMV = "void gemv2T_kernel_val<int, float, float>", "void gemv2T_kernel_val<int, __nv_bfloat16, float>"
GEMM, NARROW = "ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm_bf16_128x64_tn"
TF32, DOUBLE = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_cublas", "sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_cublas"
ADD, MUL = torch_kernel("CUDAFunctor_add", 3), torch_kernel("AUnaryFunctor_mul", 2)
FLOATS, DOUBLES = torch_kernel("CUDAFunctor_add", 3, "float", 4), torch_kernel("sin_kernel", 2, "double", 2)
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, MeanOps<float> >"
OTHER = "void their::elementwise_kernel(float*)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16>"
LAYOUT = "void cudnn::nchwToNhwcKernel<__half, __half, float, false, true>"
LAYOUT_AMD = "batched_transpose_32x32_dword"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>"
GATHER = "void at::native::vectorized_gather_kernel<16, long>"
LOG_SOFTMAX = "void at::native::cunn_SoftMaxForward<4, c10::BFloat16, LogSoftMaxForwardEpilogue>"
NORM, GROUP_NORM = (
    "void at::native::batch_norm_backward_kernel<float>",
    "void at::native::RowwiseMomentsCUDAKernel<float>",
)
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>"
COPY = "void at::native::elementwise_kernel<128, 4, gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda> >"
SORT = "void cub::detail::radix_sort::DeviceSegmentedRadixSortKernel<policy_hub<float, long>::Policy1000, false>"
SORT_OF_FEW = "void at::native::radixSortKVInPlace<2, -1, 32, 4, float, long, unsigned int>"
TOP_K = "void at::native::mbtopk::gatherTopK<float, unsigned int, 2>"
CAST = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>"
ADAM = [
    *(MUL, torch_kernel("lerp_scalar_kernel", 3), MUL, torch_kernel("addcmul_kernel", 4), torch_kernel("sqrt", 2)),
    *(MUL, MUL, torch_kernel("addcdiv_kernel", 4)),
]


def told(kernels: Sequence[Kernel | tuple[str, int] | tuple[str, int, int]], gpu: Gpu = H200) -> dict[str, Finding]:
    """What is said of a program whose steps run these kernels, with a host that is far ahead."""
    program = Program()
    for _ in range(STEPS):
        with program.range("step"):
            for kernel in kernels:
                name, us, blocks = Kernel(*kernel)
                program.kernel(name, us, blocks=blocks)
    trace = program.trace(gpu)
    [device] = analysed(trace)
    return {finding.code: finding for finding in findings(trace, [device])}


[PEAK] = [peaks for peaks in PEAKS if peaks.name.search(H200.name)]
FASTER = 0.7 * PEAK.tera["bf16"] / PEAK.plain["fp32"]

Steps = Sequence[Kernel | tuple[str, int] | tuple[str, int, int]]
FAULTS: dict[str, tuple[str, Steps, float]] = {
    "float32": ("PRECISION", [(GEMM, 500), (FLOATS, 100)], 500 * (1 - 1 / FASTER) + 50),
    "float32 weights": ("PRECISION", [(GEMV, 500), (NARROW_GEMV, 100)], 250),
    "TF32": ("PRECISION", [(TF32, 500), (FLOATS, 100)], 250 + 50),
    "float64": ("PRECISION", [(DOUBLES, 100), (DOUBLE, 80), (NARROW, 500)], 50),
    "attention": (
        "ATTENTION-UNFUSED",
        [(COPY, 20), (NARROW, 100), (MUL, 50), (ADD, 60), (SOFTMAX, 90), (NARROW, 100), (COPY, 20), (GEMM[:4], 200)],
        240,
    ),
    "layout": ("LAYOUT", [(LAYOUT, 40), (NARROW, 300), (LAYOUT, 40), (NORM, 100)], 80 + 70),
    "layout on AMD": ("LAYOUT", [(LAYOUT_AMD, 40), (NARROW, 300), (LAYOUT_AMD, 40)], 80),
    "a concatenation": ("DEVICE-COPY", [(CAT, 90), (NARROW, 200)], 90),
    "a copy for a product": ("DEVICE-COPY", [(COPY, 90), (NARROW, 200)], 90),
    "a copy for a kernel by element": ("DEVICE-COPY", [(COPY, 200, 2000), (MUL, 80, 1000), (NARROW, 200)], 200 - 140),
    "a sort": ("FULL-SORT", [(SORT, 400), (SORT, 300), (NARROW, 500)], 0.8 * 700),
    "a chain": ("UNFUSED-CHAIN", [(NARROW, 300), (ADD, 60), (MUL, 50), (CAST, 60), (ADD, 60)], 60 + 50 + 60),
    "a chain with two sums": (
        "UNFUSED-CHAIN",
        [(NARROW, 300), (ADD, 60), (SUM, 50), (ADD, 60), (SUM, 50), (MUL, 40)],
        60 + 50 + 50 + 40 - 60,
    ),
    "a chain with copies": ("UNFUSED-CHAIN", [(NARROW, 300), (MUL, 40), (CAT, 30), (MUL, 40), (ADD, 60)], 40 + 30 + 40),
    "a chain of unknown kernels": ("UNFUSED-CHAIN", [(NARROW, 300), (OTHER, 30), (OTHER, 50), (OTHER, 40)], 70),
    "Adam": (
        "OPTIMIZER-UNFUSED",
        [(NARROW, 300), *[(name, 20) for name in ADAM] * 3],
        3 * 8 * 20 * (1 - 7 / 21 * ADAM_PACE[2]),
    ),
    "SGD": (
        "OPTIMIZER-UNFUSED",
        [(NARROW, 900), *[(ADD, 30), (MUL, 20), (ADD, 30), (ADD, 30)] * 8],
        8 * 110 * (1 - 5 / 11 * FUSED_PACE[2]),
    ),
    "products in a loop": (
        "GEMM-LOOP",
        [*[(NARROW, 10, 66)] * 16, (ADD, 40)],
        16 * 10 - START_NS / 1000 - 16 * (10 - START_NS / 1000) * 66 / PROCESSORS,
    ),
    "one block": ("UNDER-FILLED", [(SOFTMAX, 100, 1), (NARROW, 200)], (100 - START_NS / 1000) * (1 - 1 / PROCESSORS)),
}
"""The code, what runs in a step, and the microseconds that the fix saves of it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_is_told_with_its_saving(fault: str) -> None:
    code, kernels, saved = FAULTS[fault]
    found = told(kernels)
    assert next(iter(found)) == code
    assert found[code].saving_ns / STEPS == pytest.approx(1_000 * saved, rel=0.03)
    assert found[code].saving_ns <= found[code].explains_ns
    assert found[code].confidence == "medium"


def products(blocks: int, us: int) -> Steps:
    return [*[Kernel(NARROW, us, blocks)] * FEWEST_PRODUCTS, Kernel(ADD, 20)]


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([(NARROW, 500), (ADD, 50)], id="narrow types"),
        pytest.param([(DOUBLE, 500), (DOUBLES, 100)], id="double precision on purpose"),
        pytest.param([(NARROW, 100), *[(ADD, 4)] * (NEAR + 1), (SOFTMAX, 10), (NARROW, 100)], id="far from a product"),
        pytest.param([(SOFTMAX, 50), (NARROW, 100)], id="a softmax at the end"),
        pytest.param([(LAYOUT, 40), (NARROW, 300), (GROUP_NORM, 40)], id="group norms want the channels first"),
        pytest.param([(NORM, 100), (NARROW, 300)], id="a batch norm where no layout changes"),
        pytest.param([(CAT, 10), (NARROW, 200)], id="a small copy"),
        pytest.param([(TOP_K, 400), (NARROW, 500)], id="the largest are picked"),
        pytest.param([*[(SORT, 15)] * 20, (NARROW, 500)], id="sorts of few values"),
        pytest.param([(SORT_OF_FEW, 300), (NARROW, 500)], id="a sort of what was picked"),
        pytest.param([(SORT, 100), (NARROW, 900)], id="a sort that takes little of the time"),
        pytest.param([(NARROW, 100), *[(ADD, 20)] * (FEWEST - 1)], id="a short chain"),
        pytest.param([(NARROW, 100), *[(ADD, 4)] * 10], id="a chain of tiny kernels"),
        pytest.param([(NARROW, 900), *[(ADD, 40)] * 16], id="one kernel again and again"),
        pytest.param([(ADD, 20), (NARROW, 100), (ADD, 20), (MUL, 20)], id="a chain only from step to step"),
        pytest.param([(NARROW, 100), (ADD, 20, 100), (ADD, 20, 10_000), (ADD, 20, 100)], id="tensors of other sizes"),
        pytest.param(products(132, 1_000), id="large products in a row"),
        pytest.param(products(132, 10)[: FEWEST_PRODUCTS - 1], id="few products in a row"),
        pytest.param([(SOFTMAX, 100, 100), (NARROW, 200)], id="blocks for most of the GPU"),
        pytest.param([(SOFTMAX, 5, 1), (NARROW, 200)], id="one block for a moment"),
        pytest.param([("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>", 50)] * 4, id="a fused Adam"),
        pytest.param([("add(float*, float const*, int)", 60_000)] * 4, id="a kernel written by hand"),
        pytest.param([("void mul<thrust::complex<double>>(int)", 900)] * 4, id="a template written by hand"),
        pytest.param([(LAYOUT_AMD[:-9], 40), (NARROW, 300)], id="a name that only begins so"),
        pytest.param([(NARROW, 90), (SOFTMAX, 40), (TOP_K, 40), (GATHER, 40), (NARROW, 90)], id="a router's softmax"),
        pytest.param([(FLASH, 200), (NARROW, 90), (SOFTMAX, 40), (MUL, 9), (NARROW, 90)], id="attention is fused"),
        pytest.param([(NARROW, 90), (LOG_SOFTMAX, 80), (MUL, 9), (NARROW, 90)], id="a loss"),
        pytest.param([("cutlass_75_tensorop_bf16_s1688gemm_bf16_nn_align8", 500)], id="bfloat16 in short steps"),
        pytest.param([("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn", 500)], id="half precision in short steps"),
    ],
)
def test_what_is_no_fault_is_not_told(kernels: Steps) -> None:
    assert not told(kernels).keys() & {code for code, *_ in FAULTS.values()}


def test_a_gpu_without_tensor_cores_is_not_told_to_use_them() -> None:
    assert "PRECISION" not in told([("maxwell_sgemm_128x64_tn", 500)], Gpu("some GPU"))


@pytest.mark.parametrize(
    ("gpu", "times"),
    [
        (Gpu("NVIDIA GeForce RTX 4090"), 2.6),
        (Gpu("NVIDIA GeForce RTX 3070 Laptop GPU", compute_capability=(8, 6)), 2.6),
        (Gpu("NVIDIA RTX A4000", compute_capability=(8, 6)), 5.2),
        (Gpu("GPU, name not recorded"), 2.6),  # its kernels are made for tensor cores
        (Gpu("NVIDIA GeForce GTX 1660 Ti", compute_capability=(7, 5)), None),
    ],
    ids=lambda value: value.name if isinstance(value, Gpu) else "",
)
def test_cards_gain_what_their_tensor_cores_are_faster_by(gpu: Gpu, times: float | None) -> None:
    found = told([("ampere_sgemm_128x64_tn", 500)], gpu).get("PRECISION")
    if times is None:
        assert found is None
    else:
        assert found is not None
        assert found.saving_ns / STEPS == pytest.approx(500_000 * (1 - 1 / times), rel=0.03)


def test_of_an_unknown_gpu_nothing_is_said_about_multiprocessors() -> None:
    found = told([(SOFTMAX, 100, 1), *[(NARROW, 10, 66)] * 16], Gpu("some GPU"))
    assert not found.keys() & {"UNDER-FILLED", "GEMM-LOOP"}


def test_advice_is_in_the_words_of_the_framework() -> None:
    for kernels, word in (([(GEMM, 500), (FLOATS, 100)], "torch"), ([(GEMM, 500), ("loop_add_fusion", 100)], "jnp")):
        assert word in (told(kernels)["PRECISION"].fix or "")


@pytest.mark.parametrize(
    ("kernels", "code", "count", "beside", "not_named"),
    [
        ([(GEMM, 500), (FLOATS, 100), (NORM, 90)], "PRECISION", "1 kernel per step, 500 us", "2 kernels", "norm"),
        ([(TF32, 500), (FLOATS, 100)], "PRECISION", "1 kernel per step, 500 us", "1 kernel", "elementwise"),
        ([(LAYOUT, 40), (NARROW, 300), (NORM, 100)], "LAYOUT", "1 kernel per step, 40.0 us", "of batch norms", "norm"),
        (
            [(COPY, 200, 2000), (MUL, 80, 1000), (NARROW, 200)],
            "DEVICE-COPY",
            "1 kernel per step, 200 us",
            "that read the copies",
            "mul",
        ),
    ],
)
def test_a_claim_counts_what_it_names_and_tells_the_rest_apart(
    kernels: Steps, code: str, count: str, beside: str, not_named: str
) -> None:
    found = told(kernels)[code]
    counted, _, others = found.claim.partition(", and ")
    assert count in counted
    assert beside in others
    assert not_named not in found.sentences[0]

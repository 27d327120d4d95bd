"""A GPU that is busy with the wrong work: each fault in a program, and the program without it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuledger.analyse.busy_kernels import FEWEST, NEAR, USUALLY_FASTER
from gpuledger.findings.finding import Finding
from gpuledger.findings.rules import findings
from gpuledger.trace.model import Trace
from support.book_checks import analysed
from support.program import Program

STEPS = 8
Kernels = Sequence[tuple[str, int]]
"""Names, and microseconds."""

GEMM, NARROW = "ampere_sgemm_128x64_tn", "ampere_bf16_s16816gemm_bf16_128x64_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
MUL, SOFTMAX = ADD.replace("add", "mul"), "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16>"
FLOATS = ADD.replace("c10::BFloat16", "float")
LAYOUT = "void cudnn::nchwToNhwcKernel<__half, __half, float, false, true>"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>"
CAST = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>"


def steps_of(kernels: Kernels) -> Trace:
    """The same kernels in each step, with a host that is far ahead."""
    program = Program()
    for _ in range(STEPS):
        with program.range("step"):
            for name, us in kernels:
                program.kernel(name, us)
    return program.trace()


def told(kernels: Kernels) -> dict[str, Finding]:
    trace = steps_of(kernels)
    [device] = analysed(trace)
    return {found.code: found for found in findings(trace, [device])}


FAULTS: dict[str, tuple[Kernels, int]] = {
    "PRECISION": ([(GEMM, 500), (FLOATS, 100)], round(500 * (1 - 1 / USUALLY_FASTER)) + 50),
    "ATTENTION-UNFUSED": ([(NARROW, 100), (MUL, 50), (ADD, 60), (SOFTMAX, 90), (NARROW, 100), (MUL, 200)], 200),
    "LAYOUT": ([(LAYOUT, 40), (NARROW, 300), (LAYOUT, 40)], 80),
    "DEVICE-COPY": ([(CAT, 90), (NARROW, 200)], 90),
    "UNFUSED-CHAIN": ([(NARROW, 300), (ADD, 30), (MUL, 50), (CAST, 5), (ADD, 40)], 70),
}
"""What runs in a step, and the microseconds that the fix saves of it."""


@pytest.mark.parametrize("code", FAULTS)
def test_the_fault_is_told_with_its_saving(code: str) -> None:
    kernels, saved = FAULTS[code]
    found = told(kernels)
    assert next(iter(found)) == code
    assert found[code].saving_ns / STEPS == pytest.approx(1_000 * saved, rel=0.02)
    assert found[code].saving_ns <= found[code].explains_ns
    assert found[code].confidence == "medium"


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([(NARROW, 500), (ADD, 50)], id="narrow types"),
        pytest.param([("maxwell_sgemm_128x64_tn", 500)], id="no tensor cores"),
        pytest.param([(NARROW, 100), *[(ADD, 4)] * (NEAR + 1), (SOFTMAX, 10), (NARROW, 100)], id="far from a product"),
        pytest.param([(SOFTMAX, 50), (NARROW, 100)], id="a softmax at the end"),
        pytest.param([(CAT, 10), (NARROW, 200)], id="a small copy"),
        pytest.param([(NARROW, 100), *[(ADD, 20)] * (FEWEST - 1)], id="a short chain"),
        pytest.param([(NARROW, 100), *[(ADD, 4)] * 10], id="a chain of tiny kernels"),
        pytest.param([(ADD, 20), (NARROW, 100), (ADD, 20), (MUL, 20)], id="a chain only from step to step"),
    ],
)
def test_what_is_no_fault_is_not_told(kernels: Kernels) -> None:
    assert not told(kernels).keys() & FAULTS.keys()

"""Programs that look like a fault of a busy GPU and are none: each differs from one that has it in a single thing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuledger import build_report, open_trace

BACK = "autograd::engine::evaluate_function: "
HALF = "c10::BFloat16"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
ELEMENT = "void at::native::vectorized_elementwise_kernel<8, at::native::{0}, std::array<char*, 3ul> >(int)"
ADD, FILL = ELEMENT.format("CUDAFunctor_add<c10::BFloat16>"), ELEMENT.format("FillFunctor<c10::BFloat16>")
LISTS = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorListMetadata<4>, {0}>(int)"
ADAM = LISTS.format("at::native::FusedAdamMathFunctor<float, 4>")
ZERO = LISTS.format("at::native::ZeroFunctor<c10::BFloat16, 1, 1, 0>")
FLASH_F = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128> >(pytorch_flash::Flash_fwd_params)"
FLASH_B = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<T>(pytorch_flash::Flash_bwd_params)"


class Op(NamedTuple):
    """An operator that launches a kernel, and what stands around it, the outermost first."""

    name: str
    dims: Sequence[Any]
    kernel: str = ""  # none: a view
    us: int = 1000
    around: tuple[str, ...] = ()
    types: Sequence[str] | None = None
    arguments: Sequence[str] = ()


def program(*operators: Op, steps: int = 4, gpu: str = "NVIDIA H200", capability: tuple[int, int] = (9, 0)) -> str:
    """A torch trace of steps that run these, the GPU right behind the host."""
    events: list[dict[str, Any]] = []

    def put(category: str, name: str, start: float, length: float, **args: Any) -> None:
        at = {"pid": 0, "tid": 7} if category in ("kernel", "gpu_memcpy") else {"pid": 1, "tid": 1}
        events.append({"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": args, **at})

    host = device = 1000.0
    for step in range(steps):
        began = host
        for number, one in enumerate(operators):
            correlation = step * len(operators) + number + 1
            depth = len(one.around)
            for level, outer in enumerate(one.around):
                put("cpu_op", outer, host + level * 0.1, 9 - level * 0.2)
            given = {"Input Dims": one.dims, "Input type": one.types or [HALF if size else "" for size in one.dims]}
            if one.arguments:
                given["Concrete Inputs"] = one.arguments
            if one.name:
                put("cpu_op", one.name, host + depth * 0.1, 9 - depth * 0.2, **given)
            if one.kernel:
                put("cuda_runtime", "cudaLaunchKernel", host + 2, 3, correlation=correlation)
                launch = {"stream": 7, "correlation": correlation, "grid": [4096, 1, 1], "block": [256, 1, 1]}
                device = max(device, host + 6)
                put("kernel", one.kernel, device, one.us, device=0, context=1, **launch)
                device += one.us + 1
            host += 10
        host = max(host, device)
        put("user_annotation", f"ProfilerStep#{step}", began, host - began)
        host += 5
    properties = {"id": 0, "name": gpu, "computeMajor": capability[0], "computeMinor": capability[1], "numSms": 132}
    return json.dumps({"deviceProperties": [properties], "traceEvents": events})


@pytest.fixture
def codes(tmp_path: Path) -> Any:
    def of(text: str) -> list[str]:
        path = tmp_path / "trace.json"
        path.write_text(text)
        return [finding.code for finding in build_report(open_trace(path, cache=False)).findings]

    return of


X, W = [4096, 4096], [4096, 4096]
PRODUCT = Op("aten::mm", [X, W], GEMM)
TANH = ELEMENT.format("tanh_kernel")
GELU = Op("aten::gelu", [X, []], ELEMENT.format("GeluCUDAKernelImpl"), 900)
GRADIENT = Op("aten::gelu_backward", [X, X, []], ELEMENT.format("GeluBackward"), 900, (BACK + "GeluBackward0",))


@pytest.mark.parametrize(
    ("node", "is_told"),
    [
        ("GeluBackward0", True),  # unpacks what a checkpoint did not keep
        ("CheckpointFunctionBackward", True),
        ("GeluBackwardBackward0", False),  # a second derivative
        ("OurFusedGeluBackward", False),  # a program's own function
        ("torch::autograd::CppNode<OurGelu>", False),
    ],
)
def test_forward_in_backward_is_recomputed_in_checkpoints_alone(node: str, is_told: bool, codes: Any) -> None:
    again = GELU._replace(around=(BACK + node,)), PRODUCT._replace(around=(BACK + node,))
    assert ("RECOMPUTE" in codes(program(PRODUCT, GELU, *again, GRADIENT))) is is_told


def test_of_a_compiled_backward_only_what_is_forwards_is_recomputed(codes: Any) -> None:
    own = [PRODUCT._replace(around=(BACK + "CompiledFunctionBackward",), us=20_000)] * 2
    tiny = GELU._replace(around=(BACK + "CompiledFunctionBackward",), us=20)
    assert "RECOMPUTE" not in codes(program(PRODUCT, GELU, tiny, *own))


@pytest.mark.parametrize(("behind", "is_told"), [("FBFB", True), ("BBFFBB", False), ("BFBBFB", False)])
def test_micro_batches_are_no_checkpoints(behind: str, is_told: bool, codes: Any) -> None:
    """Without operators, as Nsight Systems records: forward runs once for each backward pass."""
    loss = Op("", [], "void (anonymous namespace)::cunn_SoftMaxBackward<4, float>(int)", 100)
    kernels = {"F": Op("", [], FLASH_F), "B": Op("", [], FLASH_B), "L": loss}
    assert ("RECOMPUTE" in codes(program(*(kernels[way] for way in "FFL" + behind)))) is is_told


TABLE, ROWS = [4_000_000, 128], [8192, 128]
LOOKUP = Op(
    *("aten::embedding_dense_backward", [ROWS, [8192], [], [], []], ADD, 100, (BACK + "EmbeddingBackward0",)),
    types=[HALF, "long int", "Scalar", "Scalar", "Scalar"],
    arguments=["", "", "4000000", "-1", "False"],
)
UPDATE = Op("aten::_fused_adam_", [[TABLE], [TABLE], [TABLE], [TABLE]], ADAM, 5000)
HEAD = Op("aten::mm", [[8192, 128], [128, 4_000_000]], GEMM)


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ((PRODUCT,), True),
        ((PRODUCT, HEAD), False),  # the table is a head's weight as well, whose gradient is dense
        ((PRODUCT, *[LOOKUP] * 150), False),  # so many lookups of a step reach a quarter of the rows
        ((PRODUCT, Op("c10d::allreduce_", [[TABLE]], ADD, 10)), False),
    ],
)
def test_a_table_is_updated_as_a_whole_where_it_has_to_be(more: Sequence[Op], is_told: bool, codes: Any) -> None:
    assert ("DENSE-EMBEDDING" in codes(program(*more, LOOKUP, UPDATE))) is is_told


HIDDEN = Op("aten::mm", [[16384, 2048], [2048, 8192]], GEMM, 5000)
VIEW = Op("aten::_unsafe_view", [[16384, 8192], []])
LAST = Op("aten::argmax", [[32, 8192], [], []], ADD, 50)
SELECT = Op("aten::select", [[32, 512, 8192], [], []])


@pytest.mark.parametrize(
    ("between", "is_told"),
    [
        ((VIEW, SELECT), True),
        ((VIEW,), False),  # nothing was cut: what has 32 rows is something else
        ((VIEW, Op("aten::split", [[32, 512, 8192], [], []]), SELECT), False),
        ((VIEW, Op("aten::view", [[32, 512, 8192], []]), SELECT), False),  # heads of attention
    ],
)
def test_a_result_is_unused_where_rows_of_it_are_seen_to_be_cut_out(
    between: Sequence[Op], is_told: bool, codes: Any
) -> None:
    assert ("UNUSED-RESULT" in codes(program(HIDDEN, *between, LAST))) is is_told


ACCUMULATE = BACK + "torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad"


def _trained(*more: Op) -> str:
    """Two gradients, of which the optimizer uses the first."""
    used, unused = [4096, 4096], [4096, 1024]
    passes = [Op("aten::mm", [X, size], GEMM, 2000, (BACK + "MmBackward0",)) for size in (used, unused, unused, unused)]
    marks = [Op("torch::autograd::AccumulateGrad", [size], "", 0, ACCUMULATE[:1]) for size in (used, unused)]
    update = Op("aten::_fused_adam_", [[used], [used], [used], [used]], ADAM, 500)
    return program(PRODUCT, passes[0], marks[0], *passes[1:], marks[1], update, *more)


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ((), True),
        ((Op("", [], ADAM, 100),), False),  # an optimizer that no operator launches
        ((Op("c10d::_reduce_scatter_base_", [[4096]], ADD, 10),), False),  # flat buffers of several GPUs
        ((Op("fbgemm::split_embedding_backward", [[4096]], ADD, 10),), False),
    ],
)
def test_gradients_are_unused_where_every_update_is_known(more: Sequence[Op], is_told: bool, codes: Any) -> None:
    assert ("UNUSED-RESULT" in codes(_trained(*more))) is is_told


BIG = [100_000_000]
CLEAR = Op("aten::fill_", [BIG, []], FILL, 500)


@pytest.mark.parametrize(
    ("then", "is_told"),
    [
        (Op("aten::mul", [BIG, [], BIG], ADD, 900, types=[HALF, "double", HALF]), True),  # out=
        (Op("aten::mse_loss", [BIG, BIG, []], ADD, 900), False),  # the target of a loss
        (Op("aten::add", [BIG, BIG, []], ADD, 900), False),
        (Op("aten::copy_", [BIG, BIG, []], ADD, 900), True),
        (Op("aten::copy_", [BIG, BIG, []], ADD, 900, ("aten::to", "aten::_to_copy")), False),  # into one of its own
    ],
)
def test_a_cleared_tensor_that_is_read_had_to_be(then: Op, is_told: bool, codes: Any) -> None:
    assert ("REDUNDANT-FILL" in codes(program(CLEAR, then))) is is_told


def test_of_micro_batches_the_first_addition_alone_is_to_zeros(tmp_path: Path) -> None:
    size = [8192, 8192]
    add = Op("aten::add_", [size, size, []], ADD, 1000, ACCUMULATE)
    clear = Op("aten::_foreach_zero_", [[size]], ZERO, 500)
    counts = []
    for times in (1, 4):
        path = tmp_path / f"{times}.json"
        path.write_text(program(clear, *[PRODUCT, add] * times))
        findings = build_report(open_trace(path, cache=False)).findings
        counts += [finding.evidence[0].count for finding in findings if finding.code == "REDUNDANT-FILL"]
    assert counts == [2 * 4] * 2


ONES = [8192, 32000]
MADE = Op("aten::scatter_", [ONES, [], [8192, 1], []], ADD, 800, ("aten::one_hot",), types=["long int", "", "long int"])
PICKS = Op("aten::mm", [ONES, [32000, 1024]], GEMM, 3000)


@pytest.mark.parametrize(
    ("product", "is_told"),
    [(PICKS, True), (PICKS._replace(around=(BACK + "MmBackward0",)), False), (PRODUCT, False)],
)
def test_ones_that_a_loss_compares_with_pick_no_rows(product: Op, is_told: bool, codes: Any) -> None:
    assert ("ONE-HOT" in codes(program(MADE, product))) is is_told


ATTENTION = Op(
    *("aten::_flash_attention_forward", [[4, 8192, 16, 128]] * 3 + [[]] * 6, FLASH_F, 9000),
    arguments=["", "", "", "", "", "", "", "0.", "True"],
)


@pytest.mark.parametrize(
    ("gpu", "capability", "is_told"),
    [("NVIDIA H200", (9, 0), True), ("NVIDIA GeForce RTX 5090", (12, 0), False), ("NVIDIA A100", (8, 0), False)],
)
def test_attention_is_old_where_the_gpu_has_newer(
    gpu: str, capability: tuple[int, int], is_told: bool, codes: Any
) -> None:
    text = program(ATTENTION, gpu=gpu, capability=capability)
    text = text.replace('"numSms": 132', '"numSms": 170') if "5090" in gpu else text
    assert ("OLD-KERNEL" in codes(text)) is is_told


SORT = "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<long>(int)"
SPARSE = "void at::native::indexFuncLargeIndex<c10::BFloat16, at::native::ReduceAdd>(int)"


@pytest.mark.parametrize(
    ("operator", "is_told"),
    [
        (Op("aten::index_add", [[4096, 1024], [], [4096], [4096, 1024], []], SPARSE, 9000), True),
        (Op("aten::sort", [[4096, 1024], [], [], []], SORT, 9000), False),  # goes over its input many times
        (
            Op("aten::linalg_cholesky_ex", [[4096, 1024], [], []], "void cusolver::potrf_kernel<float>(int)", 9000),
            False,
        ),
        (Op("ours::butterfly", [[4096, 1024]], "void butterfly<float>(int)", 9000), False),
    ],
)
def test_a_kernel_is_far_from_its_roof_where_that_is_known(operator: Op, is_told: bool, codes: Any) -> None:
    assert ("KERNEL-HEADROOM" in codes(program(operator))) is is_told


LERP, MUL = (ELEMENT.format(f"BinaryFunctor<float, {name}Functor<float> >") for name in ("Lerp", "Mul"))
LOOP = [Op("aten::mul", [[50_000_000]] * 2, MUL, 300), Op("aten::lerp", [[50_000_000]] * 2, LERP, 300)] * 12


@pytest.mark.parametrize(("first", "is_told"), [(GRADIENT, True), (GELU, False)])
def test_a_loop_over_tensors_updates_parameters_where_there_are_gradients(first: Op, is_told: bool, codes: Any) -> None:
    assert ("OPTIMIZER-UNFUSED" in codes(program(first, *LOOP))) is is_told


@pytest.mark.parametrize(("rows", "is_told"), [(8, True), (8192, False)])
def test_products_that_read_their_weights_at_bandwidth_have_nothing_to_fix(
    rows: int, is_told: bool, tmp_path: Path
) -> None:
    """2 GB of weights take 0.45 ms; with 8,192 rows arithmetic takes 18 ms."""
    path = tmp_path / "decode.json"
    product = Op("aten::mm", [[rows, 32768], [32768, 32768]], GEMM, 550 if rows == 8 else 22_000)
    path.write_text(program(*[product] * 4))
    report = build_report(open_trace(path, cache=False))
    assert not [finding for finding in report.findings if finding.saving_ns > 0.05 * report.main_device.steady_ns]
    assert ("quantized" in report.headline) is is_told

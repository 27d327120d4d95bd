"""Light of operators by what they were given: products and experts of other makers, packed attention, lookups."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger import open_trace
from gpuledger.analyse.light.kernel_light import KernelLight, LightSource, kernel_light
from gpuledger.analyse.light.moved_bytes import goes_once, moved_bytes
from gpuledger.analyse.light.operator_costs import operator_costs
from gpuledger.analyse.light.steady_kernels import all_steady
from gpuledger.analyse.light.unrecorded_products import (
    BatchLengths,
    RegionSizes,
    batch_lengths,
    paged_count,
    routed_counts,
)
from gpuledger.analyse.operators.arithmetic import Count, Inputs, Shape, count_of
from gpuledger.catalog.kernel_names import emitted_operator, without_ids
from gpuledger.catalog.kernel_types import needed_share, routed_product
from gpuledger.ledger.device import analyse_devices
from gpuledger.selection import Selection
from support.traces.launched_ops import Launch, Op, traced

BF16, FP8, INT, LONG = "c10::BFloat16", "c10::Float8_e4m3fn", "int", "long int"


def _given(*tensors: tuple[Shape, str], arguments: tuple[str, ...] = ()) -> Inputs:
    shapes, types = zip(*tensors, strict=True)
    return Inputs(shapes, types, ((),) * len(shapes), arguments)


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("_C::cutlass_scaled_mm", [((64, 512), BF16), ((64, 256), FP8), ((256, 512), FP8), ((64, 1), "float")]),
        ("sgl_kernel::fp8_scaled_mm", [((64, 256), FP8), ((256, 512), FP8), ((64, 1), "float")]),
        ("aiter::gemm_a8w8", [((64, 256), FP8), ((512, 256), FP8)]),
        ("vllm::rocm_unquantized_gemm_impl", [((4, 16, 256), BF16), ((512, 256), BF16)]),
        ("triton_tem_fused_addmm_relu_2", [((64, 256), BF16), ((256, 512), BF16), ((512,), BF16), ((64, 512), BF16)]),
        ("triton_tem_fused_bmm_0", [((4, 16, 256), BF16), ((4, 256, 512), BF16), ((4, 16, 512), BF16)]),
    ],
)
def test_products_of_other_makers_are_counted_by_their_matrices(name: str, tensors: list[tuple[Shape, str]]) -> None:
    count = count_of(name, _given(*tensors), {})
    assert count is not None
    assert count.flops == 2 * 64 * 256 * 512


@pytest.mark.parametrize(
    ("name", "tensors"),
    [
        ("_C::rms_norm", [((64, 256), BF16), ((64, 256), BF16), ((256,), BF16)]),  # two that fit, and no product
        ("_C::awq_gemm", [((64, 256), BF16), ((256, 64), INT)]),  # packed: the columns are not known
        ("_C::gptq_marlin_gemm", [((64, 256), BF16), ((16, 1024), INT)]),
        ("vllm::moe_forward", [((64, 256), BF16), ((64, 8), BF16)]),  # the experts are not among the inputs
        ("ours::scaled_mm", [((64, 256), BF16), ((100, 7), BF16)]),
        ("triton_poi_fused_mm_0", [((64, 256), BF16), ((256, 512), BF16)]),  # what comes after a product
    ],
)
def test_what_does_not_fit_is_not_counted(name: str, tensors: list[tuple[Shape, str]]) -> None:
    assert count_of(name, _given(*tensors), {}) is None


def test_experts_are_counted_for_each_that_a_row_goes_to() -> None:
    tensors = [((64, 256), BF16), ((8, 1024, 256), BF16), ((8, 256, 512), BF16), ((64, 2), "float"), ((64, 2), INT)]
    count = count_of("vllm::inplace_fused_experts", _given(*tensors), {})
    assert count is not None
    assert count.flops == 2 * 64 * 2 * (1024 * 256 + 256 * 512)
    assert count.moved_bytes == 2 * 8 * (1024 * 256 + 256 * 512) + 2 * 2 * 64 * 256
    assert count.is_bound


TRTLLM = "bmm_{out}_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_cga1x1x1_rM_TN_transOut_biasM_bN_tma{act}_sm100f"
UP, DOWN = TRTLLM.format(out="MxE4m3", act="_swiGlu_dynBatch"), TRTLLM.format(out="Bfloat16", act="_dynBatch")
ROWS = _given(((888, 3072), BF16), ((888, 128), BF16), ((), ""))
"""Of gpt-oss on eight GPUs: 128 experts of 512 inner columns on each, four for each row."""


def _routed(*launched: tuple[str, int], given: Inputs = ROWS) -> tuple[Count, Count] | None:
    names = [(routed_product(name), blocks) for name, blocks in launched]
    return routed_counts(given, [(name, blocks) for name, blocks in names if name is not None])


@pytest.mark.parametrize(
    ("launched", "rows_tile", "bits"),
    [
        ([(UP, 8 * 342), (DOWN, 24 * 342)], 16, 4),
        ([(f"_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1{act}", n * 156) for act, n in (("_swiglu", 8), ("", 24))],
         128, 4),
    ],
)  # fmt: skip
def test_experts_that_are_not_among_the_inputs_are_told_by_blocks_and_tiles(
    launched: list[tuple[str, int]], rows_tile: int, bits: int
) -> None:
    counts = _routed(*launched)
    assert counts is not None
    pairs = (launched[1][1] // 24 - 128) * rows_tile
    assert [count.flops for count in counts] == [2 * pairs * 3072 * 1024, 2 * pairs * 512 * 3072]
    assert pairs == pytest.approx(888 * 4, rel=0.05)
    weights = 128 * 3072 * 1024 * bits // 8
    assert counts[0].moved_bytes is not None
    assert weights < counts[0].moved_bytes < 1.15 * weights
    assert all(count.is_bound for count in counts)


@pytest.mark.parametrize(
    ("launched", "given"),
    [
        ([(UP, 8 * 342)], ROWS),  # one product
        ([(UP, 8 * 342), (DOWN, 148)], ROWS),  # as many blocks as the GPU has room for: they say nothing
        ([(UP, 0), (DOWN, 0)], ROWS),
        ([(UP, 8 * 342), (DOWN, 24 * 342)], _given(((888, 3072), BF16))),  # no scores
        ([("bmm_Bfloat16_Fp32_t128x16", 8), ("void cutlass::Kernel<x>", 8)], ROWS),
    ],
)
def test_blocks_that_fit_nothing_tell_nothing_of_experts(launched: list[tuple[str, int]], given: Inputs) -> None:
    assert _routed(*launched, given=given) is None


def test_rows_and_scores_are_the_first_two_matrices() -> None:
    more = _given(((888, 3072), BF16), ((888, 128), BF16), ((3072, 8), BF16))
    launched = (UP, 8 * 342), (DOWN, 24 * 342)
    assert _routed(*launched, given=more) == _routed(*launched)


def test_packed_attention_is_counted_as_of_sequences_of_one_length() -> None:
    each = ((4096, 16, 128), BF16)
    begins = ((5,), INT)  # four sequences
    arguments = ("", "", "", "", "", "1024", "1024", "0.", "1.", "True")
    packed = _given(each, each, each, begins, begins, *[((), "")] * 5, arguments=arguments)
    one = ((4, 1024, 16, 128), BF16)
    apart = _given(one, one, one, *[((), "")] * 3, arguments=("", "", "", "0.", "1.", "True"))
    counts = [
        count_of("flash_attn::_flash_attn_varlen_forward", packed, {}),
        count_of("flash_attn::_flash_attn_forward", apart, {}),
    ]
    assert counts[0] == counts[1]
    assert count_of("flash_attn::_flash_attn_varlen_forward", _given(each, each, each), {}) is None


STEP = "execute_41_context_1(sq9sk12sqsq81sqsk108)_generation_32(sq32sk32785sqsq32sqsk32785)"


def test_engines_say_how_long_the_sequences_of_a_step_are() -> None:
    lengths = batch_lengths(STEP)
    assert lengths == BatchLengths(9 + 32, 12 + 32785, 108 - 81 // 2 + 32785)
    query, cache = ((41, 32, 128), BF16), ((835_874, 1, 8, 128), BF16)
    count = paged_count(_given(query, ((99,), "unsigned char"), query, cache, cache, ((42,), INT)), lengths)
    assert count is not None
    assert count.moved_bytes == 2 * (2 * 41 * 32 * 128) + 2 * (12 + 32785) * 8 * 128 * 2
    assert count.flops == 2 * 2 * lengths.scores * 32 * 128
    assert count.is_bound


@pytest.mark.parametrize(
    "text", ["execute_context_1(888_788544)_generation_0(0)", "step[DECODE bs=32]", f"x{STEP}", "execute_" + "9" * 999]
)
def test_other_annotations_say_no_lengths(text: str) -> None:
    assert batch_lengths(text) is None


@pytest.mark.parametrize(
    "tensors",
    [
        [((32, 32, 128), BF16), ((9, 1, 8, 128), BF16), ((9, 1, 8, 128), BF16)],  # fewer rows than the step has
        [((41, 32, 128), BF16), ((9, 1, 7, 128), BF16), ((9, 1, 7, 128), BF16)],  # heads that do not fit
        [((41, 32, 128), BF16), ((9, 576), BF16)],
        [((41, 0, 128), BF16), ((9, 8, 128), BF16), ((9, 8, 128), BF16)],
        [((), "")],
    ],
)
def test_attention_that_does_not_fit_its_step_is_not_counted(tensors: list[tuple[Shape, str]]) -> None:
    lengths = batch_lengths(STEP)
    assert lengths is not None
    assert paged_count(_given(*tensors), lengths) is None


WEIGHTS = [
    ((512, 9375), "float"),
    ((512,), "float"),
    ((9375, 128), "float"),
    ((1024, 1), "float"),
    ((1024, 1), "float"),
]
"""Of a region that was compiled: two weights, a bias, and two inputs of 1,024 rows."""


@pytest.mark.parametrize(
    ("kernel", "grid", "expected"),
    [
        ("volta_sgemm_128x64_nn", (74, 16, 1), [(1024, 9375, 128), (1024, 512, 9375)]),  # forward, or a gradient
        ("volta_sgemm_128x64_nt", (74, 8, 1), [(1024, 512, 9375)]),  # of the weight
        ("volta_sgemm_128x64_tn", (4, 16, 5), [(1024, 512, 9375)]),  # five share the depth
        ("volta_sgemm_128x64_tn", (4, 16, 2000), []),
        ("volta_sgemm_128x64_tn", (3, 3, 1), []),
        ("volta_sgemm_128x64_tn", (0, 0, 0), []),
        ("void gemv2T_kernel_val<int>", (74, 16, 1), []),
    ],
)
def test_products_of_a_compiled_region_are_of_the_sizes_that_fit(
    kernel: str, grid: tuple[int, int, int], expected: list[Shape]
) -> None:
    counts = RegionSizes([_given(*WEIGHTS), _given(((), ""))]).counts(kernel, grid)
    assert [count.flops for count in counts] == [2 * rows * columns * depth for rows, columns, depth in expected]
    assert all(count.kind == "fp32" and count.is_bound for count in counts)


def test_a_region_without_sizes_has_no_products() -> None:
    assert RegionSizes([_given(((), "")), _given(((2**40, 2**40), "float"))]).counts("sgemm_32x32_nn", (1, 1, 1)) == []


def test_of_a_table_only_what_numbers_point_to_is_moved() -> None:
    rotary = _given(((888,), LONG), ((888, 512), BF16), ((888, 64), BF16), ((), ""), ((131_072, 64), BF16))
    assert moved_bytes("_C::rotary_embedding", rotary, None) == 888 * (8 + 2 * (512 + 64 + 64))
    cache = ((4_213_816, 16, 1, 64), "unsigned char")
    stored = _given(((888, 1, 64), BF16), ((888, 1, 64), BF16), cache, cache, ((888,), LONG))
    given = 888 * (2 * 64 * 2 + 8)
    assert moved_bytes("_C_cache_ops::reshape_and_cache_flash", stored, None) == 2 * given


def test_what_is_written_counts_once_whether_it_is_handed_over_or_not() -> None:
    both = 2 * 64 * 256 * 2
    handed_over = _given(((64, 256), BF16), ((64, 256), BF16))
    assert moved_bytes("_C::gelu_new", handed_over, None) == both
    assert moved_bytes("aiter::rmsnorm", _given(((64, 256), BF16)), None) == both


SOFTMAX = (
    "void at::native::(anonymous namespace)::cunn_SoftMax{}<4, float, float, float, at::native::{}Epilogue>(float*)"
)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        (SOFTMAX.format("Forward", "LogSoftMaxForward"), 1 / 2),
        (SOFTMAX.format("Forward", "SoftMaxForward"), 1 / 2),
        (SOFTMAX.format("ForwardSmem", "LogSoftMaxForward"), 1),  # in shared memory
        (SOFTMAX.format("Backward", "LogSoftMaxBackward"), 3 / 4),
        (SOFTMAX.format("Backward", "SoftMaxBackward"), 3 / 5),
        (SOFTMAX.format("BackwardSmem", "SoftMaxBackward"), 1),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, x>", 1),
        ("cunn_SoftMax" + "x" * 100_000, 1),
    ],
)
def test_softmax_reads_its_rows_again(name: str, share: float) -> None:
    assert needed_share(name) == share


@pytest.mark.parametrize(("name", "once"), [("aten::copy_", True), ("aten::sort", False), ("fbgemm::permute", False)])
def test_which_operators_are_known_to_go_once(name: str, once: bool) -> None:
    assert goes_once(name) is once


GEMM = "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NNT"
ADD = "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, x>"
PROGRAM = (("aten::mm", [[4096, 1024], [1024, 2048]], GEMM), ("aten::add", [[4096, 2048], [4096, 2048], []], ADD))


def _light_of(ops: list[Op]) -> KernelLight:
    launches = [
        Launch(at + 10, at + 20, ((at + 30, at + 90_000, kernel),), grid=64)
        for at, (_, _, kernel) in zip((0, 100_000), PROGRAM, strict=True)
    ]
    trace = traced(ops, launches)
    [device] = analyse_devices(trace, "test", Selection())
    return all_steady(trace, device).once(kernel_light)


def _ops(*named: tuple[str, str], kind: str) -> list[Op]:
    return [
        Op(name, at, at + 50, inputs=inputs, kind=kind) for at, (name, inputs) in zip((0, 100_000), named, strict=True)
    ]


def test_emitted_ranges_say_what_recorded_operators_do() -> None:
    types = json.dumps([BF16] * 3)
    recorded = _ops(*((name, f"{json.dumps(sizes)}\n{types}") for name, sizes, _ in PROGRAM), kind="op")
    emitted = _ops(
        *((f"{name}, seq = {at}, op_id = {at + 7}, sizes = {sizes}, input_op_ids = [(1,0), (2,0)]", "")
          for at, (name, sizes, _) in enumerate(PROGRAM)),
        kind="push_pop",
    )  # fmt: skip
    by_torch, by_ranges = _light_of(recorded), _light_of(emitted)
    assert by_torch.source.tolist() == [LightSource.SHAPES] * 2
    assert by_ranges.source.tolist() == by_torch.source.tolist()
    assert by_ranges.light_ns.tolist() == by_torch.light_ns.tolist()
    assert by_ranges.operator_names[0] == ["aten::mm", "aten::add"]


def test_ranges_that_torch_emitted_under_nsys(unpacked: Callable[[str], Path]) -> None:
    """Six linear layers: a product forward and two backward each, but none for the gradient of the input."""
    trace = open_trace(unpacked("emit_nvtx.sqlite"))
    [device] = analyse_devices(trace, "emit_nvtx", Selection())
    light = all_steady(trace, device).once(kernel_light)
    names, named = light.operator_names
    products = np.flatnonzero([code >= 0 and names[code] in ("aten::addmm", "aten::mm") for code in named])
    assert len(products) == 17 * 4
    assert (light.source[products] == LightSource.SHAPES).all()
    at_peak_ns = 2 * 512 * 1024 * 1024 / 989.4e12 * 1e9
    assert light.light_ns[products] == pytest.approx(at_peak_ns, rel=0.01)
    assert (light.source == LightSource.SHAPES).mean() > 0.9


def test_ops_lists_operators_that_torch_emitted_under_nsys(unpacked: Callable[[str], Path]) -> None:
    trace = open_trace(unpacked("emit_nvtx.sqlite"))
    [device] = analyse_devices(trace, "emit_nvtx", Selection())
    costs = operator_costs(trace, device)
    by_name = {one.name: one for one in costs.operators.by_name}
    assert costs.operators.attributed_share == 1.0
    assert (by_name["aten::mm"].count, by_name["aten::addmm"].count) == (11 * 4, 6 * 4)
    assert (
        costs.operators.annotated_ns < 0.5 * costs.operators.device_ns
    )  # what torch emitted is no annotation of the program
    assert costs.work.flops == 17 * 4 * 2 * 512 * 1024 * 1024
    assert {work.kind for work in costs.work.work} == {"bf16"}
    assert costs.work.mfu == pytest.approx(costs.work.flops / 989.4e12 * 1e9 / device.steady_ns, rel=0.01)
    assert costs.lit["aten::mm"].source is LightSource.SHAPES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm, seq = 7, op_id = 31", ("aten::mm", "")),
        ("aten::mm, sizes = [[2, 3], []]", ("aten::mm", "[[2, 3], []]")),
        (
            "autograd::engine::evaluate_function: MmBackward0, seq = -1, sizes = [[2]]",
            ("autograd::engine::evaluate_function: MmBackward0", "[[2]]"),
        ),
        ("step = 3", None),
        ("load, sizes = many", None),
        ("x" * 100_000 + ", sizes = [[2]]", ("x" * 100_000, "[[2]]")),
        (", seq = 7" * 20_000 + "x", None),
    ],
)
def test_what_emit_nvtx_writes(text: str, expected: tuple[str, str] | None) -> None:
    assert emitted_operator(text) == expected
    if expected is not None:
        assert without_ids(text) == expected[0]


def test_ranges_with_impossible_sizes_tell_nothing() -> None:
    broken = _ops(*((f"{name}, sizes = [[9, 9], [[8", "") for name, *_ in PROGRAM), kind="push_pop")
    assert LightSource.SHAPES not in _light_of(broken).source.tolist()
    nested = _ops(*((f"{name}, sizes = {'[' * 300 + ']' * 300}", "") for name, *_ in PROGRAM), kind="push_pop")
    assert not (_light_of(nested).light_ns > 1).any()

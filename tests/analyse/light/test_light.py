"""What operators have to move and to compute, by what they were given; and what kernels' names and launches say."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gpuledger.analyse.light.moved_bytes import moved_bytes
from gpuledger.analyse.light.reachable import attention_ns, product_ns, stream_ns
from gpuledger.analyse.operators.arithmetic import Count, Inputs, count_of, parse_inputs
from gpuledger.catalog.kernel_types import (
    is_backward,
    is_masked_attention,
    is_misaligned,
    list_element_bytes,
    list_kernel,
    list_passes,
)

BF16, LONG = "c10::BFloat16", "long int"


def given(shapes: list[object], types: list[str], arguments: list[str] | None = None) -> Inputs:
    parts = (shapes, types, arguments) if arguments is not None else (shapes, types)
    found = parse_inputs("\n".join(map(json.dumps, parts)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("aten::add", given([[4, 8], [4, 8], []], [BF16, BF16, "Scalar"]), 3 * 64),
        ("aten::add", given([[4, 8], [8]], [BF16, BF16]), 64 + 16 + 64),
        ("aten::add_", given([[4, 8], [4, 8], []], [BF16, BF16, "Scalar"]), 3 * 64),
        ("aten::copy_", given([[4, 8], [4, 8], []], ["float", BF16, "Scalar"]), 128 + 64),
        ("aten::fill_", given([[4, 8], []], [BF16, "Scalar"]), 64),
        ("aten::sum", given([[4, 8], []], ["float", ""]), 128),
        ("aten::embedding", given([[1000, 16], [5]], ["float", LONG]), 2 * 5 * 64),
        ("aten::index_add_", given([[8, 4], [], [100], [100, 4]], ["float", "", LONG, "float"]), 800 + 1600 + 128),
        ("aten::cat", given([[[4, 8], [4, 8]], []], ["TensorList", "Scalar"]), 2 * 64 * 2),
        ("aten::_foreach_lerp_", given([[[4, 8]], [[4, 8]], []], ["TensorList", "TensorList", "Scalar"]), 3 * 64),
        ("aten::_fused_adamw_", given([[[4, 8]]] * 4, ["TensorList"] * 4), 7 * 64),
        ("triton_poi_fused_add_0", given([[32], [32], []], [BF16, BF16, "Scalar"]), 128),
        ("aten::add", given([[], []], ["Scalar", "Scalar"]), None),
        ("aten::_fused_adamw_", given([[]] * 4, ["TensorList"] * 4), None),
    ],
)
def test_inputs_are_read_once_and_outputs_written_once(name: str, inputs: Inputs, expected: int | None) -> None:
    assert moved_bytes(name, inputs, width=2) == expected


def test_what_broadcast_does_not_fit_is_as_large_as_the_largest() -> None:
    assert moved_bytes("aten::add", given([[3, 5], [7]], ["float", "float"]), None) == 60 + 28 + 60


ATTENTION: list[object] = [*([[2, 64, 4, 32]] * 3), *([[]] * 6)]


def counted(name: str, inputs: Inputs) -> Count:
    count = count_of(name, inputs, {})
    assert count is not None
    return count


def test_causal_attention_is_half_of_the_work_and_no_bound() -> None:
    types = [BF16] * 3 + [""] * 6
    told = {flag: given(ATTENTION, types, [""] * 8 + [flag]) for flag in ("True", "False")}
    full = counted("aten::_flash_attention_forward", told["False"])
    assert full.flops == 2 * 2 * 4 * 64 * 64 * 64
    assert counted("aten::_flash_attention_forward", told["True"]).flops == full.flops // 2
    unknown = counted("aten::_flash_attention_forward", given(ATTENTION, types))
    assert (full.is_bound, unknown.is_bound, unknown.flops) == (False, True, full.flops)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::convolution", ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]),
        ("aten::cudnn_convolution", ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]),
    ],
)
def test_a_stride_is_in_the_arguments(name: str, arguments: list[str]) -> None:
    shapes: list[object] = [[8, 16, 32, 32], [4, 16, 3, 3], *([[]] * 7)]
    count = counted(name, given(shapes, [BF16, BF16] + [""] * 7, arguments))
    assert count.flops == 2 * 8 * 16 * 16 * 4 * 16 * 9
    assert not count.is_bound


def test_a_convolutions_backward_counts_the_gradients_that_are_wanted() -> None:
    shapes: list[object] = [[8, 4, 16, 16], [8, 16, 32, 32], [4, 16, 3, 3], *([[]] * 8)]
    both, one = (
        counted("aten::convolution_backward", given(shapes, [BF16] * 3 + [""] * 8, [""] * 10 + [wanted]))
        for wanted in ("[True, True, False]", "[False, True, False]")
    )
    assert both.flops == 2 * one.flops


@pytest.mark.parametrize(
    "text", ["[[1, 2], [[3]]]\n[]\n{}", "[[[[[1]]]]]\n[]", "[[-1]]\n[1]\n[2]", '[[["x"]]]\n[]\n[]']
)
def test_odd_inputs_are_no_shapes(text: str) -> None:
    found = parse_inputs(text)
    assert found is None or moved_bytes("aten::add", found, None) is None


LISTS = "multi_tensor_apply_kernel<at::native::TensorListMetadata<{}>, {}<{}, {}, {}, 0>, std::plus<float>, float>"


def test_kernels_over_lists_tell_what_they_move() -> None:
    add = LISTS.format(1, "BinaryOpScalarFunctor", "float", 1, 1)
    assert (list_passes(add), list_element_bytes(add), list_kernel(add)) == (2, 4, 65_536 * 4 * 2)
    scaled = LISTS.format(3, "PointwiseOpScalarFunctor", "c10::BFloat16", 3, 3)
    assert (list_passes(scaled), list_element_bytes(scaled)) == (4, 2)
    assert list_kernel("void at::native::vectorized_elementwise_kernel<4>") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1", True),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_nn_align8", False),
        ("cutlass_80_simt_sgemm_256x128_8x4_nn_align1", False),
        ("cutlass_80_tensorop_s1688gemm_256x128_16x3_nn_align4", False),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", False),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", False),
    ],
)
def test_alignment_is_in_the_name(name: str, expected: bool) -> None:
    assert is_misaligned(name) == expected


def test_only_sixteen_bits_take_the_slow_path_for_a_mask() -> None:
    assert is_masked_attention("fmha_cutlassF_bf16_aligned_64x64_rf_sm80")
    assert not is_masked_attention("fmha_cutlassF_f32_aligned_64x64_rf_sm80")
    assert is_backward("fmha_cutlassB_bf16_aligned_64x64_k64_seqaligned_sm80")


def test_nothing_is_faster_than_light() -> None:
    light = np.array([0.0, 1_000.0, 1e6])
    for reached in (
        product_ns(light),
        stream_ns(light),
        attention_ns(light, 4096, 64),
        attention_ns(light, 10**6, 128),
    ):
        assert (reached >= light).all()
        assert (np.diff(reached) > 0).all()

"""Light of operators by what they were given: products and experts of other makers, packed attention, lookups."""

from __future__ import annotations

import pytest

from gpuledger.analyse.light.moved_bytes import goes_once, moved_bytes
from gpuledger.analyse.operators.arithmetic import Inputs, Shape, count_of

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


@pytest.mark.parametrize(("name", "once"), [("aten::copy_", True), ("aten::sort", False), ("fbgemm::permute", False)])
def test_which_operators_are_known_to_go_once(name: str, once: bool) -> None:
    assert goes_once(name) is once

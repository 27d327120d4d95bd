"""How alike kernels are by name."""

from __future__ import annotations

import pytest

from gpuledger.catalog.kernel_names import likeness, without_ids, without_tile


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ("void at::native::f<(int)128>(int)", "at::f<128>", "exact"),
        ("f<1>", "f<2>", "function"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_128x8_64x12_2x1_v_bz_TNT", "function"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT", "function"),
        ("triton_poi_fused_add_12", "triton_poi_fused_add_7", "function"),
        ("ampere_bf16_s16816gemm_bf16_128x64_tn", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "family"),
        ("flash_fwd_kernel", "void at::native::vectorized_layer_norm_kernel<float>()", "none"),
        ("mystery", "riddle", "none"),
        ("elementwise_kernel<128, at::silu_kernel>", "elementwise_kernel<256, at::silu_kernel>", "function"),
        ("elementwise_kernel<128, at::silu_kernel>", "elementwise_kernel<128, at::direct_copy_kernel>", "none"),
    ],
)
def test_levels(first: str, second: str, level: str) -> None:
    assert likeness(first, second) == likeness(second, first) == level


def test_tiles_and_running_numbers_are_left_out() -> None:
    assert without_tile("cutlass_80_tensorop_bf16_s16816gemm_256x128_32x3_nn") == without_tile(
        "cutlass_80_tensorop_bf16_s16816gemm_128x64_64x4_nn"
    )
    assert without_tile("triton_red_fused_mean_0") == without_tile("triton_red_fused_mean_41")
    assert without_tile("layer_norm_kernel") == "layer_norm_kernel"


def test_ids_of_operators_are_left_out() -> None:
    assert without_ids("aten::mm, seq = 7, op_id = 31") == "aten::mm"
    assert without_ids("layer3") == "layer3"

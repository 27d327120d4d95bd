"""Types and kinds of kernels by their names, as profiles of torch, cuBLAS, cuDNN and others have them."""

from __future__ import annotations

import pytest

from gpuledger.catalog.kernel_types import (
    changes_layout,
    changes_type,
    copies_tensor,
    goes_by_element,
    matrix_type,
    names_tensor_core_gpu,
    works_on_floats,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("volta_sgemm_32x128_nn", "fp32"),
        ("cutlass_80_simt_sgemm_128x128_8x4_tn_align1", "fp32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4", "fp32"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "fp32"),
        ("void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>(int, int)", "fp32"),
        ("ampere_scudnn_128x64_relu_medium_nn_v1", "fp32"),
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(cublasGemvTensor)", "fp32"),
        ("sm80_xmma_wgrad_implicit_gemm_indexed_wo_smem_tf32f32_tf32f32_f32_nhwckrsc_nhwc", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", "tf32"),
        ("cutlass_80_tensorop_s1688tf32gemm_f32_128x128_16x5_nn_align4", "tf32"),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align8", None),
        ("cutlass_75_tensorop_s1688gemm_f16_256x128_tn_align8", None),
        ("cutlass_tensorop_bf16_s1688fprop_optimized_bf16_128x128_32x2_nhwc_align8", None),
        ("cutlass_80_tensorop_s1688bf16gemm_128x64_nn_align4", None),
        ("turing_s1688cudnn_fp16_128x64", None),
        ("turing_s1688gemm_128x64", None),
        ("cutlass_80_tensorop_d884gemm_64x64_16x3_nn_align1", "fp64"),
        ("volta_dgemm_64x64_nn", "fp64"),
        ("nvjet_sm90_tst_128x128_64x6_2x1_v_bz_NNT", None),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", None),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", None),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", None),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>", None),
        ("void ck_tile::kentry<1, BatchedGemmKernel<UniversalGemmPipelineProblem<_Float16, _Float16, float>>>()", None),
        ("void ck_tile::kentry<1, BatchedGemmKernel<UniversalGemmPipelineProblem<bf8_t, fp8_t, float>>>()", None),
        ("void ck_tile::kentry<1, BatchedGemmKernel<UniversalGemmPipelineProblem<float, float, float>>>()", "fp32"),
        ("void attention_mask_fill<float>(float*)", None),
        ("void conv_depthwise2d_forward_kernel<float>(float*)", None),
        ("", None),
    ],
)
def test_the_type_of_a_matrix_kernel(name: str, kind: str | None) -> None:
    assert matrix_type(name) == kind


COPY = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<direct_copy_kernel_cuda>>"
WITH_CAST = "void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda, LoadWithCast<1>, StoreWithCast<1>>"
CAST = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>"
CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 3, 64, 64>"


def test_what_a_kernel_only_moves() -> None:
    assert [copies_tensor(name) for name in (COPY, WITH_CAST, CAST, CAT)] == [True, False, False, True]
    assert [changes_type(name) for name in (COPY, WITH_CAST, CAST, CAT)] == [False, True, True, False]
    assert changes_layout("void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true>")
    assert changes_layout("void nhwcToNchwKernel<float>")
    assert not changes_layout("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw")


def test_floats_are_told_from_what_is_narrower() -> None:
    assert works_on_floats("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>")
    assert not works_on_floats("void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::BFloat16>>")
    assert not works_on_floats("vectorized_layer_norm_kernel<c10::Half, float>")


def test_a_name_may_tell_the_gpu() -> None:
    assert names_tensor_core_gpu("fmha_cutlassF_f32_aligned_64x64_rf_sm80")
    assert names_tensor_core_gpu("ampere_sgemm_128x64_tn")
    assert not names_tensor_core_gpu("maxwell_sgemm_128x64_tn")
    assert not names_tensor_core_gpu("sm_6000_kernel")


def test_only_what_makes_kernels_by_element_proves_one() -> None:
    made = (
        "void at::native::reduce_kernel<512>",
        "loop_add_fusion",
        "void cub::DeviceReduceKernel<int>",
        "cupy_add__f4",
    )
    by_hand = ("add(float*, int)", "void mul<thrust::complex<double>>(int)", "scale_add_stencil", "inner_loop_add")
    assert all(map(goes_by_element, made))
    assert not any(map(goes_by_element, by_hand))

"""Kernel names and what the kernels do. Long names are cut where profilers cut nothing: `...` stands for more types."""

from __future__ import annotations

import lzma
import re
import sqlite3
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.catalog.kernel_families import CARRIERS, COMMUNICATION, FAMILIES, INDUCTOR, OTHER, family
from support.command import CAPTURES, ROOT
from support.thorough import some

NATIVE = "void at::native::"
ITERATOR = "(at::TensorIteratorBase &)::[lambda() (instance 1)]::operator ()() const::[lambda(float) (instance 1)]"

NAMES: dict[str, tuple[str, ...]] = {
    "communication": (
        "ncclKernel_AllReduce",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
        "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, (int)2>(vllm::RankData *, vllm::RankSignals, int)",
        "void vllm::cross_device_reduce_2stage<half, 8>(vllm::RankData*, vllm::RankSignals, int)",
        "void aiter::cross_device_reduce_1stage<opus::bf16_t, 8>(aiter::RankData*, aiter::RankSignals)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
        "void <unnamed>::one_shot_all_reduce_kernel<c10::BFloat16, (int)16, (int)8, (bool)0>(T1 **, T1 *)",
        "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 8>(float**, unsigned long)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, false>(AllReduceParams)",
        "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16, 8>(Params)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<__nv_bfloat16, 8>(Params)",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<BlockPolicy, 8>(DispatchKernelPointers)",
        "void deep_ep::intranode::dispatch<(int)8, (int)768, (int)8192>(int4 *, float *, long *)",
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*, float*)",
        "void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)",
        "void deep_ep::internode_ll::combine<(bool)1, (int)7168, (int)9>(void *, void *)",
        "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
    ),
    "moe": (
        "void mm_ids_helper<4>(int const*, int*, int*)",
        "fused_moe_kernel",
        "fused_moe_kernel_gptq_awq",
        "void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int)",
        "void vllm::moe::topkGatingSoftmax<(int)4, (int)64, (int)4, (int)16, int>(const float *, const bool *)",
        "void vllm::moe::grouped_topk_fused_kernel<float, float, int>(float*, float*, int*)",
        "void moe::dev::routing::routingIndicesHistogramKernel<routingRenormalize::KernelParams<__nv_bfloat16>>(T1)",
        "void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16, float>(Params)",
        "void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16, float>(Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::MoeFCGemm<cutlass::bfloat16_t>>(Params)",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        "_combined_routing_compute",
        "_fwd_kernel_ep_scatter_1",
    ),
    "rope": (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, int)",
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheHeadParallelismKernel<false, 128, 8>(half*)",
        "void transformer_engine::fused_rope_forward_kernel<__nv_bfloat16>(__nv_bfloat16 const*, int)",
        "void tensorrt_llm::kernels::applyMLARopeAndAssignQKVKernelGeneration<__nv_bfloat16, 256>(int)",
        "void rope_neox<true, false, float>(float const*, float*, int, int)",
    ),
    "norm": (
        "rmsnorm_bf16",
        NATIVE + "<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, (bool)1>(int, T2, const T1 *)",
        NATIVE + "(anonymous namespace)::layer_norm_grad_input_kernel<float, float>(float const*, int)",
        NATIVE + "(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long, long, float const*)",
        NATIVE + "(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float, float const*, float*, float*)",
        NATIVE + "batch_norm_collect_statistics_kernel<at::native::InvStd, float, float, float, int>(float)",
        "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, c10::BFloat16 const*, float, int)",
        "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
        "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long, float, int, int)",
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, float)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
        "void cuApplyLayerNorm<float, float, float>(float*, float*, float*, float const*, int, int)",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<Kernel_traits<float, float>>(Params)",
        "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_tr_1C11_args<float>)",
        "_layer_norm_fwd_1pass_kernel",
        "triton_red_fused_add_mean_mul_pow_rsqrt_3",
        "triton_per_fused_native_layer_norm_2",
    ),
    "attention": (
        "void ssm_scan_f32<128, 16>(float const*)",
        "sage_fwd",
        "void qk_int_sv_f16_kernel<128, 64, 32, 64, 128, 3>(signed char*, signed char*, __half*)",
        "void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u, 128u>(unsigned int)",
        "_bwd_preprocess_do_o_dot",
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, cutlass::bfloat16_t>, (bool)0>(T1)",
        "void flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<64, 128>, 4, 7, true>(Flash_fwd_params)",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Flash_bwd_kernel_traits<64>>",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>, true>(Flash_fwd_mla_params)",
        "void sm90::flash_mla::kernel<cutlass::bfloat16_t>(Params)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u>(Params)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(MaskMode)1>>(Params)",
        "void flashinfer::BatchPrefillWithRaggedKVCacheKernel<flashinfer::KernelTraits<(MaskMode)1>>(Params)",
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u, float>(float*)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>::Params)",
        "void vllm::paged_attention_v2_kernel<unsigned short, unsigned short, 128, 16, 128>(float*, int)",
        "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, 16, 128, 256>(__hip_bfloat16 const*)",
        "kernel_unified_attention_2d",
        "_fwd_kernel",
        "_fwd_kernel_stage2",
        "_fwd_grouped_kernel_stage1",
        "_attn_fwd",
        "attn_fwd",
        "chunk_gated_delta_rule_fwd_kernel_h_blockdim64",
        "triton_tem_fused_flex_attention_0",
    ),
    "convolution": (
        "Im2d2Col_v2",
        "void fft1d_r2c_32<float, float, float2, false, false>(float2*, float const*, int)",
        "volta_scudnn_128x64_relu_xregs_large_nn_v1",
        "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_cudnn",
        "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32_cudnn",
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::winograd_nonfused::Params)",
        "void wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int, int, float const*)",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, true, true>(int, int, int)",
        "void cutlass::Kernel2<cutlass::conv::kernel::ImplicitGemmConvolution<...>>(Params)",
        "cask_cudnn::computeOffsetsKernel(cask_cudnn::ComputeOffsetsParams)",
        NATIVE + "(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(int)",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, c10::BFloat16>>(ConvParamsBase)",
        "igemm_fwd_gtcx2_nhwc_fp16_bx0_ex1_bt256x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x4x1_1x4x1x64",
        "miopenSp3AsmConv_v30_3_1_gfx94x_fp32_f2x3_stride1",
    ),
    "gemm": (
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN",
        "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, __nv_bfloat16, float>(cublasLt::Params)",
        "ampere_sgemm_128x64_nn",
        "volta_sgemm_32x32_sliced1x4_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_relu_f2f_stages_64x3_tn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, false>(Params)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, cublasGemvParams<float>>(Params)",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, "
        "cutlass::epilogue::thread::SiLu, cutlass::NumericArrayConverter<float>, cute::Copy_Atom<int>>>(Params)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(unsigned int)0, (unsigned int)7168>(float *)",
        "void marlin::Marlin<__nv_bfloat16, 1125899906843648l, 256, 1, 8, 8, false, 4>(int4 const*)",
        "void vllm::awq::gemm_forward_4bit_cuda_m16nXk32<128>(int, int, half*)",
        "void vllm::gptq::gemm_half_q_half_gptq_4bit_kernel<true, 1>(half const*)",
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_swiGlu_dynBatch_sm100f",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN_LDSB1",
        "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::PassThrough>, true>(Argument)",
        "void rocblas_gemvt_warp_reduce_kernel<true, 256, int, float>(int, int)",
        "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int, int, __hip_bfloat16 const*)",
        "void mul_mat_vec_q<(ggml_type)12, 1>(void const*, void const*, float*, int)",
        "triton_tem_fused_mm_silu_0",
        "triton_mm",
    ),
    "sampling": (
        NATIVE + "reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, long>>(T3)",
        NATIVE
        + "<unnamed>::distribution_elementwise_grid_stride_kernel<unsigned int, (int)4, void at::native::templates::"
        "cuda::random_from_to_kernel<at::CUDAGeneratorImpl *>(at::TensorIteratorBase &, unsigned long)>(long)",
        NATIVE
        + "(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, at::native::templates::cuda"
        "::normal_and_transform<float, float, at::CUDAGeneratorImpl*>(at::TensorIteratorBase&)>(long)",
        "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, float, int>(float*, int*)",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, float, int>(float*, int*)",
        "void flashinfer::sampling::TopKRenormProbKernel<1024u, float>(float*, float*)",
        NATIVE + "(anonymous namespace)::sampleMultinomialOnce<float, float>(long*, long, int, float const*)",
        "void vllm::apply_repetition_penalties_kernel<float>(float*, bool const*, bool const*, float const*, int)",
        "rejection_greedy_sample_kernel",
        "apply_token_bitmask_inplace_kernel",
        "triton_red_fused_argmax_0",
    ),
    "softmax": (
        "void <unnamed>::softmax_warp_forward<float, float, float, (int)6, (bool)0, (bool)0>(T2 *, const T1 *, int)",
        "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(float*)",
        NATIVE
        + "(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, LogSoftMaxForwardEpilogue>(float*)",
        "void cudnn::softmax_fw_kernel<2, float, float, 256, 1, 0, 0>(cudnnTensorStruct)",
        "liger_cross_entropy_kernel",
        "triton_per_fused__softmax_1",
    ),
    "sort": (
        NATIVE + "sbtopk::gatherTopK<float, unsigned int, (int)2, (bool)0>(at::cuda::detail::TensorInfo<const T1, T2>)",
        NATIVE + "mbtopk::radixFindKthValues<float, unsigned int, unsigned int, 1>(int)",
        NATIVE + "radixSortKVInPlace<(int)-2, (int)-1, (int)32, (int)4, long, long, unsigned int>(int)",
        NATIVE + "bitonicSortKVInPlace<2, -1, 16, 16, float, long>(int)",
        "void at_cuda_detail::cub::DeviceRadixSortSingleTileKernel<at_cuda_detail::cub::Policy900, false, long>(long)",
        "void cub::CUB_200302_900_NS::DeviceSegmentedRadixSortKernel<Policy, false, true, float, long>(float const*)",
        "void cub::DeviceRadixSortHistogramKernel<cub::Policy800, false, long, int>(int*)",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__merge_sort::BlockSortAgent<int>>(int)",
    ),
    "gather-scatter": (
        "void k_set_rows<float, long, __half>(float const*, long const*, __half*)",
        "is_u32_bf16",
        NATIVE + "<unnamed>::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, (int)2, (int)2>(int)",
        NATIVE + "vectorized_gather_kernel<(int)16, long>(char *, char *, T2 *, int, long, long)",
        NATIVE
        + "_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<true, float>"
        "::operator()<at::native::ReduceAdd>(at::TensorIterator&, long)::{lambda(int)#1}>(int)",
        NATIVE
        + "index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_put_kernel_impl<int>>>",
        NATIVE + "indexFuncLargeIndex<float, long, unsigned int, 2, 2, -2, true, at::native::ReduceAdd>(int)",
        "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long*, long*, float*, float*, long)",
        NATIVE + "(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>(long const*)",
        "void split_embedding_codegen_forward_unweighted_kernel<float, float, float, long, 2ul>(float*)",
        "void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int, int, int)",
        NATIVE + "(anonymous namespace)::upsample_nearest2d_out_frame<float, at::native::nearest_neighbor>(float*)",
        "void cub::DeviceSelectSweepKernel<cub::Policy, cub::CountingInputIterator<long>, bool*>(int)",
        "create_flashinfer_kv_indices_triton",
        "triton_poi_fused_embedding_0",
    ),
    "activation": (
        "void unary_gated_op_kernel<&(op_silu(float)), float>(float const*, float const*, float*)",
        "void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16, float>(float*)",
        "silu_mul_fp8_quant_deep_gemm_kernel",
        NATIVE
        + f"elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<silu_kernel{ITERATOR}>>(int)",
        NATIVE
        + f"vectorized_elementwise_kernel<(int)4, at::native::GeluCUDAKernelImpl{ITERATOR}, std::array<char *, 2>>",
        NATIVE + f"vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda{ITERATOR}>(int)",
        NATIVE + "vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::leaky_relu_kernel>(int)",
        NATIVE
        + f"vectorized_elementwise_kernel<4, at::native::<unnamed>::threshold_kernel_impl<float>{ITERATOR}>(int)",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>()), true>(T1 *)",
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(__nv_bfloat16*, int)",
        "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i",
        "silu_and_mul_kernel",
        "_swiglu_forward_kernel",
        "triton_poi_fused_mul_silu_1",
    ),
    "reduction": (
        "fast_max_f32",
        NATIVE + "reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>(T3)",
        NATIVE + "reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::"
        "sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>>>(T3)",
        NATIVE + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::NormTwoOps<float, float, float>>>(T3)",
        NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float>>(int)",
        "void at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::Policy, long *>(T2, T3)",
        "void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(cub::ScanTileState<int, true>, int)",
        "void cub::DeviceReduceByKeyKernel<cub::Policy, long*, long*>(long*)",
        "void at::cuda::kernelHistogram1D<long, long, long, (int)1, (int)2, (int)-1>(int)",
        NATIVE + "tensor_kernel_scan_innermost_dim<float, std::plus<float>>(float*, float const*)",
        NATIVE + "(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)",
        NATIVE + "(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*, long*)",
        "void rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel<rocprim::detail::wrapped_scan_config<long>>(int)",
        "triton_red_fused_sum_1",
        "triton_per_fused_add_sum_view_5",
        "input_reduce_fusion_3",
    ),
    "memset": (
        "void cudnn::ops::setTensor5d_kernel<float, float, float>(cudnnTensorStruct, float*, float)",
        "[CUDA memset]",
        "Memset (Device)",
        "__amd_rocclr_fillBufferAligned.kd",
    ),
    "copy": (
        "void quantize_mmq_q8_1<(mmq_q8_1_ds_layout)1>(float const*, int const*, void*)",
        "const_set_f32",
        "void dali::kernels::detail::SliceGPUKernel<unsigned char, unsigned char, 3>(void)",
        "void deep_gemm::transpose_fp32<512u, 64u, 56u>(float const*, float*, unsigned int)",
        NATIVE
        + "vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, std::array<char *, 1>>(int, T2, T3)",
        NATIVE + f"unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda{ITERATOR}, LoadWithCast<1>>(int)",
        NATIVE + f"vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda{ITERATOR}>(int)",
        NATIVE + f"elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<masked_fill_kernel{ITERATOR}>>(int)",
        NATIVE
        + "<unnamed>::CatArrayBatchedCopy_vectorized<at::native::<unnamed>::OpaqueType<(unsigned int)2>>(char *)",
        NATIVE + "<unnamed>::multi_tensor_apply_kernel<TensorListMetadata<(int)2>, at::native::Copy<long, long>>(T1)",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>(float*)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(int)",
        "void flashinfer::AppendPagedKVCacheKernel<128u, 16u, __nv_bfloat16, int>(int)",
        "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(StoreKVCacheParams)",
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(float const*)",
        "void tensorrt_llm::kernels::quantize_with_block_size<(BlockScaleQuantizationType)2, __nv_bfloat16>(int)",
        "Memcpy DtoD (Device -> Device)",
        "__amd_rocclr_copyBuffer",
        "triton_poi_fused__to_copy_1",
        "loop_transpose_fusion_2",
    ),
    "elementwise": (
        "void unary_op_kernel<&(op_neg(float)), float>(float const*, float*, int)",
        "badd_bf16",
        "uneg_f32",
        "affine_f32",
        "SubTensorOpWithScalar1d",
        "cupy_multiply__float32_float32_float32",
        "broadcast_kernel(CuKernelContext, CuDeviceArray<Float32, (int)3, (int)1>, Broadcasted<CuArrayStyle<(int)3>>)",
        "gpu_broadcast_kernel_linear",
        "CudaCodeGen::kernel1(CudaCodeGen::Tensor<float, 2>)",
        "nvfuser_pointwise_f0_c1_r0_g0",
        "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<int>>(int)",
        NATIVE
        + "elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<"
        "float, float, float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &)>(int, T3)",
        NATIVE
        + "vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3>>(int)",
        NATIVE + "unrolled_elementwise_kernel<at::native::CUDAFunctorOnSelf_add<long>, std::array<char*, 2>, 4, "
        "TrivialOffsetCalculator<1>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>>(int)",
        NATIVE + f"vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda{ITERATOR}>(int)",
        "void <unnamed>::elementwise_kernel_with_index<int, at::native::arange_cuda_out(const c10::Scalar &)>(int)",
        NATIVE + "(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, "
        "FusedAdamMathFunctor<float, 4, (ADAM_MODE)1, false>>(int)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, adamMode_t>(int)",
        NATIVE + "(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(int)",
        "void cudnn::ops::scalePackedTensor_kernel<float, float>(long, float*, float)",
        "triton_poi_fused_add_bitwise_and_bitwise_not_bitwise_or_ge_lt_mul_sub_0",
        "triton_poi_fused_constant_pad_nd_moe_forward_0",
        "triton_poi_fused_add_unified_attention_with_output_2",
        "triton_poi_fused_0",
        "loop_add_fusion",
    ),
    OTHER: (
        "add(int, float*, float*)",
        "mul(float const*, float const*, float*, int)",
        "void split_kernel<float>(float*)",
        "",
        "kernel",
        "main_kernel",
        "void probe_GPU2<128, 4>(int*, int*, int*)",
        "void mine<cutlass::gemm::kernel::Gemm, flash::Softmax>(ncclDevComm*, at::native::CopyParams)",
    ),
}


def test_the_family_of_a_real_name() -> None:
    expected = {name: of for of, names in NAMES.items() for name in names}
    assert {name: family(name) for name in expected} == expected


def test_the_table_above_is_long_and_covers_every_family() -> None:
    assert sum(map(len, NAMES.values())) >= 120
    assert set(NAMES) == {name for name, _ in FAMILIES} | {OTHER}


def test_each_family_is_named_once() -> None:
    for table in (FAMILIES, INDUCTOR):
        assert max(Counter(name for name, _ in table).values()) == 1
    assert {name for name, _ in INDUCTOR} <= {name for name, _ in FAMILIES}
    assert COMMUNICATION in {name for name, _ in FAMILIES}


def test_every_pattern_stands_on_its_own() -> None:
    """They are joined by `|`, so each must compile alone, and none may match the empty text, which is in every name."""
    patterns = [pattern for table in (FAMILIES, INDUCTOR) for _, patterns in table for pattern in patterns]
    assert not [pattern for pattern in (*patterns, *CARRIERS) if re.compile(pattern).search("")]


def test_a_user_s_patterns_win_over_the_table_in_their_order() -> None:
    mine = (("mine", r"^probe_"), ("joins", r"GPU\d\b"), ("gemm", r"attn_fwd"))
    assert family("probe_GPU2", mine) == "mine"
    assert family("build_GPU2", mine) == "joins"
    assert family("attn_fwd", mine) == "gemm"
    assert family("attn_fwd") == "attention"
    assert family("_fwd_kernel", mine) == "attention"


def test_a_user_s_pattern_sees_the_parameters_too() -> None:
    assert family("void f<int>(MyParams)", (("mine", "myparams"),)) == "mine"


@pytest.mark.parametrize("name", ["rms_norm_kernel", "ncclDevKernel_SendRecv", "gemv2N_kernel", "mine"])
def test_types_and_parameters_do_not_mislead(name: str) -> None:
    misleading = "<flash::Softmax<(int)4>, cutlass::gemm::Gemm>(ncclDevComm *, CopyParams<(bool)1>)"
    for written in (f"{name}{misleading}", f"void {name}{misleading}", f"void <unnamed>::{name}{misleading}"):
        assert family(written) == family(name)


@cache
def compiled(table: str) -> list[tuple[str, re.Pattern[str]]]:
    chosen = {"families": FAMILIES, "inductor": INDUCTOR}[table]
    return [(name, re.compile("|".join(patterns), re.IGNORECASE)) for name, patterns in chosen]


def first(table: str, text: str) -> str:
    return next((name for name, pattern in compiled(table) if pattern.search(text, 0, 8192)), "")


BRACKET = re.compile(r"->|[<>()\[\]{}]")
CARRIER = re.compile(rf"(?:^|::|\s)(?:{'|'.join(CARRIERS)})\s*$", re.IGNORECASE)
ANONYMOUS = re.compile(r"<unnamed>|\(anonymous namespace\)|\{anonymous\}|\(anonymous\)")


def plainly(name: str) -> str:
    """The family by the tables as they are written: every pattern on every text, which takes a hundred times longer."""
    if name.startswith("triton_") and (found := first("inductor", name)):
        return found
    text = ANONYMOUS.sub("anonymous", name)
    parts, opened = {True: "", False: ""}, ""  # what is in no bracket, and what is in some
    last = 0
    for bracket in BRACKET.finditer(text):
        if bracket[0] == "->":
            continue
        parts[not opened] += text[last : bracket.start()]
        last = bracket.end()
        if bracket[0] in "<([{":
            if not opened and bracket[0] == "(":
                break
            parts[False] += bracket[0] if opened else ""
            opened += bracket[0]
        elif opened and opened[-1] == "<([{"[">)]}".index(bracket[0])]:
            opened = opened[:-1]
            parts[False] += bracket[0] if opened else " "
        else:
            parts[not opened] += bracket[0]
    else:
        parts[not opened] += text[last:]
    function, arguments = parts[True], parts[False].removesuffix(" ")
    if CARRIER.search(function) and (found := first("families", arguments)):
        return found
    return first("families", function if function.strip() else name) or OTHER


RECORDED = sorted(CAPTURES.glob("*.sqlite.xz")) + sorted((ROOT.parent / "shared" / "corpus").glob("nsys/*.sqlite.xz"))


@pytest.mark.parametrize("packed", some(RECORDED, 3, first=2), ids=lambda path: path.name.split("__")[-1])
def test_the_tables_are_searched_as_they_are_written(packed: Path, tmp_path: Path) -> None:
    """On every text of every capture, kernel or not."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    database = sqlite3.connect(path)
    texts = [text for (text,) in database.execute("SELECT value FROM StringIds") if isinstance(text, str)]
    database.close()
    assert [(text, family(text)) for text in texts] == [(text, plainly(text)) for text in texts]


def test_the_patterns_are_in_lower_case() -> None:
    """Names are searched in lower case."""
    patterns = [*CARRIERS, *(each for table in (FAMILIES, INDUCTOR) for _, patterns in table for each in patterns)]
    assert [pattern for pattern in patterns if pattern != pattern.lower()] == []


WORDS = sorted(
    {word for _, patterns in (*FAMILIES, *INDUCTOR) for each in patterns for word in re.findall(r"\w+", each)}
)
REAL = [name for names in NAMES.values() for name in names]
CUT = st.tuples(st.sampled_from(REAL), st.integers(0, 200), st.integers(0, 60)).map(
    lambda cut: cut[0][cut[1] :][: cut[2]]
)
BETWEEN = st.sampled_from(
    ["", "_", "::", "<", ">", "(", ")", "->", " ", "1", "é", "\u017f", "\u212a", "kernel", "triton_"]
)


@given(st.lists(CUT | st.sampled_from(WORDS) | BETWEEN, max_size=12).map("".join), st.booleans())
def test_words_of_real_names_in_any_order_too(name: str, is_upper: bool) -> None:
    written = name.upper() if is_upper else name
    assert family(written) == plainly(written)


KNOWN = {name for name, _ in FAMILIES} | {OTHER}
PIECES = st.sampled_from(
    [*"<>()[]{}", "->", "::", " ", "_", "void", "operator", "(anonymous namespace)", "<unnamed>", "triton_poi_fused_"]
    + ["kernel", "elementwise_kernel", "gemm", "copy", "norm", "flash", "_ZN", "1"]
)


@given(st.text() | st.lists(PIECES, max_size=40).map("".join))
def test_any_text_has_a_family(name: str) -> None:
    assert family(name) in KNOWN


STARTS = ("", "void ", "triton_poi_", "triton_red_", "triton_poi_fused_", "f<", "reduce_kernel<")
REPEATED = (
    *("a", "_", "<", "(", "()", "<>", "[", ">", "->", "x<", "f<(", " ", "::", "0", "re", "loop_", "store_", "copy "),
    *("kernel<", "triton_poi_fused_", "triton_tem_", "_to_copy_", "mean_", "with_", "(anonymous namespace)"),
    *("<unnamed>::", "é", "\0"),
)


def test_a_name_of_64_kb_is_no_trouble() -> None:
    for start in STARTS:
        for piece in REPEATED:
            name = (start + piece * (65536 // len(piece)))[:65536]
            assert family(name) in KNOWN, (start, piece)

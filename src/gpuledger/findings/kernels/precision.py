"""PRECISION: matrix products run in a type that tensor cores do not take.

The GPU is busy, and most of its time goes to matrix products, convolutions or attention whose names say single
precision (`sgemm`, `f32f32_f32f32`, `ffma`, `scudnn`) or double precision (`dgemm`, `f64`).
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.wasted_work import narrower_types
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import RewriteWords, rewrite_rule_by_kind
from gpuledger.messages import say

_FP32: Final = FixWords.of(
    say("matrix products on inputs of 16 bits, or TF32 where the library has it"),
    torch=say("`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32"),
    vllm=say("serve in 16 bits: `--dtype=bfloat16`"),
    sglang=say("serve in 16 bits: `--dtype=bfloat16`"),
    jax=say("parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`"),
    tensorflow=say("`tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')`"),
    tensorrt=say("build the engine with `--bf16` or `--fp16`"),
    llama=say("a model in 16 bits or quantized (`llama-quantize`)"),
    cupy=say("`CUPY_TF32=1`, or inputs as `float16`"),
    julia=say("`CUDA.math_mode!(CUDA.FAST_MATH)` for TF32, or inputs as `Float16`"),
    cuda=say("`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`"),
    hip=say("`hipblasGemmEx` with 16-bit inputs"),
)

_FP32_TO_HALF: Final = FixWords.of(
    say("matrix products on half-precision inputs, which this GPU's tensor cores take"),
    torch=say("`model.half()`, or `torch.autocast('cuda', torch.float16)` with a `GradScaler`"),
    vllm=say("serve in half precision: `--dtype=half`"),
    sglang=say("serve in half precision: `--dtype=half`"),
    jax=say("parameters and inputs in `jnp.float16`"),
    tensorflow=say("`tf.keras.mixed_precision.set_global_policy('mixed_float16')`"),
    tensorrt=say("build the engine with `--fp16`"),
    llama=say("a model in F16, or quantized (`llama-quantize`)"),
    cupy=say("inputs as `float16`"),
    julia=say("inputs as `Float16`"),
    cuda=say("`cublasGemmEx` with `CUDA_R_16F` inputs and `CUBLAS_COMPUTE_32F`"),
)
"""Of a GPU that has tensor cores, but neither bfloat16 nor TF32, or is not known to."""

_FP32_WEIGHTS: Final = FixWords.of(
    say("weights of 16 bits; TF32 would read as many bytes as FP32"),
    torch=say("`model.to(torch.bfloat16)`; TF32 would read as many bytes as FP32"),
    vllm=say("serve in 16 bits: `--dtype=bfloat16`"),
    sglang=say("serve in 16 bits: `--dtype=bfloat16`"),
)
_TF32: Final = FixWords.of(
    say("matrix products on inputs of 16 bits"),
    torch=say("`model.to(torch.bfloat16)`, or `torch.autocast('cuda', torch.bfloat16)` for training"),
    vllm=say("serve in 16 bits: `--dtype=bfloat16`"),
    sglang=say("serve in 16 bits: `--dtype=bfloat16`"),
    jax=say("parameters and inputs in `jnp.bfloat16`"),
    tensorflow=say("`tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')`"),
    tensorrt=say("build the engine with `--bf16` or `--fp16`"),
    cupy=say("inputs as `float16`"),
    julia=say("inputs as `Float16`"),
    cuda=say("`cublasGemmEx` with 16-bit inputs"),
    hip=say("`hipblasGemmEx` with 16-bit inputs"),
)

_FP64: Final = FixWords.of(
    say("single precision, in constants too"),
    torch=say("NumPy defaults to float64: `astype(np.float32)` before `torch.from_numpy`, and no `.double()`"),
    jax=say("leave `jax_enable_x64` off, and cast NumPy arrays to float32"),
    tensorflow=say("NumPy defaults to float64: cast arrays to float32 before they become tensors"),
    cupy=say("CuPy defaults to float64, as NumPy does: `dtype=cupy.float32`"),
    numba=say("arrays as `np.float32`, and constants as `np.float32(1)`: Python's floats are double"),
    julia=say("`Float32` arrays, and constants as `1f0`"),
    openacc=say("single precision (`float`, `real(4)`), and constants as `1.0f` or `1.0_4`"),
    openmp=say("single precision (`float`, `real(4)`), and constants as `1.0f` or `1.0_4`"),
    cuda=say("float instead of double, and constants as `1.0f`"),
    hip=say("float instead of double, and constants as `1.0f`"),
)

_ON_FLOATS: Final = say("on FP32 tensors around them")

RULE: Final = rewrite_rule_by_kind(
    "PRECISION",
    narrower_types,
    {
        "fp32": RewriteWords(
            say("FP32 matrix kernels, which do not run on tensor cores"),
            say("they run in bfloat16 on tensor cores, and the tensors around them are half the size"),
            _FP32,
            _ON_FLOATS,
        ),
        "fp32 to half": RewriteWords(
            say("FP32 matrix kernels, which do not run on tensor cores"),
            say("they run in half precision on tensor cores, and the tensors around them are half the size"),
            _FP32_TO_HALF,
            _ON_FLOATS,
        ),
        "fp32 weights": RewriteWords(
            say("products with a vector, which read FP32 weights"),
            say("they read their weights in 16 bits, half the bytes"),
            _FP32_WEIGHTS,
            _ON_FLOATS,
        ),
        "tf32": RewriteWords(
            say("TF32 matrix kernels, at half the tensor-core rate of 16-bit types"),
            say("they run in bfloat16, and the tensors around them are half the size"),
            _TF32,
            _ON_FLOATS,
        ),
        "fp64": RewriteWords(
            say("FP64 kernels, in a program that otherwise uses none"),
            say("they run in FP32, on half the bytes"),
            _FP64,
        ),
    },
)

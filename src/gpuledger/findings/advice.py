"""What to change, in the words of the framework that a program is written in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpuledger.catalog.frameworks import Framework
from gpuledger.messages import Message, say

ADVICE: Final[Mapping[str, Mapping[Framework, Message]]] = {
    "PRECISION": {
        Framework.TORCH: say("`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32"),
        Framework.JAX: say(
            "parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`"
        ),
        Framework.TENSORRT: say("build the engine with `--bf16` or `--fp16`"),
        Framework.CUDA: say("`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`"),
    },
    "PRECISION fp64": {
        Framework.TORCH: say(
            "NumPy defaults to float64: `astype(np.float32)` before `torch.from_numpy`, and no `.double()`"
        ),
        Framework.JAX: say("leave `jax_enable_x64` off, and cast NumPy arrays to float32"),
        Framework.CUDA: say("float instead of double, and constants as `1.0f`"),
    },
    "ATTENTION-UNFUSED": {
        Framework.TORCH: say("`F.scaled_dot_product_attention`, or `attn_implementation='sdpa'` in transformers"),
        Framework.JAX: say("`jax.nn.dot_product_attention(implementation='cudnn')`"),
        Framework.CUDA: say("a FlashAttention kernel, or cuDNN's fused attention"),
    },
    "LAYOUT": {
        Framework.TORCH: say("model and inputs `.to(memory_format=torch.channels_last)`"),
        Framework.JAX: say("NHWC in `dimension_numbers` of `lax.conv_general_dilated`"),
        Framework.TENSORRT: say("give inputs and outputs the format that the engine's layers use (`--inputIOFormats`)"),
        Framework.CUDA: say("`CUDNN_TENSOR_NHWC` for tensors and filters throughout"),
    },
    "DEVICE-COPY": {
        Framework.TORCH: say("views instead of `.contiguous()` and `torch.cat`; write into preallocated buffers"),
        Framework.JAX: say("`jax.lax.dynamic_update_slice` with donated buffers (`donate_argnums`)"),
        Framework.CUDA: say("write results where they are read"),
    },
    "FULL-SORT": {
        Framework.TORCH: say(
            "`torch.topk` for the few largest, `torch.bincount` to count; a sampler without a sort for top-p"
        ),
        Framework.JAX: say("`jax.lax.top_k`, or `jax.lax.approx_max_k`, for the few largest"),
        Framework.CUDA: say("a selection of the few largest (RAFT's `select_k`), or a sort of fewer values"),
    },
    "UNFUSED-CHAIN": {
        Framework.TORCH: say("`torch.compile`, or one operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"),
        Framework.JAX: say("call it inside one `jax.jit`, which fuses it"),
        Framework.CUDA: say("one kernel that keeps intermediates in registers"),
    },
    "OPTIMIZER-UNFUSED": {
        Framework.TORCH: say("`torch.optim.AdamW(..., fused=True)`"),
        Framework.CUDA: say("one kernel for all passes over a parameter"),
    },
    "GEMM-LOOP": {
        Framework.TORCH: say("`torch.bmm`, or `torch._grouped_mm` where sizes differ"),
        Framework.JAX: say("`jax.vmap` over the loop, or `jax.lax.ragged_dot` where sizes differ"),
        Framework.CUDA: say("`cublasGemmStridedBatchedEx`, or CUTLASS's grouped GEMM"),
    },
    "UNDER-FILLED": {
        Framework.TORCH: say("one call for all rows or requests, instead of a loop over them"),
        Framework.JAX: say("`jax.vmap` instead of a loop"),
        Framework.CUDA: say("more blocks: split rows, or handle several of them in one launch"),
    },
}
"""By code, or code and kind; by framework."""


def advice_for(code: str, kind: str, framework: Framework) -> Message:
    """What to change; as CUDA has it, where the framework has no words of its own for it."""
    advice = ADVICE.get(f"{code} {kind}", ADVICE[code])
    return advice.get(framework, advice[Framework.CUDA])

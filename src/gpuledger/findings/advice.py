"""What to change, in the words of the framework that a program is written in.

What to do about a finding, in one line: the first step of its page's fix. `gpuledger explain CODE` has the rest.

The pages about findings: one Markdown file per code under `explain/`, other languages under `explain/LANGUAGE/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from gpuledger.catalog.frameworks import Framework
from gpuledger.findings.finding import Finding
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


FIRST_FIX: Final[dict[str, Message]] = {
    "ALLOC-CHURN": say("preallocate buffers and reuse them (`out=`, one arena sized at warm-up)"),
    "CAST": say("keep weights and activations in one type; convert weights once, not in each step"),
    "CLOCKS-LOW": say(
        "see what holds it down: `nvidia-smi -q -d CLOCK,POWER,PERFORMANCE`; unlock with `nvidia-smi -rgc`"
    ),
    "COMM-EXPOSED": say("overlap it with compute: async collectives, prefetch, two micro-batches"),
    "COMM-SKEW": say("fix the ranks that come late: `gpuledger fleet` names them"),
    "COPY-BOUND": say("copy fewer bytes, or from pinned memory on its own stream"),
    "COPY-EXPOSED": say("keep data on the device, or copy one step ahead on a side stream from pinned memory"),
    "COPY-PAGEABLE": say("copy from and to pinned memory (`pin_memory=True`), and reuse the buffers"),
    "DEVICE-WAIT": say("record the event right after the producer, and launch that work earlier"),
    "GPU-SHARED": say("give the process the GPU for itself, or run both under MPS"),
    "HOST-ALLOC": say("allocate once at start-up; no `cudaMalloc`, `empty_cache()` or pinning in the loop"),
    "HOST-CODE": say("move the host's work off the launching thread, or run it while the GPU is busy"),
    "HOST-COPY": say("replace the loop of small copies by one tensor operation, or pack them into one copy"),
    "HOST-LOAD": say("keep shapes stable (pad to buckets), and run every shape once before the measured steps"),
    "HOST-OS": say("move reads, writes and sleeps off the launching thread"),
    "HOST-SYNC": say("do not read results back in the step: no `.item()`, `.cpu()` or `nonzero`; read one step later"),
    "HOST-THREAD": say("shorten what the other thread does, or start it a step earlier"),
    "KERNEL-LOOP": say("use the fused or foreach form: one kernel for all tensors"),
    "LAUNCH-BOUND": say("replay the step as a CUDA graph, or compile it (`torch.compile(mode='reduce-overhead')`)"),
    "TINY-KERNELS": say("fuse them, batch them, or capture the step in a CUDA graph"),
    "UNIFIED-MEMORY": say("prefetch pages before they are touched, or use plain device memory"),
}
"""By code. Findings about a capture, or that only say when time is lost, have none: their claim is what to do."""


def first_fix(found: Finding) -> Message | None:
    """Of one finding: its own where it has one, in the words of the framework."""
    return found.fix or FIRST_FIX.get(found.code)


def page(code: str, language: str = "en") -> str:
    """The page about a code."""
    folder = ("explain",) if language == "en" else ("explain", language)
    return files(__package__).joinpath(*folder, f"{code}.md").read_text(encoding="utf-8")

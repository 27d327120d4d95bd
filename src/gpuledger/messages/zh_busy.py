"""Chinese for a GPU that is busy with the wrong work."""

from __future__ import annotations

from typing import Final

BUSY: Final[dict[str, str]] = {
    # findings/busy
    "{doing}: {kernels}, {time}": "{doing}：{kernels}，{time}",
    "FP32 matrix kernels, which do not run on tensor cores": "矩阵 kernel 用单精度，没有用 Tensor Core",
    "they run in bfloat16 on tensor cores, and the tensors around them are half the size": (
        "它们用 bfloat16 在 Tensor Core 上运行，周围的张量只占一半字节"
    ),
    "TF32 matrix kernels, at half the tensor-core rate of 16-bit types": (
        "矩阵 kernel 用 TF32，Tensor Core 的速度只有 16 位的一半"
    ),
    "they run in bfloat16, and the tensors around them are half the size": (
        "它们用 bfloat16 运行，周围的张量只占一半字节"
    ),
    "FP64 kernels, in a program that otherwise uses none": ("有些 kernel 用双精度，而程序的其余部分并不用"),
    "they run in FP32, on half the bytes": "它们用单精度运行，字节减半",
    "attention is not fused: the full score matrix is written, masked, normalized and read back": (
        "attention 没有融合：全部分数写出、加 mask、归一化，再读回"
    ),
    "one fused kernel does it all and never writes the score matrix": (
        "融合的 kernel 在两次矩阵乘之间完成，不写出分数"
    ),
    "layout conversions between kernels": "张量在 kernel 之间改变布局",
    "one layout throughout: these kernels go away, and batch norms read contiguous memory": (
        "始终用一种布局：这些 kernel 不再运行，batch norm 读取相邻的数据"
    ),
    "device-to-device tensor copies": "张量在 GPU 内部被复制",
    "whole tensors are sorted": "对整个张量排序",
    "only the largest values are needed: picking them takes a fifth of a sort": (
        "只需要最大的那些值：选出它们只用排序的五分之一时间"
    ),
    "`torch.topk` for the few largest, `torch.bincount` to count; a sampler without a sort for top-p": (
        "只要最大的几个时用 `torch.topk`，计数用 `torch.bincount`；top-p 用不排序的采样器"
    ),
    "`jax.lax.top_k`, or `jax.lax.approx_max_k`, for the few largest": (
        "只要最大的几个时用 `jax.lax.top_k` 或 `jax.lax.approx_max_k`"
    ),
    "a selection of the few largest (RAFT's `select_k`), or a sort of fewer values": (
        "只选最大的几个（RAFT 的 `select_k`），或减少排序的数量"
    ),
    "tensors are written in place or used as views: these kernels go away": "就地写入，或用视图：这些 kernel 不再运行",
    "chains of elementwise kernels, each reading what the last one wrote": (
        "elementwise kernel 一个接一个，每个都读回上一个写出的内容"
    ),
    "one fused kernel reads and writes the data once": "一个 kernel 只读写一次",
    "the optimizer updates parameters one by one, in many passes over memory": "参数逐个更新，每个都要多次遍历显存",
    "a fused optimizer reads and writes parameter, gradient and moments once": (
        "融合的优化器对参数、梯度和动量只读写一次"
    ),
    "the same small GEMM runs over and over": "同一个小矩阵乘反复运行",
    "one batched or grouped GEMM does them all": "一次 batched 或 grouped GEMM 完成全部",
    "kernels with too few blocks leave most SMs idle": "kernel 的 block 太少，大部分 SM 空闲",
    "their work is spread over all SMs": "把它们的工作分给所有 SM",
    # findings/advice
    "`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32": (
        "`model.to(torch.bfloat16)`，或用 `torch.set_float32_matmul_precision('high')` 启用 TF32"
    ),
    "parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`": (
        "参数和输入用 `jnp.bfloat16`，或设 `jax_default_matmul_precision='tensorfloat32'`"
    ),
    "build the engine with `--bf16` or `--fp16`": "构建 engine 时加 `--bf16` 或 `--fp16`",
    "`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`": (
        "`cublasGemmEx` 用 16 位输入，或用 `CUBLAS_COMPUTE_32F_FAST_TF32`"
    ),
    "NumPy defaults to float64: `astype(np.float32)` before `torch.from_numpy`, and no `.double()`": (
        "numpy 默认是 float64：`torch.from_numpy` 之前用 `astype(np.float32)`，不要用 `.double()`"
    ),
    "leave `jax_enable_x64` off, and cast NumPy arrays to float32": (
        "不要打开 `jax_enable_x64`，把 numpy 数组转成 float32"
    ),
    "float instead of double, and constants as `1.0f`": "用 float 代替 double，常量写成 `1.0f`",
    "`F.scaled_dot_product_attention`, or `attn_implementation='sdpa'` in transformers": (
        "`F.scaled_dot_product_attention`，或在 transformers 中设 `attn_implementation='sdpa'`"
    ),
    "`jax.nn.dot_product_attention(implementation='cudnn')`": (
        "用 `jax.nn.dot_product_attention(implementation='cudnn')`"
    ),
    "a FlashAttention kernel, or cuDNN's fused attention": "FlashAttention kernel，或 cuDNN 的融合 attention",
    "model and inputs `.to(memory_format=torch.channels_last)`": (
        "模型和输入都用 `.to(memory_format=torch.channels_last)`"
    ),
    "NHWC in `dimension_numbers` of `lax.conv_general_dilated`": (
        "`lax.conv_general_dilated` 的 `dimension_numbers` 用 NHWC"
    ),
    "give inputs and outputs the format that the engine's layers use (`--inputIOFormats`)": (
        "让输入输出使用 engine 各层所用的格式（`--inputIOFormats`）"
    ),
    "`CUDNN_TENSOR_NHWC` for tensors and filters throughout": "张量和卷积核始终用 `CUDNN_TENSOR_NHWC`",
    "views instead of `.contiguous()` and `torch.cat`; write into preallocated buffers": (
        "用视图代替 `.contiguous()` 和 `torch.cat`；写入预留好的显存"
    ),
    "`jax.lax.dynamic_update_slice` with donated buffers (`donate_argnums`)": (
        "用 `jax.lax.dynamic_update_slice`，并捐赠缓冲区（`donate_argnums`）"
    ),
    "write results where they are read": "把结果直接写到读取的地方",
    "`torch.compile`, or one operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`": (
        "`torch.compile`，或换成一个算子：`F.rms_norm`、`F.layer_norm`、`F.gelu`"
    ),
    "call it inside one `jax.jit`, which fuses it": "放进同一个 `jax.jit`，由它融合",
    "one kernel that keeps intermediates in registers": "用一个 kernel，中间结果留在寄存器里",
    "`torch.optim.AdamW(..., fused=True)`": "用 `torch.optim.AdamW(..., fused=True)`",
    "one kernel for all passes over a parameter": "对一个参数的多次遍历合成一个 kernel",
    "`torch.bmm`, or `torch._grouped_mm` where sizes differ": "`torch.bmm`；大小不同时用 `torch._grouped_mm`",
    "`jax.vmap` over the loop, or `jax.lax.ragged_dot` where sizes differ": (
        "对循环用 `jax.vmap`；大小不同时用 `jax.lax.ragged_dot`"
    ),
    "`cublasGemmStridedBatchedEx`, or CUTLASS's grouped GEMM": (
        "`cublasGemmStridedBatchedEx`，或 CUTLASS 的 grouped GEMM"
    ),
    "one call for all rows or requests, instead of a loop over them": "对所有行或请求只调用一次，不要循环",
    "`jax.vmap` instead of a loop": "用 `jax.vmap` 代替循环",
    "more blocks: split rows, or handle several of them in one launch": "增加 block：拆分行，或一次 launch 处理多个",
}

"""Attention that other kernels do faster.

ATTENTION-UNFUSED: attention writes all its scores to memory.

Between two matrix products come scales, masks, a softmax, perhaps casts and a dropout, all over tensors of sequence by
sequence. Their time grows with the square of the length.

ATTENTION-SLOW-PATH: fused attention that was given a mask or an odd head size.

Attention is one kernel, but a slow one: `fmha_cutlassF` where `flash_fwd` or cuDNN's would do, or a flash kernel
between kernels that pad and cut its heads.

OLD-KERNEL: attention by kernels made for an older GPU.

On a Hopper or newer GPU attention is `flash_fwd_kernel` and `flash_bwd_…_kernel`: FlashAttention 2, which was made for
GPUs of 2020 and reaches a third of this one's arithmetic peak at best.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.slow_kernels import fused_attention, newer_attention
from gpuledger.analyse.light.wasted_work import fuse_attention
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

ATTENTION_UNFUSED: Final = rewrite_rule(
    "ATTENTION-UNFUSED",
    fuse_attention,
    say("attention is not fused: the full score matrix is written, masked, normalized and read back"),
    say("one fused kernel does it all and never writes the score matrix"),
    FixWords.of(
        say("a FlashAttention kernel, or the library's fused attention"),
        torch=say("`F.scaled_dot_product_attention`, or `attn_implementation='sdpa'` in transformers"),
        jax=say("`jax.nn.dot_product_attention(implementation='cudnn')`"),
        llama=say("run with `--flash-attn`"),
        cuda=say("a FlashAttention kernel, or cuDNN's fused attention"),
    ),
)

ATTENTION_SLOW_PATH: Final = rewrite_rule(
    "ATTENTION-SLOW-PATH",
    fused_attention,
    say("attention that leaves the fast path: it takes a mask, or heads of an odd size"),
    say("the mask is causal and given as a flag, and heads are of a size that kernels are made for"),
    FixWords.of(
        say("tell the kernel that the mask is causal instead of passing one; heads of 64 or 128"),
        torch=say(
            "`F.scaled_dot_product_attention(..., is_causal=True)` without a mask (`flex_attention` for others), "
            "heads of 64 or 128"
        ),
        jax=say("`jax.nn.dot_product_attention(..., is_causal=True, implementation='cudnn')` without a mask"),
    ),
)

OLD_KERNEL: Final = rewrite_rule(
    "OLD-KERNEL",
    newer_attention,
    say("attention by kernels made for an older GPU"),
    say("kernels made for this one do it, as cuDNN and FlashAttention 3 have them"),
    FixWords.of(
        say("attention of a library that is built for this GPU: cuDNN's, or FlashAttention 3"),
        torch=say("`torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION)`, or FlashAttention 3"),
        jax=say("`jax.nn.dot_product_attention(..., implementation='cudnn')`"),
    ),
)

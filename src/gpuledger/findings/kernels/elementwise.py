"""Elementwise kernels that one kernel, or another layout, does faster.

UNFUSED-CHAIN: elementwise kernels follow each other.

Three or more elementwise kernels, activations and reductions of 5 us and more run in a row between matrix products:
norms, rotary embeddings and activations written out operator by operator.

OPTIMIZER-UNFUSED: parameters are updated in many passes over memory.

At the end of each training step the same few elementwise kernels run for one parameter after the other: for AdamW
eight, which move 21 tensors where 7 would do.

UNVECTORIZED: elementwise kernels read one element at a time.

`elementwise_kernel` runs where others of that size are `vectorized_elementwise_kernel`, and takes several times as
long: its tensors lie across each other.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.slow_kernels import vectorize_elementwise
from gpuledger.analyse.light.wasted_work import fused_chains, fused_updates
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

UNFUSED_CHAIN: Final = rewrite_rule(
    "UNFUSED-CHAIN",
    fused_chains,
    say("chains of elementwise kernels, each reading what the last one wrote"),
    say("one fused kernel reads and writes the data once"),
    FixWords.of(
        say("one kernel that keeps intermediates in registers"),
        torch=say("`torch.compile`, or one operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"),
        compiled=say(
            "bring them into the compiled region (`TORCH_LOGS=graph_breaks` says what ends it), or use one "
            "operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"
        ),
        jax=say("call it inside one `jax.jit`, which fuses it"),
        tensorflow=say("call it inside one `tf.function(jit_compile=True)`, which fuses it"),
        cupy=say("`@cupy.fuse`, or one `cupy.ElementwiseKernel` for all of it"),
        julia=say("one broadcast (`@.`) for all of it"),
        openacc=say("one loop for all of it"),
        openmp=say("one loop for all of it"),
    ),
)

OPTIMIZER_UNFUSED: Final = rewrite_rule(
    "OPTIMIZER-UNFUSED",
    fused_updates,
    say("the optimizer updates parameters one by one, in many passes over memory"),
    say("a fused optimizer reads and writes parameter, gradient and moments once"),
    FixWords.of(
        say("one kernel for all passes over a parameter"),
        torch=say("`torch.optim.AdamW(..., fused=True)`"),
    ),
)

UNVECTORIZED: Final = rewrite_rule(
    "UNVECTORIZED",
    vectorize_elementwise,
    say("elementwise kernels that read one element at a time, as their tensors lie across each other"),
    say("the tensors have one layout, and the kernels reach the pace of others"),
    FixWords.of(
        say("give all operands one layout, the innermost dimension contiguous"),
        torch=say("one layout for all operands: transpose once, where the tensor is made"),
    ),
)

"""Grids of blocks that leave SMs without work.

TAIL-WAVE: the last blocks of kernels run in a nearly empty GPU.

A kernel has a few blocks more than the GPU has room for at a time: they start when the others end, and most SMs wait
for them.

UNDER-FILLED: kernels leave most of the GPU idle.

Kernels of 7 us and more have blocks for at most half of the SMs: a softmax or a sort of one row, a reduction in one
block. The GPU counts as busy, but most of its SMs have nothing to do.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.slow_kernels import remove_tail_waves
from gpuledger.analyse.light.wasted_work import use_all_sms
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

TAIL_WAVE: Final = rewrite_rule(
    "TAIL-WAVE",
    remove_tail_waves,
    say("the last blocks of kernels run in a nearly empty GPU"),
    say("all waves are full: the blocks are a multiple of what the GPU has room for"),
    FixWords.of(
        say("smaller blocks, or a grid that is a multiple of the blocks that fit on all SMs"),
        triton=say("another BLOCK size, or a persistent kernel: a grid of as many programs as fit on all SMs"),
    ),
)

UNDER_FILLED: Final = rewrite_rule(
    "UNDER-FILLED",
    use_all_sms,
    say("kernels with too few blocks leave most SMs idle"),
    say("their work is spread over all SMs"),
    FixWords.of(
        say("more blocks: split rows, or handle several of them in one launch"),
        torch=say("one call for all rows or requests, instead of a loop over them"),
        triton=say("more programs in the grid: smaller tiles, or split the reduction"),
        jax=say("`jax.vmap` instead of a loop"),
        numba=say("more blocks in `kernel[blocks, threads]`: one thread for each element"),
        julia=say("more blocks in `@cuda threads=… blocks=…`: one thread for each element"),
        openacc=say("`gang vector` over more iterations: `collapse` nested loops"),
        openmp=say("`teams distribute parallel for` over more iterations: `collapse` nested loops"),
    ),
)

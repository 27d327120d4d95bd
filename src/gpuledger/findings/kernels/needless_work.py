"""Work that nothing needs.

FULL-SORT: whole tensors are sorted, where the largest values may be enough.

A tenth of the time and more goes to kernels of a sort: `DeviceSegmentedRadixSortKernel`,
`DeviceRadixSortOnesweepKernel`. In a decode step they stand between the logits and the sampled token.

RECOMPUTE: backward computes activations again.

Each layer's forward kernels run twice a step: once in forward, and once more right before that layer's backward.

DENSE-EMBEDDING: every row of a table is updated, though few were looked up.

A step looks up some thousand rows of a large embedding table, and then clears a gradient as large as the table and
runs the optimizer over all of it. That time does not depend on the batch.

UNUSED-RESULT: results that nothing reads.

A product makes far more rows than any later kernel reads, as the logits of all positions of a prompt; or backward goes
on to gradients that no optimizer uses.

REDUNDANT-FILL: tensors are cleared that only need to be written.

Fill kernels run right before kernels that write the same tensor as a whole; or gradients are set to zero, and backward
then adds to the zeros.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.needless_work import (
    drop_redundant_fills,
    drop_unused_results,
    keep_activations,
    update_looked_up_rows,
)
from gpuledger.analyse.light.wasted_work import topk_instead_of_sort
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

MIN_SORTED_SHARE: Final = 0.1  # so much may be sorted: whether all of it is needed cannot be seen

FULL_SORT: Final = rewrite_rule(
    "FULL-SORT",
    topk_instead_of_sort,
    say("whole tensors are sorted"),
    say("only the largest values are needed: picking them takes a fifth of a sort"),
    FixWords.of(
        say("a selection of the few largest, or a sort of fewer values"),
        torch=say("`torch.topk` for the few largest, `torch.bincount` to count; a sampler without a sort for top-p"),
        jax=say("`jax.lax.top_k`, or `jax.lax.approx_max_k`, for the few largest"),
        tensorflow=say("`tf.math.top_k` for the few largest"),
        cupy=say("`cupy.argpartition` for the few largest"),
        cuda=say("a selection of the few largest (RAFT's `select_k`), or a sort of fewer values"),
    ),
    least=MIN_SORTED_SHARE,
)

RECOMPUTE: Final = rewrite_rule(
    "RECOMPUTE",
    keep_activations,
    say("backward computes activations again"),
    say("there is room to keep them: these kernels go away"),
    FixWords.of(
        say("keep activations as far as memory allows"),
        torch=say("checkpoint fewer layers, or none: `torch.cuda.max_memory_allocated()` tells the room"),
        jax=say("`jax.checkpoint` around fewer layers, or with a policy that saves matrix products"),
    ),
)

DENSE_EMBEDDING: Final = rewrite_rule(
    "DENSE-EMBEDDING",
    update_looked_up_rows,
    say("every row of an embedding table is cleared and updated, though few were looked up"),
    say("the gradient is sparse: these kernels go through the rows that were looked up"),
    FixWords.of(
        say("a sparse gradient, and an optimizer that updates only the rows in it"),
        torch=say("`nn.Embedding(..., sparse=True)` with `torch.optim.SparseAdam`, or a row-wise optimizer"),
    ),
)

UNUSED_RESULT: Final = rewrite_rule(
    "UNUSED-RESULT",
    drop_unused_results,
    say("results that nothing reads"),
    say("only what is read is computed"),
    FixWords.of(
        say("compute only what is read"),
        torch=say(
            "take the slice before the product (`hidden[:, -1]`), and `requires_grad_(False)` on what is not trained"
        ),
    ),
)

REDUNDANT_FILL: Final = rewrite_rule(
    "REDUNDANT-FILL",
    drop_redundant_fills,
    say("tensors are cleared that are written as a whole, or that only need to be written"),
    say("nothing is cleared: these kernels go away"),
    FixWords.of(
        say("allocate without clearing"),
        torch=say("`torch.empty` instead of `zeros`, `optimizer.zero_grad(set_to_none=True)`"),
    ),
)

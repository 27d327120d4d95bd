"""Matrix products that other kernels, or none, do faster.

GEMM-LOOP: the same small matrix product runs over and over.

Eight and more matrix products of one name run one after the other with nothing between: experts, adapters, heads or
requests in a Python loop. Each takes a few microseconds, most of them to start and to end.

MISALIGNED: matrix sizes that no fast kernel fits.

A matrix product or a convolution takes several times as long as one of nearly the same size. One of its sizes is odd:
a vocabulary of 50,257, an inner size of 2,730, 255 channels.

ONE-HOT: rows are picked by a product with ones and zeros.

`F.one_hot` makes a matrix of tokens by rows of a table, a cast turns it to the table's type, and a matrix product picks
the rows: all three grow with the table.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.needless_work import gather_instead_of_onehot_matmul
from gpuledger.analyse.light.slow_kernels import aligned_products
from gpuledger.analyse.light.wasted_work import batched_products
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

GEMM_LOOP: Final = rewrite_rule(
    "GEMM-LOOP",
    batched_products,
    say("the same small GEMM runs over and over"),
    say("one batched or grouped GEMM does them all"),
    FixWords.of(
        say("one batched or grouped matrix product"),
        torch=say("`torch.bmm`, or `torch._grouped_mm` where sizes differ"),
        jax=say("`jax.vmap` over the loop, or `jax.lax.ragged_dot` where sizes differ"),
        tensorflow=say("stack the matrices: `tf.matmul` multiplies all of a batch at once"),
        cupy=say("stack the matrices: `cupy.matmul` multiplies all of a batch at once"),
        julia=say("`CUBLAS.gemm_strided_batched!`, or NNlib's `batched_mul`"),
        cuda=say("`cublasGemmStridedBatchedEx`, or CUTLASS's grouped GEMM"),
        hip=say("`hipblasGemmStridedBatchedEx`, or Composable Kernel's grouped GEMM"),
    ),
)

MISALIGNED: Final = rewrite_rule(
    "MISALIGNED",
    aligned_products,
    say("matrix sizes that no fast kernel fits: rows are read in pieces, or padded first"),
    say("sizes are multiples of 16 bytes, and the kernels reach the pace of others"),
    FixWords.of(
        say("pad sizes to a multiple of 8 in 16-bit types, of 16 in 8-bit ones"),
        torch=say("pad vocabulary, hidden sizes and channels to a multiple of 8, better 64"),
        jax=say("pad dimensions of `dot_general` and convolutions to a multiple of 8, better 64"),
    ),
)

ONE_HOT: Final = rewrite_rule(
    "ONE-HOT",
    gather_instead_of_onehot_matmul,
    say("rows are picked by a product with ones and zeros"),
    say("they are looked up"),
    FixWords.of(
        say("look rows up by their numbers"),
        torch=say("`F.embedding(tokens, table)` instead of `F.one_hot(tokens) @ table`"),
    ),
)

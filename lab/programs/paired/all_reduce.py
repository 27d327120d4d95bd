"""An all-reduce between streams of one GPU, in Triton: each rank's tensor in, their sum out, on each rank.

One kernel per rank and call, as the one-shot all-reduces of serving engines are: a block says that its part of the
rank's tensor is ready, looks until all ranks have said so, and adds up that part. A block looks a bounded number of
times, so that a call that another rank never makes ends. All blocks of all ranks must be on the device at once.
"""

from __future__ import annotations

import torch  # type: ignore[import-not-found, unused-ignore]
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

BLOCKS = 16
POLLS = 2_000_000  # a second or two
PART = 1024


@triton.jit(do_not_specialize=["rank", "goal", "polls", "size"])  # type: ignore[untyped-decorator, unused-ignore]
def one_shot_all_reduce(  # type: ignore[no-untyped-def]
    given, reached, output, rank, goal, polls, size, ranks: tl.constexpr, blocks: tl.constexpr, part: tl.constexpr
):
    """`given` is ranks x size; `reached`, ranks x blocks, counts the calls that each block has begun."""
    block = tl.program_id(0)
    tl.atomic_add(reached + rank * blocks + block, 1, sem="acq_rel", scope="gpu")
    for other in tl.static_range(ranks):
        left = polls
        seen = tl.atomic_add(reached + other * blocks + block, 0, sem="acquire", scope="gpu")
        while (seen < goal) & (left > 0):
            seen = tl.atomic_add(reached + other * blocks + block, 0, sem="acquire", scope="gpu")
            left -= 1
    for start in range(block * part, size, blocks * part):
        places = start + tl.arange(0, part)
        total = tl.zeros([part], tl.float32)
        for other in tl.static_range(ranks):
            total += tl.load(given + other * size + places, mask=places < size, other=0.0).to(tl.float32)
        tl.store(output + places, total.to(output.dtype.element_ty), mask=places < size)


class AllReduce:
    """Tensors like `example`, of `count` ranks, each on a stream of its own, where it gives, then takes."""

    def __init__(self, example: Tensor, count: int) -> None:
        self._count, self._calls = count, [0] * count
        # two turns: a rank gives its next tensor while another still reads the one before, but not one more
        self._given = torch.zeros(2, count, *example.shape, dtype=example.dtype, device=example.device)
        self._reached = torch.zeros(count, BLOCKS, dtype=torch.int32, device=example.device)
        self._output = [torch.empty_like(example) for _ in range(count)]
        for rank in range(count):  # compiled and loaded here: loading waits for kernels that would wait for it
            self._launch(rank, goal=0)
        torch.cuda.synchronize()
        self._reached.zero_()

    def give(self, rank: int, values: Tensor) -> None:
        self._given[self._calls[rank] % 2, rank].copy_(values)

    def take(self, rank: int) -> Tensor:
        self._calls[rank] += 1
        self._launch(rank, self._calls[rank])
        return self._output[rank]

    def _launch(self, rank: int, goal: int) -> None:
        given = self._given[(goal - 1) % 2]
        one_shot_all_reduce[(BLOCKS,)](
            given,
            self._reached,
            self._output[rank],
            rank,
            goal,
            POLLS,
            self._output[rank].numel(),
            ranks=self._count,
            blocks=BLOCKS,
            part=PART,
            num_warps=4,
        )

"""Every kind of NCCL call, a few steps of each: `python collectives.py RANK WORLD`.

Ranks may share one GPU if each has another NCCL_HOSTID: NCCL then takes them for two machines, and uses sockets.
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.cuda import nvtx

STEPS = 4
ELEMENTS = 1 << 20


def step(rank: int, world: int, given: torch.Tensor, whole: torch.Tensor, weight: torch.Tensor) -> None:
    """Some compute, then each kind of call once."""
    with nvtx.range("compute"):
        for _ in range(1 + 3 * rank):  # the last rank is late
            torch.mm(weight, weight)
    dist.all_reduce(given)
    dist.all_gather_into_tensor(whole, given)
    dist.reduce_scatter_tensor(given, whole)
    dist.all_to_all_single(whole.clone(), whole)
    dist.broadcast(given, 0)
    dist.reduce(given, 0)
    got = torch.empty_like(given)
    peers = (rank + 1) % world, (rank - 1) % world
    for call in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, given, peers[0]), dist.P2POp(dist.irecv, got, peers[1])]
    ):
        call.wait()


def main() -> None:
    """Join the other ranks, warm up, and make some steps."""
    rank, world = int(sys.argv[1]), int(sys.argv[2])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29517"))
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    given = torch.ones(ELEMENTS, device="cuda")
    whole = torch.ones(world * ELEMENTS, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    step(rank, world, given, whole, weight)
    torch.cuda.synchronize()
    for number in range(STEPS):
        with nvtx.range(f"step {number}"):
            step(rank, world, given, whole, weight)
            torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

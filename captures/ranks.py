"""A small training step in processes that share one GPU: `python ranks.py gloo 2` or `python ranks.py nccl 1`."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.cuda import nvtx


def rank(number: int, world: int, backend: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group(backend, rank=number, world_size=world)
    torch.manual_seed(number)
    convolution = torch.nn.Conv2d(8, 16, 3).to("cuda:0")
    linear = torch.nn.Linear(256, 256).to("cuda:0")
    image = torch.randn(4, 8, 32, 32, device="cuda:0")
    hidden = torch.randn(64, 256, device="cuda:0", requires_grad=True)
    for step in range(8):
        nvtx.range_push(f"step {step}")
        nvtx.range_push("forward")
        first = convolution(image).relu().sum()
        second = torch.nn.functional.gelu(linear(hidden)).square().mean()
        nvtx.range_pop()
        backward = nvtx.range_start("backward")
        (first + second).backward()
        nvtx.range_end(backward)
        nvtx.range_push("comm")
        gradient = hidden.grad.cpu() if backend == "gloo" else hidden.grad
        dist.all_reduce(gradient)
        nvtx.range_pop()
        nvtx.mark("done")
        torch.cuda.synchronize()
        nvtx.range_pop()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, (int(sys.argv[2]), sys.argv[1]), nprocs=int(sys.argv[2]))

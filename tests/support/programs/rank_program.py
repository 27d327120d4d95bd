"""What ranks do in tests of `gpuledger_workloads.ranks`: other processes import it, so it is a module of its own."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import torch.distributed as dist

from gpuledger_workloads.device import settle
from gpuledger_workloads.program import program, rank_options, refuse
from gpuledger_workloads.ranks import Rank, over_ranks
from support.programs.workload_result import told


def work(rank: Rank, options: argparse.Namespace) -> dict[str, object]:
    if rank.index == rank.count - 1:
        match options.fault:
            case "refuses":
                refuse("seven is odd")
            case "raises":
                raise ValueError("seven\nis odd")
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "sleeps":
                sys.stderr.write("asleep\n")
                sys.stderr.flush()
                time.sleep(600)
    dist.barrier()
    return {"rank": rank.index, "pid": os.getpid()}


def parser() -> argparse.ArgumentParser:
    made = program("ranks", "Ranks at work.", iters=1, warmup=0)
    rank_options(made)
    made.add_argument("--fault", default="")
    return made


def run(options: argparse.Namespace) -> dict[str, object] | None:
    settle(options)
    found = over_ranks(work, options)
    return None if found is None else {"workload": "ranks", "settings": {}, "ranks": found}


if __name__ == "__main__":
    told(parser(), run)

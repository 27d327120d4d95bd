"""How many ranks a program has, and as what: the options, and what they and torchrun's environment say. No torch."""

from __future__ import annotations

import argparse
import os

from gpuledger_workloads.common.program import at_least, wrong

_JOIN_S = 300


def rank_options(parser: argparse.ArgumentParser, world_size: int = 1) -> None:
    """--world-size, --backend, --master-port and --timeout."""
    parser.add_argument(
        "--world-size", type=at_least(1), default=world_size, metavar="N", help=f"ranks; default {world_size}"
    )
    parser.add_argument("--backend", choices=["nccl", "gloo"], help="default nccl, on a CPU gloo")
    parser.add_argument(
        "--master-port", type=at_least(0), default=0, metavar="N", help="where ranks meet; default: any free port"
    )
    parser.add_argument(
        "--timeout",
        type=at_least(1),
        default=_JOIN_S,
        metavar="S",
        help=f"a rank that says nothing fails; default {_JOIN_S}",
    )


def streams_option(parser: argparse.ArgumentParser) -> None:
    """--ranks-as."""
    parser.add_argument(
        "--ranks-as",
        choices=["processes", "streams"],
        default="processes",
        help="streams: all ranks in one process, each on a stream of one device; default processes",
    )


def count_of(options: argparse.Namespace) -> int:
    """How many ranks there will be: what torchrun started goes before --world-size."""
    started = "RANK" in os.environ and "WORLD_SIZE" in os.environ
    return int(os.environ["WORLD_SIZE"] if started else options.world_size)


def expect_one_process(options: argparse.Namespace) -> None:
    """The program ends where ranks are to be streams and are processes already."""
    if options.ranks_as != "streams":
        return
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        wrong("--ranks-as=streams has all ranks in one process, and torchrun started others", hint="start it alone")
    if options.backend:
        wrong(f"--backend={options.backend} is for processes: streams of one device copy")

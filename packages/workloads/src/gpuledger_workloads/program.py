"""What all workloads share that needs no torch: options, percentiles, JSON files, and how they speak.

A workload is a parser in `command_lines.PARSERS`, which documents its options, and a module of the same name with
`run(options)`, which measures, checks what it computed against an independent answer, and gives a `Result`: "workload",
"settings" (what was asked for), then what was found, flat: times, rates, counts, and "checked". A name's ending is its
unit: _ms, _s, _bytes, _share, _per_s. A table is a list of such dictionaries with the same keys. Where there are
targets, "verdict" is PASS or FAIL.

`gpuledger bench` prints the result on stdout, and so does the module itself (`torchrun -m gpuledger_workloads.serve`);
what goes on goes to stderr. Exit codes: 2 for a wrong command line, 1 where the program could not run or computed
something wrong, 3 where a target was missed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import re
import runpy
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

Result = dict[str, Any]
Sizes = Mapping[str, tuple[int, int, str]]  # by name: the default on a GPU, that on a CPU, and what it means

DTYPE_NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}  # each with torch's name of it
_EVERY_S = 5.0


def program(name: str, description: str, *, iters: int, warmup: int) -> argparse.ArgumentParser:
    """A parser with the options that every workload has."""
    parser = argparse.ArgumentParser(
        prog=f"gpuledger bench {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--iters", type=at_least(1), default=iters, metavar="N", help=f"measured; default {iters}")
    parser.add_argument("--warmup", type=at_least(0), default=warmup, metavar="N", help=f"before; default {warmup}")
    parser.add_argument(
        "--device", choices=["auto", "cuda", "cpu"], default="auto", help="default: cuda if it is there"
    )
    parser.add_argument("--dtype", choices=list(DTYPE_NAMES), help="default bf16, on a CPU fp32")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights and inputs; default 0")
    parser.add_argument(
        "--cuda-profiler",
        action="store_true",
        help="cudaProfilerStart and Stop around what is measured, for `gpuledger capture nsys --preset=steady`",
    )
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """A type for options: a whole number that is not smaller."""

    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    number.__name__ = "whole number"  # argparse names it where the text is none
    return number


def refuse(claim: str, hint: str = "") -> NoReturn:
    """End the program with one sentence; exit code 1."""
    raise SystemExit(f"error: {claim}" + (f"\n\nhint: {hint}" if hint else ""))


def wrong(claim: str, hint: str = "") -> NoReturn:
    """End the program with one sentence about its options, where they do not go together; exit code 2."""
    say(f"error: {claim}" + (f"\n\nhint: {hint}" if hint else ""))
    raise SystemExit(2)


def asked(options: argparse.Namespace, *left_out: str) -> dict[str, Any]:
    """The settings of a result: all options by name, but those that change nothing that is measured."""
    skipped = {"master_port", "timeout", "cuda_profiler", *left_out}
    return {name: value for name, value in vars(options).items() if name not in skipped}


def say(line: str) -> None:
    """Progress, for whoever watches."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


class Progress:
    """Says every few seconds how far a long loop is; a short one stays silent."""

    def __init__(self, what: str, count: int) -> None:
        self._what, self._count = what, count
        self._next = time.monotonic() + _EVERY_S

    def __call__(self, done: int, note: str = "") -> None:
        if time.monotonic() >= self._next:
            say(f"{self._what}: {done:,} of {self._count:,}{note and ', '}{note}")
            self._next = time.monotonic() + _EVERY_S


def spread_ms(times_ms: Sequence[float], name: str = "") -> dict[str, Any]:
    """median_ms, p10_ms, p90_ms and p99_ms, with `name` and an underscore before them if given.

    Where there are enough times, also the interval that the median lies in, with 95 % confidence, and their number.
    """
    points = np.percentile(np.asarray(times_ms, dtype=np.float64), [50, 10, 90, 99]).round(4).tolist()
    prefix = f"{name}_" if name else ""
    found = {f"{prefix}{key}_ms": value for key, value in zip(("median", "p10", "p90", "p99"), points, strict=True)}
    rank = math.floor(len(times_ms) / 2 - 0.98 * math.sqrt(len(times_ms)))  # an order statistic: none of few times
    if rank > 0:
        ordered = sorted(times_ms)
        found |= {f"{prefix}median_ms_interval": [round(ordered[rank - 1], 4), round(ordered[-rank], 4)]}
        found |= {f"{prefix}median_ms_samples": len(times_ms)}
    return found


def bench(name: str) -> None:
    """A workload as a module of its own, as torchrun starts it: `gpuledger bench NAME`, options and output included."""
    sys.argv[1:1] = ["bench", name]
    runpy.run_module("gpuledger", run_name="__main__")


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


def is_under_torchrun() -> bool:
    """Whether this process is a rank already."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def count_of(options: argparse.Namespace) -> int:
    """How many ranks there will be: what torchrun started goes before --world-size."""
    return int(os.environ["WORLD_SIZE"] if is_under_torchrun() else options.world_size)


def add_sizes(parser: argparse.ArgumentParser, sizes: Sizes, least: Mapping[str, int] | None = None) -> None:
    """An option for each of these; one that is not given is for `settle_sizes`."""
    for name, (large, small, meaning) in sizes.items():
        help_text = f"{meaning}; default {large}, on a CPU {small}"
        whole = at_least((least or {}).get(name, 1))
        parser.add_argument(f"--{name.replace('_', '-')}", type=whole, metavar="N", help=help_text)


def settle_sizes(options: argparse.Namespace, sizes: Sizes) -> None:
    """Replace those that were not given by the device's own."""
    for name, (large, small, _) in sizes.items():
        if getattr(options, name) is None:
            setattr(options, name, large if options.device == "cuda" else small)


def expect_one_process(options: argparse.Namespace) -> None:
    """The program ends where ranks are to be streams and are processes already."""
    if options.ranks_as != "streams":
        return
    if is_under_torchrun():
        wrong("--ranks-as=streams has all ranks in one process, and torchrun started others", hint="start it alone")
    if options.backend:
        wrong(f"--backend={options.backend} is for processes: streams of one device copy")


_MOST_BYTES = 4 << 20  # a model's config.json takes a few kB; whoever hands over weights meant another file


def read_object(path: str, what: str) -> dict[str, Any]:
    """The object in a file; `what` says what it should hold."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        refuse(f"{what}: {path}: {getattr(error, 'strerror', None) or error}")
    if len(text) > _MOST_BYTES:
        refuse(f"{what}: {path} is larger than {_MOST_BYTES >> 20} MiB")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"{what}: {path} is no JSON: {error}")
    if not isinstance(content, dict):
        refuse(f"{what}: {path} holds no JSON object but {type(content).__name__}")
    return content


_FORM = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(\S+)\s*", re.ASCII)
_HINT = "NAME>=N asks for at least N, NAME<=N for at most N"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure of a result, by name, and what it should be at least (>=) or at most (<=), in the name's own unit."""

    name: str
    sign: str
    wanted: float

    def is_met(self, value: float) -> bool:
        """Whether that is enough. NaN never is."""
        return value >= self.wanted if self.sign == ">=" else value <= self.wanted


def parsed(text: str) -> Target | None:
    """`decode_tokens_per_s>=22000` as a target; None where it is none."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    name, sign, number = form.groups()
    try:
        wanted = float(number)
    except ValueError:
        return None
    return Target(name, sign, wanted) if math.isfinite(wanted) else None


def target_options(parser: argparse.ArgumentParser) -> None:
    """--target, as often as there are, and --targets for a file of them."""
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="'NAME>=N'",
        help="a figure and what it should be at least, or with <= at most; repeat for more (quote it for a shell)",
    )
    parser.add_argument("--targets", metavar="FILE", help='a JSON file of such: {"ttft_p99_ms": "<=2000", ...}')


def targets_of(options: argparse.Namespace, names: Collection[str]) -> tuple[Target, ...]:
    """The targets that were asked for; each must be one of the figures that there will be."""
    targets = []
    for text in options.target:
        target = parsed(text)
        if target is None:
            wrong(f"--target={text}: not of the form NAME>=N or NAME<=N", hint=_HINT)
        targets.append(target)
    if options.targets is not None:
        for name, value in read_object(options.targets, "--targets").items():
            target = parsed(f"{name}{value}") if isinstance(value, str) else None
            if target is None:
                refuse(f"--targets: {options.targets}: {name} is not followed by a string with >= or <= and a number")
            targets.append(target)
    for target in targets:
        if target.name not in names:
            near = difflib.get_close_matches(target.name, names, n=1) or sorted(names)
            wrong(f"no figure is called {target.name} here", hint=f"there is {', '.join(near)}")
    return tuple(targets)


def judged(targets: Sequence[Target], result: Mapping[str, Any]) -> dict[str, Any]:
    """For a result: the table of targets and the verdict; nothing where there are none."""
    rows = [
        {
            "name": target.name,
            "wanted": f"{target.sign} {target.wanted:.15g}",
            "found": result[target.name],
            "verdict": "PASS" if target.is_met(result[target.name]) else "FAIL",
        }
        for target in targets
    ]
    if not rows:
        return {}
    return {"targets": rows, "verdict": "FAIL" if any(row["verdict"] == "FAIL" for row in rows) else "PASS"}

"""What sampling Python's stacks costs: `python -m lab.programs.sampler_cost GROUP...`, a JSON line per program out.

Under `captures/watched.py`, windows with the sampler and with its process stopped take turns, many and short, so that
a drift of the machine hits both alike; else all windows are plain. A window has so many steps that it takes long enough
to be timed, and all are of one program, built once. `python` instead of a group is a loop in Python alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

Times = dict[str, list[int]]
WINDOW_NS = 100_000_000
LOOP = 3_000_000


def states(sampler: int | None) -> dict[str, Callable[[], None]]:
    """What the sampler may be put into; `plain` alone without one."""
    if sampler is None:
        return {"plain": lambda: None}
    return {"on": partial(os.kill, sampler, signal.SIGCONT), "off": partial(os.kill, sampler, signal.SIGSTOP)}


def python_times(sampler: int, rounds: int) -> Times:
    """A loop in Python, with the sampler and without."""
    turns = states(sampler)
    times: Times = {state: [] for state in turns}
    for turn in range(rounds):
        for state in sorted(turns, reverse=turn % 2 == 1):
            turns[state]()
            began = time.perf_counter_ns()
            sum(value & 1 for value in range(LOOP))
            times[state].append(time.perf_counter_ns() - began)
    turns["on"]()
    return times


def program_times(options: argparse.Namespace, sampler: int | None) -> Iterator[dict[str, Any]]:
    """The step of each program, in each window."""
    torch, pairs = import_module("torch"), import_module("lab.programs.pairs")
    torch.set_grad_enabled(False)
    end, device = time.monotonic() + options.seconds, options.device
    if options.cuda_profiler and device == "cuda":
        torch.cuda.profiler.start()
    for program in pairs.programs_of(options.groups):
        if not pairs.wanted(program.name, options.only) or program.name in options.left_out.split(","):
            continue
        for variant in ["bad"] + ["fixed"] * (program.name in options.fixed.split(",")):
            if time.monotonic() > end:
                return
            step = program.variants[variant](device)
            tried = pairs.measured(step, program.name, device, 4)
            steps = min(max(WINDOW_NS // tried["step_ns"], 4), 200)
            turns = states(sampler)
            times: Times = {state: [] for state in turns}
            for turn in range(options.rounds):
                for state in sorted(turns, reverse=turn % 2 == 1):  # none is always the first
                    turns[state]()
                    times[state].append(pairs.measured(step, program.name, device, steps)["step_ns"])
            next(iter(turns.values()))()
            del step
            pairs.released(device)
            yield {"program": program.name, "variant": variant, "steps": steps, "times": times}
    if options.cuda_profiler and device == "cuda":
        torch.cuda.profiler.stop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="lab.programs.sampler_cost")
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument("--only", metavar="PROGRAM[,PROGRAM...]")
    parser.add_argument("--not", dest="left_out", default="", metavar="PROGRAM[,PROGRAM...]")
    parser.add_argument("--fixed", default="", metavar="PROGRAM[,PROGRAM...]", help="of which the fixed one runs too")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--cuda-profiler", action="store_true", help="cudaProfilerStart and Stop around all")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no program after so many")
    parser.add_argument("--output", type=Path, default=Path("sampler_cost.jsonl"))
    options = parser.parse_args()
    mark = os.environ.get("GPULEDGER_CAPTURE")
    sampler = None if mark is None else int(mark.partition("-")[0])  # stopping this process stops the sampling
    if options.groups == ["python"]:
        if sampler is None:
            sys.exit("no sampler: run it under captures/watched.py")
        rows: Any = [{"program": "python", "variant": "loop", "times": python_times(sampler, options.rounds)}]
    else:
        rows = program_times(options, sampler)
    with options.output.open("w", encoding="utf-8") as lines:
        for row in rows:
            print(json.dumps(row), file=lines, flush=True)
            brief = ", ".join(f"{state} {statistics.median(taken) / 1e6:.3f}" for state, taken in row["times"].items())
            print(f"{row['program']}.{row['variant']}: {brief} ms", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""What sampling Python's stacks costs: `python -m lab.programs.sampler_cost GROUP...`, a JSON line per program out.

The sampler must be in the process, as `gpuledger capture` puts it there. Windows with it and with it paused take turns
in one process, so that a drift of the machine hits both alike; of each the median step of all rounds counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from lab.programs.pairs import GROUPS, measured, programs_of, released, wanted


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="lab.programs.sampler_cost")
    parser.add_argument("groups", nargs="+", choices=list(GROUPS))
    parser.add_argument("--only")
    parser.add_argument("--not", dest="left_out", default="", metavar="PROGRAM[,PROGRAM...]")
    parser.add_argument("--variant", default="bad")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no program after so many")
    parser.add_argument("--output", type=Path, default=Path("sampler_cost.jsonl"))
    options = parser.parse_args()
    sampler: Any = import_module("gpuledger_sampler")._sampler
    if sampler is None:
        sys.exit("no sampler is in this process")
    torch.set_grad_enabled(False)  # type: ignore[no-untyped-call, unused-ignore]
    end = time.monotonic() + options.seconds
    with options.output.open("w", encoding="utf-8") as lines:
        for program in programs_of(options.groups):
            if not wanted(program.name, options.only) or program.name in options.left_out.split(","):
                continue
            for variant in options.variant.split(","):
                if time.monotonic() > end:
                    return
                step = program.variants[variant](options.device)
                released(options.device)
                step_ns: dict[bool, list[int]] = {True: [], False: []}
                for turn in range(2 * options.rounds):
                    is_on = turn % 2 == 0
                    sampler.go_on() if is_on and sampler.thread is None else None
                    sampler.pause() if not is_on else None
                    step_ns[is_on].append(measured(step, program.name, options.device, options.steps)["step_ns"])
                sampler.go_on()
                on_ns, off_ns = statistics.median(step_ns[True]), statistics.median(step_ns[False])
                row = {"program": program.name, "variant": variant, "on_ns": step_ns[True], "off_ns": step_ns[False]}
                row["cost"] = round(on_ns / off_ns - 1, 4)
                print(json.dumps(row), file=lines, flush=True)
                print(f"{program.name}.{variant}: {off_ns / 1e6:.3f} ms, {row['cost']:+.1%}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""Runs programs that use a GPU in different ways, one after the other: `python -m lab.programs.sampled`.

In: names of programs (all, without one). Out: a JSON line per program with the wall time of its window. All programs
are built and warmed up first, so that a profiler which is switched on for the windows records nothing else:

- `--record=windows` has cudaProfilerStart before the first window and Stop after the last, for nsys;
- `--record=steps` has them around the first steps of each program, for Nsight Compute, which takes its time per launch.

A window is in an NVTX range "pair:PROGRAM", as `captures/cut_windows.py` wants it. Before each there is one kernel of
torch that only waits (`spin_kernel`): it parts the programs in a list of launches.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from lab.programs.paired.program import Step
from lab.programs.pairs import idle, uncollected
from lab.programs.sampling.programs import PROGRAMS

WARMUP = 4  # steps
FEWEST, MOST = 6, 400  # steps in a window
COUNTED = {
    "training": 1,
    "training_loop": 1,
    "experts_loop": 1,
    "graph_decode": 2,
    "decode_batch": 2,
    "jax": 6,
    "triton": 40,
}
COUNTED_BY_DEFAULT = 3
"""Steps that Nsight Compute sees of a program."""


def built(name: str, device: str) -> Step:
    """A program that has run a few steps."""
    step = PROGRAMS[name](device)
    output = None
    for index in range(WARMUP):
        output = step(index)
    idle(device, output)
    return step


def steps_for(step: Step, device: str, seconds: float) -> int:
    """How many steps fill a window."""
    began = time.perf_counter()
    idle(device, [step(index) for index in range(3)][-1])
    return min(max(int(3 * seconds / (time.perf_counter() - began)), FEWEST), MOST)


def parted(device: str) -> None:
    """One kernel that no program has."""
    if device == "cuda":
        torch.cuda._sleep(1000)


def timed(step: Step, name: str, device: str, steps: int) -> dict[str, Any]:
    """One window, from an idle device to an idle device."""
    output = None
    with uncollected():
        parted(device)
        idle(device)
        began = time.perf_counter_ns()
        with window(f"pair:{name}"):
            for index in range(steps):
                with window("step"):
                    output = step(index)
            idle(device, output)
        wall_ns = time.perf_counter_ns() - began
    return {"program": name, "steps": steps, "wall_ns": wall_ns, "step_ns": wall_ns // steps}


def main(arguments: list[str] | None = None) -> None:
    """The command line: exit code 2 for a wrong one."""
    parser = argparse.ArgumentParser(prog="lab.programs.sampled", description="Run programs to be sampled.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--record", choices=["nothing", "windows", "steps"], default="nothing")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a window; default: 0.4")
    parser.add_argument("--rounds", type=int, default=1, help="windows of each program; the last one's name is bare")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--output", type=Path, default=Path("sampled.jsonl"), help="default: sampled.jsonl")
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - PROGRAMS.keys():
        parser.error(f"no program {min(unknown)}; there are {', '.join(PROGRAMS)}")
    torch.set_grad_enabled(False)  # type: ignore[no-untyped-call, unused-ignore]
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    with options.output.open("w", encoding="utf-8") as lines:
        for row in rows_of(options):
            print(json.dumps(row), file=lines, flush=True)
            print(row["program"], row.get("error") or f"{row['step_ns'] / 1e6:.3f} ms per step", flush=True)  # noqa: T201


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row per window, as it ends; and one for each program that could not be built."""
    ready: dict[str, Step] = {}
    for name in options.programs or PROGRAMS:
        try:
            ready[name] = built(name, options.device)
        except Exception as error:  # whatever it is, its row says it, and the other programs go on
            yield {"program": name, "error": f"{type(error).__name__}: {error}"}
    if options.record == "steps":
        for name, step in ready.items():
            yield counted(step, name, options.device)
        return
    steps = {name: steps_for(step, options.device, options.seconds) for name, step in ready.items()}
    if options.record == "windows":
        torch.cuda.profiler.start()
    for turn in range(options.rounds, 0, -1):
        for name, step in ready.items():
            yield timed(step, f"{name}.{turn}" if turn > 1 else name, options.device, steps[name])
    if options.record == "windows":
        torch.cuda.profiler.stop()


def counted(step: Step, name: str, device: str) -> dict[str, Any]:
    """The first steps of a program, for Nsight Compute; the time is that of counting them."""
    steps = COUNTED.get(name, COUNTED_BY_DEFAULT)
    output = None
    began = time.perf_counter_ns()
    torch.cuda.profiler.start()
    parted(device)
    for index in range(steps):
        output = step(index)
    idle(device, output)
    torch.cuda.profiler.stop()
    wall_ns = time.perf_counter_ns() - began
    return {"program": name, "steps": steps, "wall_ns": wall_ns, "step_ns": wall_ns // steps}


if __name__ == "__main__":
    main()

"""Runs many programs, each in all its variants, in one process: `python -m lab.programs.pairs GROUP...`.

In: groups of programs (`--list` names them), the number of rounds. Out: a JSON line per window, as it ends: program,
variant, round, steps, the wall time of the window, and the norm of its last output, by which the variants of a program
can be compared. A window is some steps after some of warm-up, from an idle device to an idle device; the rounds are
outermost, so that a drift of the machine hits all variants alike, and a run that is cut short has the first ones whole.

NVTX: "pair:PROGRAM.VARIANT.ROUND" around a window, "step" in it. With `--cuda-profiler` cudaProfilerStart and Stop are
around all windows: starting a session of nsys per window takes longer than the windows do. `captures/cut_windows.py`
makes an export per window of the one of them all. To record a single one, without what was built before it:
`--only=PROGRAM --variant=VARIANT --rounds=1 --cuda-profiler=window`.

`--traces=FOLDER` also records each window with torch.profiler, and the shapes of what operators were given; with
`--with-stack` Python's functions too.

`--processes=2` runs the programs in two processes at once on one device; they meet before each window.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from lab.programs.paired import PairedProgram, Step

GROUPS = {
    "planted": ("planted", "PROGRAMS"),
    "library": ("library", "PROGRAMS"),
    "together": ("planted", "TOGETHER"),
    "structures": ("structures", "PROGRAMS"),
    "busy": ("busy", "PROGRAMS"),
    "unseen": ("unseen", "PROGRAMS"),
    "fresh": ("fresh", "PROGRAMS"),
    "light": ("light", "PROGRAMS"),
    "unlit": ("light", "HELD_OUT"),
    "lines": ("lines", "PROGRAMS"),
    "jax": ("library", "JAX"),
}
"""The module under `paired`, and its programs."""
WARMUP = 3  # steps
MOST_STEPS = 600
PATIENCE_S = 60.0  # how long a process waits for another
Row = dict[str, Any]


def programs_of(groups: Sequence[str]) -> list[PairedProgram]:
    """The programs of some groups; a group's module is loaded only here, with the libraries that it needs."""
    programs: list[PairedProgram] = []
    for module, name in (GROUPS[group] for group in groups):
        programs += getattr(import_module(f"lab.programs.paired.{module}"), name)
    return programs


def idle(device: str, output: Any = None) -> None:
    """Wait until nothing is left to do: JAX first hands over what its own threads still hold."""
    if hasattr(output, "block_until_ready"):
        output.block_until_ready()
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection in a window: a full one takes as long as a step, and hits one variant or the other."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measured(step: Step, name: str, device: str, steps: int, meet: Any = None, *, profiler: bool = False) -> Row:
    """Warm up, then measure one window; with `profiler`, it is what is recorded."""
    output: Any = None
    for index in range(WARMUP):
        output = step(index)
    idle(device, output)
    with uncollected():
        if meet is not None:
            meet.wait()
        with window(f"pair:{name}", profiler=profiler):
            marks = [time.perf_counter_ns()]
            for index in range(WARMUP, WARMUP + steps):
                with window("step"):
                    output = step(index)
                marks.append(time.perf_counter_ns())
            idle(device, output)
            end = time.perf_counter_ns()
    norm = float(output.float().norm() if torch.is_tensor(output) else output)  # JAX's is a loss
    if not 0 < norm < math.inf:
        raise ArithmeticError(f"the last output's norm is {norm}")
    wall_ns = end - marks[0]
    host = [after - before for before, after in pairwise(marks)]
    return {"steps": steps, "wall_ns": wall_ns, "step_ns": wall_ns // steps, "host_step_ns": host, "norm": norm}


def tried_s(step: Step, device: str) -> float:
    """What a step takes, about."""
    for index in range(WARMUP):
        idle(device, step(index))
    began = time.monotonic()
    for index in range(WARMUP, 2 * WARMUP):
        idle(device, step(index))
    return max((time.monotonic() - began) / WARMUP, 1e-6)


def traced(step: Step, path: Path, first: int, steps: int = 3, *, with_stack: bool = False) -> None:
    """A few steps under torch.profiler, from the `first` on, with the shapes of the operators' inputs."""
    profiler: Any = import_module("torch.profiler")
    activities = [profiler.ProfilerActivity.CPU]
    activities += [profiler.ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    plan = profiler.schedule(wait=0, warmup=1, active=steps, repeat=1)
    with profiler.profile(activities=activities, record_shapes=True, with_stack=with_stack, schedule=plan) as recorded:
        for index in range(first, first + steps + 1):
            step(index)
            if index == first + steps:
                idle("cuda" if torch.cuda.is_available() else "cpu")
            recorded.step()
    recorded.export_chrome_trace(str(path))


def released(device: str) -> None:
    """Give back what nobody holds, pinned memory included, so that a program starts as in a new process."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        for place, name in ((torch._C, "_host_emptyCache"), (torch.accelerator, "empty_host_cache")):
            if hasattr(place, name):  # the one until torch 2.10, the other since
                getattr(place, name)()
                break


def wanted(name: str, names: str | None) -> bool:
    """Whether it is one of some names, of which there may be none."""
    return names is None or name in names.split(",")


def windows(options: argparse.Namespace, meet: Any = None) -> Iterator[Row]:
    """One row per program, variant and round. A variant that fails gives a row that says why."""
    device, end = options.device, time.monotonic() + options.seconds
    kept: dict[tuple[str, str], Step] = {}
    programs = [program for program in programs_of(options.groups) if wanted(program.name, options.only)]
    for turn in range(options.first_round, options.first_round + options.rounds):
        for program in programs:
            for variant, build in program.variants.items():
                if not wanted(variant, options.variant):
                    continue
                if time.monotonic() > end:
                    return
                began = time.monotonic()
                row: Row = {"program": program.name, "variant": variant, "round": turn}
                row |= {"device": device, "profiled": options.cuda_profiler is not None}
                try:
                    step = kept.pop((program.name, variant), None) or build(device)
                    released(device)  # what building left in the cache would hide what a step allocates
                    steps = options.steps or program.steps
                    if options.least_seconds:
                        steps = min(max(steps, int(options.least_seconds / tried_s(step, device))), MOST_STEPS)
                        step = build(device)  # as if it had not been tried
                    name, alone = f"{program.name}.{variant}.{turn}", options.cuda_profiler == "window"
                    row |= measured(step, name, device, steps, meet, profiler=alone)
                    if options.traces is not None:
                        stacks = options.with_stack
                        path, traced_steps = options.traces / f"{name}.json.gz", steps if stacks else 3
                        traced(step, path, WARMUP + steps, traced_steps, with_stack=stacks)
                except Exception as error:  # whatever it is, its row says it, and the other programs go on
                    row["error"] = f"{type(error).__name__}: {error}"
                else:
                    if options.keep:
                        kept[program.name, variant] = step
                    del step
                yield {**row, "seconds": round(time.monotonic() - began, 2)}


def run(options: argparse.Namespace, output: Path, meet: Any = None) -> None:
    """All windows, a line each, in a file that is whole up to the last one."""
    torch.set_grad_enabled(False)  # type: ignore[no-untyped-call, unused-ignore]
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)  # cuDNN plans anew for each length: another reason to lose time
    if options.device == "cuda":
        torch.zeros(1, device="cuda")
    if options.cuda_profiler == "all":
        torch.cuda.profiler.start()
    with output.open("w", encoding="utf-8") as lines:
        for row in windows(options, meet):
            print(json.dumps(row), file=lines, flush=True)
            brief = row.get("error") or f"{row['step_ns'] / 1e6:.3f} ms per step"
            name = f"{row['program']}.{row['variant']}.{row['round']}"
            print(f"{name}: {brief} ({row['seconds']} s)", flush=True)  # noqa: T201
    if options.cuda_profiler == "all":
        torch.cuda.profiler.stop()


def neighbour(index: int, options: argparse.Namespace, meet: Any) -> None:
    """One of several processes on the device."""
    run(options, options.output.with_suffix(f".{index}{options.output.suffix}"), meet)


def main(arguments: list[str] | None = None) -> None:
    """The command line: exit code 2 for a wrong one."""
    parser = argparse.ArgumentParser(prog="lab.programs.pairs", description="Run programs, bad and fixed.")
    parser.add_argument("groups", nargs="+", choices=list(GROUPS), metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--list", action="store_true", help="list programs, variants, findings and edits")
    parser.add_argument("--only", metavar="PROGRAM[,PROGRAM...]", help="some programs of them")
    parser.add_argument("--variant", metavar="NAME[,NAME...]", help="some variants of each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first-round", type=int, default=1, help="its number, where others were run before")
    parser.add_argument("--steps", type=int, help="in a window; default: the program's own, 12")
    parser.add_argument("--least-seconds", type=float, default=0.0, help="as many steps as take so long, if more")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no window after so many")
    parser.add_argument("--keep", action="store_true", help="keep what a variant built for its next round")
    parser.add_argument(
        "--cuda-profiler",
        nargs="?",
        const="all",
        choices=["all", "window"],
        help="cudaProfilerStart and Stop around all windows, or around each",
    )
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="a trace of torch.profiler per window")
    parser.add_argument("--with-stack", action="store_true", help="with Python's functions, and all steps of a window")
    parser.add_argument("--processes", type=int, default=1, help="so many at once on the device")
    parser.add_argument("--output", type=Path, default=Path("pairs.jsonl"), help="default: pairs.jsonl")
    options = parser.parse_args(arguments)
    if options.list:
        for program in programs_of(options.groups):
            listed = (program.name, "/".join(program.variants), ",".join(program.findings) or "-", program.edit)
            print("\t".join(listed))  # noqa: T201
    elif options.processes == 1:
        run(options, options.output)
    else:
        tasks: Any = import_module("torch.multiprocessing")
        meet = tasks.get_context("spawn").Barrier(options.processes, timeout=PATIENCE_S)
        tasks.spawn(neighbour, (options, meet), nprocs=options.processes)


if __name__ == "__main__":
    main()

"""Does any verb grow faster than its input? Every verb and format over exports of growing size, cold.

    .venv/bin/python benchmarks/growth.py                        # 0.1 M and 1 M kernels, all verbs
    .venv/bin/python benchmarks/growth.py --sizes 1e5,1e6,5e6 --only diff whatif

Per task: seconds, processor time, memory of its own over the size of the file, bytes written. It fails where ten times
the kernels take more than ten times the processor time and a half (beyond the start), where a task needs more than
twice its input beside it, or where JSON is above 20 MB.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from harness import machine
from harness.inputs import HERE, export_of
from harness.measure import Command, Failed, once

OURS: Final = (sys.executable, "-m", "gpuledger")
COLD: Final = (("GPULEDGER_CACHE", "0"),)
LIMIT_S: Final = 600.0
ROOM: Final = 1.5
START_S: Final = 0.5
"""What a command may take whatever its input, at most; growth is told from what is above what the least input takes."""
MOST_MEMORY: Final = 2.0
BASE_BYTES: Final = 150_000_000
"""What Python, numpy and our modules take without a profile."""
MOST_JSON: Final = 20_000_000

QUESTIONS: Final = ("gaps", "steps", "memory", "ranges", "whatif", "ops", "kernels")


def tasks(export: Path, work: Path) -> dict[str, tuple[str, ...]]:
    """Every verb that reads, with the formats that differ in what they do."""
    name = str(export)
    listed: dict[str, tuple[str, ...]] = {
        "report text": ("report", name),
        "report json": ("report", name, "--format=json"),
        "report html": ("report", name, "--format=html"),
        "info json": ("info", name, "--format=json"),
        "stats csv": ("stats", name, "--format=csv"),
        **{f"{verb} json": (verb, name, "--format=json") for verb in QUESTIONS},
        "whatif json": ("whatif", name, "--host=2", "--speedup=gemm=2", "--format=json"),
        "ncu plan json": ("kernels", name, "--set=verdict", "--format=json"),
        "query json": ("query", name, "SELECT gpu, count(*) FROM kernels GROUP BY gpu", "--format=json"),
        "diff json": ("diff", name, name, "--format=json"),
        "align json": ("align", name, name, "--range=.*", "--format=json"),
        "fleet json": ("fleet", name, "--workers=0", "--format=json"),
        "export pftrace": ("export", name, "-o", str(work / "growth.pftrace"), "--force"),
    }
    return listed


@dataclass(frozen=True)
class Size:
    """What one task took of one input."""

    kernels: int
    input_bytes: int
    wall_s: float
    cpu_s: float
    own_bytes: int
    written_bytes: int

    @property
    def memory_ratio(self) -> float:
        return max(self.own_bytes - BASE_BYTES, 0) / self.input_bytes

    def __str__(self) -> str:
        times = f"{self.wall_s:6.2f} s {self.cpu_s:6.2f} s CPU"
        return f"{self.kernels:>10,} {times} {self.memory_ratio:5.1f} x file {self.written_bytes / 1e6:6.1f} MB"


def measured(argv: tuple[str, ...], export: Path, kernels: int) -> Size | Failed:
    """One run, watched: being watched costs all sizes the same."""
    run = once(Command((*OURS, *argv), COLD), LIMIT_S, looks_at_memory=True)
    if isinstance(run, Failed):
        return run
    own = run.memory.own_bytes if run.memory else 0
    input_bytes = argv.count(str(export)) * export.stat().st_size  # some read two profiles
    return Size(kernels, input_bytes, run.wall_s, run.cpu_s, own, len(run.output.encode()))


def faults(task: str, sizes: list[Size]) -> list[str]:
    """What is wrong with how a task grows."""
    wrong = []
    start_s = min(START_S, sizes[0].cpu_s)
    for small, large in pairwise(sizes):
        factor = large.kernels / small.kernels
        allowed_s = start_s + ROOM * factor * max(small.cpu_s - start_s, 0.1)
        if large.cpu_s > allowed_s:
            wrong.append(f"{task}: {large.cpu_s:.1f} s of CPU for {large.kernels:,} kernels, at most {allowed_s:.1f} s")
    last = sizes[-1]
    if last.memory_ratio > MOST_MEMORY:
        wrong.append(f"{task}: memory {last.memory_ratio:.1f} x the file, at most {MOST_MEMORY} x")
    if task.endswith("json") and last.written_bytes > MOST_JSON:
        wrong.append(f"{task}: writes {last.written_bytes / 1e6:.0f} MB of JSON, at most {MOST_JSON / 1e6:.0f} MB")
    return wrong


def asked_for(doc: str | None) -> tuple[dict[int, Path], tuple[str, ...], Path]:
    """From the command line: exports by their kernels, how names of tasks begin, the folder to work in."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e5,1e6", help="Kernels, with commas.")
    parser.add_argument("--only", nargs="+", default=("",), help="Tasks whose names begin so.")
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench")
    asked = parser.parse_args()
    machine.compile_package()  # as an installer does; else every run here compiles all that it imports
    sizes = [int(float(size)) for size in asked.sizes.split(",")]
    return {kernels: export_of(kernels, asked.work) for kernels in sizes}, tuple(asked.only), asked.work


def main() -> None:
    """Measure, print, and fail where something grows too fast."""
    exports, only, work = asked_for(__doc__)
    wrong = list[str]()
    for task in tasks(next(iter(exports.values())), work):
        if not task.startswith(only):
            continue
        sizes = list[Size]()
        for kernels, export in exports.items():
            size = measured(tasks(export, work)[task], export, kernels)
            if isinstance(size, Failed):
                wrong.append(f"{task}, {kernels:,} kernels: {size.reason}")
                break
            if faults(task, [*sizes, size]):  # fresh memory costs what it likes, and more where a run is watched
                again = once(Command((*OURS, *tasks(export, work)[task]), COLD), LIMIT_S)
                if not isinstance(again, Failed) and again.cpu_s < size.cpu_s:
                    size = replace(size, wall_s=again.wall_s, cpu_s=again.cpu_s)
            sizes.append(size)
            print(f"{task:16} {size}", flush=True)
        wrong += faults(task, sizes) if sizes else []
    print("\n".join(f"error: {line}" for line in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Does any verb grow faster than the number of GPUs? Every verb and format over small profiles of many GPUs, cold.

    .venv/bin/python benchmarks/growth_gpus.py                                   # 125 and 500 GPUs, a thread for each
    .venv/bin/python benchmarks/growth_gpus.py --gpus 125,250,500,900 --layout processes --suffix json --only report

Per task: processor time and peak memory of its own. It fails where a number of GPUs takes more than its share of the
time or memory of a smaller one, with a quarter of room.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

from gen_gpus import LAYOUTS, write
from growth import COLD, LIMIT_S, OURS, tasks
from harness import machine
from harness.inputs import HERE
from harness.measure import Command, Failed, once

ROOM: Final = 1.25


def main() -> None:
    """Measure, print, and fail where something grows too fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="125,500", help="How many, with commas.")
    parser.add_argument("--layout", choices=LAYOUTS, default="threads", help="Who launches: see gen_gpus.py.")
    parser.add_argument("--suffix", choices=("sqlite", "json"), default="sqlite")
    parser.add_argument("--only", nargs="+", default=("",), help="Tasks whose names begin so.")
    parser.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench")
    asked = parser.parse_args()
    machine.compile_package()
    asked.work.mkdir(parents=True, exist_ok=True)
    sizes = [int(gpus) for gpus in asked.gpus.split(",")]
    profiles = {
        gpus: write(asked.work / f"gpus-{asked.layout}-{gpus}.{asked.suffix}", gpus, asked.layout) for gpus in sizes
    }
    wrong = list[str]()
    for task in tasks(profiles[sizes[0]], asked.work):
        if not task.startswith(tuple(asked.only)):
            continue
        took: dict[int, tuple[float, int]] = {}
        for gpus, profile in profiles.items():
            run = once(Command((*OURS, *tasks(profile, asked.work)[task]), COLD), LIMIT_S, looks_at_memory=True)
            if isinstance(run, Failed):
                print(f"{task:16} {gpus:>5} {run.reason}", flush=True)
                break
            own_bytes = run.memory.own_bytes if run.memory else 0
            took[gpus] = run.cpu_s, own_bytes
            print(f"{task:16} {gpus:>5} GPUs {run.cpu_s:7.2f} s CPU {own_bytes / 1e6:6.0f} MB", flush=True)
        for few, many in pairwise(took):
            for what, less, more in zip(("time", "memory"), took[few], took[many], strict=True):
                if more > ROOM * less * many / few:
                    wrong.append(f"{task}: {what} of {many} GPUs is {more / less:.1f} x that of {few}")
    print("\n".join(f"error: {line}" for line in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

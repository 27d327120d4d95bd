"""Are the numbers of one tree's answers in another tree's, whatever their keys are called?

    python benchmarks/same_answers.py OLD_TREE NEW_TREE PROFILE...

Every number that OLD prints as JSON for a verb must stand in the JSON of the verb that answers the question in NEW: the
same integer, or the same float to six digits, as it is or with percent as a share of 1. What is missing is listed with
its keys. A verb that ends in an error must do so in both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERBS = (
    *("report", "info", "stats", "gaps", "launches", "overlap", "steps", "serving", "memory", "ranges", "phases"),
    *("critical", "ops", "kernels", "whatif --speedup=gemm=2 --host=2", "fleet --workers=0", "ncu-plan"),
)
NOW = {
    "launches": ("gaps",),
    "overlap": ("gaps",),
    "serving": ("steps",),
    "phases": ("ranges",),
    "critical": ("whatif",),
    "kernels": ("kernels", "kernels --by-launch"),
    "ncu-plan": ("kernels --set=verdict",),
}
"""The verbs of the new tree that answer what an old one did, where that is another."""


def answers(tree: Path, verbs: tuple[str, ...], profile: Path) -> list[Any] | None:
    """The JSON of each verb; None where one could not answer."""
    found = []
    for verb in verbs:
        name, *options = verb.split()
        command = [sys.executable, "-m", "gpuledger", name, str(profile), "--format=json", "--no-cache", *options]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "GPULEDGER_CACHE": "0"}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if not ran.stdout.startswith("{"):
            return None
        found.append(json.loads(ran.stdout))
    return found


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number with where it stands."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from numbers(inside, f"{path}.{key}")
    elif isinstance(value, list):
        for inside in value:
            yield from numbers(inside, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def spelled(value: float) -> str:
    """A number as it is compared."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def missing(old: Any, new: list[Any]) -> list[tuple[str, float]]:
    """Numbers of the old answer that the new ones lack. An old percentage has one decimal."""
    there = {value for each in new for _, value in numbers(each)}
    exact = {spelled(value) for value in there}
    percents = {f"{100 * value:.1f}" for value in there} | {f"{value:.1f}" for value in there}
    return [
        (path, value)
        for path, value in numbers(old)
        if spelled(value) not in exact and (isinstance(value, int) or f"{value:.1f}" not in percents)
    ]


def main(old: Path, new: Path, profiles: list[Path]) -> int:
    """0 where nothing is missing."""
    bad = 0
    for profile in profiles:
        for verb in VERBS:
            before = answers(old, (verb,), profile)
            after = answers(new, NOW.get(verb, (verb,)), profile)
            if before is None or after is None:
                if (before is None) != (after is None):
                    print(f"{profile.name}: {verb}: {'old' if before is None else 'new'} tree alone ends in an error")
                    bad += 1
                continue
            lost = missing(before[0], after)
            bad += bool(lost)
            keys = sorted({path for path, _ in lost})
            print(f"{profile.name}: {verb}: {sum(1 for _ in numbers(before[0]))} numbers, {len(lost)} missing")
            for key in keys[:12]:
                print(f"    {key}: {', '.join(spelled(value) for path, value in lost if path == key)[:100]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]]))

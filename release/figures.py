"""Asks whether the figures of the README are those that were stored, and whether those are still about this code.

    python release/figures.py              is each where it should be, and young enough?
    python release/figures.py --measure    and is the code still as fast? a minute; needs gpuledger in this Python

`figures.json` holds each figure with the words that it stands in, the commit and the day at which it was stored (of the
first ones: at which the README first said it, which may be later than they were measured), the code that it is about,
and after how many days it is stale once that code has changed. A figure of speed also holds what `make bench-quick`
found on the same day: processor time and time on the clock of small tasks over those of a fixed piece of work, which no
machine's mood changes much (its kind does: a torch trace takes 1.17 to 1.9 x, of which the middle is stored); code that
only waits is slower on the clock alone. Fails where a figure was edited in one place only, is stale, or is of code that
takes half as long again by now, and says which; measure again, and store value, commit, day and ratios.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOISE = 1.5
"""Ratios of two runs on a shared machine differ by up to a third."""


def complaints(
    figures: list[dict[str, Any]], text_of: Callable[[str], str], changed: Callable[..., bool], today: date
) -> list[str]:
    """What is wrong with the figures; `changed(commit, paths)` says whether code differs from that of a commit."""
    found = []
    for figure in figures:
        name, days = figure["name"], (today - date.fromisoformat(figure["stored"])).days
        for page, words in figure["stands"].items():
            if words.replace("{}", figure["value"]) not in " ".join(text_of(page).split()):
                found.append(f"{name}: {page} does not say {words.replace('{}', figure['value'])!r}")
        if days > figure["stale_after_days"] and changed(figure["commit"], figure["about"]):
            found.append(
                f"{name}: stored {days} days ago, at {figure['commit']}, and {', '.join(figure['about'])} changed since"
            )
    return found


def slower(figures: list[dict[str, Any]], ratios: dict[str, tuple[float, float]]) -> list[str]:
    """Figures whose code takes longer than when they were measured, by the ratios of `make bench-quick`."""
    return [
        f"{figure['name']}: {task} takes {now:.2f} x the reference {of_what} now, {stored:.2f} x at {figure['commit']}"
        for figure in figures
        for task, kept in figure.get("ratios", {}).items()
        for of_what, now, stored in zip(("of processor time", "on the clock"), ratios[task], kept, strict=True)
        if now > NOISE * stored
    ]


def _ratios() -> dict[str, tuple[float, float]]:
    """Processor time and time on the clock of each guarded task over those of the reference, now."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from harness import machine, quick

    machine.compile_package()  # as an installer does, and `make bench-quick`, whose figures are stored
    return {guarded.task: guarded.ratios for guarded in quick.guard(ROOT / "build" / "bench", rounds=3)}


def _changed(commit: str, paths: list[str]) -> bool:
    command = ("git", "-C", str(ROOT), "diff", "--quiet", commit, "HEAD", "--", *paths)
    return subprocess.run(command, check=False).returncode != 0


def main() -> int:
    """Print what is wrong; 0 where nothing is."""
    figures = json.loads((Path(__file__).parent / "figures.json").read_text())["figures"]
    found = complaints(figures, lambda page: (ROOT / page).read_text(), _changed, datetime.now(UTC).date())
    found += slower(figures, _ratios()) if "--measure" in sys.argv[1:] else []
    for complaint in found:
        sys.stdout.write(f"{complaint}\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

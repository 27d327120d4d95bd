"""What reports say fixing a program saves, held against what it saved: `python judge_pairs.py FOLDER...`, a table out.

FOLDER is as `pairs.sh` and `cut_windows.py` leave it: GROUP/PROGRAM.VARIANT.ROUND.sqlite, and the times of all windows
in raw/pairs/*.jsonl. Each round's profile of the bad variant is read with the plain time of its own round, and held
against the fixed variant of that round, which ran right after it: hosts change their pace, for seconds at a time and by
as much as 2. A row shows the round of the median error. Savings are milliseconds a step; a star marks a bound.
Programs that SEVERAL names are fixed in more than one way at once: of those, what all findings save in order counts.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from gpuledger import build_report, open_trace
from gpuledger.findings.finding import Finding

SEVERAL = {
    "read_tiny",
    "sleep_pageable",
    "alloc_casts",
    "sync_numpy",
    "copies_held",
    "nonzero",
    "growing_alloc",
    "hf_moe",
}
"""Two faults on purpose, or a fix that also does without kernels."""

Steps = dict[tuple[str, str, bool], dict[int, int]]
"""Nanoseconds a step, by program, variant and whether it was profiled, and by round."""


@dataclass(frozen=True)
class Judged:
    """One profile of a program that should be fixed. Times are nanoseconds a step."""

    program: str
    code: str
    is_bound: bool
    bad: float
    saved: float
    said: float
    in_order: float
    plain_saved: float
    plain_low: float
    plain_high: float

    @property
    def error(self) -> float:
        """Of what was said, as a share of what was saved."""
        return (self.in_order if self.program in SEVERAL else self.said) / self.saved - 1

    @property
    def is_in_range(self) -> bool:
        """Whether the plain saving is where it was said to be."""
        return self.plain_low <= self.plain_saved <= self.plain_high


def steps_of(folder: Path) -> Steps:
    """The times of all windows."""
    steps: Steps = defaultdict(dict)
    for path in sorted((folder / "raw" / "pairs").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            window: dict[str, Any] = json.loads(line)
            if "step_ns" in window:
                key = window["program"], window["variant"], window["profiled"]
                steps[key][window["round"]] = window["step_ns"]
    return steps


def judged(profile: Path, steps: Steps) -> Judged | None:
    """What one profile's first finding says; None where it has none that is replayed."""
    program, variant, number = profile.stem.split(".")
    bad, plain = (steps[program, variant, profiled][int(number)] for profiled in (True, False))
    trace = open_trace(profile, cache=False)
    window = build_report(trace).main_device.ledger.window_ns
    report = build_report(replace(trace, plain_window_ns=round(window * plain / bad)))
    device = report.main_device
    told: list[Finding] = [finding for finding in report.findings if finding.edit is not None]
    if not told or told[0].plain is None:
        return None
    first, without = told[0], told[0].plain
    scale = bad / device.steady_ns  # the wall clock of the window is the better one
    fixed, fixed_plain = (steps[program, "fixed", profiled][int(number)] for profiled in (True, False))
    return Judged(
        program,
        first.code,
        first.is_bound,
        bad,
        bad - fixed,
        first.saving_ns * scale,
        sum(finding.then_ns or 0 for finding in told) * scale,
        plain - fixed_plain,
        without.low_ns * scale,
        without.high_ns * scale,
    )


def all_judged(folders: list[Path]) -> Iterator[list[Judged]]:
    """The rounds of each program."""
    rounds: dict[str, list[Judged]] = defaultdict(list)
    for folder in folders:
        steps = steps_of(folder)
        for profile in sorted(folder.glob("*/*.bad.*.sqlite")):
            program = profile.stem.split(".")[0]
            number = int(profile.stem.split(".")[2])
            is_whole = all(number in steps.get((program, "fixed", profiled), {}) for profiled in (True, False))
            if is_whole and (one := judged(profile, steps)) is not None:
                rounds[program].append(one)
    yield from rounds.values()


def row(program: str, rounds: list[Judged], shown: Judged) -> str:
    """One program's line of the table."""
    times = (shown.saved, shown.said, shown.in_order, shown.plain_saved, shown.plain_low, shown.plain_high)
    saved, said, in_order, plain, low, high = (f"{time / 1e6:.2f}" for time in times)
    inside = f"{sum(one.is_in_range for one in rounds)} of {len(rounds)}"
    code = shown.code + "*" * shown.is_bound
    cells = (program, code, saved, said, in_order, f"{100 * shown.error:+.0f} %", plain, f"{low} to {high}", inside)
    return f"| {' | '.join(cells)} |"


def summary(shown: list[tuple[Judged, float]]) -> str:
    """How many savings came true, of findings that are no bounds."""
    for_one = [(one, inside) for one, inside in shown if not one.is_bound and one.program not in SEVERAL]
    several = [abs(one.error) for one, _ in shown if one.program in SEVERAL]
    inside = sum(inside > 0.5 for _, inside in for_one)
    return (
        f"One fault, no bound: {_errors([abs(one.error) for one, _ in for_one])}; plain inside its range in most "
        f"rounds: {inside}. Several at once, in order: {_errors(several)}."
    )


def _errors(errors: list[float]) -> str:
    if not errors:
        return "none"
    under = ", ".join(f"{sum(error < limit for error in errors)} under {100 * limit:.0f} %" for limit in (0.15, 0.25))
    return f"{len(errors)} programs, median error {100 * median(errors):.1f} %, {under}"


def main() -> None:
    """Print the table of all folders' programs."""
    sys.stdout.write("| program | first finding | saved | said | in order | error | saved, plain | range | inside |\n")
    sys.stdout.write("|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
    shown = []
    for rounds in all_judged([Path(name) for name in sys.argv[1:]]):
        codes = [one.code for one in rounds]
        usual = max(codes, key=codes.count)
        alike = sorted((one for one in rounds if one.code == usual), key=lambda one: one.error)
        middle = alike[len(alike) // 2]
        sys.stdout.write(f"{row(middle.program, rounds, middle)}\n")
        shown.append((middle, sum(one.is_in_range for one in rounds) / len(rounds)))
    sys.stdout.write(f"\n{summary(shown)}\n")


if __name__ == "__main__":
    main()

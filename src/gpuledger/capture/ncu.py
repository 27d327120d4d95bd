"""NVIDIA's `ncu`: which launches to profile and what to measure in, its argument list and what the run costs out.

Nothing is started here. Every option is written as `--flag=value`, and all that matter are written out, so that a
command does the same whatever the defaults of the ncu that runs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SETS: Final = {"full": 38, "roofline": 20, "basic": 10}
"""ncu's sets of sections, each with how often it runs a launch to measure it all."""
# full: what ncu 2025.3 says of itself on an H200 (profiler__replayer_passes); measured: see docs, for the others

METRICS_PER_PASS: Final = 4
"""How many single metrics fit into one pass, about: it depends on which they are."""  # measured: see docs

SECONDS_PER_PASS: Final = 0.03
"""What a pass takes beside the kernel itself: restoring memory, flushing caches, setting up."""  # measured: see docs

PLACEHOLDER: Final = "YOUR-COMMAND"
ENDING: Final = ".ncu-rep"
"""ncu puts it behind the name of an export."""

_SPECIAL: Final = re.compile(r"([\\^$.|?*+()\[\]{}])")


@dataclass(frozen=True, slots=True)
class Measure:
    """What ncu is to measure: the option that says so, and how often it runs a launch for that."""

    option: str
    passes: int

    @classmethod
    def of_set(cls, name: str) -> Measure:
        return cls(f"--set={name}", SETS[name])

    @classmethod
    def of_metrics(cls, names: Sequence[str]) -> Measure:
        return cls(f"--metrics={','.join(names)}", -(-len(names) // METRICS_PER_PASS))

    def seconds(self, launches: int, ns: int) -> float:
        """What profiling so many launches, which take so long by themselves, adds to the program's own time."""
        return self.passes * (launches * SECONDS_PER_PASS + ns / 1e9)


def ncu_command(
    functions: Sequence[str], skip: int, count: int, measure: Measure, export: str, command: Sequence[str] = ()
) -> tuple[str, ...]:
    """The arguments of one run: of each launch configuration of these functions, skip some launches and take some."""
    return (
        "ncu",
        measure.option,
        "--clock-control=none",  # the default locks them to base, and times would not compare with the timeline's
        "--filter-mode=per-launch-config",
        "--kernel-name-base=function",
        f"--kernel-name={_filter(functions)}",
        f"--launch-skip={skip}",
        f"--launch-count={count}",
        "--nvtx",
        "--target-processes=all",
        f"--export={export}",
        *(command or (PLACEHOLDER,)),
    )


def _filter(functions: Sequence[str]) -> str:
    """A regular expression for these names and no others; only what is special to every dialect is escaped."""
    names = "|".join(_SPECIAL.sub(r"\\\1", name) for name in functions)
    return f"regex:^({names})$"

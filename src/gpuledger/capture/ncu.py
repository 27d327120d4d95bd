"""NVIDIA's `ncu`: which launches to profile and what to measure in, its argument list and what the run costs out.

Nothing is started here. Every option is written as `--flag=value`, and all that matter are written out, so that a
command does the same whatever the defaults of the ncu that runs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SECTIONS: Final = (
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "SpeedOfLight_HierarchicalTensorRooflineChart",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "Occupancy",
    "LaunchStats",
    "SchedulerStats",
    "WarpStateStats",
    "WorkloadDistribution",
)
"""All that verdicts use, and nothing more: a quarter of the cost of ncu's own full set."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How often ncu runs a launch for a set, and what one launch takes in all beside the kernel itself."""

    passes: int
    seconds: float


SETS: Final = {
    "verdict": Cost(27, 0.46),
    "full": Cost(38, 1.8),
    "roofline": Cost(17, 0.26),
    "basic": Cost(10, 0.17),
}
"""What to measure: the sections of verdicts, or ncu's own sets. Seen with ncu 2025.3 on an H200, ten launches each."""

METRICS_PER_PASS: Final = 4
"""How many single metrics fit into one pass, about: it depends on which they are."""

SECONDS_PER_PASS: Final = 0.017
"""What a pass takes: restoring memory, flushing caches, setting up."""

PLACEHOLDER: Final = "YOUR-COMMAND"
ENDING: Final = ".ncu-rep"
"""ncu puts it behind the name of an export."""

_SPECIAL: Final = re.compile(r"([\\^$.|?*+()\[\]{}])")


@dataclass(frozen=True, slots=True)
class Measure:
    """What ncu is to measure: the options that say so, and what that costs."""

    options: tuple[str, ...]
    cost: Cost

    @classmethod
    def of_set(cls, name: str) -> Measure:
        options = tuple(f"--section={each}" for each in SECTIONS) if name == "verdict" else (f"--set={name}",)
        return cls(options, SETS[name])

    @classmethod
    def of_metrics(cls, names: Sequence[str]) -> Measure:
        passes = -(-len(names) // METRICS_PER_PASS)
        return cls((f"--metrics={','.join(names)}",), Cost(passes, passes * SECONDS_PER_PASS))

    def seconds(self, launches: int, ns: int) -> float:
        """What profiling so many launches, which take so long by themselves, adds to the program's own time."""
        return launches * self.cost.seconds + self.cost.passes * ns / 1e9


def ncu_command(
    functions: Sequence[str], skip: int, count: int, measure: Measure, export: str, command: Sequence[str] = ()
) -> tuple[str, ...]:
    """The arguments of one run: of each launch configuration of these functions, skip some launches and take some."""
    return (
        "ncu",
        *measure.options,
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

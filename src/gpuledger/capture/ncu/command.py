"""NVIDIA's `ncu`: which launches to profile and what to measure in, its argument list and what the run costs out.

Nothing is started here. Every option is written as `--flag=value`, and all that matter are written out, so that a
command does the same whatever the defaults of the ncu that runs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SECTIONS: Final = {
    "SpeedOfLight": "how near compute and memory come to their peaks",
    "SpeedOfLight_RooflineChart": "operations and bytes, for the roofline",
    "SpeedOfLight_HierarchicalTensorRooflineChart": "the same for tensor cores and each level of memory",
    "MemoryWorkloadAnalysis": "bandwidth and hit rates of DRAM, L2 and L1",
    "ComputeWorkloadAnalysis": "which pipelines are busy",
    "Occupancy": "how many warps fit, and what limits that",
    "LaunchStats": "grid, block, registers, shared memory",
    "SchedulerStats": "how often a scheduler finds a warp that can go on",
    "WarpStateStats": "what warps wait for",
    "WorkloadDistribution": "whether all parts of the chip have work",
}
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


_OURS: Final = (
    ("--force-overwrite", "gpuledger has looked before: what must stay is not touched"),
    ("--log-file=stderr", "what ncu says stays apart from the program's own output"),
)
"""What a run needs that we start ourselves."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which launches to profile. `skip` and `count` are of each launch configuration, or of all launches together."""

    kernel: str | None = None
    """A regular expression for the function's name."""
    skip: int | None = None
    count: int | None = None
    per_configuration: bool = False
    windowed: bool = False
    """Only between the program's own cudaProfilerStart and cudaProfilerStop."""


def ncu_flags(choice: Choice, measure: Measure, export: str, *, run_by_us: bool = False) -> tuple[tuple[str, str], ...]:
    """The options of one run, each with the reason why it is given."""
    sections = [(option, SECTIONS.get(option.partition("=")[2], "what to measure")) for option in measure.options]
    mode = "per-launch-config" if choice.per_configuration else "global"
    chosen = [
        (f"--filter-mode={mode}", "what --launch-skip and --launch-count count"),
        ("--kernel-name-base=function", "kernels are named by their function, without template arguments"),
    ]
    if choice.windowed:
        chosen.append(("--profile-from-start=no", "nothing before cudaProfilerStart: no loading, no warm-up"))
    if choice.kernel is not None:
        chosen.append((f"--kernel-name=regex:{choice.kernel}", "only these kernels are replayed"))
    if choice.skip is not None:
        chosen.append((f"--launch-skip={choice.skip}", "launches to let pass first"))
    if choice.count is not None:
        chosen.append((f"--launch-count={choice.count}", "launches to profile: each is replayed several times"))
    return (
        *sections,
        # the default locks them to base, and times would not compare with the timeline's
        ("--clock-control=none", "the GPU keeps its own clocks, so times are comparable with nsys"),
        *chosen,
        ("--nvtx", "the program's ranges are recorded with each launch"),
        ("--target-processes=all", "also processes that the program starts"),
        *(_OURS if run_by_us else ()),
        (f"--export={export}", f"the report's name; ncu adds {ENDING}"),
    )


def ncu_command(
    functions: Sequence[str], skip: int, count: int, measure: Measure, export: str, command: Sequence[str] = ()
) -> tuple[str, ...]:
    """The arguments of one run: of each launch configuration of these functions, skip some launches and take some."""
    choice = Choice(_filter(functions), skip, count, per_configuration=True)
    return ("ncu", *(flag for flag, _ in ncu_flags(choice, measure, export)), *(command or (PLACEHOLDER,)))


def _filter(functions: Sequence[str]) -> str:
    """A regular expression for these names and no others; only what is special to every dialect is escaped."""
    names = "|".join(_SPECIAL.sub(r"\\\1", name) for name in functions)
    return f"^({names})$"

"""NVIDIA's `ncu`: which launches to profile and what to measure in, its argument list and what the run costs out.

Nothing is started here. All options that matter are written out, so that a command does the same whatever the defaults
of the ncu that runs it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gpuledger.errors import GpuledgerError

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


class Cost(Struct, frozen=True):
    """How often ncu runs a launch for a set, and what one launch takes in all beside the kernel itself."""

    passes: int
    seconds: float


SETS: Final = {"verdict": Cost(27, 0.46), "full": Cost(38, 1.8), "roofline": Cost(17, 0.26), "basic": Cost(10, 0.17)}
"""What to measure: the sections of verdicts, or ncu's own sets. Seen with ncu 2025.3 on an H200, ten launches each."""

METRICS_PER_PASS: Final = 4  # how many single metrics fit into one pass, about: it depends on which they are

SECONDS_PER_PASS: Final = 0.017  # what a pass takes: restoring memory, flushing caches, setting up

PLACEHOLDER: Final = "YOUR-COMMAND"
ENDING: Final = ".ncu-rep"  # ncu puts it behind the name of an export

_SPECIAL: Final = re.compile(r"([\\^$.|?*+()\[\]{}])")


class Measure(Struct, frozen=True):
    """What ncu is to measure: the options that say so, and what that costs."""

    options: tuple[str, ...]
    cost: Cost

    @classmethod
    def of_set(cls, name: str) -> Measure:
        options = tuple(f"--section={section}" for section in SECTIONS) if name == "verdict" else (f"--set={name}",)
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


class Choice(Struct, frozen=True):
    """Which launches to profile. `skip` and `count` are of each launch configuration, or of all launches together."""

    kernel: str | None = None  # a regular expression for the function's name
    skip: int | None = None
    count: int | None = None
    per_configuration: bool = False
    windowed: bool = False  # only between the program's own cudaProfilerStart and cudaProfilerStop


def ncu_flags(choice: Choice, measure: Measure, export: str, *, run_by_us: bool = False) -> tuple[tuple[str, str], ...]:
    """The options of one run, each with the reason why it is given."""
    sections = [(option, SECTIONS.get(option.partition("=")[2], "what to measure")) for option in measure.options]
    mode = "per-launch-config" if choice.per_configuration else "global"
    chosen = [
        (f"--filter-mode={mode}", "what --launch-skip and --launch-count count"),
        ("--kernel-name-base=function", "kernels are named by their function, without template arguments"),
    ]
    window = "no" if choice.windowed else None
    for option, value, why in (
        ("--profile-from-start=", window, "nothing before cudaProfilerStart: no loading, no warm-up"),
        ("--kernel-name=regex:", choice.kernel, "only these kernels are replayed"),
        ("--launch-skip=", choice.skip, "launches to let pass first"),
        ("--launch-count=", choice.count, "launches to profile: each is replayed several times"),
    ):
        chosen += [] if value is None else [(f"{option}{value}", why)]
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
    # these names and no others; only what is special to every dialect of regular expressions is escaped
    names = "|".join(_SPECIAL.sub(r"\\\1", name) for name in functions)
    choice = Choice(f"^({names})$", skip, count, per_configuration=True)
    return ("ncu", *(flag for flag, _ in ncu_flags(choice, measure, export)), *(command or (PLACEHOLDER,)))


ROLLUPS: Final = ("avg", "sum", "min", "max")
RATIOS: Final = ("pct", "ratio", "max_rate")

_OVER: Final = ("active", "elapsed", "region", "frame")
SUBMETRICS: Final = (
    "per_second",
    *(f"per_cycle_{over}" for over in ("active", "elapsed", "in_region", "in_frame")),
    *(f"pct_of_peak_sustained_{over}" for over in _OVER),
    "peak_sustained",
    *(f"peak_sustained_{over}" for over in _OVER),
    *(f"peak_sustained_{over}.per_second" for over in _OVER),
)

UNITS: Final = (
    *("sm", "smsp", "l1tex", "tex", "tpc", "gpc", "gpu", "gr", "fe", "idc", "gcc", "ctc", "sass"),
    *("lts", "ltc", "lrc", "dram", "dramc", "fbp", "fbpa", "mcc", "sys", "host", "pcie", "pm"),
    *("nvlink", "nvlrx", "nvltx", "c2clink", "numa", "crop", "zrop", "prop", "raster", "vaf", "vpc", "vsm", "pes"),
    *("launch", "device", "derived", "profiler"),
)
"""Parts of the chip, and ncu's own. A new chip may have more: an unknown unit is only refused if it is nearly one."""

_ALMOST: Final = 0.7
_PREFIX: Final = re.compile(r"(?:breakdown:|pmsampling:|[A-Z0-9_]+\.[A-Z]\w*\.)")
"""What ncu takes or prints before a name: `TPC.TriageCompute.sm__cycles_active.avg` was sampled over time."""

_ANY: Final = re.compile(r"(?:group|regex):.+", re.DOTALL)
_PER_INSTRUCTION: Final = re.compile(
    r"(?:thread_)?inst_executed(?:_true)?|memory_(?:type|access_|l[12]_)\w*|derived_\w+"
)
_BASE: Final = re.compile(r"([a-z][a-z0-9]*)__[A-Za-z0-9]\w*")
_MEANT: Final = {"mean": "avg", "average": "avg", "total": "sum", "minimum": "min", "maximum": "max"}
_HINT: Final = "`ncu --query-metrics` lists the counters of the GPU"


def check_metrics(listed: str) -> tuple[str, ...]:
    """The metrics of a list with commas; refused if there is none, or one that cannot be."""
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not names:
        raise GpuledgerError("no metric in the list", hint=_HINT)
    if wrong := [complaint(name) for name in names if not is_metric(name)]:
        raise GpuledgerError(wrong[0], found="\n".join(wrong[1:]), hint=_HINT)
    return names


def is_metric(name: str) -> bool:
    """Whether a name is built as ncu's are."""
    if _ANY.fullmatch(name):
        return True
    base, *ending = _PREFIX.sub("", name, count=1).split(".")
    if not ending and _PER_INSTRUCTION.fullmatch(base):
        return True
    match = _BASE.fullmatch(base)
    if match is None or _misspelt(match[1]) or base.endswith(tuple(f"__{rollup}" for rollup in ROLLUPS)):
        return False
    if len(ending) <= 1:
        return not ending or ending[0] in (*ROLLUPS, *RATIOS)
    return ending[0] in ROLLUPS and ".".join(ending[1:]) in SUBMETRICS


def complaint(name: str) -> str:
    """What to say of a name that is none."""
    meant = _repaired(name)
    if is_metric(meant):
        return f"{name} is no metric: did you mean {meant}?"
    return f"{name} is no metric: expected UNIT__COUNTER.{'|'.join(ROLLUPS)}, then e.g. .{SUBMETRICS[0]}"


def _misspelt(unit: str) -> str | None:
    if unit in UNITS:
        return None
    return next(iter(difflib.get_close_matches(unit, UNITS, n=1, cutoff=_ALMOST)), None)


def _repaired(name: str) -> str:
    """The nearest name that could be one: separators, unit, rollup and ending put right, as far as they can be."""
    text = re.sub(r"(?<!breakdown)(?<!pmsampling)[:/]", ".", name.strip().replace("::", "__"))
    text = re.sub(rf"(?:__|-)({'|'.join(ROLLUPS)})(?=\.|-|$)", r".\1", text)
    text = re.sub(r"[-\s]+", "_", text)
    prefix = match[0] if (match := _PREFIX.match(text)) else ""
    text = text.removeprefix(prefix).lower()
    units = "|".join(sorted(UNITS, key=len, reverse=True))
    text = re.sub(rf"^({units})(?:_|\.)(?!_)", r"\1__", text)
    unit, double, rest = text.partition("__")
    base, *ending = rest.split(".")
    return f"{prefix}{_misspelt(unit) or unit}{double}{'.'.join([base, *_ending(ending)])}"


def _ending(parts: list[str]) -> list[str]:
    if not parts:
        return []
    first, rest = parts[0], ".".join(parts[1:])
    if first not in (*ROLLUPS, *RATIOS):
        if first.startswith(("per_", "pct_of", "peak_")):  # the rollup was left out
            first, rest = "avg", ".".join(parts)
        else:
            near = difflib.get_close_matches(first, (*ROLLUPS, *RATIOS), n=1)
            first = _MEANT.get(first) or (near[0] if near else first)
    if rest and rest not in SUBMETRICS:
        if f"{rest}_elapsed" in SUBMETRICS:  # of the four that it may be, the one that ncu's own sections use
            rest = f"{rest}_elapsed"
        else:
            rest = next(iter(difflib.get_close_matches(rest, SUBMETRICS, n=1)), rest)
    return [first, rest] if rest else [first]

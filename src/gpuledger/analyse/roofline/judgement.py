"""A kernel report judged: each launch with its figures, verdict and advice, and like launches put together.

Launches of one name, grid and block are one kernel, unless their times differ so much that they must have worked on
problems of different size: a GEMM of the same shape may have a longer inner dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gpuledger.analyse.roofline.roofs import RooflinePoint, Roofs, points, roofs
from gpuledger.analyse.roofline.verdict import Figure, KernelVerdict, LaunchFigures, figures, verdict
from gpuledger.catalog.kernel_names import cut_label, label, parse
from gpuledger.messages import say
from gpuledger.rows import Spread
from gpuledger.trace.measured import Dim3, Profiled
from gpuledger.trace.model import NotMeasured
from gpuledger.units import share_text

MOST_RULES: Final = 3  # so many of NVIDIA's rules are passed on: those about the whole kernel that promise the most

ADVICE: Final[Mapping[str, str]] = {
    "DRAM": say("only fewer bytes make it faster: fuse it with its neighbors, use a smaller type, read nothing twice"),
    "L2": say("reduce L2 traffic: larger tiles, blocks ordered so that neighbors share data, TMA multicast"),
    "L1": say("reduce shared-memory traffic: wider accesses, no bank conflicts, more reuse in registers"),
    "tensor": say("it is near the tensor-core peak: only a smaller type, sparsity or less work makes it faster"),
    "fp64": say("use FP32, or tensor cores, where the accuracy allows"),
    "fma": say("use tensor cores, or packed half precision, where the accuracy allows"),
    "alu": say("use fewer integer instructions: simpler indexing, wider loads, more elements per thread"),
    "fp16": say("use tensor cores where the shapes allow"),
    "special functions": say("replace exponentials, divisions and roots by cheaper approximations"),
    "load/store": say("move more bytes per instruction: vectorized loads and stores, coalesced accesses"),
    "uniform": say("move work from uniform instructions into vector ones"),
    "texture": say("replace texture accesses by plain loads"),
    "issue": say("use fewer instructions per element: wider loads, packed arithmetic, more elements per thread"),
    "sm": say("collect the section ComputeWorkloadAnalysis: it shows which pipeline is busy"),
    "too few blocks": say(
        "give it more parallel work: split the reduction, batch calls, or run other work concurrently"
    ),
    "tail": say("choose a tile or grid that fills whole waves, or a persistent kernel"),
    "occupancy": say("use fewer registers or less shared memory per block, or keep more loads in flight per warp"),
    "uneven": say("balance the work: smaller tiles, or dynamic tile scheduling"),
    "short": say("fuse it with its neighbors: a kernel this short is mostly start-up and tear-down"),
    "stalls": say("keep more loads in flight: prefetch, asynchronous copies, more work per thread"),
    "unexplained": say("collect the sections Occupancy, LaunchStats and WarpStateStats"),
    "unmeasured": say("collect the section SpeedOfLight"),
}
"""By `KernelVerdict.limiter`."""

COALESCE: Final = say(
    "coalesce its accesses: let neighboring threads touch neighboring addresses, change the "
    "layout, or go through shared memory"
)
"""For a kernel whose memory is busy with bytes that nobody uses."""


def advice(launch: Profiled, verdict: KernelVerdict) -> tuple[str, ...]:
    """What to try: ours first, then what NVIDIA's rules say, marked as theirs."""
    promising = (rule for rule in launch.advice if rule.speedup_share)
    rules = sorted(promising, key=lambda rule: (rule.scope != "global", -(rule.speedup_share or 0.0), rule.rule))
    said = [ADVICE[verdict.limiter] if verdict.wasted is None else COALESCE]
    for rule in rules[:MOST_RULES]:
        parts = {"title": f"{rule.rule}: {rule.title}" if rule.title else rule.rule}
        parts["share"] = share_text(rule.speedup_share or 0.0)
        local = say("NVIDIA: {title} (estimate: {share} of the part it is about)", **parts)
        whole = say("NVIDIA: {title} (estimate: {share} of the kernel's time)", **parts)
        said.append(local if rule.scope == "local" else whole)
    return tuple(said)


OTHER_SIZE: Final = 1.5  # launches of one shape whose times differ by this factor worked on problems of different size
FLOOR_NS: Final = 2_000  # no kernel is made shorter than this: starting and ending one takes about as long

SEVERITIES: Final = (("high", 0.1), ("medium", 0.03), ("low", 0.005))
"""Severity by what reaching the nearest roof would save, as a share of the whole time."""


class JudgedLaunch(Struct, frozen=True):
    """One launch and what we say of it."""

    launch: Profiled
    figures: LaunchFigures
    verdict: KernelVerdict
    advice: tuple[str, ...]
    roofs: Roofs
    points: tuple[RooflinePoint, ...]

    @property
    def duration_ns(self) -> int:
        """0 where it was not measured, so that it weighs nothing."""
        duration = self.figures.duration_ns
        return 0 if isinstance(duration, NotMeasured) else duration


class JudgedKernel(Struct, frozen=True):
    """Launches of one name, shape and size of problem."""

    name: str
    grid: Dim3 | None
    block: Dim3 | None
    launches: tuple[JudgedLaunch, ...]

    @property
    def label(self) -> str:
        return cut_label(label(self.name))

    @property
    def duration_ns(self) -> int:
        return sum(launch.duration_ns for launch in self.launches)

    @property
    def typical(self) -> JudgedLaunch:
        """The launch that took the most time stands for all."""
        return max(self.launches, key=lambda judged: (judged.duration_ns, -judged.launch.order))

    @property
    def headroom(self) -> Figure:
        """Weighted by time over the launches where it is known."""
        both = [(launch.duration_ns, launch.verdict.headroom) for launch in self.launches]
        known = [(time_ns, share) for time_ns, share in both if not isinstance(share, NotMeasured)]
        return _mean(known) if known else self.typical.verdict.headroom

    @property
    def saving_ns(self) -> int | NotMeasured:
        return saving(self.duration_ns, len(self.launches), self.headroom)

    def spread(self, key: str) -> Spread | NotMeasured:
        """A figure by its key in `launch_figures.FIGURE_NAMES`."""
        known: list[tuple[int, float]] = []
        missing = NotMeasured("there is no launch")
        for launch in self.launches:
            value = launch.figures.dram_bytes_per_s if key == "dram_bytes_per_s" else launch.figures.shares[key]
            if isinstance(value, NotMeasured):
                missing = value
            else:
                known.append((launch.duration_ns, value))
        if not known:
            return missing
        values = [value for _, value in known]
        return Spread(_mean(known), min(values), max(values))


def _mean(weighted: Sequence[tuple[int, float]]) -> float:
    weight = sum(weight_ns for weight_ns, _ in weighted)
    if not weight:
        return sum(value for _, value in weighted) / len(weighted)
    return sum(weight_ns * value for weight_ns, value in weighted) / weight


def judged(launch: Profiled) -> JudgedLaunch:
    """One launch with its verdict."""
    numbers, over = figures(launch), roofs(launch)
    answer = verdict(launch, numbers)
    return JudgedLaunch(launch, numbers, answer, advice(launch, answer), over, points(launch, over))


def kernels(launches: Iterable[JudgedLaunch]) -> list[JudgedKernel]:
    """Like launches together, those that took the most time first."""
    alike: dict[tuple[str, Dim3 | None, Dim3 | None], list[JudgedLaunch]] = {}
    for judged in launches:
        key = (parse(judged.launch.name).bare, judged.launch.grid, judged.launch.block)
        alike.setdefault(key, []).append(judged)
    judged_kernels = []
    for (_, grid, block), group in alike.items():
        sizes: list[list[JudgedLaunch]] = []  # launches whose times are alike
        for judged in sorted(group, key=lambda judged: judged.duration_ns):
            if not sizes or judged.duration_ns > OTHER_SIZE * max(sizes[-1][-1].duration_ns, 1):
                sizes.append([])
            sizes[-1].append(judged)
        for size in sizes:
            size.sort(key=lambda judged: (judged.launch.file, judged.launch.order))
            judged_kernels.append(JudgedKernel(size[0].launch.name, grid, block, tuple(size)))
    return sorted(judged_kernels, key=lambda kernel: (-kernel.duration_ns, kernel.launches[0].launch.order))


def saving(time_ns: int, calls: int, headroom: Figure) -> int | NotMeasured:
    """What so many calls would save if they reached the roof; no call becomes shorter than FLOOR_NS."""
    if isinstance(headroom, NotMeasured):
        return headroom
    if not time_ns:
        return NotMeasured("how long it took was not collected")
    return max(time_ns - max(round(time_ns * (1 - headroom)), calls * FLOOR_NS), 0)


def severity(saving_ns: int | NotMeasured, whole_ns: int) -> str:
    """high, medium, low or none: how much of the whole time would be saved."""
    if isinstance(saving_ns, NotMeasured) or not whole_ns:
        return "unknown"
    return next((name for name, least in SEVERITIES if saving_ns >= least * whole_ns), "none")

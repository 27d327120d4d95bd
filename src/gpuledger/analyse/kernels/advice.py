"""What to try for each limit that a verdict names, and what NVIDIA's own rules add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpuledger.analyse.kernels.verdict import KernelVerdict
from gpuledger.messages import say
from gpuledger.trace.kernel_report import Advice, Profiled
from gpuledger.units import share_text

MOST_RULES: Final = 3
"""So many of NVIDIA's rules are passed on: those about the whole kernel that promise the most."""

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
    ours = ADVICE[verdict.limiter] if verdict.wasted is None else COALESCE
    return (ours, *(_of_nvidia(rule) for rule in rules[:MOST_RULES]))


def _of_nvidia(rule: Advice) -> str:
    title = f"{rule.rule}: {rule.title}" if rule.title else rule.rule
    share = share_text(rule.speedup_share or 0.0)
    if rule.scope == "local":
        return say("NVIDIA: {title} (estimate: {share} of the part it is about)", title=title, share=share)
    return say("NVIDIA: {title} (estimate: {share} of the kernel's time)", title=title, share=share)

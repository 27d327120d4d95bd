"""May these two be compared? Two sides and their pairs in, reasons against it and remarks out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.diff.kernel_pairs import KernelPair
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunKernel, RunSide
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.units import count_text, share_text

LEAST_OVERLAP: Final = 0.2
"""Kernels that find a partner must hold this share of compute on both sides."""

LEAST_RANGES: Final = 2
"""So many ranges must have the same names, and half of all, for two to be one program with other kernels. Ranges of
libraries (`cub::...`, `aten::...`) say nothing: they are in any program."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The share of kernel time, before and after, in kernels that found a partner."""

    before_share: float
    after_share: float


def overlap(pairs: Sequence[KernelPair]) -> Overlap:
    """How much of the two sides is the same program; all of it where neither runs any kernel."""
    whole = [_time(pair.before for pair in pairs), _time(pair.after for pair in pairs)]
    if not any(whole):
        return Overlap(1.0, 1.0)
    both = [pair for pair in pairs if pair.before and pair.after]
    shared = [_time(pair.before for pair in both), _time(pair.after for pair in both)]
    before, after = (part / all_ if all_ else 0.0 for part, all_ in zip(shared, whole, strict=True))
    return Overlap(before, after)


def _time(groups: Iterable[tuple[RunKernel, ...]]) -> int:
    return sum(kernel.time_ns for group in groups for kernel in group)


def check_kinds(before: RunSide, after: RunSide) -> None:
    """Refuse a table and a profile: one has sums, the other steps, and no option makes them the same."""
    if (before.whole == KERNEL_TIME) != (after.whole == KERNEL_TIME):
        table, profile = (before, after) if before.whole == KERNEL_TIME else (after, before)
        raise GpuledgerError(
            f"{table.name} holds tables of `nsys stats`, which have no steps; {profile.name} is a profile",
            hint=f"make the tables of both: `gpuledger stats {profile.name} --format=csv`",
        )


def unlike(before: RunSide, after: RunSide, pairs: Sequence[KernelPair]) -> list[str]:
    """Why the two should not be compared, in sentences without a full stop; none if they may."""
    reasons = list[str]()
    if (before.whole == STEP) != (after.whole == STEP):
        has, lacks = (before, after) if before.whole == STEP else (after, before)
        reasons.append(
            say(
                "{has} has steps ({source}), {lacks} has none",
                has=has.name,
                source=has.source,
                lacks=lacks.name,
            )
        )
    if before.gpu_name and after.gpu_name and before.gpu_name != after.gpu_name:
        reasons.append(
            say("they ran on different GPUs: {before}, {after}", before=before.gpu_name, after=after.gpu_name)
        )
    if before.gpus and after.gpus and len(before.gpus) != len(after.gpus):
        reasons.append(say("they used {before} and {after}", before=_gpus(before), after=_gpus(after)))
    if before.ranks is not None and after.ranks is not None and before.ranks != after.ranks:
        reasons.append(
            say(
                "their jobs have {before} and {after} ranks",
                before=count_text(before.ranks),
                after=count_text(after.ranks),
            )
        )
    if _rewritten(pairs) and not _marked_alike(before, after):
        reasons.append(say("they have too few kernels in common: {partners}", partners=_partners(pairs)))
    return reasons


def remarks(before: RunSide, after: RunSide, pairs: Sequence[KernelPair]) -> list[str]:
    """What a reader of the comparison should know, in sentences."""
    said = list[str]()
    if _rewritten(pairs) and _marked_alike(before, after):
        said.append(say("Few kernels are the same, but the ranges are: {partners}.", partners=_partners(pairs)))
    if before.whole == STEP and after.whole == STEP and before.source != after.source:
        said.append(
            say(
                "Steps are {before} before and {after} after: are they the same? --step-range defines them.",
                before=before.source,
                after=after.source,
            )
        )
    if before.tool != after.tool:
        said.append(
            say(
                "Recorded with different profilers ({before}, {after}): each slows the host in its own way.",
                before=before.tool,
                after=after.tool,
            )
        )
    if before.clock_hz and after.clock_hz and before.clock_hz != after.clock_hz:
        said.append(
            say(
                "The GPUs' clocks differ: {before} and {after} MHz.",
                before=f"{before.clock_hz / 1e6:.0f}",
                after=f"{after.clock_hz / 1e6:.0f}",
            )
        )
    if KERNEL_TIME not in (before.whole, after.whole) and not (before.gpu_name and after.gpu_name):
        said.append(say("The GPU model was not recorded, so it cannot be compared."))
    if any(side.ranks is not None and side.ranks > 1 and len(side.run_steps) > 1 for side in (before, after)):
        said.append(say("Profiles of several ranks are pooled like runs; `gpuledger fleet` shows who waits for whom."))
    said += [say("Lost before: {loss}.", loss=loss) for loss in before.losses]
    said += [say("Lost after: {loss}.", loss=loss) for loss in after.losses]
    return said


def _rewritten(pairs: Sequence[KernelPair]) -> bool:
    shares = overlap(pairs)
    return min(shares.before_share, shares.after_share) < LEAST_OVERLAP


def _partners(pairs: Sequence[KernelPair]) -> str:
    shares = overlap(pairs)
    before, after = share_text(shares.before_share), share_text(shares.after_share)
    return say(
        "kernels with a partner hold {before} of the kernel time before and {after} after", before=before, after=after
    )


def _marked_alike(before: RunSide, after: RunSide) -> bool:
    """Whether the program's own ranges say that it is the same, although its kernels are others."""
    names = [
        {run_range.name for run_range in side.ranges or () if "::" not in run_range.name} for side in (before, after)
    ]
    both = len(names[0] & names[1])
    return both >= LEAST_RANGES and 2 * both >= min(map(len, names))


def _gpus(side: RunSide) -> str:
    return say("1 GPU") if len(side.gpus) == 1 else say("{count} GPUs", count=len(side.gpus))

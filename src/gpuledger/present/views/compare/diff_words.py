"""A comparison in words: the verdict, what each side is, what controls say, and changes with their units.

Before and after stand in one unit where one serves both (`17.8 -> 1.28 ms`).
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.gate import COUNT, TIME, GateOutcome
from gpuledger.analyse.diff.noise import FASTER, LEAST_SHARE, NO_CHANGE, Controls, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide
from gpuledger.messages import joined, say
from gpuledger.present.safe_text import cut_in_the_middle
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, share_text, signed_share, signed_time, three_figures, time_text
from gpuledger.verdicts import UNDECIDED

_LONGEST_NAME: Final = 48
_NAMED_CONTROLS: Final = 6
_ARROW: Final = "->"
_TIME_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))

HOST_ALONE: Final = say(
    "Careful: both sides run the same kernels equally often; only the host's speed differs. One "
    "run per side cannot tell a change in the program from a busier machine: give a folder of "
    "runs for each side."
)


def change_text(share: float | None) -> str:
    """A change as a share; what was not there before is 'new'."""
    return say("new") if share is None else signed_share(share)


def times(before_ns: float, after_ns: float) -> str:
    """'17.8 -> 1.28 ms' where one unit serves both, else each with its own; a side that there is none of is '-'."""
    unit = _time_unit(before_ns)
    if before_ns and after_ns and unit == _time_unit(after_ns):
        return f"{three_figures(before_ns / unit[0])} {_ARROW} {three_figures(after_ns / unit[0])} {unit[1]}"
    before, after = (time_text(round(ns)) if ns else "-" for ns in (before_ns, after_ns))
    return f"{before} {_ARROW} {after}"


def _time_unit(ns: float) -> tuple[int, str]:
    return next((unit for unit in _TIME_UNITS if abs(ns) >= unit[0]), _TIME_UNITS[-1])


def _count_text(count: float) -> str:
    """A count per step: whole where it nearly is, else to three figures."""
    nearest = round(count)
    return f"{nearest:,}" if abs(count - nearest) < 0.005 or abs(count) >= 1000 else three_figures(count)


def verdict_text(found: Diff) -> str:
    """One sentence."""
    before, after = found.before.median_ns, found.after.median_ns
    if found.verdict is None and not before and not after:
        return say("No kernels in these tables: calls and ranges are compared, without a verdict")
    change = change_text(found.share)
    if found.verdict is None:
        return say(
            "Kernel time {times} per run ({change}). Sums do not tell how long a step takes: no verdict",
            times=times(before, after),
            change=change,
        )
    both = f"{time_text(before)} -> {time_text(after)}"
    went = say("{times} per step", times=both) if found.before.whole == STEP else say("{times} in total", times=both)
    interval = found.interval
    sure: str
    if isinstance(interval, NotMeasured):
        sure = say("no interval: {reason}", reason=interval.reason)
    else:
        factor, unit = _time_unit(max(abs(interval.low_ns), abs(interval.high_ns)))
        low, high = (
            f"{'+' if end > 0 else ''}{three_figures(end / factor)}" for end in (interval.low_ns, interval.high_ns)
        )
        sure = say("95 % interval {interval}", interval=say("{low} to {high} {unit}", low=low, high=high, unit=unit))
    if found.verdict == NO_CHANGE:
        if isinstance(interval, Interval):
            sure = (
                say("{sure}, which includes 0", sure=sure)
                if interval.holds_zero
                else say("less than {share}, {sure}", share=share_text(LEAST_SHARE), sure=sure)
            )
        return say("No change: {went}, {change} ({why})", went=went, change=change, why=sure)
    less, more = sorted((before, after))
    much: str = share_text(abs(found.share or 0.0))
    if less and more >= 2 * less:
        much = say("{factor}x", factor=f"{more / less:.1f}")
    if found.verdict != FASTER:
        return say("{much} slower: {went} ({sure})", much=much, went=went, sure=sure)
    return say("{much} faster: {went} ({sure})", much=much, went=went, sure=sure)


def side_text(side: RunSide) -> str:
    """One side in a line."""
    name = cut_in_the_middle(side.name, _LONGEST_NAME)
    if side.whole == KERNEL_TIME:
        return say("{name}, `nsys stats` tables", name=name)
    facts: list[str] = [name]
    if len(side.gpus) > 1:
        facts.append(say("GPU {gpu} of {count}", gpu=side.gpu, count=len(side.gpus)))
    facts.append(side.gpu_name or say("unknown GPU"))
    if len(side.run_steps) > 1:
        facts.append(say("{count} runs", count=count_text(len(side.run_steps))))
    if side.whole == STEP:
        facts.append(say("{count} steps ({source})", count=count_text(side.steps), source=side.source))
    else:
        facts.append(say("the whole window: no steps were found"))
    return joined(say(", "), facts)


def gate_values(outcome: GateOutcome) -> str:
    """Before and after, in the gate's unit."""
    before, after = outcome.before, outcome.after
    if outcome.measures == TIME:
        return times(before, after)
    if outcome.measures == COUNT:
        return f"{_count_text(before)} {_ARROW} {_count_text(after)}"
    return f"{bytes_text(round(before))} {_ARROW} {bytes_text(round(after))}"


def gate_text(outcome: GateOutcome) -> str:
    """A gate with its figures and what became of it; where that is undecided, the interval and what would decide."""
    figures = say("{values}, {change}", values=gate_values(outcome), change=change_text(outcome.change_share))
    told = {"gate": outcome.gate, "figures": figures, "verdict": outcome.verdict}
    if outcome.verdict != UNDECIDED:
        return say("{gate}: {figures}: {verdict}", **told)
    if outcome.interval is None:
        return say("{gate}: {figures}: {verdict}: {why}", **told, why=outcome.no_interval)
    start, end = (
        signed_share(change / outcome.before) if outcome.before else f"{change:+.4g}" for change in outcome.interval
    )
    interval = say("{start} to {end}", start=start, end=end)
    if outcome.deciding_steps is None:
        return say("{gate}: {figures}: {verdict}: {interval}; record several runs", **told, interval=interval)
    steps = count_text(outcome.deciding_steps)
    return say(
        "{gate}: {figures}: {verdict}: {interval}; {steps} steps a side would decide",
        **told,
        interval=interval,
        steps=steps,
    )


def controls_text(controls: Controls, delta_ns: int) -> str:
    """What the controls say, in sentences."""
    listed = joined(say(", "), controls.names[:_NAMED_CONTROLS])
    more = len(controls.names) - _NAMED_CONTROLS
    went = say(
        "Controls: {ranges} {why}; their host time went {times} ({change})",
        ranges=say("{names} and {count} more", names=listed, count=more) if more > 0 else listed,
        why=say("did not change")
        if controls.known
        else say("have the same name and number on both sides, and are taken to be unchanged"),
        times=times(controls.before_ns, controls.after_ns),
        change=signed_share(controls.ratio - 1),
    )
    if controls.is_noise:
        return say("{controls}, which may be noise: no correction.", controls=went)
    pace = (
        say("{controls}, so the host itself was slower.", controls=went)
        if controls.ratio > 1
        else say("{controls}, so the host itself was faster.", controls=went)
    )
    if controls.corrected_delta_ns is None:
        return say("{controls} Corrected changes of ranges are shown next to the raw ones.", controls=pace)
    return say(
        "{controls} With host-caused idle time scaled to the speed before, {raw} becomes {corrected}.",
        controls=pace,
        raw=signed_time(delta_ns),
        corrected=signed_time(controls.corrected_delta_ns),
    )

"""Two sides compared: the verdict, how sure it is, the parts of the difference, and what changed.

before, after = side_of(...), side_of(...)
found = compare(before, after)
assert sum(part.ns for part in found.parts) == found.delta_ns
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.diff.comparable import Overlap, check_kinds, overlap, remarks, unlike
from gpuledger.analyse.diff.control_ranges import Controls, controls, host_idle_ns
from gpuledger.analyse.diff.difference_parts import UNLIKE, DiffPart, TimeChange, changes, parts
from gpuledger.analyse.diff.kernel_pairs import paired
from gpuledger.analyse.diff.noise import FEWEST_STEPS, NO_CHANGE, Interval, median_interval, verdict
from gpuledger.analyse.diff.range_pairs import RENAMED, RangePair, paired_ranges
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide
from gpuledger.analyse.diff.use_changes import UseChange, clocks_differ, use_changes
from gpuledger.errors import GpuledgerError
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured
from gpuledger.units import count_text, time_text

ALIKE: Final = 0.01
"""Numbers of calls that differ by less than this share are the same."""

HOST_ALONE: Final = 0.1
"""If all but this share of a change is idle time that the host causes, only the host changed."""


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed from one side to the other."""

    before: RunSide
    after: RunSide
    delta_ns: int
    """After less before: of the usual step, of the window, or of the kernels' time (see `RunSide.whole`)."""
    interval: Interval | NotMeasured
    verdict: str | None
    """One of `noise.VERDICTS`; None where how long a step takes is not known."""
    changes: tuple[TimeChange, ...]
    """Of compute kernels; the parts are made of these."""
    comm: tuple[TimeChange, ...]
    parts: tuple[DiffPart, ...]
    ranges: tuple[RangePair, ...]
    controls: Controls | NotMeasured
    overlap: Overlap
    notes: tuple[str, ...]
    use: tuple[UseChange, ...] | None
    """What the same kernels use of the GPU, where that surely changed; None where a side was not sampled."""

    @property
    def is_host_alone(self) -> bool:
        """Whether the GPU does the same on both sides and only the pace of the host differs, by one run of each.

        It may be the program's; it may as well be a machine that was busier: eager decode on one host took 5 to 9 ms
        a step from run to run, while the same steps as CUDA graphs stayed within 0.4 %.
        """
        if self.verdict in (None, NO_CHANGE) or len(self.before.run_steps) > 1 or len(self.after.run_steps) > 1:
            return False
        calls = [change.calls for change in self.changes]
        launches = self.before.launches, self.after.launches
        if launches[0] is not None and launches[1] is not None:
            calls.append((launches[0].calls / self.before.steps, launches[1].calls / self.after.steps))
        same_work = all(abs(old - new) <= ALIKE * old for old, new in calls)
        of_host = host_idle_ns(self.after) - host_idle_ns(self.before)
        means = sum(part.ns for part in self.parts if part.name != UNLIKE)
        return same_work and abs(of_host - means) <= HOST_ALONE * abs(of_host)

    @property
    def share(self) -> float:
        """The change as a share of before; infinite where there was nothing before."""
        if not self.before.median_ns:
            return 0.0 if not self.delta_ns else float("inf")
        return self.delta_ns / self.before.median_ns


def compare(before: RunSide, after: RunSide, *, anyway: bool = False, control: str | None = None) -> Diff:
    """The difference; refuses sides that are unlike, unless they are to be compared anyway."""
    check_kinds(before, after)
    pairs = paired(before.kernels, after.kernels, before.steps, after.steps)
    reasons = unlike(before, after, pairs)
    if reasons and not anyway:
        raise GpuledgerError(
            f"{before.name} and {after.name} cannot be compared: {reasons[0]}",
            found="\n".join(reasons[1:]),
            hint="--anyway compares them all the same",
        )
    said: list[str] = [say("Compared anyway, though {reason}.", reason=reason) for reason in reasons]
    said += remarks(before, after, pairs)
    changed = changes(pairs, before.steps, after.steps)
    delta = after.median_ns - before.median_ns
    interval = _interval(before, after)
    ranges = paired_ranges(before.ranges or (), after.ranges or (), before.steps, after.steps)
    guards = controls(before, after, ranges, delta, control)
    if control is not None and isinstance(guards, NotMeasured):
        names = ", ".join(pair.name for pair in ranges[:8]) or "there are no ranges"
        raise GpuledgerError(f"--control: {guards.reason}", found=f"ranges: {names}")
    comm = changes(paired(before.comm, after.comm, before.steps, after.steps), before.steps, after.steps)
    return Diff(
        before,
        after,
        delta,
        interval,
        None if before.whole == KERNEL_TIME else verdict(before.median_ns, delta, interval),
        changed,
        comm,
        parts(before, after, changed),
        ranges,
        guards,
        overlap(pairs),
        tuple(said + _notes(before, after, interval, ranges, guards)),
        use_changes(before, after),
    )


def _interval(before: RunSide, after: RunSide) -> Interval | NotMeasured:
    if KERNEL_TIME in (before.whole, after.whole):
        return NotMeasured(say("`nsys stats` tables hold sums, which say nothing about noise"))
    interval = median_interval(before.runs, after.runs)
    if isinstance(interval, NotMeasured) and before.whole != STEP:
        return NotMeasured(
            say("no steps were found; {count} or more runs per side would show the noise", count=FEWEST_STEPS)
        )
    return interval


def _notes(
    before: RunSide,
    after: RunSide,
    interval: Interval | NotMeasured,
    ranges: tuple[RangePair, ...],
    guards: Controls | NotMeasured,
) -> list[str]:
    said = list[str]()
    if isinstance(interval, Interval) and interval.follows:
        said.append(
            say(
                "Step times are autocorrelated ({follows}: drift or throttling), so they carry less "
                "information than independent ones; the interval is wider for it.",
                follows=f"{interval.follows:.2f}",
            )
        )
    if isinstance(interval, Interval) and interval.runs_ns:
        said.append(
            say(
                "Runs on one side differ by {time} (standard deviation) beyond what their steps explain; the "
                "interval is wider for it.",
                time=time_text(interval.runs_ns),
            )
        )
    if isinstance(interval, Interval) and len(before.run_steps) == len(after.run_steps) == 1:
        said.append(say("One run per side: the interval leaves out run-to-run variation; give a folder of runs."))
    said += [
        say("Ranges matched because they were the only ones left: {ranges}.", ranges=pair.name)
        for pair in ranges
        if pair.level == RENAMED
    ]
    if isinstance(guards, NotMeasured) and ranges:
        said.append(say("No controls: {reason}.", reason=guards.reason))
    if before.whole == KERNEL_TIME:
        said.append(say("`nsys stats` tables have no steps, idle time, intervals or kernels by range."))
        if ranges:
            said.append(
                say(
                    "Shares of ranges are of the time in the program's own ranges; those of libraries and setup "
                    "are left out."
                )
            )
    if (clocks := clocks_differ(before, after)) is not None:
        one, other = (count_text(round(clock / 1e6)) for clock in clocks)
        said.append(
            say(
                "The SM clock while kernels ran differs: {before} MHz before, {after} MHz after (from samples).",
                before=one,
                after=other,
            )
        )
    return said + _other_gpus(before, after)


def _other_gpus(before: RunSide, after: RunSide) -> list[str]:
    said = list[str]()
    if before.gpu != after.gpu:
        said.append(say("GPU {before} before is compared with GPU {after} after.", before=before.gpu, after=after.gpu))
    for gpu in sorted(before.gpus.keys() & after.gpus.keys() - {before.gpu}):
        old, new = before.gpus[gpu], after.gpus[gpu]
        said.append(
            say(
                "GPU {gpu}, not shown: {before} -> {after} per step; --device={gpu} shows it.",
                gpu=gpu,
                before=time_text(old),
                after=time_text(new),
            )
        )
    return said

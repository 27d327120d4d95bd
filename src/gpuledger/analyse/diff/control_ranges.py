"""How fast the machine itself was: ranges whose code did not change, and what they say of the difference.

A range that makes the same calls and launches the same work on both sides is a control: if it took longer or less on
the host, the machine was slower or faster. The correction scales what the host's speed decides, which is idle time
that the host caused, and is shown beside the difference, never in its place. Ranges are no controls where the host
mostly waits in them for the device, or where no range changed: then there is nothing to control. Tables of `nsys stats`
do not say what a range holds: there, ranges of the same name and number are controls if they agree with one another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.analyse.diff.noise import Interval, mean_interval
from gpuledger.analyse.diff.range_pairs import RangePair
from gpuledger.analyse.diff.run_side import KERNEL_TIME, RunRange, RunSide
from gpuledger.ledger.causes import HOST_PACED
from gpuledger.ledger.lines import Line
from gpuledger.messages import say
from gpuledger.trace.health import NotMeasured

MOST_WAITING: Final = 0.5
"""A range in which the host waits for more than this share of the time says little about the host."""

MOST_APART: Final = 0.05
"""Ranges of tables are controls if their changes are no further apart than this share."""


@dataclass(frozen=True, slots=True)
class Controls:
    """What ran the same code, and how long it took."""

    names: tuple[str, ...]
    before_ns: int
    """Host time per step."""
    after_ns: int
    """The same, as often as before."""
    interval: Interval | NotMeasured
    corrected_delta_ns: int | None
    """The difference if the host had been as fast as before; None where the step is not known."""
    known: bool
    """Whether the calls inside were seen to be the same, rather than the names alone, or the user said so."""

    @property
    def ratio(self) -> float:
        """Above 1: the machine was slower."""
        return self.after_ns / self.before_ns

    def corrects(self, pair: RangePair) -> bool:
        """Whether a range's host time can be corrected: the controls are no noise, and it does not mostly wait."""
        return not (self.is_noise or pair.before is None or pair.after is None or _mostly_waits(pair))

    @property
    def is_noise(self) -> bool:
        """Whether the change of the controls may be chance."""
        return isinstance(self.interval, Interval) and self.interval.holds_zero


def controls(
    before: RunSide, after: RunSide, pairs: Sequence[RangePair], delta_ns: int, wanted: str | None = None
) -> Controls | NotMeasured:
    """The controls among these ranges: those whose name matches `wanted`, or those that did not change."""
    both = [pair for pair in pairs if pair.before is not None and pair.after is not None]
    if wanted is not None:
        chosen = [pair for pair in both if re.search(wanted, pair.name)]
        if not chosen:
            return NotMeasured(say("no range on both sides matches '{pattern}'", pattern=wanted))
    else:
        unchanged = _unchanged(pairs, both)
        if isinstance(unchanged, NotMeasured):
            return unchanged
        chosen = unchanged
    chosen = _outermost(chosen)
    old_ns, new_ns = 0, 0.0
    for pair in chosen:
        old, new = _both(pair)
        old_ns += old.host_ns
        new_ns += new.host_ns / new.instances * old.instances if new.instances else 0.0
    if not old_ns or not new_ns:
        return NotMeasured(say("the ranges that did not change took no time"))
    ratio = new_ns / old_ns
    known = all(pair.before is not None and pair.before.calls is not None for pair in chosen)
    return Controls(
        tuple(pair.name for pair in chosen),
        round(old_ns / before.steps),
        round(new_ns / before.steps),
        _interval(before, after, chosen),
        None if before.whole == KERNEL_TIME else round(delta_ns - host_idle_ns(after) * (1 - 1 / ratio)),
        known or wanted is not None,
    )


def _unchanged(pairs: Sequence[RangePair], both: Sequence[RangePair]) -> list[RangePair] | NotMeasured:
    if not both:
        return NotMeasured(say("no range is on both sides"))
    if all(pair.unchanged for pair in pairs):
        return NotMeasured(say("every range does the same on both sides, so none can serve as a control for another"))
    unchanged = [pair for pair in both if pair.unchanged and not _mostly_waits(pair)]
    if not unchanged:
        return NotMeasured(say("no range does the same on both sides without waiting for the GPU"))
    if all(_both(pair)[0].calls is None for pair in unchanged):
        return _agreeing(unchanged)
    return unchanged


def _agreeing(unchanged: list[RangePair]) -> list[RangePair] | NotMeasured:
    """The same, if they all changed alike: one that holds a range that did change would not."""
    shares = sorted(
        new.host_ns / new.instances / old.host_ns * old.instances - 1
        for old, new in map(_both, unchanged)
        if old.host_ns
    )
    if len(shares) < 2:
        return NotMeasured(say("tables do not show what runs in a range; --control names those that did not change"))
    if shares[-1] - shares[0] > MOST_APART:
        return NotMeasured(
            say(
                "ranges of the same name changed by {least} to {most} %, so not all of them can be "
                "unchanged; --control names those that are",
                least=f"{100 * shares[0]:+.1f}",
                most=f"{100 * shares[-1]:+.1f}",
            )
        )
    return unchanged


def _outermost(chosen: Sequence[RangePair]) -> list[RangePair]:
    """Those that are not inside one another, so that no time counts twice."""
    names = {_both(pair)[0].name for pair in chosen}
    return [pair for pair in chosen if names.isdisjoint(_both(pair)[0].inside)] or list(chosen[:1])


def _both(pair: RangePair) -> tuple[RunRange, RunRange]:
    if pair.before is None or pair.after is None:
        raise ValueError(f"{pair.name} is on one side alone")
    return pair.before, pair.after


def _mostly_waits(pair: RangePair) -> bool:
    return any(
        run_range.wait_ns is not None and run_range.wait_ns > MOST_WAITING * run_range.host_ns
        for run_range in _both(pair)
    )


def host_idle_ns(side: RunSide) -> float:
    """Idle time per step that the host caused."""
    return math.fsum(side.line_mean_ns(Line.of_cause(cause)) for cause in HOST_PACED)


def _interval(before: RunSide, after: RunSide, chosen: Sequence[RangePair]) -> Interval | NotMeasured:
    """Of the controls' time per step, where it is known step by step."""
    sides: list[list[int]] = []
    for side, index in ((before, 0), (after, 1)):
        held = [side.range_steps.get(_both(pair)[index].name) for pair in chosen]
        known = [by_step for by_step in held if by_step is not None]
        if len(known) < len(held) or side.steps < 2:
            return NotMeasured(say("their times per step are unknown"))
        sides.append([sum(step) for step in zip(*known, strict=True)])
    return mean_interval(*sides)

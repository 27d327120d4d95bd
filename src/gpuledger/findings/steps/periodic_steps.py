"""Steps that can be compared, and those of them of which every so many do more, with what they do more of."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.findings.finding import is_significant
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import TRIGGERS, Trigger, idle_label
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import MOST_OF_PERIOD, Periodic, Variation, variation
from gpuledger.trace import sweep
from gpuledger.trace.spans import Ints, Span
from gpuledger.trace.statistics import median


def comparable_steps(device: Device) -> Variation | None:
    """How steps vary; None where work is missing: a step that lost its marker, or half of its work, looks unusual."""
    return None if device.lost.is_notable else variation(device)


def step_span(device: Device, number: int) -> Span | None:
    """The stretch of one step."""
    if device.steps is None:
        return None
    return Span(int(device.steps.edges_ns[number]), int(device.steps.edges_ns[number + 1]))


class StepAmounts(Struct, frozen=True):
    """Time that each step has of something, and which of the steps do more every so many."""

    label: str
    of_step_ns: Ints
    is_slow: NDArray[np.bool_]
    is_usual: NDArray[np.bool_]  # the steady ones of the others

    @property
    def usual_ns(self) -> int:
        return int(median(self.of_step_ns[self.is_usual])) if self.is_usual.any() else 0

    @property
    def more_ns(self) -> int:
        return max(int((self.of_step_ns[self.is_slow] - self.usual_ns).sum()), 0)


class PeriodicSteps:
    """The steps of one GPU of which every so many do more; lines of busy time and triggers of idle time by step."""

    def __init__(self, device: Device, varies: Variation, periodic: Periodic) -> None:
        self.device, self.steps, self.periodic = device, varies.steps, periodic
        self._edges_ns = varies.steps.edges_ns
        self._is_usual = ~periodic.is_slow
        self._is_usual[: varies.steps.warm_up] = False

    def _amounts(self, label: str, of_step_ns: Ints) -> StepAmounts:
        return StepAmounts(label, of_step_ns, self.periodic.is_slow, self._is_usual)

    def of_lines(self, *kinds: LineKind) -> list[StepAmounts]:
        books = self.device.ledger
        rows = books.books[np.searchsorted(books.tiles_ns, self._edges_ns[:-1])]
        return [self._amounts(line.label, rows[:, at]) for at, line in enumerate(books.lines) if line.kind in kinds]

    def of_trigger(self, trigger: Trigger) -> StepAmounts:
        """Gaps that this sets off."""
        gaps, count = self.device.ledger.gaps, len(self.periodic.is_slow)
        step = np.searchsorted(self._edges_ns, gaps.start_ns, side="right") - 1
        mine = (gaps.trigger == TRIGGERS.index(trigger)) & (step >= 0) & (step < count)
        return self._amounts(idle_label(trigger), sweep.sums(step[mine], gaps.length_ns[mine], count))

    @property
    def captures_graphs(self) -> bool:
        """Whether graphs are captured in these steps, and hardly in others: what is launched then is not the same."""
        begun = [spans.start_ns for spans in self.device.host.captures.values()]
        step = np.searchsorted(self._edges_ns, np.concatenate(begun), side="right") - 1 if begun else np.empty(0, int)
        step = step[(step >= 0) & (step < len(self.periodic.is_slow))]
        slow = self.periodic.is_slow[step]
        often = len(np.unique(step[slow])) >= MOST_OF_PERIOD * len(self.periodic.steps)
        return often and bool(slow.mean() >= MOST_OF_PERIOD)

    def usual_ns(self, rule: Rule[OneGpu]) -> int | None:
        """What all steps would lose to a rule's subject if they were usual; None where that is no idle time."""
        amounts = [self.of_trigger(trigger) for trigger in rule.triggers]
        if rule.exposed is not None or rule.code == "COPY-PAGEABLE":
            amounts += self.of_lines(rule.exposed or LineKind.COPY)
        return sum(amount.usual_ns for amount in amounts) * self.device.step_count if amounts else None


def periodic_steps(device: Device) -> PeriodicSteps | None:
    """None where no steps do more at equal distances, or not enough to be told."""
    varies = comparable_steps(device)
    if varies is None or varies.periodic is None or not is_significant(device, varies.periodic.more_ns):
        return None
    return PeriodicSteps(device, varies, varies.periodic)

"""Which stretches of a run a timeline shows: a GPU and places to look at in, stretches with their events out.

The median step comes first, then the worst, then the steps that the places lie in, then as many others as there is room
for. A run without steps is shown as a whole, and the places by themselves. A step is shown from its first launch call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.timeline.events import EventFinder, Events, lead_ns
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.trace.spans import Span

MOST_EVENTS: Final = 50_000
"""Of all stretches together."""

MOST_STRETCHES: Final = 48

_FIRST_SHARE: Final = 0.6
_NEXT_SHARE: Final = 0.5
"""Of what room is left, the first stretch may take one share, each after it the other."""

_FEWEST: Final = 400
"""With less room than this nothing more is shown."""

_MANY: Final = 8_000
"""Of a step with more events, only what is around a place is shown."""

_AROUND: Final = 4
"""A place by itself is shown with so many times its length before and after it."""

_LEAST_AROUND_NS: Final = 500_000


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """One stretch of the run."""

    core: Span
    """The step itself, or the place; the events begin with its first launch."""
    step: int | None
    """Its number; None: it is no step."""
    events: Events
    is_median: bool = False
    is_worst: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return not self.events.left_out


def shown_stretches(
    finder: EventFinder, device: Device, places: Sequence[Span], room: int = MOST_EVENTS
) -> tuple[Stretch, ...]:
    """The first is the one to begin with."""
    shown: list[Stretch] = []
    for wanted in _wanted(finder, device, places, shown):
        left = room - sum(len(stretch.events) for stretch in shown)
        share = _NEXT_SHARE if shown else _FIRST_SHARE
        if left < min(_FEWEST, room) or len(shown) >= MOST_STRETCHES:
            break
        made = wanted.stretch(finder, device, left if wanted.is_extra else max(int(share * left), 1))
        if wanted.is_extra and not made.is_whole:
            break
        shown.append(made)
    first, others = shown[:2], shown[2:]
    return (*first, *sorted(others, key=lambda stretch: stretch.core))


@dataclass(frozen=True, slots=True)
class _WantedStretch:
    """A stretch that is to be shown, if there is room."""

    core: Span
    step: int | None
    is_median: bool = False
    is_worst: bool = False
    is_extra: bool = False
    """Whether it is there for its own sake, and not worth showing in part."""

    def stretch(self, finder: EventFinder, device: Device, room: int) -> Stretch:
        start_ns = self.core.start_ns
        if self.step is not None:
            start_ns -= lead_ns(device.work, device.host, self.core)
        events = finder.events(Span(start_ns, self.core.end_ns), room)
        return Stretch(self.core, self.step, events, self.is_median, self.is_worst)


def _wanted(
    finder: EventFinder, device: Device, places: Sequence[Span], shown: Sequence[Stretch]
) -> Iterator[_WantedStretch]:
    """In the order of their worth; `shown` holds what was made of those before."""
    varied = variation(device)
    if varied is None:
        yield _WantedStretch(device.ledger.window, None)
        yield from _places(finder, device, places, shown)
        return
    steps = varied.steps
    starts, ends = steps.start_ns.tolist(), steps.end_ns.tolist()
    median = steps.warm_up + int(np.flatnonzero(steps.steady_ns == varied.median_ns)[0])
    worst = steps.warm_up + int(steps.steady_ns.argmax())

    def step(number: int, *, is_extra: bool) -> _WantedStretch:
        core = Span(starts[number], ends[number])
        return _WantedStretch(core, number, is_median=number == median, is_worst=number == worst, is_extra=is_extra)

    yield step(median, is_extra=False)
    if worst != median:
        yield step(worst, is_extra=False)
    for wanted in _places(finder, device, places, shown):
        yield wanted if wanted.step is None else step(wanted.step, is_extra=False)
    for number in dict.fromkeys((*(outlier.step for outlier in varied.outliers), *range(len(steps)))):
        if all(stretch.step != number for stretch in shown):
            yield step(number, is_extra=True)


def _places(
    finder: EventFinder, device: Device, places: Sequence[Span], shown: Sequence[Stretch]
) -> Iterator[_WantedStretch]:
    """The steps that places lie in; of places in no step, or in one with too much in it, what is around them."""
    for place in places:
        if stretch_of(place, [stretch for stretch in shown if stretch.is_whole]) is not None:
            continue
        number = _step_of(device, place)
        if number is not None and device.steps is not None:
            core = Span(int(device.steps.start_ns[number]), int(device.steps.end_ns[number]))
            if finder.count(core) <= _MANY:
                yield _WantedStretch(core, number)
                continue
        around = max(_AROUND * (place.end_ns - place.start_ns), _LEAST_AROUND_NS)
        yield _WantedStretch(Span(place.start_ns - around, place.end_ns + around), None)


def _step_of(device: Device, place: Span) -> int | None:
    if device.steps is None:
        return None
    number = int(np.searchsorted(device.steps.edges_ns, place.start_ns, side="right")) - 1
    return number if 0 <= number < len(device.steps) else None


def stretch_of(place: Span, shown: Sequence[Stretch]) -> int | None:
    """Which of the stretches shows a place best: the first that is whole and holds its start, else the first that does.

    None where none holds it.
    """
    holding = [
        position
        for position, stretch in enumerate(shown)
        if stretch.core.start_ns <= place.start_ns < stretch.core.end_ns
    ]
    return next((position for position in holding if shown[position].is_whole), holding[0] if holding else None)

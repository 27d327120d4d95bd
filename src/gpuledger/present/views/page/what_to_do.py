"""What to do: each finding as a card with its saving, evidence, next command, and our page about it folded away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpuledger.findings.advice import first_fix
from gpuledger.findings.finding import Finding, PlainSaving
from gpuledger.messages import Message, capitalised, say
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.timeline import ShownTimeline
from gpuledger.present.views.report import saving_words, then_words
from gpuledger.present.writers.html.explained import explained
from gpuledger.present.writers.html.parts import (
    Card,
    Cards,
    Part,
    Reader,
    Section,
    Tell,
    Text,
    TimelinePlace,
    TopFinding,
    TopFindings,
)
from gpuledger.present.writers.html.tables import cut
from gpuledger.units import instant_text, share_text, time_text

Share = Callable[[Finding], float | None]
"""What a finding would save, as a share of the time; None where that is not known."""


TOP: Final = 3
"""So many findings stand on the first screen."""


def top_findings(scene: Scene, timeline: ShownTimeline) -> tuple[TopFindings, ...]:
    """The first findings in short, each with a link to where it happens; none where there is nothing to do."""
    shown = tuple(_top(scene, found, timeline.place_of(found)) for found in scene.report.findings[:TOP])
    return (TopFindings(scene.tell(say("What to do")), shown),) if shown else ()


def _top(scene: Scene, found: Finding, place: TimelinePlace) -> TopFinding:
    tell, interval = scene.tell, ""
    if found.saving_ns and found.plain is not None and found.saving_ns_per_step is not None:
        low, high = (time_text(bound // found.steps) for bound in (found.plain.low_ns, found.plain.high_ns))
        interval = tell(say("without the profiler {low} to {high}", low=low, high=high))
    share = _share(found, {device.gpu: device.steady_ns for device in scene.report.devices})
    saving = tell(capitalised(saving_words(found))) if found.saving_ns else ""
    return TopFinding(
        code=found.code,
        claim=cut(capitalised(tell(found.claim)), scene.room.letters, tell),
        saving=saving if share is None else f"{saving} ({share_text(share)})",
        interval=interval,
        place=place,
    )


def findings_section(scene: Scene, timeline: ShownTimeline) -> Section:
    """The findings of a report, the most to gain first."""
    steady = {device.gpu: device.steady_ns for device in scene.report.devices}
    made = cards(
        scene.report.findings,
        scene.reader,
        lambda found: _share(found, steady),
        several=len(steady) > 1,
        zero_ns=scene.report.zero_ns,
    )
    places = [timeline.place_of(found) for found in scene.report.findings]
    placed = tuple(replace(card, place=place) for card, place in zip(made.cards, places, strict=True))
    return section(Cards(placed), scene.tell)


def section(made: Cards, tell: Tell) -> Section:
    """Cards under their title; a sentence where there are none."""
    nothing = say("No fix stands out; look at the kernels themselves.")
    parts: tuple[Part, ...] = (made,) if made.cards else (Text(tell(nothing)),)
    return Section("findings", tell(say("What to do")), parts)


def _share(found: Finding, steady_ns: Mapping[int, int]) -> float | None:
    whole = steady_ns.get(found.gpu)
    return found.saving_ns / whole if whole and found.saving_ns else None


def cards(
    findings: Sequence[Finding], reader: Reader, share: Share, *, several: bool, zero_ns: int | None = None
) -> Cards:
    """Every finding; the page about a code comes with the first one that has it.

    Instants are told from `zero_ns`; without one, as ranks have many clocks, there are none.
    """
    seen: set[str] = set()
    made = []
    for found in findings:
        told = "" if found.code in seen else explained(found.code, reader.language)
        made.append(_card(found, reader, share(found), told, several=several, zero_ns=zero_ns))
        seen.add(found.code)
    return Cards(tuple(made))


def _plain(saving: PlainSaving, steps: int) -> Message:
    """What would be saved without the profiler, in words."""
    low, high = (time_text(bound // steps) for bound in (saving.low_ns, saving.high_ns))
    if saving.ns is None:
        return say("{low} to {high} per step (no unprofiled run to compare with)", low=low, high=high)
    time = time_text(saving.ns // steps)
    return say("{time} per step ({low} to {high})", time=time, low=low, high=high)


def _card(
    found: Finding, reader: Reader, share: float | None, told: str, *, several: bool, zero_ns: int | None
) -> Card:
    tell, letters = reader.tell, reader.room.letters
    facts: list[tuple[str, str]] = []
    if (fix := first_fix(found)) is not None:
        facts.append((tell(say("fix")), tell(fix)))
    if then := then_words(found):
        facts.append((tell(say("in order")), tell(then)))
    if found.saving_ns and found.plain is not None and found.saving_ns_per_step is not None:
        facts.append((tell(say("without the profiler")), tell(_plain(found.plain, found.steps))))
    facts.append((tell(say("confidence")), tell(found.confidence)))
    if several and found.gpu >= 0:
        facts.append((tell(say("on")), tell(say("GPU {gpu}", gpu=found.gpu))))
    if found.assumption:
        facts.append((tell(say("if")), tell(found.assumption)))
    if found.example is not None and zero_ns is not None:
        start, end = (instant_text(instant - zero_ns) for instant in found.example)
        facts.append((tell(say("for example")), tell(say("{start} to {end}", start=start, end=end))))
    return Card(
        code=found.code,
        claim=cut(capitalised(tell(found.claim)), letters, tell),
        saving=tell(capitalised(saving_words(found))) if found.saving_ns else "",
        share="" if share is None else share_text(share),
        facts=tuple(facts),
        evidence=tuple(cut(tell(each), letters, tell) for each in found.sentences),
        command=found.next,
        saving_ns=found.saving_ns,
        saving_ns_per_step=found.saving_ns_per_step,
        explained=told,
        elsewhere=f"explain-{found.code}" if not told and explained(found.code, reader.language) else "",
    )

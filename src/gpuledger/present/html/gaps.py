"""Why the GPU was idle: gaps by length as columns, by cause and trigger, and the longest ones."""

from __future__ import annotations

from gpuledger.ledger.gaps import CAUSES, histogram
from gpuledger.messages import say
from gpuledger.present.charts.amounts import Column, columns
from gpuledger.present.charts.svg import Picture
from gpuledger.present.html.parts import Chart, Part, Section, Text
from gpuledger.present.html.scene import Scene
from gpuledger.present.html.tables import table
from gpuledger.present.views.gaps import LONGEST, gap_sheets
from gpuledger.units import count_text, share_text, time_text

_SERIES = ("compute-elementwise", "idle-host_code")
"""The number of gaps, and their time."""

_LEFT_OUT = ("cause_ns", "tid")
"""Columns of the longest gaps that `gpuledger gaps` has."""

_LENGTHS = {"under 1 us": say("under 1 us"), "over 1 ms": say("over 1 ms")}
"""Buckets that are named with words; the others are numbers."""


def gaps_picture(scene: Scene) -> Picture | None:
    """Gaps by length, shortest first: their share of all gaps, and of all idle time. None where there are none."""
    buckets = histogram(scene.device.ledger.gaps)
    count, time = sum(each[1] for each in buckets), sum(each[2] for each in buckets)
    if not count or not time:
        return None
    given = [
        Column(
            scene.tell(_LENGTHS.get(name, name)),
            (number / count, amount / time),
            (share_text(number / count), share_text(amount / time)),
        )
        for name, number, amount in buckets
    ]
    said = "; ".join(f"{column.name}: {column.texts[0]} / {column.texts[1]}" for column in given)
    words = (scene.tell(say("share of the gaps")), scene.tell(say("share of the idle time")))
    title = scene.tell(say("Gaps by length: share of their number and of their time"))
    return columns(title, said, tuple(zip(_SERIES, words, strict=True)), given)


def gaps_section(scene: Scene) -> Section:
    """The tables of `gpuledger gaps`, and the histogram."""
    tell, device = scene.tell, scene.device
    picture = gaps_picture(scene)
    title = tell(say("Why the GPU was idle"))
    if picture is None:
        return Section("gaps", title, (Text(tell(say("The GPU was never idle in this window."))),))
    found = device.ledger.gaps
    said = say(
        "{count} gaps, {time} in all, {share} of the window. Causes say where the host was; the trigger says what to "
        "fix.",
        count=count_text(len(found)),
        time=time_text(int(found.length_ns.sum())),
        share=share_text(int(found.length_ns.sum()) / device.ledger.window_ns),
    )
    by_cause, by_trigger, by_length, longest = gap_sheets(scene.report.trace, device)
    tones = {"cause": lambda cause: f"idle-{cause}" if cause in CAUSES else ""}
    most = say("The {count} longest gaps", count=min(LONGEST, len(found)))
    parts: list[Part] = [
        Text(tell(said), "lead"),
        Chart(picture, name="gap-chart"),
        table(by_length, tell, scene.room, caption=tell(say("Gaps by length"))),
        table(by_cause, tell, scene.room, caption=tell(say("Idle time by cause")), tones=tones, name="causes"),
        table(by_trigger, tell, scene.room, caption=tell(say("Idle time by trigger, steady steps")), name="triggers"),
        table(
            longest,
            tell,
            scene.room,
            caption=tell(most),
            tones=tones,
            name="longest-gaps",
            without=_LEFT_OUT,
            letters=24,
        ),
    ]
    return Section("gaps", title, tuple(parts), tell(say("Idle time")))

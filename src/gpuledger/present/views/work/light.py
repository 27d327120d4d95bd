"""What compute time was good for: light, lost, avoidable and unknown time, as sentences and tables."""

from __future__ import annotations

from functools import partial
from typing import Final

from gpuledger.analyse.light.books import PARTS, SOURCES, BusyTime, LightBooks, LightRow
from gpuledger.analyse.light.kernel_light import LightSource
from gpuledger.analyse.light.reachable import LightRoof
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.charts.amounts import Bar, Part, stacked_bars
from gpuledger.present.document import Chart
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Column, Sheet, Unit, share_column
from gpuledger.present.terms import TOTAL
from gpuledger.units import count_text, share_text, time_text

ROOFS: Final = {LightRoof.COMPUTE: say("arithmetic"), LightRoof.MEMORY: say("memory"), LightRoof.UNKNOWN: "-"}


GPU_BOUND: Final = 0.8
"""From this share of the time in compute on, what would help is faster kernels."""


MOSTLY_SKINNY: Final = 0.5


def light_sentence(device: Device, books: LightBooks) -> Message | None:
    """How near a GPU that is nearly always busy is to its roofs, and where the most is lost; None for another."""
    whole, steady_ns = books.whole, max(device.steady_ns, 1)
    if not books.is_telling or whole.whole_ns < GPU_BOUND * steady_ns:
        return None
    if books.skinny_ns > MOSTLY_SKINNY * whole.whole_ns:
        return say(
            "GPU-bound at {share} of light; {skinny} of the time, matrix products of few rows read their weights as "
            "fast as memory gives them: only a larger batch or quantized weights help.",
            share=share_text(whole.light_ns / max(whole.whole_ns, 1)),
            skinny=share_text(books.skinny_ns / steady_ns),
        )
    largest = max(books.families, key=lambda part: part.lost_ns + part.avoidable_ns)
    return say(
        "GPU-bound at {share} of light; the largest loss is in {family}, {lost}.",
        share=share_text(whole.light_ns / max(whole.whole_ns, 1)),
        family=largest.family,
        lost=share_text((largest.lost_ns + largest.avoidable_ns) / steady_ns),
    )


def parts_sentence(books: LightBooks) -> Message:
    """How much of compute is light, lost, avoidable and unknown."""
    whole = books.whole
    light, lost, avoidable, unknown = (share_text(getattr(whole, part) / whole.whole_ns) for part in PARTS)
    return say(
        "Of compute, {light} is light (what the GPU's roofs allow), {lost} lost, {avoidable} avoidable and {unknown} "
        "unknown, by {source}.",
        light=light,
        lost=lost,
        avoidable=avoidable,
        unknown=unknown,
        source=SOURCES[books.source],
    )


def step_sentence(device: Device, books: LightBooks) -> Message:
    """What a step could take on this GPU, and how much of it now is arithmetic and memory at their peaks."""
    then = books.at_light(device)
    if then is None:
        unknown = share_text(books.whole.unknown_ns / max(books.whole.whole_ns, 1))
        return say("What a step could take at light is not known: {unknown} of compute is unknown.", unknown=unknown)
    told = say(
        "At light and never idle {what} could take {then} on this GPU, not {now}. Of {now}, {mfu} is arithmetic at its "
        "peak (MFU) and {bandwidth} memory at its bandwidth, each of the kernels that it limits; avoidable and unknown "
        "work is in neither.",
        what=say("this window") if device.steps is None else say("this step"),
        then=time_text(then.step_ns),
        now=time_text(then.now_ns),
        mfu=share_text(then.mfu_share),
        bandwidth=share_text(then.bandwidth_share),
    )
    if then.tokens is None:
        return told
    return say(
        "{told} Its {tokens} tokens would be {then} per second, not {now}.",
        told=told,
        tokens=count_text(then.tokens),
        then=count_text(round(then.tokens * 1e9 / max(then.step_ns, 1))),
        now=count_text(round(then.tokens * 1e9 / max(then.now_ns, 1))),
    )


MOST_BARS: Final = 6


def light_chart(device: Device, books: LightBooks) -> Chart:
    """A bar for all compute and one for each of its largest families: light solid, what is lost hatched."""
    steps = device.step_count
    shown: list[tuple[str, str, BusyTime]] = [(say("all compute"), "compute-gemm", books.whole)]
    shown += [(part.family, line_tone(Line.of_family(part.family)), part) for part in books.families[:MOST_BARS]]
    bars = []
    for name, tone, busy in shown:
        sides = (
            (tone, busy.light_ns, say("light")),
            ("lost-time", busy.lost_ns, say("lost")),
            ("lost-avoidable", busy.avoidable_ns, say("avoidable")),
            ("muted", busy.unknown_ns, say("unknown")),
        )
        whole = max(busy.whole_ns, 1)
        parts = [
            Part(side, ns / whole, words, share_text(ns / whole), time_text(ns // steps), words)
            for side, ns, words in sides
            if ns
        ]
        bars.append(Bar(say("{name}, {time}", name=name, time=time_text(whole // steps)), tuple(parts)))
    title = say("What compute time was good for")
    return Chart(partial(stacked_bars, title, title, bars), "light")


def light_sheet(device: Device, books: LightBooks) -> Sheet:
    """Compute by family, and what each was good for, per step."""
    steps = device.step_count

    def column(key: str, title: Message) -> Column:
        return Column(key, title, Unit.NS, lambda row: getattr(row, key) // steps)

    title = say("Compute at the speed of light, per step (by {source})", source=SOURCES[books.source])
    if device.steps is None:
        title = say("Compute at the speed of light (by {source})", source=SOURCES[books.source])
    columns = (
        Column("family", say("Family"), Unit.TEXT, lambda row: getattr(row, "family", TOTAL)),
        Column("compute_ns", say("Compute"), Unit.NS, lambda row: row.whole_ns // steps),
        column("light_ns", say("Light")),
        column("lost_ns", say("Lost")),
        column("avoidable_ns", say("Avoidable")),
        column("unknown_ns", say("Unknown")),
        share_column("light_percent", say("Light"), "light_ns", "whole_ns"),
    )
    return Sheet.of("light", title, columns, books.families, foot=(books.whole,))


def kernels_sheet(device: Device, books: LightBooks) -> Sheet:
    """The kernels that take the most, each with its light."""
    steps = device.step_count

    def known(row: LightRow, amount: int) -> int | None:
        return None if row.source is LightSource.UNKNOWN else amount // steps

    columns = (
        Column("kernel", say("Kernel"), Unit.TEXT, lambda row: cut_label(label(row.kernel))),
        Column("took_ns", say("Took"), Unit.NS, lambda row: row.took_ns // steps),
        Column("light_ns", say("Light"), Unit.NS, lambda row: known(row, row.light_ns)),
        share_column("light_percent", say("Light"), "share"),
        Column("roof", say("Roof"), Unit.TEXT, lambda row: ROOFS[row.roof]),
        Column("source", say("Source"), Unit.TEXT, lambda row: SOURCES[row.source]),
        Column("operator", say("Operator"), Unit.TEXT, lambda row: row.operator or "-", detail=1, shorten=cut_label),
    )
    return Sheet.of("light_kernels", say("Kernels and their light, the longest first"), columns, books.rows)

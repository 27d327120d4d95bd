"""What compute time was good for: light, lost, avoidable and unknown time, as sentences and tables."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from gpuledger.analyse.light.books import PARTS, SOURCES, BusyTime, LightBooks, LightRow
from gpuledger.analyse.light.kernel_light import LightSource
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.books import Line
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.charts.amounts import Bar, Part, stacked_bars
from gpuledger.present.document import Chart
from gpuledger.present.palette import line_tone
from gpuledger.present.row_sheets import row_sheet
from gpuledger.present.sheet import Sheet
from gpuledger.rows import Label, Row, Unit, share
from gpuledger.units import count_text, share_text, time_text

_LONGEST_NAME: Final = 4000
"""Letters of a kernel's name: no compiler makes longer ones that are worth a page."""


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


class FamilyLightRow(Row, frozen=True):
    """Compute of one family and what it was good for, per step."""

    family: Annotated[str, Label(say("Family"))]
    compute_ns: Annotated[int, Label(say("Compute"), Unit.NS, is_summed=True)]
    light_ns: Annotated[int, Label(say("Light"), Unit.NS, is_summed=True)]
    lost_ns: Annotated[int, Label(say("Lost"), Unit.NS, is_summed=True)]
    avoidable_ns: Annotated[int, Label(say("Avoidable"), Unit.NS, is_summed=True)]
    unknown_ns: Annotated[int, Label(say("Unknown"), Unit.NS, is_summed=True)]
    light_share: Annotated[float | None, Label(say("Light"), Unit.SHARE)]


_SOURCE_WORDS: Final = {source.name.lower(): words for source, words in SOURCES.items()}
_ROOF_WORDS: Final = {"compute": say("arithmetic"), "memory": say("memory"), "unknown": "-"}


def _kernel_words(name: str) -> str:
    return cut_label(label(name))


class LitKernel(Row, frozen=True):
    """The kernels of one name that one kind of operator launched, per step."""

    kernel: Annotated[str, Label(say("Kernel"), words=_kernel_words)]
    operator: Annotated[str | None, Label(say("Operator"), detail=1, unknown="-", words=cut_label)]
    launches_per_step: float
    """How often they ran in a steady step; in the window, where there are no steps."""
    ns: Annotated[int, Label(say("Took"), Unit.NS)]
    light_ns: Annotated[int | None, Label(say("Light"), Unit.NS)]
    """null where it is not known."""
    light_low_ns: int | None
    light_high_ns: int | None
    light_share: Annotated[float | None, Label(say("Light"), Unit.SHARE)]
    source: Annotated[str, Label(say("Source"), words=_SOURCE_WORDS.__getitem__)]
    """shapes, samples, ncu, launch or unknown."""
    roof: Annotated[str, Label(say("Roof"), words=_ROOF_WORDS.__getitem__)]
    """compute, memory or unknown."""


def lit_kernels(books: LightBooks, steps: int) -> tuple[LitKernel, ...]:
    """The kernels that take the most."""

    def known(row: LightRow, amount_ns: int) -> int | None:
        return None if row.source is LightSource.UNKNOWN else amount_ns // steps

    return tuple(
        LitKernel(
            kernel=row.kernel[:_LONGEST_NAME],
            operator=row.operator,
            launches_per_step=row.count / steps,
            ns=row.took_ns // steps,
            light_ns=known(row, row.light_ns),
            light_low_ns=known(row, row.low_ns),
            light_high_ns=known(row, row.high_ns),
            light_share=row.share,
            source=row.source.name.lower(),
            roof=row.roof.name.lower(),
        )
        for row in books.rows
    )


def light_sheets(device: Device, books: LightBooks) -> tuple[Sheet, Sheet]:
    """Compute by family, and the kernels that take the most, each with its light."""
    steps, source = device.step_count, SOURCES[books.source]
    title = say("Compute at the speed of light, per step (by {source})", source=source)
    if device.steps is None:
        title = say("Compute at the speed of light (by {source})", source=source)
    families = [
        FamilyLightRow(
            family=part.family,
            compute_ns=part.whole_ns // steps,
            light_ns=part.light_ns // steps,
            lost_ns=part.lost_ns // steps,
            avoidable_ns=part.avoidable_ns // steps,
            unknown_ns=part.unknown_ns // steps,
            light_share=share(part.light_ns, part.whole_ns),
        )
        for part in books.families
    ]
    kernels, fields = (
        lit_kernels(books, steps),
        ("kernel", "ns", "light_ns", "light_share", "roof", "source", "operator"),
    )
    return (
        row_sheet("light", title, FamilyLightRow, families),
        row_sheet(
            "light_kernels", say("Kernels and their light, the longest first"), LitKernel, kernels, fields=fields
        ),
    )

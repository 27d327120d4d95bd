"""The integrated report's own part: the kernels of a step in order, each in depth, and their bottlenecks by severity.

Times and shares are the timeline's; verdicts are Nsight Compute's figures against the device's roofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from gpuledger.analyse.kernels.judgement import kernels
from gpuledger.analyse.kernels.step_kernels import LEVELS, KernelMatch, MatchedTimeline, timeline_tally
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.messages import joined as put_together
from gpuledger.present.document import Block, Heading, Paragraph, Points, SheetBlock
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.kernel_counts import counts_points
from gpuledger.present.views.kernel_words import SEVERITY_WORDS, severity_cell
from gpuledger.present.views.kernels import bound_text, figure_lines, figure_share, kernel_sheet
from gpuledger.units import count_text, share_text, time_text

LEVEL_WORDS: Final = {
    "order": say("order"),
    "range": say("range"),
    "shape": say("shape"),
    "size": say("other size"),
    "name": say("other shape"),
    "function": say("other variant"),
    "none": say("none"),
}
"""How well a profiled launch matches, as tables say it."""

MEANS: Final = {
    "order": say("name, shape and place in the sequence"),
    "range": say("name, shape and NVTX range"),
    "shape": say("name and shape"),
    "size": say("name and shape, but a problem of another size"),
    "name": say("name, in another shape"),
    "function": say("the function with other template arguments"),
    "none": say("nothing like it"),
}

CLOCKS: Final = say(
    "Times come from the timeline. Nsight Compute replays each kernel in isolation, with caches "
    "flushed and, by default, clocks locked, so only its percentages of peak are used, not its "
    "times."
)


def integrated_blocks(found: MatchedTimeline, device: Device) -> list[Block]:
    """Everything between the ledger and what to do."""
    return [
        *_overview(found, device),
        *_counts(found),
        *_in_depth(found, device),
        *_bottlenecks(found, device),
        *_not_here(found),
    ]


def _overview(found: MatchedTimeline, device: Device) -> Iterator[Block]:
    per = say("Kernels of a step, in execution order")
    yield Heading(per if device.steps is not None else say("Kernels of the window, in execution order"))
    yield Paragraph(_coverage(found))
    layers = found.overview.layers
    numbered = list(enumerate(found.matches, 1))
    for inside, group in groupby(numbered, key=lambda each: each[1].entry.in_layer):
        if layers and inside:
            yield Heading(say("In each of {layers} layers (times summed over all)", layers=count_text(layers)), 3)
        elif layers:
            yield Heading(say("Outside the layers"), 3)
        yield SheetBlock(_overview_sheet(list(group), device))
    if found.overview.other_ns:
        rest = share_text(found.overview.other_ns / found.overview.time_ns)
        yield Paragraph(say("{share} of compute is in graphs whose kernels were not recorded.", share=rest))
    yield Paragraph(CLOCKS)


def _coverage(found: MatchedTimeline) -> str:
    levels = [
        say("{share} by {means}", share=share_text(found.share_at(level)), means=MEANS[level])
        for level in LEVELS
        if found.share_at(level) > 0
    ]
    said = say(
        "Nsight Compute covers {share} of the GPU's compute time: {levels}.",
        share=share_text(found.coverage),
        levels=put_together(say(", "), levels),
    )
    if not found.unused:
        return said
    left = say("{count} profiled launches match no kernel here.", count=count_text(len(found.unused)))
    return say("{first} {then}", first=said, then=left)


def _overview_sheet(matches: list[tuple[int, KernelMatch]], device: Device) -> Sheet:
    columns = (
        Column("number", "#", Unit.FIGURE),
        Column("kernel", say("Kernel"), Unit.TEXT),
        Column("calls", say("Calls"), Unit.FIGURE),
        Column("time", say("Time"), Unit.FIGURE),
        Column("share", say("Share"), Unit.FIGURE),
        Column("match", say("Match"), Unit.TEXT),
        Column("roof", say("Of roof"), Unit.FIGURE),
        Column("place", say("Range"), Unit.TEXT, detail=1),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            str(at),
            label(each.entry.name),
            _each(each.entry.calls, device),
            time_text(each.entry.time_ns // device.step_count),
            share_text(each.share),
            LEVEL_WORDS[each.level],
            figure_share(each.launch.verdict.roof_share) if each.launch and each.covered else "-",
            " > ".join(each.entry.place),
        )
        for at, each in matches
    ]
    return Sheet("kernels_of_a_step", say("Kernels of a step"), columns, tuple(rows))


def _each(calls: int, device: Device) -> str:
    """How many a step; where it is less than one, how many in all: never a fraction."""
    if calls >= device.step_count:
        return count_text(round(calls / device.step_count))
    return _in_all(count_text(calls), device)


def _calls(calls: int, device: Device) -> str:
    """The same in words."""
    is_often = calls >= device.step_count
    number = round(calls / device.step_count) if is_often else calls
    words = say("one call") if number == 1 else say("{count} calls", count=count_text(number))
    return words if is_often else _in_all(words, device)


def _in_all(amount: str, device: Device) -> Message:
    return say("{amount} in {steps} steps", amount=amount, steps=count_text(device.step_count))


def _ranked(found: MatchedTimeline) -> list[tuple[int, KernelMatch]]:
    covered = [(at, each) for at, each in enumerate(found.matches, 1) if each.covered]
    return sorted(covered, key=lambda each: (-each[1].saving_ns, -each[1].share))


def _counts(found: MatchedTimeline) -> Iterator[Block]:
    counts = timeline_tally(found)
    if counts.kernels:
        yield counts_points(counts)


def _in_depth(found: MatchedTimeline, device: Device) -> Iterator[Block]:
    ranked = _ranked(found)
    yield Heading(say("Kernels in depth, largest saving first"))
    if not ranked:
        yield Paragraph(say("No kernel here was profiled; `gpuledger ncu-plan PROFILE` shows which are worth it."))
    for at, each in ranked:
        if each.launch is None:
            continue
        judged = each.launch
        title = say(
            "{number}. {kernel}: {bound}, severity {severity}",
            number=at,
            kernel=cut_label(label(each.entry.name)),
            bound=bound_text(judged),
            severity=SEVERITY_WORDS[each.severity],
        )
        amounts = {
            "time": time_text(each.entry.time_ns // device.step_count),
            "calls": _calls(each.entry.calls, device),
            "saving": time_text(each.saving_ns // device.step_count),
        }
        saves = say("{time} per step in {calls}; at its nearest roof it would save {saving}", **amounts)
        if judged.verdict.is_by_waste:
            saves = say("{time} per step in {calls}; with coalesced accesses it would save {saving}", **amounts)
        first, *rest = judged.advice
        items = (
            saves,
            *judged.verdict.because,
            *figure_lines(each.judged),
            *judged.figures.unreliable,
            say("try: {advice}", advice=first),
            *rest,
        )
        yield Points(title, items)


def _bottlenecks(found: MatchedTimeline, device: Device) -> Iterator[Block]:
    ranked = [(at, each) for at, each in _ranked(found) if each.severity not in ("none", "unknown")]
    if not ranked:
        return
    yield Heading(say("Bottlenecks by severity"))
    columns = (
        Column("number", "#", Unit.FIGURE),
        Column("severity", say("Severity"), Unit.TEXT),
        Column("kernel", say("Kernel"), Unit.TEXT),
        Column("bound", say("Bound by"), Unit.TEXT),
        Column("saves", say("Saves per step"), Unit.FIGURE),
        Column("of_step", say("Share of step"), Unit.FIGURE),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            str(at),
            severity_cell(each.severity),
            label(each.entry.name),
            "-" if each.launch is None else bound_text(each.launch),
            time_text(each.saving_ns // device.step_count),
            share_text(each.saving_ns / device.steady_ns),
        )
        for at, each in ranked
    ]
    yield SheetBlock(Sheet("bottlenecks", say("Bottlenecks by severity"), columns, tuple(rows)))


def _not_here(found: MatchedTimeline) -> Iterator[Block]:
    """What was profiled and is no part of these steps: another shape, another type, another phase."""
    if not found.unused:
        return
    made = kernels(found.unused)
    yield Heading(say("Profiled, but not in these steps"))
    yield SheetBlock(kernel_sheet(made, sum(each.duration_ns for each in made)))

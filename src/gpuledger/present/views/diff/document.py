"""A comparison for people: the verdict in a sentence, why, what changed, and what to know. JSON is in `diff_json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.control_ranges import Controls
from gpuledger.analyse.diff.launch_calls import launch_split
from gpuledger.analyse.diff.noise import LEAST_SHARE, NO_CHANGE, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide
from gpuledger.ledger.lines import Line
from gpuledger.messages import say
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.charts.svg import Picture as Drawing
from gpuledger.present.document import Block, Document, Group, Heading, Paragraph, Picture, Points, SheetBlock
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import cut_in_the_middle
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.diff.compared import Compared
from gpuledger.present.views.diff.figures import signed_share, signed_time, times
from gpuledger.present.views.diff.json import diff_data
from gpuledger.present.views.diff.tables import (
    calls_sheet,
    controls_text,
    gates_sheet,
    interval_of,
    kernels_sheet,
    launches_sheet,
    memory_sheet,
    part_name,
    parts_sheet,
    ranges_sheet,
)
from gpuledger.trace.health import NotMeasured
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

_LONGEST_NAME = 48


def diff_document(compared: Compared) -> Document:
    """The comparison; JSON is the document gpuledger.diff/1."""
    return Document(
        blocks=lambda: (Group(tuple(diff_blocks(compared))),),
        data=lambda: diff_data(compared),
        sheets=lambda: (_parts_alone(compared.diff),),
        page=lambda reader: _page(compared, reader),
    )


def _page(compared: Compared, reader: Reader) -> Page:
    from gpuledger.present.views.page.diff_page import diff_page

    return diff_page(compared, reader)


def _parts_alone(found: Diff) -> Sheet:
    """The parts, for a spreadsheet."""
    columns = (Column("part", "Part", Unit.TEXT), Column("ns", "Change", Unit.NS))
    rows = tuple((part.name, part.ns) for part in found.parts)
    return Sheet("diff_parts", "Parts", columns, rows, (("total", found.delta_ns),))


def verdict_text(found: Diff) -> str:
    """One sentence."""
    before, after = found.before.median_ns, found.after.median_ns
    if found.verdict is None and not before and not after:
        return "No kernels in these tables: calls and ranges are compared, and there is no verdict"
    if found.verdict is None:
        change = signed_share(found.share)
        return f"Kernel time {times(before, after)} a run ({change}). Sums do not say how long a step takes: no verdict"
    unit = "a step" if found.before.whole == STEP else "in all"
    went = f"{time_text(before)} -> {time_text(after)} {unit}"
    if found.verdict != NO_CHANGE:
        ratio = before / after if after and before >= 2 * after else 0.0
        much = share_text(abs(found.share))
        factor = f", {ratio:.1f} x" if ratio else ""
        return f"{much} {found.verdict}: {went}{factor} ({_sure(found)})"
    if isinstance(found.interval, Interval) and not found.interval.holds_zero:
        why = f"less than {share_text(LEAST_SHARE)}, {_sure(found)}"
    elif isinstance(found.interval, Interval):
        why = f"{_sure(found)}, which holds 0"
    else:
        why = _sure(found)
    return f"No change: {went}, {signed_share(found.share)} ({why})"


def _sure(found: Diff) -> str:
    if isinstance(found.interval, NotMeasured):
        return f"no interval: {found.interval.reason}"
    return interval_of(found.interval.low_ns, found.interval.high_ns)


HOST_ALONE: Final = (
    "Careful: both sides run the same kernels as often; only the host's pace differs. One run of each cannot tell a "
    "change of the program from a machine that was busier: give a folder of runs for each side."
)


def diff_blocks(compared: Compared) -> list[Block]:
    """The whole document."""
    found = compared.diff
    blocks: list[Block] = [Heading(verdict_text(found) + ".", 1)]
    if found.is_host_alone:
        blocks.append(Paragraph(HOST_ALONE))
    sides = (f"before: {_about(found.before)}", f"after: {_about(found.after)}")
    blocks.append(Points(say("Compared"), sides, is_section=True))
    if compared.outcomes:
        blocks += [Heading(say("Gates")), SheetBlock(gates_sheet(compared.outcomes))]
    if any(part.ns for part in found.parts):
        whole = {STEP: "a step, ", KERNEL_TIME: "kernel time, "}.get(found.before.whole, "")
        title = say("Why ({whole}parts sum to the difference)", whole=whole)
        blocks += [Heading(title, short="Why"), Picture("waterfall", lambda _: _waterfall(compared))]
        blocks.append(SheetBlock(parts_sheet(found)))
    elif found.before.median_ns or found.after.median_ns:
        blocks.append(Paragraph(say("Every part of the difference is 0.")))
    if isinstance(found.controls, Controls):
        blocks.append(Paragraph(controls_text(found.controls, found.delta_ns)))
    blocks += _launches(found)
    per = ", a step" if found.before.whole == STEP else ""
    for title, sheet in (
        (f"Kernels that changed most{per}", kernels_sheet(found)),
        (f"CUDA calls that changed most, on the host{per}", calls_sheet(found)),
        (f"Ranges that changed most{per}", ranges_sheet(found)),
        (f"Memory{per}", memory_sheet(found)),
    ):
        if sheet.rows:
            blocks += [Heading(title), SheetBlock(sheet)]
    if found.notes:
        blocks.append(Points(say("Notes"), found.notes, is_section=True))
    return blocks


def _about(side: RunSide) -> str:
    """One side in a line."""
    runs = f"{count_text(len(side.run_steps))} runs, " if len(side.run_steps) > 1 else ""
    name = cut_in_the_middle(side.name, _LONGEST_NAME)
    if side.whole == KERNEL_TIME:
        return f"{name}, tables of nsys stats"
    gpu = side.gpu_name or "unknown GPU"
    if len(side.gpus) > 1:
        gpu = f"GPU {side.gpu} of {len(side.gpus)}, {gpu}"
    if side.whole == STEP:
        return f"{name}, {gpu}, {runs}{count_text(side.steps)} steps by {side.source}"
    return f"{name}, {gpu}, {runs}the whole window, as no steps were found"


def _launches(found: Diff) -> list[Block]:
    sheet = launches_sheet(found.before, found.after)
    if sheet is None:
        return []
    blocks: list[Block] = [Heading(say("Launches")), SheetBlock(sheet)]
    split = launch_split(found.before, found.after)
    if split is not None and any(split):
        number, cost = split
        said = f"Time in launch calls: {signed_time(number + cost)}, of it {signed_time(number)} by number and kind of "
        blocks.append(Paragraph(say("{said}call, {cost} by what one takes.", said=said, cost=signed_time(cost))))
    return blocks


def _waterfall(compared: Compared) -> Drawing:
    """From the step before to the step after, the largest part first."""
    found = compared.diff
    parts = sorted((part for part in found.parts if part.ns), key=lambda part: -abs(part.ns))
    changes = [Change(part_name(part.name), part.ns, signed_time(part.ns), _tone(part.name, part.ns)) for part in parts]
    said = "; ".join(f"{change.name} {change.text}" for change in changes)
    before, after = found.before.median_ns, found.after.median_ns
    return waterfall(
        "From before to after, part by part",
        f"{time_text(before)} before, {time_text(after)} after: {said}",
        ("before", before, time_text(before)),
        changes,
        ("after", after, time_text(after)),
    )


def _tone(part: str, ns: int) -> str:
    """The tone of a part: the ledger's where it is one of its lines, else one for less and one for more."""
    if isinstance(part, Line):
        return line_tone(part)
    return "compute-gemm" if ns < 0 else "compute-moe"

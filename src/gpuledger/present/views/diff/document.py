"""A comparison for people: the verdict in a sentence, why, what changed, and what to know. JSON is in `diff_json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.analyse.diff.compare import Diff, launch_split
from gpuledger.analyse.diff.noise import FASTER, LEAST_SHARE, NO_CHANGE, Controls, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide
from gpuledger.ledger.books import Line
from gpuledger.messages import joined, say
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.charts.svg import Picture as Drawing
from gpuledger.present.document import Block, Document, Group, Heading, Paragraph, Picture, Points, SheetBlock, Tell
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
from gpuledger.trace.model import NotMeasured
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
        return say("No kernels in these tables: calls and ranges are compared, without a verdict")
    if found.verdict is None:
        change = signed_share(found.share)
        return say(
            "Kernel time {times} per run ({change}). Sums do not tell how long a step takes: no verdict",
            times=times(before, after),
            change=change,
        )
    both = f"{time_text(before)} -> {time_text(after)}"
    went = say("{times} per step", times=both) if found.before.whole == STEP else say("{times} in total", times=both)
    if found.verdict != NO_CHANGE:
        ratio = before / after if after and before >= 2 * after else 0.0
        much = share_text(abs(found.share))
        factor = f", {ratio:.1f} x" if ratio else ""
        if found.verdict == FASTER:
            return say("{much} faster: {went}{factor} ({sure})", much=much, went=went, factor=factor, sure=_sure(found))
        return say("{much} slower: {went} ({sure})", much=much, went=went, sure=_sure(found))
    if isinstance(found.interval, Interval) and not found.interval.holds_zero:
        why: str = say("less than {share}, {sure}", share=share_text(LEAST_SHARE), sure=_sure(found))
    elif isinstance(found.interval, Interval):
        why = say("{sure}, which includes 0", sure=_sure(found))
    else:
        why = _sure(found)
    return say("No change: {went}, {change} ({why})", went=went, change=signed_share(found.share), why=why)


def _sure(found: Diff) -> str:
    if isinstance(found.interval, NotMeasured):
        return say("no interval: {reason}", reason=found.interval.reason)
    return interval_of(found.interval.low_ns, found.interval.high_ns)


HOST_ALONE: Final = say(
    "Careful: both sides run the same kernels equally often; only the host's speed differs. One "
    "run per side cannot tell a change in the program from a busier machine: give a folder of "
    "runs for each side."
)


def diff_blocks(compared: Compared) -> list[Block]:
    """The whole document."""
    found = compared.diff
    blocks: list[Block] = [Heading(say("{told}.", told=verdict_text(found)), 1)]
    if found.is_host_alone:
        blocks.append(Paragraph(HOST_ALONE))
    sides = (say("before: {side}", side=_about(found.before)), say("after: {side}", side=_about(found.after)))
    blocks.append(Points(say("Compared"), sides, is_section=True))
    if compared.outcomes:
        blocks += [Heading(say("Gates")), SheetBlock(gates_sheet(compared.outcomes))]
    if any(part.ns for part in found.parts):
        whole = {STEP: say("per step, "), KERNEL_TIME: say("kernel time, ")}.get(found.before.whole, "")
        title = say("Why ({whole}parts sum to the difference)", whole=whole)
        blocks += [Heading(title, short=say("Why")), Picture("waterfall", lambda tell: _waterfall(compared, tell))]
        blocks.append(SheetBlock(parts_sheet(found)))
    elif found.before.median_ns or found.after.median_ns:
        blocks.append(Paragraph(say("No part differs.")))
    if isinstance(found.controls, Controls):
        blocks.append(Paragraph(controls_text(found.controls, found.delta_ns)))
    blocks += _launches(found)
    for title, sheet in (
        (say("Kernels that changed most"), kernels_sheet(found)),
        (say("CUDA calls that changed most, on the host"), calls_sheet(found)),
        (say("Ranges that changed most"), ranges_sheet(found)),
        (say("Memory"), memory_sheet(found)),
    ):
        if sheet.rows:
            heading = say("{title}, per step", title=title) if found.before.whole == STEP else title
            blocks += [Heading(heading), SheetBlock(sheet)]
    blocks += _use(found)
    if found.notes:
        blocks.append(Points(say("Notes"), found.notes, is_section=True))
    return blocks


def _use(found: Diff) -> list[Block]:
    if not found.use:
        return []
    from gpuledger.present.views.diff.use import use_sheet

    title = say("GPU utilization of matched kernels, from samples: changes beyond both intervals")
    return [Heading(title, short=say("GPU utilization")), SheetBlock(use_sheet(found.use))]


def _about(side: RunSide) -> str:
    """One side in a line."""
    name = cut_in_the_middle(side.name, _LONGEST_NAME)
    if side.whole == KERNEL_TIME:
        return say("{name}, `nsys stats` tables", name=name)
    facts: list[str] = [name]
    if len(side.gpus) > 1:
        facts.append(say("GPU {gpu} of {count}", gpu=side.gpu, count=len(side.gpus)))
    facts.append(side.gpu_name or say("unknown GPU"))
    if len(side.run_steps) > 1:
        facts.append(say("{count} runs", count=count_text(len(side.run_steps))))
    if side.whole == STEP:
        facts.append(say("{count} steps ({source})", count=count_text(side.steps), source=side.source))
    else:
        facts.append(say("the whole window: no steps were found"))
    return joined(say(", "), facts)


def _launches(found: Diff) -> list[Block]:
    sheet = launches_sheet(found.before, found.after)
    if sheet is None:
        return []
    blocks: list[Block] = [Heading(say("Launches")), SheetBlock(sheet)]
    split = launch_split(found.before, found.after)
    if split is not None and any(split):
        number, cost = split
        said = say(
            "Time in launch calls: {change}; {number} from the number and kind of calls, {cost} from what each costs.",
            change=signed_time(number + cost),
            number=signed_time(number),
            cost=signed_time(cost),
        )
        blocks.append(Paragraph(said))
    return blocks


def _waterfall(compared: Compared, tell: Tell) -> Drawing:
    """From the step before to the step after, the largest part first."""
    found = compared.diff
    parts = sorted((part for part in found.parts if part.ns), key=lambda part: -abs(part.ns))
    changes = [
        Change(tell(part_name(part.name)), part.ns, signed_time(part.ns), _tone(part.name, part.ns)) for part in parts
    ]
    said = "; ".join(f"{change.name} {change.text}" for change in changes)
    before, after = found.before.median_ns, found.after.median_ns
    return waterfall(
        tell(say("From before to after, part by part")),
        tell(
            say("{before} before, {after} after: {parts}", before=time_text(before), after=time_text(after), parts=said)
        ),
        (tell(say("before")), before, time_text(before)),
        changes,
        (tell(say("after")), after, time_text(after)),
    )


def _tone(part: str, ns: int) -> str:
    """The tone of a part: the ledger's where it is one of its lines, else one for less and one for more."""
    if isinstance(part, Line):
        return line_tone(part)
    return "compute-gemm" if ns < 0 else "compute-moe"

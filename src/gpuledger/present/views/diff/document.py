"""A comparison: the verdict in a sentence, why, what changed, and what to know; JSON is the document gpuledger.diff/1.

Times in JSON are whole nanoseconds, per step.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.noise import FASTER, LEAST_SHARE, NO_CHANGE, Controls, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunSide
from gpuledger.analyse.phase_costs import IDLE, OTHER_WORK
from gpuledger.answers.several_profiles import Compared
from gpuledger.ledger.books import Line
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import cut_in_the_middle
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.diff.tables import (
    busy_sheet,
    calls_sheet,
    controls_text,
    gates_sheet,
    interval_text,
    kernels_sheet,
    launches_sheet,
    memory_sheet,
    part_name,
    parts_sheet,
    phases_sheet,
    ranges_sheet,
    signed_share,
    signed_time,
    times,
    use_sheet,
)
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, share_text, time_text

_LONGEST_NAME: Final = 48

HOST_ALONE: Final = say(
    "Careful: both sides run the same kernels equally often; only the host's speed differs. One "
    "run per side cannot tell a change in the program from a busier machine: give a folder of "
    "runs for each side."
)


def diff_document(compared: Compared) -> doc.Document:
    """The comparison; JSON is the document gpuledger.diff/1."""
    found = compared.diff
    columns = (Column("part", "Part", Unit.TEXT, "name"), Column("ns", "Change", Unit.NS))
    parts = Sheet.of("diff_parts", "Parts", columns, found.parts, foot=({"part": "total", "ns": found.delta_ns},))
    return doc.Document(
        blocks=lambda: (doc.Group(tuple(diff_blocks(compared))),),
        data=doc.json_by("diff.diff_json", compared),
        sheets=lambda: (parts,),
        page=lambda: _page(compared),
    )


def _page(compared: Compared) -> doc.Page:
    """The verdict, the parts that sum to the difference as a waterfall, and the tables of text."""
    diff = compared.diff
    tiles = (
        doc.Tile(say("Before"), time_text(diff.before.median_ns)),
        doc.Tile(say("After"), time_text(diff.after.median_ns)),
        doc.Tile(say("Change"), signed_time(diff.delta_ns), signed_share(diff.share)),
    )
    return doc.Page(
        f"{diff.before.name} → {diff.after.name}",
        say("{told}.", told=verdict_text(diff)),
        title=say("{before} against {after}", before=diff.before.name, after=diff.after.name),
        tiles=tiles,
        sections=(*doc.chapters(diff_blocks(compared), say("Compared")), doc.AGAIN),
    )


def verdict_text(found: Diff) -> str:
    """One sentence."""
    before, after = found.before.median_ns, found.after.median_ns
    if found.verdict is None and not before and not after:
        return say("No kernels in these tables: calls and ranges are compared, without a verdict")
    change = signed_share(found.share)
    if found.verdict is None:
        return say(
            "Kernel time {times} per run ({change}). Sums do not tell how long a step takes: no verdict",
            times=times(before, after),
            change=change,
        )
    both = f"{time_text(before)} -> {time_text(after)}"
    went = say("{times} per step", times=both) if found.before.whole == STEP else say("{times} in total", times=both)
    interval = found.interval
    sure: str = (
        say("no interval: {reason}", reason=interval.reason)
        if isinstance(interval, NotMeasured)
        else interval_text(interval.low_ns, interval.high_ns)
    )
    if found.verdict == NO_CHANGE:
        if isinstance(interval, Interval):
            sure = (
                say("{sure}, which includes 0", sure=sure)
                if interval.holds_zero
                else say("less than {share}, {sure}", share=share_text(LEAST_SHARE), sure=sure)
            )
        return say("No change: {went}, {change} ({why})", went=went, change=change, why=sure)
    less, more = sorted((before, after))
    much: str = share_text(abs(found.share))
    if less and more >= 2 * less:
        much = say("{factor}x", factor=f"{more / less:.1f}")
    if found.verdict != FASTER:
        return say("{much} slower: {went} ({sure})", much=much, went=went, sure=sure)
    return say("{much} faster: {went} ({sure})", much=much, went=went, sure=sure)


def diff_blocks(compared: Compared) -> list[doc.Block]:
    """The whole document."""
    found = compared.diff
    blocks: list[doc.Block] = [doc.Heading(say("{told}.", told=verdict_text(found)), 1)]
    if found.is_host_alone:
        blocks.append(doc.Paragraph(HOST_ALONE))
    sides = (say("before: {side}", side=_about(found.before)), say("after: {side}", side=_about(found.after)))
    blocks.append(doc.Points(say("Compared"), sides, is_section=True))
    if compared.outcomes:
        blocks += [doc.Heading(say("Gates")), doc.SheetBlock(gates_sheet(compared.outcomes))]
    if any(part.ns for part in found.parts):
        whole = {STEP: say("per step, "), KERNEL_TIME: say("kernel time, ")}.get(found.before.whole, "")
        title = say("Why ({whole}parts sum to the difference)", whole=whole)
        blocks += [doc.Heading(title, short=say("Why")), _waterfall(found)]
        blocks.append(doc.SheetBlock(parts_sheet(found)))
    elif found.before.median_ns or found.after.median_ns:
        blocks.append(doc.Paragraph(say("No part differs.")))
    if found.busy is not None and any(change.delta_ns for change in found.busy):
        parted = doc.Heading(
            say("Work or pace: the change in compute by what it was good for"), short=say("Work or pace")
        )
        blocks += [parted, doc.SheetBlock(busy_sheet(found.busy))]
    blocks += _phase_blocks(found)
    if isinstance(found.controls, Controls):
        blocks.append(doc.Paragraph(controls_text(found.controls, found.delta_ns)))
    blocks += _launch_blocks(compared)
    for title, sheet in (
        (say("Kernels that changed most"), kernels_sheet(found)),
        (say("CUDA calls that changed most, on the host"), calls_sheet(compared)),
        (say("Ranges that changed most"), ranges_sheet(compared)),
        (say("Memory"), memory_sheet(compared)),
    ):
        if sheet.rows:
            heading = say("{title}, per step", title=title) if found.before.whole == STEP else title
            blocks += [doc.Heading(heading), doc.SheetBlock(sheet)]
    if found.use:
        title = say("GPU utilization of matched kernels, from samples: changes beyond both intervals")
        blocks += [doc.Heading(title, short=say("GPU utilization")), doc.SheetBlock(use_sheet(found.use))]
    if found.notes:
        blocks.append(doc.Points(say("Notes"), found.notes, is_section=True))
    return blocks


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


def _phase_blocks(found: Diff) -> list[doc.Block]:
    """Which phase of a layer changed, where layers are known."""
    if not any(change.delta_ns for change in found.phases):
        return []
    most = next(change for change in found.phases if change.name not in (IDLE, OTHER_WORK))
    went = times(most.before_ns, most.after_ns)
    changed = say("Of the phases {phase} changed most: {went}.", phase=most.name, went=went)
    return [doc.Heading(say("Phases of a layer")), doc.Paragraph(changed), doc.SheetBlock(phases_sheet(found.phases))]


def _launch_blocks(compared: Compared) -> list[doc.Block]:
    if compared.launches is None:
        return []
    sheet = launches_sheet(*compared.launches, compared.diff.before.whole)
    blocks: list[doc.Block] = [doc.Heading(say("Launches")), doc.SheetBlock(sheet)]
    if compared.launch_split is not None and any(compared.launch_split):
        number, cost = compared.launch_split
        split = say(
            "Time in launch calls: {change}; {number} from the number and kind of calls, {cost} from what each costs.",
            change=signed_time(number + cost),
            number=signed_time(number),
            cost=signed_time(cost),
        )
        blocks.append(doc.Paragraph(split))
    return blocks


def _waterfall(found: Diff) -> doc.Chart:
    """From the step before to the step after, the largest part first."""
    parts = sorted((part for part in found.parts if part.ns), key=lambda part: -abs(part.ns))
    changes = [Change(part_name(part.name), part.ns, signed_time(part.ns), _tone(part.name, part.ns)) for part in parts]
    before, after = found.before.median_ns, found.after.median_ns
    said = say(
        "{before} before, {after} after: {parts}",
        before=time_text(before),
        after=time_text(after),
        parts=joined("; ", (joined(" ", (change.name, change.text)) for change in changes)),
    )
    title = say("From before to after, part by part")
    ends = (say("before"), before, time_text(before)), (say("after"), after, time_text(after))
    return doc.Chart(partial(waterfall, title, said, ends[0], changes, ends[1]), name="waterfall")


def _tone(part: str, ns: int) -> str:
    """The tone of a part: the ledger's where it is one of its lines, else one for less and one for more."""
    if isinstance(part, Line):
        return line_tone(part)
    return "compute-gemm" if ns < 0 else "compute-moe"

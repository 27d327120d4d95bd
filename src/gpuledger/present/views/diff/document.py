"""A comparison: the verdict in a sentence, why, what changed, and what to know; JSON is the document gpuledger.diff/1.

Times in JSON are whole nanoseconds, per step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from gpuledger.analyse.diff.compare import Diff, TimeChange, UseChange
from gpuledger.analyse.diff.noise import FASTER, LEAST_SHARE, NO_CHANGE, Controls, Interval
from gpuledger.analyse.diff.run_side import KERNEL_TIME, STEP, RunRange, RunSide
from gpuledger.answers.several_profiles import Compared, PerStep, RangeChange, change_share
from gpuledger.ledger.books import Line
from gpuledger.messages import joined, say
from gpuledger.present.charts.amounts import Change, waterfall
from gpuledger.present.document import (
    AGAIN,
    Block,
    Chart,
    Document,
    Group,
    Heading,
    Page,
    Paragraph,
    Points,
    SheetBlock,
    Tile,
    chapters,
)
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import cut_in_the_middle
from gpuledger.present.sheet import Column, Sheet, Unit, fields_json
from gpuledger.present.views.diff.tables import (
    calls_sheet,
    controls_text,
    gates_sheet,
    interval_text,
    kernels_sheet,
    launches_sheet,
    memory_sheet,
    part_name,
    parts_sheet,
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


def diff_document(compared: Compared) -> Document:
    """The comparison; JSON is the document gpuledger.diff/1."""
    found = compared.diff
    columns = (Column("part", "Part", Unit.TEXT, "name"), Column("ns", "Change", Unit.NS))
    parts = Sheet.of("diff_parts", "Parts", columns, found.parts, foot=({"part": "total", "ns": found.delta_ns},))
    return Document(
        blocks=lambda: (Group(tuple(diff_blocks(compared))),),
        data=lambda: diff_data(compared),
        sheets=lambda: (parts,),
        page=lambda: _page(compared),
    )


def _page(compared: Compared) -> Page:
    """The verdict, the parts that sum to the difference as a waterfall, and the tables of text."""
    diff = compared.diff
    tiles = (
        Tile(say("Before"), time_text(diff.before.median_ns)),
        Tile(say("After"), time_text(diff.after.median_ns)),
        Tile(say("Change"), signed_time(diff.delta_ns), signed_share(diff.share)),
    )
    return Page(
        f"{diff.before.name} → {diff.after.name}",
        say("{told}.", told=verdict_text(diff)),
        title=say("{before} against {after}", before=diff.before.name, after=diff.after.name),
        tiles=tiles,
        sections=(*chapters(diff_blocks(compared), say("Compared")), AGAIN),
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
    much = share_text(abs(found.share))
    if found.verdict != FASTER:
        return say("{much} slower: {went} ({sure})", much=much, went=went, sure=sure)
    factor = f", {before / after:.1f} x" if after and before >= 2 * after else ""
    return say("{much} faster: {went}{factor} ({sure})", much=much, went=went, factor=factor, sure=sure)


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
        blocks += [Heading(title, short=say("Why")), _waterfall(found)]
        blocks.append(SheetBlock(parts_sheet(found)))
    elif found.before.median_ns or found.after.median_ns:
        blocks.append(Paragraph(say("No part differs.")))
    if isinstance(found.controls, Controls):
        blocks.append(Paragraph(controls_text(found.controls, found.delta_ns)))
    blocks += _launch_blocks(compared)
    for title, sheet in (
        (say("Kernels that changed most"), kernels_sheet(found)),
        (say("CUDA calls that changed most, on the host"), calls_sheet(compared)),
        (say("Ranges that changed most"), ranges_sheet(compared)),
        (say("Memory"), memory_sheet(compared)),
    ):
        if sheet.rows:
            heading = say("{title}, per step", title=title) if found.before.whole == STEP else title
            blocks += [Heading(heading), SheetBlock(sheet)]
    if found.use:
        title = say("GPU utilization of matched kernels, from samples: changes beyond both intervals")
        blocks += [Heading(title, short=say("GPU utilization")), SheetBlock(use_sheet(found.use))]
    if found.notes:
        blocks.append(Points(say("Notes"), found.notes, is_section=True))
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


def _launch_blocks(compared: Compared) -> list[Block]:
    if compared.launches is None:
        return []
    sheet = launches_sheet(*compared.launches, compared.diff.before.whole)
    blocks: list[Block] = [Heading(say("Launches")), SheetBlock(sheet)]
    if compared.launch_split is not None and any(compared.launch_split):
        number, cost = compared.launch_split
        split = say(
            "Time in launch calls: {change}; {number} from the number and kind of calls, {cost} from what each costs.",
            change=signed_time(number + cost),
            number=signed_time(number),
            cost=signed_time(cost),
        )
        blocks.append(Paragraph(split))
    return blocks


def _waterfall(found: Diff) -> Chart:
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
    return Chart(partial(waterfall, title, said, ends[0], changes, ends[1]), name="waterfall")


def _tone(part: str, ns: int) -> str:
    """The tone of a part: the ledger's where it is one of its lines, else one for less and one for more."""
    if isinstance(part, Line):
        return line_tone(part)
    return "compute-gemm" if ns < 0 else "compute-moe"


def diff_data(compared: Compared) -> dict[str, Any]:
    """The document gpuledger.diff/1."""
    found = compared.diff
    before, after = compared.sides
    return {
        "schema": "gpuledger.diff/1",
        "verdict": found.verdict,
        "step_delta_ns": found.delta_ns if before.whole != KERNEL_TIME else None,
        "interval_ns": _whole_interval(found.interval),
        "no_interval": found.interval.reason if isinstance(found.interval, NotMeasured) else None,
        "whole": {
            "what": before.whole,
            "before_ns": before.median_ns,
            "after_ns": after.median_ns,
            "delta_ns": found.delta_ns,
            "delta_share": _finite(found.share),
        },
        "before": _side_json(before),
        "after": _side_json(after),
        "overlap": fields_json(found.overlap, "before_share after_share"),
        "parts": [fields_json(part, "part=name ns") for part in found.parts],
        "lines": [
            {"line": line, **_moved(before.line_mean_ns(line), after.line_mean_ns(line))}
            for line in dict.fromkeys((*before.lines, *after.lines))
        ],
        "families": _families(before, after),
        "kernels": [_kernel_json(change) for change in (*found.changes, *found.comm)],
        "launches": _launches_json(compared),
        "calls": [
            {
                "name": name,
                "before": _calls_json(old),
                "after": _calls_json(new),
                "delta_ns": round(new.ns - old.ns),
            }
            for name, (old, new) in compared.calls.items()
        ],
        "ranges": [_range_json(compared, change) for change in compared.ranges],
        "memory": _memory_json(compared),
        "controls": None if isinstance(found.controls, NotMeasured) else _controls_json(found.controls),
        "gates": [
            {
                **fields_json(outcome, "gate=gate.text measures=gate.measures before after"),
                "change_share": _finite(outcome.share),
                "interval": None
                if isinstance(outcome.interval, NotMeasured)
                else [outcome.interval.low_ns, outcome.interval.high_ns],
                **fields_json(outcome, "tripped may_be_noise=in_noise"),
            }
            for outcome in compared.outcomes
        ],
        "notes": list(found.notes),
        "use": None if found.use is None else _use_json(found.use),
    }


def _whole_interval(interval: Interval | NotMeasured) -> list[int] | None:
    return None if isinstance(interval, NotMeasured) else [math.floor(interval.low_ns), math.ceil(interval.high_ns)]


def _finite(share: float) -> float | None:
    """None for what was not there before."""
    return share if math.isfinite(share) else None


def _rounded(amount: float | None) -> int | None:
    return None if amount is None else round(amount)


def _side_json(side: RunSide) -> dict[str, Any]:
    has_steps = side.whole != KERNEL_TIME
    return {
        **fields_json(side, "name tool gpu=gpu_name device=gpu clock_hz"),
        "busy_clock_hz": _rounded(side.busy_clock_hz),
        "ranks": side.ranks,
        "gpus": [{"device": gpu, "step_ns": ns} for gpu, ns in side.gpus.items()],
        **fields_json(side, "steps_by=source runs=run_steps steps"),
        "step_ns": side.median_ns if has_steps else None,
        "mean_ns": round(side.mean_ns) if has_steps else None,
        "losses": list(side.losses),
    }


def _families(*sides: RunSide) -> list[dict[str, Any]]:
    old, new = defaultdict[str, float](float), defaultdict[str, float](float)
    for side, sums in zip(sides, (old, new), strict=True):
        for kernel in side.kernels:
            sums[kernel.family] += kernel.time_ns / side.steps
    return [{"family": name, **_moved(old[name], new[name])} for name in (old | new)]


def _moved(before: float, after: float) -> dict[str, Any]:
    return {
        "before_ns": round(before),
        "after_ns": round(after),
        "delta_ns": round(after) - round(before),
        "delta_share": _finite(change_share(before, after)),
    }


def _kernel_json(change: TimeChange) -> dict[str, Any]:
    shape = "name grid block place calls ns=time_ns"
    return {
        "match": change.pair.level,
        "family": change.pair.first.family,
        "before": [fields_json(kernel, shape) for kernel in change.pair.before],
        "after": [fields_json(kernel, shape) for kernel in change.pair.after],
        "calls_before": change.calls[0],
        "calls_after": change.calls[1],
        "each_before_ns": round(change.each_ns[0]),
        "each_after_ns": round(change.each_ns[1]),
        **_moved(*change.ns),
        "by_calls_ns": round(change.by_calls_ns),
        "by_time_per_call_ns": round(change.by_time_ns),
        "by_mix_ns": round(change.by_mix_ns),
    }


def _calls_json(side: PerStep) -> dict[str, Any]:
    each_ns = round(side.ns / side.count) if side.count else None
    return {"calls": side.count, "ns": round(side.ns), "each_ns": each_ns}


def _launches_json(compared: Compared) -> dict[str, Any] | None:
    if compared.launch_split is None or compared.launches is None:
        return None
    number, cost = compared.launch_split
    before, after = map(_calls_json, compared.launches)
    return {"before": before, "after": after, "by_number_ns": round(number), "by_cost_ns": round(cost)}


def _range_json(compared: Compared, change: RangeChange) -> dict[str, Any]:
    def side(of: RunRange | None, steps: int) -> dict[str, Any] | None:
        if of is None:
            return None
        return {
            "name": of.name,
            "instances": of.instances / steps,
            "host_ns": round(of.host_ns / steps),
            "gpu_ns": None if of.gpu_ns is None else round(of.gpu_ns / steps),
            "wait_ns": None if of.wait_ns is None else round(of.wait_ns / steps),
        }

    pair, (before, after) = change.pair, compared.sides
    return {
        "match": pair.level,
        "unchanged": pair.unchanged,
        "before": side(pair.before, before.steps),
        "after": side(pair.after, after.steps),
        "host_delta_ns": round(change.host_ns[1] - change.host_ns[0]),
        "host_delta_share": _finite(change.share),
        "corrected_share": change.corrected_share,
        "before_of_whole": change.of_whole[0],
        "after_of_whole": change.of_whole[1],
    }


def _memory_json(compared: Compared) -> list[dict[str, Any]]:
    def copied(side: PerStep) -> dict[str, Any]:
        return {"count": side.count, "bytes": _rounded(side.bytes), "ns": round(side.ns)}

    rows = [{"what": kind, "before": copied(old), "after": copied(new)} for kind, (old, new) in compared.copies.items()]
    peaks = [side.peak_bytes for side in compared.sides]
    if any(peak is not None for peak in peaks):
        before, after = ({"count": None, "bytes": peak, "ns": None} for peak in peaks)
        rows.append({"what": "peak in use", "before": before, "after": after})
    return rows


def _controls_json(controls: Controls) -> dict[str, Any]:
    return {
        **fields_json(controls, "ranges=names before_ns after_ns"),
        "change_share": controls.ratio - 1,
        "interval_ns": _whole_interval(controls.interval),
        **fields_json(controls, "may_be_noise=is_noise calls_seen=known corrected_step_delta_ns=corrected_delta_ns"),
    }


def _use_json(changes: Sequence[UseChange]) -> list[dict[str, Any]]:
    """Percent of what the GPU could do while the kernel ran, each with its interval."""
    from gpuledger.json_types import builtins
    from gpuledger.present.json.utilization import figure_json  # few profiles have samples

    return [
        {
            **fields_json(change.after_kernel, "name grid block"),
            "before_ns": change.before_kernel.time_ns,
            "after_ns": change.after_kernel.time_ns,
            "counter": change.metric.value,
            "before": builtins(figure_json(change.before)),
            "after": builtins(figure_json(change.after)),
        }
        for change in changes
    ]

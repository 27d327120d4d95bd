"""How long an operation takes, and how far that can be trusted; of two timed in turns, how they differ.

JSON is the document gpuledger.time/1, or gpuledger.timepair/1. A spreadsheet has a row per operation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.units import count_text, precise_time_text
from gpuledger.verdicts import PASS, UNDECIDED

if TYPE_CHECKING:
    from gpuledger.system.nvml import GpuReadings, SampledRange
    from gpuledger.timing.timer import TimedPair, Timing


def timing_document(name: str, timing: Timing, gpu: GpuReadings | None, unwatched: str) -> doc.Document:
    """The time of one call; JSON is the document gpuledger.time/1."""
    sheet, notes = (
        _sheet(timing, gpu),
        (*_settling_remarks(timing), *launch_remarks(timing), *gpu_remarks(gpu, unwatched)),
    )
    marked = tuple(say("note: {note}", note=note) for note in notes)
    return doc.Document(
        blocks=lambda: (
            doc.Opening(name, visible(_headline(timing))),
            doc.Conclusion(_verdict(timing)),
            doc.Only(doc.Medium.TEXT, (doc.SheetBlock(sheet), *((doc.Remarks(marked, 6),) if notes else ()))),
            doc.Only(
                doc.Medium.MARKDOWN,
                (doc.SheetBlock(sheet, doc.SheetTitle.NAMED), *((doc.Remarks(notes),) if notes else ())),
            ),
        ),
        data=doc.json_by("timing.timing_json", name, timing, gpu, unwatched),
        sheets=lambda: (_figures_sheet([_figures(name, timing, gpu)]),),
        remarks=marked,
    )


def _figures(name: str, timing: Timing, gpu: GpuReadings | None) -> dict[str, Any]:
    """One row, so that the rows of several operations make a table."""
    from gpuledger.json_types import builtins

    document = builtins(doc.json_by("timing.timing_json", name, timing, gpu, "")())
    apart = ("schema", "interval_ns", "samples_ns", "gpu", "gpu_not_watched")
    low, high = document["interval_ns"] or (None, None)
    seen = {key: None if gpu is None else getattr(gpu, key) for key in ("sm_mhz", "memory_mhz", "power_mw")}
    return {
        **{key: value for key, value in document.items() if key not in apart},
        "interval_low_ns": low,
        "interval_high_ns": high,
        **{key: sampled and sampled.median for key, sampled in seen.items()},
        "throttled": gpu and gpu.is_throttled,
    }


def _figures_sheet(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """Rows of like figures, for a spreadsheet: their keys say the unit."""
    columns = [Column(key, key, Unit.TEXT if isinstance(value, str) else Unit.FIGURE) for key, value in rows[0].items()]
    cells = [
        {key: value if value is None or isinstance(value, str) else json.dumps(value) for key, value in row.items()}
        for row in rows
    ]
    return Sheet.of("time", "One call", columns, cells)


def _sheet(timing: Timing, gpu: GpuReadings | None) -> Sheet:
    """One line per quantity."""
    median, *others = sample_rows(timing)
    columns = (
        Column("what", say("What"), Unit.TEXT, lambda row: row[0]),
        Column("value", say("Value"), Unit.TEXT, lambda row: row[1]),
    )
    rows = (median, (say("95 % interval"), _interval(timing)), *others, *gpu_rows(gpu))
    return Sheet.of("time", say("One call"), columns, rows)


def sample_rows(timing: Timing) -> list[tuple[str, str]]:
    """What the samples say, and how many they are."""
    spread = timing.spread
    calls: str = count_text(timing.calls)
    if timing.batch != 1:
        calls = say(
            "{calls} in {samples} samples of {batch}",
            calls=calls,
            samples=count_text(spread.samples),
            batch=count_text(timing.batch),
        )
    p10, p90, least, most = map(precise_time_text, (spread.p10_ns, spread.p90_ns, spread.least_ns, spread.most_ns))
    return [
        (say("median"), precise_time_text(spread.median_ns)),
        (say("p10 to p90"), say("{start} to {end}", start=p10, end=p90)),
        (say("min, max"), f"{least}, {most}"),
        (say("calls{per}", per=""), joined(say(", "), (calls, precise_time_text(timing.seconds * 1e9)))),
        (say("warm-up"), say("{count} calls", count=count_text(timing.warmup_calls))),
    ]


def gpu_rows(gpu: GpuReadings | None) -> list[tuple[str, str]]:
    """What the GPU did meanwhile, where it was watched."""
    if gpu is None:
        return []
    highest = say("max {clock}", clock=gpu.highest_sm_mhz) if gpu.highest_sm_mhz else ""
    limit = say("limit {power}", power=f"{gpu.power_limit_mw / 1000:.0f}") if gpu.power_limit_mw else ""
    return [
        (say("SM clock"), _range(gpu.sm_mhz, 1, "MHz", highest)),
        (say("memory clock"), _range(gpu.memory_mhz, 1, "MHz")),
        (say("power"), _range(gpu.power_mw, 1000, "W", limit)),
        (say("temperature"), _range(gpu.temperature_c, 1, "°C")),
        (say("throttled"), _throttling(gpu)),
    ]


def _settling_remarks(timing: Timing) -> list[str]:
    """What makes the time less certain than it seems."""
    lines = list[str]()
    drift = timing.spread.drift_share
    if not timing.is_settled:
        took, reached = precise_time_text(timing.seconds * 1e9), _reached(timing)
        lines.append(
            say("did not converge within {time}: {reached}; --seconds gives it longer.", time=took, reached=reached)
        )
    if abs(drift) > timing.target_share:
        share = f"{100 * abs(drift):.1f} %"
        slower = say(
            "the second half of the samples is {share} slower than the first: something changed, such as "
            "clocks or temperature.",
            share=share,
        )
        faster = say(
            "the second half of the samples is {share} faster than the first: something changed, such as "
            "clocks or temperature.",
            share=share,
        )
        lines.append(slower if drift > 0 else faster)
    return lines


def launch_remarks(timing: Timing) -> list[str]:
    """What else is in the time."""
    if timing.why_eager:
        why = timing.why_eager.rstrip(".")
        return [say("not as a CUDA graph: {why}. The time includes launch overhead.", why=why)]
    if timing.device == "cuda" and not timing.is_graph:
        return [say("not as a CUDA graph, as requested: the time includes launch overhead.")]
    return []


def gpu_remarks(gpu: GpuReadings | None, unwatched: str) -> list[str]:
    """What held the GPU back, or that it is not known."""
    held = [] if gpu is None else gpu.limits
    lines: list[str] = [
        say(
            "clocks were throttled by {what} in {share} of the checks.",
            what=limit.what,
            share=percent_text(limit.share),
        )
        for limit in held
    ]
    return [*lines, say("clocks, power and throttling are unknown: {why}.", why=unwatched)] if unwatched else lines


def _headline(timing: Timing) -> str:
    how = {(True, True): "CUDA graph", (True, False): say("eager")}.get((timing.device == "cuda", timing.is_graph), "")
    return joined(" · ", [part for part in (timing.device_name, how, caches_text(timing)) if part])


def caches_text(timing: Timing) -> str:
    """Whether the operation finds its inputs in the caches."""
    return say("cold caches") if timing.is_cold else say("warm caches")


def _verdict(timing: Timing) -> str:
    time = precise_time_text(timing.spread.median_ns)
    if timing.spread.interval_ns is None:
        return say(
            "One call takes {time}, with no interval: {samples} samples are too few.",
            time=time,
            samples=timing.spread.samples,
        )
    off = percent_text(timing.spread.off_share or 0.0)
    if timing.is_settled:
        return say("One call takes {time}, give or take {share}.", time=time, share=off)
    return say("One call takes {time}, give or take {share}, not converged.", time=time, share=off)


def _interval(timing: Timing) -> str:
    found = timing.spread.interval_ns
    asked = percent_text(timing.target_share)
    if found is None:
        return say(
            "none: {samples} samples are too few (asked for {asked})", samples=timing.spread.samples, asked=asked
        )
    low, high = map(precise_time_text, found)
    return say(
        "{low} to {high} ({share}, asked for {asked})",
        low=low,
        high=high,
        share=percent_text(timing.spread.off_share or 0.0),
        asked=asked,
    )


def _reached(timing: Timing) -> str:
    off = timing.spread.off_share
    asked = percent_text(timing.target_share)
    if off is None:
        return say("{samples} samples are too few for an interval", samples=timing.spread.samples)
    return say("the interval is within {share} of the median, asked for {asked}", share=percent_text(off), asked=asked)


def _throttling(gpu: GpuReadings) -> str:
    if not gpu.is_throttled:
        return say("no")
    what = ", ".join(limit.what for limit in gpu.limits if limit.is_throttling)
    return say("yes: {what}", what=what)


def _range(seen: SampledRange | None, divisor: int, unit: str, beside: str = "") -> str:
    """Median, and the rest where it differs."""
    if seen is None:
        return say("not reported by this GPU")
    least, middle, most = (f"{each / divisor:.0f}" for each in (seen.least, seen.median, seen.most))
    ends = say("{start} to {end}", start=least, end=most) if least != most else ""
    details = joined(say(", "), [part for part in (ends, beside) if part])
    figure = f"{middle} {unit}"
    return say("{figure} ({details})", figure=figure, details=details) if details else figure


def percent_text(share: float) -> str:
    """A share to two figures."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def timing_pair_document(
    names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str
) -> doc.Document:
    """The difference first, then both side by side."""
    sheet = _pair_sheet(names, pair, gpu)
    notes = tuple(say("note: {note}", note=note) for note in _pair_notes(names, pair, gpu, unwatched))
    closing = (doc.Remarks(notes, 6),) if notes else ()
    return doc.Document(
        blocks=lambda: (
            doc.Opening(
                f"{names[0]}, {names[1]}",
                visible(joined(" · ", (pair.first.device_name, caches_text(pair.first), say("in turns")))),
            ),
            doc.Conclusion(_pair_verdict(names, pair)),
            doc.Only(doc.Medium.TEXT, (doc.SheetBlock(sheet), *closing)),
            doc.Only(doc.Medium.MARKDOWN, (doc.SheetBlock(sheet, doc.SheetTitle.NAMED), *closing)),
        ),
        data=doc.json_by("timing.timing_pair_json", names, pair, gpu, unwatched),
        sheets=lambda: (_pair_rows(names, pair, gpu),),
        remarks=notes,
    )


def _pair_verdict(names: tuple[str, str], pair: TimedPair) -> str:
    spread, target = pair.spread, pair.first.target_share
    if spread.interval_share is None:
        return say("{rounds} rounds are too few to compare them.", rounds=spread.first.samples)
    low, high = spread.interval_share
    share, ends = percent_text(abs(spread.difference_share)), (f"{100 * low:+.2f} %", f"{100 * high:+.2f} %")
    interval = say("95 % interval {interval}", interval=say("{start} to {end}", start=ends[0], end=ends[1]))
    parts = {"second": names[1], "share": share, "first": names[0], "interval": interval}
    said = (
        say("{second} takes {share} more time than {first} ({interval})", **parts)
        if spread.difference_ns >= 0
        else say("{second} takes {share} less time than {first} ({interval})", **parts)
    )
    if pair.decision == PASS:
        said = say("{difference}: the same to within {share}", difference=said, share=percent_text(target))
    elif pair.decision == UNDECIDED:
        said = say(
            "UNDECIDED: {difference}: not enough to tell whether they differ by more than {share}",
            difference=said,
            share=percent_text(target),
        )
        if pair.deciding_seconds is not None:
            seconds = f"{pair.deciding_seconds:.3g}"
            said = say("{told}; --seconds={seconds} would, if nothing else changes", told=said, seconds=seconds)
    return say("{told}.", told=said) if pair.is_settled else say("{told}, not converged.", told=said)


def _pair_sheet(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None) -> Sheet:
    """One line per quantity; what the GPU did is the same for both."""
    both = zip(sample_rows(pair.first), sample_rows(pair.second), strict=True)
    rows: list[tuple[str, str, str]] = [(what, one, other) for (what, one), (_, other) in both]
    if pair.first.device == "cuda":
        first, second = ("CUDA graph" if side.is_graph else say("eager") for side in (pair.first, pair.second))
        rows.append((say("run as"), first, second))
    rows += [(what, value, "") for what, value in gpu_rows(gpu)]
    columns = (
        Column("what", say("What"), Unit.TEXT, lambda row: row[0]),
        Column("first", names[0], Unit.TEXT, lambda row: row[1]),
        Column("second", names[1], Unit.TEXT, lambda row: row[2]),
    )
    return Sheet.of("timepair", say("One call of each"), columns, rows)


def _pair_notes(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str) -> list[str]:
    notes = list[str]()
    if not pair.is_settled:
        off, target = pair.spread.off_share, percent_text(pair.first.target_share)
        reached = (
            say("too few rounds") if off is None else say("the difference is known to {share}", share=percent_text(off))
        )
        took = precise_time_text(pair.first.seconds * 1e9)
        notes.append(
            say(
                "did not converge within {time}: {reached}, asked for {asked}; --seconds gives it longer.",
                time=took,
                reached=reached,
                asked=target,
            )
        )
    if pair.first.is_graph != pair.second.is_graph:
        graph, eager = names if pair.first.is_graph else reversed(names)
        notes.append(
            say(
                "{graph} runs as a CUDA graph and {eager} does not: only one of them includes host time.",
                graph=graph,
                eager=eager,
            )
        )
    for name, timing in zip(names, (pair.first, pair.second), strict=True):
        notes += [say("{which}: {what}", which=name, what=note) for note in launch_remarks(timing)]
    return [*notes, *gpu_remarks(gpu, unwatched)]


def _pair_rows(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None) -> Sheet:
    """A row for each, the difference beside the second."""
    low, high = pair.spread.interval_ns or (None, None)
    empty = dict.fromkeys(("difference_ns", "difference_low_ns", "difference_high_ns", "difference_share"))
    difference = {
        "difference_ns": round(pair.spread.difference_ns, 3),
        "difference_low_ns": None if low is None else round(low, 3),
        "difference_high_ns": None if high is None else round(high, 3),
        "difference_share": round(pair.spread.difference_share, 6),
    }
    first, second = (_figures(name, timing, gpu) for name, timing in zip(names, (pair.first, pair.second), strict=True))
    return _figures_sheet([first | empty, second | difference])

"""Two operations timed in turns: what each takes, and how they differ. JSON is the document gpuledger.timepair/1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuledger.messages import joined, say
from gpuledger.present.document import Conclusion, Document, Medium, Only, Opening, Remarks, SheetBlock, SheetTitle
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.timing import (
    caches_text,
    figures_sheet,
    gpu_remarks,
    gpu_rows,
    launch_remarks,
    percent_text,
    sample_rows,
    timing_data,
    timing_figures,
)
from gpuledger.units import precise_time_text

if TYPE_CHECKING:
    from gpuledger.system.nvml import GpuReadings
    from gpuledger.timing.timer import TimedPair


def timing_pair_document(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str) -> Document:
    """The difference first, then both side by side."""
    sheet = _sheet(names, pair, gpu)
    notes = tuple(say("note: {note}", note=note) for note in _notes(names, pair, gpu, unwatched))
    closing = (Remarks(notes, 6),) if notes else ()
    return Document(
        blocks=lambda: (
            Opening(f"{names[0]}, {names[1]}", visible(_headline(pair))),
            Conclusion(_verdict(names, pair)),
            Only(Medium.TEXT, (SheetBlock(sheet), *closing)),
            Only(Medium.MARKDOWN, (SheetBlock(sheet, SheetTitle.NAMED), *closing)),
        ),
        data=lambda: _data(names, pair, gpu, unwatched),
        sheets=lambda: (_rows(names, pair, gpu),),
        remarks=notes,
    )


def _headline(pair: TimedPair) -> str:
    return joined(" · ", (pair.first.device_name, caches_text(pair.first), say("in turns")))


def _verdict(names: tuple[str, str], pair: TimedPair) -> str:
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
    verdict = spread.verdict(target)
    if verdict == "same":
        said = say("{difference}: the same to within {share}", difference=said, share=percent_text(target))
    elif verdict == "unknown":
        said = say(
            "{difference}: not enough to tell whether they differ by more than {share}",
            difference=said,
            share=percent_text(target),
        )
    return say("{told}.", told=said) if pair.is_settled else say("{told}, not converged.", told=said)


def _sheet(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None) -> Sheet:
    """One line per quantity; what the GPU did is the same for both."""
    both = zip(sample_rows(pair.first), sample_rows(pair.second), strict=True)
    rows: list[tuple[Cell, ...]] = [(what, one, other) for (what, one), (_, other) in both]
    if pair.first.device == "cuda":
        rows.append(
            (say("run as"), *("CUDA graph" if side.is_graph else say("eager") for side in (pair.first, pair.second)))
        )
    rows += [(what, value, "") for what, value in gpu_rows(gpu)]
    columns = (
        Column("what", say("What"), Unit.TEXT),
        Column("first", names[0], Unit.TEXT),
        Column("second", names[1], Unit.TEXT),
    )
    return Sheet("timepair", say("One call of each"), columns, tuple(rows))


def _notes(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str) -> list[str]:
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


def _data(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str) -> dict[str, Any]:
    spread, target = pair.spread, pair.first.target_share
    interval = spread.interval_ns
    return {
        "schema": "gpuledger.timepair/1",
        "verdict": spread.verdict(target),
        "difference_ns": round(spread.difference_ns, 3),
        "difference_share": round(spread.difference_share, 6),
        "interval_ns": None if interval is None else [round(bound, 3) for bound in interval],
        "interval_share": None if spread.interval_share is None else [round(each, 6) for each in spread.interval_share],
        "confidence_share": 0.95,
        "settled": pair.is_settled,
        "target_share": target,
        "rounds": spread.first.samples,
        "first": timing_data(names[0], pair.first, gpu, unwatched),
        "second": timing_data(names[1], pair.second, gpu, unwatched),
    }


def _rows(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None) -> Sheet:
    """A row for each, the difference beside the second."""
    low, high = pair.spread.interval_ns or (None, None)
    empty = dict.fromkeys(("difference_ns", "difference_low_ns", "difference_high_ns", "difference_share"))
    difference = {
        "difference_ns": round(pair.spread.difference_ns, 3),
        "difference_low_ns": None if low is None else round(low, 3),
        "difference_high_ns": None if high is None else round(high, 3),
        "difference_share": round(pair.spread.difference_share, 6),
    }
    first, second = (
        timing_figures(name, timing, gpu) for name, timing in zip(names, (pair.first, pair.second), strict=True)
    )
    return figures_sheet([first | empty, second | difference])

"""How long an operation takes, and how far that can be trusted; of two timed in turns, how they differ.

A spreadsheet has a row per operation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from gpuledger.json_types import builtins
from gpuledger.messages import joined, say
from gpuledger.present import document as doc
from gpuledger.present.safe_text import visible
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.system.nvml import GpuReadings, SampledRange
from gpuledger.units import count_text, precise_time_text
from gpuledger.verdicts import PASS, UNDECIDED

if TYPE_CHECKING:
    from gpuledger.timing.timer import TimedPair, Timing


class TimeAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.time/1"):
    """How long one call of an operation takes, and how far that can be trusted.

    A sample is the average over a batch of calls, so times have decimals. Shares are 0 to 1.
    """

    operation: str
    """MODULE:FUNCTION as it was given."""
    device: Literal["cuda", "cpu"]
    """Whose clock was used."""
    device_name: str
    graph: bool
    """Whether the operation ran as a CUDA graph; otherwise the time holds what the host takes to launch."""
    why_eager: str | None
    """Why it could not be a graph; null if it is one, or was not to be."""
    cold: bool
    """Whether a write larger than the L2 cache came before each call."""
    median_ns: float
    interval_ns: tuple[float, float] | None
    """Of the median, with 95 % confidence; null for fewer than 6 samples."""
    p10_ns: float
    p90_ns: float
    min_ns: float
    max_ns: float
    settled: bool
    """Whether the interval is within target_share of the median, and the halves of the samples differ by no more."""
    target_share: float
    reached_share: float | None
    """How far the interval reaches from the median, relative to it."""
    drift_share: float
    """The median of the second half of the samples against that of the first: 0.02 is 2 % slower."""
    samples: int
    batch: int
    """Calls in a sample."""
    calls: int
    warmup_calls: int
    seconds: float
    """How long measuring took, without the warm-up."""
    samples_ns: tuple[float, ...]
    """One call, sample by sample, in the order in which they were taken."""
    gpu: GpuReadings | None
    gpu_not_watched: str | None
    """Why there is no gpu, where one was used."""

    def blocks(self) -> Iterator[doc.Block]:
        how = {(True, True): "CUDA graph", (True, False): say("eager")}.get((self.device == "cuda", self.graph), "")
        about = joined(" · ", [part for part in (self.device_name, how, caches_text(self)) if part])
        yield doc.Opening(self.operation, visible(about))
        yield doc.Conclusion(self.sentences[0])
        yield doc.SheetBlock(_sheet(self))
        yield doc.Remarks(self.sentences[1:], 6)

    def document(self) -> doc.Document:
        sheets = (_figures_sheet([_figures(self)]),)
        return replace(super().document(), sheets=lambda: sheets, remarks=self.sentences[1:], page=None)


def time_answer(name: str, timing: Timing, gpu: GpuReadings | None, unwatched: str) -> TimeAnswer:
    """The time of one operation, with every sample, so that two can be compared later."""
    spread = timing.spread
    answer = TimeAnswer(
        operation=name,
        device="cuda" if timing.device == "cuda" else "cpu",
        device_name=timing.device_name,
        graph=timing.is_graph,
        why_eager=timing.why_eager or None,
        cold=timing.is_cold,
        median_ns=round(spread.median_ns, 3),
        interval_ns=_rounded(spread.interval_ns),
        p10_ns=round(spread.p10_ns, 3),
        p90_ns=round(spread.p90_ns, 3),
        min_ns=round(spread.least_ns, 3),
        max_ns=round(spread.most_ns, 3),
        settled=timing.is_settled,
        target_share=timing.target_share,
        reached_share=spread.off_share,
        drift_share=spread.drift_share,
        samples=spread.samples,
        batch=timing.batch,
        calls=timing.calls,
        warmup_calls=timing.warmup_calls,
        seconds=timing.seconds,
        samples_ns=tuple(round(sample, 3) for sample in timing.samples_ns),
        gpu=gpu,
        gpu_not_watched=unwatched or None,
    )
    notes = (*_settling_remarks(answer), *launch_remarks(answer), *gpu_remarks(answer))
    return replace(answer, sentences=(_verdict(answer), *(say("note: {note}", note=note) for note in notes)))


def _rounded(ends: tuple[float, float] | None) -> tuple[float, float] | None:
    return ends and (round(ends[0], 3), round(ends[1], 3))


def _figures(answer: TimeAnswer) -> dict[str, Any]:
    """One row, so that the rows of several operations make a table."""
    document, gpu = builtins(answer), answer.gpu
    apart = ("schema", "sentences", "interval_ns", "samples_ns", "gpu", "gpu_not_watched")
    low, high = answer.interval_ns or (None, None)
    seen = {key: gpu and getattr(gpu, key) for key in ("sm_mhz", "memory_mhz", "power_mw")}
    return {
        **{key: value for key, value in document.items() if key not in apart},
        "interval_low_ns": low,
        "interval_high_ns": high,
        **{key: sampled and sampled.median for key, sampled in seen.items()},
        "throttled": gpu and gpu.throttled,
    }


def _figures_sheet(rows: Sequence[Mapping[str, Any]]) -> Sheet:
    """Rows of like figures, for a spreadsheet: their keys say the unit."""
    columns = [Column(key, key, Unit.TEXT if isinstance(value, str) else Unit.FIGURE) for key, value in rows[0].items()]
    cells = [
        {key: value if value is None or isinstance(value, str) else json.dumps(value) for key, value in row.items()}
        for row in rows
    ]
    return Sheet.of("time", "One call", columns, cells)


def _sheet(answer: TimeAnswer) -> Sheet:
    """One line per quantity."""
    median, *others = sample_rows(answer)
    asked = percent_text(answer.target_share)
    interval = say("none: {samples} samples are too few (asked for {asked})", samples=answer.samples, asked=asked)
    if answer.interval_ns is not None:
        low, high = map(precise_time_text, answer.interval_ns)
        share = percent_text(answer.reached_share or 0.0)
        interval = say("{low} to {high} ({share}, asked for {asked})", low=low, high=high, share=share, asked=asked)
    return _text_sheet(
        "time",
        (say("What"), say("Value")),
        (median, (say("95 % interval"), interval), *others, *gpu_rows(answer.gpu)),
        say("One call"),
    )


def _text_sheet(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Sheet:
    columns = tuple(Column(str(place), head, Unit.TEXT, itemgetter(place)) for place, head in enumerate(heads))
    return Sheet.of(name, title, columns, rows)


def sample_rows(answer: TimeAnswer) -> list[tuple[str, str]]:
    """What the samples say, and how many they are."""
    calls: str = count_text(answer.calls)
    if answer.batch != 1:
        batches = {"samples": count_text(answer.samples), "batch": count_text(answer.batch)}
        calls = say("{calls} in {samples} samples of {batch}", calls=calls, **batches)
    p10, p90, least, most = map(precise_time_text, (answer.p10_ns, answer.p90_ns, answer.min_ns, answer.max_ns))
    return [
        (say("median"), precise_time_text(answer.median_ns)),
        (say("p10 to p90"), say("{start} to {end}", start=p10, end=p90)),
        (say("min, max"), f"{least}, {most}"),
        (say("calls{per}", per=""), joined(say(", "), (calls, precise_time_text(answer.seconds * 1e9)))),
        (say("warm-up"), say("{count} calls", count=count_text(answer.warmup_calls))),
    ]


def gpu_rows(gpu: GpuReadings | None) -> list[tuple[str, str]]:
    """What the GPU did meanwhile, where it was watched."""
    if gpu is None:
        return []
    what = ", ".join(limit.what for limit in gpu.limits if limit.is_throttling)
    highest = say("max {clock}", clock=gpu.highest_sm_mhz) if gpu.highest_sm_mhz else ""
    limit = say("limit {power}", power=f"{gpu.power_limit_mw / 1000:.0f}") if gpu.power_limit_mw else ""
    return [
        (say("SM clock"), _range(gpu.sm_mhz, 1, "MHz", highest)),
        (say("memory clock"), _range(gpu.memory_mhz, 1, "MHz")),
        (say("power"), _range(gpu.power_mw, 1000, "W", limit)),
        (say("temperature"), _range(gpu.temperature_c, 1, "°C")),
        (say("throttled"), say("yes: {what}", what=what) if gpu.throttled else say("no")),
    ]


def _settling_remarks(answer: TimeAnswer) -> Iterator[str]:
    """What makes the time less certain than it seems."""
    drift, off, asked = answer.drift_share, answer.reached_share, percent_text(answer.target_share)
    if not answer.settled:
        reached = say("{samples} samples are too few for an interval", samples=answer.samples)
        if off is not None:
            off_text = percent_text(off)
            reached = say(
                "the interval is within {share} of the median, asked for {asked}", share=off_text, asked=asked
            )
        took = precise_time_text(answer.seconds * 1e9)
        yield say("did not converge within {time}: {reached}; --seconds gives it longer.", time=took, reached=reached)
    share = f"{100 * abs(drift):.1f} %"
    if drift > answer.target_share:
        yield say(
            "the second half of the samples is {share} slower than the first: something changed, such as "
            "clocks or temperature.",
            share=share,
        )
    elif -drift > answer.target_share:
        yield say(
            "the second half of the samples is {share} faster than the first: something changed, such as "
            "clocks or temperature.",
            share=share,
        )


def launch_remarks(answer: TimeAnswer) -> list[str]:
    """What else is in the time."""
    if answer.why_eager:
        why = answer.why_eager.rstrip(".")
        return [say("not as a CUDA graph: {why}. The time includes launch overhead.", why=why)]
    if answer.device == "cuda" and not answer.graph:
        return [say("not as a CUDA graph, as requested: the time includes launch overhead.")]
    return []


def gpu_remarks(answer: TimeAnswer) -> Iterator[str]:
    """What held the GPU back, or that it is not known."""
    for limit in () if answer.gpu is None else answer.gpu.limits:
        share = percent_text(limit.share)
        yield say("clocks were throttled by {what} in {share} of the checks.", what=limit.what, share=share)
    if answer.gpu_not_watched:
        yield say("clocks, power and throttling are unknown: {why}.", why=answer.gpu_not_watched)


def caches_text(answer: TimeAnswer) -> str:
    """Whether the operation finds its inputs in the caches."""
    return say("cold caches") if answer.cold else say("warm caches")


def _verdict(answer: TimeAnswer) -> str:
    figures = {"time": precise_time_text(answer.median_ns), "share": percent_text(answer.reached_share or 0.0)}
    if answer.interval_ns is None:
        few = {"time": figures["time"], "samples": answer.samples}
        return say("One call takes {time}, with no interval: {samples} samples are too few.", **few)
    if answer.settled:
        return say("One call takes {time}, give or take {share}.", **figures)
    return say("One call takes {time}, give or take {share}, not converged.", **figures)


def _range(seen: SampledRange | None, divisor: int, unit: str, beside: str = "") -> str:
    """Median, and the rest where it differs."""
    if seen is None:
        return say("not reported by this GPU")
    least, middle, most = (f"{each / divisor:.0f}" for each in (seen.min, seen.median, seen.max))
    ends = say("{start} to {end}", start=least, end=most) if least != most else ""
    details = joined(say(", "), [part for part in (ends, beside) if part])
    figure = f"{middle} {unit}"
    return say("{figure} ({details})", figure=figure, details=details) if details else figure


def percent_text(share: float) -> str:
    """A share to two figures."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


class TimedPairAnswer(VerbAnswer, frozen=True, kw_only=True, tag="gpuledger.timepair/1"):
    """Two operations timed in turns, and how the second differs from the first, round by round.

    Shares are of the first's median.
    """

    verdict: Literal["same", "slower", "faster", "unknown"]
    """What the second is: the same if the whole interval is within target_share of no difference; unknown where the
    interval does not say."""
    decision: Literal["PASS", "FAIL", "UNDECIDED"]
    """Whether they are the same to within target_share; UNDECIDED where the interval holds it."""
    deciding_seconds: float | None
    """The --seconds that would decide; null if decided."""
    difference_ns: float
    """The median over the rounds of what the second takes more."""
    difference_share: float
    interval_ns: tuple[float, float] | None
    """Of the difference, with 95 % confidence; null for fewer than 6 rounds."""
    interval_share: tuple[float, float] | None
    settled: bool
    """Whether the difference is known to target_share."""
    reached_share: float | None
    """How far the interval reaches from the difference."""
    target_share: float
    rounds: int
    first: TimeAnswer
    second: TimeAnswer

    def blocks(self) -> Iterator[doc.Block]:
        about = joined(" · ", (self.first.device_name, caches_text(self.first), say("in turns")))
        yield doc.Opening(f"{self.first.operation}, {self.second.operation}", visible(about))
        yield doc.Conclusion(self.sentences[0])
        yield doc.SheetBlock(_pair_sheet(self))
        yield doc.Remarks(self.sentences[1:], 6)

    def document(self) -> doc.Document:
        sheets = (_pair_rows(self),)
        return replace(super().document(), sheets=lambda: sheets, remarks=self.sentences[1:], page=None)


def timed_pair_answer(
    names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str
) -> TimedPairAnswer:
    """The difference of two operations, and the time of each."""
    spread, target = pair.spread, pair.first.target_share
    answer = TimedPairAnswer(
        verdict=spread.verdict(target),
        decision=pair.decision,
        deciding_seconds=None if pair.deciding_seconds is None else round(pair.deciding_seconds, 3),
        difference_ns=round(spread.difference_ns, 3),
        difference_share=spread.difference_share,
        interval_ns=_rounded(spread.interval_ns),
        interval_share=spread.interval_share,
        settled=pair.is_settled,
        reached_share=spread.off_share,
        target_share=target,
        rounds=spread.first.samples,
        first=time_answer(names[0], pair.first, gpu, unwatched),
        second=time_answer(names[1], pair.second, gpu, unwatched),
    )
    notes = (say("note: {note}", note=note) for note in _pair_notes(answer))
    return replace(answer, sentences=(_pair_verdict(answer), *notes))


def _pair_verdict(pair: TimedPairAnswer) -> str:
    if pair.interval_share is None:
        return say("{rounds} rounds are too few to compare them.", rounds=pair.rounds)
    low, high = pair.interval_share
    share, ends = percent_text(abs(pair.difference_share)), (f"{100 * low:+.2f} %", f"{100 * high:+.2f} %")
    interval = say("95 % interval {interval}", interval=say("{start} to {end}", start=ends[0], end=ends[1]))
    parts = {"second": pair.second.operation, "share": share, "first": pair.first.operation, "interval": interval}
    said = (
        say("{second} takes {share} more time than {first} ({interval})", **parts)
        if pair.difference_ns >= 0
        else say("{second} takes {share} less time than {first} ({interval})", **parts)
    )
    if pair.decision == PASS:
        said = say("{difference}: the same to within {share}", difference=said, share=percent_text(pair.target_share))
    elif pair.decision == UNDECIDED:
        said = say(
            "UNDECIDED: {difference}: not enough to tell whether they differ by more than {share}",
            difference=said,
            share=percent_text(pair.target_share),
        )
        if pair.deciding_seconds is not None:
            seconds = f"{pair.deciding_seconds:.3g}"
            said = say("{told}; --seconds={seconds} would, if nothing else changes", told=said, seconds=seconds)
    return say("{told}.", told=said) if pair.settled else say("{told}, not converged.", told=said)


def _pair_sheet(pair: TimedPairAnswer) -> Sheet:
    """One line per quantity; what the GPU did is the same for both."""
    both = zip(sample_rows(pair.first), sample_rows(pair.second), strict=True)
    rows: list[tuple[str, str, str]] = [(what, one, other) for (what, one), (_, other) in both]
    if pair.first.device == "cuda":
        first, second = ("CUDA graph" if side.graph else say("eager") for side in (pair.first, pair.second))
        rows.append((say("run as"), first, second))
    rows += [(what, value, "") for what, value in gpu_rows(pair.first.gpu)]
    heads = (say("What"), pair.first.operation, pair.second.operation)
    return _text_sheet("timepair", heads, rows, say("One call of each"))


def _pair_notes(pair: TimedPairAnswer) -> Iterator[str]:
    if not pair.settled:
        off = pair.reached_share
        reached = (
            say("too few rounds") if off is None else say("the difference is known to {share}", share=percent_text(off))
        )
        yield say(
            "did not converge within {time}: {reached}, asked for {asked}; --seconds gives it longer.",
            time=precise_time_text(pair.first.seconds * 1e9),
            reached=reached,
            asked=percent_text(pair.target_share),
        )
    if pair.first.graph != pair.second.graph:
        graph, eager = (side.operation for side in sorted((pair.first, pair.second), key=lambda side: not side.graph))
        yield say(
            "{graph} runs as a CUDA graph and {eager} does not: only one of them includes host time.",
            graph=graph,
            eager=eager,
        )
    for side in (pair.first, pair.second):
        for note in launch_remarks(side):
            yield say("{which}: {what}", which=side.operation, what=note)
    yield from gpu_remarks(pair.first)


def _pair_rows(pair: TimedPairAnswer) -> Sheet:
    """A row for each, the difference beside the second."""
    low, high = pair.interval_ns or (None, None)
    difference = {
        "difference_ns": pair.difference_ns,
        "difference_low_ns": low,
        "difference_high_ns": high,
        "difference_share": pair.difference_share,
    }
    return _figures_sheet([_figures(pair.first) | dict.fromkeys(difference), _figures(pair.second) | difference])

"""How long operations take, for programs: gpuledger.time/1 and gpuledger.timepair/1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from msgspec import Meta

from gpuledger.json_types import Count, Json, Share
from gpuledger.present.json.types import fill

if TYPE_CHECKING:
    from gpuledger.system.nvml import GpuReadings, SampledRange
    from gpuledger.timing.timer import TimedPair, Timing

_AtLeastZero: TypeAlias = Annotated[float, Meta(ge=0)]
_AtLeastOne: TypeAlias = Annotated[int, Meta(ge=1)]
_Confidence: TypeAlias = Annotated[float, Meta(extra_json_schema={"const": 0.95})]
_TargetShare: TypeAlias = Annotated[float, Meta(gt=0, lt=1)]
_Interval: TypeAlias = Annotated[list[float], Meta(min_length=2, max_length=2)]


class SampledRangeJson(Json):
    min: int
    median: int
    max: int


class ClockLimitJson(Json):
    what: str
    share: Share
    throttling: bool


class GpuReadingsJson(Json):
    """What NVML said of the GPU meanwhile; null where it was not asked."""

    looks: _AtLeastOne
    sm_mhz: SampledRangeJson | None
    highest_sm_mhz: int | None
    memory_mhz: SampledRangeJson | None
    power_mw: SampledRangeJson | None
    power_limit_mw: int | None
    temperature_c: SampledRangeJson | None
    throttled: Annotated[bool, Meta(description="Whether anything but a setting held the clocks down.")]
    limits: list[ClockLimitJson]
    """What held the clocks down, and in which share of the looks at the busy GPU."""


class TimeJson(Json):
    """How long one call of an operation takes, and how far that can be trusted.

    A sample is the average over a batch of calls, so times have decimals. Shares are 0 to 1.
    """

    schema: Literal["gpuledger.time/1"]
    operation: Annotated[str, Meta(description="MODULE:FUNCTION as it was given.")]
    device: Annotated[Literal["cuda", "cpu"], Meta(description="Whose clock was used.")]
    device_name: str
    graph: bool
    """Whether the operation ran as a CUDA graph; otherwise the time holds what the host takes to launch."""
    why_eager: str | None
    """Why it could not be a graph; null if it is one, or was not to be."""
    cold: Annotated[bool, Meta(description="Whether a write larger than the L2 cache came before each call.")]
    median_ns: _AtLeastZero
    interval_ns: Annotated[list[_AtLeastZero], Meta(min_length=2, max_length=2)] | None
    """Of the median; null for fewer than 6 samples."""
    confidence_share: _Confidence
    p10_ns: _AtLeastZero
    p90_ns: _AtLeastZero
    min_ns: _AtLeastZero
    max_ns: _AtLeastZero
    settled: bool
    """Whether the interval is within target_share of the median, and the halves of the samples differ by no more."""
    target_share: _TargetShare
    reached_share: _AtLeastZero | None
    """How far the interval reaches from the median, relative to it."""
    drift_share: float
    """The median of the second half of the samples against that of the first: 0.02 is 2 % slower."""
    samples: _AtLeastOne
    batch: Annotated[_AtLeastOne, Meta(description="Calls in a sample.")]
    calls: _AtLeastOne
    warmup_calls: Count
    seconds: Annotated[_AtLeastZero, Meta(description="How long measuring took, without the warm-up.")]
    samples_ns: Annotated[list[_AtLeastZero], Meta(min_length=1)]
    """One call, sample by sample, in the order in which they were taken."""
    gpu: GpuReadingsJson | None
    gpu_not_watched: Annotated[str | None, Meta(description="Why there is no gpu, where one was used.")]


class TimePairJson(Json):
    """Two operations timed in turns, and how the second differs from the first, round by round.

    Shares are of the first's median.
    """

    schema: Literal["gpuledger.timepair/1"]
    verdict: Literal["same", "slower", "faster", "unknown"]
    """What the second is: the same if the whole interval is within target_share of no difference; unknown where the
    interval does not say."""
    decision: Literal["PASS", "FAIL", "UNDECIDED"]
    """Whether they are the same to within target_share; UNDECIDED where the interval holds it."""
    deciding_seconds: Annotated[float | None, Meta(description="The --seconds that would decide; null if decided.")]
    difference_ns: Annotated[float, Meta(description="The median over the rounds of what the second takes more.")]
    difference_share: float
    interval_ns: Annotated[_Interval | None, Meta(description="Of the difference; null for fewer than 6 rounds.")]
    interval_share: _Interval | None
    confidence_share: _Confidence
    settled: Annotated[bool, Meta(description="Whether the difference is known to target_share.")]
    target_share: _TargetShare
    rounds: _AtLeastOne
    first: TimeJson
    second: TimeJson


def timing_json(name: str, timing: Timing, gpu: GpuReadings | None, unwatched: str) -> TimeJson:
    """The time of one operation, with every sample, so that two can be compared later."""
    spread = timing.spread
    return fill(
        TimeJson,
        timing,
        schema="gpuledger.time/1",
        operation=name,
        graph=timing.is_graph,
        why_eager=timing.why_eager or None,
        cold=timing.is_cold,
        median_ns=round(spread.median_ns, 3),
        interval_ns=_rounded(spread.interval_ns, 3),
        confidence_share=0.95,
        p10_ns=round(spread.p10_ns, 3),
        p90_ns=round(spread.p90_ns, 3),
        min_ns=round(spread.least_ns, 3),
        max_ns=round(spread.most_ns, 3),
        settled=timing.is_settled,
        reached_share=None if spread.off_share is None else round(spread.off_share, 6),
        drift_share=round(spread.drift_share, 6),
        samples=spread.samples,
        seconds=round(timing.seconds, 3),
        samples_ns=[round(sample, 3) for sample in timing.samples_ns],
        gpu=None if gpu is None else _readings(gpu),
        gpu_not_watched=unwatched or None,
    )


def _rounded(ends: tuple[float, float] | None, digits: int) -> list[float] | None:
    return [round(end, digits) for end in ends] if ends else None


def _readings(gpu: GpuReadings) -> GpuReadingsJson:
    def ends(seen: SampledRange | None) -> SampledRangeJson | None:
        return None if seen is None else SampledRangeJson(seen.least, seen.median, seen.most)

    return fill(
        GpuReadingsJson,
        gpu,
        sm_mhz=ends(gpu.sm_mhz),
        memory_mhz=ends(gpu.memory_mhz),
        power_mw=ends(gpu.power_mw),
        temperature_c=ends(gpu.temperature_c),
        throttled=gpu.is_throttled,
        limits=[ClockLimitJson(limit.what, round(limit.share, 4), limit.is_throttling) for limit in gpu.limits],
    )


def timing_pair_json(names: tuple[str, str], pair: TimedPair, gpu: GpuReadings | None, unwatched: str) -> TimePairJson:
    """The difference of two operations, and the time of each."""
    spread, target = pair.spread, pair.first.target_share
    return TimePairJson(
        schema="gpuledger.timepair/1",
        verdict=spread.verdict(target),
        decision=pair.decision,
        deciding_seconds=None if pair.deciding_seconds is None else round(pair.deciding_seconds, 3),
        difference_ns=round(spread.difference_ns, 3),
        difference_share=round(spread.difference_share, 6),
        interval_ns=_rounded(spread.interval_ns, 3),
        interval_share=_rounded(spread.interval_share, 6),
        confidence_share=0.95,
        settled=pair.is_settled,
        target_share=target,
        rounds=spread.first.samples,
        first=timing_json(names[0], pair.first, gpu, unwatched),
        second=timing_json(names[1], pair.second, gpu, unwatched),
    )

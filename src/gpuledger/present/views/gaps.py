"""Gaps as tables: by cause, by trigger, by length, and the longest ones, or all from some length on."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.gap_summary import LONGEST, GapSummary
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import say
from gpuledger.present.digits import percent
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, cause_term, trigger_term
from gpuledger.units import count_text, share_text, time_text

_TIME: Final = Column("time_ns", say("Time"), Unit.NS)
_SHARE: Final = Column("share_percent", say("Share"), Unit.SHARE_PERCENT)
_GAPS: Final = Column("gaps", say("Gaps"), Unit.COUNT)
_CAUSES: Final = (Column("cause", say("Cause"), Unit.TEXT), _TIME, _SHARE)
_TRIGGERS: Final = (
    Column("trigger", say("Trigger"), Unit.TEXT),
    Column("call", say("Call"), Unit.TEXT),
    _GAPS,
    _TIME,
    _SHARE,
)
_LENGTHS: Final = (Column("length", say("Length"), Unit.TEXT), _GAPS, _TIME, _SHARE)
_LONGEST: Final = (
    Column("length_ns", say("Length"), Unit.NS),
    Column("start_ns", say("Start"), Unit.INSTANT_NS),
    Column("end_ns", say("End"), Unit.INSTANT_NS, detail=1),
    Column("trigger", say("Trigger"), Unit.TEXT),
    Column("cause", say("Largest cause"), Unit.TEXT, detail=2),
    Column("cause_ns", say("Cause"), Unit.NS, detail=3),
    Column("before", say("Before"), Unit.TEXT, detail=4, shorten=label),
    Column("range", say("Range"), Unit.TEXT, detail=5),
    Column("tid", say("Thread"), Unit.ID, detail=6),
    Column("after", say("After"), Unit.TEXT, shorten=label),
)
_LENGTH_WORDS: Final = {"under 1 us": say("under 1 us"), "over 1 ms": say("over 1 ms")}


def gap_sheets(summary: GapSummary) -> list[Sheet]:
    """All tables about one GPU's gaps."""
    return [causes_sheet(summary), triggers_sheet(summary), lengths_sheet(summary), longest_sheet(summary)]


def length_words(bucket: str) -> str:
    """What gaps of about one length are called: words in the reader's language, or numbers."""
    return _LENGTH_WORDS.get(bucket, bucket)


def causes_sheet(summary: GapSummary) -> Sheet:
    """Idle time of the whole window by cause."""
    whole = summary.idle_ns
    return Sheet(
        f"gaps_by_cause_gpu{summary.gpu}",
        say("Idle time by cause, GPU {gpu}", gpu=summary.gpu),
        _CAUSES,
        tuple((cause_term(line.cause), line.time_ns, percent(line.time_ns, whole)) for line in summary.by_cause),
        foot=((TOTAL, whole, percent(whole, whole)),),
        rounded=True,
    )


def triggers_sheet(summary: GapSummary) -> Sheet:
    """Idle time of the steady steps by what set it off."""
    return Sheet(
        f"gaps_by_trigger_gpu{summary.gpu}",
        say("Idle time by trigger, steady steps, GPU {gpu}", gpu=summary.gpu),
        _TRIGGERS,
        tuple(
            (
                trigger_term(line.trigger),
                line.call,
                line.gaps,
                line.time_ns,
                percent(line.time_ns, summary.steady_idle_ns),
            )
            for line in summary.by_trigger
        ),
        rounded=True,
    )


def lengths_sheet(summary: GapSummary) -> Sheet:
    """Gaps of the whole window by their length."""
    return Sheet(
        f"gaps_by_length_gpu{summary.gpu}",
        say("Gaps by length, GPU {gpu}", gpu=summary.gpu),
        _LENGTHS,
        tuple(
            (length_words(bucket.name), bucket.gaps, bucket.time_ns, percent(bucket.time_ns, summary.idle_ns))
            for bucket in summary.by_length
        ),
        rounded=True,
    )


def longest_sheet(summary: GapSummary) -> Sheet:
    """The longest gaps, or all of the length that was asked for, one by one."""
    title: str
    name, title = (
        f"gaps_longest_gpu{summary.gpu}",
        say("The {count} longest gaps, GPU {gpu}", count=LONGEST, gpu=summary.gpu),
    )
    if summary.least_ns is not None:
        name, title = f"gaps_over_gpu{summary.gpu}", _listed_words(summary, summary.least_ns)
    return Sheet(
        name,
        title,
        _LONGEST,
        tuple(
            (
                gap.length_ns,
                gap.start_ns,
                gap.end_ns,
                trigger_term(gap.trigger, gap.drained_by),
                cause_term(gap.largest_cause),
                gap.largest_cause_ns,
                gap.before,
                " > ".join(gap.ranges),
                gap.tid,
                gap.after,
            )
            for gap in summary.longest
        ),
        rounded=True,
    )


def _listed_words(summary: GapSummary, least_ns: int) -> str:
    """How many gaps are that long, and what they hold."""
    held_ns = sum(gap.length_ns for gap in summary.longest)
    return say(
        "{count} of {gaps} gaps are {time} or longer, {share} of the idle time, GPU {gpu}",
        count=count_text(len(summary.longest)),
        gaps=count_text(summary.gaps),
        time=time_text(least_ns),
        share=share_text(held_ns / summary.idle_ns if summary.idle_ns else 0.0),
        gpu=summary.gpu,
    )

"""One stretch of a run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.analyse.timeline.events import EventFinder, Events, EventSource
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import ticks
from gpuledger.present.charts.over_time import LaneBar, LaneRow, lane_chart
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import TONES
from gpuledger.present.terms import event_codes, event_words, track_words
from gpuledger.trace.spans import Span
from gpuledger.units import count_text, instant_text, time_text

_MOST_EVENTS: Final = 3_000
_MOST_GAPS: Final = 500
_MOST_TRACKS: Final = 8
_MOST_LANES: Final = 6
"""Of one track: deeper nesting is not drawn."""


def timeline_picture(run: ProfiledRun, device: Device, span: Span, tell: doc.Tell) -> Picture:
    """The stretch, on the clock of `--time`; the shortest records are left out where there are too many."""
    finder = EventFinder(run.trace, device.host, device.work)
    events = finder.events(span, _MOST_EVENTS)
    rows = [_idle(device, span, tell), *_tracks(run, finder, events, tell)]
    start_ns, length = span.start_ns - run.zero_ns, span.end_ns - span.start_ns
    title = say(
        "{profile}, from {start}, {time}", profile=run.name, start=instant_text(start_ns), time=time_text(length)
    )
    drawn = say("{count} events are drawn", count=count_text(len(events)))
    if events.left_out:
        drawn = say(
            "{drawn}; {count} of {time} or less are not",
            drawn=drawn,
            count=count_text(events.left_out),
            time=time_text(events.least_ns),
        )
    marks = [(at / max(length, 1), f"+{time_text(round(at))}") for at in ticks(float(length), 1.0, 5)]
    return lane_chart(tell(title), tell(drawn), rows, marks, _legend(rows, tell))


def _idle(device: Device, span: Span, tell: doc.Tell) -> LaneRow:
    """The gaps of the GPU, each by what set it off."""
    gaps = device.ledger.gaps
    here = np.flatnonzero((gaps.end_ns > span.start_ns) & (gaps.start_ns < span.end_ns))
    here = np.sort(here[np.argsort(-gaps.length_ns[here], kind="stable")[:_MOST_GAPS]])
    bars = [
        _bar(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]), span, 0, f"idle-{trigger}", tell(trigger.label))
        for gap, trigger in ((gap, TRIGGERS[gaps.trigger[gap]]) for gap in here.tolist())
    ]
    return LaneRow(tell(say("GPU {gpu} idle, by trigger", gpu=device.gpu)), bars, hatched=True)


def _tracks(run: ProfiledRun, finder: EventFinder, events: Events, tell: doc.Tell) -> list[LaneRow]:
    """Streams, then threads: those with the most records."""
    count = np.bincount(events.track, minlength=len(events.tracks))
    codes, kinds = event_codes(finder, events)
    rows = []
    for track in sorted(np.argsort(-count, kind="stable")[:_MOST_TRACKS].tolist()):
        bars = []
        for at in np.flatnonzero((events.track == track) & (events.lane < _MOST_LANES)).tolist():
            text = run.trace.strings.text(int(codes[at]))
            name, tone, _ = event_words(finder, EventSource(int(events.source[at])), text, int(kinds[at]))
            start, end, lane = (int(column[at]) for column in (events.start_ns, events.end_ns, events.lane))
            bars.append(_bar(start, end, events.span, lane, tone, name))
        rows.append(LaneRow(tell(track_words(run, events.tracks[track])), bars))
    return rows


def _bar(start_ns: int, end_ns: int, span: Span, lane: int, tone: str, name: str) -> LaneBar:
    """What of it lies in the stretch."""
    length = max(span.end_ns - span.start_ns, 1)
    first, last = max(start_ns, span.start_ns), min(end_ns, span.end_ns)
    return LaneBar((first - span.start_ns) / length, (last - first) / length, lane, tone, name)


def _legend(rows: Sequence[LaneRow], tell: doc.Tell) -> tuple[tuple[str, str], ...]:
    """What the tones mean, in the order of the palette."""
    used = {bar.tone for row in rows for bar in row.bars}
    words = {
        "comm": say("communication"),
        "copy": say("copies"),
        "host-range": say("range"),
        "host-operator": say("operator"),
        "host-python": say("Python function"),
        **{f"idle-{trigger}": trigger.label for trigger in TRIGGERS},
    }
    return tuple((tone, tell(words.get(tone, tone.removeprefix("compute-")))) for tone in TONES if tone in used)

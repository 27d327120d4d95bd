"""What a timeline shows of one GPU: the answer of `gpuledger kernels PROFILE` (use of the GPU where it was sampled, and
a step's kernels in order), and one stretch of a run as a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.analyse.kernels.step_kernels import StepOverview
from gpuledger.analyse.timeline import EventFinder, Events, EventSource
from gpuledger.answers.kernels import TimelineUse
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import label
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present import document as doc
from gpuledger.present.charts.amounts import ticks
from gpuledger.present.charts.over_time import LaneBar, LaneRow, lane_chart
from gpuledger.present.charts.svg import Picture
from gpuledger.present.digits import shape_text
from gpuledger.present.palette import TONES
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.terms import event_words, track_words
from gpuledger.present.views.light import lit_columns
from gpuledger.present.views.tables import stretch_sheet, tables_page
from gpuledger.present.views.utilization import against_blocks, shown_sheet, use_answer, use_sheet
from gpuledger.trace.model import Note
from gpuledger.trace.spans import Span, furthest
from gpuledger.units import count_text, instant_text, time_text

_COLUMNS: Final = (
    Column("number", "#", Unit.ID),
    Column("kernel", say("Kernel"), Unit.TEXT, shorten=label),
    Column("calls", say("Calls"), Unit.COUNT),
    Column("time_ns", say("Time per step"), Unit.NS),
    Column("share_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("call_ns", say("One call"), Unit.NS, detail=2),
    Column("family", say("Family"), Unit.TEXT, detail=4),
    Column("range", say("Place"), Unit.TEXT, detail=3),
    Column("layers", say("Layers"), Unit.COUNT, detail=5),
    Column("grid", say("Grid"), Unit.TEXT, detail=6),
    Column("block", say("Block"), Unit.TEXT, detail=7),
)
_EACH: Final = (
    *_COLUMNS[:2],
    Column("start_ns", say("Start"), Unit.INSTANT_NS),
    Column("duration_ns", say("Time"), Unit.NS),
    Column("gap_ns", say("Gap before"), Unit.NS, detail=1),
    *(column for column in _COLUMNS if column.key in ("family", "range")),
    Column("stream", say("Stream"), Unit.ID, detail=5),
    *(column for column in _COLUMNS if column.key in ("grid", "block")),
)


def step_kernels_sheet(overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...] = ()) -> Sheet:
    """One row per kernel: like launches at one place together, in the order in which each is first launched."""
    steps, whole_ns = device.step_count, overview.time_ns
    lit = lit_columns(lambda kernel: kernel.lit, [kernel.lit for kernel in overview.entries], whole_ns, steps, 1)
    rows: list[tuple[Cell, ...]] = [
        (
            number,
            kernel.name,
            kernel.calls,
            kernel.time_ns // steps,
            100 * kernel.time_ns / whole_ns,
            kernel.mean_ns,
            family(kernel.name, families),
            " > ".join(kernel.place),
            overview.layers if kernel.in_layer else None,
            shape_text(kernel.grid),
            shape_text(kernel.block),
            *(column.getter(kernel) for column in lit),
        )
        for number, kernel in enumerate(overview.entries, 1)
    ]
    unrecorded = say("(graphs whose kernels were not recorded)")
    blank: tuple[Cell, ...] = (None,) * (len(_COLUMNS) + len(lit) - 5)
    foot = [(*_foot(unrecorded, overview.other_ns, overview, steps), *blank)] if overview.other_ns else []
    calls = sum(kernel.calls for kernel in overview.entries)
    foot.append((*_foot(say("compute"), whole_ns, overview, steps, calls), *blank))
    sheet = Sheet(f"kernels_gpu{device.gpu}", _title(device), (*_COLUMNS, *lit), tuple(rows), tuple(foot))
    return stretch_sheet(sheet, has_steps=device.steps is not None)


def step_launches_sheet(overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...] = ()) -> Sheet:
    """One row per launch of one step, that with the usual number of kernels, in the order of execution."""
    launches = overview.launches
    start, end = device.work.start_ns[launches], device.work.end_ns[launches]
    before = np.maximum(start[1:] - furthest(end)[:-1], 0).tolist() if len(start) else []
    streams = device.work.stream[launches].tolist()
    kernels = [overview.entries[entry] for entry in overview.sequence]
    times = (start.tolist(), (end - start).tolist(), [None, *before], streams)
    rows: list[tuple[Cell, ...]] = [
        (
            number,
            kernel.name,
            begun - device.zero_ns,
            length,
            gap,
            family(kernel.name, families),
            " > ".join(kernel.place),
            stream,
            shape_text(kernel.grid),
            shape_text(kernel.block),
        )
        for number, (kernel, begun, length, gap, stream) in enumerate(zip(kernels, *times, strict=False), 1)
    ]
    title = say("Every launch of one step in execution order, GPU {gpu}", gpu=device.gpu)
    return Sheet(f"launches_in_order_gpu{device.gpu}", title, _EACH, tuple(rows))


def _title(device: Device) -> Message:
    if device.steps is None:
        return say("Kernels of the window in execution order, GPU {gpu} (shares of compute)", gpu=device.gpu)
    return say(
        "Kernels in execution order, GPU {gpu} (calls in all {steps} steps; shares of compute)",
        gpu=device.gpu,
        steps=count_text(device.step_count),
    )


def _foot(name: str, time_ns: int, overview: StepOverview, steps: int, calls: int | None = None) -> tuple[Cell, ...]:
    share = 100 * time_ns / overview.time_ns if overview.time_ns else None
    return None, name, calls, time_ns // steps, share


def timeline_document(
    profile: str,
    answer: TimelineUse,
    in_order: Sequence[Sheet],
    notes: Sequence[Note],
    zero_ns: int,
    *,
    unsampled: Sequence[str] = (),
) -> doc.Document:
    """All GPUs; `in_order` has a table of kernels each. JSON is the document gpuledger.stepkernels/1.

    `unsampled` is said first where no GPU was sampled.
    """
    sampled = answer.sampled.values()
    sentences: Sequence[str] = [
        sentence for kernels, stretches in sampled for sentence in use_answer(kernels, stretches)
    ]
    sentences = sentences or unsampled
    shown = (*(shown_sheet(kernels) for kernels, _ in sampled), *in_order)
    opening: list[doc.Block] = [doc.Conclusion(sentences[0]), *map(doc.Paragraph, sentences[1:])] if sentences else []

    return doc.Document(
        blocks=lambda: (
            *opening,
            *(block for compared in answer.against or () for block in against_blocks(compared)),
            *(doc.SheetBlock(sheet, doc.SheetTitle.NAMED, tells_hidden=True) for sheet in shown),
        ),
        data=doc.json_by(
            "utilization.step_kernels_json", profile, answer.use, answer.against, in_order, notes, zero_ns
        ),
        sheets=lambda: (*(use_sheet(kernels) for kernels, _ in sampled), *in_order),
        page=lambda: tables_page(profile, list(map(doc.Paragraph, sentences)), shown, charts=_charts(answer)),
    )


def _charts(answer: TimelineUse) -> list[doc.Chart]:
    """The kernels of each GPU under its roofs, where it was sampled and its peaks are known."""
    from gpuledger.present.views.page.rooflines import sampled_roofline_chart

    return [chart for chart in map(sampled_roofline_chart, answer.rooflines) if chart is not None]


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
    return lane_chart(tell(title), tell(_drawn(events)), rows, _instants(length), _legend(rows, tell))


def _drawn(events: Events) -> str:
    drawn = say("{count} events are drawn", count=count_text(len(events)))
    if not events.left_out:
        return drawn
    return say(
        "{drawn}; {count} of {time} or less are not",
        drawn=drawn,
        count=count_text(events.left_out),
        time=time_text(events.least_ns),
    )


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
    shown = sorted(np.argsort(-count, kind="stable")[:_MOST_TRACKS].tolist())
    rows = []
    for track in shown:
        here = np.flatnonzero((events.track == track) & (events.lane < _MOST_LANES))
        bars = [_event(finder, events, position) for position in here.tolist()]
        rows.append(LaneRow(tell(track_words(run, events.tracks[track])), bars))
    return rows


def _event(finder: EventFinder, events: Events, position: int) -> LaneBar:
    source, row = EventSource(int(events.source[position])), int(events.row[position])
    if source is EventSource.GPU_WORK:
        code, kind = int(finder.work.name[row]), int(finder.work.family[row])
    else:
        table = (finder.ranges, finder.cuda_calls, finder.other_calls)[source]
        code = int(table.codes("name")[row])
        kind = int(finder.ranges.codes("kind")[row]) if source is EventSource.RANGE else 0
        if source is EventSource.CUDA_CALL:
            kind = int(finder.call_kinds[row])
    name, tone, _ = event_words(finder, source, finder.ranges.strings.text(code), kind)
    start, end = int(events.start_ns[position]), int(events.end_ns[position])
    return _bar(start, end, events.span, int(events.lane[position]), tone, name)


def _bar(start_ns: int, end_ns: int, span: Span, lane: int, tone: str, name: str) -> LaneBar:
    """What of it lies in the stretch."""
    length = max(span.end_ns - span.start_ns, 1)
    first, last = max(start_ns, span.start_ns), min(end_ns, span.end_ns)
    return LaneBar((first - span.start_ns) / length, (last - first) / length, lane, tone, name)


def _instants(length_ns: int) -> list[tuple[float, str]]:
    """Round times from the start of the stretch."""
    return [(at / max(length_ns, 1), f"+{time_text(round(at))}") for at in ticks(float(length_ns), 1.0, 5)]


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

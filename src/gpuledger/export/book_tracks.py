"""The books on a timeline: one GPU's steps, idle gaps, curves and critical path in, tracks, records and levels out.

A gap is named by its largest cause, so that a viewer colours it by cause; what set it off, and its time by cause, are
arguments. A step's arguments are its lines of the ledger, which sum to it. The path's segments follow each other
without a gap. Findings and health notes are marks: each finding where its evidence is the strongest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.over_time import busy_share, memory_events, queue_depth
from gpuledger.catalog.kernel_names import label
from gpuledger.export.timeline import (
    Argument,
    ArgumentColumn,
    Levels,
    Records,
    Track,
    TrackKind,
    UniqueNumbers,
    as_titles,
    by_name,
    text_argument,
)
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import finding_place
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.steps import PHASES, Steps
from gpuledger.replay.critical_path import PathPart, critical_path
from gpuledger.replay.scenario import Scenario
from gpuledger.trace.model import Note, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.strings import NO_TEXT
from gpuledger.units import time_text

BINS: Final = 1000  # parts of the window, with a share of busy time each
_STEPS, FINDINGS, PATH, _IDLE, _BUSY, _QUEUE, _MEMORY = range(7)  # the order in which tracks of a GPU are shown


def book_side(
    trace: Trace, device: Device, above: Track, numbers: UniqueNumbers
) -> tuple[list[Track], list[Records], list[Levels]]:
    """All that the books say of one GPU."""
    tracks: list[Track] = []
    records: list[Records] = []
    levels: list[Levels] = []

    def track(kind: TrackKind, name: str, order: int, unit: str = "") -> int:
        new_track = Track(numbers.uuid(), kind, name, above.uuid, above.pid, numbers.like(0), order, unit)
        tracks.append(new_track)
        return new_track.uuid

    if device.steps is not None:
        records.append(_step_records(device, device.steps, track(TrackKind.SLICES, "steps", _STEPS)))
    if len(device.ledger.gaps):
        records.append(_gap_records(trace, device, track(TrackKind.SLICES, "idle, by cause", _IDLE)))
    instants, share = busy_share(device, BINS)
    end = device.ledger.window.end_ns
    uuid = track(TrackKind.COUNTER, "busy", _BUSY, "%")
    levels.append(Levels(uuid, np.append(instants, end), np.append(100 * share, 0.0)))
    instants, depth = queue_depth(device)
    if len(instants):
        levels.append(Levels(track(TrackKind.COUNTER, "launches in the queue", _QUEUE, "launches"), instants, depth))
    events, _, level = memory_events(trace, device.gpu)
    if len(events):
        levels.append(Levels(track(TrackKind.COUNTER, "memory in use", _MEMORY, "bytes"), events["start_ns"], level))
    return tracks, records, levels


def in_a_row(
    track: Ints | int,
    start_ns: Ints,
    end_ns: Ints,
    titles: Sequence[str],
    title: NDArray[Any],
    category: str,
    arguments: tuple[Argument, ...],
    *,
    instant: bool = False,
) -> Records:
    """Records that follow each other."""
    count = len(start_ns)
    return Records(
        start_ns=start_ns,
        end_ns=end_ns,
        track=np.full(count, track) if isinstance(track, int) else track,
        rank=np.arange(count),
        titles=titles,
        title=title.astype(np.int64),
        categories=(category,),
        category=np.zeros(count, np.int64),
        instant=np.full(count, instant),
        arguments=arguments,
    )


def _gap_records(trace: Trace, device: Device, track: int) -> Records:
    gaps, name, texts = device.ledger.gaps, np.append(device.work.name, -1), trace.strings.texts
    causes = {f"{cause}_ns": ArgumentColumn((gaps.by_cause.of(cause),), absent=0) for cause in CAUSES}
    arguments = (
        text_argument("trigger", TRIGGERS, gaps.trigger),
        text_argument("drained_by", gaps.draining, np.where(gaps.drained_by > 0, gaps.drained_by, -1)),
        *by_name(causes),
        text_argument("before", texts, name[gaps.before]),
        text_argument("after", texts, name[gaps.after]),
    )
    return in_a_row(track, gaps.start_ns, gaps.end_ns, CAUSES, gaps.by_cause.largest(), "idle", arguments)


def _step_records(device: Device, steps: Steps, track: int) -> Records:
    ledger = device.ledger
    books = ledger.books[np.searchsorted(ledger.tiles_ns, steps.edges_ns[:-1])]
    lines = {
        f"{line}_ns": ArgumentColumn((books[:, index],), absent=0)
        for index, line in enumerate(ledger.lines)
        if books[:, index].any()
    }
    number = np.arange(len(steps))
    phase = np.array(device.phases.of_step, np.int64)
    arguments = (
        Argument("warm_up", ArgumentColumn(((number < steps.warm_up).astype(np.int8),), absent=0)),
        *((text_argument("phase", PHASES, np.where(phase > 0, phase, -1)),) if len(phase) == len(steps) else ()),
        *by_name(lines),
    )
    titles = [f"step {index}" for index in range(len(steps))]
    return in_a_row(track, steps.start_ns, steps.end_ns, titles, number, "step", arguments)


_PARTS: Final = {
    PathPart.RUNNING: "running",
    PathPart.BEFORE_START: "before its start",
    PathPart.CALL: "call",
    PathPart.CODE: "host code before a call",
    PathPart.WAKE_UP: "wake-up after a wait",
    PathPart.OUTSIDE: "unknown",
}


def path_side(trace: Trace, scenario: Scenario, above: Track, numbers: UniqueNumbers) -> tuple[Track, Records]:
    """The path of one GPU's steady stretch, on a track under the GPU."""
    track = Track(numbers.uuid(), TrackKind.SLICES, "critical path", above.uuid, above.pid, numbers.like(0), PATH)
    path, work, calls = critical_path(scenario), scenario.device.work, scenario.device.host.calls
    name = np.append(work.name, NO_TEXT)[path.operation]
    call = np.append(calls.codes("name")[scenario.graph.call_row], NO_TEXT)[path.call]
    kernels, kernel = trace.strings.kinds(name, lambda text: label(text or ""))
    functions, function = trace.strings.kinds(call, lambda text: short_function_name(text or ""))
    causes = [str(line.cause or line) for line in path.lines]
    runs = path.are(PathPart.RUNNING) & (name != NO_TEXT)
    calling = path.are(PathPart.CALL) | path.are(PathPart.WAKE_UP)
    title: Ints = path.line.astype(np.int64)
    title = np.where(runs, len(causes) + kernel, np.where(calling, len(causes) + len(kernels) + function, title))
    before = np.where(path.are(PathPart.BEFORE_START), kernel, -1)
    arguments = (
        text_argument("part", list(_PARTS.values()), path.part.astype(np.int64)),
        text_argument("line", path.lines, np.where(runs, path.line, -1)),
        text_argument(
            "before", [*kernels, *functions], np.where(path.are(PathPart.CODE), len(kernels) + function, before)
        ),
    )
    titles = [*causes, *as_titles(kernels), *as_titles(functions)]
    return track, in_a_row(track.uuid, path.start_ns, path.end_ns, titles, title, "critical path", arguments)


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to say at one instant. Several may stand at the same one."""

    at_ns: int
    title: str
    words: Mapping[str, str]
    figures: Mapping[str, int]


def finding_mark(finding: Finding, device: Device) -> Mark:
    """A finding at the place where one should look."""
    per_step, saving = finding.saving_ns_per_step, ""
    if finding.saving_ns:
        saving = f"up to {time_text(finding.saving_ns if per_step is None else per_step)}"
        saving += "" if per_step is None else " per step"
    words = {
        "claim": str(finding.claim),
        "saving": saving,
        "evidence": "\n".join(finding.sentences),
        "assumption": str(finding.assumption),
        "confidence": str(finding.confidence),
        "next": finding.next,
    }
    figures = {"saving_ns": finding.saving_ns} | ({} if per_step is None else {"saving_ns_per_step": per_step})
    at_ns = finding_place(finding, device).start_ns
    return Mark(at_ns, finding.code, {name: text for name, text in words.items() if text}, figures)


def note_mark(note: Note, at_ns: int) -> Mark:
    """A health note at the beginning."""
    words = {"sentence": note.sentence, "severity": note.severity.value}
    return Mark(at_ns, note.code, words, {"count": note.count})


def mark_tracks(
    marks: Sequence[Mark], name: str, category: str, above: Track, numbers: UniqueNumbers, order: int = FINDINGS
) -> tuple[list[Track], Records]:
    """Marks on tracks of one name, those at one instant on different ones: viewers draw them over each other."""
    seen: Counter[int] = Counter()
    lane = []
    for mark in marks:
        lane.append(seen[mark.at_ns])
        seen[mark.at_ns] += 1
    tracks = [
        Track(numbers.uuid(), TrackKind.SLICES, name, above.uuid, above.pid, numbers.like(0), order)
        for _ in range(max(lane) + 1)
    ]
    at_ns = np.array([mark.at_ns for mark in marks], np.int64)
    arguments = []
    for word in dict.fromkeys(word for mark in marks for word in mark.words):
        texts = [mark.words.get(word, "") for mark in marks]
        codes = np.array([position if text else -1 for position, text in enumerate(texts)])
        arguments.append(text_argument(word, texts, codes))
    for figure in dict.fromkeys(figure for mark in marks for figure in mark.figures):
        values = np.array([mark.figures.get(figure, -1) for mark in marks], np.int64)
        arguments.append(Argument(figure, ArgumentColumn((values,))))
    titles = [mark.title for mark in marks]
    uuid = np.array([tracks[number].uuid for number in lane], np.int64)
    return tracks, in_a_row(uuid, at_ns, at_ns, titles, np.arange(len(marks)), category, tuple(arguments), instant=True)

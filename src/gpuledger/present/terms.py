"""Our own words, with their colours: lines of the books, causes and triggers of idle time, records of a timeline.

In a cell, programs see the name that the books use (`idle.sync`), people what it is called, in their language.
What closes a document is said here too: notes about the profile, and when it was made.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.books import COMM, Line
from gpuledger.ledger.causes import Cause, Trigger
from gpuledger.messages import Message, say
from gpuledger.present.document import SheetBlock
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Column, Sheet, Term, Unit
from gpuledger.regex import regex
from gpuledger.trace.model import Note, Severity, os_pid
from gpuledger.trace.strings import torch_frame

if TYPE_CHECKING:
    from gpuledger.analyse.timeline.events import EventFinder, Events, EventSource, EventTrack
    from gpuledger.findings.profiled_run import ProfiledRun
    from gpuledger.trace.spans import Ints

_SEVERITY_WORDS: Final = {
    Severity.INFO: say("info"),
    Severity.WARNING: say("warning"),
    Severity.LOSS: say("loss"),
}
_SEVERITY_BADGES: Final = {Severity.WARNING: "warn", Severity.LOSS: "bad"}

TOTAL: Final = say("total")
"""Stands before the sum of a table's rows."""

BOUNDS: Final = {
    "memory": say("memory"),
    "compute": say("compute"),
    "latency": say("latency"),
    "unknown": say("unknown"),
}
"""What limits a kernel, by the name of its bound."""


def line_term(line: Line) -> Term:
    """A line of the books, with its colour."""
    return Term(line, line.label, tone=line_tone(line))


def cause_term(cause: Cause) -> Term:
    """A cause of idle time, with its colour."""
    return Term(cause, cause.label, tone=line_tone(Line.of_cause(cause)))


def trigger_term(trigger: Trigger, drained_by: str = "") -> Term:
    """What set a gap off; a wait that let the queue run dry is named with the call that waited."""
    if not drained_by:
        return Term(trigger, trigger.label)
    return Term(f"{trigger} by {drained_by}", say("{trigger} after {call}", trigger=trigger.label, call=drained_by))


def severity_term(severity: Severity) -> Term:
    """How much a note about the profile matters."""
    return Term(severity.value, _SEVERITY_WORDS[severity], badge=_SEVERITY_BADGES.get(severity, ""))


_NOTES: Final = (Column("severity", say("Severity"), Unit.TEXT), Column("sentence", say("What was seen"), Unit.TEXT))


def notes_block(notes: Sequence[Note]) -> SheetBlock:
    """What was seen while reading, and how much each matters, on a page."""
    rows = tuple((severity_term(note.severity), note.sentence) for note in notes)
    return SheetBlock(Sheet("notes", say("Health"), _NOTES, rows))


def family_line(family: str) -> Line:
    """The line of the books that kernels of a family are booked under."""
    return COMM if family == COMMUNICATION else Line.of_family(family)


_RANGE_WORDS: Final = {"op": say("operator"), "python": say("Python function")}
_RANGE_TONES: Final = {"op": "host-operator", "python": "host-python"}


WAITING_CALL: Final = say("waiting call")
HOST_CALL: Final = say("host call")
_WAITS: Final = regex(
    r"(e?p?poll|p?select|epoll_p?wait2?|pause|futex|(clock_)?nanosleep|u?sleep|pthread_(cond_(timed|clock)?wait|join)"
    r"|sem_(timed|clock)?wait|sig(timed)?wait(info)?|wait(pid|4|id)?|accept4?|io_getevents|mq_(timed)?receive)"
)
"""Calls of the operating system that return when something happens elsewhere."""


def event_words(finder: EventFinder, source: EventSource, text: str | None, kind: int) -> tuple[str, str, Message]:
    """A record's short name, its tone, and what kind of thing it is; `kind` is as its table numbers kinds."""
    from gpuledger.analyse.timeline.events import EventSource

    if source is EventSource.RANGE:
        code = finder.ranges.strings.text(kind) or ""
        name = torch_frame(text or "?") if code == "python" else text or "?"
        return name, _RANGE_TONES.get(code, "host-range"), _RANGE_WORDS.get(code, say("range"))
    if source is EventSource.CUDA_CALL:
        return short_function_name(text or "?"), f"idle-{CALL_KINDS[kind]}", say("CUDA call")
    if source is EventSource.OTHER_CALL:
        return text or "?", "idle-os", WAITING_CALL if _WAITS.fullmatch(text or "") else HOST_CALL
    if kind < 0:
        return text or "?", "copy", say("copy")
    family = finder.work.families[kind]
    if text is None:
        return "CUDA graph", line_tone(Line.of_family(family)), say("graph")
    return label(text), line_tone(family_line(family)), say("GPU kernel")


def event_codes(finder: EventFinder, events: Events) -> tuple[Ints, Ints]:
    """Of each record the code of its name, and its kind as its table numbers kinds."""
    from gpuledger.analyse.timeline.events import EventSource

    codes, kinds = np.zeros((2, len(events)), np.int64)
    for source in EventSource:
        here = np.flatnonzero(events.source == source)
        rows = events.row[here]
        if source is EventSource.GPU_WORK:
            codes[here], kinds[here] = finder.work.name[rows], finder.work.family[rows]
            continue
        table = (finder.ranges, finder.cuda_calls, finder.other_calls)[source]
        codes[here] = table.codes("name")[rows]
        if source is EventSource.RANGE:
            kinds[here] = table.codes("kind")[rows]
        elif source is EventSource.CUDA_CALL:
            kinds[here] = finder.call_kinds[rows]
    return codes, kinds


def track_words(report: ProfiledRun, track: EventTrack) -> Message:
    """What a thread or a stream is called."""
    pid = os_pid(track.pid)
    if track.is_thread:
        name = say("Main thread") if track.number == pid else say("Thread {tid}", tid=track.number)
    elif len(report.devices) > 1:
        name = say("GPU {gpu}, stream {stream}", gpu=track.gpu, stream=track.number)
    else:
        name = say("Stream {stream}", stream=track.number)
    if len(report.trace.origin.processes) > 1:
        name = say("{track} of process {pid}", track=name, pid=pid)
    return name


def made_at() -> str:
    """Now, as ISO 8601 to the second."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    is_date = fixed.isdecimal() and len(fixed) < 12  # more digits are a year of five
    now = datetime.fromtimestamp(int(fixed), UTC) if is_date else datetime.now(UTC)
    return now.isoformat(timespec="seconds").replace("+00:00", "Z")


def made_line() -> Message:
    """The same for people, to the minute."""
    return say("Made {time} UTC.", time=made_at()[:16].replace("T", " "))

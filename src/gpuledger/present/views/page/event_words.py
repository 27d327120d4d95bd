"""What the records of a timeline are called, and their tones: on a page, and in a picture."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.timeline import EventFinder, EventSource, EventTrack
from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.catalog.kernel_names import label
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.activity import shortened
from gpuledger.ledger.books import COMM, Line
from gpuledger.messages import Message, say
from gpuledger.present.palette import line_tone
from gpuledger.trace.model import os_pid
from gpuledger.trace.strings import torch_frame

_RANGE_WORDS: Final = {"op": say("operator"), "python": say("Python function")}
_RANGE_TONES: Final = {"op": "host-operator", "python": "host-python"}


def event_words(finder: EventFinder, source: EventSource, text: str | None, kind: int) -> tuple[str, str, Message]:
    """A record's short name, its tone, and what kind of thing it is; `kind` is as its table numbers kinds."""
    if source is EventSource.RANGE:
        code = finder.ranges.strings.text(kind) or ""
        name = torch_frame(text or "?") if code == "python" else text or "?"
        return name, _RANGE_TONES.get(code, "host-range"), _RANGE_WORDS.get(code, say("range"))
    if source is EventSource.CUDA_CALL:
        return shortened(text or "?"), f"idle-{CALL_KINDS[kind]}", say("CUDA call")
    if source is EventSource.OTHER_CALL:
        return text or "?", "idle-os", say("host call")
    if kind < 0:
        return text or "?", "copy", say("copy")
    family = finder.work.families[kind]
    if text is None:
        return "CUDA graph", line_tone(Line.of_family(family)), say("graph")
    line = COMM if family == COMMUNICATION else Line.of_family(family)
    return label(text), line_tone(line), say("GPU kernel")


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

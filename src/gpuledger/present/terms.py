"""Our own words in cells: lines of the books, causes and triggers of idle time, as terms with their colour.

Programs see the name that the books use (`idle.sync`), people on a page what it is called, in their language.
"""

from __future__ import annotations

from typing import Final

from gpuledger.messages import Message, say
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Term
from gpuledger.trace.health import Severity

CAUSE_WORDS: Final = {
    "sync": say("synchronising"),
    "host_code": say("host code"),
    "dispatch": say("dispatch"),
    "launch": say("launch calls"),
    "launch_latency": say("launch latency"),
    "load": say("loading code"),
    "alloc": say("allocation"),
    "copy_call": say("copy calls"),
    "call": say("other CUDA calls"),
    "os": say("operating system"),
    "wait_thread": say("waiting for a thread"),
    "profiler": say("the profiler"),
    "turnaround": say("between kernels"),
    "device_wait": say("waiting on the device"),
    "context_switch": say("another process"),
    "graph": say("inside a graph"),
    "unattributed": say("unattributed"),
    "tail": say("after the last work"),
}
"""Causes of idle time as people call them."""

EXPOSED_WORDS: Final = {"comm": say("communication, exposed"), "copy": say("copies, exposed")}

_TRIGGER_WORDS: Final = {
    **CAUSE_WORDS,
    "behind": say("the host cannot keep up"),
    "drained": say("the queue ran dry"),
}
_SEVERITY_WORDS: Final = {
    Severity.INFO: say("info"),
    Severity.WARNING: say("warning"),
    Severity.LOSS: say("loss"),
}
_SEVERITY_BADGES: Final = {Severity.WARNING: "warn", Severity.LOSS: "bad"}

TOTAL: Final = say("total")
"""Stands before the sum of a table's rows."""


def line_words(line: str, *, brief: bool = False) -> str:
    """A line of the books as people call it; `brief` leaves out whether it is compute or idle time."""
    kind, _, name = line.partition(".")
    if kind == "compute":
        return name if brief else say("compute: {family}", family=name)
    if kind == "idle":
        return CAUSE_WORDS[name] if brief else say("idle: {cause}", cause=CAUSE_WORDS[name])
    return {"comm": say("communication"), "copy": say("copies")}[line] if brief else EXPOSED_WORDS[line]


def line_term(line: str) -> Term:
    """A line of the books, with its colour."""
    return Term(line, line_words(line), tone=line_tone(line))


def cause_term(cause: str) -> Term:
    """A cause of idle time, with its colour."""
    return Term(cause, CAUSE_WORDS[cause], tone=line_tone(f"idle.{cause}"))


def trigger_term(trigger: str, drained_by: str = "") -> Term:
    """What set a gap off; a wait that let the queue run dry is named with the call that waited."""
    words: Message = _TRIGGER_WORDS[trigger]
    if not drained_by:
        return Term(trigger, words)
    return Term(f"{trigger} by {drained_by}", say("{trigger} after {call}", trigger=words, call=drained_by))


def severity_term(severity: Severity) -> Term:
    """How much a note about the profile matters."""
    return Term(severity.value, _SEVERITY_WORDS[severity], badge=_SEVERITY_BADGES.get(severity, ""))

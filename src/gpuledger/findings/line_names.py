"""What the lines of the books are called in a sentence: by their own names in English, in words elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpuledger.ledger.lines import Line
from gpuledger.messages import Message, say

CAUSES: Final[Mapping[str, Message]] = {
    "sync": say("sync"),
    "host_code": say("host_code"),
    "dispatch": say("dispatch"),
    "launch": say("launch"),
    "launch_latency": say("launch_latency"),
    "load": say("load"),
    "alloc": say("alloc"),
    "copy_call": say("copy_call"),
    "call": say("call"),
    "os": say("os"),
    "wait_thread": say("wait_thread"),
    "profiler": say("profiler"),
    "turnaround": say("turnaround"),
    "device_wait": say("device_wait"),
    "context_switch": say("context_switch"),
    "graph": say("graph"),
    "unattributed": say("unattributed"),
    "tail": say("tail"),
}
"""The causes of idle time."""

_EXPOSED: Final[Mapping[str, Message]] = {"comm": say("comm"), "copy": say("copy")}


def line_name(line: Line) -> Message:
    """A line of the ledger: idle time by cause, compute by family, or what is exposed."""
    if line.cause is not None:
        return say("idle.{cause}", cause=CAUSES[line.cause])
    if line.is_compute:
        return say("compute.{family}", family=line.family)
    return _EXPOSED[line]

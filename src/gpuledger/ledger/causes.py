"""Why a GPU was idle: every cause with all that is known of it, and what can set a gap off.

A cause says where the host, or the device, was while the GPU had nothing to run; a trigger says what to fix. The text
of a member is its code: `idle.sync` is the line of `Cause.SYNC`. docs/concepts/ledger.md says how each is recognised.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from gpuledger.messages import Message, say


class Cause(StrEnum):
    """What idle time is booked to; of causes with equal time the first counts as the largest."""

    label: Message
    """What people call it."""
    light: str
    dark: str
    """Its colour, on light and on dark paper."""
    host_paced: bool
    """Whether it grows as the host slows down."""

    def __new__(cls, code: str, label: Message, light: str, dark: str, host_paced: bool = False) -> Cause:
        """A member is its code, with the rest as attributes."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.label, member.light, member.dark, member.host_paced = label, light, dark, host_paced
        return member

    SYNC = "sync", say("sync"), "#b3241f", "#d06b65", True
    HOST_CODE = "host_code", say("host code"), "#c05a10", "#d08449", True
    DISPATCH = "dispatch", say("framework overhead"), "#cd7a06", "#d49e40", True
    LAUNCH = "launch", say("launch calls"), "#a9622b", "#bd8a5c", True
    LAUNCH_LATENCY = "launch_latency", say("launch latency"), "#9a7114", "#b99847", True
    LOAD = "load", say("module load"), "#9c1f48", "#ce6d89", True
    CONTEXT = "context", say("context creation"), "#8a2f63", "#bd7fa2", True
    ALLOC = "alloc", say("allocation"), "#c2415b", "#d38490", True
    COPY_CALL = "copy_call", say("copy calls"), "#8f4a16", "#b07e55", True
    CALL = "call", say("other CUDA calls"), "#b06a4d", "#c3917b", True
    OS = "os", say("OS calls"), "#7d3216", "#ad7862", True
    WAIT_THREAD = "wait_thread", say("waiting on a thread"), "#a3471f", "#c37f5f"
    PROFILER = "profiler", say("profiler overhead"), "#7a726b", "#928a84"
    TURNAROUND = "turnaround", say("kernel-to-kernel gaps"), "#8a7a63", "#a4947c"
    UNRECORDED = "unrecorded", say("work launched before the recording"), "#55707a", "#8aa5ae"
    DEVICE_WAIT = "device_wait", say("queued, not started"), "#a04a63", "#be7e90"
    PAGE_MIGRATION = "page_migration", say("page migration"), "#8a5a7a", "#b08aa3"
    CONTEXT_SWITCH = "context_switch", say("another process"), "#8f5b3a", "#af8a70"
    GRAPH = "graph", say("inside a graph"), "#85735a", "#9f8f75"
    LOST = "lost", say("lost by the profiler"), "#4f6d8f", "#7f9cbd"
    UNATTRIBUTED = "unattributed", say("unattributed"), "#6d737b", "#868c95"
    TAIL = "tail", say("after the last work"), "#858a91", "#797f86"


class QueueTrigger(StrEnum):
    """What leaves a queue empty without any one cause being the reason."""

    label: Message

    def __new__(cls, code: str, label: Message) -> QueueTrigger:
        """A member is its code, with what people call it as an attribute."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.label = label
        return member

    BEHIND = "behind", say("launches can't keep up")
    DRAINED = "drained", say("the queue ran dry")
    COLD = "cold", say("cold start")


Trigger = Cause | QueueTrigger

CAUSES: Final[tuple[Cause, ...]] = tuple(Cause)
HOST_PACED: Final = tuple(cause for cause in Cause if cause.host_paced)
TRIGGERS: Final[tuple[Trigger, ...]] = (*Cause, *QueueTrigger)
"""What can set a gap off, in the order in which columns number them."""

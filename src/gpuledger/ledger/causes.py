"""Why a GPU was idle: every cause with all that is known of it, what can set a gap off, and columns of time by cause.

A cause says where the host, or the device, was while the GPU had nothing to run; a trigger says what to fix. The text
of a member is its code: `idle.sync` is the line of `Cause.SYNC`. docs/concepts/ledger.md says how each is recognised.
Of the causes that there are, most profiles know a few: `ByCause` has a column for each that has any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np

from gpuledger.messages import Message, say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, same
from gpuledger.trace.spans import Ints


class Cause(StrEnum):
    """What idle time is booked to; of causes with equal time the first counts as the largest."""

    label: Message  # what people call it
    light: str  # its colour on light paper
    dark: str
    host_paced: bool  # whether it grows as the host slows down

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
    COMPILE = "compile", say("recompilation")


Trigger = Cause | QueueTrigger

CAUSES: Final[tuple[Cause, ...]] = tuple(Cause)
HOST_PACED: Final = tuple(cause for cause in Cause if cause.host_paced)
TRIGGERS: Final[tuple[Trigger, ...]] = (*Cause, *QueueTrigger)
"""What can set a gap off, in the order in which columns number them."""


def idle_label(trigger: Trigger) -> Message:
    """What people call idle time that a cause or a trigger stands for."""
    return say("idle: {cause}", cause=trigger.label)


def by_trigger(trigger: Positions, time_ns: Ints) -> dict[Trigger, int]:
    """Time by what set it off, the most first; `trigger` holds positions in TRIGGERS."""
    sums = sweep.sums(trigger, time_ns, len(TRIGGERS)).tolist()
    triggers = sorted(zip(sums, TRIGGERS, strict=True), key=lambda entry: -entry[0])
    return {trigger: amount for amount, trigger in triggers if amount}


class ByCause:
    """Rows of time, each booked to causes; what is not booked is 0."""

    def __init__(self, rows: int, causes: Sequence[Cause]) -> None:
        self.causes: Final = tuple(causes)
        self._rows: Final = rows
        self._columns: Final[dict[Cause, Ints]] = {}

    def __len__(self) -> int:
        return self._rows

    def add(self, cause: Cause, rows: Positions, amount: Ints) -> None:
        """Book an amount to each of these rows, none of which is named twice."""
        if amount.any():
            if cause not in self._columns:
                self._columns[cause] = np.zeros(self._rows, np.int64)
            self._columns[cause][rows] += amount

    def of(self, cause: Cause) -> Ints:
        """The time of each row that is booked to one cause."""
        return self._columns[cause] if cause in self._columns else same(0, self._rows)

    @property
    def used(self) -> list[Cause]:
        """The causes that something was booked to, in their order."""
        return [cause for cause in self.causes if cause in self._columns]

    def total(self, *causes: Cause) -> Ints:
        """The time of each row by these causes together; by all of them if none is named."""
        total_ns = np.zeros(self._rows, np.int64)
        for cause in causes or self.used:
            if cause in self._columns:
                total_ns += self._columns[cause]
        return total_ns

    def largest(self) -> Positions:
        """For each row the position of the cause with the most time, the first of several."""
        position, most = np.zeros(self._rows, np.intp), np.zeros(self._rows, np.int64)
        for cause in self.used:
            more = self._columns[cause] > most
            position[more] = self.causes.index(cause)
            np.maximum(most, self._columns[cause], out=most)
        return position

    def sums(self, rows: Positions | slice = slice(None)) -> dict[Cause, int]:
        """The time of these rows by cause; causes without any are left out."""
        sums = {cause: int(self._columns[cause][rows].sum()) for cause in self.used}
        return {cause: amount for cause, amount in sums.items() if amount}

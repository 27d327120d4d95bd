"""HOST-THREAD: the GPU waits because the launching thread waits for another thread.

The time breakdown has `idle: waiting on a thread`. On the timeline the thread that launches is in `pthread_cond_wait`,
`sem_wait`, `poll` or a similar call, while another thread is active; then it wakes, launches, and the GPU resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from gpuledger.attribution.lost_time import MOSTLY, ThreadTime, lost_time
from gpuledger.attribution.places import awaited_thread
from gpuledger.findings.finding import Evidence
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.occupied import PYTHON_PROCESS, host_is_occupied, without_code_of
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import path_in_claim, short_text
from gpuledger.ledger.activity import calls_in_layers
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.ranges import thread
from gpuledger.messages import Message, say
from gpuledger.regex import regex
from gpuledger.replay.edits import Edit, handed_over_sooner
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import intersection, total, union

_ASKS_AGAIN: Final = regex(r"cond_(timed|clock)wait")
_MAX_GIL_POLL_NS: Final = 8_000_000
"""Python's threads ask for the lock every 5 ms."""

_FREE_THE_GIL: Final = say(
    "compute in another process, or in code that gives Python's lock up (numpy, torch, C++): its threads take turns"
)


def _awaited(
    subject: OneGpu, evidence: Sequence[Evidence], doing: Message, fix: Message | None
) -> tuple[Message, Message | None]:
    """What the launching thread waits for, as far as that is known, and what to do about it."""
    lost = lost_time(subject.device, subject.device.gaps_of(Cause.WAIT_THREAD), Cause.WAIT_THREAD)
    if not lost.ns or fix is not None:
        return doing, fix
    if _waits_for_gil(subject.trace, lost.by_thread[0]):
        return say("the launching thread waits for Python's lock (GIL), which another thread holds"), _FREE_THE_GIL
    other = awaited_thread(subject.trace, lost)
    for piece in evidence:
        if (
            other is not None
            and piece.tid == other.tid
            and (where := path_in_claim(piece.ranges) or short_text(piece.call))
        ):
            return say("the launching thread waits for another thread, which is in {where}", where=where), None
    return doing, None


def _waits_for_gil(trace: Trace, waiting: ThreadTime) -> bool:
    """Whether a thread of Python waits for its lock: it asks again every few milliseconds, which nobody else does."""
    names = [process.name for process in trace.origin.processes if process.pid == waiting.pid]
    if not any(name and PYTHON_PROCESS.search(name) for name in names):
        return False
    system = calls_in_layers(trace, "os")
    asks = system.strings.each(system.codes("name"), lambda name: bool(_ASKS_AGAIN.search(name)), np.bool_)
    asking = system.where(asks & (thread(system) == waiting.thread) & (system.duration_ns < _MAX_GIL_POLL_NS))
    held = intersection(waiting.spans, union(asking["start_ns"], asking["end_ns"]))
    return total(held) >= MOSTLY * waiting.ns


def hand_over_sooner(fixes: Fixes) -> Edit:
    """What another thread is waited for is there: a thread that hands over does so a gap sooner."""
    code = without_code_of(fixes, Cause.WAIT_THREAD)
    calls = np.flatnonzero(fixes.steady & (fixes.graph.calls.after >= 0) & fixes.in_gaps(Cause.WAIT_THREAD))
    waits_ns = np.minimum(fixes.code_ns(Cause.WAIT_THREAD)[calls], fixes.graph.code_before(calls))
    rest_ns = np.maximum(fixes.device.ledger.gaps.length_ns[fixes.gap_of_call[calls]] - waits_ns, 0)
    return lambda graph: handed_over_sooner(code(graph), calls, rest_ns)


RULE: Final = Rule(
    "HOST-THREAD",
    partial(host_is_occupied, doing=say("the launching thread waits for another thread"), details=_awaited),
    say("shorten what the other thread does, or start it a step earlier"),
    edit=hand_over_sooner,
    triggers=(Cause.WAIT_THREAD,),
)

"""What launching costs, and the part of it that loops of small kernels hold."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import MAX_EXAMPLES, Evidence
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.messages import joined, say
from gpuledger.replay.edits import Edit, with_free_launches
from gpuledger.trace.keys import Positions, distinct, is_among
from gpuledger.trace.spans import Span
from gpuledger.units import count_text

MIN_LAUNCHES: Final = 10
"""Fewer launches in all, in one step or in many, are no run: each of them was late for a reason of its own."""

MOSTLY_LOOPS_SHARE: Final = 0.85
"""Where loops are nearly all of what launching costs, LAUNCH-BOUND says so, with the loop as evidence."""

MAX_NAMES: Final = 2


def free_launches(fixes: Fixes) -> Edit:
    """Launching costs nothing, nor do the other calls on the way, nor does a thread that hands launches over."""
    calls = fixes.steady_calls(CallKind.LAUNCH, CallKind.CALL)
    handing_over = np.where(fixes.in_gaps(QueueTrigger.BEHIND), fixes.code_ns(Cause.WAIT_THREAD), 0)
    dispatch = fixes.code_ns(Cause.DISPATCH) + handing_over
    return lambda graph: with_free_launches(graph, calls, dispatch[calls])


def looping_calls(fixes: Fixes) -> Positions:
    """The calls that launch what loops repeat, with what is called on the way."""
    launches = fixes.launching_only(fixes.looped.repeated)
    calls = fixes.steady_calls(CallKind.LAUNCH, CallKind.CALL)
    return calls[is_among(fixes.launch_group[calls], fixes.launch_group[launches])]


def launch_loops_once(fixes: Fixes) -> Edit:
    """Of each loop of small kernels only the first round is launched: one kernel does it for all tensors."""
    looping = fixes.once(looping_calls)
    code = fixes.graph.code_before(looping)
    return lambda graph: with_free_launches(graph, looping, code)


def are_most_of_launching(subject: OneGpu) -> bool:
    """Whether loops are nearly all of what launching costs."""
    fixes = subject.fixes
    if not len(fixes.looped.repeated):
        return False
    part, bound = (subject.scenario.saved_ns(fixes.once(edit)) for edit in (launch_loops_once, free_launches))
    return part > MOSTLY_LOOPS_SHARE * bound


def loop_evidence(subject: OneGpu) -> tuple[Evidence, ...]:
    """The longest loop: its kernels, and how often they run; nothing where there is none."""
    looped, work = subject.fixes.looped, subject.fixes.work
    loop = looped.longest
    if loop is None:
        return ()
    own = looped.operations[loop.start : loop.end]
    names = [subject.trace.strings.text(code) or "" for code in distinct(work.name[own[: loop.period]]).tolist()]
    shown = joined(say(", "), list(dict.fromkeys(cut_label(label(name)) for name in names))[:MAX_NAMES])
    words = {"kernels": count_text(loop.period), "times": count_text(loop.times), "names": shown}
    sentence = (
        say("one kernel runs {times} times in a row: {names}", **words)
        if loop.period == 1
        else say("the same {kernels} kernels run {times} times in a row, with {names}", **words)
    )
    share = len(looped.repeated) / max(len(looped.operations), 1)
    return (
        Evidence(
            sentence,
            span=Span(int(work.start_ns[own[0]]), int(work.end_ns[own[-1]])),
            pid=int(work.pid[own[0]]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", own[:MAX_EXAMPLES]).tolist()),
            count=loop.end - loop.start,
            share=share,
            of=say("the kernels"),
        ),
    )

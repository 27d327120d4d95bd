"""STEP-PERIODIC: every so many steps one does more.

Most steps are alike, and at equal distances one takes longer: every tenth, every hundredth. The mean step is longer
than the median, and throughput lower than the median promises. On the timeline the long steps hold something that the
others lack, and it is the same each time: copies to the host, a file that is written, an evaluation, a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.catalog.kernel_names import cut_label, without_numbers
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.steps.periodic_steps import PeriodicSteps, periodic_steps, step_span
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.step_variation import MOST_OF_PERIOD
from gpuledger.messages import say
from gpuledger.trace.spans import Span, Spans, covered
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text

FIX: Final = FixWords.of(
    say("do it beside the steps, or less often: copies on a stream of their own, files by another thread"),
    torch=say(
        "do it beside the steps (`torch.distributed.checkpoint.async_save`), or less often; log values a step "
        "later, copied with `non_blocking=True`"
    ),
    jax=say("do it beside the steps (Orbax's `AsyncCheckpointer`), or less often; read values to log a step later"),
    tensorflow=say("do it beside the steps (`tf.train.CheckpointOptions` with `enable_async`), or less often"),
    cuda=say(
        "do it beside the steps, or less often: `cudaMemcpyAsync` to pinned memory on a stream of its own, files "
        "by another thread"
    ),
    hip=say(
        "do it beside the steps, or less often: `hipMemcpyAsync` to pinned memory on a stream of its own, files "
        "by another thread"
    ),
)

_CAPTURED_ANEW: Final = say("capture each graph once, before the steps, and keep it; a benchmark times launches alone")
_MORE: Final = say("what these steps take more")
_MAX_PARTS: Final = 3


def _periodic(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """What one step of every so many does more. What is computed then is not saved; all else may go on beside steps."""
    device = subject.device
    steps = periodic_steps(device)
    if steps is None:
        return ()
    more_ns, usual_ns, often = steps.periodic.more_ns, steps.periodic.usual_ns, len(steps.periodic.steps)
    computed = steps.of_lines(LineKind.COMPUTE)
    amounts = (*computed, *steps.of_lines(LineKind.COMM, LineKind.COPY), *map(steps.of_trigger, TRIGGERS))
    parts = sorted(((amount.more_ns, amount.label) for amount in amounts), key=lambda part: -part[0])[:_MAX_PARTS]
    place = _place(steps, subject)
    each = {"count": count_text(steps.periodic.every), "time": time_text(more_ns // often)}
    where = parts[0][1] if place is None else say("in {ranges}", ranges=place.ranges[0])
    claim = say("every {count} steps one takes {time} longer, mainly {line}", **each, line=where)
    if steps.captures_graphs:
        claim = say("every {count} steps one takes {time} longer, in which CUDA graphs are captured", **each)
    example = say(
        "step {step} and {count} more: {time} each time, {usual} the usual step",
        step=steps.periodic.steps[0],
        count=count_text(often - 1),
        time=time_text(usual_ns + more_ns // often),
        usual=time_text(usual_ns),
    )
    evidence = [Evidence(example, span=step_span(device, steps.periodic.steps[0]), count=often)]
    evidence += [] if place is None else [place]
    for part_ns, label in parts:
        share = part_ns / more_ns
        words = say("{share} of it {cause}", share=share_text(share), cause=label)
        evidence.append(Evidence(words, share=share, of=_MORE))
    saving = max(more_ns - sum(amount.more_ns for amount in computed), 0)
    assumption = say("it goes on beside the steps: copies on a stream of their own, files written by another thread")
    finding = rule.finding(device, claim, tuple(evidence), saving, assumption, explains=more_ns)
    return [replace(finding, fix=_CAPTURED_ANEW) if steps.captures_graphs else finding]


def _place(steps: PeriodicSteps, subject: OneGpu) -> Evidence | None:
    """The range, or Python's function, that opens once each time and holds the most of it; None where none does."""
    periodic, ranges = steps.periodic, subject.trace[Table.RANGES]
    if not len(ranges):
        return None
    names, kind = ranges.strings.kinds(ranges.codes("name"), lambda name: without_numbers(name or ""))
    often, opened = len(periodic.steps), np.bincount(kind, minlength=len(names))
    rows = np.flatnonzero(((opened == often) | (opened == often + 1))[kind])  # it may come after the last step too
    slow = Spans(steps.steps.start_ns[periodic.is_slow], steps.steps.end_ns[periodic.is_slow])
    held = covered(slow, ranges["start_ns"][rows], ranges["end_ns"][rows])
    inside = held >= MOST_OF_PERIOD * ranges.duration_ns[rows]
    rows, held = rows[inside], held[inside]
    of_name = np.bincount(kind[rows], held, len(names))
    best = int(of_name.argmax())
    share = min(float(of_name[best]) / periodic.more_ns, 1.0)
    if share < MOSTLY:
        return None
    first, name = int(rows[kind[rows] == best][0]), cut_label(names[best])
    return Evidence(
        say("{share} of it in {name}", share=share_text(share), name=name),
        Span(int(ranges["start_ns"][first]), int(ranges["end_ns"][first])),
        int(ranges["pid"][first]),
        int(ranges["tid"][first]),
        ranges=(name,),
        count=often,
        share=share,
        of=_MORE,
    )


RULE: Final = Rule("STEP-PERIODIC", _periodic, FIX)

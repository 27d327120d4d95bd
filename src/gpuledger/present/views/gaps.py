"""Why the GPU was idle: gaps, what launches cost, and what communication and copies leave exposed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from gpuledger.analyse.idle.gap_summary import (
    CauseRow,
    GapLengthRow,
    GapRow,
    GapSummary,
    IdleLineRow,
    TriggerRow,
    gap_summary,
)
from gpuledger.analyse.idle.launch_costs import (
    CallRow,
    LaunchCosts,
    LaunchFamilyRow,
    LaunchRangeRow,
    QueueRow,
    launch_costs,
)
from gpuledger.analyse.idle.overlap import OverlapRow, StreamOverlap, StreamOverlapRow, overlap, stream_overlap
from gpuledger.findings.about_gaps import code_of_trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.views.answer import Answer, health_rows, note_sentences
from gpuledger.present.views.words import (
    WORTH_DOING,
    gaps_text,
    none_sentence,
    step_count_text,
    step_time_text,
)
from gpuledger.rows import Label, share
from gpuledger.trace.model import Trace
from gpuledger.units import count_text, share_text, time_text

_HALF: Final = 0.5
"""Of the GPU work: from here on the host is ahead, or kernels are mostly tiny."""


class GapsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.gaps/1"):
    """Idle time of each GPU. Causes and lengths are of the whole window; triggers and launches of the steady steps."""

    has_steps: bool
    idle_ns: int
    """Of the window; of several GPUs the sum."""
    launches_per_step: float | None
    """Launch calls of all GPUs in a steady step; null: there are no steps, or no launch was recorded."""
    least_ns: int | None
    """`longest` are all gaps of at least this length; null: the longest of each GPU."""
    by_cause: Annotated[tuple[CauseRow, ...], Label(say("Idle time by cause"))]
    by_trigger: Annotated[tuple[TriggerRow, ...], Label(say("Idle time by trigger"))]
    by_line: Annotated[tuple[IdleLineRow, ...], Label(say("Idle time by the line the host was at"))]
    by_length: Annotated[tuple[GapLengthRow, ...], Label(say("Gaps by length"))]
    longest: Annotated[tuple[GapRow, ...], Label(say("The longest gaps"))]
    overlap: Annotated[tuple[OverlapRow, ...], Label(say("Overlap"))]
    stream_overlap: Annotated[tuple[StreamOverlapRow, ...], Label(say("Kernels that overlap on one stream"))]
    launch_calls: Annotated[tuple[CallRow, ...], Label(say("Launch calls"))]
    waiting_calls: Annotated[tuple[CallRow, ...], Label(say("Calls that wait for the GPU"))]
    queue: Annotated[tuple[QueueRow, ...], Label(say("How far the host runs ahead"))]
    launches_by_family: Annotated[tuple[LaunchFamilyRow, ...], Label(say("Kernels by family"))]
    launches_by_range: Annotated[tuple[LaunchRangeRow, ...], Label(say("Launches by range"))]

    _OF_STEPS = (
        *("by_trigger", "stream_overlap", "launch_calls", "waiting_calls"),
        *("queue", "launches_by_family", "launches_by_range"),
    )

    def title(self, table: str) -> str:
        title = super().title(table)
        if table == "longest" and self.least_ns is not None:
            return say(
                "{count} of {gaps} gaps are {time} or longer, {share} of the idle time",
                count=count_text(len(self.longest)),
                gaps=count_text(sum(row.gaps for row in self.by_length)),
                time=time_text(self.least_ns),
                share=share_text(share(sum(gap.length_ns for gap in self.longest), self.idle_ns) or 0.0),
            )
        return say("{title}, steady steps", title=title) if self.has_steps and table in self._OF_STEPS else title


def gaps_answer(name: str, trace: Trace, devices: Sequence[Device], least_ns: int | None = None) -> GapsAnswer:
    """Why each GPU was idle; the longest gaps, or all from `least_ns` on."""
    gaps = [gap_summary(trace, device, least_ns) for device in devices]
    launches = [launch_costs(trace, device) for device in devices]
    works = [overlap(device) for device in devices]
    streams = [stream_overlap(trace, device) for device in devices]
    per_step = [row.per_step for costs in launches for row in costs.launch_calls if row.per_step is not None]
    of_all = zip(devices, gaps, launches, works, streams, strict=True)
    return GapsAnswer(
        profile=name,
        zero_ns=devices[0].zero_ns,
        sentences=(*(line for each in of_all for line in _sentences(*each)), *note_sentences(trace.health)),
        health=health_rows(trace.health),
        has_steps=any(device.steps is not None for device in devices),
        idle_ns=sum(summary.idle_ns for summary in gaps),
        launches_per_step=math.fsum(per_step) if per_step else None,
        least_ns=least_ns,
        by_cause=tuple(row for summary in gaps for row in summary.by_cause),
        by_trigger=tuple(row for summary in gaps for row in summary.by_trigger),
        by_line=tuple(row for summary in gaps for row in summary.by_line),
        by_length=tuple(row for summary in gaps for row in summary.by_length),
        longest=tuple(row for summary in gaps for row in summary.longest),
        overlap=tuple(row for rows in works for row in rows),
        stream_overlap=tuple(row for stream in streams for row in stream.pairs),
        launch_calls=tuple(row for costs in launches for row in costs.launch_calls),
        waiting_calls=tuple(row for costs in launches for row in costs.waiting_calls),
        queue=tuple(costs.queue for costs in launches),
        launches_by_family=tuple(row for costs in launches for row in costs.by_family),
        launches_by_range=tuple(row for costs in launches for row in costs.by_range),
    )


def _sentences(
    device: Device, gaps: GapSummary, launches: LaunchCosts, work: Sequence[OverlapRow], streams: StreamOverlap
) -> Iterator[Message]:
    yield from _idle_sentences(device, gaps)
    yield from _exposed_sentences(device, work)
    yield from _stream_sentences(device, streams)
    yield from _launch_sentences(device, launches)


def _idle_sentences(device: Device, summary: GapSummary) -> Iterator[Message]:
    """How much of the window the GPU is idle, why, and what to fix first."""
    window_ns = device.ledger.window_ns
    if not summary.idle_ns:
        yield say("GPU {gpu}: never idle in {window}.", gpu=summary.gpu, window=time_text(window_ns))
        return
    largest = summary.by_cause[0]
    yield say(
        "GPU {gpu}: idle {share} of the window ({idle} of {window}), in {gaps}; {part} of the idle time is {cause}.",
        gpu=summary.gpu,
        share=share_text(summary.idle_ns / window_ns),
        idle=time_text(summary.idle_ns),
        window=time_text(window_ns),
        gaps=gaps_text(summary.gaps),
        part=share_text(largest.time_ns / summary.idle_ns),
        cause=largest.cause.label,
    )
    if not summary.by_trigger or not summary.steady_idle_ns:
        return
    first = max(summary.by_trigger, key=lambda part: part.time_ns)
    figures = {
        "most": say("Most of it") if device.steps is None else say("Most of it in the steady steps"),
        "trigger": first.trigger.label,
        "share": share_text(first.time_ns / summary.steady_idle_ns),
        "gaps": gaps_text(first.gaps),
        "time": step_time_text(device, first.time_ns),
    }
    code = code_of_trigger(first.trigger)
    if code is None or first.time_ns < WORTH_DOING * device.steady_ns:
        yield say("{most}: {trigger}, {share} ({gaps}, {time}).", **figures)
    else:
        yield say(
            "{most}: {trigger}, {share} ({gaps}, {time}): `gpuledger explain {code}`; "
            "`gpuledger report` ranks fixes by what they save.",
            **figures,
            code=code,
        )


def _exposed_sentences(device: Device, work: Sequence[OverlapRow]) -> Iterator[Message]:
    """What of communication and copies is not overlapped with compute."""
    _, communication, copies, _ = work
    for row, code in ((communication, "COMM-EXPOSED"), (copies, "COPY-EXPOSED")):
        if not row.running_ns:
            continue
        figures = {
            "what": row.kind,
            "time": time_text(row.running_ns),
            "share": share_text(row.exposed_ns / row.running_ns),
        }
        if row.exposed_ns < WORTH_DOING * device.ledger.window_ns:
            yield say("Of {time} of {what}, {share} is not overlapped with compute.", **figures)
        else:
            yield say(
                "Fix: of {time} of {what}, {share} is not overlapped with compute (`gpuledger explain {code}`).",
                **figures,
                code=code,
            )


def _stream_sentences(device: Device, overlap: StreamOverlap) -> Iterator[Message]:
    """That kernels overlap on one stream, why, and what that gains at most."""
    if not overlap.kernels:
        return
    why = say("programmatic dependent launch")
    if overlap.in_graphs:
        why = say("programmatic dependent launch, or branches of a graph on one stream")
    yield say(
        "On one stream, {kernels} begin before the one before them ends ({why}): they overlap by {time}, "
        "and one after the other they would take at most that much longer.",
        kernels=step_count_text(device, overlap.kernels, say("kernel"), say("kernels")),
        why=why,
        time=step_time_text(device, overlap.overlap_ns),
    )


def _launch_sentences(device: Device, costs: LaunchCosts) -> Iterator[Message]:
    """What launching costs the CPU, whether it keeps ahead of the GPU, and what to do where it does not."""
    count, time_ns = (sum(getattr(row, field) for row in costs.launch_calls) for field in ("calls", "total_ns"))
    if not count:
        yield none_sentence(device, say("recorded launch call"))
        return
    is_ahead = (costs.queue.ahead_share or 0) >= _HALF
    yield say(
        "GPU {gpu}: launch calls take {time} on the CPU ({share} of the time): {count}; {ahead}.",
        gpu=costs.gpu,
        time=step_time_text(device, time_ns),
        share=share_text(time_ns / costs.steady_ns),
        count=step_count_text(device, count, say("launch"), say("launches")),
        ahead=_ahead_words(costs.queue, is_ahead=is_ahead),
    )
    if waits := sum(row.calls for row in costs.waiting_calls):
        yield say(
            "The CPU waits {time} for the GPU: {count}.",
            count=step_count_text(device, waits, say("call"), say("calls")),
            time=step_time_text(device, costs.waited_ns),
        )
    if not is_ahead and (costs.queue.tiny_share or 0) >= _HALF:
        yield say(
            "Fix: {share} of the GPU work takes under 5 us, less than launching it: fuse it, or capture "
            "the step in a CUDA graph (`gpuledger explain TINY-KERNELS`).",
            share=share_text(costs.queue.tiny_share or 0),
        )


def _ahead_words(queue: QueueRow, *, is_ahead: bool) -> Message:
    if queue.queued_median_ns is None:
        return say("how far the CPU runs ahead was not recorded")
    figures = {"median": time_text(round(queue.queued_median_ns)), "share": share_text(queue.ahead_share or 0)}
    if is_ahead:
        return say(
            "the CPU runs ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **figures
        )
    return say(
        "the CPU does not run ahead: work waits {median} in the queue (median), {share} of it for over 10 us", **figures
    )

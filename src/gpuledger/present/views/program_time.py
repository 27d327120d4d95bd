"""What the program does with one GPU: its launches, copies and allocations, and ranges.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuledger.analyse.launch_costs import CallTimes
from gpuledger.analyse.memory.figures import MEMSET, MemoryFigures
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.gpu_time import Sentences
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.words import WORTH_DOING, none_sentence, steady_title, step_count_text, step_time_text
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, count_text, share_text

if TYPE_CHECKING:
    from gpuledger.answers.one_gpu import MemoryAnswer


def _sums(functions: Sequence[CallTimes]) -> tuple[int, int]:
    """Calls and their time."""
    return sum(function.times.count for function in functions), sum(function.times.total for function in functions)


def _call_columns(steps: int) -> tuple[Column, ...]:
    """Calls by function, and how many there are in each of the steady steps."""
    return (
        Column("name", say("Call"), Unit.TEXT, lambda function: short_function_name(function.name)),
        Column("calls", say("Calls"), Unit.COUNT, "times.count"),
        Column("per_step", say("Per step"), Unit.MEAN, lambda function: function.times.count / steps),
        Column("total_ns", say("Time"), Unit.NS, "times.total"),
    )


def memory_tables(answer: MemoryAnswer) -> TableAnswer:
    """What is copied and allocated."""
    sheets = memory_sheets(answer.device, answer.figures)
    return TableAnswer(_memory_sentences(answer.device, answer.figures), sheets)


def _memory_sentences(device: Device, figures: MemoryFigures) -> Sentences:
    """What is copied and allocated, and what of it to change."""
    copies, count = figures.copies, sum(copied.count for copied in figures.copies)
    sentences = [none_sentence(device, say("copies"))]
    if count:
        time_ns = sum(copied.total_ns for copied in copies)
        sizes = [copied.total_bytes for copied in copies if copied.total_bytes is not None]
        size: Message | str = bytes_text(sum(sizes) // device.step_count)
        if len(sizes) < len(copies):
            size = say("at least {size}", size=size) if sizes else say("bytes that were not recorded")
        sentences = [
            say(
                "GPU {gpu}: copies and memsets take {time} ({share} of the time) and move {size}: {count}.",
                gpu=device.gpu,
                time=step_time_text(device, time_ns),
                share=share_text(time_ns / device.steady_ns),
                size=size,
                count=step_count_text(device, count, say("transfer"), say("transfers")),
            )
        ]
    if not isinstance(figures.in_use, NotMeasured):
        sentences.append(say("Peak device memory: {size}.", size=bytes_text(figures.in_use.peak_bytes)))
    if pageable := [copied for copied in copies if copied.is_pageable]:
        whole = sum(copied.count for copied in copies if copied.kind != MEMSET)
        counts = {"count": count_text(sum(copied.count for copied in pageable)), "whole": count_text(whole)}
        sentences.append(
            say(
                "Fix: {count} of {whole} copies use pageable host memory, which blocks the CPU; pin it "
                "(`gpuledger explain COPY-PAGEABLE`).",
                **counts,
            )
            if sum(copied.total_ns for copied in pageable) >= WORTH_DOING * device.steady_ns
            else say("{count} of {whole} copies use pageable host memory, which blocks the CPU.", **counts)
        )
    allocations, allocating_ns = _sums(figures.allocation_calls)
    if allocations:
        sentences.append(
            say(
                "Fix: allocating and freeing memory takes {time}: {count}; allocate once, before the steps "
                "(`gpuledger explain HOST-ALLOC`).",
                time=step_time_text(device, allocating_ns),
                count=step_count_text(device, allocations, say("call"), say("calls")),
            )
        )
    return tuple(sentences)


class MemorySheets(NamedTuple):
    """The tables about one GPU's memory."""

    copies: Sheet
    allocation_calls: Sheet
    in_use: Sheet


def memory_sheets(device: Device, figures: MemoryFigures) -> MemorySheets:
    """Copies and allocation calls over the steady steps; the memory in use over the whole capture."""
    steps, in_use = device.step_count, figures.in_use
    copies = Sheet.of(
        f"copies_gpu{device.gpu}",
        steady_title(device, say("Copies")),
        (
            Column("kind", say("Kind"), Unit.TEXT),
            Column("from", say("From"), Unit.TEXT, "source"),
            Column("to", say("To"), Unit.TEXT, "target"),
            Column("copies", say("Copies"), Unit.COUNT, "count"),
            Column("per_step", say("Per step"), Unit.MEAN, lambda copied: copied.count / steps),
            Column("total_bytes", "MB", Unit.MB, page_name=say("Size")),
            Column("total_ns", say("Time"), Unit.NS),
            Column("bytes_per_s", "MB/s", Unit.MB_PER_S, detail=1, page_name=say("Rate")),
        ),
        figures.copies,
    )
    title = steady_title(device, say("Allocation calls"))
    calls = Sheet.of(f"allocation_calls_gpu{device.gpu}", title, _call_columns(steps), figures.allocation_calls)
    totals: tuple[tuple[Message, int], ...] = ()
    if not isinstance(in_use, NotMeasured):
        totals = (
            (say("peak"), in_use.peak_bytes),
            (say("at the end"), in_use.end_bytes),
            (say("allocated in total"), in_use.allocated_bytes),
        )
    used = Sheet.of(
        f"memory_in_use_gpu{device.gpu}",
        say("Device memory, GPU {gpu}", gpu=device.gpu),
        (
            Column("figure", say("Figure"), Unit.TEXT, lambda total: total[0]),
            Column("bytes", "MB", Unit.MB, lambda total: total[1], page_name=say("Size")),
        ),
        totals,
        why_empty=in_use.reason if isinstance(in_use, NotMeasured) else "",
    )
    return MemorySheets(copies, calls, used)

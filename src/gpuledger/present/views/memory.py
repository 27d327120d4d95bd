"""What each GPU copies and allocates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from gpuledger.analyse.idle.launch_costs import CallRow
from gpuledger.analyse.memory.figures import MEMSET, CopyRow, MemoryFigures, MemoryUseRow, memory_figures
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.views.answer import Answer, health_rows, note_sentences, reasons
from gpuledger.present.views.words import WORTH_DOING, Sentences, none_sentence, step_count_text, step_time_text
from gpuledger.rows import Label
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.units import bytes_text, count_text, share_text


class MemoryAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.memory/1"):
    """Copies and allocation calls of the steady steps; memory in use over the whole capture."""

    has_steps: bool
    copies: Annotated[tuple[CopyRow, ...], Label(say("Copies"))]
    allocation_calls: Annotated[tuple[CallRow, ...], Label(say("Allocation calls"))]
    in_use: Annotated[tuple[MemoryUseRow, ...], Label(say("Device memory"))]

    def title(self, table: str) -> str:
        title = super().title(table)
        return say("{title}, steady steps", title=title) if self.has_steps and table != "in_use" else title


def memory_answer(name: str, trace: Trace, devices: Sequence[Device]) -> MemoryAnswer:
    """What each GPU copies and allocates."""
    figures = [memory_figures(trace, device) for device in devices]
    in_use = [of_gpu.in_use for of_gpu in figures]
    return MemoryAnswer(
        profile=name,
        zero_ns=devices[0].zero_ns,
        sentences=(
            *(line for device, of_gpu in zip(devices, figures, strict=True) for line in _sentences(device, of_gpu)),
            *note_sentences(trace.health),
        ),
        not_measured=reasons(in_use=in_use),
        health=health_rows(trace.health),
        has_steps=any(device.steps is not None for device in devices),
        copies=tuple(row for of_gpu in figures for row in of_gpu.copies),
        allocation_calls=tuple(row for of_gpu in figures for row in of_gpu.allocation_calls),
        in_use=tuple(use for use in in_use if not isinstance(use, NotMeasured)),
    )


def _sentences(device: Device, figures: MemoryFigures) -> Sentences:
    """What is copied and allocated, and what of it to change."""
    copies, count = figures.copies, sum(copied.copies for copied in figures.copies)
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
        whole = sum(copied.copies for copied in copies if copied.kind != MEMSET)
        counts = {"count": count_text(sum(copied.copies for copied in pageable)), "whole": count_text(whole)}
        sentences.append(
            say(
                "Fix: {count} of {whole} copies use pageable host memory, which blocks the CPU; pin it "
                "(`gpuledger explain COPY-PAGEABLE`).",
                **counts,
            )
            if sum(copied.total_ns for copied in pageable) >= WORTH_DOING * device.steady_ns
            else say("{count} of {whole} copies use pageable host memory, which blocks the CPU.", **counts)
        )
    if allocations := sum(call.calls for call in figures.allocation_calls):
        allocating_ns = sum(call.total_ns for call in figures.allocation_calls)
        sentences.append(
            say(
                "Fix: allocating and freeing memory takes {time}: {count}; allocate once, before the steps "
                "(`gpuledger explain HOST-ALLOC`).",
                time=step_time_text(device, allocating_ns),
                count=step_count_text(device, allocations, say("call"), say("calls")),
            )
        )
    return tuple(sentences)

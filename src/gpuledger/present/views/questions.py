"""The questions that verbs ask about one GPU: a trace and a device in, sentences and tables out.

The command line asks them, and so do agents: both are told the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.analyse.gap_summary import gap_summary
from gpuledger.analyse.launch_costs import launch_costs
from gpuledger.analyse.memory.figures import memory_figures
from gpuledger.analyse.operators.costs import operator_costs
from gpuledger.analyse.overlap import overlap, stream_overlap
from gpuledger.analyse.range_tree import range_tree
from gpuledger.ledger.device import Device
from gpuledger.present.views.answers import (
    gap_answer,
    launch_answer,
    memory_answer,
    operator_answer,
    overlap_answer,
    range_answer,
    step_answer,
    stream_overlap_answer,
)
from gpuledger.present.views.gaps import gap_sheets
from gpuledger.present.views.launches import launches_sheets
from gpuledger.present.views.memory import sheets_of_memory
from gpuledger.present.views.operators import ops_sheets
from gpuledger.present.views.overlap import overlap_sheet, stream_overlap_sheet
from gpuledger.present.views.ranges import ranges_sheet
from gpuledger.present.views.steps import step_sheets
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.utilization.kernel_use import UseOfKernels


def steps_of(trace: Trace, device: Device) -> TableAnswer:
    """The steps of one GPU; with each step's means of its counters, where they were sampled."""
    sentences, sheets = step_answer(device), tuple(step_sheets(device))
    if device.steps is None or Table.METRICS not in trace.tables:
        return TableAnswer(sentences, sheets)
    from gpuledger.analyse.utilization.stretches import use_of_device
    from gpuledger.present.views.step_use import step_use_sheet

    use = use_of_device(trace, device)
    if isinstance(use, NotMeasured):
        return TableAnswer(sentences, sheets)
    return TableAnswer(sentences, (*sheets, step_use_sheet(use, device.zero_ns)))


def gaps_of(trace: Trace, device: Device, least_ns: int | None = None) -> TableAnswer:
    """Why the GPU was idle; the longest gaps, or all from `least_ns` on."""
    summary = gap_summary(trace, device, least_ns)
    return TableAnswer(gap_answer(summary, device), tuple(gap_sheets(summary)))


def launches_of(trace: Trace, device: Device) -> TableAnswer:
    """What launches cost, and how far the host runs ahead."""
    costs = launch_costs(trace, device)
    shown = launches_sheets(costs, with_units=True)
    return TableAnswer(launch_answer(costs, device), tuple(launches_sheets(costs)), tuple(shown))


def memory_of(trace: Trace, device: Device) -> TableAnswer:
    """What is copied and allocated."""
    figures = memory_figures(trace, device)
    sheets = sheets_of_memory(device, figures)
    return TableAnswer(memory_answer(device, figures), (sheets.copies, sheets.allocation_calls, sheets.in_use))


def operators_of(trace: Trace, device: Device) -> TableAnswer:
    """Host and GPU time by operator."""
    costs = operator_costs(trace, device)
    shown = ops_sheets(costs, with_units=True)
    return TableAnswer(operator_answer(costs, device), tuple(ops_sheets(costs)), tuple(shown))


def ranges_of(trace: Trace, device: Device) -> TableAnswer:
    """Host and GPU time by range; with what the kernels of each use of the GPU, where it was sampled."""
    tree = range_tree(trace, device, _use(trace, device))
    return TableAnswer(range_answer(tree), (ranges_sheet(tree),))


def overlap_of(trace: Trace, device: Device) -> TableAnswer:
    """What runs beside what, and kernels that overlap on one stream."""
    work, on_streams = overlap(device), stream_overlap(trace, device)
    sentences = (*overlap_answer(work), *stream_overlap_answer(on_streams, device))
    sheets = (overlap_sheet(work), stream_overlap_sheet(on_streams))
    return TableAnswer(sentences, sheets, sheets if on_streams.kernels else sheets[:1])


def _use(trace: Trace, device: Device) -> UseOfKernels | None:
    if Table.METRICS not in trace.tables:
        return None
    from gpuledger.analyse.utilization.kernel_use import use_of_kernels

    use = use_of_kernels(trace, device.gpu, device.ledger.busy.stretches)
    return None if isinstance(use, NotMeasured) else use

"""What the questions about one GPU answer: values with units, that sum to what they are parts of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.analyse.gap_summary import gap_summary
from gpuledger.analyse.launch_costs import launch_costs
from gpuledger.analyse.memory.copies import copies_by_kind
from gpuledger.analyse.memory.in_use import memory_totals
from gpuledger.analyse.overlap import Exposure, overlap
from gpuledger.analyse.range_tree import range_tree
from gpuledger.analyse.step_summary import StepNote, step_books
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import Trace
from support.html_pages import reported
from support.nsys_exports import call, kernel, minimal, push

CAPTURES = ("decode.sqlite", "moe_loop.sqlite", "graph.sqlite")


def opened(path: Path) -> tuple[Trace, Device]:
    report = reported(path)
    return report.trace, report.main_device


def test_a_gap_is_summed_up_with_what_is_around_it(tmp_path: Path) -> None:
    kernels = [kernel(20, 30, correlationId=1), kernel(100, 120, correlationId=2)]
    calls = [call(10, 12, correlationId=1), call(90, 95, correlationId=2)]
    path = minimal(
        tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=[push(80, 99, "step"), push(85, 98, "mlp")]
    )
    summary = gap_summary(*opened(path))
    [first, second] = summary.longest
    assert (first.start_ns, first.length_ns, first.ranges) == (20, 70, ("step", "mlp"))  # 0 is the first launch call
    assert (second.start_ns, second.length_ns, second.ranges) == (0, 10, ())
    assert (summary.gaps, summary.idle_ns) == (2, 80)


def test_a_range_that_is_called_with_blanks_is_no_deeper_for_it(tmp_path: Path) -> None:
    kernels, calls = [kernel(20, 30, correlationId=1)], [call(10, 12, correlationId=1)]
    path = minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=[push(5, 15, "    set in")])
    [node] = range_tree(*opened(path)).nodes
    assert (node.name, node.depth, node.gpu_ns) == ("    set in", 0, 10)


def test_nothing_launched_and_nothing_allocated_is_not_measured(tmp_path: Path) -> None:
    trace, device = opened(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(0, 1000)]))
    costs = launch_costs(trace, device)
    assert (costs.launch_calls, costs.queue.activities, costs.queue.launched, costs.queue.delays) == ((), 1, 0, None)
    assert isinstance(memory_totals(trace, device.gpu), NotMeasured)
    assert copies_by_kind(trace, device) == ()
    assert overlap(device).compute == Exposure(hidden_ns=0, exposed_ns=1000)


@pytest.mark.parametrize("capture", CAPTURES)
def test_parts_sum_to_their_whole(capture: str, unpacked: Callable[[str], Path]) -> None:
    trace, device = opened(unpacked(capture))
    gaps = gap_summary(trace, device)
    assert sum(bucket.time_ns for bucket in gaps.by_length) == gaps.idle_ns == overlap(device).idle.exposed_ns
    work = overlap(device)
    parts = (work.compute, work.communication, work.copies, work.idle)
    assert sum(part.exposed_ns for part in parts) == work.window_ns
    tree = range_tree(trace, device)
    here = device.work.on(device.gpu)
    whole = int((device.work.end_ns - device.work.start_ns)[here].sum())
    assert sum(node.own_gpu_ns for node in tree.nodes) + tree.outside_gpu_ns == whole
    outermost = [node for node in tree.nodes if node.depth == 0]
    assert sum(node.gpu_ns for node in outermost) + tree.outside_gpu_ns == whole
    steps = variation(device)
    assert steps is not None
    books = step_books(device, steps)
    assert [step.length_ns for step in books] == steps.steps.length_ns.tolist()
    assert sum(step.note is StepNote.WARM_UP for step in books) == steps.steps.warm_up

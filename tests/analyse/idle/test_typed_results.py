"""What the questions about one GPU answer: values with units, that sum to what they are parts of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.analyse.idle.gap_summary import gap_summary
from gpuledger.analyse.idle.launch_costs import launch_costs
from gpuledger.analyse.idle.overlap import overlap
from gpuledger.analyse.memory.figures import copies_by_kind, memory_totals
from gpuledger.analyse.phases.step_summary import StepNote, step_books
from gpuledger.analyse.ranges.range_tree import range_tree
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import variation
from gpuledger.trace.model import NotMeasured, Trace
from support.command import gpuledger
from support.pages.html_pages import reported
from support.profiles.nsys_exports import call, kernel, minimal, push

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
    assert (node.range, node.depth, node.gpu_ns) == ("    set in", 0, 10)


def test_operators_are_counted_without_the_ids_that_make_each_another(tmp_path: Path) -> None:
    """PyTorch's emit_nvtx names an operator `aten::mm, seq = 7, op_id = 31`."""
    kernels = [kernel(20, 30, correlationId=1), kernel(100, 120, correlationId=2)]
    calls = [call(10, 12, correlationId=1), call(90, 95, correlationId=2)]
    ranges = [push(5, 15, "aten::mm, op_id = 3636"), push(85, 98, "aten::mm, seq = 7, op_id = 3637")]
    trace, device = opened(minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=ranges))
    [node] = range_tree(trace, device).nodes
    assert (node.range, node.instances, node.gpu_ns, node.launches) == ("aten::mm", 2, 30, 2)
    [launched] = launch_costs(trace, device).by_range
    assert (launched.range, launched.instances, launched.launches) == ("aten::mm", 2, 2)


def test_nothing_launched_and_nothing_allocated_is_not_measured(tmp_path: Path) -> None:
    trace, device = opened(minimal(tmp_path / "a.sqlite", KERNEL=[kernel(0, 1000)]))
    costs = launch_costs(trace, device)
    assert (costs.launch_calls, costs.queue.activities, costs.queue.launched_share, costs.by_delay) == ((), 1, 0.0, ())
    assert isinstance(memory_totals(trace, device.gpu), NotMeasured)
    assert copies_by_kind(trace, device) == ()
    compute = overlap(device)[0]
    assert (compute.hidden_ns, compute.exposed_ns, compute.share) == (0, 1000, 1.0)


@pytest.mark.parametrize("capture", CAPTURES)
def test_parts_sum_to_their_whole(capture: str, unpacked: Callable[[str], Path]) -> None:
    trace, device = opened(unpacked(capture))
    gaps = gap_summary(trace, device)
    assert sum(bucket.time_ns for bucket in gaps.by_length) == gaps.idle_ns == overlap(device)[-1].exposed_ns
    assert sum(part.exposed_ns for part in overlap(device)) == device.ledger.window_ns
    tree = range_tree(trace, device)
    here = device.work.on(device.gpu)
    whole = int((device.work.end_ns - device.work.start_ns)[here].sum())
    assert sum(node.own_gpu_ns for node in tree.nodes) + tree.outside.gpu_ns == whole
    outermost = [node for node in tree.nodes if node.depth == 0]
    assert sum(node.gpu_ns for node in outermost) + tree.outside.gpu_ns == whole
    steps = variation(device)
    assert steps is not None
    books = step_books(device, steps)
    assert [step.length_ns for step in books] == steps.steps.length_ns.tolist()
    assert sum(step.note is StepNote.WARM_UP for step in books) == steps.steps.warm_up


def test_all_gaps_from_a_length_on_are_listed_and_hold_what_the_histogram_says(unpacked: Callable[[str], Path]) -> None:
    trace, device = opened(unpacked("decode.sqlite"))
    lengths = device.ledger.gaps.length_ns
    for least_ns in (0, 100_000, 1_000_000, 10**12):
        listed = gap_summary(trace, device, least_ns).longest
        assert [gap.length_ns for gap in listed] == sorted(lengths[lengths >= least_ns].tolist(), reverse=True)
    summary = gap_summary(trace, device, 1_000_000)
    assert (len(summary.longest), sum(gap.length_ns for gap in summary.longest)) == (
        summary.by_length[-1].gaps,
        summary.by_length[-1].time_ns,
    )
    assert summary.longest[:20] == gap_summary(trace, device).longest


def test_gaps_over_a_length_are_in_every_format_and_can_be_pasted(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("decode.sqlite")
    asked = ("gaps", path, "--over=1ms")
    document = json.loads(gpuledger(*asked, "--format=json").stdout)
    assert len(document["longest"]) == 22
    assert document["idle_ns"] == sum(row["time_ns"] for row in document["by_cause"])
    assert document["launches_per_step"] == sum(row["calls"] for row in document["launch_calls"]) / 20
    text = gpuledger(*asked, COLUMNS="80").stdout
    assert "22 of 2,370 gaps are 1.00 ms or longer, 89.4 % of the idle time, GPU 0" in text
    assert "50.0 ms  0.001058224 s  0.051057530 s  cold start   Memset" in text
    one = gpuledger("gaps", path, "--time=0.001058224 s:0.051057530 s", "--format=json")
    assert [row["length_ns"] for row in json.loads(one.stdout)["longest"]] == [document["longest"][0]["length_ns"]]
    tables = gpuledger(*asked, "--format=csv").stdout.split("\n\n")
    [longest] = [table for table in tables if table.startswith("gpu,length_ns,start_ns,")]
    assert len(longest.splitlines()) == 1 + 22


@pytest.mark.parametrize("length", ["-1us", "soon", "1.5"])
def test_what_is_no_length_of_a_gap_is_refused(length: str, tmp_path: Path) -> None:
    ran = gpuledger("gaps", minimal(tmp_path / "a.sqlite", KERNEL=[kernel(0, 9)]), f"--over={length}")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "Invalid value for '--over'" in ran.stderr


def test_a_step_has_the_kernels_that_begin_in_it_and_the_share_that_is_busy(tmp_path: Path) -> None:
    kernels = [kernel(start, start + 10, correlationId=start) for start in (10, 20, 50, 80)]
    calls = [call(start - 5, start - 2, correlationId=start) for start in (10, 20, 50, 80)]
    steps = [push(0, 19, "step 0"), push(40, 49, "step 1"), push(70, 79, "step 2")]
    _, device = opened(minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=steps))
    varied = variation(device)
    assert varied is not None
    books = step_books(device, varied)
    assert [(step.kernels, step.busy_ns, step.length_ns) for step in books] == [(2, 20, 30), (1, 10, 30), (1, 10, 30)]
    assert [round(step.busy_share or 0, 3) for step in books] == [0.667, 0.333, 0.333]


def test_kernels_of_graphs_that_were_traced_whole_are_not_counted_as_none(unpacked: Callable[[str], Path]) -> None:
    _, device = opened(unpacked("zoo_graph.sqlite"))
    varied = variation(device)
    assert varied is not None
    kernels = [step.kernels for step in step_books(device, varied)]
    assert None in kernels
    assert 0 not in kernels


def test_a_kernel_that_ends_steps_is_found_in_capitals_or_not_or_named(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("decode.sqlite")
    found = [gpuledger("steps", path, f"--step-kernel={name}", "--format=csv") for name in ("argmax", "ArgMaxOps")]
    assert [ran.exit_code for ran in found] == [0, 0]
    rows = [[line for line in ran.stdout.splitlines() if "kernels matching" not in line] for ran in found]
    assert rows[0] == rows[1]
    refused = gpuledger("steps", path, "--step-kernel=argmx")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "hint: names that come near: ArgMaxOps" in refused.stderr
    assert max(map(len, refused.stderr.split(", "))) < 100  # no whole names of templates

"""Whatever an export holds, every question gets an answer or one sentence, and the books balance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger import GpuledgerError, open_trace
from gpuledger.analyse.idle.launch_costs import launch_costs
from gpuledger.analyse.ranges.range_tree import range_tree
from gpuledger.answers.one_gpu import ranges_of_gpu
from gpuledger.ledger.steps import Steps
from gpuledger.present.views.gaps import gaps_answer
from gpuledger.present.views.memory import memory_answer
from gpuledger.present.views.ranges import ranges_answer
from gpuledger.present.views.report import ledger_sheet
from gpuledger.present.views.steps import steps_answer
from gpuledger.present.writers import write
from gpuledger.present.writers.json import json_text
from gpuledger.selection import Selection
from gpuledger.verbs.profiled_report import Report
from gpuledger.verbs.report import build_report
from support.profiles.nsys_exports import call, kernel, minimal, push
from support.thorough import some
from support.traces.book_checks import check_balance
from support.traces.saving_laws import broken_laws


@pytest.mark.parametrize("part", some(range(4), 2))
def test_every_question_about_a_random_export(part: int, unpacked: Callable[[str], Path]) -> None:
    answered = 0
    ways: tuple[Callable[[Report], str], ...] = (
        lambda report: json_text(report.to_dict()),
        lambda report: report.to_text(width=80),
        lambda report: report.to_markdown(),
    )
    for number, path in enumerate(some(sorted(unpacked("random.tar").glob("*.sqlite"))[part::4], 4)):
        form = ("text", "md", "csv", "json")[number % 4]
        trace = open_trace(path, cache=False)
        narrowed = (Selection(range_pattern="step|layer"), Selection(kernel_pattern="gemm"))[number // 4 % 2]
        for wanted in (Selection(), narrowed):
            try:
                report = build_report(trace, path.name, wanted)
            except GpuledgerError:  # refused in one sentence: no such range or kernel, or no GPU work
                continue
            answered += 1
            for device in report.devices:
                check_balance(device)
                ranges = ranges_answer(path.name, trace, [device], [ranges_of_gpu(trace, device)], ())
                assert write(ranges.document(), form, width=80)
                for answer in (gaps_answer, steps_answer, memory_answer):
                    assert write(answer(path.name, trace, [device]).document(), form, width=80)
                assert ledger_sheet(device).rows
            assert broken_laws(report) == []
            assert ways[number % 3](report)
    assert answered > 10


def test_a_range_that_is_open_much_longer_than_the_steps_is_no_share_of_them(tmp_path: Path) -> None:
    """As in a server's trace: the host waits in a range for a hundred times as long as the step that it marks takes."""
    nvtx = [push(0, 1000, "step"), push(912, 970, "model")]
    calls = [call(10, 12, correlationId=1), call(913, 914, correlationId=2)]
    kernels = [kernel(900, 910, correlationId=1), kernel(915, 980, correlationId=2)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=nvtx))
    [device] = build_report(trace, "a", Selection()).devices
    on = replace(device, steps=Steps(0, "marked by a range", np.array([900, 980]), 0))
    shares = {node.range: node.share for node in range_tree(trace, on).nodes}
    assert shares == {"step": None, "model": pytest.approx(58 / 80)}


def test_the_tree_of_ranges_minds_neither_marks_nor_the_order_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvtx = [push(20, 30, "inner"), push(12, None, "a mark", eventType=34), push(10, 90, "outer"), push(40, 50, "inner")]
    calls = [call(22, 24, correlationId=1), call(42, 44, correlationId=2), call(60, 62, correlationId=3)]
    kernels = [kernel(25, 35, correlationId=1), kernel(45, 52, correlationId=2), kernel(63, 66, correlationId=3)]
    trace = open_trace(minimal(tmp_path / "a.sqlite", KERNEL=kernels, RUNTIME=calls, NVTX=nvtx))
    [device] = build_report(trace, "a", Selection()).devices
    tree = range_tree(trace, device)
    outer, inner = tree.nodes
    columns = ("range", "depth", "instances", "host_ns", "gpu_ns", "own_gpu_ns", "launches", "waits")
    assert [getattr(outer, column) for column in columns] == ["outer", 0, 1, 80, 20, 3, 3, 0]
    assert [getattr(inner, column) for column in columns] == ["inner", 1, 2, 20, 17, 17, 2, 0]
    assert (tree.outside.gpu_ns, tree.outside.launches) == (0, 0)
    answer = ranges_answer("a", trace, [device], [tree], ())
    assert [row.range for row in answer.ranges] == ["outer", "inner", None]
    told = write(answer.document(), "text", width=80)
    assert told.index("\nouter ") < told.index("\n  inner ") < told.index("\n(in no range) ")
    monkeypatch.setattr("gpuledger.present.views.ranges.MOST_RANGES", 1)
    few = ranges_answer("a", trace, [device], [tree], ())
    assert ([row.range for row in few.ranges], few.left_out_ranges, few.left_out_gpu_ns) == (["outer", None], 1, 17)


@pytest.mark.parametrize("name", ["decode", "graph", "moe_loop"])
def test_ranges_hold_as_many_launches_as_launches_says(name: str, unpacked: Callable[[str], Path]) -> None:
    """Of kernels and graphs; not copies, and a graph once, whatever it holds."""
    trace = open_trace(unpacked(f"{name}.sqlite"))
    [device] = build_report(trace, name, Selection()).devices
    outermost = [node for node in range_tree(trace, device).nodes if node.depth == 0]
    each = {node.range: (node.launches or 0) / (node.instances or 1) for node in outermost}
    steady = {line.range: line.launches / line.instances for line in launch_costs(trace, device).by_range}
    assert each.keys() & steady.keys()
    assert {name: each[name] for name in each.keys() & steady.keys()}.items() <= steady.items()

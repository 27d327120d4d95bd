"""Which findings a profile has: all of those of captures from real programs, in order, and what no capture has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import NothingRecorded, Trace, build_report, open_trace
from gpuledger.findings.finding import Finding
from gpuledger.selection import Selection
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support import torch_traces
from support.nsys_exports import PID, call, kernel, minimal, push
from support.trace_notation import of_tables, table

TOLD = {
    "attn": ("HOST-LOAD", "HOST-CODE"),
    "decode": ("HOST-LOAD", "LAUNCH-BOUND", "HOST-CODE"),
    "graph": (),
    "host_read_stacks": ("HOST-SYNC", "HOST-ALLOC", "CAPTURE-OVERHEAD", "CAPTURE-WARMUP"),
    "moe_loop": ("LAUNCH-BOUND", "STEP-DRIFT", "STEP-OUTLIERS", "HOST-CODE", "HOST-SYNC"),
    "two_gloo": (*("HOST-THREAD", "HOST-SYNC", "HOST-CODE", "LAUNCH-BOUND", "DEVICE-WAIT", "GPU-SHARED"),),
    "zoo_graph": (
        *("COPY-PAGEABLE", "STEP-OUTLIERS", "HOST-SYNC", "COPY-EXPOSED", "HOST-CODE", "UNIFIED-MEMORY"),
        *("CAPTURE-GRAPHS-OPAQUE", "CAPTURE-OVERHEAD"),
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_a_capture_has_these_findings_in_this_order(name: str, unpacked: Callable[[str], Path]) -> None:
    found = build_report(open_trace(unpacked(f"{name}.sqlite"))).findings
    assert tuple(finding.code for finding in found) == TOLD[name]


US = 1_000
MS = 1_000 * US
STEP_US = 100


def _program(call_names: tuple[str, ...], *, recorded: bool = True) -> Trace:
    """Eight steps of 100 us, each a range with one kernel of 80 us; these calls come before its launch.

    Where a launch is not `recorded`, its kernel has an id that no call has.
    """
    names = (*call_names, "cudaLaunchKernel")
    steps = range(8)
    strings = Strings(dict.fromkeys(("k", "step", "push_pop", "runtime", "", *names)))
    begins = [step * STEP_US * US for step in steps]
    calls = table(
        Table.CALLS,
        strings,
        len(names) * len(steps),
        start_ns=[begin + 2 * US * number for begin in begins for number in range(len(names))],
        end_ns=[begin + 2 * US * number + US for begin in begins for number in range(len(names))],
        correlation=[1 + step * len(names) + number for step in steps for number in range(len(names))],
        name=list(names) * len(steps),
        layer=["runtime"] * len(names) * len(steps),
        stack=[-1] * len(names) * len(steps),
    )
    launch_ids = [(1 + step) * len(names) for step in steps]
    kernels = table(
        Table.KERNELS,
        strings,
        len(steps),
        start_ns=[begin + 15 * US for begin in begins],
        end_ns=[begin + 95 * US for begin in begins],
        correlation=launch_ids if recorded else [number + 1_000 for number in launch_ids],
        name=["k"] * len(steps),
        graph_node=[-1] * len(steps),
    )
    ranges = table(
        Table.RANGES,
        strings,
        len(steps),
        start_ns=begins,
        end_ns=[begin + STEP_US * US for begin in begins],
        name=["step"] * len(steps),
        kind=["push_pop"] * len(steps),
        domain=[""] * len(steps),
    )
    return of_tables(strings, {Table.CALLS: calls, Table.KERNELS: kernels, Table.RANGES: ranges})


def _told(trace: Trace, code: str) -> list[Finding]:
    return [finding for finding in build_report(trace).findings if finding.code == code]


def test_memory_allocated_in_every_step_is_churned() -> None:
    """The first step begins where its range opens: what it calls before its first launch is its own."""
    [churn] = _told(_program(("cudaMalloc", "cudaMalloc", "cudaFree")), "ALLOC-CHURN")
    assert churn.claim == "3 calls per step allocate or free memory, 3.00 us per step of the host"
    assert churn.sentences == ("cudaMalloc 2 times per step", "cudaFree once per step")
    assert [(piece.call, piece.count) for piece in churn.evidence] == [("cudaMalloc", 16), ("cudaFree", 8)]
    assert churn.saving_ns == 0
    assert _told(_program(("cudaMalloc",)), "ALLOC-CHURN") == []


def test_nobody_waits_for_a_gpu_that_is_only_copied_to(tmp_path: Path) -> None:
    """JAX moved an input to GPU 0, and GPU 1 computed: the report was about what GPU 0 waited for."""
    at, moved = [3 * MS * n for n in range(9)], {"globalPid": PID, "deviceId": 0, "copyKind": 1, "bytes": 4_096}
    path = minimal(
        tmp_path / "two.sqlite",
        RUNTIME=[
            *(call(begin, begin + 9 * US, nameId=3, correlationId=1 + n) for n, begin in enumerate(at)),
            *(call(begin + 20 * US, begin + 25 * US, correlationId=11 + n) for n, begin in enumerate(at)),
        ],
        MEMCPY=[
            moved | {"start": begin + 10 * US, "end": begin + 15 * US, "streamId": 7, "correlationId": 1 + n}
            for n, begin in enumerate(at)
        ],
        KERNEL=[
            kernel(begin + 30 * US, begin + 2 * MS, correlationId=11 + n, deviceId=1) for n, begin in enumerate(at)
        ],
    )
    report = build_report(open_trace(path))
    assert report.main_device.compute_ns
    assert {finding.gpu for finding in report.findings} == {report.main_device.gpu}
    [other] = [device.gpu for device in report.devices if device is not report.main_device]
    alone = build_report(open_trace(path), "a", Selection(device=other))
    assert {finding.gpu for finding in alone.findings} == {other}


def test_kernels_without_a_launch_are_lost_launches() -> None:
    """Seven gaps of 20 us in a window of 780 us, which begins with the first kernel: its launch is not known either."""
    [loss] = _told(_program((), recorded=False), "CAPTURE-LOSS")
    assert loss.claim == "17.9 % of the time cannot be attributed: launches are missing from the profile"
    assert _told(_program(()), "CAPTURE-LOSS") == []


def test_a_profile_without_gpu_work_is_refused_with_the_page_to_read(tmp_path: Path) -> None:
    empty = minimal(tmp_path / "a.sqlite", NVTX=[push(0, 5, "step")])
    with pytest.raises(NothingRecorded) as refused:
        build_report(open_trace(empty))
    assert refused.value.hint.startswith("`gpuledger stats --report=nvtx_sum` has the host's time in the ranges; ")
    assert "gpuledger explain CAPTURE-EMPTY" in refused.value.hint


@pytest.mark.parametrize(
    ("operator", "told", "fix"),
    [
        ("aten::mkldnn_convolution", ", and aten::mkldnn_convolution runs on the CPU alone", "put the model"),
        ("aten::cudnn_convolution", ", though aten::cudnn_convolution runs on GPUs alone", "record with `ProfilerAct"),
        ("aten::mm", "", "`gpuledger info`"),
    ],
)
def test_operators_tell_where_a_trace_without_gpu_work_ran(operator: str, told: str, fix: str, tmp_path: Path) -> None:
    path = torch_traces.saved(tmp_path / "a.json", [torch_traces.OP | {"name": operator}], schemaVersion=1)
    with pytest.raises(NothingRecorded) as refused:
        build_report(open_trace(path))
    assert str(refused.value).endswith(f"no GPU work was recorded{told}")
    assert refused.value.hint.startswith(fix)

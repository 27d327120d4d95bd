"""Planted places: host time lost in a known place is told there, with its share, however the place was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuledger import Trace, build_report, open_trace
from gpuledger.export.sections import finding_mark
from gpuledger.findings.finding import MIN_EVIDENCE_SHARE, Evidence, Finding
from gpuledger.selection import Selection
from gpuledger.units import instant_text
from support.profiles.nsys_exports import PID, TID, call, kernel, minimal, push
from support.profiles.torch_traces import saved
from support.traces.trace_notation import called

US, STEP = 1_000, 10_000


def told(trace: Trace, code: str = "HOST-CODE", wanted: Selection | None = None) -> Finding:
    [finding] = [
        finding for finding in build_report(trace, "a", wanted or Selection()).findings if finding.code == code
    ]
    return finding


def first(trace: Trace, code: str = "HOST-CODE") -> Evidence:
    return told(trace, code).evidence[0]


def test_an_nsys_export_says_where(tmp_path: Path) -> None:
    """Read from a file: the resize before the launch's own range, which the driver's thread ends."""
    steps = range(6)
    path = minimal(
        tmp_path / "a.sqlite",
        KERNEL=[kernel(at(step, 9_000), at(step, 9_990), correlationId=step + 1, globalPid=PID) for step in steps],
        RUNTIME=[call(at(step, 8_990), at(step, 8_995), correlationId=step + 1) for step in steps],
        NVTX=[
            row
            for step in steps
            for row in (
                push(at(step, 0), at(step, 9_999), "train_step", globalTid=TID),
                push(at(step, 100), at(step, 8_500), "resize", globalTid=TID),
                push(at(step, 8_980), at(step, 8_999), "forward", globalTid=TID),
            )
        ],
    )
    assert first(open_trace(path)).sentence == "93.4 % of the lost time in train_step > resize"


def test_a_torch_trace_says_the_loader_and_the_function(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events: list[dict[str, Any]] = []
    for step in range(6):
        on_host = {"ph": "X", "pid": 9, "tid": 10}
        spans = (
            ("cpu_op", loader, 100, 8_500),
            ("python_function", "train.py(9): main", 0, 9_990),
            ("python_function", "data.py(12): resize", 200, 8_400),
            ("cpu_op", "aten::copy_", 8_900, 9_000),
        )
        events += [
            on_host | {"cat": cat, "name": name, "ts": step * STEP + start, "dur": end - start, "args": {}}
            for cat, name, start, end in spans
        ]
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": step * STEP + 8_950, "dur": 5}
        events.append(on_host | launch | {"args": {"correlation": step + 1}})
        args = {
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": step + 1,
            "grid": [8, 1, 1],
            "block": [128, 1, 1],
        }
        kernel_event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": step * STEP + 8_960}
        events.append(kernel_event | {"dur": 1_000, "args": args})
    sentences = told(open_trace(saved(tmp_path / "a.json", events))).sentences
    assert f"93.4 % of the lost time in {loader}" in sentences
    assert "91.2 % of the lost time in resize, which begins at data.py:12" in sentences


def test_the_mark_and_the_card_stand_at_the_example() -> None:
    trace = called(
        "4 times every 10000: ranges t1: 0-9999 step; 1000-7500 resize; t1: 8000-8003 launch -> s7: 8005-10000"
    )
    report = build_report(trace, "a", Selection())
    [finding] = [finding for finding in report.findings if finding.code == "HOST-CODE"]
    assert finding.example is not None
    assert finding.example.start_ns % (STEP * US) == 1_000 * US
    assert finding_mark(finding, report.devices[0]).at_ns == finding.example.start_ns
    start, end = (instant_text(instant - report.devices[0].zero_ns) for instant in finding.example)
    assert f"{start} to {end}" in report.to_html().replace("\xa0", " ")


def test_evidence_of_little_weight_is_told_by_no_finding(unpacked: Callable[[str], Path]) -> None:
    for name in ("decode", "moe_loop", "two_gloo", "zoo_node"):
        for finding in build_report(open_trace(unpacked(f"{name}.sqlite"))).findings:
            shares = [piece.share for piece in finding.evidence if piece.share is not None]
            assert all(MIN_EVIDENCE_SHARE <= share <= 1 for share in shares), (name, finding.code)
            assert all(piece.of for piece in finding.evidence if piece.share is not None)


def at(step: int, us: int) -> int:
    return (step * STEP + us) * US

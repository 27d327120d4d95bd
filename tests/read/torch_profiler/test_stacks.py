"""Stacks: the finding names the function, from call chains, CPU samples and Python samples."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuledger import Table, open_trace
from gpuledger.attribution.places import place
from gpuledger.selection import Selection
from gpuledger.trace.strings import Stacks, Strings
from gpuledger.verbs.report import build_report
from support.profiles.nsys_exports import call, kernel, minimal

STEP = Selection(range_pattern="^step$")


def evidence(path: Path) -> tuple[str, ...]:
    return build_report(open_trace(path), path.name, STEP).findings[0].sentences


def test_a_host_read_names_the_operator_and_the_line(unpacked: Callable[[str], Path]) -> None:
    told = evidence(unpacked("host_read_stacks.sqlite"))
    assert "100.0 % of the time in waits at zoo.py:114 in <lambda>, called from zoo.py:97" in told
    assert any(line.endswith("of the lost time at zoo.py:114 in <lambda>, called from zoo.py:97") for line in told)


def test_host_code_names_the_function(unpacked: Callable[[str], Path]) -> None:
    told = evidence(unpacked("numpy_samples.sqlite"))
    assert any("of the lost time at zoo.py:134 in factor_of -> numpy/" in line for line in told)
    assert "97.8 % of the lost time in measure > step > numpy" in told


def test_stacks_hold_every_frame_of_the_export(unpacked: Callable[[str], Path]) -> None:
    path = unpacked("host_read_stacks.sqlite")
    trace = open_trace(path)
    with sqlite3.connect(path) as database:
        [[frames]] = database.execute(
            "SELECT (SELECT count(*) FROM CUDA_CALLCHAINS) + (SELECT count(*) FROM OSRT_CALLCHAINS)"
            " + (SELECT count(*) FROM SAMPLING_CALLCHAINS)"
            " + (SELECT sum((length(jsonText) - length(replace(jsonText, '\"Line\"', ''))) / 6) FROM NVTX_EVENTS)"
        )
        [[innermost]] = database.execute(
            "SELECT s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN CUDA_CALLCHAINS c ON c.id = r.callchainId"
            " JOIN StringIds s ON s.id = c.symbol WHERE c.stackDepth = 0 ORDER BY r.rowid LIMIT 1"
        )
    assert len(trace.stacks.frames) == frames
    assert (np.diff(trace.stacks.offsets) > 0).all()
    calls = trace[Table.CALLS]
    first = int(calls["stack"][calls["stack"] >= 0][0])
    assert trace.stacks.texts(first, trace.strings)[0] == innermost
    assert len(set(trace[Table.SAMPLES].texts("source"))) == 2


@pytest.mark.parametrize(
    ("frames", "named"),
    [
        (["0x7f01", "cudaMalloc", "at::_ops::empty::call(int)", "f (train.py:7)"], "aten::empty from f (train.py:7)"),
        (["f (torch/nn/modules/module.py:1)", "g (train.py:9)"], "g (train.py:9)"),
        (["synchronize (torch/cuda/__init__.py:9)", "g (vllm/worker.py:9)", "h (vllm/a.py:1)"], "g (vllm/worker.py:9)"),
        (["f (torch/nn/modules/module.py:1)"], "f (torch/nn/modules/module.py:1)"),
        (["__read", "_IO_getc", "_Py_read", "load_shard(char const*)", "main"], "load_shard"),
        (["0x7f01", "[Broken backtraces]", "_start"], None),
        ([], None),
    ],
)
def test_the_place_is_what_a_user_can_find(frames: list[str], named: str | None) -> None:
    assert place(frames) == named


def test_no_stack_has_no_frames() -> None:
    assert Stacks().texts(-1, Strings([])) == []
    assert len(Stacks()) == 0


@pytest.mark.parametrize(
    "payload",
    ["", "nonsense", "[]", "{}", '{"Python": 1}', '{"Python x": {"Frames": [{"Function": "a"}]}}', "[" * 9999],
)
def test_a_payload_that_is_no_stack_is_left_alone(payload: str, tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(0, 5, callchainId=77)])
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE NVTX_PAYLOAD_SCHEMAS (id INTEGER)")
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, jsonText TEXT)")
        database.execute("INSERT INTO NVTX_EVENTS VALUES (1, NULL, 34, ?)", (payload,))
        good = {"Python Periodic Sampling": {"Frames": [{"Function": 1, "File": 999, "Line": 3}]}}
        database.execute("INSERT INTO NVTX_EVENTS VALUES (2, NULL, 34, ?)", (json.dumps(good),))
        database.execute("CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, stackDepth INTEGER)")
        database.executemany("INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?)", [(1, 3, 0), (None, 3, 0), (77, 1, -5)])
    database.close()
    trace = open_trace(path)
    [stack] = trace[Table.CALLS]["stack"].tolist()
    assert trace.stacks.texts(stack, trace.strings) == ["k"]
    [sampled] = trace[Table.SAMPLES]["stack"].tolist()
    assert trace.stacks.texts(sampled, trace.strings) == ["k (?:3)"]

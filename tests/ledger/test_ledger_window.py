"""What is looked at: `--range` keeps what was launched inside its instances, `--time` cuts, and no time is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import open_trace
from gpuledger.analyse.idle.gap_summary import gap_summary
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Spans, cut_to, holds, union
from support.command import NAMES, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal, push
from support.thorough import some
from support.traces.book_checks import analysed, check_balance

LAYERS = 3


def program(path: Path, launch_ns: Callable[[int], int]) -> Trace:
    """Two steps of three layers of two kernels each, 40 ns every 100 ns; kernel i is launched when `launch_ns` says."""
    count = 2 * LAYERS * 2
    kernels = [kernel(1000 + 100 * i, 1040 + 100 * i, correlationId=i + 1) for i in range(count)]
    calls = [call(launch_ns(i), launch_ns(i) + 5, correlationId=i + 1) for i in range(count)]
    ranges = [push(launch_ns(2 * i) - 3, launch_ns(2 * i + 1) + 8, f"layer{i % LAYERS}") for i in range(2 * LAYERS)]
    return open_trace(minimal(path, KERNEL=kernels, RUNTIME=calls, NVTX=ranges))


def late(i: int) -> int:
    return 980 + 100 * i


def test_a_refusal_says_where_something_lies_from_zero(tmp_path: Path) -> None:
    program(tmp_path / "a.sqlite", late)
    ran = gpuledger("gaps", tmp_path / "a.sqlite", "--range=^layer2$", "--time=:100ns")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "between 0.000000397 s and 0.000001160 s" in ran.stderr


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_books_of_parts_of_the_window_sum_to_those_of_the_whole(name: str, unpacked: Callable[[str], Path]) -> None:
    """Whatever the window cuts, gaps included, keeps its cause."""
    trace = open_trace(unpacked(f"{name}.sqlite"))
    for device in analysed(trace):
        length = device.ledger.window.end_ns - device.ledger.window.start_ns
        longest = int(device.ledger.gaps.length_ns.argmax()) if len(device.ledger.gaps) else 0
        inside = int(device.ledger.gaps.start_ns[longest] + device.ledger.gaps.end_ns[longest]) // 2 - device.zero_ns
        cuts = sorted({0, length // 3, inside, length})
        sums: dict[str, int] = {}
        for part in pairwise(cuts):
            [narrowed] = analysed(trace, Selection(device=device.gpu, time_ns=part))
            check_balance(narrowed)
            for line, ns in narrowed.ledger.total().items():
                sums[line] = sums.get(line, 0) + ns
        assert sums == device.ledger.total()


def test_a_layer_shows_gaps_in_which_its_own_launches_are_late(decode: Path) -> None:
    trace = open_trace(decode)
    whole = analysed(trace)[0].ledger.window_ns
    windows = []
    for layer in range(4):
        [device] = analysed(trace, Selection(scope_pattern=f"^layer{layer}$"))
        check_balance(device)
        windows.append(device.ledger.window_ns)
        for gap in gap_summary(trace, device).longest:
            assert f"layer{layer}" in gap.ranges
        assert device.steps is not None
        assert int(device.steps.length_ns.sum()) == device.ledger.window_ns
    assert sum(windows) <= whole
    assert sum(windows) > whole / 2  # the layers are most of it


def test_every_verb_follows_a_range(decode: Path) -> None:
    launches = json.loads(gpuledger("gaps", decode, "--format=json", "--range=^layer3$").stdout)
    every = json.loads(gpuledger("gaps", decode, "--format=json").stdout)
    assert _launches(launches) * 3 < _launches(every)
    report = json.loads(gpuledger("report", decode, "--format=json", "--range=^layer3$").stdout)
    [device] = report["devices"]
    assert sum(line["ns"] for line in device["ledger"]) == device["window_ns"] < device["end_ns"] - device["start_ns"]
    assert device["steady"]["steady_ns"] <= device["window_ns"]
    plan = gpuledger("kernels", decode, "--set=verdict", "--range=^layer3$", "--format=json")
    assert plan.exit_code == 0, plan.stderr


def _launches(document: dict[str, Any]) -> int:
    return sum(row["calls"] for row in document["launch_calls"])


def sets(most: int = 5) -> st.SearchStrategy[Spans]:
    ends = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), min_size=1, max_size=most)
    return ends.map(lambda pairs: union([start for start, _ in pairs], [start + length for start, length in pairs]))


@given(sets(), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=8))
def test_what_is_cut_to_a_set_is_what_lies_in_it(spans: Spans, records: list[tuple[int, int]]) -> None:
    records = sorted(records)
    start = np.array([start for start, _ in records], np.int64)
    end = np.array([start + length for start, length in records], np.int64)
    first, last, whose = cut_to(start, end, spans)
    inside = {instant for begin, finish in spans for instant in range(begin, finish)}
    for record, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        parts = zip(first[whose == record].tolist(), last[whose == record].tolist(), strict=True)
        assert [i for a, b in parts for i in range(a, b)] == [i for i in range(begin, finish) if i in inside]
    assert first.tolist() == sorted(first.tolist())
    assert holds(spans, np.arange(80)).tolist() == [instant in inside for instant in range(80)]

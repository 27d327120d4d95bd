"""Whether a profile holds what was asked for: on our own captures, whose contents are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.capture.completeness import MISSING, PASS, WARN, CaptureWishes, check_capture
from gpuledger.present.views.runs.doctor import checks_text, files_text, reasons_text
from gpuledger.read import open_trace
from gpuledger.trace.model import NotMeasured, Origin, Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table

EMPTY = Trace(Origin("none", "none"), (), Strings([]), {}, {table: NotMeasured("empty") for table in Table})

Unpacked = Callable[[str], Path]


def verdicts(trace: Trace, asked: CaptureWishes) -> dict[str, str]:
    return {check.check: check.verdict for check in check_capture(trace, asked)}


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("decode", CaptureWishes(("cuda", "nvtx"), memory=True), {"GPU work": PASS, "ranges": PASS, "memory": PASS}),
        ("decode", CaptureWishes(("cuda", "osrt")), {"GPU work": PASS, "OS calls": MISSING}),
        ("decode", CaptureWishes(("cuda", "cublas")), {"GPU work": PASS, "cublas calls": MISSING}),
        ("graph", CaptureWishes(("cuda",), nodes=True), {"GPU work": PASS, "graph nodes": PASS}),
        ("zoo_graph", CaptureWishes(("cuda",), nodes=True), {"GPU work": PASS, "graph nodes": MISSING}),
        ("zoo_graph", CaptureWishes(("cuda",)), {"GPU work": PASS, "graph nodes": WARN}),
        ("zoo_node", CaptureWishes(("cuda",), nodes=True), {"GPU work": PASS, "graph nodes": PASS}),
        ("two_gloo", CaptureWishes(("cuda", "nvtx", "osrt")), {"GPU work": PASS, "ranges": PASS, "OS calls": PASS}),
        ("decode", CaptureWishes(duration_ns=1_000_000_000), {"GPU work": PASS, "duration": PASS}),
        ("decode", CaptureWishes(duration_ns=15_000_000_000), {"GPU work": PASS, "duration": MISSING}),
    ],
)
def test_what_was_asked_for_is_found_or_missed(
    name: str, asked: CaptureWishes, expected: dict[str, str], unpacked: Unpacked
) -> None:
    assert verdicts(open_trace(unpacked(f"{name}.sqlite")), asked) == expected


asked = st.builds(
    CaptureWishes,
    st.lists(st.sampled_from(["cuda", "nvtx", "osrt", "cublas", "cudnn"]), unique=True).map(tuple),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(1, 10**12),
)


@given(asked)
def test_a_profile_without_anything_lacks_all_but_graphs(wanted: CaptureWishes) -> None:
    checks = check_capture(EMPTY, wanted)
    assert all(check.verdict == MISSING for check in checks if check.check != "graph nodes")
    assert all(check.advice for check in checks if check.verdict == MISSING)
    assert len({check.check for check in checks}) == len(checks)
    named = {"nvtx": "ranges", "osrt": "OS calls", "cublas": "cublas calls", "cudnn": "cudnn calls"}
    assert {named[trace] for trace in wanted.traces if trace in named} <= {check.check for check in checks}


def test_a_range_that_held_no_work_has_advice_of_its_own() -> None:
    [work] = check_capture(EMPTY, CaptureWishes(ranged=True))
    assert "between cudaProfilerStart and cudaProfilerStop" in work.advice


def test_lines_are_safe_to_show() -> None:
    [line] = checks_text(check_capture(EMPTY, CaptureWishes()))
    assert line.startswith("MISSING  GPU work: no kernel was recorded; ")
    assert files_text([("a\x1b[2J.sqlite", 1_269_760)]) == "a\\x1b[2J.sqlite (1.27 MB)"
    assert reasons_text([("--output=a\nb", "because")], None) == "--output=a\\x0ab\n    because\n"

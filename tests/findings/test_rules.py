"""Which findings a profile has: all of those of captures from real programs, in order, and what no capture has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger import NothingRecorded, build_report, open_trace
from support import torch_traces
from support.nsys_exports import minimal, push


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

"""Columns may be shared, constant and read-only (`trace.keys.same`): nothing that answers writes into one."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger import Trace, build_report, gaps, memory, ops, ranges, steps
from gpuledger.selection import Selection
from support.command import ROOT
from support.profiles.opened import trace_of
from support.traces.trace_notation import trace

CAPTURES = ("nsys/graph.sqlite.xz", "nsys/zoo_node.sqlite.xz", "torch/work.json.gz")
NAMES = ("nchwToNhwcKernel", "ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum", "cast_kernel", "im2col", "x")


def answered(profile: Trace) -> None:
    build_report(profile, "a", Selection())
    for ask in (gaps, memory, ops, ranges, steps):
        ask(profile)


@pytest.mark.parametrize("name", CAPTURES)
def test_every_answer_leaves_the_columns_as_they_are(name: str) -> None:
    profile = trace_of(ROOT / "captures" / name)
    columns = [
        rows[column.name] for rows in profile.tables.values() for column in rows.schema.columns if column.name in rows
    ]
    writable = [values for values in columns if values.flags.writeable]
    for values in writable:
        values.flags.writeable = False
    try:
        answered(profile)
    finally:
        for values in writable:
            values.flags.writeable = True
    assert len(columns) > 20


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_of_one_kind_of_kernel_is_answered(name: str) -> None:
    """Its columns are constant: stream, name, family."""
    profile = trace(*(f"s0: {at}-{at + 10} {name}" for at in range(0, 400, 20)))
    assert len(np.unique(profile["kernels"].codes("name"))) == 1
    answered(profile)

"""The edit that stands for a finding changes what the finding is about, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gpuledger import open_trace
from gpuledger.findings.fixes import Fixes
from gpuledger.replay.edits import apply_edits
from gpuledger.replay.graph import OperationFlag
from gpuledger.replay.scenario import scenario
from support.book_checks import analysed


def test_a_kernel_that_goes_from_a_graph_leaves_its_other_kernels(unpacked: Callable[[str], Path]) -> None:
    """All of a graph's kernels share one launch: taking out one of them must not take out the launch."""
    trace = open_trace(unpacked("graph.sqlite"))
    [device] = analysed(trace)
    scene = scenario(trace, device)
    fixes = Fixes(trace, scene)
    code = int(np.bincount(device.work.name[device.work.graph_node >= 0]).argmax())
    changed = apply_edits(scene.graph, [fixes.kernels([code])])
    gone = changed.operations.flags & OperationFlag.GONE != 0
    assert set(device.work.name[gone].tolist()) == {code}
    taken = int((device.work.end_ns - device.work.start_ns)[gone].sum())
    assert 0 < scene.saved_ns(fixes.kernels([code])) < 1.2 * taken

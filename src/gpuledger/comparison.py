"""Two traces compared, for Python: what `gpuledger diff` does with two profiles."""

from __future__ import annotations

from gpuledger.analyse.diff.compare import Diff
from gpuledger.analyse.diff.compare import compare as compare_sides
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.ledger.device import analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.model import Trace


def compare(before: Trace, after: Trace, wanted: Wanted | None = None, *, anyway: bool = False) -> Diff:
    """What changed from one run to the other, on the GPU that is busiest in the first; parts sum to the difference."""
    first = _side(before, "before", wanted or Wanted(), None)
    return compare_sides(first, _side(after, "after", wanted or Wanted(), first.gpu), anyway=anyway)


def _side(trace: Trace, name: str, wanted: Wanted, gpu: int | None) -> RunSide:
    devices = analysed(trace, name, wanted)
    return side_of(trace, devices, busiest(devices, gpu), name, wanted.families)

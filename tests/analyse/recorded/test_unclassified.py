"""Kernels of no known family are named, the most time first."""

from __future__ import annotations

from gpuledger.analyse.recorded.inventory import MOST_NAMES, about_unclassified, unclassified_names
from support.traces.book_checks import analysed
from support.traces.program import Program


def test_the_largest_are_named() -> None:
    program = Program()
    for number in range(MOST_NAMES + 2):
        program.kernel(f"theirs_{number}", 10 * (number + 1))
    program.kernel("ampere_sgemm_128x64_tn", 500)
    trace = program.trace()
    [device] = analysed(trace)
    assert unclassified_names(trace, device) == tuple(f"theirs_{MOST_NAMES + 1 - place}" for place in range(MOST_NAMES))
    assert str(about_unclassified(trace, device)).startswith("23.1 % of compute is in kernels of no known family")


def test_nothing_is_said_where_all_are_known() -> None:
    program = Program()
    program.kernel("ampere_sgemm_128x64_tn", 500)
    trace = program.trace()
    assert about_unclassified(trace, analysed(trace)[0]) is None

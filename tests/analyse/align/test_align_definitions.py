"""The definitions of an alignment at their bounds: the last value that passes, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger.analyse.align.alignment import Alignment, alignment
from gpuledger.analyse.align.checks import TIERS, AlignCheck, KnownDifferences, SideBySide, known, repeated_rows
from gpuledger.analyse.align.kernel_sequences import ForwardKernel, Forwards, align_kernels, main_names, similarity
from gpuledger.analyse.align.operation_kernels import Isolation
from gpuledger.analyse.align.operation_side import OperationSide, mock_from_table, model_from_table, side
from gpuledger.errors import NothingRecorded
from gpuledger.trace.measured import PrintedTable, PrintedTables, SummaryRow

AUTO = Isolation("auto")
SHAPE = ((1, 1, 1), (128, 1, 1))


def kernels(text: str) -> tuple[ForwardKernel, ...]:
    """`gemm=90 act=10:4`: names with their time, and after a colon the blocks of the grid."""
    made = []
    for word in text.split():
        name, _, rest = word.partition("=")
        time, _, blocks = rest.partition(":")
        made.append(ForwardKernel(name, int(time or 100), (int(blocks or 1), 1, 1), (128, 1, 1), 7, in_graph=False))
    return tuple(made)


def operation(text: str, **more: Any) -> OperationSide:
    return replace(OperationSide("side", "GPU", kernels(text), 20, alike=20), **more)


def aligned(mock: str | OperationSide, e2e: str | OperationSide, tier: str = "mock") -> Alignment:
    ours, theirs = (made if isinstance(made, OperationSide) else operation(made) for made in (mock, e2e))
    return alignment(ours, theirs, AUTO, TIERS[tier], KnownDifferences())


def check(found: Alignment, name: str) -> AlignCheck:
    return next(each for each in found.checks if each.check == name)


def verdicts(found: Alignment) -> dict[str, str]:
    return {str(each.check): each.verdict for each in found.checks if each.verdict != "PASS"}


# Checks


@pytest.mark.parametrize(("held", "names"), [("a=90 b=10", {"a"}), ("a=89 b=11", {"a", "b"}), ("b=5 a=90 c=5", {"a"})])
def test_the_kernels_that_hold_nine_tenths_are_the_main_ones(held: str, names: set[str]) -> None:
    assert main_names(kernels(held)) == names


@pytest.mark.parametrize(("extra", "verdict"), [("debug_it=50", "FAIL"), ("debug_it=49", "WARN")])
def test_a_kernel_of_5_per_cent_of_the_time_is_critical(extra: str, verdict: str) -> None:
    rest = 1_000 - int(extra.partition("=")[2])
    assert verdicts(aligned(f"gemm={rest} {extra}", f"gemm={rest}")) == {"extra": verdict}
    assert verdicts(aligned(f"gemm={rest}", f"gemm={rest} {extra}")) == {"missing": verdict}


@pytest.mark.parametrize(("calls", "verdict"), [(21, "WARN"), (22, "WARN"), (23, "FAIL")])
def test_a_tenth_more_calls_is_a_warning(calls: int, verdict: str) -> None:
    found = aligned("gemm=10 " * calls, "gemm=10 " * 20)
    assert check(found, "counts").verdict == verdict
    assert check(found, "counts").figures == {
        "mock": calls,
        "e2e": 20,
        "apart": calls - 20,
        "mock_all": calls,
        "e2e_all": 20,
    }


def test_one_call_more_is_no_failure_however_few_there_are() -> None:
    assert check(aligned("gemm gemm", "gemm"), "counts").verdict == "WARN"
    assert check(aligned("gemm gemm gemm", "gemm"), "counts").verdict == "FAIL"


def test_a_call_of_another_size_is_another_piece_of_work_if_it_is_critical() -> None:
    def again(text: str) -> int:
        mock, e2e = operation(text), operation("gemm=900:4 act=50")
        return len(repeated_rows(SideBySide(mock, e2e, align_kernels(mock.kernels, e2e.kernels))))

    assert again("gemm=900:4 act=50 gemm=900:4") == 1
    assert again("gemm=900:4 act=50 gemm=900:8") == 0
    assert again("gemm=900:4 act=50 gemm=10:8") == 1


@pytest.mark.parametrize(("slow", "told"), [("norm=100", True), ("norm=99", False)])
def test_a_critical_kernel_that_takes_twice_as_long_is_told_though_the_sum_passes(slow: str, told: bool) -> None:
    found = aligned(f"gemm=950 {slow}", "gemm=950 norm=50")
    assert check(found, "latency").verdict == ("WARN" if told else "PASS")


@pytest.mark.parametrize(("mock", "factor"), [("gemm=200", 2.0), ("gemm=50", 0.5)])
def test_latency_is_the_ratio_either_way(mock: str, factor: float) -> None:
    latency = check(aligned(mock, "gemm=100"), "latency")
    assert (latency.figures["ratio"], latency.verdict) == (factor, "FAIL")
    assert check(aligned(mock, "gemm=100"), "latency").evidence[0].endswith("(limit 2.00x)")


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ((100, 105), "PASS"),
        ((100, 112), "UNDECIDED"),
        ((120, 130), "WARN"),
        ((85, 95), "UNDECIDED"),
        ((210, 220), "FAIL"),
    ],
)
def test_a_ratio_whose_ends_do_not_agree_is_undecided(bounds: tuple[float, float], verdict: str) -> None:
    middle = round(sum(bounds) / 2)
    mock = operation(f"gemm={middle}", bounds_ns=bounds)
    found = check(aligned(mock, operation("gemm=100", bounds_ns=(100, 100))), "latency")
    assert found.verdict == verdict
    assert found.figures["ratio_low"] == pytest.approx(bounds[0] / 100)
    assert found.figures["ratio_high"] == pytest.approx(bounds[1] / 100)


def test_a_graph_on_one_side_is_a_remark() -> None:
    def graphs(inside: str) -> OperationSide:
        held = tuple(replace(kernel, in_graph=own == "g") for kernel, own in zip(kernels("a b"), inside, strict=True))
        return replace(operation("a b"), kernels=held)

    assert check(aligned(graphs("gg"), graphs("--")), "graph").verdict == "WARN"
    assert check(aligned(graphs("g-"), graphs("-g")), "graph").verdict == "PASS"
    assert check(aligned(graphs("g-"), graphs("gg")), "graph").figures == {
        "mock_in_graph": 1,
        "mock_kernels": 2,
        "e2e_in_graph": 2,
        "e2e_kernels": 2,
    }


def test_of_the_known_differences_the_first_that_covers_it_accepts() -> None:
    content = {"difference": [{"kernel": "gemm", "check": "latency", "reason": "L2"}, {"kernel": "x", "reason": "no"}]}
    accepted = known(content, "f.toml", ("latency",))
    found = alignment(operation("gemm=300 act=100"), operation("gemm=100 act=100"), AUTO, TIERS["mock"], accepted)
    latency = check(found, "latency")
    assert (latency.verdict, latency.figures["ratio"], found.verdict) == ("KNOWN", 1.0, "PASS")
    assert found.notes[0].endswith("(L2)")
    assert found.notes[-1] == "known difference no longer present: kernel 'x'"


def test_sides_of_unequal_length_are_remarked_on() -> None:
    def remarked(mock: int, e2e: int) -> bool:
        return any("a forward has" in note for note in aligned("gemm=1 " * mock, "gemm=1 " * e2e).notes)

    assert [remarked(1, 3), remarked(1, 4), remarked(3, 1), remarked(4, 1)] == [False, True, False, True]


@pytest.mark.parametrize(("drift", "told"), [(0.03, True), (0.029, False), (-0.03, True)])
def test_a_drift_of_3_per_cent_is_told(drift: float, told: bool) -> None:
    found = aligned(operation("gemm", drift_share=drift), "gemm")
    assert any("last quarter" in note for note in found.notes) == told


# Sequences


@pytest.mark.parametrize(("times", "level"), [("10", "none"), ("9", "missing")])
def test_a_kernel_stands_for_another_of_ten_times_its_length(times: str, level: str) -> None:
    rows = align_kernels(kernels(f"norm thing_a={times} flash"), kernels("norm part_one=100 flash"))
    assert level in {row.level for row in rows}


def test_how_alike_two_sequences_are() -> None:
    """6 points for the same kernel and shape, 5 for the same kernel, 2 less for each that is left over."""
    assert similarity(kernels("a b"), kernels("a b")) == 1
    assert similarity(kernels("a b"), kernels("a b=1:2")) == 11 / 12
    assert similarity(kernels("a b"), kernels("a")) == 4 / 9
    assert similarity((), ()) == 1


# The forward that stands for all


def forwards(*names: str, times: Sequence[int] = (), gap_us: Sequence[int] = (), steps: int = 1) -> Forwards:
    """A forward of two kernels for each name, the second so many us after the first; so many steps, one source."""
    count = len(names)
    times = times or (100,) * count
    start = np.array([[10**8 * at, 10**8 * at + 1_000 + 1_000 * (gap_us[at] if gap_us else 0)] for at in range(count)])
    kinds = sorted({*names, "z"})
    return Forwards(
        profile="p",
        gpu_name="GPU",
        rank=None,
        forward=np.repeat(np.arange(count), 2),
        start_ns=start.reshape(-1),
        end_ns=(start + np.array([[time, 1] for time in times])).reshape(-1),
        name=np.array([[kinds.index(name), kinds.index("z")] for name in names]).reshape(-1),
        names=tuple(kinds),
        grid=np.ones((2 * count, 3), np.int32),
        block=np.ones((2 * count, 3), np.int32),
        stream=np.zeros(2 * count, np.int64),
        in_graph=np.zeros(2 * count, np.bool_),
        step=np.arange(count) * steps // count,
        found_by="a test",
    )


def test_the_first_forward_is_left_out_and_the_one_in_the_middle_stands_for_the_others() -> None:
    found = side([forwards(*"aaaaa", times=(900, 10, 40, 20, 30))])
    assert (found.forwards, found.compared, found.alike, found.gpu_ns) == (5, 4, 4, 21)
    assert (side([forwards("a", times=(9,))]).compared, side([forwards("a", "a", times=(9, 5))]).gpu_ns) == (1, 6)


def test_of_ranks_the_one_that_computes_longest_counts_forward_by_forward() -> None:
    one, other = forwards(*"aaa", times=(1, 50, 10)), forwards(*"aaaa", times=(1, 20, 40, 30))
    found = side([one, other])
    assert (found.forwards, found.compared, found.ranks, found.gpu_ns) == (4, 3, 2, 41)


@pytest.mark.parametrize(("rare", "chosen"), [(1, "b"), (0, "a")])
def test_a_sequence_of_a_tenth_of_the_forwards_may_stand_for_them(rare: int, chosen: str) -> None:
    names = "a" + "a" * (10 - rare) + "b" * rare
    found = side([forwards(*names)], (ForwardKernel("b", 1), ForwardKernel("z", 1)))
    assert found.kernels[0].name == chosen
    few = side([forwards(*("a" + "a" * 10 + "b"))], (ForwardKernel("b", 1), ForwardKernel("z", 1)))
    assert few.kernels[0].name == "a"  # one of eleven is under a tenth


@pytest.mark.parametrize(("long", "gap_us", "waits"), [(3, 1_001, 3), (2, 1_001, 0), (3, 1_000, 0)])
def test_three_forwards_that_stand_still_for_over_1_ms_wait(long: int, gap_us: int, waits: int) -> None:
    found = side([forwards(*"aaaaaa", times=(1_000,) * 6, gap_us=[0] * (6 - long) + [gap_us] * long)])
    assert (0 if found.wait is None else found.wait.forwards) == waits
    if found.wait is not None:
        assert (found.wait.kernel, found.wait.gap_ns) == ("z", 1_001_000)


@pytest.mark.parametrize(("steps", "drift"), [(8, 1.0), (7, None)])
def test_a_drift_takes_two_steps_in_each_quarter(steps: int, drift: float | None) -> None:
    times = [99] * 5 + [149] * 8 + [199] * 4
    found = side([forwards(*("a" * 17), times=times, steps=steps)])
    assert found.drift_share == (None if drift is None else pytest.approx(drift, abs=0.02))


# Tables


def table(*rows: tuple[str, int, int]) -> PrintedTables:
    name = "cuda_gpu_kern_sum"
    return PrintedTables("t", {name: PrintedTable(name, tuple(SummaryRow(*row) for row in rows))})


def test_a_table_is_cut_into_forwards_by_what_its_main_kernels_have_in_common() -> None:
    mock = mock_from_table(table(("gemm", 12, 9_600), ("flash", 6, 1_200), ("init", 1, 5)), AUTO, None)
    assert (mock.forwards, mock.ordered, mock.is_whole) == (6, False, True)
    assert [(kernel.name, kernel.time_ns) for kernel in mock.kernels] == [("gemm", 800)] * 2 + [("flash", 200)]
    assert mock.notes[1].endswith("init (1)")
    assert mock_from_table(table(("gemm", 12, 9_600)), AUTO, 3).forwards == 3
    model = model_from_table(table(("gemm", 40, 40_000), ("flash", 20, 20), ("other", 2, 9)), AUTO, mock, None)
    assert (model.forwards, model.is_whole, len(model.kernels)) == (20, False, 3)
    whole = model_from_table(table(("gemm", 40, 40_000)), Isolation("pattern", "gemm"), mock, None)
    assert (whole.forwards, whole.is_whole) == (20, True)
    with pytest.raises(NothingRecorded, match="no kernel is like"):
        model_from_table(table(("other", 2, 9)), AUTO, mock, None)
    with pytest.raises(NothingRecorded, match="no kernels in cuda_gpu_kern_sum"):
        mock_from_table(table(("gemm", 0, 0)), AUTO, None)

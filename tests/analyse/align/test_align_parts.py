"""The parts of an alignment: sequences laid side by side, a short one found in a long one, forwards, ranges, checks."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.align.alignment import Alignment, alignment
from gpuledger.analyse.align.checks import CHECKS, TIERS, WARN, KnownDifferences, known, short_label
from gpuledger.analyse.align.kernel_sequences import ForwardKernel, align_kernels, occurrences, similarity
from gpuledger.analyse.align.operation_kernels import Isolation, mock_forwards, model_forwards
from gpuledger.analyse.align.operation_side import OperationSide, side
from gpuledger.errors import GpuledgerError, NothingRecorded
from gpuledger.present.views.compare.align import align_answer
from gpuledger.present.writers import write
from gpuledger.selection import Selection
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.verdicts import FAIL, PASS
from support.traces.trace_notation import trace


def kernels(text: str, time_ns: int = 100) -> list[ForwardKernel]:
    """`gemm flash:4 add`: names, and after a colon the blocks of the grid."""
    made = []
    for word in text.split():
        name, _, grid = word.partition(":")
        made.append(ForwardKernel(name, time_ns, (int(grid or 1), 1, 1), (128, 1, 1), 7, in_graph=False))
    return made


def lines(mock: str, e2e: str) -> list[str]:
    ours, theirs = kernels(mock), kernels(e2e)
    made = []
    for pair in align_kernels(ours, theirs):
        left, right = ("-" if kernel is None else kernel.name for kernel in (pair.mock, pair.e2e))
        made.append(f"{left} {right} {pair.level}{' moved' if pair.moved else ''}")
    return made


def places(mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> list[tuple[int | None, int | None]]:
    """Where the kernels of each row stand on their sides."""
    ours, theirs = ({id(kernel): place for place, kernel in enumerate(side)} for side in (mock, e2e))
    return [(ours.get(id(row.mock)), theirs.get(id(row.e2e))) for row in align_kernels(mock, e2e)]


def test_what_is_missing_inserted_and_retiled_is_told() -> None:
    assert lines("norm sgemm_64x64_tn flash", "norm sgemm_128x64_tn rope_kernel flash") == [
        "norm norm exact",
        "sgemm_64x64_tn sgemm_128x64_tn function",
        "- rope_kernel missing",
        "flash flash exact",
    ]
    assert lines("norm debug_it flash", "norm flash") == ["norm norm exact", "debug_it - inserted", "flash flash exact"]


def test_another_kernel_in_the_same_place_stands_beside_it() -> None:
    assert lines("norm thing_a flash", "norm part_one part_two flash") == [
        "norm norm exact",
        "thing_a part_one none",
        "- part_two none",
        "flash flash exact",
    ]


def test_shapes_decide_between_kernels_of_one_name() -> None:
    ours, theirs = kernels("gemm:8 add"), kernels("gemm:4 add gemm:8 add")
    assert places(ours, theirs) == [(None, 0), (None, 1), (0, 2), (1, 3)]


def test_a_kernel_at_another_place_is_moved_and_not_missing() -> None:
    assert lines("a_copy gemm flash norm", "gemm flash norm a_copy") == [
        "gemm gemm exact",
        "flash flash exact",
        "norm norm exact",
        "a_copy a_copy exact moved",
    ]


NAMES = st.lists(st.sampled_from(["gemm", "flash:1", "flash:2", "norm", "nccl_all", "x", "y"]), max_size=12)


@given(NAMES, NAMES)
def test_every_kernel_is_in_one_line_and_in_order(mock: list[str], e2e: list[str]) -> None:
    ours, theirs = kernels(" ".join(mock)), kernels(" ".join(e2e))
    pairs, placed = align_kernels(ours, theirs), places(ours, theirs)
    assert sorted(place for place, _ in placed if place is not None) == list(range(len(mock)))
    assert [place for _, place in placed if place is not None] == list(range(len(e2e)))
    straight = [place for (place, _), pair in zip(placed, pairs, strict=True) if place is not None and not pair.moved]
    assert straight == sorted(straight)
    for pair in pairs:
        if pair.level in ("exact", "function", "family"):
            assert pair.mock is not None
            assert pair.e2e is not None


@given(NAMES)
def test_a_sequence_is_like_itself(names: list[str]) -> None:
    some = kernels(" ".join(names))
    assert similarity(some, some) == 1.0
    assert all(pair.level == "exact" and pair.mock is pair.e2e for pair in align_kernels(some, some))


def distinct(kernels: Sequence[ForwardKernel]) -> tuple[list[ForwardKernel], Positions]:
    """The kernels that differ in name or shape, and for each kernel the position of its like."""
    number: dict[tuple[object, ...], int] = {}
    numbers = [number.setdefault((kernel.name, kernel.shape), len(number)) for kernel in kernels]
    return [kernels[numbers.index(place)] for place in range(len(number))], np.array(numbers, np.intp)


def found(mock: str, e2e: str) -> list[tuple[int, int]]:
    kinds, number = distinct(kernels(e2e))
    return [(each.start, each.end) for each in occurrences(kernels(mock), kinds, number)]


def test_occurrences_are_found_whole_with_what_was_inserted() -> None:
    layer = "norm gemm:4 flash gemm:8 add"
    assert found(layer, f"embed {layer} mlp1 mlp2 {layer} mlp1 mlp2 head") == [(1, 6), (8, 13)]
    assert found(layer, f"embed norm gemm:4 extra_one flash gemm:8 add mlp1 {layer}") == [(1, 7), (8, 13)]
    assert found(layer, "embed norm mlp1 add norm mlp2 add") == []
    assert found("gemm", "a gemm b gemm:2 c gemm") == [(1, 2), (5, 6)]  # another size is another operation
    assert found(layer, "") == []


@given(st.lists(st.lists(st.sampled_from(["x", "y", "z"]), max_size=5), min_size=1, max_size=6))
def test_a_sequence_is_found_wherever_it_is_put(fillings: list[list[str]]) -> None:
    mock = ["norm", "gemm:4", "flash", "add"]
    sequence: list[str] = []
    put = []
    for filling in fillings:
        sequence += filling
        put.append((len(sequence), len(sequence) + len(mock)))
        sequence += mock
    assert found(" ".join(mock), " ".join(sequence)) == put


# Forwards in made-up traces.


def lines_of(
    steps: Sequence[Sequence[tuple[str, str]]],
    *,
    pids: int = 1,
    range_thread: int = 1,
    launch_thread: int = 1,
    length_ns: int = 1_000,
    gpu: int = 0,
) -> list[str]:
    """Each step a range `step`; in it, each part a range of its own and a text of kernels that it launches."""
    lines, now = [], 0
    for step in steps:
        began = now
        for part, text in step:
            entered = now
            for kernel in kernels(text):
                start, (blocks, *_) = now + 5_000, kernel.grid or (1, 1, 1)
                ran = f"{start}-{start + length_ns} {kernel.name} grid={blocks},1,1 block=128,1,1"
                lines.append(f"p{pids} t{launch_thread}: {now}-{now + 1_000} launch -> gpu{gpu} s0: {ran}")
                now += 10_000
            lines.append(f"p{pids} ranges t{range_thread}: {entered}-{now - 1} {part}")
        lines.append(f"p{pids} ranges t{range_thread}: {began}-{now - 1} step")
        now += 10_000
    return lines


def program(steps: Sequence[Sequence[tuple[str, str]]], **more: int) -> Trace:
    return trace(*lines_of(steps, **more))


LAYER = [("attention", "norm gemm:4 flash"), ("mlp", "gemm:9 act")]
MODEL = program([LAYER * 3] * 5)
MOCK = program([[("forward", "norm gemm:4 flash")]] * 6)


def both(
    mock: Trace, model: Trace, isolation: Isolation, mock_range: str | None = None
) -> tuple[OperationSide, OperationSide]:
    ours = side([mock_forwards(mock, "mock", Selection(), mock_range, isolation)])
    return ours, side(model_forwards(model, "model", Selection(), isolation, ours.kernels), ours.kernels)


@pytest.mark.parametrize(
    "isolation", [Isolation("range", "^attention$"), Isolation("auto"), Isolation("pattern", "norm|:4|flash|gemm")]
)
def test_forwards_of_layers_are_found(isolation: Isolation) -> None:
    ours, theirs = both(MOCK, MODEL, isolation)
    assert (
        [kernel.name for kernel in ours.kernels]
        == [kernel.name for kernel in theirs.kernels]
        == ["norm", "gemm", "flash"]
    )
    assert (ours.forwards, theirs.forwards, theirs.per_step) == (6, 15, 3)
    assert (theirs.gpu_ns, theirs.elapsed_ns) == (3_000, 21_000)


def test_a_thread_without_ranges_launches_for_those_of_another() -> None:
    """As autograd's does."""
    model = program([LAYER * 3] * 5, launch_thread=2)
    assert both(MOCK, model, Isolation("range", "attention"))[1].forwards == 15


def test_threads_that_open_ranges_count_for_themselves() -> None:
    """Two threads, one GPU each: while one is in its attention, the other is in its MLP."""
    waiting = [[("wait", "copy_it copy_it copy_it"), *LAYER * 3]] * 5
    model = trace(*lines_of([LAYER * 3] * 5), *lines_of(waiting, range_thread=2, launch_thread=2, gpu=1))
    made = model_forwards(model, "model", Selection(), Isolation("range", "attention"), kernels("norm gemm:4 flash"))
    assert len(made) == 2
    for forwards in made:
        assert {forwards.sequences[at] for at in range(len(forwards))} == {("norm", "gemm", "flash")}


def test_a_step_that_runs_one_sequence_several_times_holds_several_forwards() -> None:
    mock = program([[("run", "norm gemm:4 flash " * 4)]] * 5)
    found = mock_forwards(mock, "mock", Selection())
    assert len(found) == 20
    assert "the same 3 kernels several times" in found.notes[0]


def test_a_mock_of_one_kernel_has_a_forward_for_each() -> None:
    mock = program([[("run", "gemm:9 " * 12)]])
    found = mock_forwards(mock, "mock", Selection())
    assert (len(found), found.sequences[0]) == (12, ("gemm",))
    _, theirs = both(mock, MODEL, Isolation("auto"))
    assert theirs.forwards == 15
    assert theirs.kernels[0].grid == (9, 1, 1)


def test_overlapping_kernels_share_their_time() -> None:
    """Each kernel is launched 10 us after the one before: of those that run 12 us, 2 us overlap the next one."""
    ours, _ = both(program([[("forward", "norm gemm:4 flash")]] * 6, length_ns=12_000), MODEL, Isolation("auto"))
    assert [kernel.time_ns for kernel in ours.kernels] == [12_000, 10_000, 10_000]
    assert (ours.gpu_ns, ours.elapsed_ns) == (32_000, 32_000)


def test_a_range_around_nothing_is_refused() -> None:
    model = program([[*LAYER, ("empty", "")]] * 5)
    with pytest.raises(NothingRecorded, match="nothing ran in ranges matching 'empty'"):
        both(MOCK, model, Isolation("range", "empty"))


def result(mock: Sequence[ForwardKernel], e2e: Sequence[ForwardKernel]) -> Alignment:
    sides = OperationSide("mock", "GPU", tuple(mock), 1), OperationSide("m\x1bodel", "GPU", tuple(e2e), 1)
    return alignment(sides[0], sides[1], Isolation("auto"), TIERS["mock"], KnownDifferences())


@pytest.mark.parametrize(
    ("tier", "factor", "verdict"),
    [
        ("mock", 1.099, PASS),
        ("mock", 1.1, WARN),
        ("mock", 1.999, WARN),
        ("mock", 2.0, FAIL),
        ("same-module", 1.01, PASS),
        ("same-module", 1.011, WARN),
        ("same-module", 1.1, WARN),
        ("same-module", 1.101, FAIL),
    ],
)
def test_the_limits_of_the_tiers(tier: str, factor: float, verdict: str) -> None:
    assert TIERS[tier].verdict(factor) == verdict


@given(NAMES, NAMES)
def test_both_directions_are_equally_alike(one: list[str], other: list[str]) -> None:
    ours, theirs = (kernels(" ".join(names)) for names in (one, other))
    assert similarity(ours, theirs) == similarity(theirs, ours)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({}, "no [[difference]] in it"),
        ({"difference": "x"}, "no [[difference]] in it"),
        ({"difference": [1]}, "difference 1 is no table"),
        ({"difference": [{"check": "latency"}]}, "difference 1 gives no reason"),
        ({"difference": [{"reason": "x"}]}, "names neither a check nor a kernel"),
        ({"difference": [{"check": "speed", "reason": "x"}]}, "there is no check 'speed'"),
        ({"difference": [{"kernel": "(", "reason": "x"}]}, "is no regular expression"),
        ({"difference": [{"kernel": 3, "reason": "x"}]}, "holds something that is no text"),
        ({"difference": [{"kernels": "x", "reason": "x"}]}, "unknown key 'kernels'"),
    ],
)
def test_a_bad_file_of_known_differences_is_refused(content: dict[str, object], complaint: str) -> None:
    with pytest.raises(GpuledgerError, match=re.escape(complaint)):
        known(content, "known.toml", CHECKS)


def test_hostile_names_are_safe_to_show() -> None:
    evil = "void \x1b[31m<script>]]>&\u202ekernel" + "x" * 300
    found = result([ForwardKernel(evil, 9)], kernels("a b"))
    assert "\x1b" not in write(align_answer(found).document(), "text", width=80)
    assert "\x1b" not in align_answer(found).junit()
    assert len(short_label(evil)) <= 44
    assert found.verdict == FAIL


def test_many_kernels_are_aligned_in_no_time() -> None:
    some = kernels(" ".join(f"k{at % 50}:{at % 7 + 1}" for at in range(2_000)))
    assert similarity(some, some[10:]) > 0.9
    kinds, number = distinct(some * 20)
    assert len(occurrences(some[:50], kinds, np.asarray(number))) > 20


def test_forwards_of_thousands_of_kernels_with_shapes_of_their_own_are_aligned() -> None:
    some = kernels(" ".join(f"k{at % 50}:{at}" for at in range(6_000)))
    pairs = align_kernels(some, some[:2_000] + some[2_010:])
    assert [pair.mock for pair in pairs if pair.e2e is None] == some[2_000:2_010]
    assert {pair.level for pair in pairs if pair.e2e is not None} == {"exact"}

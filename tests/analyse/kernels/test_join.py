"""The kernels of a step, and which profiled launch speaks for each."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gpuledger.analyse.kernels.step_kernels import StepKernel, StepOverview, by_size, matched_timeline, overview
from gpuledger.analyse.roofline.judgement import FLOOR_NS
from gpuledger.attribution.launch_places import longest_repeat
from gpuledger.catalog.kernel_names import without_numbers
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.read import open_trace
from gpuledger.selection import Selection
from gpuledger.trace.measured import Dim3
from gpuledger.trace.model import Trace
from support.command import NAMES, gpuledger
from support.thorough import some
from support.traces.profiled_launches import made


def opened(path: Path) -> tuple[Trace, tuple[Device, ...]]:
    trace = open_trace(path)
    return trace, analyse_devices(trace, path.name, Selection())


@pytest.mark.parametrize("name", some(NAMES, 3, first=1))
def test_the_entries_sum_to_compute(unpacked: Callable[[str], Path], name: str) -> None:
    trace, devices = opened(unpacked(f"{name}.sqlite"))
    for device in devices:
        step_overview = overview(trace, device)
        assert step_overview.time_ns == device.compute_ns
        assert all(kernel.time_ns >= 0 and kernel.calls > 0 for kernel in step_overview.entries)
        assert set(step_overview.sequence) <= set(range(len(step_overview.entries)))


def test_every_launch_of_a_step_is_listed_in_order(decode: Path) -> None:
    """A layer of the decoder launches 14 kernels, two of them the same copy."""
    asked = ("kernels", decode, "--range=^layer3$", "--by-launch", "--format=json")
    told = json.loads(gpuledger(*asked).stdout)
    launches = told["launches"]
    assert [row["number"] for row in launches] == list(range(1, 15))
    assert sum(row["launches"] for row in told["kernels"]) == 20 * 14
    assert len({row["name"] for row in told["kernels"]}) == len(told["kernels"])
    starts = [row["start_ns"] for row in launches]
    assert starts == sorted(starts)
    assert launches[0]["gap_ns"] is None
    for before, row in pairwise(launches):
        assert row["gap_ns"] == row["start_ns"] - before["start_ns"] - before["duration_ns"]
    assert launches[2]["name"] == launches[3]["name"]
    refused = gpuledger("kernels", decode, decode, "--by-launch")
    assert refused.exit_code == 2
    assert "--ncu and --by-launch go with one timeline" in refused.stderr


def test_layers_are_found_by_their_ranges(decode: Path) -> None:
    trace, (device,) = opened(decode)
    step_overview = overview(trace, device)
    assert (step_overview.layers, len(step_overview.entries), len(step_overview.sequence)) == (8, 17, 116)
    assert [kernel.in_layer for kernel in step_overview.entries] == [False, *[True] * 13, False, False, False]
    norm = [kernel for kernel in step_overview.entries if "layer_norm" in kernel.name]
    assert [kernel.place[1:] for kernel in norm] == [("layer#", "attention"), ("layer#", "mlp"), ()]
    assert [kernel.calls for kernel in norm] == [160, 160, 20]


def test_layers_of_a_graph_are_found_by_what_repeats(unpacked: Callable[[str], Path]) -> None:
    trace, (device,) = opened(unpacked("graph.sqlite"))
    step_overview = overview(trace, device)
    assert (step_overview.layers, len(step_overview.sequence)) == (8, 116)
    assert sum(kernel.in_layer for kernel in step_overview.entries) == 14


def test_the_longest_repetition_is_found_wherever_it_begins() -> None:
    assert longest_repeat(np.array([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8, 7])) == (1, 3, 3)
    assert longest_repeat(np.array([1, 2, 3, 4, 5, 6, 7])) is None
    assert longest_repeat(np.array([], np.int64)) is None


def test_numbers_in_range_names_do_not_tell_places_apart() -> None:
    assert without_numbers("layer12.mlp") == without_numbers("layer3.mlp") == "layer#.mlp"
    graph = "CompiledFxGraph fal5xpiah7v2kq3mzr4t6abcdwxyzefgh2345ijklmnop67qrst"
    assert without_numbers(graph) == "CompiledFxGraph #"  # not fal#xpiah#v#…, which is nobody's name
    assert without_numbers("execute(sq888sk888sqsq788544sqsk788544)") == "execute(sq#sk#sqsq#sqsk#)"
    assert without_numbers("request 550e8400-e29b-41d4-a716-446655440000") == "request #"


SHAPE: Dim3 = (8, 1, 1)


def entry(
    name: str, mean_ns: int = 10_000, *, place: tuple[str, ...] = (), calls: int = 1, grid: Dim3 = SHAPE
) -> StepKernel:
    return StepKernel(
        name, name, grid, SHAPE, place, in_layer=False, calls=calls, time_ns=mean_ns * calls, ran_ns=mean_ns * calls
    )


def step(*entries: StepKernel) -> StepOverview:
    return StepOverview(entries, tuple(range(len(entries))), 0, 0)


def test_a_launch_of_that_name_and_shape_speaks_for_the_kernel() -> None:
    timeline = matched_timeline(step(entry("a"), entry("b")), [made("a", SHAPE, SHAPE, time=12_000, dram=0.0, sm=0.45)])
    assert [match.level for match in timeline.matches] == ["shape", "none"]
    assert timeline.coverage == 0.5
    assert timeline.matches[0].saving_ns == 5_000  # half of what can be reached
    assert timeline.unused == ()


def test_another_shape_or_variant_is_shown_and_does_not_count() -> None:
    launches = [
        made("a", (9, 1, 1), SHAPE, time=10_000, dram=0.0, sm=0.1),
        made("f<1>", SHAPE, SHAPE, time=10_000, dram=0.0, sm=0.1),
    ]
    timeline = matched_timeline(step(entry("a"), entry("f<2>")), launches)
    assert [match.level for match in timeline.matches] == ["name", "function"]
    assert (timeline.coverage, [match.saving_ns for match in timeline.matches]) == (0.0, [0, 0])
    assert len(timeline.unused) == 2


def test_a_problem_of_another_size_does_not_count() -> None:
    timeline = matched_timeline(step(entry("a", 10_000)), [made("a", SHAPE, SHAPE, time=90_000, dram=0.0, sm=0.1)])
    assert timeline.matches[0].level == "size"
    assert timeline.coverage == 0.0


def test_of_several_problems_of_one_shape_the_nearest_in_time_speaks() -> None:
    """A GEMM of one tile and grid may have a short or a long inner dimension."""
    launches = [
        made("g", SHAPE, SHAPE, time=t, dram=0.0, sm=sm, order=order)
        for order, (t, sm) in enumerate([(6_000, 0.2), (11_000, 0.4)])
    ]
    timeline = matched_timeline(step(entry("g", 5_500), entry("g", 12_000)), launches)
    assert [match.launch.launch.order for match in timeline.matches if match.launch] == [0, 1]


def test_the_range_decides_where_it_is_known() -> None:
    launches = [
        made("g", SHAPE, SHAPE, time=10_000, dram=0.0, sm=0.2, nvtx=("step", "layer3", "mlp"), order=0),
        made("g", SHAPE, SHAPE, time=10_000, dram=0.0, sm=0.4, nvtx=("step", "layer3", "attention"), order=1),
    ]
    kernels = step(entry("g", place=("step", "layer#", "attention")), entry("g", place=("step", "layer#", "mlp")))
    timeline = matched_timeline(kernels, launches)
    assert [match.level for match in timeline.matches] == ["range", "range"]
    assert [match.launch.launch.order for match in timeline.matches if match.launch] == [1, 0]


def test_launches_that_follow_the_step_are_matched_by_order_wherever_they_begin() -> None:
    names = ["a", "g", "b", "g", "c"]
    kernels = step(*(entry(name) for name in names))
    launches = [
        made(name, SHAPE, SHAPE, time=10_000, dram=0.0, sm=order / 10, order=order)
        for order, name in enumerate(names[2:] + names)
    ]
    timeline = matched_timeline(kernels, launches)
    assert {match.level for match in timeline.matches} == {"order"}
    placed = {position: match.launch.launch.order for position, match in enumerate(timeline.matches) if match.launch}
    assert placed == {0: 3, 1: 4, 2: 0, 3: 1, 4: 2} or placed == {0: 3, 1: 4, 2: 5, 3: 6, 4: 7}


def test_no_kernel_becomes_shorter_than_starting_one_takes() -> None:
    timeline = matched_timeline(
        step(entry("a", 3_000, calls=10)), [made("a", SHAPE, SHAPE, time=3_000, dram=0.0, sm=0.01)]
    )
    assert timeline.matches[0].saving_ns == 10 * (3_000 - FLOOR_NS)


def test_reports_without_shapes_or_figures_save_nothing() -> None:
    timeline = matched_timeline(step(entry("a")), [made("a", None, None, time=10_000), made("a", SHAPE, SHAPE)])
    assert (timeline.matches[0].level, timeline.matches[0].saving_ns, timeline.matches[0].severity) == (
        "shape",
        0,
        "unknown",
    )
    assert matched_timeline(step(), []).coverage == 0.0


def test_times_far_apart_are_classes_where_most_steps_have_them() -> None:
    number = np.array([0, 0, 0, 0, 1, 1, 1, 0])
    length = np.array([10, 30, 11, 31, 5, 5, 900, 10])
    classes = by_size(number, length, 2)
    assert classes[[0, 2, 7]].tolist() == [0, 0, 0]
    assert len(set(classes[[1, 3]].tolist())) == 1
    assert classes[1] not in (0, 1)
    assert classes[4] == classes[5] == 1  # 900 is in half of two steps, so it is a class of its own
    assert classes[6] not in (0, 1, classes[1])
    assert by_size(number, length, 10).tolist() == number.tolist()
    assert by_size(np.empty(0, np.intp), np.empty(0, np.int64), 3).tolist() == []


def test_a_call_as_short_as_a_kernel_gets_is_not_said_to_save_nothing_at_its_roof() -> None:
    """At 0.6 % of its roof and 1.8 us long: there is nothing to gain but by running fewer of them."""
    [match] = matched_timeline(
        step(entry("a", 1_800)), [made("a", SHAPE, SHAPE, time=1_800, dram=0.0, sm=0.006)]
    ).matches
    assert (match.saving_ns, match.is_too_short) == (0, True)
    [longer] = matched_timeline(
        step(entry("a", 4_000)), [made("a", SHAPE, SHAPE, time=4_000, dram=0.0, sm=0.006)]
    ).matches
    assert (longer.saving_ns, longer.is_too_short) == (2_000, False)

"""The ledger's definitions at their bounds: the last value that counts as one thing, and the first that does not.

Numbers stand here as documents tell them, never as the constants of the source: who changes a definition changes it
here too. Times are in microseconds where nothing else is said.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pytest

from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.gaps import histogram
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import lost_work
from gpuledger.ledger.step_variation import variation
from gpuledger.ledger.steps import warm_up
from gpuledger.trace.model import Trace
from gpuledger.trace.strings import Strings
from gpuledger.trace.tables import Table
from support.book_checks import analysed
from support.call_notation import called
from support.program import Program
from support.trace_notation import of_tables, table

US = 1_000
LAUNCH = "cudaLaunchKernel"
FIRST = f"0-2 {LAUNCH} -> s7: 4-10"
"""After it the GPU is idle from 10 on."""


def booked(trace: Trace, from_us: int = 10) -> tuple[dict[str, int], str]:
    """The gap that begins at an instant: its time by cause, and what set it off."""
    [device] = analysed(trace)
    gaps = device.ledger.gaps
    [gap] = np.flatnonzero(gaps.start_ns == from_us * US)
    causes = gaps.by_cause.sums(np.array([gap])).items()
    return {str(cause): ns // US for cause, ns in causes}, str(TRIGGERS[gaps.trigger[gap]])


class Copy(NamedTuple):
    """A copy call and its copy, if it has one: instants in nanoseconds."""

    call: tuple[int, int]
    ran: tuple[int, int] | None


def copying(*copies: Copy, name: str = "cudaMemcpyAsync", kind: str = "Host-to-Device") -> Trace:
    """A trace of copies alone."""
    strings = Strings((name, kind, "runtime"))
    calls = table(
        Table.CALLS,
        strings,
        len(copies),
        start_ns=[copy.call[0] for copy in copies],
        end_ns=[copy.call[1] for copy in copies],
        correlation=range(1, len(copies) + 1),
        name=[name] * len(copies),
        layer=["runtime"] * len(copies),
    )
    ran = [(*copy.ran, number) for number, copy in enumerate(copies, 1) if copy.ran is not None]
    rows = table(
        Table.COPIES,
        strings,
        len(ran),
        start_ns=[start for start, _, _ in ran],
        end_ns=[end for _, end, _ in ran],
        correlation=[number for *_, number in ran],
        graph_node=[-1] * len(ran),
        kind=[kind] * len(ran),
    )
    return of_tables(strings, {Table.CALLS: calls, Table.COPIES: rows})


def kinds(trace: Trace) -> list[str]:
    """What the calls are, in order."""
    host, _ = host_and_activities(trace)
    return [CALL_KINDS[kind].name for kind in host.kinds.tolist()]


# the causes of idle time


@pytest.mark.parametrize(("length", "cause"), [(10, "turnaround"), (11, "device_wait")])
def test_a_queued_kernel_that_starts_within_10_us_is_turned_around(length: int, cause: str) -> None:
    trace = called(FIRST, f"3-5 {LAUNCH} -> s7: {10 + length}-90")
    assert booked(trace) == ({cause: length}, cause)


@pytest.mark.parametrize(("latency", "cause"), [(10, "launch_latency"), (11, "device_wait")])
def test_a_launch_takes_up_to_10_us_to_arrive(latency: int, cause: str) -> None:
    trace = called(FIRST, f"40-44 {LAUNCH} -> s7: {44 + latency}-90")
    assert booked(trace)[0] == {"dispatch": 30, "launch": 4, cause: latency}


@pytest.mark.parametrize(
    ("returns", "expected"),
    [(10, ({"turnaround": 6}, "turnaround")), (11, ({"launch": 1, "launch_latency": 5}, "behind"))],
)
def test_a_launch_that_returns_as_the_gap_begins_is_in_time(returns: int, expected: tuple[dict[str, int], str]) -> None:
    assert booked(called(FIRST, f"5-{returns} {LAUNCH} -> s7: 16-20")) == expected


@pytest.mark.parametrize(("between", "cause"), [(99, "dispatch"), (100, "host_code")])
def test_the_host_dispatches_for_less_than_100_us_between_two_calls(between: int, cause: str) -> None:
    begins = 2 + between
    trace = called(FIRST, f"{begins}-{begins + 4} {LAUNCH} -> s7: {begins + 6}-{begins + 9}")
    assert booked(trace)[0] == {cause: begins - 10, "launch": 4, "launch_latency": 2}


@pytest.mark.parametrize(("took", "kind"), [(19_999, "ALLOC"), (20_000, "CONTEXT")])
def test_a_context_is_created_by_a_first_call_of_20_ms(took: int, kind: str) -> None:
    after = took + 10
    trace = called(f"0-{took} cudaFree", f"{after}-{after + 5} {LAUNCH} -> s7: {after + 7}-{after + 9}")
    assert kinds(trace) == [kind, "LAUNCH"]


@pytest.mark.parametrize(("returns", "kind"), [(49, "COPY_CALL"), (50, "SYNC")])
def test_a_copy_call_that_returns_when_its_copy_ends_has_waited_for_it(returns: int, kind: str) -> None:
    assert kinds(copying(Copy((0, returns), (20, 50)))) == [kind]


@pytest.mark.parametrize(("took", "cause"), [(40, "launch"), (41, "load")])
def test_a_first_launch_of_more_than_20_usual_ones_loads_code(took: int, cause: str) -> None:
    usual = [f"{at}-{at + 2} {LAUNCH} -> s7: {at + 4}-{at + 10}" for at in range(0, 240, 20)]
    trace = called(*usual, f"240-{240 + took} {LAUNCH} -> s7: {242 + took}-{250 + took} fresh")
    assert booked(trace, 230)[0] == {"dispatch": 10, cause: took, "launch_latency": 2}


def test_eight_launches_lie_between_a_wait_and_the_last_launch_that_it_makes_late() -> None:
    late = [f"{at}-{at + 2} {LAUNCH} -> s7: {at + 4}-{at + 10}" for at in range(20, 260, 20)]
    trace = called(FIRST, "3-12 cudaStreamSynchronize", *late)
    triggers = [booked(trace, begins)[1] for begins in range(10, 240, 20)]
    assert triggers == ["drained"] * 9 + ["behind"] * 3


@pytest.mark.parametrize(("returns", "trigger"), [(9, "copy_call"), (10, "drained")])
def test_a_wait_that_returns_as_the_gap_begins_has_drained_the_queue(returns: int, trigger: str) -> None:
    wait, copy = f"3-{returns} cudaStreamSynchronize", "11-41 cudaMemcpyAsync"
    causes, told = booked(called(FIRST, wait, copy, f"42-44 {LAUNCH} -> s7: 46-50"))
    assert causes == {"copy_call": 30, "dispatch": 2, "launch": 2, "launch_latency": 2}
    assert told == trigger


@pytest.mark.parametrize(
    ("loads", "launches", "trigger"),
    [
        ("cuLibraryLoadData", "cudaLaunchKernel", "host_code"),  # the runtime loads what was compiled with the program
        ("cuLibraryLoadData", "cuLaunchKernelEx", "load"),  # whoever compiled it now launches it himself
        ("cuModuleLoadData", "cudaLaunchKernel", "load"),
    ],
)
def test_code_leads_to_a_load_of_what_was_compiled_now(loads: str, launches: str, trigger: str) -> None:
    """A loop of 400 ms in Python before the first sort was said to compile; seen on an H200."""
    trace = called(FIRST, f"4000-4040 {loads}", f"4045-4050 {launches} -> s7: 4060-4070")
    assert booked(trace)[1] == trigger


def test_where_nothing_ran_before_nothing_ran_dry() -> None:
    """One kernel after a wait for nothing: 94 % of its 36 us were said to be lost to a queue that ran dry."""
    wait = "0-9 cudaStreamSynchronize"
    assert booked(called(wait, f"10-42 {LAUNCH} -> s7: 44-50"), 10)[1] != "drained"
    assert booked(called(FIRST, wait.replace("0-9", "3-12"), f"13-42 {LAUNCH} -> s7: 44-50"))[1] == "drained"


@pytest.mark.parametrize(("pause", "cause"), [(100, "page_migration"), (101, "host_code")])
def test_a_page_fault_pauses_for_up_to_100_us(pause: int, cause: str) -> None:
    moved = "Unified Host-to-Device"
    launched = called(FIRST, f"400-405 {LAUNCH} -> s7: 410-420")
    strings = Strings((*launched.strings.texts, moved))
    page = table(
        Table.COPIES, strings, 1, start_ns=[(10 + pause) * US], end_ns=[200 * US], correlation=[0], kind=[moved]
    )
    assert booked(of_tables(strings, {**launched.tables, Table.COPIES: page}))[0] == {cause: pause}


@pytest.mark.parametrize(("waited", "cause"), [(100, "device_wait"), (101, "unrecorded")])
def test_the_first_work_of_a_stream_waits_100_us_for_what_was_recorded(waited: int, cause: str) -> None:
    trace = called(FIRST, f"3-10 {LAUNCH} -> s9: {10 + waited}-200")
    assert booked(trace)[0] == {cause: waited}


@pytest.mark.parametrize(("launched", "cause"), [(2_000, "unrecorded"), (2_001, "device_wait")])
def test_what_was_recorded_for_long_waits_for_nothing_from_before(launched: int, cause: str) -> None:
    """It waits 200 us; what would run for ten times that since before the recording is not there."""
    trace = called(FIRST, f"{launched}-{launched + 7} {LAUNCH} -> s9: {launched + 207}-{launched + 300}")
    assert booked(trace)[0][cause] == 200


@pytest.mark.parametrize(("later", "cause"), [(199, "unrecorded"), (200, "device_wait")])
def test_what_waits_as_long_later_on_an_idle_device_waited_for_nothing_from_before(later: int, cause: str) -> None:
    """It was: 'GPU busy 2.3 %, and 13.3 % with work launched before the recording began', where a driver submits late.

    The first of its stream waits for 200 us, and one of those launched later for about as long.
    """
    trace = called(FIRST, f"3-10 {LAUNCH} -> s9: 210-300", f"400-410 {LAUNCH} -> s9: {410 + later}-700")
    assert booked(trace)[0][cause] >= 200


def test_a_gap_belongs_to_the_bucket_that_begins_with_its_length() -> None:
    """A gap of 10 us after one of 9: each bucket goes up to but not including its bound."""
    trace = called(f"0-1 {LAUNCH} -> s7: 1-10", f"2-3 {LAUNCH} -> s7: 19-20", f"4-5 {LAUNCH} -> s7: 30-40")
    [device] = analysed(trace)
    counted = {name: (count, ns // US) for name, count, ns in histogram(device.ledger.gaps) if count}
    assert counted == {"1-5 us": (1, 1), "5-10 us": (1, 9), "10-50 us": (1, 10)}


# work that was lost


@pytest.mark.parametrize(("took", "lost"), [(49, []), (50, [1])])
def test_a_copy_call_of_under_half_the_shortest_moved_no_bytes(took: int, lost: list[int]) -> None:
    with_bytes = (Copy((0, 100), (110, 150)), Copy((400, 500), (510, 550)), Copy((700, 800), (810, 850)))
    trace = copying(with_bytes[0], Copy((200, 200 + took), None), *with_bytes[1:])
    assert lost_work(trace, *host_and_activities(trace)).calls.tolist() == lost


# steps


@pytest.mark.parametrize(
    ("inside", "source"), [(82, "marked by the range 'solve'"), (78, "inferred from repeating kernels")]
)
def test_ranges_that_hold_four_fifths_of_the_time_are_the_steps(inside: int, source: str) -> None:
    """Of four rounds of 100 us, and 7 us until the first kernel runs."""
    program = Program()
    for _ in range(4):
        with program.range("solve"):
            program.kernel("inner", inside)
        program.kernel("outer", 100 - inside)
    [device] = analysed(program.trace())
    assert device.steps is not None
    assert (len(device.steps), str(device.steps.source)) == (4, source)


def test_ranges_of_a_library_are_no_steps() -> None:
    program = Program()
    for step in range(8):
        with program.range("[DALI][Executor] RunMixed"), program.range(f"part {step % 2}"):
            program.kernel(f"k{step % 3}", 100)
    [device] = analysed(program.trace())
    assert [level.name for level in device.levels if "DALI" in level.name] == []
    assert device.steps is None or "DALI" not in str(device.steps.source)


@pytest.mark.parametrize(("first", "count"), [(125, 0), (126, 1)])
def test_a_first_step_of_more_than_five_quarters_of_the_usual_is_warm_up(first: int, count: int) -> None:
    assert warm_up(np.array([first, *[100] * 9])) == count


def stepping(lengths: list[int]) -> Trace:
    """Steps of these lengths, each one kernel in a range; the host is ahead."""
    edges = list(accumulate(lengths, initial=0))
    program = Program()
    for start, end in pairwise(edges):
        with program.range("step"):
            program.kernel("k", end - start)
    return program.trace()


@pytest.mark.parametrize(("longest", "outliers"), [(155, []), (165, [12])])
def test_an_outlier_is_three_usual_deviations_above_the_median(longest: int, outliers: list[int]) -> None:
    """Steps of 80, 100 and 120 us, the first with 7 us until it runs: a median of 100, and 20 away from it, so 160."""
    lengths = [93, *[80, 120] * 5, 100, longest]
    [device] = analysed(stepping(lengths))
    varies = variation(device)
    assert varies is not None
    assert (varies.median_ns, varies.steps.warm_up) == (100 * US, 0)
    assert [outlier.step for outlier in varies.outliers] == outliers


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_steps_that_become_shorter_or_longer_by_design_are_no_outliers(ratio: float) -> None:
    """As those of a factorisation do. What stands out among its neighbours still does."""
    lengths = [round(1_000 * ratio**step) for step in range(20)]
    varies = [variation(analysed(stepping(given))[0]) for given in (lengths, [*lengths[:9], 9_000, *lengths[10:]])]
    assert [[outlier.step for outlier in each.outliers] for each in varies if each is not None] == [[], [9]]


def test_a_drift_is_put_down_to_the_line_that_changes() -> None:
    """One long early step does not hide that all of them become longer."""
    [device] = analysed(stepping([107, 900, *[100] * 4, *[120] * 6]))
    varies = variation(device)
    assert varies is not None
    assert varies.drift is not None
    assert varies.drift.late_ns > varies.drift.early_ns
    assert varies.drift.line.is_compute


def test_the_least_that_a_step_takes_holds_the_gaps_inside_graphs() -> None:
    """Two nodes of one graph launch, 30 us apart, after a launch of 2 us and 2 us of latency."""
    strings = Strings(("cudaGraphLaunch", "k", "runtime"))
    calls = table(
        Table.CALLS, strings, 1, end_ns=[2 * US], correlation=[1], name=["cudaGraphLaunch"], layer=["runtime"]
    )
    nodes = table(
        Table.KERNELS,
        strings,
        2,
        start_ns=[4 * US, 40 * US],
        end_ns=[10 * US, 50 * US],
        correlation=[1, 1],
        graph_node=[1, 2],
        name=["k", "k"],
    )
    [device] = analysed(of_tables(strings, {Table.CALLS: calls, Table.KERNELS: nodes}))
    assert {str(line): ns // US for line, ns in device.line_ns.items() if line.is_idle} == {
        "idle.launch": 2,
        "idle.launch_latency": 2,
        "idle.graph": 30,
    }
    assert device.device_floor_ns == (6 + 30 + 10) * US

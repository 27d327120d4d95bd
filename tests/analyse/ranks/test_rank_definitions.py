"""The definitions of a job of ranks at their bounds, with numbers by hand.

Numbers stand here as documents tell them, never as the constants of the source.
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from gpuledger import NotMeasured
from gpuledger.analyse.ranks.collectives import bus_bytes, bus_bytes_per_s, collectives_by_group, worst_collectives
from gpuledger.analyse.ranks.fixing import fixing, stages
from gpuledger.analyse.ranks.job import Job, compute_balance, job, slowest_step_ns, step_lengths, steps_across_ranks
from gpuledger.analyse.ranks.rank import Place, RankSummary, rank_at, rank_places, rank_summary, rank_traces
from gpuledger.analyse.ranks.rank_collectives import KINDS, Group
from gpuledger.analyse.ranks.rank_times import LateAt, Lateness, lateness, rank_times, stragglers
from gpuledger.errors import GpuledgerError
from gpuledger.ledger.books import Line
from gpuledger.selection import Selection
from support.traces.rank_notation import US, moved, rank, ranks_of, waits_of, with_collectives
from support.traces.trace_notation import trace

UNTRIED = NotMeasured("not replayed")


def two(*lines: str, other: tuple[str, ...] = ()) -> Job:
    return job([rank(0, *lines), rank(1, *(other or lines))])


# Collectives


@pytest.mark.parametrize(
    ("kind", "moves"),
    [
        ("all_reduce", 1_500),  # 2 * 3 / 4
        ("all_gather", 3_000),  # each gives 1,000 to three others
        ("reduce_scatter", 750),
        ("all_to_all", 750),
        ("broadcast", 1_000),
        ("reduce", 1_000),
        ("send_recv", 1_000),
        ("barrier", -1),
        ("other", -1),
    ],
)
def test_what_passes_a_link_is_counted_as_nccls_tests_do(kind: str, moves: int) -> None:
    [lane] = job([rank(number, f"0-50 {kind} 1000 B") for number in range(4)]).lanes
    assert bus_bytes(lane).tolist() == [moves]
    assert bus_bytes_per_s(lane).tolist() == [moves * 20_000 if moves >= 0 else -1]


def test_wait_and_transfer_of_two_ranks() -> None:
    """The second rank comes 30 us later, and the first is over 10 us before it."""
    found = two(
        "0-100 all_reduce 8 B", "200-300 all_reduce 8 B", other=("30-110 all_reduce 8 B", "200-300 all_reduce 8 B")
    )
    [lane] = found.lanes
    assert (waits_of(lane), lane.transfer_ns.tolist()) == ([[30 * US, 0], [0, 0]], [70 * US, 100 * US])
    assert (lane.late.tolist(), lane.skew_ns.tolist(), lane.waited_ns.tolist()) == ([1, 0], [30 * US, 0], [30 * US, 0])
    first, second = found.parts
    assert (first.seen, first.matched, first.counted, first.wait_ns, first.transfer_ns) == (2, 2, 2, 30 * US, 170 * US)
    assert (first.late, first.caused_ns, second.late, second.caused_ns) == (0, 0, 1, 30 * US)
    assert (first.exposed_wait_ns, found.waited_ns, found.coverage) == (30 * US, 30 * US, 1)


def test_a_table_of_collectives_has_medians_and_means() -> None:
    """Transfers of 10, 20, 30 and 40 us: the lower of the two in the middle, and its rate."""
    lines = [f"{100 * at}-{100 * at + 10 * (at + 1)} all_reduce {100 * (at + 1)} B" for at in range(4)]
    [entry] = collectives_by_group(two(*lines))
    assert (entry.kind, entry.matched, entry.seen, entry.ranks, entry.bytes) == ("all_reduce", 4, 4, 2, 250)
    assert (entry.transfer_ns, entry.bus_gb_per_s, entry.wait_ns) == (20 * US, 0.01, 0)
    assert (entry.late_rank, entry.late_share) == (None, None)


def test_who_is_waited_for_most_is_told_with_the_share_of_the_wait() -> None:
    late = ("10-60 barrier", "130-160 barrier", "200-260 barrier")
    found = job([rank(0, "0-60 barrier", "100-160 barrier", "230-260 barrier"), rank(1, *late)])
    [entry] = collectives_by_group(found)
    assert (entry.late_rank, entry.late_share, entry.wait_ns) == ("rank 1", 4 / 7, (40 + 30) * US // 6)
    worst = worst_collectives(found)
    assert [(one.ordinal, one.wait_ns, one.late_rank, one.skew_ns, one.at_ns) for one in worst[:2]] == [
        (2, 15 * US, "rank 1", 30 * US, 130 * US),
        (3, 15 * US, "rank 0", 30 * US, 230 * US),
    ]


def test_a_group_that_was_matched_nowhere_comes_last() -> None:
    groups = (Group("tp", (0, 1), 2),)
    found = job(
        [rank(0, "0-50 barrier", "60-80 all_reduce in tp", groups=groups), rank(1, "0-50 barrier", groups=groups)]
    )
    assert [(entry.group, entry.matched, entry.seen) for entry in collectives_by_group(found)] == [
        ("stream 1", 1, 1),
        ("tp", 0, 1),
    ]
    assert found.coverage == 2 / 3


# Clocks


@pytest.mark.parametrize(("ahead_us", "offset_us"), [(2, 0), (3, 3)])
def test_a_clock_is_set_right_from_2_us_on(ahead_us: int, offset_us: int) -> None:
    lines = [f"{100 * at}-{100 * at + 50} barrier" for at in range(5)]
    found = job([rank(0, *lines), moved(rank(1, *lines), ahead_us * US)])
    assert (found.clocks[1].ahead_ns, found.clocks[1].offset_ns) == (ahead_us * US, offset_us * US)


@pytest.mark.parametrize(("middle", "is_off"), [(40, False), (41, True)])
def test_a_clock_is_off_by_four_times_what_ends_scatter(middle: int, is_off: bool) -> None:
    """Ends are 30 to 50 us later, in the middle so many, and scatter by 10."""
    ends = (middle - 10, middle - 10, middle, middle + 10, middle + 10)
    lines = [f"{1000 * at}-{1000 * at + 500} barrier" for at in range(5)]
    others = [f"{1000 * at}-{1000 * at + 500 + later} barrier" for at, later in enumerate(ends)]
    clock = job([rank(0, *lines), rank(1, *others)]).clocks[1]
    assert (clock.ahead_ns, clock.residual_ns, bool(clock.offset_ns)) == (middle * US, 10 * US, is_off)
    assert clock.open_ns == 10 * US


def test_ranks_without_a_common_collective_have_no_clock() -> None:
    found = job([rank(0, "0-50 barrier"), rank(1)])
    assert isinstance(found.clocks[1].ahead_ns, NotMeasured)
    assert (found.clocks[1].offset_ns, found.clocks[1].open_ns) == (0, 0)
    assert {note.code: note.count for note in found.notes}["clocks-unknown"] == 1


def test_what_was_over_before_another_rank_began_was_matched_by_order_alone() -> None:
    """Ends may be 20 us early, more is apart."""
    close = two("0-50 barrier", "100-150 barrier", other=("0-50 barrier", "165-170 barrier"))
    assert len(close.lanes[0]) == 2
    apart = two(
        "0-50 barrier",
        "100-150 barrier",
        "300-310 barrier",
        other=("0-50 barrier", "171-175 barrier", "300-310 barrier"),
    )
    assert (len(apart.lanes[0]), [note.code for note in apart.notes if note.code == "collectives-apart"]) == (
        2,
        ["collectives-apart"],
    )


# Who is there


def test_who_is_missing_foreign_twice_or_nameless_is_said() -> None:
    given = [rank(0, world=3), rank(0, world=3, profile="again"), rank(3, world=3), rank(1, world=9), rank(None)]
    found = job(given)
    assert ([one.rank for one in found.ranks], found.world_size) == ([0], 3)
    assert {note.code: note.count for note in found.notes} == {
        "rank-unknown": 1,
        "rank-extra": 2,
        "rank-twice": 1,
        "rank-missing": 2,
    }
    nameless = job([rank(None, profile="a"), rank(None, profile="b")])
    assert (len(nameless.ranks), {note.code: note.count for note in nameless.notes}["rank-unknown"]) == (2, 2)
    without = job([rank(2)])
    assert ({note.code: note.count for note in without.notes}, isinstance(without.world_size, NotMeasured)) == (
        {"rank-missing": 2},
        True,
    )


def test_of_two_sizes_of_the_world_the_one_that_more_profiles_tell_counts() -> None:
    assert job([rank(0, world=2), rank(1, world=4), rank(2, world=4)]).world_size == 4
    assert job([rank(0, world=4), rank(1, world=2)]).world_size == 2


def test_eight_are_named_and_the_rest_counted() -> None:
    def sentence(count: int) -> str:
        notes = job([rank(None, profile=f"p{number}") for number in range(count)]).notes
        return next(note.sentence for note in notes if note.code == "rank-unknown")

    assert sentence(8).endswith("p0, p1, p2, p3, p4, p5, p6, p7")
    assert sentence(10).endswith("p6, p7 and 2 more")


def test_a_loss_is_said_once_with_its_ranks() -> None:
    found = job([replace(rank(number), losses=("lost", *(("own",) if number else ()))) for number in range(2)])
    assert [note.sentence for note in found.notes if note.code == "rank-loss"] == ["lost", "rank 1: own"]
    alone = job([replace(rank(0), losses=("lost",))])
    assert [note.sentence for note in alone.notes if note.code == "rank-loss"] == ["rank 0: lost"]


def test_ranks_of_one_capture_that_share_a_gpu_are_told() -> None:
    shared = [replace(rank(number), clock="one", gpu=number // 2) for number in range(3)]
    assert [(note.code, note.count) for note in job(shared).notes] == [("gpu-shared", 2)]
    assert job(shared).has_one_clock
    assert not job([*shared, rank(3)]).has_one_clock
    later = [replace(one, zero_ns=5 - place) for place, one in enumerate(shared)]
    assert (job(later).zero_ns, job([later[0], replace(later[1], clock="two")]).zero_ns) == (3, 5)


# Steps and compute


def stepped(*lengths_us: tuple[int, ...], warm_up: int = 0) -> Job:
    """Ranks with steps of these lengths, and a collective at the end of each."""
    made = []
    for number, lengths in enumerate(lengths_us):
        edges = np.cumsum([0, *lengths]).tolist()
        made.append(replace(rank(number, edges_us=edges, compute_us=sum(lengths) // 2), warm_up=warm_up, clock="one"))
    return job(made)


def test_steps_of_all_ranks() -> None:
    found = stepped((100, 100, 100), (100, 130, 90), (100, 90, 110), warm_up=1)
    assert [
        (row.step, row.longest_ns, row.slowest_rank, row.median_ns, row.shortest_ns)
        for row in steps_across_ranks(found)
    ] == [
        (1, 130 * US, "rank 1", 100 * US, 90 * US),
        (2, 110 * US, "rank 2", 100 * US, 90 * US),
    ]
    assert (slowest_step_ns(found), found.steps) == (110 * US, 2)
    late = lateness(found)
    assert isinstance(late, Lateness)
    assert (late.seen_at, late.steps) == (LateAt.STEPS, (1, 2))
    assert late.late_ns == ((10 * US, 10 * US), (40 * US, 0), (0, 20 * US))
    assert isinstance(step_lengths(job([rank(0), rank(1)])), NotMeasured)
    assert isinstance(slowest_step_ns(job([rank(0)])), NotMeasured)


def test_compute_is_spread_as_evenly_as_the_most_over_the_mean() -> None:
    lines = ({"compute.gemm": 300, "compute.norm": 100}, {"compute.gemm": 100, "compute.norm": 100})
    found = job(
        [
            replace(rank(number), lines=tuple((Line(name), ns) for name, ns in own.items()))
            for number, own in enumerate(lines)
        ]
    )
    assert [(row.family, row.mean_ns, row.most_ns, row.most_rank, row.imbalance) for row in compute_balance(found)] == [
        ("all", 300, 400, "rank 0", 400 / 300),
        ("gemm", 200, 300, "rank 0", 1.5),
        ("norm", 100, 100, "rank 0", 1.0),
    ]
    assert compute_balance(job([rank(0), rank(1)])) == ()


def test_a_rank_per_step_and_who_is_waited_for() -> None:
    """Two steps; the second rank comes 40 us late in the first, the first rank 10 us in the other."""
    found = job(
        ranks_of(
            "rank 0 edges=0,200,400 compute=100: 0-100 barrier; 210-300 barrier\n"
            "rank 1 edges=0,200,400 compute=120: 40-100 barrier; 200-300 barrier"
        )
    )
    first, second = rank_times(found, UNTRIED)
    assert (first.rank, first.steps, first.step_ns, first.compute_ns) == ("rank 0", 2, 200 * US, 50 * US)
    assert (first.wait_ns, first.transfer_ns, first.late, first.caused_ns) == (20 * US, 75 * US, 1, 5 * US)
    assert (second.wait_ns, second.late, second.caused_ns, second.saves_ns) == (5 * US, 1, 20 * US, None)
    assert (second.matched, second.seen, second.clock_ahead_ns, second.clock_residual_ns) == (2, 2, 0, 0)
    late = lateness(found)
    assert isinstance(late, Lateness)
    assert (late.seen_at, late.late_ns) == (LateAt.COLLECTIVES, ((0, 10 * US), (40 * US, 0)))
    worst, other = stragglers(found, late, UNTRIED)
    assert (worst.rank, worst.late, worst.counted, worst.caused_share) == ("rank 1", 1, 2, 0.8)
    assert (worst.worst_step, worst.worst_ns, worst.saves_share) == (0, 40 * US, None)
    assert [worst.compute_change, other.compute_change] == [pytest.approx(0.2), 0]
    [alone] = rank_times(job([rank(0, "0-50 barrier")]), UNTRIED)
    assert (alone.steps, alone.step_ns, alone.wait_ns, alone.late, alone.matched) == (None, None, None, None, 0)


# Stages


def test_ranks_that_only_send_to_each_other_are_of_different_stages() -> None:
    """0 and 1 reduce together, 2 and 3 do; 1 sends to 2."""
    groups = {"a": (0, 1), "b": (2, 3), "send": (1, 2)}
    kinds = {"a": "all_reduce", "b": "all_reduce", "send": "send_recv"}

    def one(number: int) -> RankSummary:
        mine = [name for name, members in groups.items() if number in members]
        lines = [f"{at * 100}-{at * 100 + 50} {kinds[name]} in {name}" for at, name in enumerate(mine)]
        return rank(number, *lines, groups=tuple(Group(name, groups[name], 2) for name in mine))

    given = [one(number) for number in range(4)]
    assert stages(given) == ((0, 1), (2, 3))
    assert stages([with_collectives(each, kind=np.zeros(len(each.collectives), np.int64)) for each in given]) == ()
    assert isinstance(fixing(job(given[:1])), NotMeasured)
    assert KINDS.index("send_recv") == 7


# Which ranks a profile holds


TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL()"


def test_who_communicates_on_a_gpu_is_a_rank() -> None:
    both = trace(f"p1 s7: 0-10 {TALK}", f"p2 s7: 0-12 {TALK}", "p3 s7: 20-30 gemm")
    assert rank_places(both) == [Place(0, 1), Place(0, 2)]
    parts = list(rank_traces(both, Selection()))
    assert [part.name for part in parts] == ["process 1", "process 2"]
    assert [note.code for note in parts[0].trace.health] == ["not-a-rank"]
    silent = trace("p1 s7: 0-10 gemm", "p2 s7: 0-12 gemm")
    assert rank_places(silent) == [Place(0, 1), Place(0, 2)]
    assert rank_places(trace(f"p1 s7: 0-10 {TALK}", "p1 s7: 20-30 gemm")) == []
    told = replace(silent, origin=replace(silent.origin, rank=1, world_size=4))
    assert rank_places(told) == []
    assert rank_places(replace(silent, origin=replace(silent.origin, rank=0, world_size=1))) != []


def test_one_rank_of_a_profile_is_asked_for_by_number_or_place() -> None:
    both = trace(f"p1 s7: 0-10 {TALK}", f"p2 s7: 0-12 {TALK}")
    for asked in (1, Place(0, 2)):
        summary = rank_summary(rank_at(both, "x", asked), "x", Selection())
        assert (summary.window.end_ns, len(summary.collectives)) == (12, 1)
    with pytest.raises(GpuledgerError, match="x: no rank 2 in it"):
        rank_at(both, "x", 2)
    alone = trace("s7: 0-10 gemm")
    assert rank_at(alone, "x", 0) is alone
    with pytest.raises(GpuledgerError, match="no rank 1"):
        rank_at(alone, "x", 1)


def test_of_two_gpus_the_busiest_is_counted_and_that_is_said() -> None:
    found = rank_summary(trace("gpu0 s7: 0-10 gemm", "gpu1 s7: 0-30 gemm"), "x", Selection())
    assert (found.compute_ns, found.gpu, len(found.losses)) == (30, 1, 1)
    assert (found.label, replace(found, name="a").label, replace(found, name="a", rank=3).label) == ("x", "a", "rank 3")
    assert (found.rank, found.world_size, found.step_count, found.begin_ns) == (None, None, 1, 0)

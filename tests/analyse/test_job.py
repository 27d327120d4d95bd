"""Several ranks of one job: collectives are matched, clocks aligned, and waiting told from moving data."""

from __future__ import annotations

import contextlib
import json
import lzma
import pickle
import sqlite3
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import NotMeasured, Table, open_trace
from gpuledger.analyse.ranks.collectives import (
    bus_bytes,
    bus_bytes_per_s,
    collectives_by_group,
    worst_collectives,
    worst_place,
)
from gpuledger.analyse.ranks.fixing import fixing
from gpuledger.analyse.ranks.job import Job, job, slowest_step_ns, step_lengths
from gpuledger.analyse.ranks.matching import RankClock, shift
from gpuledger.analyse.ranks.rank import RankSummary, rank_summary
from gpuledger.analyse.ranks.rank_collectives import DTYPES, KINDS, Group, PackedCollectives, dtype_of, kind_of
from gpuledger.findings.finding import Finding
from gpuledger.findings.ranks import job_findings
from gpuledger.jobs.run import Fleet
from gpuledger.present.views.fleet import FleetAnswer, fleet_answer
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from gpuledger.trace.strings import Strings
from support.command import ROOT
from support.rank_notation import US, moved, rank, ranks, unpacked, waits_of
from support.trace_notation import of_tables, table, trace


def waits(found: Job) -> list[Any]:
    """All that is said about collectives but where they lie in time."""
    return [
        (
            lane.name,
            lane.members,
            lane.kind.tolist(),
            waits_of(lane),
            lane.transfer_ns.tolist(),
            lane.late.tolist(),
        )
        for lane in found.lanes
    ]


def findings_of(found: Job) -> tuple[Finding, ...]:
    return job_findings(found, fixing(found))


def answer_of(found: Job) -> FleetAnswer:
    return fleet_answer("job", Fleet(found, 1, 1, ()))


def whole(found: Job) -> tuple[Any, ...]:
    """A job as plain values."""
    return (waits(found), found.clocks, found.parts, found.notes, found.world_size, answer_of(found))


def codes(found: Job) -> dict[str, int]:
    return {note.code: note.count for note in found.notes if note.code != "groups-unknown"}


THREE = (
    rank(0, "0-100 all_reduce 3000 B", "200-300 all_gather 3000 B", world=3),
    rank(1, "30-100 all_reduce 3000 B", "200-300 all_gather 3000 B", world=3),
    rank(2, "80-100 all_reduce 3000 B", "240-300 all_gather 3000 B", world=3),
)


def test_waiting_is_told_from_transfer() -> None:
    found = job(THREE)
    [lane] = found.lanes
    assert waits_of(lane) == [[80 * US, 50 * US, 0], [40 * US, 40 * US, 0]]
    assert lane.transfer_ns.tolist() == [20 * US, 60 * US]
    assert lane.skew_ns.tolist() == [80 * US, 40 * US]
    assert lane.late.tolist() == [2, 2]
    assert [part.wait_ns // US for part in found.parts] == [120, 90, 0]
    assert [part.transfer_ns // US for part in found.parts] == [80, 80, 80]
    assert [part.late for part in found.parts] == [0, 0, 2]
    assert [part.caused_ns // US for part in found.parts] == [0, 0, 210]
    assert (found.coverage, codes(found)) == (1.0, {})


def test_bus_bandwidth_is_counted_as_nccl_counts_it() -> None:
    """All-reduce: 2 (n - 1) / n of what is given; all-gather: (n - 1) / n of what all give together."""
    [lane] = job(THREE).lanes
    assert bus_bytes(lane).tolist() == [4000, 6000]
    assert bus_bytes_per_s(lane).tolist() == [200_000_000, 100_000_000]


@pytest.mark.parametrize(
    ("kind", "moved_bytes"),
    [
        ("reduce_scatter", 2000),
        ("all_to_all", 2000),
        ("broadcast", 3000),
        ("send_recv", 3000),
        ("barrier", -1),
        ("other", -1),
    ],
)
def test_other_kinds_have_their_own_factor(kind: str, moved_bytes: int) -> None:
    [lane] = job([rank(at, f"0-100 {kind} 3000 B") for at in range(3)]).lanes
    assert bus_bytes(lane).tolist() == [moved_bytes]


def test_clocks_of_hosts_are_aligned_and_the_residual_is_stated() -> None:
    ends = (100, 203, 301, 404, 500)
    first = rank(0, *(f"{end - 90}-{end} all_reduce" for end in range(100, 600, 100)))
    second = moved(rank(1, *(f"{end - 60}-{end} all_reduce" for end in ends)), 10**18 + 7)
    found = job([first, second])
    assert found.clocks[1] == RankClock(10**18 + 7 + 1 * US, 10**18 + 7 + 1 * US, 1 * US)
    [lane] = found.lanes
    assert waits_of(lane)[0] == [29 * US, 0]


def test_clocks_that_agree_are_left_alone() -> None:
    found = job([rank(0, "0-100 all_reduce", "200-300 all_reduce"), rank(1, "50-102 all_reduce", "250-302 all_reduce")])
    assert found.clocks[1] == RankClock(2 * US, 0, 0)
    assert waits_of(found.lanes[0]) == [[50 * US, 0], [50 * US, 0]]


def test_clocks_are_known_through_a_neighbour() -> None:
    """Rank 3 shares no group with rank 0."""
    pairs = {"ab": (0, 1), "cd": (2, 3), "ac": (0, 2), "bd": (1, 3)}
    groups = tuple(Group(name, ranks, 2) for name, ranks in pairs.items())

    def one(number: int, by: int) -> RankSummary:
        mine = [name for name, ranks in pairs.items() if number in ranks]
        lines = [f"{at * 100}-{at * 100 + 50} all_reduce in {name}" for at, name in enumerate(pairs) if name in mine]
        return moved(rank(number, *lines, groups=groups), by)

    found = job([one(number, number * 10**9) for number in range(4)])
    assert [clock.offset_ns for clock in found.clocks] == [0, 10**9, 2 * 10**9, 3 * 10**9]
    assert sorted((lane.name, lane.members) for lane in found.lanes) == sorted(pairs.items())
    assert (found.coverage, codes(found)) == (1.0, {})


def test_the_gate_is_the_place_in_the_step_that_costs_most() -> None:
    def one(number: int, late: int) -> RankSummary:
        lines = [
            f"{at + each + late * (each == 100)}-{at + each + 80} all_reduce" for at in (0, 300) for each in (0, 100)
        ]
        return rank(number, *lines, edges_us=(0, 300, 600))

    found = worst_place(job([one(0, 0), one(1, 30)]))
    assert not isinstance(found, NotMeasured)
    assert (found.kind, found.ordinal, found.times, found.wait_ns, found.late) == ("all_reduce", 2, 2, 60 * US, 1)


def test_steps_are_matched_in_time_where_captures_begin_apart() -> None:
    """The second rank began to record a step later, and its clock is an hour ahead."""
    hour = 3600 * 10**9
    first = rank(
        0, *(f"{at}-{at + 37 + at // 100} all_reduce" for at in (0, 100, 210, 300)), edges_us=(0, 100, 210, 300, 400)
    )
    second = rank(
        1, *(f"{at + 20}-{at + 37 + at // 100} all_reduce" for at in (100, 210, 300)), edges_us=(100, 210, 300, 420)
    )
    found = job([first, moved(second, hour)])
    lengths = step_lengths(found)
    assert not isinstance(lengths, NotMeasured)
    assert lengths.steps.tolist() == [1, 2, 3]
    assert lengths.length_ns.tolist() == [[110 * US, 110 * US], [90 * US, 90 * US], [100 * US, 120 * US]]
    assert slowest_step_ns(found) == 110 * US
    assert len(found.lanes[0]) == 3


def test_the_late_rank_is_named_and_transfer_is_told_from_waiting() -> None:
    early = [rank(at, "0-900 all_reduce", edges_us=(0, 1000), compute_us=50, world=3) for at in (0, 1)]
    busy = rank(2, "850-900 all_reduce", edges_us=(0, 1000), compute_us=800, world=3)
    [told, exposed] = findings_of(job([*early, busy]))
    assert told.code == "COMM-SKEW"
    assert (
        told.claim == "for 850 us per step, at least one rank waits for others at a collective, most of all for rank 2"
    )
    assert (told.saving_ns_per_step, told.is_bound) == (850 * US, True)
    assert (exposed.code, exposed.saving_ns) == ("COMM-EXPOSED", 50 * US)
    assert exposed.claim.startswith("50.0 us per step of communication other than waiting")
    assert "91.9 % is waiting" in exposed.sentences[0]


def test_evidence_says_how_often_and_of_what() -> None:
    starts = (0, 0, 700, 800)
    [skew, exposed] = findings_of(
        job([rank(at, f"{start}-900 all_reduce", edges_us=(0, 1000), compute_us=50) for at, start in enumerate(starts)])
    )
    by_sentence = {piece.sentence: piece for piece in skew.evidence}
    last = by_sentence["rank 3 arrives last at 1 of 1 collectives, which account for 100.0 % of all waiting"]
    assert (last.count, last.share, last.of) == (1, 1.0, "the waiting of all ranks")
    [place] = [piece for piece in skew.evidence if piece.kernel]
    assert (place.kernel, place.count, place.share) == ("all_reduce", 1, 1.0)
    assert (exposed.evidence[0].count, exposed.evidence[0].of) == (4, "the exposed communication of all ranks")
    for piece in (*skew.evidence, *exposed.evidence):
        assert (piece.share is None) == (not piece.of)
        assert piece.share is None or piece.share >= 0.2


def test_an_instant_at_which_several_ranks_wait_counts_once() -> None:
    first = rank(0, "0-100 barrier", "260-300 barrier", edges_us=(0, 400))
    second = rank(1, "90-100 barrier", "200-300 barrier", edges_us=(0, 400))
    third = rank(2, "50-100 barrier", "210-300 barrier", edges_us=(0, 400))
    found = job([first, second, third])
    assert [part.exposed_wait_ns for part in found.parts] == [90 * US, 60 * US, 90 * US]
    assert found.waited_ns == (90 + 60) * US


def test_only_waiting_in_the_steady_stretch_is_charged() -> None:
    found = job(
        [
            rank(0, "0-90 barrier", "400-900 barrier", edges_us=(0, 500)),
            rank(1, "0-90 barrier", "700-900 barrier", edges_us=(0, 1000)),
        ]
    )
    assert (found.parts[0].wait_ns, found.parts[0].exposed_wait_ns) == (300 * US, 100 * US)


def test_who_only_gives_may_leave_before_another_comes() -> None:
    """The root of a broadcast has not waited for a rank that arrived after it had gone."""
    found = job([rank(0, "0-90 barrier", "100-130 broadcast"), rank(1, "0-90 barrier", "150-190 broadcast")])
    assert waits_of(found.lanes[0]) == [[0, 0], [0, 0]]
    assert found.lanes[0].transfer_ns.tolist() == [90 * US, 30 * US]
    late = job([rank(0, "0-90 barrier", "100-190 broadcast"), rank(1, "0-90 barrier", "200-240 broadcast")])
    assert (waits_of(late.lanes[0])[1], late.lanes[0].transfer_ns.tolist()[1]) == ([50 * US, 0], 40 * US)


def test_a_transfer_is_that_of_ranks_that_the_last_one_mattered_to() -> None:
    """Bytes, time and rate of one row are of the same collective, so that they agree."""
    root = rank(0, "0-90 barrier", "100-130 broadcast 400 B", "200-300 broadcast 400 B", "400-500 broadcast 400 B")
    other = rank(1, "0-90 barrier", "150-190 broadcast 400 B", "240-300 broadcast 400 B", "480-500 broadcast 400 B")
    found = job([root, other])
    [broadcast] = [entry for entry in collectives_by_group(found) if entry.kind == "broadcast"]
    assert (broadcast.transfer_ns, broadcast.bus_gb_per_s) == (30 * US, 400 * 10**9 // (30 * US) / 1e9)
    assert [one.transfer_ns for one in worst_collectives(found) if one.skew_ns == 50 * US] == [30 * US]
    unseen = job([rank(0, "0-90 barrier", "100-130 broadcast"), rank(1, "0-90 barrier", "150-190 broadcast")])
    [broadcast] = [entry for entry in collectives_by_group(unseen) if entry.kind == "broadcast"]
    assert (broadcast.transfer_ns, broadcast.bus_gb_per_s) == (30 * US, None)


def test_an_exchange_is_one_collective_whatever_each_rank_gives() -> None:
    """One rank's launch was not recorded, so that only the kernel's name is known there: SendRecv."""
    found = job([rank(0, "0-90 all_to_all 100 B"), rank(1, "40-90 all_to_all 300 B"), rank(2, "50-90 send_recv 200 B")])
    [lane] = found.lanes
    assert ([KINDS[kind] for kind in lane.kind], lane.bytes.tolist()) == (["all_to_all"], [200])


# Laws


FAR = st.integers(10**10, 10**18).flatmap(lambda by: st.sampled_from((by, -by)))


@given(ranks(), FAR, st.data())
def test_another_clock_changes_nothing_but_the_offset(given: list[RankSummary], by: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given) - 1))
    before, after = job(given), job([moved(each, by) if each.rank == at else each for each in given])
    assert waits(after) == waits(before)
    assert after.parts == before.parts
    assert [clock.residual_ns for clock in after.clocks] == [0] * len(given)
    for place, clock in enumerate(after.clocks[1:], 1):
        assert clock.offset_ns == (-by if at == 0 else by if place == at else 0)


@given(ranks(jitter_us=40), st.randoms(use_true_random=False))
def test_the_order_of_profiles_changes_nothing(given: list[RankSummary], random: Any) -> None:
    shuffled = list(given)
    random.shuffle(shuffled)
    assert whole(job(shuffled)) == whole(job(given))


@given(ranks(jitter_us=40))
def test_wait_and_transfer_fit_in_the_kernel(given: list[RankSummary]) -> None:
    found = job(given)
    for lane in found.lanes:
        for member in lane.members:
            start, end, wait = lane.start_ns(member), lane.end_ns(member), lane.wait_ns(member)
            assert ((wait >= 0) & (wait + lane.transfer_ns <= end - start)).all()
            assert ((lane.first_ns <= start) & (start <= lane.last_ns)).all()
            assert (start[lane.late == member] == lane.last_ns[lane.late == member]).all()
        assert lane.waited_ns.tolist() == [sum(row) for row in waits_of(lane)]
    assert sum(part.wait_ns for part in found.parts) == sum(part.caused_ns for part in found.parts)
    for part, each in zip(found.parts, found.ranks, strict=True):
        assert part.exposed_wait_ns <= min(part.wait_ns, each.exposed_comm_ns)


@given(ranks(), st.data())
def test_what_one_capture_lacks_at_its_ends_is_not_matched_and_the_rest_is(
    given: list[RankSummary], data: st.DataObject
) -> None:
    times = len(given[0].collectives)
    first = data.draw(st.integers(0, (times - 1) // 2))
    kept = slice(first, times - data.draw(st.integers(0, (times - 1) // 2 - first // 2)))
    cut = replace(given[1], collectives=PackedCollectives.of(unpacked(given[1]).at(kept)))
    matched = [waits_of(lane) for lane in job([given[0], cut, *given[2:]]).lanes]
    everything = [waits_of(lane)[kept] for lane in job(given).lanes]
    assert matched == [rows for rows in everything if rows]


@given(ranks())
def test_a_summary_travels(given: list[RankSummary]) -> None:
    assert whole(job(pickle.loads(pickle.dumps(given)))) == whole(job(given))  # noqa: S301


# Hostile


def test_missing_and_repeated_ranks_are_told_and_the_rest_is_matched() -> None:
    again = replace(THREE[0], profile="profile 0 again")
    found = job([again, THREE[2], THREE[0]])
    assert [each.profile for each in found.ranks] == ["profile 0", "profile 2"]
    assert codes(found) == {"rank-missing": 1, "rank-twice": 1}
    assert waits_of(found.lanes[0]) == [[80 * US, 0], [40 * US, 0]]
    assert {each.confidence for each in findings_of(found)} <= {"low", "medium"}


def test_profiles_of_another_job_are_left_out() -> None:
    found = job([*THREE, rank(3, "0-1 all_reduce", world=3), rank(1, "0-1 all_reduce", world=2, profile="a")])
    assert (len(found.ranks), found.world_size) == (3, 3)
    assert codes(found) == {"rank-extra": 2}
    assert waits(found) == waits(job(THREE))


def test_a_profile_without_a_rank_is_left_out_where_others_have_one() -> None:
    found = job([*THREE, rank(None, "0-1 all_reduce")])
    assert codes(found) == {"rank-unknown": 1}
    assert waits(found) == waits(job(THREE))


def test_ranks_on_one_clock_are_not_set_right_and_others_are_together() -> None:
    """On one clock a collective may end later on a rank every time. Another capture's clock is one for its ranks."""
    first = ["0-50 barrier", "100-150 barrier", "200-250 barrier"]
    later = ["0-60 barrier", "100-160 barrier", "200-260 barrier"]
    given = [rank(0, *first), rank(1, *later), moved(rank(2, *first), 900 * US), moved(rank(3, *later), 900 * US)]
    known = [replace(each, clock=name) for each, name in zip(given, ("a", "a", "b", "b"), strict=True)]
    assert [clock.offset_ns for clock in job(known).clocks] == [0, 0, 900 * US, 900 * US]
    assert [clock.offset_ns for clock in job(given).clocks] == [0, 10 * US, 900 * US, 910 * US]


def test_a_loss_of_all_ranks_is_told_once() -> None:
    given = [replace(each, losses=("all lost", f"lost on {number}")) for number, each in enumerate(THREE[:2])]
    sentences = [note.sentence for note in job(given).notes if note.code == "rank-loss"]
    assert sentences == ["all lost", "rank 0: lost on 0", "rank 1: lost on 1"]


def test_profiles_that_never_name_a_rank_are_ranks_by_their_names() -> None:
    found = job([rank(None, "0-50 barrier", profile="b"), rank(None, "20-50 barrier", profile="a")])
    assert [each.label for each in found.ranks] == ["a", "b"]
    assert codes(found) == {"rank-unknown": 2}
    assert isinstance(found.world_size, NotMeasured)
    assert waits_of(found.lanes[0]) == [[0, 20 * US]]


def test_without_a_worlds_size_only_holes_are_known_to_be_missing() -> None:
    assert codes(job([rank(0, "0-9 barrier"), rank(2, "0-9 barrier")])) == {"rank-missing": 1}


def test_an_absurd_worlds_size_costs_nothing() -> None:
    found = job([replace(each, world_size=10**15) for each in THREE])
    assert codes(found) == {"rank-missing": 10**15 - 3}
    assert found.notes[0].sentence.endswith("3, 4, 5, 6, 7, 8, 9, 10 and 999,999,999,999,989 more")


@pytest.mark.parametrize(
    ("given", "unmatched"),
    [
        ([], 0),
        ([rank(0, "0-9 all_reduce")], 1),
        ([rank(0), rank(1)], 0),
        ([rank(0, "0-9 all_reduce"), rank(1)], 1),
        ([rank(0, "0-9 all_reduce"), rank(1, "0-9 all_gather")], 2),
        ([rank(0, "0-9 all_reduce 4 B"), rank(1, "0-9 all_reduce 8 B")], 2),
    ],
    ids=["nobody", "one rank", "no collectives", "on one only", "other kinds", "other sizes"],
)
def test_nothing_to_match_gives_no_numbers(given: list[RankSummary], unmatched: int) -> None:
    found = job(given)
    assert found.lanes == ()
    assert codes(found).get("collectives-unmatched", 0) == unmatched
    assert all(isinstance(clock.residual_ns, NotMeasured) for clock in found.clocks[1:])
    assert isinstance(worst_place(found), NotMeasured)
    assert isinstance(slowest_step_ns(found), NotMeasured)
    assert findings_of(found) == ()
    assert all(rank.wait_ns is None for rank in answer_of(found).ranks)


def test_what_only_order_matches_is_left_out() -> None:
    """Two pairs exchange at different times; no group says so."""
    lines = ("0-50 send_recv", "1000-1050 send_recv", "2000-2050 send_recv")
    later = ("0-50 send_recv", "1000-1050 send_recv", "2400-2450 send_recv")
    found = job([rank(0, *lines), rank(1, *lines), rank(2, *later), rank(3, *later)])
    assert codes(found) == {"collectives-apart": 1, "collectives-unmatched": 4}
    assert len(found.lanes[0]) == 2


def test_a_name_that_stands_for_several_groups_matches_nothing() -> None:
    groups = (Group("tp", (), 2),)
    found = job([rank(at, "0-50 all_reduce in tp", groups=groups) for at in range(4)])
    assert (found.lanes, codes(found)["collectives-unmatched"]) == ((), 4)


def test_absurd_sizes_give_no_numbers() -> None:
    groups = (Group("g", (), 10**18),)
    found = job([rank(at, "0-50 all_gather 200000000000000 B in g", groups=groups) for at in range(3)])
    assert bus_bytes(found.lanes[0]).tolist() == bus_bytes_per_s(found.lanes[0]).tolist() == [-1]
    assert [entry.bus_gb_per_s for entry in answer_of(found).collectives] == [None]


def test_a_shift_is_found_among_equal_collectives_by_their_ends() -> None:
    """All look alike, clocks tell nothing: only the uneven distances do."""
    ends = np.cumsum(np.random.default_rng(1).integers(100, 400, 60))
    lines = [f"{end - 50}-{end} all_reduce 8 B" for end in ends.tolist()]
    first, second = rank(0, *lines[:50]), moved(rank(1, *lines[7:57]), 10**15)
    assert shift(unpacked(first), unpacked(second)) == -7
    found = job([first, second])
    assert (found.clocks[1].offset_ns, len(found.lanes[0])) == (10**15, 43)


def test_of_shifts_that_are_equally_good_the_one_that_matches_more_is_taken() -> None:
    lines = [f"{end - 50}-{end} barrier" for end in (100, 200, 300, 400, 500)]
    uneven = [f"{end - 50}-{end} barrier" for end in (100, 209, 318, 409, 500)]  # evener by one place, but not by much
    assert shift(unpacked(rank(0, *lines)), unpacked(moved(rank(1, *uneven), 10**12))) == 0


def test_of_shifts_that_are_equally_good_the_one_that_hosts_clocks_allow_is_taken() -> None:
    lines = [f"{end - 50}-{end} barrier" for end in range(20_000, 240_000, 20_000)]
    first, second = rank(0, *lines[:10]), moved(rank(1, *lines[1:]), 10**6)
    assert shift(unpacked(first), unpacked(second)) == -1


# One rank's trace


@pytest.mark.parametrize(
    ("name", "kind", "dtype"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "all_reduce", "float32"),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "all_reduce",
            "bfloat16",
        ),
        ("ncclDevKernel_ReduceScatter_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter", "float16"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather", None),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv", None),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", "broadcast", None),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "other", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, int)", "all_reduce", None),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
            "all_reduce",
            None,
        ),
        ("void deep_ep::internode_ll::dispatch<true, false, 7168>(void*)", "all_to_all", None),
        ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)", "all_to_all", None),
        ("barrier_on_stream_kernel_threadgroup(int, int)", "barrier", None),
    ],
)
def test_a_kernels_name_says_what_it_does(name: str, kind: str, dtype: str | None) -> None:
    [found] = [unpacked(rank_summary(trace("s0: 0-10 gemm", f"s0: 20-30 {name}"), "test", Selection()))]
    assert (found.start_ns.tolist(), [KINDS[each] for each in found.kind]) == ([20], [kind])
    assert found.dtype.tolist() == [DTYPES.index(dtype) if dtype else -1]
    assert (found.bytes.tolist(), found.group.tolist()) == ([-1], [-1])


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [
        ("Float", "float32"),
        ("float", "float32"),
        ("c10::BFloat16", "bfloat16"),
        ("BFloat16", "bfloat16"),
        ("Half", "float16"),
    ]
    + [("long int", "int64"), ("Long", "int64"), ("unsigned char", "uint8"), ("Byte", "uint8"), ("Char", "int8")]
    + [
        ("Float8_e4m3fn", "float8_e4m3"),
        ("c10::complex<float>", "complex64"),
        ("ComplexFloat", "complex64"),
        ("bool", "bool"),
    ],
)
def test_types_are_known_in_both_spellings(spelling: str, dtype: str) -> None:
    assert DTYPES[dtype_of(spelling)] == dtype


@pytest.mark.parametrize(
    ("name", "kind"),
    [("_allgather_base", "all_gather"), ("all_to_allv", "all_to_all"), ("allreduce_coalesced", "all_reduce")]
    + [("_reduce_oop", "reduce"), ("recv", "send_recv"), ("nccl:all_to_all", "all_to_all"), ("wait", "other")],
)
def test_a_frameworks_name_says_what_it_does(name: str, kind: str) -> None:
    assert KINDS[kind_of(name)] == kind


def launched(
    *, inputs: str | None = None, operator: bool = False, on_kernel: bool = False, around: str = "record_param_comms"
) -> Trace:
    """One Generic kernel, launched in operators that may list their inputs or describe the collective."""
    texts = [
        "ncclDevKernel_Generic_4()",
        "cudaLaunchKernel",
        "runtime",
        "op",
        around,
        "push_pop",
        "nccl:all_reduce",
    ]
    texts += ["allreduce", "7", "[0, 1]", "BFloat16", inputs or ""]
    strings = Strings(dict.fromkeys(texts))
    kernels = table(Table.KERNELS, strings, 1, start_ns=[50], end_ns=[90], correlation=[3], pid=[1], name=texts[:1])
    calls = table(
        Table.CALLS,
        strings,
        1,
        start_ns=[20],
        end_ns=[25],
        correlation=[3],
        pid=[1],
        tid=[2],
        name=texts[1:2],
        layer=["runtime"],
    )
    ranges = table(
        Table.RANGES,
        strings,
        2,
        start_ns=[10, 12],
        end_ns=[40, 35],
        pid=[1, 1],
        tid=[2, 2],
        name=[around, "nccl:all_reduce"],
        kind=["op", "push_pop"],
        inputs=[strings.code(inputs) if inputs else -1, -1],
    )
    described = [row for row, there in (((10, 40, 1, 2, -1), operator), ((50, 90, -1, -1, 3), on_kernel)) if there]
    start, end, pid, tid, correlation = zip(*described, strict=True) if described else ((),) * 5
    count = len(described)
    rows = table(
        Table.COLLECTIVES,
        strings,
        count,
        start_ns=start,
        end_ns=end,
        pid=pid,
        tid=tid,
        correlation=correlation,
        name=["allreduce"] * count,
        group=["7"] * count,
        ranks=["[0, 1]"] * count,
        group_size=[2] * count,
        in_elements=[100] * count,
        dtype=["BFloat16"] * count,
    )
    tables = {Table.KERNELS: kernels, Table.CALLS: calls, Table.RANGES: ranges}
    return of_tables(strings, tables | ({Table.COLLECTIVES: rows} if count else {}))


@pytest.mark.parametrize(("operator", "on_kernel"), [(True, False), (False, True), (True, True)])
def test_a_description_says_more_than_a_name(operator: bool, on_kernel: bool) -> None:
    found = unpacked(rank_summary(launched(operator=operator, on_kernel=on_kernel), "test", Selection()))
    assert [KINDS[each] for each in found.kind] == ["all_reduce"]
    assert [DTYPES[each] for each in found.dtype] == ["bfloat16"]
    assert found.bytes.tolist() == [200]
    assert found.groups[found.group[0]] == Group("7", (0, 1), 2)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ('[[6144], [], []]\n["float", "Scalar", ""]', 24576),
        ('[[16, 8], []]\n["c10::BFloat16", ""]', 256),
        ('[[], []]\n["TensorList", "Scalar"]', -1),
        ('[[16]]\n["fraction"]', -1),
        ('[[-16]]\n["float"]', -1),
        (f'[[{10**30}]]\n["float"]', -1),
        ("[" * 100_000, -1),
        ("[" * 100_000 + "\n[]", -1),
        ("{}\n{}", -1),
        ("[[1]]\n[[1]]", -1),
        ("[]\n[]", -1),
        (None, -1),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bytes_come_from_recorded_shapes_or_not_at_all(inputs: str | None, expected: int) -> None:
    found = unpacked(rank_summary(launched(inputs=inputs), "test", Selection()))
    assert [KINDS[each] for each in found.kind] == ["all_reduce"]
    assert found.bytes.tolist() == [expected]


def test_what_an_operator_gets_is_not_what_the_rank_gives() -> None:
    gets = launched(inputs='[[6144], [768]]\n["float", "float"]', around="c10d::alltoall_base_")
    assert unpacked(rank_summary(gets, "test", Selection())).bytes.tolist() == [-1]


def test_an_operator_with_two_kernels_does_not_say_how_much_each_moves() -> None:
    once = launched(operator=True)
    tables = {each: once[each].at(np.array([0, 0])) for each in (Table.KERNELS, Table.CALLS)}
    twice = of_tables(once.strings, dict(once.tables) | tables)
    found = unpacked(rank_summary(twice, "test", Selection()))
    assert ([KINDS[each] for each in found.kind], found.bytes.tolist()) == (["all_reduce"] * 2, [-1, -1])


def test_a_summary_has_the_books_of_the_report() -> None:
    found = rank_summary(
        trace("s0: 0-10 gemm", "s1: 5-25 ncclDevKernel_AllReduce_Sum_f32_RING_LL()"), "test", Selection()
    )
    assert found.line_ns == {"compute.gemm": 10, "comm": 15}
    assert (found.compute_ns, found.exposed_comm_ns, found.hidden_comm_ns) == (10, 15, 5)
    assert sum(found.line_ns.values()) == found.steady_ns
    assert list(found.exposed.unpacked()) == [Span(10, 25)]


# Profiles that others published

CORPUS = ROOT.parent / "shared" / "corpus"


def test_two_gpus_of_an_nsys_profile_agree_with_a_query(tmp_path: Path) -> None:
    packed = CORPUS / "nsys" / "GindaChen+nsys-ai__tests__fixtures__mfu_2gpu_after.sqlite.xz"
    if not packed.exists():
        pytest.skip("no third-party profiles beside the checkout")
    path = tmp_path / "mfu.sqlite"
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    read = open_trace(path)
    found = job([rank_summary(read, f"gpu {at}", Selection(device=at)) for at in (0, 1)])
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        query = (
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName"
            " WHERE value LIKE 'nccl%' AND deviceId = ? ORDER BY start"
        )
        first, second = (database.execute(query, (device,)).fetchall() for device in (0, 1))
    [lane] = found.lanes
    assert (len(first), len(second), len(lane), found.clocks[1].offset_ns) == (31, 31, 31, 0)
    last = [max(a[0], b[0]) for a, b in zip(first, second, strict=True)]
    assert lane.wait_ns(0).tolist() == [at - a[0] for at, a in zip(last, first, strict=True)]
    assert lane.wait_ns(1).tolist() == [at - b[0] for at, b in zip(last, second, strict=True)]
    ends = [min(a[1], b[1]) for a, b in zip(first, second, strict=True)]
    assert lane.transfer_ns.tolist() == [end - at for at, end in zip(last, ends, strict=True)]


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The eight traces, in no order."""
    packed = list((CORPUS / "torch").glob("*dlrm_kineto.tar.gz"))
    if not packed:
        pytest.skip("no third-party profiles beside the checkout")
    folder = tmp_path_factory.mktemp("dlrm")
    with tarfile.open(packed[0]) as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.rglob("*.json"), key=lambda path: path.name[::-1])


def naive(paths: Sequence[Path]) -> list[tuple[int, list[int], int]]:
    """For the n-th NCCL kernel of all ranks: the late rank, the waits by rank, and the transfer, by plain loops."""
    kernels: dict[int, list[tuple[int, int]]] = {}
    for path in paths:
        read = json.loads(path.read_text())
        mine = [each for each in read["traceEvents"] if each.get("cat") == "kernel" and each["name"].startswith("nccl")]
        times = [(each["ts"] * 1000, (each["ts"] + each["dur"]) * 1000) for each in mine]
        kernels[read["distributedInfo"]["rank"]] = sorted(times)
    found = []
    for at in range(len(kernels[0])):
        starts = {number: times[at][0] for number, times in kernels.items()}
        last = max(starts.values())
        late = next(number for number in sorted(starts) if starts[number] == last)
        waited = [last - starts[number] for number in sorted(starts)]
        found.append((late, waited, min(times[at][1] for times in kernels.values()) - last))
    return found


@pytest.fixture(scope="module")
def dlrm_job(dlrm: list[Path]) -> Job:
    return job([rank_summary(open_trace(path), path.name, Selection(), operations=10_000) for path in dlrm])


def test_eight_real_ranks_agree_with_a_naive_count(dlrm: list[Path], dlrm_job: Job) -> None:
    found, expected = dlrm_job, naive(dlrm)
    [lane] = found.lanes
    assert [each.rank for each in found.ranks] == list(range(8))
    assert (found.world_size, codes(found), found.coverage) == (8, {}, 1.0)
    assert [(part.seen, part.matched) for part in found.parts] == [(8, 8)] * 8
    assert lane.late.tolist() == [late for late, _, _ in expected]
    assert waits_of(lane) == [waited for _, waited, _ in expected]
    assert lane.transfer_ns.tolist() == [transfer for _, _, transfer in expected]
    kinds = [KINDS[kind] for kind in lane.kind]
    assert kinds == ["all_to_all"] * 4 + ["all_reduce", "all_to_all", "all_reduce", "all_reduce"]
    assert max(clock.residual_ns for clock in found.clocks if isinstance(clock.residual_ns, int)) <= 2 * US


def test_eight_real_ranks_have_a_late_one(dlrm_job: Job) -> None:
    """One step was recorded, and the waiting is at its first collective: who is waited for began late."""
    found = dlrm_job
    by_code = {each.code: each for each in findings_of(found)}
    skew = by_code["COMM-SKEW"]
    assert "bringing any one rank to the median pace would not make the job faster" in skew.claim
    assert "rank 7 arrives last at 5 of 8 collectives, which account for 75.9 % of all waiting" in skew.sentences
    [lane] = found.lanes
    later = sum(
        np.diff(np.sort(starts)).sum() for starts in np.stack(list(map(lane.start_ns, lane.members)), axis=1)[1:]
    )  # all but the first collective
    assert (skew.saving_low_ns_per_step, skew.is_bound) == (0, True)
    assert 0.9 * later < (skew.saving_ns_per_step or 0) <= later < found.waited_ns
    assert next(iter(by_code)) == "COMM-SKEW"  # 11.2 ms of waiting come before 198 us of transfer
    first = worst_place(found)
    assert not isinstance(first, NotMeasured)
    waited = int(found.lanes[0].waited_ns[0])  # the same as a naive count of it, see above
    assert (first.kind, first.ordinal, first.wait_ns) == ("all_to_all", 1, waited)

"""What fixing a rank, a stage or a collective saves: as much as the same job without the fault does."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpuledger.analyse.ranks import joined_ranks as joined
from gpuledger.analyse.ranks.fixing import OPERATIONS, FixKind, fixing, stages
from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.joined_ranks import JoinedRanks, joined_ranks
from gpuledger.analyse.ranks.packed import PackedTable
from gpuledger.analyse.ranks.rank import WorkPart
from gpuledger.analyse.ranks.rank_collectives import KINDS, Group
from gpuledger.analyse.ranks.rank_times import rank_times
from gpuledger.findings.ranks.job_findings import job_findings
from gpuledger.jobs import run
from gpuledger.present.views.compare.fleet import fix_rows
from gpuledger.replay.passes import replay_times as replayed_times
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured
from support.profiles.corpus import corpus_file
from support.traces.rank_notation import US, rank, with_collectives
from support.traces.replayed_ranks import GENERATOR, LAUNCHES, generated, in_turns, replayed, summary, true_step_ns
from support.traces.trace_notation import called


def claim(found: Job) -> str:
    return next(finding.claim for finding in job_findings(found, replayed(found)) if finding.code == "COMM-SKEW")


# Examples


def test_one_late_rank_saves_what_it_is_late_by() -> None:
    found = in_turns((100, 100), (100, 100), (150, 170))
    fixed = replayed(found)
    assert fixed.step_ns == (10 + 150 + 10 + 20 + 10 + 170 + 10 + 20) * US
    assert fixed.alone_ns == (0, 0, 120 * US)
    [fix] = fixed.in_order
    assert (fix.kind, fix.ranks, fix.then_ns) == (FixKind.RANK, (2,), 120 * US)
    assert [(one.part, one.longer_ns, one.saves_ns) for one in fix.excess] == [
        (WorkPart.COMPUTE, 120 * US, 120 * US),
    ]
    assert "rank 2: its kernels take 120 us longer than the median; at the median pace the job takes " in claim(found)
    assert [row.saves_ns for row in rank_times(found, fixing(found))] == [0, 0, 120 * US]
    [row] = fix_rows(found, fixing(found))
    assert (row.fixed, row.cause, row.step_ns) == ("rank 2", "compute", fixed.step_ns - 120 * US)


def test_two_ranks_equally_late_save_nothing_alone_and_all_together() -> None:
    found = in_turns((100,), (150,), (100,), (150,), (100,))
    fixed = replayed(found)
    assert fixed.alone_ns == (0, 0, 0, 0, 0)
    assert [(fix.ranks, fix.alone_ns, fix.then_ns) for fix in fixed.in_order] == [((1,), 0, 0), ((3,), 0, 50 * US)]
    assert "ranks 1 and 3: at the median pace the job takes" in claim(found)
    [skew, *_] = job_findings(found, fixed)
    assert skew.sentences[:2] == (
        "fixing rank 1 alone saves nothing",
        "then rank 3: its kernels take 50.0 us longer than the median: saves 50.0 us more",
    )


def test_who_is_late_in_turns_saves_in_turns() -> None:
    fixed = replayed(in_turns((100, 160, 100, 100), (100, 100, 130, 100), (100, 100, 100, 115)))
    assert (fixed.steps, fixed.alone_ns) == (3, (20 * US, 10 * US, 5 * US))  # the first step leads up to the others
    assert [(fix.ranks, fix.then_ns) for fix in fixed.in_order] == [((0,), 20 * US), ((1,), 10 * US), ((2,), 5 * US)]


def test_ranks_that_differ_by_chance_are_no_finding(tmp_path: Path) -> None:
    found = generated(tmp_path)
    assert found.waited_ns > 0
    assert [finding.code for finding in job_findings(found, replayed(found))] == ["COMM-EXPOSED"]


def test_waiting_that_delays_nothing_saves_nothing() -> None:
    """The reduction runs beside a longer kernel, on a stream of its own."""
    lines = ("{at}-{end} cudaLaunchKernel -> s9: {at}-400 ncclAllReduce", "2-3 cudaLaunchKernel -> s7: 5-900 gemm")
    early, late = (called(*(line.format(at=at, end=at + 1) for line in lines)) for at in (10, 300))
    found = job([summary(0, early, 3), summary(1, early, 3), summary(2, late, 3)])
    assert found.parts[0].wait_ns == 290 * US
    assert replayed(found).in_order == ()


FAULTS: dict[str, tuple[dict[str, Any], FixKind, int, WorkPart]] = {
    "kernels": ({"slow_compute": (3, 1.3)}, FixKind.RANK, 3, WorkPart.COMPUTE),
    "host": ({"slow_host": (1, 3.0)}, FixKind.RANK, 1, WorkPart.HOST),
    "garbage": ({"garbage": (2, 2_000_000)}, FixKind.RANK, 2, WorkPart.GARBAGE),
    "collective": ({"slow_reduce": (3, 20.0)}, FixKind.COLLECTIVE, 0, WorkPart.COMM),
}


@pytest.mark.parametrize("name", FAULTS)
def test_it_saves_what_the_job_without_the_fault_does(name: str, tmp_path: Path) -> None:
    faults, kind, number, part = FAULTS[name]
    fixed = replayed(generated(tmp_path, **faults))
    before, after = true_step_ns(**faults), true_step_ns()
    assert fixed.step_ns == pytest.approx(before, rel=0.01)
    [fix] = fixed.in_order
    assert (fix.kind, fix.number) == (kind, number)
    assert fix.then_ns == fix.alone_ns == pytest.approx(before - after, rel=0.05)
    assert fix.excess[0].part is part


def test_several_faults_are_fixed_one_after_the_other_as_without_each_of_them(tmp_path: Path) -> None:
    faults = {name: fault for wrong, *_ in FAULTS.values() for name, fault in wrong.items()}
    left = dict(faults)
    found = generated(tmp_path, **left)
    fixed = replayed(found)
    order = ["garbage", "slow_host", "slow_compute", "slow_reduce"]
    assert [fix.number for fix in fixed.in_order] == [2, 1, 3, 0]
    assert fixed.in_order[0].alone_ns > 0 == fixed.in_order[1].alone_ns == fixed.in_order[2].alone_ns
    step = fixed.step_ns
    for name, fix in zip(order, fixed.in_order, strict=True):
        step -= fix.then_ns
        del left[name]
        assert step == pytest.approx(true_step_ns(**left), rel=0.02), name
    assert "rank 2: its Python garbage collection takes 2.00 ms per step longer than the median" in claim(found)


def test_the_same_steps_are_replayed_where_captures_begin_apart(tmp_path: Path) -> None:
    """One rank began to record two steps later."""
    faults, steps = GENERATOR.Faults(slow_compute=(2, 1.3)), 8
    events = LAUNCHES * steps * GENERATOR.EVENTS_PER_LAUNCH
    late = GENERATOR.write_job(tmp_path, ranks=3, events=events, steps=steps, faults=faults)[1]
    trace = json.loads(late.read_text())
    begun = sorted(event["ts"] for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep"))[2] - 1
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event["ph"] == "M" or event["ts"] >= begun]
    late.write_text(json.dumps(trace))
    found = run.fleet([str(tmp_path)], Selection(), count=0, operations=4 * LAUNCHES).job
    kept = [rank.work.bare.first_step for rank in found.ranks if isinstance(rank.work, PackedTable)]
    assert kept == [2, 1, 2]  # by its own numbers
    jobs = [GENERATOR.simulate(3, LAUNCHES * steps, steps, some, 0) for some in (faults, GENERATOR.Faults())]
    lengths = [(int(each.step_end[-1]) - int(each.step_start[0])) / steps for each in jobs]
    [fix] = replayed(found).in_order
    assert fix.number == 2
    assert fix.then_ns == pytest.approx(lengths[0] - lengths[1], rel=0.05)


PIPELINE = (Group("dp0", (0, 1), 2), Group("dp1", (2, 3), 2), Group("pp0", (0, 2), 2), Group("pp1", (1, 3), 2))


def test_a_slow_stage_is_told_as_a_stage() -> None:
    ranks = []
    for number in range(4):
        compute = 100 if number < 2 else 200
        own = called(
            f"0-1 cudaLaunchKernel -> s7: 10-{10 + compute} gemm",
            f"1-2 cudaLaunchKernel -> s7: {20 + compute}-240 ncclSendRecv",
            "2-3 cudaLaunchKernel -> s7: 250-270 ncclAllReduce",
        )
        made = summary(number, own, 4)
        group = [2 + number % 2, number // 2]
        ranks.append(with_collectives(made, group=np.array(group), groups=PIPELINE))
    assert stages(ranks) == ((0, 1), (2, 3))
    found = job(ranks)
    [fix] = replayed(found).in_order
    assert (fix.kind, fix.ranks, fix.then_ns) == (FixKind.STAGE, (2, 3), 100 * US)
    assert "stage 1 (rank 2 to rank 3): its kernels take 100 us longer than the median" in claim(found)


def test_ranks_that_come_late_from_a_slow_collective_of_their_own_are_not_to_blame() -> None:
    """Two pairs of ranks reduce among themselves, one pair for 100 us longer; then all four together."""
    groups = (Group("tp0", (0, 1), 2), Group("tp1", (2, 3), 2), Group("world", (0, 1, 2, 3), 4))
    ranks = []
    for number in range(4):
        end = 170 if number < 2 else 270
        own = called(
            "0-1 cudaLaunchKernel -> s7: 10-110 gemm",
            f"1-2 cudaLaunchKernel -> s7: 120-{end} ncclAllReduce",
            f"2-3 cudaLaunchKernel -> s7: {end + 10}-300 ncclAllReduce",
        )
        made = summary(number, own, 4)
        group = np.array([number // 2, 2])
        ranks.append(with_collectives(made, group=group, groups=groups, bytes=np.array([1_000, 2_000])))
    found = job(ranks)
    [fix] = replayed(found).in_order
    assert (fix.kind, fix.ranks, fix.then_ns) == (FixKind.COLLECTIVE, (2, 3), 100 * US)
    assert "all_reduce no. 1 of group tp1 takes 100 us longer than its peers; at the median pace " in claim(found)


def test_two_gpus_of_a_public_profile_are_replayed_together(tmp_path: Path) -> None:
    path = tmp_path / "two.sqlite"
    path.write_bytes(lzma.decompress(corpus_file("mfu_2gpu_after.sqlite.xz").read_bytes()))
    found = run.fleet([str(path)], Selection(), count=0, operations=OPERATIONS).job
    ranks = joined_ranks(found.ranks, found.clocks, found.lanes)
    assert isinstance(ranks, JoinedRanks)
    assert (ranks.graph.groups, ranks.met_share) == (31, 1.0)
    assert np.array_equal(replayed_times(ranks.graph).end, ranks.graph.recorded.end)
    fixed = replayed(found)
    assert [fix.excess[0].part for fix in fixed.in_order] == [WorkPart.HOST, WorkPart.HOST]
    assert sum(fix.then_ns for fix in fixed.in_order) < found.waited_ns < 0.1 * fixed.step_ns


# Laws


@settings(max_examples=5, deadline=None, phases=[Phase.generate])  # a smaller example would take minutes
@given(
    st.integers(0, 10_000),
    st.fixed_dictionaries(
        {},
        optional={
            "slow_compute": st.tuples(st.integers(0, 4), st.floats(1.01, 3)),
            "slow_host": st.tuples(st.integers(0, 4), st.floats(1.1, 5)),
            "garbage": st.tuples(st.integers(0, 4), st.integers(1_000, 3_000_000)),
            "slow_reduce": st.tuples(st.integers(0, 3), st.floats(1, 30)),
        },
    ),
)
def test_all_ranks_together_are_replayed_as_they_were_and_nothing_saves_more_than_is_waited(
    tmp_path_factory: pytest.TempPathFactory, seed: int, faults: dict[str, Any]
) -> None:
    found = generated(tmp_path_factory.mktemp("job"), seed=seed, **faults)
    ranks = joined_ranks(found.ranks, found.clocks, found.lanes)
    assert isinstance(ranks, JoinedRanks)
    times = replayed_times(ranks.graph)
    for side in ("start", "end", "call_begin", "call_end"):
        assert np.array_equal(getattr(times, side), getattr(ranks.graph.recorded, side))
    fixed = replayed(found)
    waited = ranks.waited_ns(found.waiting) // fixed.steps
    assert 0 <= sum(fix.then_ns for fix in fixed.of_late_ranks) <= min(waited, fixed.step_ns)
    assert sum(fix.then_ns for fix in fixed.in_order) < fixed.step_ns
    assert all(0 <= saved <= waited for saved in fixed.alone_ns if saved is not None)


@given(st.lists(st.integers(0, 5)), st.integers(1, 8))
def test_rows_of_a_key_are_compared_together_however_few_at_once(keys: list[int], at_once: int) -> None:
    key = np.array(keys, np.int64)
    rows = 3 * np.arange(len(keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joined, "_AT_ONCE", at_once)
        parts = [part.tolist() for part in joined._by_key(rows, key)] if keys else []
    assert sorted(row for part in parts for row in part) == rows.tolist()
    assert all(part == sorted(part) for part in parts)
    of_parts = [{keys[row // 3] for row in part} for part in parts]
    assert sum(map(len, of_parts)) == len(set(keys))


def test_how_many_are_compared_at_once_is_no_part_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = generated(tmp_path, seed=3, slow_host=(1, 2.0), garbage=(2, 500_000))
    whole = replayed(found)
    monkeypatch.setattr(joined, "_AT_ONCE", 1)
    assert replayed(found) == whole


# Hostile


def test_what_cannot_be_replayed_says_why_and_bounds_the_saving_by_the_waiting() -> None:
    found = job([rank(0, "0-900 all_reduce"), rank(1, "800-900 all_reduce")])
    fixed = fixing(found)
    assert isinstance(fixed, NotMeasured)
    [skew, *_] = job_findings(found, fixed)
    assert skew.claim == "for 800 us, at least one rank waits for others at a collective, most of all for rank 1"
    assert "what fixing it saves was not replayed: there is nothing to replay across ranks" in skew.sentences
    assert (skew.saving_ns, skew.is_bound) == (800 * US, True)


def test_nothing_matched_saves_nothing() -> None:
    for ranks in ([], [rank(0, "0-9 all_reduce")], [rank(0, "0-9 all_reduce"), rank(1)]):
        assert isinstance(fixing(job(ranks)), NotMeasured)


def test_steps_that_are_too_long_are_not_replayed() -> None:
    long = called(*(f"{at}-{at + 1} cudaLaunchKernel -> s7: {at + 2}-{at + 3} gemm" for at in range(0, 400, 4)))
    work = summary(0, long, 2, operations=3).work
    assert isinstance(work, NotMeasured)
    assert "--time=FROM:TO" in work.reason


def test_without_sends_between_them_groups_are_no_stages() -> None:
    def one(number: int, *lines: str, groups: tuple[Group, ...]) -> Any:
        return rank(number, *lines, groups=groups)

    apart = [one(at, f"0-9 all_reduce in dp{at // 2}", groups=PIPELINE) for at in range(4)]
    assert stages(apart) == ()
    everybody = (*PIPELINE, Group("all", (0, 1, 2), 3))
    lines = [(f"0-9 all_reduce in dp{at // 2}", f"10-19 send_recv in pp{at % 2}") for at in range(4)]
    assert stages([one(at, *lines[at], groups=PIPELINE) for at in range(4)]) == ((0, 1), (2, 3))
    joined = [one(at, *lines[at], "20-29 all_reduce in all", groups=everybody) for at in range(4)]
    assert stages(joined) == ()  # an all-reduce over both of them connects the stages
    assert KINDS[7] == "send_recv"

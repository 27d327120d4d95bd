"""What fixing ranks buys: never more than is waited, down to the next-latest arrival and no further."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.ranks.fixing import FixedToo, fixing
from gpuledger.analyse.ranks.job import Job, job
from gpuledger.analyse.ranks.rank import RankSummary
from gpuledger.analyse.ranks.rank_collectives import Group
from gpuledger.findings.ranks import job_findings
from gpuledger.present.views.ranks import job_sheets
from gpuledger.trace.spans import union
from support.rank_notation import US, moved, rank, ranks


def arriving(*starts: int) -> Job:
    """Ranks that come to one collective at these times and leave it together at 900 us."""
    lines = [f"{start}-900 all_reduce" for start in starts]
    return job([rank(at, line, edges_us=(0, 1000), compute_us=50) for at, line in enumerate(lines)])


def rows(found: Job, name: str) -> list[dict[str, object]]:
    [sheet] = [sheet for sheet in job_sheets(found) if sheet.name == name]
    return [dict(zip([column.key for column in sheet.columns], row, strict=True)) for row in sheet.rows]


def claim(found: Job) -> str:
    return next(finding.claim for finding in job_findings(found) if finding.code == "COMM-SKEW")


# Examples


def test_one_late_rank_buys_all() -> None:
    found = arriving(0, 0, 800, 0)
    assert found.fixing.alone_ns == (0, 0, 3 * 800 * US, 0)
    assert found.fixing.together == (FixedToo(2, found.fixing.waited_ns),)
    assert "fixing rank 2 alone buys 800 us of it; rank 2 " in claim(found)
    assert [row["buys_ns"] for row in rows(found, "job_ranks")] == [0, 0, 800 * US, 0]


def test_two_ranks_equally_late_buy_nothing_alone_and_all_together() -> None:
    found = arriving(0, 800, 800, 0)
    assert found.fixing.alone_ns == (0, 0, 0, 0)
    assert [fixed.together_ns for fixed in found.fixing.together] == [0, 2 * 800 * US]
    assert "fixing rank 1 alone buys nothing, ranks 1 and 2 together 800 us; rank 1 " in claim(found)
    [skew, *_] = job_findings(found)
    assert (skew.saving_low_ns_per_step, skew.saving_ns_per_step) == (0, 800 * US)
    assert "no rank alone buys as much as 20.0 % of the exposed waiting" in skew.sentences


def test_a_rank_just_behind_another_buys_the_distance_between_them() -> None:
    found = arriving(0, 0, 700, 800)
    # three ranks wait 800, 800 and 100; without rank 3 two of them 700 and 700
    assert found.fixing.waited_ns == 1700 * US
    assert found.fixing.alone_ns == (0, 0, 0, 300 * US)
    assert found.fixing.together == (FixedToo(3, 300 * US), FixedToo(2, 1700 * US))
    [skew, *_] = job_findings(found)
    assert "fixing rank 3 alone buys 141 us of it, ranks 3 and 2 together 800 us" in skew.claim
    assert skew.saving_low_ns_per_step == 800 * US * 300 // 1700
    assert "only rank 3 does" in skew.assumption
    assert [row["together_percent"] for row in rows(found, "job_fixing")] == pytest.approx([100 * 3 / 17, 100])


def test_ranks_that_are_late_in_turn_buy_what_each_makes_the_others_wait() -> None:
    first = rank(0, "0-100 barrier", "260-300 barrier", edges_us=(0, 400))
    second = rank(1, "90-100 barrier", "200-300 barrier", edges_us=(0, 400))
    found = job([first, second])
    assert found.fixing.alone_ns == (60 * US, 90 * US)
    assert found.fixing.together == (FixedToo(1, 90 * US), FixedToo(0, 150 * US))


def test_waiting_under_compute_buys_nothing() -> None:
    early = rank(0, "0-900 all_reduce", edges_us=(0, 1000))
    hidden = replace(early, exposed=union([600 * US], [900 * US]))
    late = rank(1, "800-900 all_reduce", edges_us=(0, 1000))
    assert job([hidden, late]).fixing.alone_ns == (0, 200 * US)


def test_an_instant_that_a_rank_waits_at_two_collectives_counts_once() -> None:
    groups = (Group("a", (0, 1), 2), Group("b", (0, 2), 2))
    first = rank(0, "0-500 all_reduce in a", "100-700 all_reduce in b", groups=groups)
    second = rank(1, "400-500 all_reduce in a", groups=groups)
    third = rank(2, "600-700 all_reduce in b", groups=groups)
    found = job([first, second, third])
    assert found.fixing.waited_ns == found.parts[0].exposed_wait_ns == 600 * US
    assert found.fixing.alone_ns == (0, 400 * US, 200 * US)


def test_many_ranks_are_counted_and_few_are_named() -> None:
    claimed = claim(arriving(*[0] * 7, *range(801, 807)))
    assert "fixing rank 12 alone buys 1.71 us of it, the 6 ranks most waited for together" in claimed
    starts = (0, 1, 840, 850)
    unnumbered = [rank(None, f"{at}-900 barrier", edges_us=(0, 1000), profile=f"node{at}.json") for at in starts]
    assert "fixing node850.json alone buys" in claim(job(unnumbered))
    assert "node850.json and node840.json together" in claim(job(unnumbered))


def test_evidence_says_how_often_and_of_what() -> None:
    [skew, exposed] = job_findings(arriving(0, 0, 700, 800))
    by_sentence = {piece.sentence: piece for piece in skew.evidence}
    last = by_sentence["rank 3 is the last at 1 of 1 collectives, where ranks wait 100.0 % of all they wait"]
    assert (last.count, last.share, last.of) == (1, 1.0, "the waiting of all ranks")
    [place] = [piece for piece in skew.evidence if piece.kernel]
    assert (place.kernel, place.count, place.share) == ("all_reduce", 1, 1.0)
    assert (exposed.evidence[0].count, exposed.evidence[0].of) == (4, "the exposed communication of all ranks")
    for piece in (*skew.evidence, *exposed.evidence):
        assert (piece.share is None) == (not piece.of)
        assert piece.share is None or piece.share >= 0.2


# Laws


def naive(found: Job, fixed: Collection[int]) -> int:
    """What of the waiting goes when some ranks are fixed, collective by collective; all of it is exposed."""
    freed = 0
    for lane in found.lanes:
        for starts, ends in zip(lane.start_ns.tolist(), lane.end_ns.tolist(), strict=True):
            others = [start for member, start in zip(lane.members, starts, strict=True) if member not in fixed]
            last, instead = max(starts), max(others, default=min(starts))
            for start, end in zip(starts, ends, strict=True):
                freed += max(min(last, end) - start, 0) - max(min(instead, end) - start, 0)
    return freed


@given(ranks(), st.data())
def test_it_is_what_a_naive_count_gives(given: list[RankSummary], data: st.DataObject) -> None:
    found = job(given)
    assert found.fixing.alone_ns == tuple(naive(found, {at}) for at in range(len(given)))
    ranks_fixed = [fixed.rank for fixed in found.fixing.together]
    at = data.draw(st.integers(0, len(ranks_fixed)))
    if at:
        assert found.fixing.together[at - 1].together_ns == naive(found, set(ranks_fixed[:at]))


@st.composite
def partly_hidden(draw: st.DrawFn, *, jitter_us: int = 40) -> list[RankSummary]:
    """Ranks that compute during part of their collectives."""
    hidden = []
    for member in draw(ranks(jitter_us=jitter_us)):
        edges = sorted(draw(st.lists(st.integers(0, member.window.end_ns), min_size=2, max_size=6)))
        hidden.append(replace(member, exposed=union(np.array(edges[:-1:2]), np.array(edges[1::2]))))
    return hidden


@given(partly_hidden())
def test_single_ranks_buy_no_more_than_is_waited_and_all_together_buy_it_all(given: list[RankSummary]) -> None:
    found = job(given)
    bought = found.fixing
    assert bought.waited_ns == sum(part.exposed_wait_ns for part in found.parts)
    assert min(bought.alone_ns) >= 0
    assert sum(bought.alone_ns) <= bought.waited_ns
    together = [fixed.together_ns for fixed in bought.together]
    assert together == sorted(together)
    assert (together[-1] if together else 0) == bought.waited_ns
    assert len({fixed.rank for fixed in bought.together}) == len(together)
    for number, fixed in enumerate(bought.together, 1):
        assert fixed.together_ns >= sum(bought.alone_ns[other.rank] for other in bought.together[:number])


@given(partly_hidden())
def test_no_saving_is_larger_than_what_is_lost(given: list[RankSummary]) -> None:
    found = job(given)
    most = max((part.exposed_wait_ns for part in found.parts), default=0)
    for row in (*rows(found, "job_fixing"), *rows(found, "job_ranks")):
        for key in ("alone_ns", "together_ns", "buys_ns"):
            value = row.get(key) or 0
            assert isinstance(value, int)
            assert 0 <= value <= found.waited_ns <= most
    for finding in job_findings(found):
        if finding.code == "COMM-SKEW":
            assert finding.saving_ns <= most


@given(partly_hidden(jitter_us=0), st.integers(10**10, 10**15))
def test_another_clock_buys_the_same(given: list[RankSummary], by: int) -> None:
    assert job([*given[:-1], moved(given[-1], by)]).fixing == job(given).fixing


# Hostile


def test_nothing_matched_buys_nothing() -> None:
    assert fixing((), (), ()).together == ()
    found = job([rank(0, "0-9 all_reduce"), rank(1)])
    assert (found.fixing.waited_ns, found.fixing.alone_ns, found.waited_ns, found.buys_ns(7)) == (0, (0, 0), 0, 0)


def test_of_many_ranks_so_many_are_fixed_and_no_more() -> None:
    found = arriving(*range(40))
    assert len(found.fixing.together) == 20
    assert fixing(found.ranks, found.clocks, found.lanes, most=40).together[-1].together_ns == found.fixing.waited_ns

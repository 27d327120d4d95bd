"""A history of runs: which changes are found in made histories, how often wrongly, and what each is put down to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger.analyse.diff import run_history
from gpuledger.analyse.diff.run_history import CODE, HARDWARE, METHOD, NOISE, LevelChange, StoredRun, trend
from support.traces.made_history import made_history, made_run

SEEDS = range(20)

Truth = tuple[list[StoredRun], list[int]]


def number(run: StoredRun) -> int:
    return int(run.commit, 16)


def hits(changes: Sequence[LevelChange], truth: Sequence[int]) -> tuple[int, int]:
    """How many true commits lie in the ranges that are blamed, and how many ranges hold none."""
    blamed = [(number(change.last_before), number(change.first_after)) for change in changes if change.verdict == CODE]
    found = {commit for commit in truth if any(first < commit <= last for first, last in blamed)}
    wrong = [edges for edges in blamed if not any(edges[0] < commit <= edges[1] for commit in truth)]
    return len(found), len(wrong)


def counted(make: Callable[[int], Truth]) -> tuple[int, int, int]:
    """Over ten seeds: changes there are, changes found, changes that are none."""
    there = found = wrong = 0
    for seed in SEEDS[:10]:
        runs, truth = make(seed)
        right, false = hits(trend(runs, "step").changes, truth)
        there, found, wrong = there + len(truth), found + right, wrong + false
    return there, found, wrong


def three_and_a_clock(seed: int) -> Truth:
    """Thirty commits, three regressions of 5 to 12 % and a clock that falls by 15 %, four runs apart; 1 % noise."""
    random = np.random.default_rng(1000 + seed)
    while True:
        places = random.choice(np.arange(4, 27), 4, replace=False).tolist()
        if min(np.diff(sorted([0, *places, 30]))) >= 4:
            break
    clock, *commits = places
    regressions = [(commit, float(random.uniform(0.05, 0.12))) for commit in commits]
    return made_history(seed, regressions, clock=(clock, 0.15)), commits


def test_three_regressions_a_clock_change_and_noise() -> None:
    for seed in SEEDS:
        runs, commits = three_and_a_clock(seed)
        changes = trend(runs, "step").changes
        assert hits(changes, commits) == (3, 0)
        [clock] = [change for change in changes if change.verdict == HARDWARE]
        assert "SM clock" in clock.what
        assert clock.share == pytest.approx(1 / 0.85 - 1, abs=0.03)


@pytest.mark.parametrize(
    ("what", "make", "expected"),
    [
        ("noise alone", lambda seed: (made_history(seed), []), (0, 0, 0)),
        (
            "a slow drift: no commit is blamed",
            lambda seed: (made_history(seed, noise=0.005, extra=lambda _, number: 0.004 * number), []),
            (0, 0, 0),
        ),
        (
            "two modes from run to run: 2 ranges of 10 histories are blamed wrongly",
            lambda seed: (made_history(seed, noise=0.003, extra=lambda random, _: 0.06 * (random.random() < 0.3)), []),
            (0, 0, 2),
        ),
        (
            "two single runs far out",
            lambda seed: (made_history(seed, [(14, 0.08)], extra=lambda _, number: 0.4 * (number in (7, 22))), [14]),
            (10, 10, 0),
        ),
    ],
)
def test_what_is_no_step_is_not_blamed_on_a_commit(
    what: str, make: Callable[[int], Truth], expected: tuple[int, int, int]
) -> None:
    assert counted(make) == expected, what


def test_a_drift_is_said_to_be_one() -> None:
    drifting = trend(made_history(1, noise=0.005, extra=lambda _, number: 0.004 * number), "step")
    assert drifting.drift_share == pytest.approx(0.12, abs=0.03)
    assert trend(made_history(1), "step").drift_share == 0


def test_commits_that_did_not_run_widen_the_range() -> None:
    """Eight of thirty are missing, so that levels may have two runs: some are missed, none is made up."""

    def make(seed: int) -> Truth:
        runs, commits = three_and_a_clock(seed)
        kept = np.random.default_rng(seed).choice(30, 22, replace=False)
        return [runs[place] for place in sorted(kept.tolist())], commits

    there, found, wrong = counted(make)
    assert (there, wrong) == (30, 0)
    assert found >= 24


def test_a_change_without_a_run_between_names_the_commits_that_may_have_made_it() -> None:
    runs = [run for run in made_history(3, [(15, 0.2)]) if number(run) not in (13, 14, 15, 16)]
    [change] = [change for change in trend(runs, "step").changes if change.verdict == CODE]
    assert (number(change.last_before), number(change.first_after)) == (12, 17)
    assert change.share == pytest.approx(0.2, abs=0.02)


def test_a_method_a_machine_or_the_same_commit_is_not_the_code() -> None:
    stepped = made_history(5, [(15, 0.1)])

    def told(**other: object) -> list[str]:
        runs = [replace(run, **other) if number(run) >= 15 else run for run in stepped]
        return [change.verdict for change in trend(runs, "step").changes]

    assert told() == [CODE]
    assert told(tool="nsys 2027.1") == told(method="torch") == [METHOD]
    assert told(gpu="NVIDIA B200") == told(driver="590") == told(machine="node2") == [HARDWARE]
    again = [replace(run, commit="a" * 40) for run in stepped]
    assert [change.verdict for change in trend(again, "step").changes] == [NOISE]


def test_machines_that_take_turns_are_no_change_and_hide_none() -> None:
    """A slower GPU in every second run: its level is told once, and the regression is found beside it."""
    runs = [
        replace(run, gpu="B", figures={"step": replace(run.figures["step"], value=1.3 * run.figures["step"].value)})
        if number(run) % 2
        else run
        for run in made_history(2, [(16, 0.1)])
    ]
    verdicts = [change.verdict for change in trend(runs, "step").changes]
    assert verdicts.count(HARDWARE) == 1
    assert verdicts.count(CODE) == 2  # in each series


@given(st.lists(st.floats(1, 1e12), min_size=0, max_size=12))
def test_any_figures_give_levels_that_hold_every_run(values: list[float]) -> None:
    found = trend([made_run(place, value) for place, value in enumerate(values)], "step")
    assert len(found.runs) == len(values)
    for change in found.changes:
        assert change.before
        assert change.after
        assert change.first_after.place >= change.last_before.place


def test_a_figure_that_no_run_has() -> None:
    assert trend(made_history(0), "none").runs == ()
    nothing = [replace(run, figures={"step": replace(run.figures["step"], value=0.0)}) for run in made_history(0)]
    assert (len(trend(nothing, "step").runs), trend(nothing, "step").changes) == (30, ())


def test_too_few_runs_for_a_change_are_told_as_noise_with_their_chance() -> None:
    [change] = trend(made_history(4, [(4, 0.2)], runs=8), "step").changes
    assert (change.verdict, number(change.first_after)) == (NOISE, 4)
    assert change.chance == pytest.approx(2 / 70, abs=0.03)


def test_series_are_found_in_time_that_grows_with_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of 3,000 runs, each by a method of its own, took minutes: every run was held against every other."""
    compare = Mock(return_value={})
    monkeypatch.setattr(run_history, "differences", compare)
    runs = [made_run(number, 1e7, method=f"batch {number}") for number in range(100)]
    assert len(trend(runs, "step").runs) == 100
    assert compare.call_count <= 100

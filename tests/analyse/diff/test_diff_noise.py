"""Noise is called noise, and a change is not: simulated steps, and the laws of the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.diff.compare import compare
from gpuledger.analyse.diff.noise import (
    FASTER,
    NO_CHANGE,
    SLOWER,
    Interval,
    autocorrelation,
    median_interval,
)
from gpuledger.trace.spans import Ints
from support.thorough import some
from support.traces.diff_sides import kernel, side

STEP_NS = 10_000_000


def noisy(random: np.random.Generator, steps: int, *, noise: float = 0.03, slower: float = 0.0) -> list[int]:
    lengths: list[int] = (
        np.rint(STEP_NS * (1 + slower) * np.exp(noise * random.standard_normal(steps))).astype(int).tolist()
    )
    return lengths


def called(steps: int, slower: float, *, diffs: int = 100, seed: int = 1) -> list[str]:
    """The verdicts of so many diffs of simulated runs."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(diffs):
        before, after = (
            side(noisy(random, steps, slower=by), [kernel("k", steps, steps * 1_000)]) for by in (0.0, slower)
        )
        found.append(compare(before, after).verdict or "")
    return found


@pytest.mark.parametrize("steps", [10, 20, 30, 100])
def test_noise_alone_is_no_change(steps: int) -> None:
    changed = [each for each in called(steps, 0.0) if each != NO_CHANGE]
    assert len(changed) < 5


@pytest.mark.parametrize("steps", [20, 30, 100])
def test_steps_that_are_slower_by_five_per_cent_are_found(steps: int) -> None:
    assert called(steps, 0.05).count(SLOWER) >= 90


def test_steps_that_are_faster_by_five_per_cent_are_found() -> None:
    assert called(30, -0.05).count(FASTER) >= 90


def test_false_alarms_are_rare_over_many_seeds() -> None:
    alarms = [
        len([each for each in called(30, 0.0, diffs=100, seed=seed) if each != NO_CHANGE]) for seed in some(range(5), 2)
    ]
    assert sum(alarms) / len(alarms) < 3


def following(random: np.random.Generator, steps: int, alike: float) -> Ints:
    """Steps that follow one another: a machine that heats up and cools down."""
    away = np.empty(steps)
    away[0] = random.standard_normal()
    for at in range(1, steps):
        away[at] = alike * away[at - 1] + math.sqrt(1 - alike**2) * random.standard_normal()
    lengths: Ints = np.rint(STEP_NS * np.exp(0.03 * away)).astype(np.int64)
    return lengths


def test_steps_that_follow_one_another_widen_the_interval() -> None:
    random = np.random.default_rng(3)
    alarms = 0
    for _ in range(100):
        before, after = following(random, 50, 0.7), following(random, 50, 0.7)
        found = median_interval([before], [after])
        assert isinstance(found, Interval)
        alarms += not found.holds_zero
    assert alarms < 8  # without the widening it is 25


def test_steps_that_drift_are_no_change_against_the_reverse() -> None:
    drift = np.linspace(0.9, 1.1, 40) * STEP_NS
    found = median_interval([drift.astype(np.int64)], [drift[::-1].astype(np.int64)])
    assert isinstance(found, Interval)
    assert found.follows > 0.5
    assert found.holds_zero


def test_runs_that_differ_widen_the_interval() -> None:
    random = np.random.default_rng(4)

    def runs(by: Sequence[float]) -> list[Ints]:
        return [np.array(noisy(random, 20, noise=0.005, slower=each)) for each in by]

    found = median_interval(runs((0.0, 0.04, -0.04)), runs((0.03, -0.02, 0.05)))
    assert isinstance(found, Interval)
    assert found.runs_ns > 0.02 * STEP_NS
    assert found.holds_zero
    alone = median_interval(runs((0.0,)), runs((0.03,)))
    assert isinstance(alone, Interval)
    assert not alone.holds_zero


lengths = st.lists(st.integers(1, 10**12), min_size=3, max_size=40)


@given(lengths, lengths)
def test_the_interval_is_the_same_every_time_and_holds_its_centre(before: list[int], after: list[int]) -> None:
    runs = ([np.array(before)], [np.array(after)])
    found = median_interval(*runs)
    assert found == median_interval(*runs)
    assert isinstance(found, Interval)
    centre = float(np.median(after)) - float(np.median(before))
    assert found.low_ns <= centre <= found.high_ns


@given(lengths)
def test_a_run_against_itself_holds_zero(steps: list[int]) -> None:
    found = median_interval([np.array(steps)], [np.array(steps)])
    assert isinstance(found, Interval)
    assert found.holds_zero


@given(st.integers(1, 10**15), st.integers(3, 30))
def test_steps_without_noise_have_an_interval_without_width(length: int, steps: int) -> None:
    same = [np.full(steps, length)]
    assert median_interval(same, [np.full(steps, length + 7)]) == Interval(7, 7)


def test_one_outlier_does_not_make_steps_follow() -> None:
    calm = np.random.default_rng(5).normal(STEP_NS, 1000, 40)
    calm[20] = 5 * STEP_NS
    assert autocorrelation(calm) == 0

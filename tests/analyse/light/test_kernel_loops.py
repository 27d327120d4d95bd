"""Loops of small kernels: the same few over and over, within a step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.analyse.light.steady_kernels import FEWEST, LONGEST, KernelLoop, kernel_loops


def loops(names: list[int], parts: list[int] | None = None) -> tuple[KernelLoop, ...]:
    return kernel_loops(np.array(names, np.int32), np.array(parts or [0] * len(names), np.int64))


def test_an_optimizer_is_a_loop_of_its_kernels_for_each_parameter() -> None:
    forward, update = [1, 2, 3, 4, 5], [6, 7, 6, 8]
    [loop] = loops(forward + update * 40 + forward)
    assert (loop.start, loop.end, loop.period, loop.times) == (5, 165, 4, 40)
    assert loop.repeated == slice(9, 165)


def test_a_loop_within_a_loop_counts_as_the_longer() -> None:
    [loop] = loops(([1] * 20 + [2]) * 20)
    assert (loop.period, loop.times) == (21, 20)


def test_what_repeats_from_step_to_step_is_no_loop() -> None:
    steps = 40
    names = [1, 2, 3] * steps
    assert loops(names)
    assert not loops(names, [step for step in range(steps) for _ in range(3)])


def test_few_rounds_are_no_loop_and_nothing_is_none() -> None:
    assert not loops([1, 2] * (FEWEST - 1))
    assert loops([1, 2] * FEWEST)
    assert not loops([])
    assert not loops([1])


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(1, 2 * FEWEST)),
        max_size=6,
    )
)
def test_loops_do_not_overlap_and_repeat_what_they_say(rounds: list[tuple[list[int], int]]) -> None:
    names = np.array([name for kernels, times in rounds for name in kernels * times], np.int32)
    end = 0
    for loop in kernel_loops(names, np.zeros(len(names), np.int64)):
        assert end <= loop.start < loop.end <= len(names)
        assert 1 <= loop.period <= LONGEST
        assert loop.times >= FEWEST
        own = names[loop.start : loop.end]
        assert (own[loop.period :] == own[: -loop.period]).all()
        end = loop.end

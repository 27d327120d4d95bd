"""How steps vary: what every so many do more, outliers with their line, and drift, of steps of given lengths."""

from __future__ import annotations

import pytest

from gpuledger.ledger.step_variation import Variation, variation
from support.traces.book_checks import analysed
from support.traces.program import programmed

US = 1_000


def varies(*lengths: int) -> Variation:
    """Steps of one kernel each; before the first the GPU waits for 7 us."""
    first, *others = lengths
    text = " ".join(map(str, (first - 7, *others)))
    [device] = analysed(programmed(f"for us in {text}: range step: kernel k {{us}}"))
    varied = variation(device)
    assert varied is not None
    return varied


USUAL = [100] * 4


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([300, 300, *[*USUAL, 200] * 4], (5, (6, 11, 16, 21), 400)),
        ([*[*USUAL, 106] * 3], (5, (4, 9, 14), 18)),
        ([*[*USUAL, 105] * 3], None),
        ([*[*USUAL, 200] * 2, *USUAL], None),  # twice
        ([*[*USUAL, 200] * 3, *USUAL, 100, *USUAL, 200], (5, (4, 9, 14, 24), 400)),  # four of five
        ([*[*USUAL, 200] * 2, *USUAL, 100, *USUAL, 200], None),  # three of four
        ([*[*USUAL, 200] * 2, 100, 175, *USUAL[2:], 200], (5, (4, 9, 14), 300)),  # and 75 us besides
        ([*[*USUAL, 200] * 2, 100, 176, *USUAL[2:], 200], None),
        ([*[*USUAL, 200, 150] * 4], (6, (4, 10, 16, 22), 600)),  # it goes on in the next step
        ([*[100, 100, 200, 100, 200] * 4], None),
    ],
)
def test_what_every_so_many_steps_do_more(
    lengths: list[int], expected: tuple[int, tuple[int, ...], int] | None
) -> None:
    periodic = varies(*lengths).periodic
    found = None if periodic is None else (periodic.every, periodic.steps, periodic.more_ns // US)
    assert found == expected
    if periodic is not None:
        begins = {step for step in range(len(lengths)) if periodic.is_slow[step]}
        assert begins >= set(periodic.steps)
        assert periodic.usual_ns == 100 * US


def test_an_outlier_is_told_by_what_it_takes_more() -> None:
    [outlier] = varies(*[100] * 6, 180, *[100] * 5).outliers
    assert (outlier.step, outlier.length_ns, outlier.usual_ns) == (6, 180 * US, 100 * US)
    assert (str(outlier.line), outlier.excess_ns) == ("compute.other", 80 * US)


def test_of_several_outliers_the_longest_comes_first() -> None:
    found = varies(*[100] * 6, 180, *[100] * 5, 190, 100, 180, *[100] * 5).outliers
    assert [outlier.step for outlier in found] == [12, 6, 14]


@pytest.mark.parametrize(("late", "drifts"), [(109, False), (110, True), (91, False), (89, True)])
def test_thirds_that_differ_by_a_tenth_drift(late: int, drifts: bool) -> None:
    varied = varies(*[100] * 6, *[late] * 3)
    assert varied.drift is not None
    assert (varied.drift.early_ns, varied.drift.late_ns, varied.drifts) == (100 * US, late * US, drifts)
    assert varied.drift.share == pytest.approx(late / 100 - 1)


def test_percentiles_are_of_steady_steps() -> None:
    varied = varies(300, *range(100, 120))
    assert (varied.steps.warm_up, varied.median_ns, varied.p10_ns, varied.p90_ns) == (1, 110 * US, 102 * US, 117 * US)

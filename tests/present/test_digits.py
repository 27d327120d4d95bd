"""Digits as NVIDIA prints them, and numbers for people."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.present.digits import cell_text, tenths
from gpuledger.present.sheet import Digits
from gpuledger.trace.statistics import summarise
from gpuledger.units import bytes_text, count_text, instant_text, parse_instant, share_text, three_figures, time_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(87106 / 8, "10888.3"), (683169 / 20, "34158.4"), (0.05, "0.1"), (0.25, "0.3"), (-0.25, "-0.3"), (100.0, "100.0")],
)
def test_ties_round_away_from_zero_on_the_exact_double(value: float, text: str) -> None:
    assert tenths(value) == text


@given(st.floats(-1e15, 1e15))
def test_tenths_equal_exact_decimal_rounding(value: float) -> None:
    assert Decimal(tenths(value)) == Decimal(value).quantize(Decimal("0.1"), ROUND_HALF_UP)


def test_cells() -> None:
    assert cell_text((2, 64, 100000), Digits.TRIPLE) == "   2   64 100000"
    assert cell_text(62500, Digits.MEGABYTES) == "0.062"
    assert cell_text(None, Digits.TENTH) == ""
    assert cell_text(7, Digits.WHOLE) == "7"


def test_numbers_for_people() -> None:
    assert [time_text(each) for each in (0, 999, 1_000, 43_145_557, 1_001_000_000)] == [
        "0 ns",
        "999 ns",
        "1.00 us",
        "43.1 ms",
        "1.00 s",
    ]
    assert bytes_text(150_109_880_320) == "150 GB"
    assert count_text(24400) == "24,400"
    assert share_text(0.9721) == "97.2 %"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1.5ms", 1_500_000),
        ("156.012345678 s", 156_012_345_678),
        ("3 us", 3000),
        ("7ns", 7),
        (".25s", 250_000_000),
        ("1234567", 1_234_567),
        ("-12", -12),
    ],
)
def test_instants_are_parsed_exactly(text: str, ns: int) -> None:
    assert parse_instant(text) == ns


@given(st.integers(-(10**18), 10**18))
def test_an_instant_that_was_printed_can_be_given_back(ns: int) -> None:
    assert parse_instant(instant_text(ns)) == parse_instant(str(ns)) == ns


@pytest.mark.parametrize(("text", "complaint"), [("soon", "is no time"), ("0.5", "has no unit"), ("1e9", "is no time")])
def test_what_is_no_instant_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_instant(text)


@given(st.floats(1e-6, 1e6))
def test_three_figures_are_within_half_a_percent(value: float) -> None:
    assert abs(float(three_figures(value)) - value) <= 0.0051 * value


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30))
def test_a_summary_agrees_with_the_standard_library(values: list[int]) -> None:
    import statistics

    import numpy as np

    [found] = summarise(np.array(values), np.zeros(len(values), np.intp))
    assert (found.count, found.total, found.least, found.most) == (len(values), sum(values), min(values), max(values))
    assert found.median == statistics.median(values)
    assert found.average == pytest.approx(sum(values) / len(values), rel=1e-12, abs=1e-3)
    if len(values) > 1:
        assert found.deviation == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-3)
    else:
        assert found.deviation == 0

"""Times are exact to the nanosecond, whatever form the decimal text has."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.read.torch.events import nanoseconds


def test_epoch_microseconds_keep_their_nanoseconds() -> None:
    text = b"1712195495519695.812"
    found, usable = nanoseconds([text])
    assert (found.tolist(), usable.tolist()) == ([1712195495519695812], [True])
    assert round(float(text) * 1000) != 1712195495519695812  # what a float would have made of it


numbers = st.decimals(-(10**15), 10**15, allow_nan=False, allow_infinity=False, places=3).map(str)
forms = st.one_of(
    numbers,
    st.integers(-(10**15), 10**15).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, allow_infinity=False, places=1).map(str),
    st.decimals(-(10**6), 10**6, allow_nan=False, allow_infinity=False, places=6).map(str),
)


@given(st.lists(forms))
def test_every_number_is_what_its_text_says(texts: list[str]) -> None:
    found, usable = nanoseconds([text.encode() for text in texts])
    assert usable.all()
    assert found.tolist() == [int((Decimal(text) * 1000).to_integral_value()) for text in texts]


@given(st.lists(numbers, min_size=1))
def test_one_odd_number_does_not_disturb_the_others(texts: list[str]) -> None:
    given_texts = [text.encode() for text in texts]
    alone, _ = nanoseconds(given_texts)
    mixed, usable = nanoseconds([b"null", *given_texts, b"1e3"])
    assert mixed[1:-1].tolist() == alone.tolist()
    assert usable.tolist() == [False] + [True] * (len(texts) + 1)
    assert mixed[-1] == 1_000_000


@pytest.mark.parametrize("text", [b"", b"null", b"NaN", b"Infinity", b"1e400", b"9" * 5000, b"{}", b'"x"', b"-", b"."])
def test_what_is_no_time_is_told(text: bytes) -> None:
    found, usable = nanoseconds([text, b"1.000"])
    assert found.tolist() == [0, 1000]
    assert usable.tolist() == [False, True]


def test_nothing_gives_nothing() -> None:
    assert [each.tolist() for each in nanoseconds([])] == [[], []]

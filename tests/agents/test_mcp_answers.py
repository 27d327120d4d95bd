"""Answers are small and clean: pages lose no row, nothing hidden is sent; the few profiles kept are the last used."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agents.answers import LONGEST_TEXT, OurWords, cleaned, paged, written
from gpuledger.agents.profiles import RecentlyUsed
from gpuledger.present.safe_text import display_width, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_a_page_says_where_the_next_one_begins() -> None:
    rows = [{"n": number} for number in range(5)]
    assert paged(rows, 0, 2) == {"rows": rows[:2], "total": 5, "next_offset": 2}
    assert paged(rows, 4, 2) == {"rows": rows[4:], "total": 5, "next_offset": None}
    assert paged(rows, 9, 2) == {"rows": [], "total": 5, "next_offset": None}
    assert paged(rows, 0, 5, letters=1) == {"rows": rows[:1], "total": 5, "next_offset": 1}


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(1, 9), st.integers(1, 80))
def test_pages_together_are_the_list(rows: list[str], limit: int, letters: int) -> None:
    met: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = paged(rows, offset, limit, letters)
        assert len(page["rows"]) <= limit
        assert len(page["rows"]) <= 1 or len("".join(map(written, page["rows"]))) <= letters
        met += page["rows"]
        offset = page["next_offset"]
    assert met == cleaned(rows)


@given(JSON)
def test_what_is_sent_hides_nothing_and_is_sent_the_same_again(content: object) -> None:
    sent = cleaned(content)
    assert cleaned(sent) == sent
    assert json.loads(written(sent)) == sent
    assert visible(written(sent)) == written(sent)


def test_a_long_name_is_cut_and_our_own_pages_are_not() -> None:
    assert display_width(cleaned("x" * 10**6)) == LONGEST_TEXT
    page = OurWords("line\n" * 500)
    assert cleaned({"page": page}) == {"page": page}


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcde"), st.integers(0, 5)), max_size=40),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_the_last_used_are_kept(uses: list[tuple[bool, str, int]], most: int, most_bytes: int) -> None:
    """Against a list that is kept in order by hand."""
    kept: RecentlyUsed[str] = RecentlyUsed(most, most_bytes)
    order: list[tuple[str, int]] = []
    for is_put, name, size in uses:
        known = [entry for entry in order if entry[0] == name]
        if is_put:
            kept.put(name, name, size)
            order = [entry for entry in order if entry[0] != name] + [(name, size)]
            while len(order) > 1 and (len(order) > most or sum(size for _, size in order) > most_bytes):
                order.pop(0)
        else:
            assert kept.get(name) == (name if known else None)
            order = [entry for entry in order if entry[0] != name] + known
        assert len(kept) == len(order)
        assert kept.held_bytes == sum(size for _, size in order)

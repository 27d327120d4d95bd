"""Words that a pattern must find: every text that it matches holds one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.catalog.kernel_families import FAMILIES, INDUCTOR, Alternative, alternatives

PATTERNS = sorted({pattern for table in (FAMILIES, INDUCTOR) for _, patterns in table for pattern in patterns})
COMMON = frozenset(("kernel", "triton"))


@pytest.mark.parametrize(
    ("pattern", "anchors"),
    [
        ("gemm", [{"gemm"}]),
        ("gemm|gemv", [{"gemm"}, {"gemv"}]),
        ("all_?reduce", [{"reduce"}]),
        ("moes?", [{"moe"}]),
        ("mmv{0,2}q", [{"mm"}]),
        ("(?<!fb)(?<!deep_)gemm(?!::)", [{"gemm"}]),
        ("(?:one|two)_?shot", [{"shot"}]),
        ("(?:add|sub)(?![a-z])", [{"add", "sub"}]),
        ("(?:add|b)?mm", [{"mm"}]),
        ("(?:ab(?:cde|fgh)|ijk)x", [{"abcdex", "abfghx", "ijkx"}]),
        ("x(?:abc)+de", [{"xabc"}]),
        ("x{2}abc", [{"abc"}]),
        (r"loop_\w{0,40}fusion", [{"fusion"}]),
        ("fft2d", [{"fft"}]),
        ("ab+cde", [{"cde"}]),
        ("dot_kernel", [{"dot"}]),
        ("kernel_x", [{"kernel"}]),
    ],
)
def test_what_a_pattern_must_find(pattern: str, anchors: list[set[str]]) -> None:
    assert [each.anchors for each in alternatives(pattern, COMMON)] == anchors


def test_the_alternatives_are_the_pattern() -> None:
    for pattern in PATTERNS:
        assert "|".join(each.pattern for each in alternatives(pattern)) == pattern


@given(st.data())
def test_every_match_holds_an_anchor(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from(PATTERNS))
    each: Alternative = data.draw(st.sampled_from(sorted(alternatives(pattern, COMMON), key=lambda each: each.pattern)))
    # texts that match, by somebody else's understanding of regular expressions
    text = data.draw(st.from_regex(each.pattern, alphabet=st.characters(codec="ascii")))
    assert re.search(each.pattern, text)
    assert any(anchor in text for anchor in each.anchors)


@pytest.mark.parametrize(
    "pattern", ["", "a|", "a", r"\w+", "[abc]d?e?", "(?:abc|d)", "(?:abc)?", "(abc)", "a.c", "x(?:y"]
)
def test_a_pattern_that_need_find_nothing_or_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|without a word"):
        list(alternatives(pattern))

"""How often something happens, in words: whole numbers, of a step or of all of them."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import build_report
from gpuledger.findings.words import MIN_ROUNDED_PER_STEP, count_words, occurrences_text
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from support.traces.trace_notation import called

STEPS = "4 times every 10000: ranges t1: 1-9999 step; t1: 8000-8003 launch -> s7: 8005-10000"


@cache
def device() -> Device:
    """Four steps by their range, of which the last three are told."""
    [only] = build_report(called(STEPS)).devices
    assert only.steps is not None
    return only


@pytest.mark.parametrize(
    ("per_step", "more", "told"),
    [
        (1, 0, "once per step"),
        (64, 0, "64 times per step"),
        (64, 1, "64 times per step"),
        (10, 1, "10 times per step"),
        (9, 1, "{count} times in {steps} steps"),
        (0, 1, "once in {steps} steps"),
        (2, 1, "{count} times in {steps} steps"),
        (0, 0, "0 times per step"),
    ],
)
def test_a_count_is_of_a_step_where_that_says_it(per_step: int, more: int, told: str) -> None:
    steps = device().step_count
    count = per_step * steps + more
    assert occurrences_text(device(), count) == told.format(steps=steps, count=count)


@given(st.integers(0, 100_000))
def test_no_count_is_a_fraction(count: int) -> None:
    for words in (occurrences_text(device(), count), count_words(device(), count, say("launch"), say("launches"))):
        assert not re.search(r"\d\.\d", words)
        number = int(re.sub(r"^once", "1", words).split()[0].replace(",", ""))
        whole = number * (device().step_count if words.endswith("per step") else 1)
        assert abs(whole - count) <= (device().step_count / 2 if count >= MIN_ROUNDED_PER_STEP else 0)

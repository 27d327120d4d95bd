"""How much is tried: some of many like inputs as a rule, all in a thorough run (HYPOTHESIS_PROFILE=thorough)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

THOROUGH_EXAMPLES = 1_000
IS_THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def some(items: Sequence[Item], one_in: int, first: int = 0) -> Sequence[Item]:
    """One in so many, always the same ones; all of them in a thorough run.

    Tests that go through the same profiles begin at another one each, so that together they see all.
    """
    return items if IS_THOROUGH else items[first::one_in]


def tries(usual: int) -> int:
    """How many examples of a law that needs more than others; a thorough run tries as many as of any."""
    return THOROUGH_EXAMPLES if IS_THOROUGH else usual

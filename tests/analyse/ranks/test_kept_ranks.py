"""Ranks of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/two_nccl.tar.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/one_nccl.sqlite.xz",
    "nsys/structures.tar.xz/structures/two_ranks.uneven.sqlite",
    "nsys/structures.tar.xz/structures/two_ranks.even.sqlite",
    "serve/gloo.sqlite.xz",
    "serve/normal.sqlite.xz",
)


@pytest.mark.parametrize("question", ["fleet --workers=0", "fleet --workers=0 --phases"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_ranks_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

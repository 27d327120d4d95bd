"""Gaps and launches of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/decode.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "nsys/one_nccl.sqlite.xz",
    "torch/decode.json.gz",
    "serve/normal.sqlite.xz",
    "nsys/planted.tar.xz/planted/exposed_copy.bad.sqlite",
    "places/loader.stacks.json.gz",
)


@pytest.mark.parametrize("question", ["gaps"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_gaps_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

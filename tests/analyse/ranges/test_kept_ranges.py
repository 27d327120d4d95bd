"""Ranges of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/decode.sqlite.xz",
    "nsys/emit_nvtx.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "torch/decode.json.gz",
    "nsys/use.tar.xz/use/training.sqlite",
    "serve/normal.sqlite.xz",
)


@pytest.mark.parametrize("question", ["ranges"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_ranges_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

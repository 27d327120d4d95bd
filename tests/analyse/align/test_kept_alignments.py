"""Pairs of captures, compared, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

PAIRS = (
    (
        "nsys/attn.sqlite.xz",
        "nsys/decode.sqlite.xz",
    ),
    (
        "torch/attn.json.gz",
        "torch/decode.json.gz",
    ),
    (
        "nsys/layers.tar.xz/layers/unfused.eager.sqlite",
        "nsys/layers.tar.xz/layers/batched.graph.sqlite",
    ),
    (
        "nsys/layers.tar.xz/layers/decode.eager.sqlite",
        "nsys/layers.tar.xz/layers/decode.graph.sqlite",
    ),
    (
        "nsys/layers.tar.xz/layers/shared.eager.sqlite",
        "nsys/layers.tar.xz/layers/shared.graph.sqlite",
    ),
    (
        "nsys/layers.tar.xz/layers/gemma.eager.sqlite",
        "nsys/layers.tar.xz/layers/gemma.graph.sqlite",
    ),
)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_pairs_stand_as_they_were(before: str, after: str) -> None:
    hold("align", before, after)

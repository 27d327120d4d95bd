"""Phases, serving and steps of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "serve/batches.sqlite.xz",
    "serve/normal.sqlite.xz",
    "serve/low_latency.sqlite.xz",
    "serve/gloo.sqlite.xz",
    "serve/graph.sqlite.xz",
    "nsys/decode.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "torch/decode.json.gz",
    "nsys/layers.tar.xz/layers/gemma.graph.sqlite",
    "nsys/layers.tar.xz/layers/decode.eager.sqlite",
    "nsys/layers.tar.xz/layers/unfused.eager.sqlite",
    "nsys/layers.tar.xz/layers/batched.graph.sqlite",
    "nsys/layers.tar.xz/layers/shared_last.eager.sqlite",
)


@pytest.mark.parametrize("question", ["ranges", "steps"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_phases_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

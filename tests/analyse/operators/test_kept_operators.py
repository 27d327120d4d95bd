"""Operators of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "torch/decode.json.gz",
    "torch/attn.json.gz",
    "torch/graph.json.gz",
    "torch/graph_warm.json.gz",
    "torch/work.json.gz",
    "nsys/emit_nvtx.sqlite.xz",
    "torch/light.tar.xz/light/tuned_gpt.tuned.json",
    "torch/light.tar.xz/light/tuned_resnet.tuned.json",
    "torch/light.tar.xz/light/all_logits.bad.json",
    "torch/light.tar.xz/light/odd_head.bad.json",
)


@pytest.mark.parametrize("question", ["ops"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_operators_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

"""Kernels to give to Nsight Compute, as somebody last looked at them."""

from __future__ import annotations

import pytest

from gpuledger import kernels
from gpuledger.units import share_text
from support.command import ROOT
from support.profiles.kept_answers import hold
from support.profiles.opened import trace_of

CAPTURES = (
    "nsys/decode.sqlite.xz",
    "nsys/attn.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "torch/decode.json.gz",
    "serve/normal.sqlite.xz",
    "nsys/busy.tar.xz/busy/resnet_nchw.bad.sqlite",
)


@pytest.mark.parametrize("question", ["kernels --set=verdict", "kernels"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_plans_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)


@pytest.mark.parametrize("capture", ["nsys/moe_loop.sqlite.xz", "torch/decode.json.gz"])
def test_the_sentence_has_the_share_of_the_first_row(capture: str) -> None:
    """Of a kernel in all its launch shapes."""
    answer = kernels(trace_of(ROOT / "captures" / capture))
    assert f"{share_text(answer.kernels[0].share or 0)} of that in" in answer.sentences[0]

"""Kernels to give to Nsight Compute, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

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

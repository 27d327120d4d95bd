"""Sampled use of GPUs in captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/metrics_llama.sqlite.xz",
    "nsys/use.tar.xz/use/elementwise.sqlite",
    "nsys/use.tar.xz/use/resnet_nchw.sqlite",
    "nsys/use.tar.xz/use/training.sqlite",
)


@pytest.mark.parametrize("question", ["report", "kernels", "ranges", "steps", "kernels --by-launch"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_use_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

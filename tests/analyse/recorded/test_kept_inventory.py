"""What captures hold, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/decode.sqlite.xz",
    "nsys/attn.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/metrics_llama.sqlite.xz",
    "nsys/emit_nvtx.sqlite.xz",
    "torch/decode.json.gz",
    "serve/normal.sqlite.xz",
)


@pytest.mark.parametrize("question", ["info"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_inventories_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

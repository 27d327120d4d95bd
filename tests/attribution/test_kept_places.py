"""Where the time of captures is, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/layers.tar.xz/layers/gemma.graph.sqlite",
    "nsys/layers.tar.xz/layers/decode.graph.sqlite",
    "nsys/layers.tar.xz/layers/batched.graph.sqlite",
    "serve/normal.sqlite.xz",
    "nsys/emit_nvtx.sqlite.xz",
    "nsys/planted.tar.xz/planted/host_function.bad.sqlite",
    "places/loader.stacks.json.gz",
    "places/workers.stacks.json.gz",
    "places/function.stacks.json.gz",
    "nsys/host_read_stacks.sqlite.xz",
    "nsys/decode.sqlite.xz",
    "nsys/numpy_samples.sqlite.xz",
    "nsys/lines.tar.xz/item_deep.sqlite",
    "nsys/lines.tar.xz/lock.sqlite",
    "nsys/lines.tar.xz/tokenizer.sqlite",
    "torch/decode.json.gz",
)


@pytest.mark.parametrize("question", ["report", "ranges", "kernels --set=verdict"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_places_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture, only=("findings", "ranges", "launches", "plan", "asked", "kernels", "command"))

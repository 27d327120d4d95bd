"""Copies, allocations and snapshots of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/decode.sqlite.xz",
    "nsys/attn.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "torch/work.json.gz",
    "nsys/planted.tar.xz/planted/alloc.bad.sqlite",
    "nsys/planted.tar.xz/planted/exposed_copy.bad.sqlite",
    "nsys/library.tar.xz/library/bert_transfers.bad.sqlite",
    "serve/normal.sqlite.xz",
    "torch/memory.tar.xz/churn.pickle",
    "torch/memory.tar.xz/expandable.pickle",
    "torch/memory.tar.xz/fragmented.pickle",
    "torch/memory.tar.xz/leak.pickle",
    "torch/memory.tar.xz/model.pickle",
    "torch/memory.tar.xz/oom_held.pickle",
    "torch/memory.tar.xz/oom_fragmented.pickle",
    "torch/memory.tar.xz/peak.pickle",
    "torch/memory.tar.xz/steady.pickle",
    "torch/memory.tar.xz/late.pickle",
)


@pytest.mark.parametrize("question", ["memory"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_memory_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

"""Books, causes and steps of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "nsys/attn.sqlite.xz",
    "nsys/decode.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "nsys/emit_nvtx.sqlite.xz",
    "nsys/host_read_stacks.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "torch/decode.json.gz",
    "torch/work.json.gz",
    "places/workers.stacks.json.gz",
    "serve/batches.sqlite.xz",
    "tour/loader_bad.json.gz",
    "nsys/planted.tar.xz/planted/alloc.bad.sqlite",
    "nsys/planted.tar.xz/planted/exposed_copy.bad.sqlite",
    "nsys/structures.tar.xz/structures/legacy_stream.blocking.sqlite",
    "nsys/structures.tar.xz/structures/two_processes.sqlite",
    "nsys/lines.tar.xz/recompile_shape.sqlite",
)


@pytest.mark.parametrize("question", ["gaps", "steps"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_books_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

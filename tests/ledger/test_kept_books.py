"""Books, causes and steps of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "serve/normal.sqlite.xz",
    "serve/graph.sqlite.xz",
    "serve/low_latency.sqlite.xz",
    "nsys/one_nccl.sqlite.xz",
    "nsys/metrics_llama.sqlite.xz",
    "nsys/moe_loop.sqlite.xz",
    "torch/graph.json.gz",
    "torch/moe_loop.json.gz",
    "tour/gemm_bad.json.gz",
    "places/loader.plain.json.gz",
    "nsys/layers.tar.xz/layers/gemma.graph.sqlite",
    "nsys/layers.tar.xz/layers/decode.eager.sqlite",
    "nsys/layers.tar.xz/layers/shared_last.eager.sqlite",
    "nsys/zoo_llm.tar.xz/zoo_llm/nonzero.bad.sqlite",
    "nsys/planted.tar.xz/planted/host_function.bad.sqlite",
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

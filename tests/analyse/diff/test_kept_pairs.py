"""Pairs of captures, compared, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

PAIRS = (
    ("serve/normal.sqlite.xz", "serve/low_latency.sqlite.xz"),
    ("nsys/use.tar.xz/use/training.sqlite", "nsys/use.tar.xz/use/resnet_nchw.sqlite"),
    ("nsys/zoo_llm.tar.xz/zoo_llm/nonzero.bad.sqlite", "nsys/zoo_llm.tar.xz/zoo_llm/nonzero.fixed.sqlite"),
    ("nsys/zoo_llm.tar.xz/zoo_llm/pageable_out.bad.sqlite", "nsys/zoo_llm.tar.xz/zoo_llm/pageable_out.fixed.sqlite"),
    ("nsys/zoo_graph.sqlite.xz", "nsys/zoo_node.sqlite.xz"),
    ("torch/graph.json.gz", "torch/graph_warm.json.gz"),
    ("places/workers.stacks.json.gz", "places/loader.stacks.json.gz"),
    (
        "nsys/moe_loop.sqlite.xz",
        "nsys/moe_batched_gemm.sqlite.xz",
    ),
    (
        "nsys/experts_loop.sqlite.xz",
        "nsys/experts_grouped.sqlite.xz",
    ),
    (
        "torch/decode.json.gz",
        "nsys/decode.sqlite.xz",
    ),
    (
        "tour/loader_bad.json.gz",
        "tour/loader_fixed.json.gz",
    ),
    (
        "tour/gemm_bad.json.gz",
        "tour/gemm_fixed.json.gz",
    ),
    (
        "nsys/planted.tar.xz/planted/alloc.bad.sqlite",
        "nsys/planted.tar.xz/planted/alloc.fixed.sqlite",
    ),
    (
        "nsys/planted.tar.xz/planted/casts.bad.sqlite",
        "nsys/planted.tar.xz/planted/casts.fixed.sqlite",
    ),
    (
        "nsys/library.tar.xz/library/adamw_loop.bad.sqlite",
        "nsys/library.tar.xz/library/adamw_loop.fixed.sqlite",
    ),
    (
        "nsys/library.tar.xz/library/bert_transfers.bad.sqlite",
        "nsys/library.tar.xz/library/bert_transfers.fixed.sqlite",
    ),
    (
        "nsys/attn.sqlite.xz",
        "nsys/attn.sqlite.xz",
    ),
)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_pairs_stand_as_they_were(before: str, after: str) -> None:
    hold("diff", before, after)

"""Findings of captures, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "torch/light.tar.xz/light/float32_attention.bad.json",
    "torch/light.tar.xz/light/position_bias.bad.json",
    "torch/light.tar.xz/light/float32_products.bad.json",
    "torch/light.tar.xz/light/transposed_operands.bad.json",
    "torch/light.tar.xz/light/widened_loss.bad.json",
    "torch/light.tar.xz/light/older_attention_trained.bad.json",
    "torch/light.tar.xz/light/dense_mask.bad.json",
    "torch/light.tar.xz/light/across_images.bad.json",
    "torch/light.tar.xz/light/frozen_backbone.bad.json",
    "torch/light.tar.xz/light/dense_table.bad.json",
    "torch/light.tar.xz/light/tuned_groups.tuned.json",
    "torch/light.tar.xz/light/one_token_read.bad.json",
    "torch/light.tar.xz/light/checkpointed.bad.json",
    "torch/light.tar.xz/light/cleared_gradients.bad.json",
    "torch/light.tar.xz/light/odd_channels.bad.json",
    "nsys/zoo_llm.tar.xz/zoo_llm/pageable_out.bad.sqlite",
    "nsys/zoo_llm.tar.xz/zoo_llm/exposed_out.bad.sqlite",
    "nsys/zoo_llm.tar.xz/zoo_llm/nonzero.bad.sqlite",
    "nsys/zoo_llm.tar.xz/zoo_llm/pinned_alloc.bad.sqlite",
    "nsys/together.tar.xz/together/copies_held.bad.sqlite",
    "nsys/together.tar.xz/together/read_tiny.bad.sqlite",
    "nsys/use.tar.xz/use/training.sqlite",
    "serve/batches.sqlite.xz",
    "nsys/metrics_llama.sqlite.xz",
    "nsys/attn.sqlite.xz",
    "nsys/decode.sqlite.xz",
    "nsys/graph.sqlite.xz",
    "nsys/two_gloo.sqlite.xz",
    "nsys/zoo_node.sqlite.xz",
    "nsys/experts_loop.sqlite.xz",
    "nsys/host_read_stacks.sqlite.xz",
    "nsys/planted.tar.xz/planted/alloc.bad.sqlite",
    "nsys/planted.tar.xz/planted/casts.bad.sqlite",
    "nsys/planted.tar.xz/planted/device_sync.bad.sqlite",
    "nsys/planted.tar.xz/planted/exposed_copy.bad.sqlite",
    "nsys/planted.tar.xz/planted/host_function.bad.sqlite",
    "nsys/planted.tar.xz/planted/host_read.bad.sqlite",
    "nsys/library.tar.xz/library/adamw_loop.bad.sqlite",
    "nsys/library.tar.xz/library/bert_transfers.bad.sqlite",
    "nsys/library.tar.xz/library/grad_norms.bad.sqlite",
    "nsys/library.tar.xz/library/hf_graph.bad.sqlite",
    "nsys/busy.tar.xz/busy/small_grid.bad.sqlite",
    "nsys/busy.tar.xz/busy/resnet_nchw.bad.sqlite",
    "nsys/busy.tar.xz/busy/eager_attention.bad.sqlite",
    "nsys/busy.tar.xz/busy/repeated_keys.bad.sqlite",
    "torch/light.tar.xz/light/all_logits.bad.json",
    "torch/light.tar.xz/light/few_bins.bad.json",
    "torch/light.tar.xz/light/odd_head.bad.json",
    "torch/light.tar.xz/light/dense_momentum.bad.json",
    "torch/light.tar.xz/light/one_hot_lookup.bad.json",
    "torch/light.tar.xz/light/tall_sums.bad.json",
    "torch/light.tar.xz/light/cleared_first.bad.json",
    "torch/light.tar.xz/light/checkpointed_mlp.bad.json",
    "nsys/lines.tar.xz/recompile_shape.sqlite",
    "nsys/lines.tar.xz/checkpoint.sqlite",
    "places/loader.stacks.json.gz",
    "tour/gemm_bad.json.gz",
    "nsys/together.tar.xz/together/sleep_pageable.bad.sqlite",
)


@pytest.mark.parametrize("question", ["report"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_findings_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture, only=("findings",))

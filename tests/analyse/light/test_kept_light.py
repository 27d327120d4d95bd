"""What the kernels of captures were good for, as somebody last looked at them."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold

CAPTURES = (
    "torch/light.tar.xz/light/all_logits.fixed.json",
    "torch/light.tar.xz/light/tuned_attention.tuned.json",
    "torch/light.tar.xz/light/tuned_fp8.tuned.json",
    "torch/light.tar.xz/light/float32_attention.bad.json",
    "torch/light.tar.xz/light/mask_in_layers.bad.json",
    "torch/light.tar.xz/light/position_bias.bad.json",
    "torch/light.tar.xz/light/older_attention.bad.json",
    "torch/light.tar.xz/light/colliding_sums.bad.json",
    "torch/light.tar.xz/light/widened_loss.bad.json",
    "torch/light.tar.xz/light/odd_inner.bad.json",
    "torch/light.tar.xz/light/older_attention_trained.bad.json",
    "torch/light.tar.xz/light/dense_mask.bad.json",
    "torch/light.tar.xz/light/tuned_products.tuned.json",
    "torch/light.tar.xz/light/across_images.bad.json",
    "torch/light.tar.xz/light/tuned_decode.tuned.json",
    "torch/light.tar.xz/light/frozen_backbone.bad.json",
    "torch/light.tar.xz/light/tuned_vit.tuned.json",
    "torch/light.tar.xz/light/dense_table.bad.json",
    "torch/light.tar.xz/light/odd_heads.bad.json",
    "torch/light.tar.xz/light/tuned_groups.tuned.json",
    "torch/light.tar.xz/light/repeated_heads.bad.json",
    "torch/light.tar.xz/light/one_token_read.bad.json",
    "torch/light.tar.xz/light/odd_vocabulary.bad.json",
    "torch/light.tar.xz/light/checkpointed.bad.json",
    "torch/light.tar.xz/light/many_small_products.bad.json",
    "torch/light.tar.xz/light/cleared_gradients.bad.json",
    "torch/light.tar.xz/light/cleared_cache.bad.json",
    "torch/light.tar.xz/light/odd_channels.bad.json",
    "torch/light.tar.xz/light/unfused_adam.bad.json",
    "torch/light.tar.xz/light/all_logits.bad.json",
    "torch/light.tar.xz/light/few_bins.bad.json",
    "torch/light.tar.xz/light/odd_head.bad.json",
    "torch/light.tar.xz/light/dense_momentum.bad.json",
    "torch/light.tar.xz/light/one_hot_lookup.bad.json",
    "torch/light.tar.xz/light/tall_sums.bad.json",
    "torch/light.tar.xz/light/cleared_first.bad.json",
    "torch/light.tar.xz/light/checkpointed_mlp.bad.json",
    "torch/light.tar.xz/light/tuned_gpt.tuned.json",
    "torch/light.tar.xz/light/tuned_resnet.tuned.json",
    "torch/light.tar.xz/light/float32_products.bad.json",
    "torch/light.tar.xz/light/transposed_operands.bad.json",
    "torch/light.tar.xz/light/one_wave_more.bad.json",
    "nsys/busy.tar.xz/busy/resnet_nchw.bad.sqlite",
    "nsys/busy.tar.xz/busy/small_grid.bad.sqlite",
    "nsys/decode.sqlite.xz",
    "nsys/metrics_llama.sqlite.xz",
    "nsys/use.tar.xz/use/training.sqlite",
)


@pytest.mark.parametrize("question", ["kernels", "kernels --by-launch", "ops"])
@pytest.mark.parametrize("capture", CAPTURES)
def test_kernels_stand_as_they_were(question: str, capture: str) -> None:
    hold(question, capture)

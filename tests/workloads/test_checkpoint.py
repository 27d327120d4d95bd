"""Weights from safetensors, on the CPU: a model that was saved by the published names is the same model again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from gpuledger_workloads.decoder.checkpoint import Checkpoint  # noqa: E402
from gpuledger_workloads.decoder.model import build  # noqa: E402
from gpuledger_workloads.decoder.size import TINY, DecoderSize  # noqa: E402
from gpuledger_workloads.mixture.exchange import StreamRanks  # noqa: E402
from gpuledger_workloads.mixture.experts import fill  # noqa: E402
from gpuledger_workloads.mixture.routing import Gating  # noqa: E402
from gpuledger_workloads.serving.rank_decoders import built  # noqa: E402
from gpuledger_workloads.serving.sharded_context import ShardedText  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402

SMALL = ("--decode-batch-size=2", "--decode-ctx-len=9", "--output-len=3", "--warmup=0")
SIZE = replace(TINY, batch=2, prompt=9, experts=4, ffn=8, shared_experts=2, dense_layers=1, dense_ffn=12, value_dim=12)


def saved(folder: Path, size: DecoderSize, **changed: object) -> Any:
    """A model with random weights, written as a published one would be; the model."""
    model: Any = built(StreamRanks(1, "cpu"), size, [2], 6, None, dtype="fp32", seed=5).models[0]
    tensors = {
        "model.embed_tokens.weight": model.embed.weight,
        "model.norm.weight": model.norm.weight,
        "lm_head.weight": model.head.weight,
    }
    for number, layer in enumerate(model.layers):
        found = {"input_layernorm": layer.attention_norm.weight, "post_attention_layernorm": layer.mlp_norm.weight}
        attention = layer.attention
        if size.attention == "gqa":
            each = (size.heads * size.head, size.kv_heads * size.head, size.kv_heads * size.head)
            query, key, value = attention.qkv.weight.split(each)
            found |= {"self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value}
        else:
            found |= {
                "self_attn.q_a_proj": attention.q_a.weight,
                "self_attn.q_a_layernorm": attention.q_norm.weight,
                "self_attn.q_b_proj": attention.q_b.weight,
                "self_attn.kv_a_proj_with_mqa": attention.kv_a.weight,
                "self_attn.kv_a_layernorm": attention.kv_norm.weight,
                "self_attn.kv_b_proj": attention.kv_b.weight,
            }
        if size.attention == "sparse":
            found |= {
                "self_attn.indexer.wq_b": attention.index_q.weight,
                "self_attn.indexer.wk": attention.index_k.weight,
                "self_attn.indexer.k_norm": attention.index_norm.weight,
                "self_attn.indexer.weights_proj": attention.index_weights.weight,
            }
            tensors[f"model.layers.{number}.self_attn.indexer.k_norm.bias"] = attention.index_norm.bias
        found["self_attn.o_proj"] = attention.out.weight
        if layer.is_mixed:
            found |= {"mlp.gate": layer.mlp.router} | split("mlp.shared_experts", layer.shared)
            for expert in range(size.experts):
                up, down = torch.empty(2 * size.ffn, size.width), torch.empty(size.width, size.ffn)
                fill(up, down, 5, number * size.experts + expert)
                names = [f"mlp.experts.{expert}.{name}_proj" for name in ("gate", "up", "down")]
                found |= dict(zip(names, (up[: size.ffn], up[size.ffn :], down), strict=True))
        else:
            found |= split("mlp", layer.mlp)
        tensors |= {f"model.layers.{number}.{name}.weight": each for name, each in found.items()}
    safetensors.save_file({name: each.contiguous().clone() for name, each in tensors.items()}, folder / "a.safetensors")
    config = {
        "num_hidden_layers": size.layers,
        "hidden_size": size.width,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "vocab_size": size.vocab,
        "n_routed_experts": size.experts,
        "num_experts_per_tok": size.top_k,
        "moe_intermediate_size": size.ffn,
        "intermediate_size": size.dense_ffn,
        "n_shared_experts": size.shared_experts,
        "first_k_dense_replace": size.dense_layers,
        "rope_interleave": False,
    }
    if size.attention != "gqa":
        config |= {"kv_lora_rank": size.kv_rank, "q_lora_rank": size.q_rank, "qk_rope_head_dim": size.rope_dim}
        config |= {"qk_nope_head_dim": size.head, "v_head_dim": size.value}
    if size.attention == "sparse":
        config |= {"index_topk": size.index_top_k, "index_n_heads": size.index_heads, "index_head_dim": size.index_dim}
    (folder / "config.json").write_text(json.dumps(config | changed))
    return model


def split(name: str, mlp: Any) -> dict[str, Any]:
    gate, up = mlp.up.weight.chunk(2)
    return {f"{name}.gate_proj": gate, f"{name}.up_proj": up, f"{name}.down_proj": mlp.down.weight}


@pytest.mark.parametrize("attention", ["gqa", "mla", "sparse"])
def test_a_saved_model_is_the_same_model_again(attention: str, tmp_path: Path) -> None:
    size = replace(SIZE, attention=attention)
    model = saved(tmp_path, size)
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.expect(size)
    again: Any = built(StreamRanks(1, "cpu"), size, [2], 6, checkpoint, dtype="fp32", seed=0).models[0]
    text = torch.randint(size.vocab, (2, 9), generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.prefill(text), model.prefill(text))
    assert checkpoint.unused(size) == []


@pytest.mark.parametrize("attention", ["gqa", "mla", "sparse"])
@pytest.mark.parametrize("ranks", [0, 3])
def test_a_decoder_with_all_experts_is_that_model_too(attention: str, ranks: int, tmp_path: Path) -> None:
    """As `decode` and `longctx` have it; with ranks the cache is spread over them."""
    size = replace(SIZE, attention=attention)
    picked = {"n_group": 2, "topk_group": 1, "routed_scaling_factor": 2.5, "rope_theta": 500.0, "rms_norm_eps": 0.01}
    saved(tmp_path, size, **picked, scoring_func="sigmoid")
    checkpoint = Checkpoint(str(tmp_path))
    model: Any = built(StreamRanks(1, "cpu"), size, [2], 6, checkpoint, dtype="fp32", seed=0).models[0]
    again: Any
    if ranks:
        again = ShardedText(StreamRanks(ranks, "cpu"), size, 6, 2, checkpoint, device="cpu", dtype="fp32", seed=0)
        others = [again, again.alone(15)]
    else:
        again = build(size, 6, "cpu", "fp32", 0)
        checkpoint.fill(again, size)
        others = [again]
    text = torch.randint(size.vocab, (2, 9), generator=torch.Generator().manual_seed(0))
    expected = [model.prefill(text), model.step()]
    for other in others:
        torch.testing.assert_close([other.prefill(text), other.step()], expected, rtol=1e-4, atol=1e-5)


RUNBOOK = """--ckpt DIR --attention-type mla --prompt-len 128000 --output-len 16 --num-pages 4096 --page-size 64
    --max-seq-len 163840 --max-batch-size 1 --disable-prefix-cache --chunk-size 2048 --max-prefill-tokens 16384"""
"""A long-context smoke test of a server, as its runbook has it."""


@pytest.mark.parametrize("ranks", [(), ("--world-size=2", "--ranks-as=streams")])
def test_longctx_takes_a_runbooks_options(ranks: tuple[str, ...], tmp_path: Path) -> None:
    saved(tmp_path, replace(SIZE, attention="mla"))
    flags = RUNBOOK.replace("DIR", str(tmp_path)).split()
    shorter = ("--prompt-len=40", "--chunk-size=16", "--output-len=3", "--page-size=4", "--warmup=0")
    said: Any = found_by("longctx", *flags, "--device=cpu", *shorter, *ranks)
    kept = ("attention", "layers", "experts", "shared_experts", "dense_layers", "q_rank", "value_dim")
    assert [said["settings"][key] for key in kept] == ["mla", 2, 4, 2, 1, 24, 12]
    assert said["checked"] is True
    assert "unused_tensors" not in said


def test_decode_reads_it_too(tmp_path: Path) -> None:
    saved(tmp_path, replace(SIZE, attention="gqa"), num_nextn_predict_layers=1)
    said = found_by("decode", f"--ckpt={tmp_path}", "--steps=3")
    assert (said["checked"], said["settings"]["experts"]) == (True, 4)
    assert said["not_followed"] == "num_nextn_predict_layers"


def test_a_reading_that_takes_long_says_what_is_read(tmp_path: Path) -> None:
    size, heard = replace(SIZE, attention="mla"), list[str]()
    saved(tmp_path, size)
    Checkpoint(str(tmp_path), heard.append).fill(build(size, 6, "cpu", "fp32", 0), size)
    assert heard[0] == "reading embed.weight"
    assert heard[-1] == "reading the experts of layer 1"


def test_a_run_takes_sizes_and_weights_from_the_folder(tmp_path: Path) -> None:
    saved(tmp_path, replace(SIZE, attention="mla"), n_group=2, topk_group=1, routed_scaling_factor=2.5)
    said = found_by(
        "serve", *SMALL, "--ranks-as=streams", f"--ckpt={tmp_path}", "--world-size=2", "--dispatch=low-latency"
    )
    kept = ("attention", "experts", "shared_experts", "dense_layers", "q_rank", "value_dim")
    assert [said["settings"][key] for key in kept] == ["mla", 4, 2, 1, 24, 12]
    assert said["logits_error_share"] < 1e-5
    assert said["expert_error_share"] < 1e-5


def test_pairs_that_are_turned_together_may_be_neighbours(tmp_path: Path) -> None:
    """DeepSeek's own order: the checkpoint's rows 0 and 1 are this decoder's 0 and half."""
    saved(tmp_path, replace(SIZE, attention="mla"), rope_interleave=True)
    size, checkpoint = replace(SIZE, attention="mla"), Checkpoint(str(tmp_path))
    there = checkpoint.tensor("model.layers.0.self_attn.kv_a_proj_with_mqa.weight")
    again: Any = built(StreamRanks(1, "cpu"), size, [2], 6, checkpoint, dtype="fp32", seed=0).models[0]
    order = [*range(size.kv_rank), *(size.kv_rank + at for at in (0, 2, 4, 6, 1, 3, 5, 7))]
    assert torch.equal(again.layers[0].attention.kv_a.weight, there[order])


def test_numbers_of_8_bits_are_multiplied_by_their_blocks_scale(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    small = torch.ones(130, 5).to(torch.float8_e4m3fn)
    safetensors.save_file({"a": small, "a_scale_inv": torch.tensor([[2.0], [3.0]])}, tmp_path / "w.safetensors")
    found = Checkpoint(str(tmp_path)).tensor("a")
    assert found.tolist() == [[2.0] * 5] * 128 + [[3.0] * 5] * 2


def test_experts_are_picked_with_a_bias_from_the_best_groups_and_count_without_it() -> None:
    scores = torch.tensor([[0.9, 0.1, 0.5, 0.4, 0.2, 0.3]])
    gating = Gating(is_sigmoid=True, bias=torch.tensor([-1.0, 0, 0, 0, 0, 0.5]), groups=3, top_groups=2, scale=2.0)
    weights, experts = gating(scores.logit(), 2)
    # groups (-0.1, 0.1), (0.5, 0.4), (0.2, 0.8): the last two; of them 0.8 and 0.5, which count 0.3 and 0.5
    assert experts.tolist() == [[5, 2]]
    torch.testing.assert_close(weights, torch.tensor([[2 * 0.3 / 0.8, 2 * 0.5 / 0.8]]))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("missing", r"has no model.layers.0.self_attn.kv_b_proj.weight, which a model of these sizes needs"),
        ("shape", r"model.layers.0.self_attn.q_a_proj.weight is 24 x 64, and these sizes ask for 25 x 64"),
        ("no weights", r"holds no \*.safetensors"),
        ("damaged", r"a.safetensors: "),
        ("no config", r"error: --ckpt: .*config.json: No such file"),
        ("no size", r"error: --ckpt: .* has no hidden_size"),
    ],
)
def test_what_is_no_such_model_is_refused_in_a_sentence(
    fault: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, replace(SIZE, attention="mla"), **({"q_lora_rank": 25} if fault == "shape" else {}))
    weights = tmp_path / "a.safetensors"
    if fault == "missing":
        kept = {
            name: each for name, each in safetensors.load_file(weights).items() if "layers.0.self_attn.kv_b" not in name
        }
        safetensors.save_file(kept, weights)
    elif fault == "no weights":
        weights.unlink()
    elif fault == "damaged":
        weights.write_bytes(weights.read_bytes()[:50])
    elif fault == "no config":
        (tmp_path / "config.json").unlink()
    elif fault == "no size":
        (tmp_path / "config.json").write_text('{"num_hidden_layers": 2, "kv_lora_rank": 16}')
    monkeypatch.setattr("gpuledger_workloads.longctx.build", lambda *_: pytest.fail("a model was built"))
    monkeypatch.setattr("gpuledger_workloads.decode.build", lambda *_: pytest.fail("a model was built"))
    for workload in (("serve", *SMALL, "--ranks-as=streams"), ("longctx",), ("decode",)):
        with pytest.raises(SystemExit, match=told) as end:
            found_by(*workload, f"--ckpt={tmp_path}")
        assert str(end.value.code).startswith("error: ")

"""The decoder to profile, on the CPU: its cache changes nothing, its experts are picked, and the program says all."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpuledger_workloads.command_lines import decode_parser as parser  # noqa: E402
from gpuledger_workloads.decoder.model import agreed, build, read_again, whole_pass  # noqa: E402
from gpuledger_workloads.decoder.size import TINY as TINY_MODEL  # noqa: E402
from gpuledger_workloads.decoder.size import DecoderSize, size_of  # noqa: E402
from gpuledger_workloads.device import DTYPES  # noqa: E402
from support.programs.plain_decoder import plain  # noqa: E402
from support.programs.workload_result import found_by  # noqa: E402

TINY = DecoderSize(layers=3, width=32, heads=4, kv_heads=2, ffn=48, vocab=61, batch=3, prompt=7)
LATENT = replace(TINY, q_rank=12, kv_rank=10, rope_dim=4, index_heads=3, index_dim=6)
SIZES = {
    "grouped": TINY,
    "every head has keys": replace(TINY, kv_heads=4),
    "one key head": replace(TINY, kv_heads=1),
    "experts": replace(TINY, experts=4, top_k=2),
    "latent": replace(LATENT, attention="mla"),
    "latent, no query latent, wider values": replace(LATENT, attention="mla", q_rank=0, value_dim=10),
    "sparse": replace(LATENT, attention="sparse", index_top_k=3),
    "one expert of three": replace(TINY, experts=3, top_k=1),
    "a prompt of one": replace(TINY, prompt=1),
    "heads wider than the model": replace(TINY, head_dim=12),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_decoding_with_the_cache_gives_what_a_plain_pass_over_the_text_gives(size: DecoderSize) -> None:
    steps = 5
    model = build(size, steps, "cpu", "fp32", seed=1)
    prompt = torch.randint(size.vocab, (size.batch, size.prompt))
    for _ in range(2):  # what the first left in the cache must not show
        logits = [model.prefill(prompt), *(model.step() for _ in range(steps))]
    length = size.prompt + steps
    assert torch.equal(model.text[:, : size.prompt], prompt)
    for sequence in range(size.batch):
        expected = plain(model, size, model.text[sequence, :length])[size.prompt - 1 :]
        found = torch.stack([each[sequence] for each in logits])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert model.text[sequence, size.prompt : length + 1].tolist() == expected.argmax(-1).tolist()
    assert agreed(logits[-1], whole_pass(model, length), size, "they") < 1e-5
    assert agreed(logits[-1], read_again(model, length), size, "they") < 1e-5


def test_a_cache_that_is_wrong_is_noticed() -> None:
    model: Any = build(TINY, 2, "cpu", "fp32", seed=1)
    model.prefill(torch.randint(TINY.vocab, (TINY.batch, TINY.prompt)))
    for layer in model.layers:
        layer.attention.values.copy_(layer.attention.values.roll(1, dims=0))  # each sequence sees another's
    logits = model.step()
    with pytest.raises(SystemExit, match="the last logits are off by"):
        agreed(logits, whole_pass(model, TINY.prompt + 1), TINY, "the last logits")


def test_logits_that_are_no_numbers_are_noticed() -> None:
    with pytest.raises(SystemExit, match="off by nan"):
        agreed(torch.full((2, 3), torch.nan), torch.ones(2, 3), TINY, "they")


def test_going_back_gives_the_same_tokens_again() -> None:
    model = build(TINY, 4, "cpu", "fp32", seed=1)
    model.prefill(torch.randint(TINY.vocab, (TINY.batch, TINY.prompt)))
    tokens = model.tokens.clone()
    texts = []
    for _ in range(2):
        model.rewind(tokens, TINY.prompt)
        for _ in range(4):
            model.step()
        texts.append(model.text.clone())
    assert torch.equal(*texts)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_a_size_knows_its_weights_and_its_cache(size: DecoderSize) -> None:
    model: Any = build(size, 3, "cpu", "fp32", 0)
    assert size.parameters == sum(each.numel() for each in model.parameters())
    kept = [each for layer in model.layers for each in layer.attention.buffers()]
    assert size.kv_bytes(64, 4) == sum(each.nbytes for each in kept)


def test_a_seed_makes_the_same_model_again() -> None:
    models = [build(TINY, 1, "cpu", "fp32", seed) for seed in (3, 3, 4)]
    weights = [model.head.weight for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_every_tensor_has_the_type_asked_for(dtype: str) -> None:
    model = build(replace(TINY, experts=2), 1, "cpu", dtype, 0)
    kept = {name: each.dtype for name, each in model.state_dict().items()}
    counts = ("text", "tokens", "position", "everywhere")
    assert {kept.pop(name) for name in counts} == {torch.int64}
    assert set(kept.values()) == {DTYPES[dtype]}


def decode(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuledger_workloads.decode", *arguments, "--format=json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_program_measures_checks_and_says_so() -> None:
    done = decode("--device=cpu", "--steps=4", "--prompt=9")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    settings = said["settings"]
    assert [settings[key] for key in ("device", "dtype", "steps", "prompt")] == ["cpu", "fp32", 4, 9]
    assert (said["workload"], said["checked"]) == ("decode", True)
    assert "off by" in done.stderr


def test_what_the_host_cannot_hold_is_refused_before_it_is_built() -> None:
    with pytest.raises(SystemExit, match=r"the model with a cache of .* GB needs .* GB, and this host has"):
        found_by("decode", "--width=4000000000000", "--heads=2")


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 80,
    "vocab_size": 90,
    "rope_theta": 500000.0,
    "sliding_window": None,
    "attention_bias": False,
}
MIXTRAL = LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2}
DEEPSEEK = LLAMA | {
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "n_shared_experts": 1,
    "kv_lora_rank": 16,
}


def sized(config: object, folder: Path, *arguments: str) -> DecoderSize:
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    options = parser().parse_args([f"--config={path}", "--device=cpu", *arguments])
    return size_of(options)


def test_a_config_gives_the_sizes_and_options_go_before_it(tmp_path: Path) -> None:
    llama = replace(TINY_MODEL, layers=3, width=48, heads=6, kv_heads=2, ffn=80, vocab=90)
    assert sized(LLAMA, tmp_path) == llama
    assert sized(LLAMA, tmp_path, "--layers=1", "--batch=7") == replace(llama, layers=1, batch=7)
    assert sized(MIXTRAL, tmp_path) == replace(llama, experts=4, top_k=2)
    assert sized(DEEPSEEK, tmp_path) == replace(llama, experts=8, top_k=3, ffn=24, shared_experts=1)
    assert sized(DEEPSEEK, tmp_path, "--experts=0") == replace(llama, top_k=3, shared_experts=1)
    assert sized({**LLAMA, "num_key_value_heads": None, "head_dim": 20}, tmp_path) == replace(
        llama, kv_heads=6, head_dim=20
    )


def test_a_config_makes_a_model_that_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK))
    said = found_by("decode", f"--config={tmp_path}", "--steps=2", "--warmup=0")  # its folder does as well
    assert said["not_followed"] == "kv_lora_rank"
    assert said["settings"]["experts"] == 8
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert "not_followed" not in found_by("decode", f"--config={tmp_path}", "--steps=2", "--warmup=0")


WRONG_CONFIGS: dict[str, tuple[object, str]] = {
    "no hidden_size": ({key: value for key, value in LLAMA.items() if key != "hidden_size"}, "has no hidden_size"),
    "no top k": (LLAMA | {"num_experts": 4}, "has no num_experts_per_tok"),
    "a nested model": ({"text_config": LLAMA}, r"(?s)has no num_hidden_layers.*its text_config has one"),
    "text for a number": (LLAMA | {"hidden_size": "48"}, 'hidden_size is "48", not a whole number'),
    "a float": (LLAMA | {"vocab_size": 90.0}, "vocab_size is 90.0, not"),
    "a bool": (LLAMA | {"num_hidden_layers": True}, "num_hidden_layers is true, not"),
    "a list": ([1, 2], "holds no JSON object but list"),
    "no JSON": ("{", "is no JSON"),
    "empty": ("", "is no JSON"),
    "deep": ("[" * 100_000, "is no JSON"),
    "large": (" " * (5 << 20), "is larger than 4 MiB"),
}


@pytest.mark.parametrize(("config", "told"), WRONG_CONFIGS.values(), ids=WRONG_CONFIGS)
def test_a_wrong_config_is_refused_in_one_sentence(config: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=told) as end:
        sized(config, tmp_path)
    assert str(end.value.code).startswith("error: --config: ")

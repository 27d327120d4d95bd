"""The decoder to profile, on the CPU: its cache changes nothing, its experts are picked, and the program says all."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpuledger.workloads import decode as program  # noqa: E402
from gpuledger.workloads.decoder import DTYPES, Size, build  # noqa: E402

TINY = Size(layers=3, width=32, heads=4, kv_heads=2, ffn=48, vocab=61, batch=3, prompt=7)
SIZES = {
    "grouped": TINY,
    "every head has keys": replace(TINY, kv_heads=4),
    "one key head": replace(TINY, kv_heads=1),
    "experts": replace(TINY, experts=4, top_k=2),
    "one expert of three": replace(TINY, experts=3, top_k=1),
    "a prompt of one": replace(TINY, prompt=1),
}


def normed(hidden: Any, weight: Any) -> Any:
    return hidden / (hidden.pow(2).mean(-1, keepdim=True) + torch.finfo(hidden.dtype).eps).sqrt() * weight


def turned(head: Any) -> Any:
    """Rotary embedding of one head, position by position, as a product of complex numbers."""
    length, width = head.shape
    pairs = torch.complex(head[:, : width // 2], head[:, width // 2 :])
    for position in range(length):
        for at in range(width // 2):
            angle = position * 10000 ** (-2 * at / width)
            pairs[position, at] *= complex(math.cos(angle), math.sin(angle))
    return torch.cat((pairs.real, pairs.imag), dim=-1)


def attended(layer: Any, size: Size, hidden: Any) -> Any:
    """One sequence; every query head by itself."""
    length = len(hidden)
    parts = (layer.qkv.weight @ hidden.T).T.reshape(length, -1, size.head)
    mixed = []
    for head in range(size.heads):
        group = head * size.kv_heads // size.heads
        query, key = turned(parts[:, head]), turned(parts[:, size.heads + group])
        value = parts[:, size.heads + size.kv_heads + group]
        scores = (query @ key.T) / math.sqrt(size.head)
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        mixed.append(scores.exp() / scores.exp().sum(-1, keepdim=True) @ value)
    return torch.cat(mixed, dim=-1) @ layer.out.weight.T


def fed(mlp: Any, size: Size, hidden: Any) -> Any:
    """Token by token, and only through the experts that were picked."""
    found = []
    for token in hidden:
        experts = [(1.0, mlp.up.weight, mlp.down.weight)] if not size.experts else []
        if size.experts:
            chance = (mlp.router.weight @ token).softmax(0)
            best = chance.argsort(descending=True)[: size.top_k].tolist()
            whole = sum(chance[each] for each in best)
            experts = [(chance[each] / whole, mlp.up[each].T, mlp.down[each].T) for each in best]
        out = torch.zeros_like(token)
        for share, up, down in experts:
            opened = up @ token
            gate, rest = opened[: size.ffn], opened[size.ffn :]
            out += share * (down @ (gate * gate.sigmoid() * rest))
        found.append(out)
    return torch.stack(found)


def plain(model: Any, size: Size, text: Any) -> Any:
    """The logits after each token of one sequence, without a cache."""
    hidden = model.embed.weight[text]
    for layer in model.layers:
        hidden = hidden + attended(layer.attention, size, normed(hidden, layer.attention_norm.weight))
        hidden = hidden + fed(layer.mlp, size, normed(hidden, layer.mlp_norm.weight))
    return normed(hidden, model.norm.weight) @ model.head.weight.T


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_decoding_with_the_cache_gives_what_a_plain_pass_over_the_text_gives(size: Size) -> None:
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
    assert program.error_of(model, logits[-1], length) < 1e-5


def test_a_cache_that_is_wrong_is_noticed() -> None:
    model: Any = build(TINY, 2, "cpu", "fp32", seed=1)
    model.prefill(torch.randint(TINY.vocab, (TINY.batch, TINY.prompt)))
    for layer in model.layers:
        layer.attention.values.copy_(layer.attention.values.roll(1, dims=0))  # each sequence sees another's
    assert program.error_of(model, model.step(), TINY.prompt + 1) > program.TOLERANCE["dense"]


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
    command = [sys.executable, "-m", "gpuledger.workloads.decode", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(
    "options", [(), ("--experts=4", "--top-k=1"), ("--read-tokens", "--warmup=0", "--batch=1")], ids=str
)
def test_the_program_measures_checks_and_says_so_in_one_line(options: tuple[str, ...]) -> None:
    ran = decode("--device=cpu", "--steps=4", "--prompt=9", *options)
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    said = json.loads(line)
    assert [said[key] for key in ("workload", "device", "dtype", "steps", "prompt")] == ["decode", "cpu", "fp32", 4, 9]
    assert said["checked"] is True
    assert 0 < said["tpot_ms_p10"] <= said["tpot_ms_median"] <= said["tpot_ms_p90"] <= said["itl_ms_p99"]
    assert min(said["ttft_ms"], said["ttft_cold_ms"], said["tokens_per_s"], said["parameters"]) > 0
    assert "off by" in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--steps=0"],
        ["--warmup=-1"],
        ["--heads=5"],
        ["--kv-heads=3"],
        ["--experts=2", "--top-k=3"],
        ["--layers=0"],
        ["--graph"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_refused(arguments: list[str]) -> None:
    ran = decode("--device=cpu", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "error: " in ran.stderr

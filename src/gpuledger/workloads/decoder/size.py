"""How large a decoder is: options, or a model's config.json, in, a `DecoderSize` out, or what is missing in a sentence.

A config has the keys that Hugging Face's models use (hidden_size, num_hidden_layers, ...); options go before it. Only
sizes are taken from it. What else it asks for and this decoder does not do, such as latent attention or shared experts,
is listed as `not_followed`, so that nobody takes the model for the published one.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gpuledger.workloads.common.json_file import read_object
from gpuledger.workloads.common.program import refuse, say, wrong


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """How large the model and its work are. `experts` 0: one MLP for all tokens; `head_dim` 0: `width` over `heads`."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    batch: int
    prompt: int
    experts: int = 0
    top_k: int = 2
    head_dim: int = 0

    @property
    def head(self) -> int:
        """The width of one head."""
        return self.head_dim or self.width // self.heads

    @property
    def parameters(self) -> int:
        """How many weights a model of this size has."""
        mlp = 3 * self.width * self.ffn
        fed = self.experts * (self.width + mlp) if self.experts else mlp
        attended = self.width * self.head * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (2 * self.width + attended + fed) + (2 * self.vocab + 1) * self.width

    def kv_bytes(self, positions: int, item_bytes: int) -> int:
        """What the cache takes that holds so many positions of each sequence."""
        return 2 * self.layers * self.batch * self.kv_heads * positions * self.head * item_bytes

    def fault(self) -> str | None:
        """What keeps these sizes from being a model's."""
        if min(self.layers, self.width, self.heads, self.kv_heads, self.ffn, self.vocab, self.batch, self.prompt) < 1:
            return "sizes are 1 at least"
        if self.head_dim < 0 or (not self.head_dim and self.width % self.heads):
            return "--width must be a multiple of --heads, or --head-dim be given"
        if self.head % 2 or self.heads % self.kv_heads:
            return "a head's width must be even, and --heads a multiple of --kv-heads"
        if self.experts < 0 or (self.experts and not 1 <= self.top_k <= self.experts):
            return "--top-k must lie between 1 and --experts"
        return None


LARGE = DecoderSize(layers=8, width=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000, batch=4, prompt=128)
TINY = DecoderSize(layers=2, width=64, heads=4, kv_heads=2, ffn=96, vocab=256, batch=2, prompt=16)  # for a CPU

MEANINGS = {
    "kv_heads": "heads of keys and values",
    "ffn": "width inside an MLP",
    "vocab": "different tokens",
    "batch": "sequences",
    "prompt": "tokens of a prompt",
    "experts": "MLPs to route between, 0: one for all",
    "top_k": "experts per token",
    "head_dim": "width of a head, 0: width over heads",
}
KEYS = {
    "layers": ("num_hidden_layers",),
    "width": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "kv_heads": ("num_key_value_heads",),
    "vocab": ("vocab_size",),
    "experts": ("num_local_experts", "n_routed_experts", "num_experts"),
    "top_k": ("num_experts_per_tok",),
    "head_dim": ("head_dim",),
}
"""Where a config says each size. `ffn` is missing: it depends on the experts."""
OTHERS = (
    "attention_bias",
    "decoder_sparse_step",
    "first_k_dense_replace",
    "kv_lora_rank",
    "layer_types",
    "mlp_only_layers",
    "n_shared_experts",
    "num_nextn_predict_layers",
    "q_lora_rank",
    "quantization_config",
    "shared_expert_intermediate_size",
    "sliding_window",
)
"""Keys of a config that change the work, and that this decoder does not know."""


def size_options(parser: argparse.ArgumentParser, *left_out: str) -> None:
    """--config, and an option for each size but those left out."""
    parser.add_argument(
        "--config", metavar="FILE", help="a model's config.json, or its folder, for the sizes that no option gives"
    )
    for name, large in asdict(LARGE).items():
        if name not in left_out:
            tiny = getattr(TINY, name)
            told = f"{MEANINGS.get(name, name)}; default {large}" + ("" if tiny == large else f", on a CPU {tiny}")
            parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=told)


def size_of(options: argparse.Namespace, **settled: int) -> DecoderSize:
    """The size that settled options ask for; `settled` are sizes that are known otherwise."""
    given = {
        each.name: value for each in fields(DecoderSize) if (value := getattr(options, each.name, None)) is not None
    }
    given |= settled
    sizes = asdict(LARGE if options.device == "cuda" else TINY)
    if options.config is not None:
        sizes |= _from_config(options.config, given)
    size = DecoderSize(**sizes | given)
    fault = size.fault()
    if fault:
        wrong(fault)
    return size


def not_followed(options: argparse.Namespace) -> dict[str, str]:
    """For a result: what the config asks for beside sizes, if anything."""
    if options.config is None:
        return {}
    config = _config(options.config)
    found = ", ".join(key for key in OTHERS if config.get(key))
    if found:
        say(f"this decoder does not follow {found} of {options.config}")
    return {"not_followed": found} if found else {}


def _config(path: str) -> dict[str, Any]:
    place = Path(path)
    return read_object(str(place / "config.json" if place.is_dir() else place), "--config")


def _from_config(path: str, given: dict[str, int]) -> dict[str, int]:
    """The sizes in a config.json. Missing ones must be `given`, but those that models commonly leave out."""
    config = _config(path)
    found = {name: value for name, keys in KEYS.items() if (value := _whole(config, path, *keys)) is not None}
    found.setdefault("experts", 0)
    experts = given.get("experts", found["experts"])
    ffn = _whole(config, path, *(("moe_intermediate_size",) if experts else ()), "intermediate_size")
    if ffn is not None:
        found["ffn"] = ffn
    if "heads" in found:
        found.setdefault("kv_heads", found["heads"])
    found.setdefault("head_dim", 0)
    wanted = {**KEYS, "ffn": ("intermediate_size",)}
    if not experts:
        wanted.pop("top_k")
    for name, keys in wanted.items():
        if name not in found and name not in given:
            nested = next((key for key, value in config.items() if isinstance(value, dict) and keys[0] in value), None)
            hint = f"its {nested} has one: save that alone" if nested else f"--{name.replace('_', '-')}=N gives it"
            refuse(f"--config: {path} has no {keys[0]}", hint=hint)
    return found


def _whole(config: dict[str, Any], path: str, *keys: str) -> int | None:
    """The first of these that a config has; null counts as missing."""
    for key in keys:
        value = config.get(key)
        if value is not None:
            if type(value) is not int:
                refuse(f"--config: {path}: {key} is {json.dumps(value)[:80]}, not a whole number")
            return value
    return None

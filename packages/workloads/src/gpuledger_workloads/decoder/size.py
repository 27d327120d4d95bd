"""How large a decoder is: options, or a model's config.json, in, a `DecoderSize` out, or what is missing in a sentence.

A config has the keys that Hugging Face's models use (hidden_size, num_hidden_layers, ...); options go before it. Only
sizes are taken from it. What else it asks for and this decoder does not do, such as a sliding window or scaled rotary
angles, is listed as `not_followed`, so that nobody takes the model for the published one.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from gpuledger_workloads.program import read_object, refuse, say, wrong

ATTENTIONS = {
    "gqa": "query heads share keys and values",
    "mla": "keys and values are kept as one small latent row per token, and a rotary key that all heads share",
    "sparse": "mla, and an indexer scores the tokens kept: only the best are attended to",
}
ALIASES = {"dsa": "sparse"}


@dataclass(frozen=True, slots=True)
class DecoderSize:
    """How large the model and its work are.

    `experts` 0: one MLP for all tokens. `head_dim` 0: `width` over `heads`; in mla it is the part of a query that is
    not turned by its position. `value_dim` 0: as wide as a head; `q_rank` 0: queries straight from the hidden state;
    `dense_ffn` 0: as `ffn`.
    """

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
    shared_experts: int = 0
    dense_layers: int = 0
    dense_ffn: int = 0
    attention: str = "gqa"
    q_rank: int = 1536
    kv_rank: int = 512
    rope_dim: int = 64
    value_dim: int = 0
    index_heads: int = 32
    index_dim: int = 128
    index_top_k: int = 512

    @property
    def head(self) -> int:
        return self.head_dim or self.width // self.heads

    @property
    def value(self) -> int:
        return self.value_dim or self.head

    @property
    def turned(self) -> int:
        """How much of a query and a key is turned by its position."""
        return self.head if self.attention == "gqa" else self.rope_dim

    @property
    def parameters(self) -> int:
        """How many weights a model of this size has."""
        dense = self.layers - self.mixed_layers
        alone = 3 * self.width * (self.dense_ffn or self.ffn if self.experts else self.ffn)
        shared = self.experts * self.width + self.shared_experts * 3 * self.width * self.ffn
        fed = dense * alone + self.mixed_layers * shared + self.experts * self.expert_weights
        return self.layers * (2 * self.width + self._attended()) + fed + (2 * self.vocab + 1) * self.width

    @property
    def mixed_layers(self) -> int:
        return max(0, self.layers - self.dense_layers) if self.experts else 0

    @property
    def expert_weights(self) -> int:
        """The weights of one expert in each of these layers."""
        return self.mixed_layers * 3 * self.width * self.ffn

    def _attended(self) -> int:
        if self.attention == "gqa":
            return self.width * self.head * (2 * self.heads + 2 * self.kv_heads)
        asked = self.heads * (self.head + self.rope_dim)
        queries = self.width * self.q_rank + self.q_rank + self.q_rank * asked if self.q_rank else self.width * asked
        kept = self.width * (self.kv_rank + self.rope_dim) + self.kv_rank
        opened = self.kv_rank * self.heads * (self.head + self.value)
        count = queries + kept + opened + self.heads * self.value * self.width
        if self.attention == "sparse":
            rows = (self.q_rank or self.width) * self.index_heads
            count += rows * self.index_dim + self.width * (self.index_dim + self.index_heads) + 2 * self.index_dim
        return count

    def kv_bytes(self, positions: int, item_bytes: int) -> int:
        """What the cache takes that holds so many positions of each sequence."""
        row = 2 * self.kv_heads * self.head
        if self.attention != "gqa":
            row = self.kv_rank + self.rope_dim + (self.index_dim if self.attention == "sparse" else 0)
        return self.layers * self.batch * positions * row * item_bytes

    def settings(self, *left_out: str) -> dict[str, Any]:
        """For a result: the sizes that mean something in this model."""
        unused = {"dense_ffn"} if not (self.experts and self.dense_layers) else set()
        if not self.experts:
            unused |= {"shared_experts", "dense_layers"}
        if self.attention == "gqa":
            unused |= {"q_rank", "kv_rank", "rope_dim", "value_dim"}
        else:
            unused |= {"kv_heads"}
        if self.attention != "sparse":
            unused |= {"index_heads", "index_dim", "index_top_k"}
        return {name: value for name, value in asdict(self).items() if name not in unused | set(left_out)}

    def fault(self) -> str | None:
        """What keeps these sizes from being a model's."""
        if min(self.layers, self.width, self.heads, self.kv_heads, self.ffn, self.vocab, self.batch, self.prompt) < 1:
            return "sizes are 1 at least"
        if self.head_dim < 0 or (not self.head_dim and self.width % self.heads):
            return "--width must be a multiple of --heads, or --head-dim be given"
        if self.turned % 2 or (self.attention == "gqa" and self.heads % self.kv_heads):
            return "what is turned by its position must be even, and --heads a multiple of --kv-heads"
        if self.attention != "gqa" and (min(self.kv_rank, self.rope_dim) < 1 or min(self.q_rank, self.value_dim) < 0):
            return "--kv-rank and --rope-dim are 1 at least, --q-rank and --value-dim 0 at least"
        if self.attention == "sparse" and (
            min(self.index_heads, self.index_top_k) < 1 or self.index_dim < self.rope_dim
        ):
            return "--index-heads and --index-top-k are 1 at least, --index-dim at least --rope-dim"
        if min(self.shared_experts, self.dense_layers, self.dense_ffn) < 0:
            return "--shared-experts, --dense-layers and --dense-ffn are 0 at least"
        if self.experts < 0 or (self.experts and not 1 <= self.top_k <= self.experts):
            return "--top-k must lie between 1 and --experts"
        return None


LARGE = DecoderSize(layers=8, width=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000, batch=4, prompt=128)
TINY = DecoderSize(
    layers=2,
    width=64,
    heads=4,
    kv_heads=2,
    ffn=96,
    vocab=256,
    batch=2,
    prompt=16,
    q_rank=24,
    kv_rank=16,
    rope_dim=8,
    index_heads=2,
    index_dim=16,
    index_top_k=8,
)  # for a CPU

MEANINGS = {
    "kv_heads": "heads of keys and values",
    "ffn": "width inside an MLP",
    "vocab": "different tokens",
    "batch": "sequences",
    "prompt": "tokens of a prompt",
    "experts": "MLPs to route between, 0: one for all",
    "top_k": "experts per token",
    "head_dim": "width of a head, 0: width over heads",
    "shared_experts": "experts that every token has besides",
    "dense_layers": "first layers that have one MLP instead of experts",
    "dense_ffn": "width inside their MLP, 0: as --ffn",
    "q_rank": "mla: width of a query's latent, 0: none",
    "kv_rank": "mla: width of the latent that is kept of each token",
    "rope_dim": "mla: width of the key that is turned by its position",
    "value_dim": "mla: width of a head's values, 0: as --head-dim",
    "index_heads": "sparse: heads of the indexer",
    "index_dim": "sparse: width of one of them",
    "index_top_k": "sparse: tokens that are attended to",
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
    "shared_experts": ("n_shared_experts",),
    "dense_layers": ("first_k_dense_replace",),
}
"""Where a config says each size. `ffn` is missing: it depends on the experts."""
LATENT_KEYS = {
    "head_dim": ("qk_nope_head_dim",),
    "q_rank": ("q_lora_rank",),
    "kv_rank": ("kv_lora_rank",),
    "rope_dim": ("qk_rope_head_dim",),
    "value_dim": ("v_head_dim",),
}
SPARSE_KEYS = {"index_heads": ("index_n_heads",), "index_dim": ("index_head_dim",), "index_top_k": ("index_topk",)}
OPTIONAL = ("head_dim", "shared_experts", "dense_layers", "q_rank", "value_dim")
"""Sizes that a config may leave out: 0 then."""
OTHERS = (
    *("attention_bias", "decoder_sparse_step", "index_topk", "kv_lora_rank", "layer_types", "mlp_only_layers"),
    *("num_nextn_predict_layers", "q_lora_rank", "quantization_config", "rope_scaling"),
    *("shared_expert_intermediate_size", "sliding_window"),
)
"""Keys of a config that change the work, and that this decoder does not know."""


def checkpoint_option(parser: argparse.ArgumentParser) -> None:
    """--ckpt."""
    parser.add_argument(
        "--ckpt",
        metavar="DIR",
        help="weights: a folder with config.json and *.safetensors, by Llama's, Mixtral's or DeepSeek's names; "
        "default: random weights",
    )


def size_options(parser: argparse.ArgumentParser, *left_out: str) -> None:
    """--config, --attention, and an option for each size but those left out."""
    kinds = "; ".join(f"{name}: {what}" for name, what in ATTENTIONS.items())
    parser.add_argument(
        "--attention",
        "--attention-type",
        choices=[*ATTENTIONS, *ALIASES],
        help=f"{kinds}; dsa is sparse; default: gqa, or that of a --ckpt",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="a model's config.json, or its folder, for the sizes that no option gives"
    )
    for name, large in asdict(LARGE).items():
        if name not in (*left_out, "attention"):
            tiny = getattr(TINY, name)
            help_text = f"{MEANINGS.get(name, name)}; default {large}" + ("" if tiny == large else f", on a CPU {tiny}")
            parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=help_text)


def size_of(options: argparse.Namespace, **settled: int) -> DecoderSize:
    """The size that settled options ask for; `settled` are sizes that are known otherwise. A --ckpt has a config."""
    given = {
        field.name: value for field in fields(DecoderSize) if (value := getattr(options, field.name, None)) is not None
    }
    folder = getattr(options, "ckpt", None)
    options.config = options.config or folder
    kind = options.attention or (_kind(_config(folder, "--ckpt")) if folder else "gqa")
    options.attention = ALIASES.get(kind, kind)
    given |= settled | {"attention": options.attention}
    sizes = asdict(LARGE if options.device == "cuda" else TINY)
    if options.config is not None:
        flag = "--ckpt" if options.config == folder else "--config"
        sizes |= _from_config(_config(options.config, flag), f"{flag}: {options.config}", given)
    size = DecoderSize(**sizes | given)
    fault = size.fault()
    if fault:
        wrong(fault)
    return size


def not_followed(options: argparse.Namespace) -> dict[str, str]:
    """For a result: what the config asks for beside sizes, if anything."""
    if options.config is None:
        return {}
    config = _config(options.config, "--config")
    followed = {"gqa": {}, "mla": LATENT_KEYS, "sparse": {**LATENT_KEYS, **SPARSE_KEYS}}[options.attention]
    known = {key for keys in followed.values() for key in keys}
    asked = {key for key in OTHERS if config.get(key) and key not in known}
    if (config.get("rope_parameters") or {}).get("rope_type", "default") != "default":
        asked.add("rope_parameters")
    ignored = ", ".join(sorted(asked))
    if ignored:
        say(f"this decoder does not follow {ignored} of {options.config}")
    return {"not_followed": ignored} if ignored else {}


def _kind(config: dict[str, Any]) -> str:
    if not config.get("kv_lora_rank"):
        return "gqa"
    return "sparse" if config.get("index_topk") else "mla"


def _config(path: str, flag: str) -> dict[str, Any]:
    place = Path(path)
    return read_object(str(place / "config.json" if place.is_dir() else place), flag)


def _from_config(config: dict[str, Any], where: str, given: dict[str, Any]) -> dict[str, int]:
    """The sizes in a config; `where` is its option and path. Missing ones must be `given`, but those in `OPTIONAL`."""
    wanted = dict(KEYS)
    if given["attention"] != "gqa":
        wanted |= LATENT_KEYS
        del wanted["kv_heads"]
    if given["attention"] == "sparse":
        wanted |= SPARSE_KEYS
    sizes = {name: value for name, keys in wanted.items() if (value := _whole(config, where, *keys)) is not None}
    sizes.setdefault("experts", 0)
    experts = given.get("experts", sizes["experts"])
    ffn = _whole(config, where, *(("moe_intermediate_size",) if experts else ()), "intermediate_size")
    if ffn is not None:
        sizes["ffn"] = ffn
    if experts and sizes.get("dense_layers"):
        sizes["dense_ffn"] = _whole(config, where, "intermediate_size") or 0
    if "heads" in sizes:
        sizes.setdefault("kv_heads", sizes["heads"])
    for name in OPTIONAL:
        if name in wanted:
            sizes.setdefault(name, 0)
    wanted["ffn"] = ("intermediate_size",)
    if not experts:
        wanted.pop("top_k")
    for name, keys in wanted.items():
        if name not in sizes and name not in given:
            nested = next((key for key, value in config.items() if isinstance(value, dict) and keys[0] in value), None)
            hint = f"its {nested} has one: save that alone" if nested else f"--{name.replace('_', '-')}=N gives it"
            refuse(f"{where} has no {keys[0]}", hint=hint)
    return sizes


def _whole(config: dict[str, Any], where: str, *keys: str) -> int | None:
    """The first of these that a config has; null counts as missing."""
    for key in keys:
        value = config.get(key)
        if value is not None:
            if type(value) is not int:
                refuse(f"{where}: {key} is {json.dumps(value)[:80]}, not a whole number")
            return value
    return None

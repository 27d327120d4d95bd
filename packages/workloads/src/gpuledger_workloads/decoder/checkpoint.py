"""Weights of a model from safetensors files: a folder and sizes in, a decoder filled with them out.

The folder is one that Hugging Face's models come in: config.json and *.safetensors, whose tensors have the names of
Llama, Mixtral or DeepSeek. What each part of the decoder is read from, in model.layers.N:

    attention_norm, mlp_norm       input_layernorm, post_attention_layernorm
    attention.qkv, .out            self_attn.q_proj, k_proj, v_proj, one below the other; o_proj
    mla: .q_a, .q_norm, .q_b       self_attn.q_a_proj, q_a_layernorm, q_b_proj; without a latent q_proj is .q_b
         .kv_a, .kv_norm, .kv_b    self_attn.kv_a_proj_with_mqa, kv_a_layernorm, kv_b_proj
    sparse: .index_q, .index_k     self_attn.indexer.wq_b, wk
            .index_norm, _weights  self_attn.indexer.k_norm, weights_proj
    mlp.up, .down                  mlp.gate_proj and up_proj; down_proj
    mlp.router, experts            mlp.gate; mlp.experts.E.gate_proj and up_proj, down_proj
                                   (Mixtral: block_sparse_moe.gate; block_sparse_moe.experts.E.w1 and w3, w2)
    shared                         mlp.shared_experts.gate_proj and up_proj, down_proj

and beside the layers model.embed_tokens, model.norm, lm_head (or embed_tokens again where words are tied). Numbers of 8
bits with NAME_scale_inv beside them are multiplied by it, block by block. Of the config rms_norm_eps, rope_theta,
rope_interleave and what says how experts are picked are followed as well. All names and shapes are looked up before
anything is allocated; tensors that the decoder has no use for are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.decoder.model import Decoder, Experts
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.mixture.routing import Gating
from gpuledger_workloads.program import read_object, refuse

Shape = tuple[int, ...]
Begin = Callable[[str], None]
_SCALED = "_scale_inv"
_BLOCK = 128  # numbers of 8 bits that share a scale, in each direction


@dataclass(frozen=True, slots=True)
class WeightPart:
    """One tensor of the decoder, and the tensors of a checkpoint that it is made of, one below the other."""

    target: str
    sources: tuple[tuple[str, Shape], ...]


def layer_parts(size: DecoderSize, number: int) -> Iterator[WeightPart]:
    """What a layer is read from, but its experts."""
    here, width = f"model.layers.{number}", size.width
    for norm, name in (("attention_norm", "input_layernorm"), ("mlp_norm", "post_attention_layernorm")):
        yield _part(f"layers.{number}.{norm}.weight", (f"{here}.{name}", (width,)))
    for target, *parts in _attention_parts(size):
        kind = "bias" if target.endswith(".bias") else "weight"
        sources = tuple((f"{here}.self_attn.{name}.{kind}", shape) for name, shape in parts)
        yield WeightPart(f"layers.{number}.attention.{target.removesuffix('.bias')}.{kind}", sources)
    if not size.experts or number < size.dense_layers:
        ffn = (size.dense_ffn or size.ffn) if size.experts else size.ffn
        yield from _mlp_parts(f"layers.{number}.mlp", f"{here}.mlp", width, ffn)
        return
    yield WeightPart(f"layers.{number}.mlp.router", ((f"{here}.mlp.gate.weight", (size.experts, width)),))
    if size.shared_experts:
        ffn = size.shared_experts * size.ffn
        yield from _mlp_parts(f"layers.{number}.shared", f"{here}.mlp.shared_experts", width, ffn)


def _attention_parts(size: DecoderSize) -> Iterator[tuple[Any, ...]]:
    """What each part of an attention is read from, by names that say not where it is."""
    width, heads = size.width, size.heads
    if size.attention == "gqa":
        kept = (size.kv_heads * size.head, width)
        yield "qkv", ("q_proj", (heads * size.head, width)), ("k_proj", kept), ("v_proj", kept)
        yield "out", ("o_proj", (width, heads * size.head))
        return
    if size.q_rank:
        yield "q_a", ("q_a_proj", (size.q_rank, width))
        yield "q_norm", ("q_a_layernorm", (size.q_rank,))
    asked = (heads * (size.head + size.rope_dim), size.q_rank or width)
    yield "q_b", ("q_b_proj" if size.q_rank else "q_proj", asked)
    yield "kv_a", ("kv_a_proj_with_mqa", (size.kv_rank + size.rope_dim, width))
    yield "kv_norm", ("kv_a_layernorm", (size.kv_rank,))
    yield "kv_b", ("kv_b_proj", (heads * (size.head + size.value), size.kv_rank))
    yield "out", ("o_proj", (width, heads * size.value))
    if size.attention == "sparse":
        yield "index_q", ("indexer.wq_b", (size.index_heads * size.index_dim, size.q_rank or width))
        yield "index_k", ("indexer.wk", (size.index_dim, width))
        yield "index_norm", ("indexer.k_norm", (size.index_dim,))
        yield "index_norm.bias", ("indexer.k_norm", (size.index_dim,))
        yield "index_weights", ("indexer.weights_proj", (size.index_heads, width))


def _mlp_parts(mine: str, theirs: str, width: int, ffn: int) -> Iterator[WeightPart]:
    names = [f"{theirs}.{name}_proj.weight" for name in ("gate", "up", "down")]
    yield WeightPart(f"{mine}.up.weight", ((names[0], (ffn, width)), (names[1], (ffn, width))))
    yield WeightPart(f"{mine}.down.weight", ((names[2], (width, ffn)),))


def _part(target: str, *sources: tuple[str, Shape]) -> WeightPart:
    return WeightPart(target, tuple((f"{name}.weight", shape) for name, shape in sources))


class Checkpoint:
    """The tensors of a folder. `used` are the names of those that were read; `begin` hears what is read next."""

    def __init__(self, folder: str, begin: Begin = lambda _: None) -> None:
        self.folder, self._begin = Path(folder), begin
        self.config = read_object(str(self.folder / "config.json"), "--ckpt")
        files = sorted(self.folder.glob("*.safetensors"))
        if not files:
            refuse(f"--ckpt: {folder} holds no *.safetensors", hint="a folder as Hugging Face's models come in")
        try:
            safetensors: Any = import_module("safetensors")
        except ImportError:
            refuse("--ckpt needs the package safetensors", hint="pip install 'gpuledger[workloads]'")
        self._open, self._files = ExitStack(), {}
        for file in files:
            try:
                opened = self._open.enter_context(safetensors.safe_open(str(file), framework="pt"))
            except Exception as error:  # it has exceptions of its own for a damaged file
                refuse(f"--ckpt: {file}: {error}")
            self._files.update(dict.fromkeys(opened.keys(), opened))
        self._is_mixtral = any(".block_sparse_moe." in name for name in self._files)
        self.used: set[str] = set()

    def parts(self, size: DecoderSize) -> Iterator[WeightPart]:
        """All that a decoder is read from, but its experts."""
        words = (size.vocab, size.width)
        yield _part("embed.weight", ("model.embed_tokens", words))
        yield _part("norm.weight", ("model.norm", (size.width,)))
        tied = "lm_head.weight" not in self._files and self.config.get("tie_word_embeddings")
        yield _part("head.weight", ("model.embed_tokens" if tied else "lm_head", words))
        for number in range(size.layers):
            yield from layer_parts(size, number)

    def expect(self, size: DecoderSize) -> None:
        """The program ends where a tensor that a model of this size needs is missing, or has another shape."""
        for part in self.parts(size):
            for name, shape in part.sources:
                self._expect(name, shape)
        for number in range(size.layers - size.mixed_layers, size.layers):
            for expert in range(size.experts):
                for name, shape in self._expert(size, number, expert):
                    self._expect(name, shape)

    def fill(self, model: Decoder, size: DecoderSize) -> None:
        """Put weights into a decoder, those of experts where it has them all, and let it follow the config."""
        weights = dict(model.named_parameters())
        for part in self.parts(size):
            self._begin(f"reading {part.target}")
            rows = torch.cat([self.tensor(name) for name, _ in part.sources])
            weights[part.target].copy_(self._in_halves(rows, size, part.target))
        for number, layer in enumerate(model.layers):
            if isinstance(layer.mlp, Experts):
                self._begin(f"reading the experts of layer {number}")
                for expert, (up, down) in enumerate(zip(layer.mlp.up, layer.mlp.down, strict=True)):
                    self.fill_expert(size, up.T, down.T, number, expert)
        self.follow(model)

    def follow(self, model: Decoder) -> None:
        """Let a decoder do what else the config says: how it norms, turns by position, and picks experts."""
        epsilon = self.config.get("rms_norm_eps")
        for module in model.modules():
            if isinstance(module, nn.RMSNorm) and epsilon is not None:
                module.eps = float(epsilon)
        turning = self.config.get("rope_parameters") or {}  # where newer configs have it
        model.turn(float(self.config.get("rope_theta") or turning.get("rope_theta") or 10000.0))
        layer: Any
        for number, layer in enumerate(model.layers):
            if layer.is_mixed:
                layer.mlp.gating = self._gating(number, layer.mlp.router.device)

    def fill_expert(self, size: DecoderSize, up: Tensor, down: Tensor, layer: int, expert: int) -> None:
        gate, wide, back = (self.tensor(name) for name, _ in self._expert(size, layer, expert))
        up[: size.ffn].copy_(gate)
        up[size.ffn :].copy_(wide)
        down.copy_(back)

    def _gating(self, layer: int, device: Any) -> Gating:
        config = self.config
        name = f"model.layers.{layer}.mlp.gate.e_score_correction_bias"
        bias = self.tensor(name).float().to(device) if name in self._files else None
        return Gating(
            is_sigmoid=config.get("scoring_func") == "sigmoid" or bias is not None,
            bias=bias,
            groups=config.get("n_group") or 1,
            top_groups=config.get("topk_group") or 1,
            sums_to_one=bool(config.get("norm_topk_prob", True)),
            scale=float(config.get("routed_scaling_factor") or 1.0),
        )

    def unused(self, size: DecoderSize) -> list[str]:
        """Tensors of the layers that were read, and beside them, that the decoder has no use for.

        Experts are left out: which of them were read depends on the rank.
        """
        numbers = {int(name.split(".")[2]) for name in self._files if name.startswith("model.layers.")}
        later = tuple(f"model.layers.{number}." for number in numbers if number >= size.layers)
        spare = self._files.keys() - self.used
        return sorted(name for name in spare if ".experts." not in name and not name.startswith(later))

    def unused_parts(self, size: DecoderSize) -> dict[str, str]:
        """For a result: how many those are, if any."""
        names = self.unused(size)
        return {"unused_tensors": f"{len(names)}, such as {names[0]}"} if names else {}

    def tensor(self, name: str) -> Tensor:
        """One tensor, on the host; numbers of 8 bits are multiplied out."""
        name = self._named(name)
        weight: Tensor = self._files[name].get_tensor(name)
        self.used.add(name)
        scale = self._files.get(name + _SCALED)
        if scale is None:
            return weight
        self.used.add(name + _SCALED)
        factors = scale.get_tensor(name + _SCALED).repeat_interleave(_BLOCK, 0).repeat_interleave(_BLOCK, 1)
        return weight.float() * factors[: weight.shape[0], : weight.shape[1]]

    def _expert(self, size: DecoderSize, layer: int, expert: int) -> tuple[tuple[str, Shape], ...]:
        wide = (size.ffn, size.width)
        shapes = {"gate": wide, "up": wide, "down": (size.width, size.ffn)}
        here = f"model.layers.{layer}.mlp.experts.{expert}"
        return tuple((f"{here}.{name}_proj.weight", shape) for name, shape in shapes.items())

    def _named(self, name: str) -> str:
        if not self._is_mixtral or ".mlp." not in name:
            return name
        name = name.replace(".mlp.", ".block_sparse_moe.")
        for ours, theirs in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
            name = name.replace(f".{ours}.", f".{theirs}.")
        return name

    def _expect(self, name: str, shape: Shape) -> None:
        name = self._named(name)
        if name not in self._files:
            near = [other for other in self._files if other.rpartition(".")[0].endswith(name.split(".")[-2])]
            refuse(
                f"--ckpt: {self.folder} has no {name}, which a model of these sizes needs",
                hint=f"it has {near[0]}" if near else "sizes come from its config.json; --attention says which kind",
            )
        there = tuple(self._files[name].get_slice(name).get_shape())
        if there != shape:
            refuse(
                f"--ckpt: {self.folder}: {name} is {_shape_text(there)}, and these sizes ask for {_shape_text(shape)}",
                hint="sizes come from its config.json unless options give others",
            )

    def _in_halves(self, rows: Tensor, size: DecoderSize, target: str) -> Tensor:
        """Rows that are turned by position as this decoder turns them: first of each pair, then second of each."""
        if size.attention == "gqa" or not self.config.get("rope_interleave", True):
            return rows
        pairs = torch.arange(size.rope_dim).view(-1, 2).t().flatten()
        if target.endswith("attention.q_b.weight"):
            heads = rows.view(size.heads, -1, rows.shape[1])
            return torch.cat((heads[:, : size.head], heads[:, size.head :][:, pairs]), dim=1).flatten(0, 1)
        if target.endswith("attention.kv_a.weight"):
            return torch.cat((rows[: size.kv_rank], rows[size.kv_rank :][pairs]))
        return rows


def _shape_text(shape: Shape) -> str:
    return " x ".join(map(str, shape))

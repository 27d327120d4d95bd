"""The decoder once more, as plainly as can be: token by token, head by head, in float32, without a cache."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuledger_workloads.decoder.size import DecoderSize

torch = pytest.importorskip("torch")


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


def looked_at(layer: Any, size: DecoderSize, hidden: Any, asking: Any) -> list[list[int]]:
    """The tokens that each token may look at: all up to itself, or those that the indexer likes best."""
    before = [list(range(at + 1)) for at in range(len(hidden))]
    if size.attention != "sparse":
        return before
    rope = size.rope_dim
    keys = hidden @ layer.index_k.weight.T
    keys = (keys - keys.mean(-1, keepdim=True)) / (keys.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    keys = torch.cat((turned(keys[:, :rope]), keys[:, rope:]), dim=-1)
    scores = torch.zeros(len(hidden), len(hidden))
    for head in range(size.index_heads):
        part = slice(head * size.index_dim, (head + 1) * size.index_dim)
        query = asking @ layer.index_q.weight[part].T
        query = torch.cat((turned(query[:, :rope]), query[:, rope:]), dim=-1)
        weight = hidden @ layer.index_weights.weight[head]
        scores += weight[:, None] * (query @ keys.T).relu()
    best = []
    for row, seen in zip(scores.tolist(), before, strict=True):
        ranked = sorted((row[at], at) for at in seen)  # where no head likes two tokens the later is taken
        best.append([at for _, at in ranked[-size.index_top_k :]])
    return best


def attended_latent(layer: Any, size: DecoderSize, hidden: Any) -> Any:
    """One sequence; every head by itself, its keys and values opened, each token over those that it looks at."""
    asking = hidden
    if size.q_rank:
        asking = normed(hidden @ layer.q_a.weight.T, layer.q_norm.weight)
    kept = hidden @ layer.kv_a.weight.T
    latent, shared = normed(kept[:, : size.kv_rank], layer.kv_norm.weight), turned(kept[:, size.kv_rank :])
    seen = looked_at(layer, size, hidden, asking)
    mixed = []
    for head in range(size.heads):
        query = asking @ layer.q_b.weight.view(size.heads, -1, asking.shape[1])[head].T
        query = torch.cat((query[:, : size.head], turned(query[:, size.head :])), dim=-1)
        both = latent @ layer.kv_b.weight.view(size.heads, -1, size.kv_rank)[head].T
        key, value = torch.cat((both[:, : size.head], shared), dim=-1), both[:, size.head :]
        scores = query @ key.T / math.sqrt(size.head + size.rope_dim)
        mixed.append(torch.stack([row[at].softmax(0) @ value[at] for row, at in zip(scores, seen, strict=True)]))
    return torch.cat(mixed, dim=-1) @ layer.out.weight.T


def attended(layer: Any, size: DecoderSize, hidden: Any) -> Any:
    """One sequence; every query head by itself."""
    if size.attention != "gqa":
        return attended_latent(layer, size, hidden)
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


def fed(mlp: Any, size: DecoderSize, hidden: Any) -> Any:
    """Token by token, and only through the experts that were picked."""
    found = []
    for token in hidden:
        experts = [(1.0, mlp.up.weight, mlp.down.weight)] if not size.experts else []
        if size.experts:
            chance = (mlp.router @ token).softmax(0)
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


def plain(model: Any, size: DecoderSize, text: Any) -> Any:
    """The logits after each token of one sequence."""
    hidden = model.embed.weight[text]
    for layer in model.layers:
        hidden = hidden + attended(layer.attention, size, normed(hidden, layer.attention_norm.weight))
        hidden = hidden + fed(layer.mlp, size, normed(hidden, layer.mlp_norm.weight))
    return normed(hidden, model.norm.weight) @ model.head.weight.T

"""The decoder once more, as plainly as can be: token by token, head by head, in float32, without a cache."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuledger.workloads.decoder.size import DecoderSize

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


def attended(layer: Any, size: DecoderSize, hidden: Any) -> Any:
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


def fed(mlp: Any, size: DecoderSize, hidden: Any) -> Any:
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


def plain(model: Any, size: DecoderSize, text: Any) -> Any:
    """The logits after each token of one sequence."""
    hidden = model.embed.weight[text]
    for layer in model.layers:
        hidden = hidden + attended(layer.attention, size, normed(hidden, layer.attention_norm.weight))
        hidden = hidden + fed(layer.mlp, size, normed(hidden, layer.mlp_norm.weight))
    return normed(hidden, model.norm.weight) @ model.head.weight.T

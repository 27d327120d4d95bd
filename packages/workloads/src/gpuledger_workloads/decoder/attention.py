"""Attention over a cache of fixed size and place: hidden states and where they stand in, what each token saw out.

Here query heads share keys and values; `latent_attention` keeps less of each token, `sparse_attention` looks at few.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.decoder.size import DecoderSize

PEAKED = 3.0
"""What queries and keys are stretched by: scores then spread by 3 rather than by a third, and a token looks at few
others, as in a trained model. Flat attention over a long text averages to nothing, and a fault in it would not show."""


class TokenPositions(NamedTuple):
    """Where the tokens that are worked on stand."""

    position: Tensor
    cos: Tensor  # of the rotary angles at these positions
    sin: Tensor
    mask: Tensor | None  # 0 for what the token may look at, -inf for the rest; None: a part of a prompt
    begin: int  # where that part begins
    rows: slice  # the sequences


def rotated(heads: Tensor, place: TokenPositions) -> Tensor:
    """Rotary embedding: the two halves of each head turned by their position's angles."""
    first, second = heads.chunk(2, dim=-1)
    cos, sin = place.cos, place.sin
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention in which several query heads share a key head, over a cache of fixed size."""

    keys: Tensor
    values: Tensor

    def __init__(self, size: DecoderSize, positions: int) -> None:
        super().__init__()
        self.size = size
        self.qkv = nn.Linear(size.width, (size.heads + 2 * size.kv_heads) * size.head, bias=False)
        self.out = nn.Linear(size.heads * size.head, size.width, bias=False)
        with torch.no_grad():
            self.qkv.weight[: -size.kv_heads * size.head] *= PEAKED
        shape = (size.batch, size.kv_heads, positions, size.head)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        size, (batch, length, _) = self.size, hidden.shape
        heads = self.qkv(hidden).view(batch, length, -1, size.head).transpose(1, 2)
        query, key, value = heads.split((size.heads, size.kv_heads, size.kv_heads), dim=1)
        query, key = rotated(query, place), rotated(key, place)
        keys, values = self.keys[place.rows], self.values[place.rows]
        keys.index_copy_(2, place.position, key)
        values.index_copy_(2, place.position, value)
        if place.mask is not None:
            # one token: the queries that share a key head stand where a sequence would, so that no key is repeated
            query = query.reshape(batch, size.kv_heads, -1, size.head)
            mixed = F.scaled_dot_product_attention(query, keys, values, attn_mask=place.mask)
            mixed = mixed.reshape(batch, size.heads, 1, size.head)
        elif place.begin == 0:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        else:
            end = place.begin + length
            mixed = chunk_attention(query, keys[:, :, :end], values[:, :, :end])
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


def chunk_attention(query: Tensor, keys: Tensor, values: Tensor, scale: float | None = None) -> Tensor:
    """Causal attention of the last positions over all: the last query sees every key, each before it one key less."""
    length, end = query.shape[2], keys.shape[2]
    mask: Any
    if query.is_cuda:
        bias: Any = import_module("torch.nn.attention.bias")  # late: it takes two seconds to load
        mask = bias.causal_lower_right(length, end)  # a kernel's own: no mask of length x end is made
    else:
        mask = torch.ones(length, end, dtype=torch.bool).tril(end - length)
    mixed: Tensor = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True, scale=scale)
    return mixed

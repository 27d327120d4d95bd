"""Attention over a cache of fixed size and place: hidden states and where they stand in, what each token saw out.

Three kinds. `Attention`: query heads share keys and values.

`LatentAttention` (MLA): of each token one small row is kept, from which all heads' keys and values can be opened. A row
is the latent, normed, and a key that was turned by its position, which all heads share. A prompt opens keys and values
of every head, as they are then many to many. A decode step does not: the matrix that opens keys is multiplied into the
query instead, the one that opens values into what was mixed, so that the cache is read once, as it is kept.

`SparseAttention` (DSA): latent attention to the few tokens that an indexer likes best. The indexer has a small key of
each token and some heads of queries. A token's score is the sum over heads of weight * relu(query . key); the
`index_top_k` best of those before a token are attended to, and itself where it is among them. Which they are never
leaves the device, and how many are looked at does not depend on the data.
"""

from __future__ import annotations

import math
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


class Projected(NamedTuple):
    """Tokens as latent attention needs them."""

    asking: Tensor  # what queries were made of
    plain: Tensor  # sequences x heads x length x width: the part of a query that is not turned
    turned: Tensor  # the part that is
    rows: Tensor  # sequences x length x width: what is to be kept


class LatentAttention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention over a cache of latent rows."""

    kept: Tensor  # sequences x positions x (latent, then the turned key)

    def __init__(self, size: DecoderSize, positions: int) -> None:
        super().__init__()
        self.size = size
        self.q_a = nn.Linear(size.width, size.q_rank, bias=False) if size.q_rank else None
        self.q_norm = nn.RMSNorm(size.q_rank) if size.q_rank else None
        self.q_b = nn.Linear(size.q_rank or size.width, size.heads * (size.head + size.rope_dim), bias=False)
        self.kv_a = nn.Linear(size.width, size.kv_rank + size.rope_dim, bias=False)
        self.kv_norm = nn.RMSNorm(size.kv_rank)
        self.kv_b = nn.Linear(size.kv_rank, size.heads * (size.head + size.value), bias=False)
        self.out = nn.Linear(size.heads * size.value, size.width, bias=False)
        with torch.no_grad():
            self.q_b.weight *= PEAKED
            self.kv_a.weight[size.kv_rank :] *= PEAKED
            self._openers()[0].mul_(PEAKED)
        self.register_buffer("kept", torch.zeros(size.batch, positions, size.kv_rank + size.rope_dim))

    def projected(self, hidden: Tensor, place: TokenPositions) -> Projected:
        """Queries, and the rows to keep."""
        size, (batch, length, _) = self.size, hidden.shape
        asking = hidden if self.q_a is None or self.q_norm is None else self.q_norm(self.q_a(hidden))
        query = self.q_b(asking).view(batch, length, size.heads, -1).transpose(1, 2)
        plain, turned = query.split((size.head, size.rope_dim), dim=-1)
        latent, key = self.kv_a(hidden).split((size.kv_rank, size.rope_dim), dim=-1)
        rows = torch.cat((self.kv_norm(latent), rotated(key, place)), dim=-1)
        return Projected(asking, plain, rotated(turned, place), rows)

    def forward(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        batch, length, _ = hidden.shape
        asking, plain, turned, rows = self.projected(hidden, place)
        kept = self.kept[place.rows]
        kept.index_copy_(1, place.position, rows)
        if place.mask is not None:
            rows, mask = self.looked_at(hidden, asking, kept, place.mask.view(1, -1), place)
            mixed = self._absorbed(plain, turned, rows, mask)
        else:
            end = place.begin + length
            seen = self.seen(hidden, asking, end, place)
            mixed = self._opened(torch.cat((plain, turned), dim=-1), kept[:, :end], seen, place.begin)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out

    def looked_at(
        self, hidden: Tensor, asking: Tensor, kept: Tensor, mask: Tensor, place: TokenPositions
    ) -> tuple[Tensor, Tensor]:
        """The rows that a decode step looks at, and 0 or -inf for each: here all."""
        return kept, mask

    def seen(self, hidden: Tensor, asking: Tensor, end: int, place: TokenPositions) -> Tensor | None:
        """Which of the first `end` tokens each token of a prompt looks at; None: all up to itself."""
        return None

    def absorbing(self, plain: Tensor, turned: Tensor) -> Tensor:
        """Queries that can be held against kept rows: what opens keys is multiplied into them."""
        return torch.cat((torch.einsum("bhld,hdr->bhlr", plain, self._openers()[0]), turned), dim=-1)

    def opening(self, mixed: Tensor) -> Tensor:
        """Values from mixed latents, sequences x heads x length x width."""
        return torch.einsum("bhlr,hvr->bhlv", mixed, self._openers()[1])

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.size.head + self.size.rope_dim)

    def _absorbed(self, plain: Tensor, turned: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
        """One token of each sequence; the cache is not opened."""
        query = self.absorbing(plain, turned).squeeze(2)
        scores = torch.matmul(query, rows.transpose(1, 2)).float() * self.scale + mask.unsqueeze(1).float()
        shares = scores.softmax(dim=-1).to(rows.dtype)
        return self.opening(torch.matmul(shares, rows[..., : self.size.kv_rank]).unsqueeze(2))

    def _opened(self, query: Tensor, rows: Tensor, seen: Tensor | None, begin: int) -> Tensor:
        """Part of a prompt over all tokens so far, whose keys and values are opened."""
        size, (batch, end, _) = self.size, rows.shape
        latent, turned = rows.split((size.kv_rank, size.rope_dim), dim=-1)
        both = self.kv_b(latent).view(batch, end, size.heads, -1).transpose(1, 2)
        key, value = both.split((size.head, size.value), dim=-1)
        key = torch.cat((key, turned.unsqueeze(1).expand(-1, size.heads, -1, -1)), dim=-1)
        width = max(key.shape[-1], size.value)  # fast kernels want queries, keys and values of one width
        query, key, value = (F.pad(part, (0, width - part.shape[-1])) for part in (query, key, value))
        if seen is not None:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=self.scale)
        elif begin == 0:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale)
        else:
            mixed = chunk_attention(query, key, value, self.scale)
        return mixed[..., : size.value]

    def _openers(self) -> tuple[Tensor, Tensor]:
        """What opens keys, heads x width x latent, and what opens values."""
        size = self.size
        key, value = self.kv_b.weight.view(size.heads, -1, size.kv_rank).split((size.head, size.value), dim=1)
        return key, value


_BLOCK_NUMBERS = 1 << 26  # scores of all heads that are held at once while a prompt is read
_LATER = 1e-11
"""What a key's score gains for each position: where no head likes two tokens, the later goes before, in any kernel."""


class SparseAttention(LatentAttention):
    """Latent attention with an indexer."""

    index_keys: Tensor  # sequences x positions x width

    def __init__(self, size: DecoderSize, positions: int) -> None:
        super().__init__(size, positions)
        self.index_q = nn.Linear(size.q_rank or size.width, size.index_heads * size.index_dim, bias=False)
        self.index_k = nn.Linear(size.width, size.index_dim, bias=False)
        self.index_norm = nn.LayerNorm(size.index_dim)
        self.index_weights = nn.Linear(size.width, size.index_heads, bias=False)
        self.register_buffer("index_keys", torch.zeros(size.batch, positions, size.index_dim))

    def looked_at(
        self, hidden: Tensor, asking: Tensor, kept: Tensor, mask: Tensor, place: TokenPositions
    ) -> tuple[Tensor, Tensor]:
        keys = self._keeping(hidden, place)
        query, weights = self.asked(hidden, asking, place)
        scores = self.scores(query, weights, keys).squeeze(1) + mask.float()
        best, chosen = scores.topk(min(self.size.index_top_k, scores.shape[-1]), dim=-1)
        rows = kept.gather(1, chosen.unsqueeze(-1).expand(-1, -1, kept.shape[-1]))
        return rows, torch.zeros_like(best).masked_fill(best == -math.inf, -math.inf)

    def seen(self, hidden: Tensor, asking: Tensor, end: int, place: TokenPositions) -> Tensor | None:
        keys = self._keeping(hidden, place)[:, :end]
        if end <= self.size.index_top_k:
            return None
        query, weights = self.asked(hidden, asking, place)
        later = torch.arange(end, device=hidden.device) > place.position.unsqueeze(1)  # length x end
        seen = torch.zeros(len(hidden), 1, *later.shape, dtype=torch.bool, device=hidden.device)
        block = max(1, _BLOCK_NUMBERS // (self.size.index_heads * end))
        for sequence in range(len(hidden)):
            for begin in range(0, len(later), block):
                part = slice(begin, begin + block)
                one = slice(sequence, sequence + 1)
                scores = self.scores(query[one, part], weights[one, part], keys[one])[0]
                chosen = scores.masked_fill(later[part], -math.inf).topk(self.size.index_top_k, dim=-1).indices
                seen[sequence, 0, part].scatter_(1, chosen, True)  # noqa: FBT003
        return seen & ~later

    def indexed(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        """The indexer's keys of these tokens."""
        key = self.index_norm(self.index_k(hidden)).unsqueeze(1)
        return self._turned(key, place).squeeze(1)

    def _keeping(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        """The keys kept for the indexer, with those of these tokens."""
        keys = self.index_keys[place.rows]
        keys.index_copy_(1, place.position, self.indexed(hidden, place))
        return keys

    def asked(self, hidden: Tensor, asking: Tensor, place: TokenPositions) -> tuple[Tensor, Tensor]:
        """The indexer's queries, sequences x length x heads x width, and how much each head counts."""
        size, (batch, length, _) = self.size, hidden.shape
        query = self.index_q(asking).view(batch, length, size.index_heads, size.index_dim).transpose(1, 2)
        weights = self.index_weights(hidden).float() / math.sqrt(size.index_heads * size.index_dim)
        return self._turned(query, place).transpose(1, 2), weights

    def _turned(self, heads: Tensor, place: TokenPositions) -> Tensor:
        """The first part of each head turned by its position."""
        first, rest = heads.split((self.size.rope_dim, self.size.index_dim - self.size.rope_dim), dim=-1)
        return torch.cat((rotated(first, place), rest), dim=-1)

    def scores(self, query: Tensor, weights: Tensor, keys: Tensor, positions: Tensor | None = None) -> Tensor:
        """How much each token likes each key: sequences x length x keys, in single precision.

        `positions` are those of the keys; by default they stand one after the other.
        """
        batch, length, heads, width = query.shape
        liked = torch.matmul(query.reshape(batch, -1, width), keys.transpose(1, 2)).float().relu_()
        scores = torch.einsum("blh,blhk->blk", weights, liked.view(batch, length, heads, -1))
        return scores + _LATER * (torch.arange(keys.shape[1], device=keys.device) if positions is None else positions)

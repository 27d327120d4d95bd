"""Latent attention (MLA): of each token one small row is kept, from which all heads' keys and values can be opened.

A row is the latent, normed, and a key that was turned by its position, which all heads share. A prompt opens keys and
values of every head, as they are then many to many. A decode step does not: the matrix that opens keys is multiplied
into the query instead, the one that opens values into what was mixed, so that the cache is read once, as it is kept.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.decoder.attention import PEAKED, TokenPositions, chunk_attention, rotated
from gpuledger_workloads.decoder.size import DecoderSize


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
        """What scores are multiplied by."""
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
        query, key, value = (F.pad(each, (0, width - each.shape[-1])) for each in (query, key, value))
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

"""Sparse attention (DSA): latent attention to the few tokens that an indexer likes best.

The indexer has a small key of each token and some heads of queries. A token's score is the sum over heads of
weight * relu(query . key); the `index_top_k` best of those before a token are attended to, and itself where it is among
them. Which they are never leaves the device, and how many are looked at does not depend on the data.
"""

from __future__ import annotations

import math

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.decoder.attention import TokenPositions, rotated
from gpuledger_workloads.decoder.latent_attention import LatentAttention
from gpuledger_workloads.decoder.size import DecoderSize

_BLOCK_NUMBERS = 1 << 26
"""Scores of all heads that are held at once while a prompt is read."""
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

"""A Llama-like decoder with random weights: sizes and a seed in, a model out that reads prompts and decodes tokens.

RMS norms, rotary embeddings, SwiGLU MLPs or a mixture of experts, and attention of one of three kinds over a cache:

- `Attention`: query heads share keys and values.
- `LatentAttention` (MLA): of each token one small row is kept, from which all heads' keys and values can be opened: the
  latent, normed, and a key that was turned by its position, which all heads share. A prompt opens keys and values of
  every head. A decode step does not: the matrix that opens keys is multiplied into the query instead, the one that
  opens values into what was mixed, so that the cache is read once, as it is kept.
- `SparseAttention` (DSA): latent attention to the few tokens that an indexer likes best. A token's score is the sum
  over its heads of weight * relu(query . key); the `index_top_k` best of those before a token are attended to, and
  itself where it is among them. Which they are never leaves the device, and how many does not depend on the data.

The cache and the text so far have a fixed size and place, and no shape depends on the data, so that a CUDA graph can
hold a step. A prompt is read at once or in chunks, for all sequences or for some. Logits are held against those of two
other ways (`agreed`): one pass over the whole text, which does not use the cache; and the last token read again as a
decode step reads it, over the cache, with another kernel and a mask. Both belong after the measured part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.device import DTYPES, error_of, gigabytes, needs
from gpuledger_workloads.mixture.routing import Gating
from gpuledger_workloads.program import refuse

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


Mark = Callable[[str], AbstractContextManager[None]]  # a range around a part of the model
EVERY = slice(None)  # all sequences
ALIGNED = 64  # positions of the cache are a multiple of this, as attention kernels like their masks
ATTENTION_KINDS: dict[str, Any] = {"gqa": Attention, "mla": LatentAttention, "sparse": SparseAttention}


class Reading(NamedTuple):
    """What a model looks at in one pass."""

    tokens: Tensor  # sequences x length
    position: Tensor  # where they stand
    mask: Tensor | None  # as in `TokenPositions`
    begin: int = 0
    rows: slice = EVERY


class Mlp(nn.Module):  # type: ignore[misc, unused-ignore]
    """SwiGLU: one half opens the gate for the other."""

    def __init__(self, width: int, ffn: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        gate, up = self.up(hidden).chunk(2, dim=-1)
        down: Tensor = self.down(F.silu(gate) * up)
        return down


def router_weight(size: DecoderSize) -> Any:
    """Random weights of a layer's router, large enough for some experts to be clearly likelier than others."""
    return nn.Parameter(torch.randn(size.experts, size.width) * (2 / math.sqrt(size.width)))


class Experts(nn.Module):  # type: ignore[misc, unused-ignore]
    """A mixture of MLPs. All experts see all tokens, and the router's weights pick: no shape depends on the data."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.top_k, self.gating = size.top_k, Gating()
        self.router = router_weight(size)
        self.up = nn.Parameter(torch.randn(size.experts, size.width, 2 * size.ffn) / math.sqrt(size.width))
        self.down = nn.Parameter(torch.randn(size.experts, size.ffn, size.width) / math.sqrt(size.ffn))

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = hidden.flatten(0, 1)
        weights, chosen = self.gating(F.linear(tokens, self.router).float(), self.top_k)
        share = tokens.new_zeros(len(tokens), len(self.up)).scatter(1, chosen, weights.to(tokens.dtype))
        gate, up = torch.matmul(tokens, self.up).chunk(2, dim=-1)
        outputs = torch.matmul(F.silu(gate) * up, self.down)
        return torch.einsum("te,etw->tw", share, outputs).view_as(hidden)


Fed = Callable[[DecoderSize, int], nn.Module]
"""Makes what a layer of that number puts its tokens through, where it has experts."""


def all_experts(size: DecoderSize, _: int) -> nn.Module:
    """All experts of a layer, here."""
    return Experts(size)


class DecoderLayer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention, then an MLP or experts, each on the normed sum of all before."""

    def __init__(self, size: DecoderSize, number: int, positions: int, mark: Mark, fed: Fed) -> None:
        super().__init__()
        self.mark = mark
        self.attention_norm, self.mlp_norm = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.attention = ATTENTION_KINDS[size.attention](size, positions)
        self.is_mixed = bool(size.experts) and number >= size.dense_layers
        dense = Mlp(size.width, (size.dense_ffn or size.ffn) if size.experts else size.ffn)
        self.mlp = fed(size, number) if self.is_mixed else dense
        shared = self.is_mixed and size.shared_experts
        self.shared = Mlp(size.width, size.shared_experts * size.ffn) if shared else None

    def attend(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        attended: Tensor = hidden + self.attention(self.attention_norm(hidden), place)
        return attended

    def feed(self, normed: Tensor) -> Tensor:
        """What the second half adds to a normed sum."""
        fed: Tensor = self.mlp(normed)
        return fed if self.shared is None else fed + self.shared(normed)

    def forward(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        with self.mark("attention"):
            hidden = self.attend(hidden, place)
        with self.mark("mlp"):
            return hidden + self.feed(self.mlp_norm(hidden))


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """The model, its cache, and the text so far."""

    cos: Tensor
    sin: Tensor
    everywhere: Tensor  # all positions
    text: Tensor
    tokens: Tensor  # the last of each sequence, not yet looked at
    position: Tensor  # where they stand

    def __init__(self, size: DecoderSize, positions: int, mark: Mark, fed: Fed, kept: int) -> None:
        super().__init__()
        self.mark = mark
        self.embed = nn.Embedding(size.vocab, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size, number, kept, mark, fed) for number in range(size.layers))
        self.norm, self.head = nn.RMSNorm(size.width), nn.Linear(size.width, size.vocab, bias=False)
        for name in ("cos", "sin"):
            self.register_buffer(name, torch.empty(positions, size.turned // 2, dtype=self.head.weight.dtype))
        self.turn(10000.0)
        self.register_buffer("text", torch.zeros(size.batch, positions, dtype=torch.long))
        self.register_buffer("tokens", torch.zeros(size.batch, 1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("everywhere", torch.arange(positions))
        self.requires_grad_(requires_grad=False)

    def turn(self, theta: float) -> None:
        """Let positions turn queries and keys by angles of this base."""
        positions, half = self.cos.shape
        speed = theta ** -(torch.arange(half, dtype=torch.float32, device=self.cos.device) / half)
        angles = torch.outer(torch.arange(positions, dtype=torch.float32, device=self.cos.device), speed)
        self.cos.copy_(angles.cos())
        self.sin.copy_(angles.sin())

    def forward(
        self, tokens: Tensor, position: Tensor, mask: Tensor | None, begin: int = 0, rows: slice = EVERY
    ) -> Tensor:
        """The logits of what follows the last of these tokens; the cache then holds them."""
        hidden, place = self.begun(Reading(tokens, position, mask, begin, rows))
        for number, layer in enumerate(self.layers):
            with self.mark(f"layer{number}"):
                hidden = layer(hidden, place)
        return self.logits(hidden)

    def begun(self, reading: Reading) -> tuple[Tensor, TokenPositions]:
        """The tokens as the first layer gets them, and where they stand."""
        position = reading.position
        turned = self.cos[position], self.sin[position]
        return self.embed(reading.tokens), TokenPositions(position, *turned, reading.mask, reading.begin, reading.rows)

    def logits(self, hidden: Tensor) -> Tensor:
        """Of what follows the last token that the last layer gave."""
        logits: Tensor = self.head(self.norm(hidden[:, -1]))
        return logits

    def prefill(self, prompt: Tensor, begin: int = 0, rows: slice = EVERY) -> Tensor:
        """Read a prompt of some sequences, or the chunk of it that begins there; what follows it is then known."""
        return self.follow(self(*self.to_prefill(prompt, begin, rows)), rows)

    def to_prefill(self, prompt: Tensor, begin: int, rows: slice) -> Reading:
        """The prompt is in the text now; what is to be looked at."""
        end = begin + prompt.shape[1]
        self.text[rows, begin:end] = prompt
        self.position.fill_(end - 1)
        return Reading(prompt, self.everywhere[begin:end], None, begin, rows)

    def step(self) -> Tensor:
        return self.follow(self(*self.to_step()))

    def to_step(self) -> Reading:
        return Reading(self.tokens, self.position, self.until(self.position))

    def to_read_again(self, length: int, rows: slice = EVERY) -> Reading:
        """The last of so many tokens of the text, as a step would look at it."""
        position = self.everywhere[length - 1 : length]
        return Reading(self.text[rows, length - 1 : length], position, self.until(position), 0, rows)

    def until(self, position: Tensor) -> Tensor:
        """A mask that lets a token there look at itself and what is before."""
        later = self.everywhere > position
        return torch.zeros_like(later, dtype=self.cos.dtype).masked_fill(later, -math.inf).view(1, 1, 1, -1)

    def rewind(self, tokens: Tensor, position: int) -> None:
        """Go back to where these were the last tokens of the sequences."""
        self.tokens.copy_(tokens)
        self.position.fill_(position)

    def follow(self, logits: Tensor, rows: slice = EVERY) -> Tensor:
        """Go on to the likeliest token."""
        self.tokens[rows] = logits.argmax(dim=-1, keepdim=True)
        self.position.add_(1)
        self.text[rows].index_copy_(1, self.position, self.tokens[rows])
        return logits


def positions_for(size: DecoderSize, steps: int) -> int:
    """How long the cache is that holds the prompt and so many tokens after it."""
    return -(-(size.prompt + steps + 1) // ALIGNED) * ALIGNED


@dataclass(frozen=True, slots=True)
class ModelShare:
    """What is here of a model: so many of each layer's experts, and a cache of so many positions (0: of all)."""

    experts: int
    positions: int = 0


def build(
    size: DecoderSize,
    steps: int,
    device: str,
    dtype: str,
    seed: int,
    mark: Mark = window,
    fed: Fed = all_experts,
    share: ModelShare | None = None,
) -> Decoder:
    """A model with random weights of a seed, and room for the prompt and so many tokens after it; or a share of it."""
    positions = positions_for(size, steps)
    share = share or ModelShare(size.experts, positions)
    weights = size.parameters - size.expert_weights * (size.experts - share.experts)
    kept = share.positions or positions
    _expect_room(size, weights, kept, device, DTYPES[dtype].itemsize)
    torch.manual_seed(seed)
    default = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[dtype])
    try:
        with torch.device(device):
            return Decoder(size, positions, mark, fed, kept)
    finally:
        torch.set_default_dtype(default)


def _expect_room(size: DecoderSize, weights: int, positions: int, device: str, item_bytes: int) -> None:
    """Refuse what cannot fit before any of it is allocated; activations come on top."""
    kv_bytes = size.kv_bytes(positions, item_bytes)
    all_bytes, what = weights * item_bytes + kv_bytes, f"the model with a cache of {gigabytes(kv_bytes)}"
    needs(what, all_bytes, device)
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if device == "cpu" and all_bytes > host_bytes:
        refuse(f"{what} needs {gigabytes(all_bytes)}, and this host has {gigabytes(host_bytes)}")


TOLERANCE = {"dense": 0.05, "experts": 0.3}  # of the logits' norm; rounding may send a token to another expert


def whole_pass(model: Decoder, length: int, rows: slice = EVERY) -> Tensor:
    """The logits after so many tokens of the text, from one pass over them."""
    return model(model.text[rows, :length], model.everywhere[:length], None, 0, rows)


def read_again(model: Decoder, length: int, rows: slice = EVERY) -> Tensor:
    """The logits after so many tokens of the text, from the last of them and the cache of the rest."""
    return model(*model.to_read_again(length, rows))


def agreed(logits: Tensor, expected: Tensor, size: DecoderSize, what: str) -> float:
    """How far two logits are apart, relative to their norm; the program ends where that is too far."""
    error = error_of(logits, expected)
    limit = TOLERANCE["experts" if size.experts else "dense"]
    if not error < limit:  # also when it is NaN
        refuse(f"{what} are off by {error:.3g} of their norm, more than {limit:g}")
    return error

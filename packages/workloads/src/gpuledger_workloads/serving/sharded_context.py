"""One long text whose keys and values are spread over ranks: tokens in, logits out, the same on every rank.

Pages of the cache are dealt out to the ranks like cards, so that each rank keeps its share of any text. Every rank has
the whole model and all tokens of a chunk; it keeps what falls to it, attends to what it keeps, and tells the others
what it saw and how much that weighs (the log of the sum of its exponentials). Put together by weight that is attention
to the whole text. Where only the best tokens are attended to, ranks first tell each other the best scores that they
have, so that all agree on the least that counts.

NVTX: "layerN", in it "attention" (with "merge" for what travels) and "mlp".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import (
    ALIGNED,
    EVERY,
    Decoder,
    ModelShare,
    Reading,
    TokenPositions,
    build,
    positions_for,
    rotated,
)
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.mixture.exchange import RankGroup
from gpuledger_workloads.serving.rank_decoders import give_weights

_BLOCK_NUMBERS = 1 << 26  # scores that are held at once


@dataclass(frozen=True, slots=True)
class KvShard:
    """The pages that a rank keeps of a text: every `count`-th, from `index` on."""

    index: int
    count: int
    page: int

    def kept(self, begin: int, end: int) -> Tensor:
        """The positions from `begin` to `end` that are kept here."""
        every = torch.arange(begin, end)
        return every[every // self.page % self.count == self.index]

    def slots(self, positions: Tensor) -> Tensor:
        """Where these are kept: without a hole from the first."""
        return positions // (self.page * self.count) * self.page + positions % self.page

    def room(self, positions: int) -> int:
        """Slots that a rank needs for a text of this length."""
        pages = -(-positions // self.page)
        return -(-pages // self.count) * self.page


@dataclass(frozen=True, slots=True)
class Asked:
    """What a rank looks for in its cache, and what it looks through.

    Queries are sequences x key heads x queries of a key head x length x width; keys and values are those kept here, and
    `allowed` says which of them each token may look at, sequences (or 1) x length x keys.
    """

    query: Tensor
    keys: Tensor
    values: Tensor
    allowed: Tensor
    scale: float


def seen(asked: Asked) -> Tensor:
    """What each query saw of the keys kept here, and behind it how much that weighs: the log of its sum."""
    sequences, heads, shared, length, _ = asked.query.shape
    count, width = asked.keys.shape[2], asked.values.shape[-1]
    parts = asked.query.new_zeros(sequences, heads, shared, length, width + 1, dtype=torch.float32)
    parts[..., -1] = -math.inf
    if not count:
        return parts
    block = max(1, _BLOCK_NUMBERS // (sequences * heads * shared * count))
    for begin in range(0, length, block):
        part = slice(begin, begin + block)
        query = asked.query[:, :, :, part].flatten(2, 3)
        scores = torch.matmul(query, asked.keys.transpose(2, 3)).float() * asked.scale
        scores = scores.view(sequences, heads, shared, -1, count)
        scores = scores.masked_fill(~asked.allowed[:, None, None, part], -math.inf)
        weight = scores.logsumexp(dim=-1, keepdim=True)
        shares = (scores - weight.masked_fill(weight == -math.inf, 0.0)).exp().to(asked.values.dtype).flatten(2, 3)
        mixed = torch.matmul(shares, asked.values).float().view(sequences, heads, shared, -1, width)
        parts[:, :, :, part] = torch.cat((mixed, weight), dim=-1)
    return parts


def merged(parts: Tensor) -> Tensor:
    """What all ranks saw together; `parts` are theirs, ranks first."""
    mixed, weight = parts[..., :-1], parts[..., -1:]
    whole: Tensor = (mixed * weight.softmax(dim=0)).sum(dim=0)
    return whole


class ShardedText:
    """The decoders of a group's ranks, which read one text together."""

    def __init__(
        self,
        group: RankGroup,
        size: DecoderSize,
        steps: int,
        page: int,
        checkpoint: Checkpoint | None = None,
        *,
        device: str,
        dtype: str,
        seed: int,
    ) -> None:
        self.group, self.size, self.checkpoint = group, size, checkpoint
        self.shards = [KvShard(index, group.count, page) for index in group.indices]
        room = self.shards[0].room(positions_for(size, steps))
        self.models: list[Any] = []
        for _ in self.shards:
            model = build(size, steps, device, dtype, seed, share=ModelShare(size.experts, room))
            give_weights(model, size, checkpoint, self.models[0] if self.models else None)
            self.models.append(model)
        self.kv_bytes = size.kv_bytes(room, self.models[0].cos.element_size())
        self._made = (device, dtype, seed)
        self._length = 0  # tokens in the text that were looked at

    def alone(self, tokens: int) -> Decoder:
        """The same model with a cache of its own for so many tokens, to compare with."""
        device, dtype, seed = self._made
        model = build(
            self.size, 0, device, dtype, seed, share=ModelShare(self.size.experts, -(-tokens // ALIGNED) * ALIGNED)
        )
        give_weights(model, self.size, self.checkpoint, self.models[0])
        return model

    def prefill(self, prompt: Tensor, begin: int = 0) -> Tensor:
        """Read a chunk of the text; every rank then knows what follows."""
        self._length = begin + prompt.shape[1]
        return self._followed(lambda model: model.to_prefill(prompt, begin, EVERY), begin)

    def step(self) -> Tensor:
        self._length += 1
        return self._followed(lambda model: model.to_step(), self._length - 1)

    def read_again(self, length: int) -> Tensor:
        """The logits after so many tokens, from the last of them and the cache of the rest."""

        def again() -> Tensor:
            readings = self.group.each(lambda place: self.models[place].to_read_again(length))
            return self.passed(readings, length - 1, length)[0]

        return self.group.alone(again)

    @property
    def text(self) -> Tensor:
        text: Tensor = self.models[0].text
        return text

    def passed(self, readings: Sequence[Reading], begin: int, end: int) -> list[Tensor]:
        """The logits of what follows, on each rank."""
        on_ranks = self.group.each
        begun = on_ranks(lambda place: self.models[place].begun(readings[place]))
        kept = on_ranks(lambda place: _kept_here(self.shards[place], begin, end, begun[place][0].device))
        hidden, places = [start[0] for start in begun], [start[1] for start in begun]
        for number in range(self.size.layers):
            with window(f"layer{number}"):
                hidden = self._through([model.layers[number] for model in self.models], hidden, places, kept)
        return on_ranks(lambda place: self.models[place].logits(hidden[place]))

    def _through(
        self, layers: Sequence[Any], hidden: list[Tensor], places: Sequence[TokenPositions], kept: Sequence[Kept]
    ) -> list[Tensor]:
        on_ranks = self.group.each
        with window("attention"):
            normed = on_ranks(lambda place: layers[place].attention_norm(hidden[place]))
            mixed = self._attended([layer.attention for layer in layers], normed, places, kept)
            attended = on_ranks(lambda place: hidden[place] + mixed[place])
        with window("mlp"):
            return on_ranks(lambda place: attended[place] + layers[place].feed(layers[place].mlp_norm(attended[place])))

    def _followed(self, to_read: Callable[[Decoder], Reading], begin: int) -> Tensor:
        """Look at what is to be read, from `begin` to where the text now ends, and go on to the likeliest token."""

        def followed() -> Tensor:
            logits = self.passed(self.group.each(lambda place: to_read(self.models[place])), begin, self._length)
            return self.group.each(lambda place: self.models[place].follow(logits[place]))[0]

        return self.group.alone(followed)

    def _attended(
        self,
        attentions: Sequence[Any],
        normed: Sequence[Tensor],
        places: Sequence[TokenPositions],
        kept: Sequence[Kept],
    ) -> list[Tensor]:
        """Attention of each rank's tokens to the whole text."""
        on_ranks, kind = self.group.each, self.size.attention
        if kind == "gqa":
            asked = on_ranks(lambda place: ask_grouped(attentions[place], normed[place], places[place], kept[place]))
        else:
            projected = on_ranks(lambda place: attentions[place].projected(normed[place], places[place]))
            asked = on_ranks(lambda place: ask_latent(attentions[place], projected[place], places[place], kept[place]))
            if kind == "sparse":
                scores = on_ranks(
                    lambda place: liked(
                        attentions[place], normed[place], projected[place].asking, places[place], kept[place]
                    ).masked_fill(~asked[place].allowed, -math.inf)
                )
                asked = self._best(scores, asked)
        parts = on_ranks(lambda place: seen(asked[place]))
        with window("merge"):
            gathered = self.group.gathered(parts)
            whole = on_ranks(lambda place: merged(gathered[place]))
        return on_ranks(lambda place: answered(attentions[place], whole[place].to(normed[place].dtype)))

    def _best(self, scores: Sequence[Tensor], asked: Sequence[Asked]) -> list[Asked]:
        """The same with only the tokens allowed that have the best scores of all ranks."""
        on_ranks, top = self.group.each, self.size.index_top_k

        def best(place: int) -> Tensor:
            here = scores[place].topk(min(top, scores[place].shape[-1]), dim=-1).values
            return torch.nn.functional.pad(here, (0, top - here.shape[-1]), value=-math.inf)

        with window("merge"):
            gathered = self.group.gathered(on_ranks(best))

        def chosen(place: int) -> Asked:
            together = gathered[place].permute(1, 2, 0, 3).flatten(2)
            least = together.topk(top, dim=-1).values[..., -1:]
            return replace(asked[place], allowed=asked[place].allowed & (scores[place] >= least))

        return on_ranks(chosen)


Kept = tuple[Tensor, Tensor, Tensor]
"""Of a chunk the tokens that are kept here, and their slots; and the positions of all that is kept by then."""


def _kept_here(shard: KvShard, begin: int, end: int, device: Any) -> Kept:
    new = shard.kept(begin, end)
    return (new - begin).to(device), shard.slots(new).to(device), shard.kept(0, end).to(device)


def ask_grouped(attention: Any, hidden: Tensor, place: TokenPositions, kept: Kept) -> Asked:
    """Query heads that share keys."""
    size, (batch, length, _) = attention.size, hidden.shape
    heads = attention.qkv(hidden).view(batch, length, -1, size.head).transpose(1, 2)
    query, key, value = heads.split((size.heads, size.kv_heads, size.kv_heads), dim=1)
    query, key = rotated(query, place), rotated(key, place)
    tokens, slots, there = kept
    attention.keys.index_copy_(2, slots, key.index_select(2, tokens))
    attention.values.index_copy_(2, slots, value.index_select(2, tokens))
    count = len(there)
    return Asked(
        query.reshape(batch, size.kv_heads, -1, length, size.head),
        attention.keys[:, :, :count],
        attention.values[:, :, :count],
        (there <= place.position.unsqueeze(1)).unsqueeze(0),
        1 / math.sqrt(size.head),
    )


def ask_latent(attention: Any, projected: Any, place: TokenPositions, kept: Kept) -> Asked:
    """Latent rows as they are kept, with the matrix that opens keys in the query."""
    tokens, slots, there = kept
    attention.kept.index_copy_(1, slots, projected.rows.index_select(1, tokens))
    rows = attention.kept[:, : len(there)].unsqueeze(1)
    return Asked(
        attention.absorbing(projected.plain, projected.turned).unsqueeze(1),
        rows,
        rows[..., : attention.size.kv_rank],
        (there <= place.position.unsqueeze(1)).unsqueeze(0),
        attention.scale,
    )


def liked(attention: Any, hidden: Tensor, asking: Tensor, place: TokenPositions, kept: Kept) -> Tensor:
    """The indexer's scores of the tokens kept here, sequences x length x keys."""
    tokens, slots, there = kept
    attention.index_keys.index_copy_(1, slots, attention.indexed(hidden, place).index_select(1, tokens))
    keys = attention.index_keys[:, : len(there)]
    query, weights = attention.asked(hidden, asking, place)
    block = max(1, _BLOCK_NUMBERS // (len(hidden) * attention.size.index_heads * max(1, len(there))))
    parts = [
        attention.scores(query[:, start : start + block], weights[:, start : start + block], keys, there)
        for start in range(0, hidden.shape[1], block)
    ]
    return torch.cat(parts, dim=1)


def answered(attention: Any, mixed: Tensor) -> Tensor:
    """What an attention gives for what was seen, sequences x key heads x queries of one x length x width."""
    heads = mixed.flatten(1, 2)
    if attention.size.attention != "gqa":
        heads = attention.opening(heads)
    out: Tensor = attention.out(heads.transpose(1, 2).flatten(2))
    return out

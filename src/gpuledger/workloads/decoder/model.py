"""A Llama-like decoder with random weights: sizes and a seed in, a model out that reads prompts and decodes tokens.

RMS norms, rotary embeddings, attention in which query heads share keys, SwiGLU MLPs or a mixture of experts. The cache
and the text so far have a fixed size and place, and no shape depends on the data, so that a CUDA graph can hold a step.
A prompt is read at once or in chunks, for all sequences or for some. `decode`, `serve` and `longctx` measure it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger.workloads.common.device_memory import gigabytes, needs
from gpuledger.workloads.common.program import DTYPES, refuse
from gpuledger.workloads.decoder.size import DecoderSize

Mark = Callable[[str], AbstractContextManager[None]]  # a range around a part of the model
EVERY = slice(None)  # all sequences
ALIGNED = 64  # positions of the cache are a multiple of this, as attention kernels like their masks
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


def chunk_attention(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of the last positions over all: the last query sees every key, each before it one key less."""
    length, end = query.shape[2], keys.shape[2]
    mask: Any
    if query.is_cuda:
        bias: Any = import_module("torch.nn.attention.bias")  # late: it takes two seconds to load
        mask = bias.causal_lower_right(length, end)  # a kernel's own: no mask of length x end is made
    else:
        mask = torch.ones(length, end, dtype=torch.bool).tril(end - length)
    mixed: Tensor = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=True)
    return mixed


class Mlp(nn.Module):  # type: ignore[misc, unused-ignore]
    """SwiGLU: one half opens the gate for the other."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.up = nn.Linear(size.width, 2 * size.ffn, bias=False)
        self.down = nn.Linear(size.ffn, size.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        gate, up = self.up(hidden).chunk(2, dim=-1)
        down: Tensor = self.down(F.silu(gate) * up)
        return down


class Experts(nn.Module):  # type: ignore[misc, unused-ignore]
    """A mixture of MLPs. All experts see all tokens, and the router's weights pick: no shape depends on the data."""

    def __init__(self, size: DecoderSize) -> None:
        super().__init__()
        self.top_k = size.top_k
        self.router = nn.Linear(size.width, size.experts, bias=False)
        self.up = nn.Parameter(torch.randn(size.experts, size.width, 2 * size.ffn) / math.sqrt(size.width))
        self.down = nn.Parameter(torch.randn(size.experts, size.ffn, size.width) / math.sqrt(size.ffn))

    def forward(self, hidden: Tensor) -> Tensor:
        tokens = hidden.flatten(0, 1)
        weights, chosen = self.router(tokens).float().softmax(dim=-1).topk(self.top_k)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(tokens.dtype)
        share = tokens.new_zeros(len(tokens), len(self.up)).scatter(1, chosen, weights)
        gate, up = torch.matmul(tokens, self.up).chunk(2, dim=-1)
        each = torch.matmul(F.silu(gate) * up, self.down)
        return torch.einsum("te,etw->tw", share, each).view_as(hidden)


class DecoderLayer(nn.Module):  # type: ignore[misc, unused-ignore]
    """Attention, then an MLP, each on the normed sum of all before."""

    def __init__(self, size: DecoderSize, positions: int, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.attention_norm, self.mlp_norm = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.attention = Attention(size, positions)
        self.mlp = Experts(size) if size.experts else Mlp(size)

    def forward(self, hidden: Tensor, place: TokenPositions) -> Tensor:
        with self.mark("attention"):
            hidden = hidden + self.attention(self.attention_norm(hidden), place)
        with self.mark("mlp"):
            fed: Tensor = hidden + self.mlp(self.mlp_norm(hidden))
        return fed


class Decoder(nn.Module):  # type: ignore[misc, unused-ignore]
    """The model, its cache, and the text so far."""

    cos: Tensor
    sin: Tensor
    everywhere: Tensor  # all positions
    text: Tensor
    tokens: Tensor  # the last of each sequence, not yet looked at
    position: Tensor  # where they stand

    def __init__(self, size: DecoderSize, positions: int, mark: Mark = window) -> None:
        super().__init__()
        self.mark = mark
        self.embed = nn.Embedding(size.vocab, size.width)
        self.layers = nn.ModuleList(DecoderLayer(size, positions, mark) for _ in range(size.layers))
        self.norm, self.head = nn.RMSNorm(size.width), nn.Linear(size.width, size.vocab, bias=False)
        speed = 10000.0 ** -(torch.arange(0, size.head, 2, dtype=torch.float32) / size.head)
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), speed)
        self.register_buffer("cos", angles.cos().to(self.head.weight.dtype))
        self.register_buffer("sin", angles.sin().to(self.head.weight.dtype))
        self.register_buffer("text", torch.zeros(size.batch, positions, dtype=torch.long))
        self.register_buffer("tokens", torch.zeros(size.batch, 1, dtype=torch.long))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("everywhere", torch.arange(positions))
        self.requires_grad_(requires_grad=False)

    def forward(
        self, tokens: Tensor, position: Tensor, mask: Tensor | None, begin: int = 0, rows: slice = EVERY
    ) -> Tensor:
        """The logits of what follows the last of these tokens; the cache then holds them."""
        place = TokenPositions(position, self.cos[position], self.sin[position], mask, begin, rows)
        hidden = self.embed(tokens)
        for number, layer in enumerate(self.layers):
            with self.mark(f"layer{number}"):
                hidden = layer(hidden, place)
        logits: Tensor = self.head(self.norm(hidden[:, -1]))
        return logits

    def prefill(self, prompt: Tensor, begin: int = 0, rows: slice = EVERY) -> Tensor:
        """Read a prompt of some sequences, or the chunk of it that begins there; what follows it is then known."""
        end = begin + prompt.shape[1]
        self.text[rows, begin:end] = prompt
        self.position.fill_(end - 1)
        return self._follow(self(prompt, self.everywhere[begin:end], None, begin, rows), rows)

    def step(self) -> Tensor:
        """Look at the last token of each sequence and find the next."""
        return self._follow(self(self.tokens, self.position, self.until(self.position)))

    def until(self, position: Tensor) -> Tensor:
        """A mask that lets a token there look at itself and what is before."""
        later = self.everywhere > position
        return torch.zeros_like(later, dtype=self.cos.dtype).masked_fill(later, -math.inf).view(1, 1, 1, -1)

    def rewind(self, tokens: Tensor, position: int) -> None:
        """Go back to where these were the last tokens of the sequences."""
        self.tokens.copy_(tokens)
        self.position.fill_(position)

    def _follow(self, logits: Tensor, rows: slice = EVERY) -> Tensor:
        """Go on to the likeliest token."""
        self.tokens[rows] = logits.argmax(dim=-1, keepdim=True)
        self.position.add_(1)
        self.text[rows].index_copy_(1, self.position, self.tokens[rows])
        return logits


def positions_for(size: DecoderSize, steps: int) -> int:
    """How long the cache is that holds the prompt and so many tokens after it."""
    return -(-(size.prompt + steps + 1) // ALIGNED) * ALIGNED


def build(size: DecoderSize, steps: int, device: str, dtype: str, seed: int, mark: Mark = window) -> Decoder:
    """A model with random weights of a seed, and room for the prompt and so many tokens after it."""
    positions = positions_for(size, steps)
    _expect_room(size, positions, device, DTYPES[dtype].itemsize)
    torch.manual_seed(seed)
    default = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[dtype])
    try:
        with torch.device(device):
            return Decoder(size, positions, mark)
    finally:
        torch.set_default_dtype(default)


def _expect_room(size: DecoderSize, positions: int, device: str, item_bytes: int) -> None:
    """Refuse what cannot fit before any of it is allocated; activations come on top."""
    kv_bytes = size.kv_bytes(positions, item_bytes)
    all_bytes, what = size.parameters * item_bytes + kv_bytes, f"the model with a cache of {gigabytes(kv_bytes)}"
    needs(what, all_bytes, device)
    host_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if device == "cpu" and all_bytes > host_bytes:
        refuse(f"{what} needs {gigabytes(all_bytes)}, and this host has {gigabytes(host_bytes)}")

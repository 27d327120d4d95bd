"""A Llama-like decoder with random weights: sizes and a seed in, a model out that reads prompts and decodes tokens.

RMS norms, rotary embeddings, attention of one of three kinds, SwiGLU MLPs or a mixture of experts. The cache and the
text so far have a fixed size and place, and no shape depends on the data, so that a CUDA graph can hold a step. A
prompt is read at once or in chunks, for all sequences or for some. `decode`, `serve` and `longctx` measure it.

Its logits are held against those of two other ways (`agreed`): one pass over the whole text, which does not use the
cache; and the last token read again as a decode step reads it, over the cache, with another kernel and a mask. Both
belong after the measured part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.attention import Attention, LatentAttention, SparseAttention, TokenPositions
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.device import DTYPES, error_of, gigabytes, needs
from gpuledger_workloads.mixture.routing import Gating
from gpuledger_workloads.program import refuse

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

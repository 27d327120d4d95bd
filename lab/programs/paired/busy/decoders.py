"""Decoding with torch's own operators, in two variants: a device in, the step to be repeated out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired.busy.layers import LayerWeights, decoder_weights, random_inputs, replayed
from lab.programs.paired.program import PairedProgram, Step, either, pair
from lab.programs.paired.sizes import BATCHES, BF16, sized

Remember = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""A layer's number, a token's key and value in; all keys and values so far out."""


def next_hidden(weights: Sequence[LayerWeights], hidden: Tensor, heads: int, remember: Remember) -> Tensor:
    """One token of some requests through all layers."""
    rows, width = hidden.shape
    for number, layer in enumerate(weights):
        joint = F.linear(F.rms_norm(hidden, (width,)), layer.joint)
        query, key, value = joint.view(rows, 3, heads, 1, width // heads).unbind(1)
        seen = F.scaled_dot_product_attention(query, *remember(number, key, value))
        hidden = hidden + F.linear(seen.reshape(rows, width), layer.out)
        gate, rest = F.linear(F.rms_norm(hidden, (width,)), layer.up).chunk(2, -1)
        hidden = hidden + F.linear(F.silu(gate) * rest, layer.down)
    return hidden


def remembered(device: str, layers: int, rows: int, heads: int, length: int, head_width: int) -> Tensor:
    """Keys and values of a context, by layer."""
    torch.manual_seed(2)
    return torch.randn(layers, 2, rows, heads, length, head_width, device=device, dtype=BF16)


def kv_cat(device: str, fixed: bool) -> Step:
    """Appends each token's keys and values with torch.cat, which copies all of them. Fixed: written in place, to memory
    that has room for them."""
    layers, rows = sized(device, 4, 2), sized(device, 64, 2)
    heads, width = sized(device, 16, 2), sized(device, 2048, 64)
    context, tokens = sized(device, 2048, 8), 4
    weights, inputs = decoder_weights(device, layers, width), random_inputs(device, BATCHES, rows, width)
    room = remembered(device, layers, rows, heads, context + tokens, width // heads)
    before = [(keys[:, :, :context].contiguous(), values[:, :, :context].contiguous()) for keys, values in room]

    def step(index: int) -> Tensor:
        hidden, grown = inputs[index % BATCHES], list(before)

        def appended(number: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = grown[number]
            grown[number] = torch.cat((keys, key), 2), torch.cat((values, value), 2)
            return grown[number]

        for length in range(context, context + tokens):

            def written(number: int, key: Tensor, value: Tensor, length: int = length) -> tuple[Tensor, Tensor]:
                keys, values = room[number, :, :, :, : length + 1]
                keys[:, :, length:] = key
                values[:, :, length:] = value
                return keys, values

            hidden = next_hidden(weights, hidden, heads, written if fixed else appended)
        return hidden

    return step


def decode_small_batch(device: str, fixed: bool) -> Step:
    """Decodes a token of each request by itself, and reads all weights for each. Fixed: of all requests at once. Both
    as a CUDA graph."""
    layers, rows = sized(device, 8, 2), sized(device, 16, 3)
    heads, width = sized(device, 32, 2), sized(device, 4096, 64)
    weights, inputs = decoder_weights(device, layers, width), random_inputs(device, BATCHES, rows, width)
    room = remembered(device, layers, rows, heads, sized(device, 256, 8), width // heads)

    def of_requests(hidden: Tensor, first: int, last: int) -> Tensor:
        def written(number: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = room[number, :, first:last]
            keys[:, :, -1:] = key
            values[:, :, -1:] = value
            return keys, values

        return next_hidden(weights, hidden[first:last], heads, written)

    def work(hidden: Tensor) -> Tensor:
        if fixed:
            return of_requests(hidden, 0, rows)
        return torch.cat([of_requests(hidden, row, row + 1) for row in range(rows)])

    return replayed(work, inputs)


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "kv_cat",
        "copies all keys and values to append a token's",
        "DEVICE-COPY",
        "the kernels that concatenate go; small ones that write a token's keys and values come",
        kv_cat,
    ),
    PairedProgram(
        "decode_small_batch",
        "reads all weights for each request's token",
        (),  # requests that follow each other cannot be told from layers
        "the products of all requests become one, which reads the weights once",
        either(decode_small_batch, "bad", "fixed"),
    ),
)

"""Layers of torch's own operators, in two variants: a device in, the step to be repeated out."""

from __future__ import annotations

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired.busy.layers import decoder_weights, random_inputs, replayed, weight
from lab.programs.paired.program import PairedProgram, Step, pair
from lab.programs.paired.sizes import BATCHES, BF16, sized

GELU_SCALE, GELU_CUBE, EPSILON = 0.7978845608, 0.044715, 1e-6


def contiguous_copies(device: str, fixed: bool) -> Step:
    """Makes what it transposed or split contiguous, and clones what it adds to. Fixed: goes on with views."""
    layers, rows, length = sized(device, 6, 2), sized(device, 32, 2), sized(device, 1024, 8)
    heads, width = sized(device, 16, 2), sized(device, 1024, 64)
    weights, inputs = decoder_weights(device, layers, width), random_inputs(device, BATCHES, rows, length, width)

    def taken(values: Tensor) -> Tensor:
        return values if fixed else values.contiguous()

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for layer in weights:
            before = hidden if fixed else hidden.clone()
            joint = F.linear(F.rms_norm(hidden, (width,)), layer.joint).view(rows, length, 3, heads, -1)
            query, key, value = (taken(part.transpose(1, 2)) for part in joint.unbind(2))
            seen = taken(F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2))
            hidden = before + F.linear(seen.reshape(rows, length, width), layer.out)
            gate, rest = map(taken, F.linear(F.rms_norm(hidden, (width,)), layer.up).chunk(2, -1))
            hidden = hidden + F.linear(F.silu(gate) * rest, layer.down)
        return hidden

    return step


def rms_norm_by_hand(values: Tensor, scale: Tensor) -> Tensor:
    """As models write it, one operator after the other."""
    wide = values.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
    return scale * wide.to(values.dtype)


def gelu_by_hand(values: Tensor) -> Tensor:
    """The same of an activation."""
    return 0.5 * values * (1.0 + torch.tanh(GELU_SCALE * (values + GELU_CUBE * values.pow(3))))


def pointwise_chain(device: str, fixed: bool) -> Step:
    """Norms and activations as chains of operators, each of which reads and writes all. Fixed: one operator each."""
    layers, rows, width = sized(device, 4, 2), sized(device, 16_384, 8), sized(device, 4096, 64)
    torch.manual_seed(0)
    weights = [(weight(device, width, width), weight(device, width, width)) for _ in range(layers)]
    scale, inputs = torch.ones(width, device=device, dtype=BF16), random_inputs(device, BATCHES, rows, width)

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for up, down in weights:
            normed = F.rms_norm(hidden, (width,), scale, EPSILON) if fixed else rms_norm_by_hand(hidden, scale)
            risen = F.linear(normed, up)
            hidden = hidden + F.linear(F.gelu(risen, approximate="tanh") if fixed else gelu_by_hand(risen), down)
        return hidden

    return step


def float64_by_accident(device: str, fixed: bool) -> Step:
    """Points and frequencies from numpy, which makes float64: so are the product and the waves, until the network's
    bfloat16. Fixed: float32."""
    points, axes, waves = sized(device, 524_288, 8), sized(device, 64, 4), sized(device, 256, 16)
    chance, kind = np.random.default_rng(0), np.float32 if fixed else np.float64
    batches = [torch.from_numpy(chance.random((points, axes)).astype(kind)).to(device) for _ in range(BATCHES)]
    frequencies = torch.from_numpy(chance.standard_normal((axes, waves)).astype(kind)).to(device)
    torch.manual_seed(0)
    hidden_width = sized(device, 1024, 16)
    network = [weight(device, inner, hidden_width) for inner in (2 * waves, hidden_width, hidden_width)]

    def step(index: int) -> Tensor:
        phases = batches[index % BATCHES] @ frequencies
        hidden = torch.cat((phases.sin(), phases.cos()), -1).to(BF16)
        for layer in network:
            hidden = F.relu(F.linear(hidden, layer))
        return hidden

    return step


def small_grid(device: str, fixed: bool) -> Step:
    """A softmax over a large vocabulary for each request by itself: one block on all of the GPU. Fixed: one for all
    requests. Both as a CUDA graph."""
    requests, width, words = sized(device, 128, 3), sized(device, 4096, 16), sized(device, 262_144, 64)
    torch.manual_seed(0)
    head, inputs = weight(device, width, words), random_inputs(device, BATCHES, requests, width)
    shares = torch.empty(requests, words, device=device)

    def work(hidden: Tensor) -> Tensor:
        scores = F.linear(hidden, head).float()
        if fixed:
            return torch.softmax(scores, -1, out=shares)
        for row, share in zip(scores, shares, strict=True):
            torch.softmax(row, -1, out=share)
        return shares

    return replayed(work, inputs)


def expert_loop_gemms(device: str, fixed: bool) -> Step:
    """The products of 64 experts one after the other, each too small for the GPU. Fixed: one batched product. Both as a
    CUDA graph."""
    layers, experts, tokens = sized(device, 8, 2), sized(device, 64, 4), sized(device, 64, 2)
    width, inner = sized(device, 2048, 32), sized(device, 1024, 16)
    torch.manual_seed(0)

    def many(rows: int, columns: int) -> Tensor:
        return torch.randn(experts, rows, columns, device=device, dtype=BF16) * rows**-0.5

    weights = [(many(width, inner), many(inner, width)) for _ in range(layers)]

    def product(values: Tensor, factors: Tensor) -> Tensor:
        if fixed:
            return torch.bmm(values, factors)
        output = values.new_empty(experts, tokens, factors.shape[-1])
        for value, factor, place in zip(values, factors, output, strict=True):
            torch.mm(value, factor, out=place)
        return output

    def work(hidden: Tensor) -> Tensor:
        for up, down in weights:
            hidden = hidden + product(F.silu(product(hidden, up)), down)
        return hidden

    return replayed(work, random_inputs(device, BATCHES, experts, tokens, width))


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "contiguous_copies",
        "copies activations to make them contiguous",
        "DEVICE-COPY",
        "the kernels that copy go",
        contiguous_copies,
    ),
    pair(
        "pointwise_chain",
        "norms and activations in many passes over memory",
        "UNFUSED-CHAIN",
        "each chain of kernels by element becomes one kernel, which reads and writes once",
        pointwise_chain,
    ),
    pair(
        "float64_by_accident",
        "computes in float64 what numpy made so",
        "PRECISION",
        "the product and the kernels by element in float64 become ones in float32, with half the bytes",
        float64_by_accident,
    ),
    pair(
        "small_grid",
        "a softmax of one block for each request",
        "UNDER-FILLED",
        "the kernels of one block become one, which takes about as long as one of them",
        small_grid,
    ),
    pair(
        "expert_loop_gemms",
        "many small products one after the other",
        "GEMM-LOOP",
        "the products of all experts become one, which reads all weights at the rate of the memory",
        expert_loop_gemms,
    ),
)

"""Programs that keep a GPU busy and use it badly, and two that use it well: a device in, the step to be repeated out.

MODELS are of transformers and torchvision; the Llamas have as many heads for keys as for queries, so that attention
needs no copies of them. DECODERS and OPERATORS are of torch's own operators. Steps are replayed as CUDA graphs where
the host would limit them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import (
    Tensor,  # type: ignore[import-not-found, unused-ignore]
    nn,  # type: ignore[import-not-found, unused-ignore]
)

from gpuledger_workloads.device import captured
from lab.programs.paired import BATCHES, BF16, Build, PairedProgram, Step, either, pair, sized
from lab.programs.paired.library import adamw, ids_of, images_of, llama_training, model_of, resnet_training


class LayerWeights(NamedTuple):
    """The four products of a decoder's layer: queries, keys and values at once; the way out; gate and rest; down."""

    joint: Tensor
    out: Tensor
    up: Tensor
    down: Tensor


def weight(device: str, inner: int, outer: int) -> Tensor:
    """Of a linear layer, which keeps the size of what goes through it."""
    return torch.randn(outer, inner, device=device, dtype=BF16) * inner**-0.5


def decoder_weights(device: str, layers: int, width: int) -> list[LayerWeights]:
    """Of some layers, all different."""
    torch.manual_seed(0)
    shapes = ((width, 3 * width), (width, width), (width, 8 * width), (4 * width, width))
    return [LayerWeights(*(weight(device, inner, outer) for inner, outer in shapes)) for _ in range(layers)]


def random_inputs(device: str, count: int, *shape: int) -> list[Tensor]:
    """Batches of hidden states."""
    torch.manual_seed(1)
    return [torch.randn(shape, device=device, dtype=BF16) for _ in range(count)]


def replayed(work: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> Step:
    """Steps over some inputs in turn: on a GPU as a CUDA graph, so that the host does not limit them."""
    given = inputs[0].clone()

    def on_given() -> Tensor:
        return work(given)

    run: Callable[[], Tensor] = captured(on_given) if given.is_cuda else on_given

    def step(index: int) -> Tensor:
        given.copy_(inputs[index % len(inputs)])
        return run()

    return step


CAUSAL = "sdpa_causal"
"""torch's fused attention with a flag instead of a mask: transformers looks on the host at those that it makes."""


def attention_of(fused: bool) -> str:
    """The name by which transformers knows it; one that has no masks of its own is given none."""
    if fused:
        hub: Any = import_module("transformers")
        hub.AttentionInterface.register(
            CAUSAL, import_module("transformers.integrations.sdpa_attention").sdpa_attention_forward
        )
    return CAUSAL if fused else "eager"


def llama_forward(
    device: str, *, rows: int, length: int, width: int, dtype: torch.dtype = BF16, fused: bool = True, **more: Any
) -> tuple[Any, Step]:
    """A Llama of two layers, and its forward pass over some texts."""
    heads = max(width // 128, 2)
    how = {"num_key_value_heads": heads, "attn_implementation": attention_of(fused), **more}
    model = model_of("Llama", device, layers=2, width=width, dtype=dtype, **how)
    batches = ids_of(model, device, rows, length)
    later = (
        None if fused else torch.full((length, length), float("-inf"), device=device, dtype=dtype).triu(1)[None, None]
    )

    def step(index: int) -> Tensor:
        logits: Tensor = model(input_ids=batches[index % BATCHES], attention_mask=later, use_cache=False).logits
        return logits

    return model, step


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """How torch multiplies matrices of float32; programs before and after it are not to notice."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def llama_float32(dtype: torch.dtype, precision: str, device: str) -> Step:
    """A forward pass in some precision."""
    inner, length, width = sized(device, 11_008, 64), sized(device, 2048, 8), sized(device, 4096, 256)
    _, forward = llama_forward(device, rows=2, length=length, width=width, dtype=dtype, intermediate_size=inner)

    def step(index: int) -> Tensor:
        with products_in(precision):
            return forward(index)

    return step


PRECISIONS: Mapping[str, Build] = {
    "bad": partial(llama_float32, torch.float32, "highest"),
    "tf32": partial(llama_float32, torch.float32, "high"),
    "fixed": partial(llama_float32, BF16, "highest"),
}


def eager_attention(device: str, fixed: bool) -> Step:
    """Attention with all scores in memory. Fixed: torch's fused one."""
    return llama_forward(
        device, rows=sized(device, 4, 2), length=sized(device, 4096, 16), width=sized(device, 2048, 256), fused=fixed
    )[1]


def resnet_nchw(device: str, fixed: bool) -> Step:
    """Trains a ResNet-50 in the layout in which images come. Fixed: channels last, which convolutions want."""
    batches = [
        (images.to(device), labels.to(device))
        for images, labels in images_of(sized(device, 256, 8), sized(device, 224, 64))
    ]
    layout = torch.channels_last if fixed else torch.contiguous_format
    network = "resnet50" if device == "cuda" else "resnet18"
    return resnet_training(device, lambda index: batches[index % BATCHES], network=network, layout=layout)


def adamw_foreach_off(device: str, fixed: bool) -> Step:
    """AdamW in a dozen passes over each parameter of one wide layer: of several, the host would not keep up. Fixed:
    fused."""
    return llama_training(device, partial(adamw, fixed), layers=1, width=sized(device, 8192, 256))


def llama_tuned(device: str) -> Step:
    """A wide Llama in bfloat16, fused attention, torch's own norm, compiled."""
    width = sized(device, 8192, 256)
    model, step = llama_forward(
        device, rows=2, length=sized(device, 2048, 8), width=width, intermediate_size=sized(device, 28_672, 64)
    )
    for place in list(model.modules()):
        for name, norm in place.named_children():
            if type(norm).__name__ == "LlamaRMSNorm":
                own = nn.RMSNorm(width, norm.variance_epsilon, device=device, dtype=BF16)
                setattr(place, name, own.eval())
    if device == "cuda":
        model.compile()
    return step


def resnet_tuned(device: str) -> Step:
    """The forward pass of a ResNet-50, channels last, as a CUDA graph."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    with torch.device(device):
        model = vision.models.resnet50(weights=None)
    model = model.to(BF16, memory_format=torch.channels_last).eval()
    rows, side = sized(device, 256, 2), sized(device, 224, 32)
    return replayed(model, [_last(images.to(device)) for images, _ in images_of(rows, side)])


def _last(images: Tensor) -> Tensor:
    return images.to(BF16, memory_format=torch.channels_last)


def tuned(name: str, build: Build) -> PairedProgram:
    """A program of which nothing is to be claimed."""
    return PairedProgram(name, "nothing to speak of", (), "none", {"tuned": build})


MODELS: tuple[PairedProgram, ...] = (
    PairedProgram(
        "llama_float32",
        "multiplies matrices in float32, without tensor cores",
        ("PRECISION",),
        "the products become ones of tensor cores (tf32), or also of bfloat16, with half the bytes all around (fixed)",
        PRECISIONS,
        steps=6,
    ),
    pair(
        "eager_attention",
        "writes all scores of attention, masks, normalises and reads them",
        "ATTENTION-UNFUSED",
        "the products of attention and all between them become one kernel",
        eager_attention,
    ),
    PairedProgram(
        "resnet_nchw",
        "changes the layout around each convolution",
        ("LAYOUT",),
        "the kernels that change the layout go; norms and convolutions become those of the other layout",
        either(resnet_nchw, "bad", "fixed"),
        steps=6,
    ),
    pair(
        "adamw_foreach_off",
        "passes over each parameter a dozen times",
        "OPTIMIZER-UNFUSED",
        "the optimizer's kernels become a few, which read and write once",
        adamw_foreach_off,
    ),
    tuned("llama_tuned", llama_tuned),
    tuned("resnet_tuned", resnet_tuned),
)


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


DECODERS: tuple[PairedProgram, ...] = (
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


OPERATORS: tuple[PairedProgram, ...] = (
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


PROGRAMS = (*MODELS, *DECODERS, *OPERATORS)

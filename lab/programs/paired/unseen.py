"""More programs that keep a GPU busy and use it badly, for which no rule was written: to hold the rules against."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired import BATCHES, BF16, PairedProgram, Step, pair, sized
from lab.programs.paired.busy import llama_forward, products_in, random_inputs, replayed, weight
from lab.programs.paired.library import adamw, ids_of, images_of, model_of, resnet_training

# of texts


def gpt2_forward(device: str, rows: int, activation: str, attention: str) -> Step:
    """A GPT-2 of a few layers, and its forward pass over some texts."""
    hub: Any = import_module("transformers")
    length, width = sized(device, 1024, 8), sized(device, 1600, 64)
    sizes = {
        "n_layer": sized(device, 6, 2),
        "n_embd": width,
        "n_head": max(width // 64, 2),
        "vocab_size": sized(device, 50_257, 256),
    }
    config = hub.GPT2Config(**sizes, activation_function=activation, attn_implementation=attention)
    torch.manual_seed(0)
    with torch.device(device):
        model = hub.GPT2LMHeadModel(config).to(BF16).eval()
    batches = ids_of(model, device, rows, length)

    def step(index: int) -> Tensor:
        hidden: Tensor = model.transformer(input_ids=batches[index % BATCHES], use_cache=False).last_hidden_state
        return hidden

    return step


def gpt2_gelu(device: str, fixed: bool) -> Step:
    """GPT-2's activation as its first authors wrote it, operator by operator. Fixed: torch's own."""
    return gpt2_forward(device, sized(device, 16, 2), "gelu_pytorch_tanh" if fixed else "gelu_new", "sdpa")


def gpt2_eager(device: str, fixed: bool) -> Step:
    """GPT-2 with all scores of attention in memory. Fixed: torch's fused attention."""
    return gpt2_forward(device, sized(device, 8, 2), "gelu_pytorch_tanh", "sdpa" if fixed else "eager")


def bert_float32(device: str, fixed: bool) -> Step:
    """A BERT in float32. Fixed: bfloat16."""
    model = model_of(
        "Bert",
        device,
        layers=sized(device, 6, 2),
        width=sized(device, 768, 64),
        dtype=BF16 if fixed else torch.float32,
        attn_implementation="sdpa",
    )
    batches = ids_of(model, device, sized(device, 64, 2), sized(device, 512, 8))

    def step(index: int) -> Tensor:
        hidden: Tensor = model(input_ids=batches[index % BATCHES]).last_hidden_state
        return hidden

    return step


def bert_eager(device: str, fixed: bool) -> Step:
    """A BERT with all scores of attention in memory. Fixed: torch's fused attention."""
    model = model_of(
        "Bert",
        device,
        layers=sized(device, 6, 2),
        width=sized(device, 1024, 64),
        num_attention_heads=sized(device, 16, 2),
        attn_implementation="sdpa" if fixed else "eager",
    )
    batches = ids_of(model, device, sized(device, 32, 2), sized(device, 512, 8))

    def step(index: int) -> Tensor:
        hidden: Tensor = model(input_ids=batches[index % BATCHES]).last_hidden_state
        return hidden

    return step


def llama_compiled(device: str, fixed: bool) -> Step:
    """A Llama as it comes. Fixed: compiled, which fuses its norms, rotations and activations."""
    model, step = llama_forward(
        device, rows=sized(device, 8, 2), length=sized(device, 2048, 8), width=sized(device, 2048, 256)
    )
    if fixed and device == "cuda":
        model.compile()
    return step


def repeated_keys(device: str, fixed: bool) -> Step:
    """Copies keys and values for each head that shares them. Fixed: attention that shares them by itself."""
    layers, rows, length = sized(device, 6, 2), sized(device, 16, 2), sized(device, 2048, 8)
    heads, groups, width = sized(device, 32, 4), sized(device, 4, 2), sized(device, 4096, 64)
    torch.manual_seed(0)
    head = width // heads
    weights = [(weight(device, width, width + 2 * groups * head), weight(device, width, width)) for _ in range(layers)]
    inputs = random_inputs(device, BATCHES, rows, length, width)

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for joint, out in weights:
            parts = F.linear(F.rms_norm(hidden, (width,)), joint).split((width, groups * head, groups * head), -1)
            query, key, value = (part.unflatten(-1, (-1, head)).transpose(1, 2) for part in parts)
            if not fixed:
                key, value = (part.repeat_interleave(heads // groups, 1) for part in (key, value))
            seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=fixed)
            hidden = hidden + F.linear(seen.transpose(1, 2).reshape(rows, length, width), out)
        return hidden

    return step


# of images


def resnet_forward_nchw(device: str, fixed: bool) -> Step:
    """The forward pass of a ResNet in the layout in which images come. Fixed: channels last."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    layout = torch.channels_last if fixed else torch.contiguous_format
    with torch.device(device):
        model = getattr(vision.models, "resnet50" if device == "cuda" else "resnet18")(weights=None)
    model = model.to(BF16, memory_format=layout).eval()
    batches = [
        images.to(device, BF16, memory_format=layout)
        for images, _ in images_of(sized(device, 256, 2), sized(device, 224, 64))
    ]

    def step(index: int) -> Tensor:
        scores: Tensor = model(batches[index % BATCHES])
        return scores

    return step


def resnext_nchw(device: str, fixed: bool) -> Step:
    """Trains a ResNeXt in the layout in which images come. Fixed: channels last."""
    batches = [
        (images.to(device), labels.to(device))
        for images, labels in images_of(sized(device, 128, 8), sized(device, 224, 64))
    ]
    layout = torch.channels_last if fixed else torch.contiguous_format
    network = "resnext50_32x4d" if device == "cuda" else "resnet18"
    return resnet_training(device, lambda index: batches[index % BATCHES], network=network, layout=layout)


def unet_channels_last(device: str, fixed: bool) -> Step:
    """Blocks as of a U-Net, group norm, activation and convolution, with the channels last, which group norms do not
    want. Fixed: the layout in which images come."""
    torch.manual_seed(0)
    width, depth = sized(device, 256, 32), sized(device, 8, 2)
    layout = torch.contiguous_format if fixed else torch.channels_last
    with torch.device(device):
        blocks = [
            nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
            for _ in range(depth)
        ]
    model = nn.Sequential(*blocks).to(BF16, memory_format=layout).eval()
    rows, side = sized(device, 32, 2), sized(device, 64, 8)
    inputs = [batch.to(memory_format=layout) for batch in random_inputs(device, BATCHES, rows, width, side, side)]

    def step(index: int) -> Tensor:
        image: Tensor = model(inputs[index % BATCHES])
        return image

    return step


def vit_float32(device: str, fixed: bool) -> Step:
    """A vision transformer in float32. Fixed: TF32."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    side = sized(device, 224, 32)
    with torch.device(device):
        model = vision.models.VisionTransformer(
            side, 16, sized(device, 6, 1), sized(device, 12, 2), sized(device, 768, 64), sized(device, 3072, 64)
        ).eval()
    model.heads = nn.Identity()  # it begins with zeros
    batches = [images.to(device) for images, _ in images_of(sized(device, 128, 2), side)]

    def step(index: int) -> Tensor:
        with products_in("high" if fixed else "highest"):
            scores: Tensor = model(batches[index % BATCHES])
        return scores

    return step


# of training


def wide_adamw(device: str, fixed: bool) -> Step:
    """AdamW in float32 over two large layers, a pass for each operation. Fixed: fused."""
    torch.manual_seed(0)
    width = sized(device, 16_384, 32)
    with torch.device(device):
        model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    update = adamw(fixed, model)
    inputs = [batch.float() for batch in random_inputs(device, BATCHES, sized(device, 256, 4), width)]

    def step(index: int) -> Tensor:
        with torch.enable_grad(), torch.autocast(device, BF16):
            loss = model(inputs[index % BATCHES]).float().square().mean()
        loss.backward()
        update()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def wide_sgd(device: str, fixed: bool) -> Step:
    """SGD with momentum and decay over large layers, a pass for each operation. Fixed: fused."""
    torch.manual_seed(0)
    width, layers = sized(device, 8192, 32), sized(device, 8, 2)
    with torch.device(device):
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers))).to(BF16)
    how = {"fused": True} if fixed else {"foreach": False}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=0.01, **how)
    inputs = random_inputs(device, BATCHES, sized(device, 512, 4), width)

    def step(index: int) -> Tensor:
        with torch.enable_grad():
            loss = model(inputs[index % BATCHES]).float().square().mean()
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


# of requests


def adapters_loop(device: str, fixed: bool) -> Step:
    """Each request's low-rank adapter by itself. Fixed: all in two batched products. Both as a CUDA graph."""
    layers, requests, tokens = sized(device, 16, 2), sized(device, 32, 3), sized(device, 128, 2)
    width, rank = sized(device, 4096, 32), sized(device, 64, 4)
    torch.manual_seed(0)

    def many(rows: int, columns: int) -> Tensor:
        return torch.randn(requests, rows, columns, device=device, dtype=BF16) * rows**-0.5

    adapters = [(many(width, rank), many(rank, width)) for _ in range(layers)]

    def work(hidden: Tensor) -> Tensor:
        for down, up in adapters:
            if fixed:
                more = torch.bmm(torch.bmm(hidden, down), up)
            else:
                more = torch.stack([row @ one @ two for row, one, two in zip(hidden, down, up, strict=True)])
            hidden = hidden + more
        return hidden

    return replayed(work, random_inputs(device, BATCHES, requests, tokens, width))


def top_p_loop(device: str, fixed: bool) -> Step:
    """Sorts and sums the chances of all words for each request by itself. Fixed: for all at once. Both as a CUDA
    graph."""
    requests, words = sized(device, 64, 3), sized(device, 131_072, 64)
    inputs = [4 * scores.float() for scores in random_inputs(device, BATCHES, requests, words)]

    def kept(scores: Tensor) -> Tensor:
        chances, order = torch.softmax(scores, -1).sort(-1, descending=True)
        chances = chances.masked_fill(chances.cumsum(-1) - chances > 0.9, 0)
        return torch.zeros_like(chances).scatter_(-1, order, chances)

    def work(scores: Tensor) -> Tensor:
        return kept(scores) if fixed else torch.cat([kept(scores[row : row + 1]) for row in range(requests)])

    return replayed(work, inputs)


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "gpt2_gelu",
        "an activation in many passes over memory",
        "UNFUSED-CHAIN",
        "its kernels become one, which reads and writes once",
        gpt2_gelu,
    ),
    pair(
        "gpt2_eager",
        "writes all scores of attention, masks, normalises and reads them",
        "ATTENTION-UNFUSED",
        "the products of attention and all between them become one kernel",
        gpt2_eager,
    ),
    pair(
        "bert_float32",
        "multiplies matrices in float32, without tensor cores",
        "PRECISION",
        "the products become ones of bfloat16, with half the bytes all around",
        bert_float32,
    ),
    pair(
        "llama_compiled",
        "norms, rotations and activations in many passes over memory",
        "UNFUSED-CHAIN",
        "each chain of kernels by element becomes one kernel, which reads and writes once",
        llama_compiled,
    ),
    pair(
        "repeated_keys",
        "copies keys and values for each head that shares them",
        "DEVICE-COPY",
        "the kernels that copy go",
        repeated_keys,
    ),
    pair(
        "resnet_forward_nchw",
        "changes the layout around each convolution",
        "LAYOUT",
        "the kernels that change the layout go; norms become those of the other layout",
        resnet_forward_nchw,
    ),
    pair(
        "resnext_nchw",
        "changes the layout around each convolution",
        "LAYOUT",
        "the kernels that change the layout go; norms and convolutions become those of the other layout",
        resnext_nchw,
    ),
    pair(
        "vit_float32",
        "multiplies matrices in float32, without tensor cores",
        "PRECISION",
        "the products become ones of tensor cores",
        vit_float32,
    ),
    pair(
        "wide_adamw",
        "passes over each parameter a dozen times",
        "OPTIMIZER-UNFUSED",
        "the optimizer's kernels become a few, which read and write once",
        wide_adamw,
    ),
    pair(
        "adapters_loop",
        "many small products one after the other",
        "GEMM-LOOP",
        "the products of all requests become one",
        adapters_loop,
    ),
    pair(
        "top_p_loop",
        "sorts and sums for each request by itself",
        "UNDER-FILLED",
        "the kernels of few blocks become ones for all requests",
        top_p_loop,
    ),
    pair(
        "bert_eager",
        "writes all scores of attention, masks, normalises and reads them",
        "ATTENTION-UNFUSED",
        "the products of attention and all between them become one kernel",
        bert_eager,
    ),
    pair(
        "unet_channels_last",
        "copies around each norm",
        "DEVICE-COPY",
        "the kernels that copy go; those that change the layout around convolutions come",
        unet_channels_last,
    ),
    pair(
        "wide_sgd",
        "passes over each parameter several times",
        "OPTIMIZER-UNFUSED",
        "the optimizer's kernels become a few, which read and write once",
        wide_sgd,
    ),
)

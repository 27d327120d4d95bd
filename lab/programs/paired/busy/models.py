"""Models of transformers and torchvision, badly used and well: a device in, the step to be repeated out.

The Llamas have as many heads for keys as for queries, so that attention needs no copies of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired.busy.layers import replayed
from lab.programs.paired.language import adamw, ids_of, llama_training, model_of
from lab.programs.paired.program import Build, PairedProgram, Step, either, pair
from lab.programs.paired.sizes import BATCHES, BF16, sized
from lab.programs.paired.vision import images_of, resnet_training

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


PROGRAMS: tuple[PairedProgram, ...] = (
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

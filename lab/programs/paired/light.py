"""Programs that keep a GPU busy, far from what it could do or with work that need not be done; and tuned ones.

What a report of the bad variant should say was written down before a program ran for the first time. Every step is a
training step or a forward pass of the size that people run, so that the host is ahead and kernels are what takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import (
    Tensor,  # type: ignore[import-not-found, unused-ignore]
    nn,  # type: ignore[import-not-found, unused-ignore]
)
from torch.utils.checkpoint import checkpoint  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.device import captured
from lab.programs.paired import BF16, PairedProgram, Step, pair, sized

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Fused attention, told by a flag that it is causal."""
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def graphed(work: Callable[[], Tensor], device: str) -> Step:
    """The same step over and over: on a GPU as a CUDA graph, so that the host does not limit it."""
    run: Callable[[], Tensor] = captured(work) if device == "cuda" else work
    return lambda _index: run()


class Block(nn.Module):  # type: ignore[misc, unused-ignore]
    """A layer of a GPT."""

    def __init__(self, width: int, heads: int, inner: int, attend: Attend = causal) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.joint, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Attention, then the MLP."""
        batch, length, width = hidden.shape
        parts = self.joint(self.first(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = self.attend(query, key, value).transpose(1, 2).reshape(batch, length, width)
        hidden = hidden + self.out(mixed)
        out: Tensor = hidden + self.down(F.gelu(self.up(self.second(hidden))))
        return out


class Gpt(nn.Module):  # type: ignore[misc, unused-ignore]
    """Embedding, layers, logits."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, inner: int = 0, **more: Any) -> None:
        super().__init__()
        self.checkpointed: bool = more.pop("checkpointed", False)
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, heads, inner or 4 * width, **more) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def hidden(self, tokens: Tensor) -> Tensor:
        """What the head is given."""
        hidden: Tensor = self.embedding(tokens)
        for layer in self.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=False) if self.checkpointed else layer(hidden)
        out: Tensor = self.norm(hidden)
        return out

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of all positions."""
        logits: Tensor = self.head(self.hidden(tokens))
        return logits


def tokens_of(device: str, batch: int, length: int, vocabulary: int) -> Tensor:
    """A batch of random tokens."""
    torch.manual_seed(1)
    return torch.randint(0, vocabulary, (batch, length), device=device)


def training(model: nn.Module, loss: Callable[[], Tensor], *, keep_gradients: bool = False, **options: Any) -> Step:
    """Forward, backward, a fused AdamW."""
    options = {"lr": 1e-4, "fused": next(model.parameters()).is_cuda, **options}
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step(_index: int) -> Tensor:
        with torch.enable_grad():
            value = loss()
            value.backward()  # type: ignore[no-untyped-call, unused-ignore]
        optimizer.step()
        optimizer.zero_grad(set_to_none=not keep_gradients)
        return value.detach()

    return step


def gpt_training(device: str, vocabulary: int = 50304, batch: int = 16, **options: Any) -> Step:
    """A GPT in bfloat16, trained on random tokens."""
    torch.manual_seed(0)
    keep, length = options.pop("keep_gradients", False), sized(device, 1024, 16)
    width, layers, vocabulary = sized(device, 1024, 32), sized(device, 12, 1), sized(device, vocabulary, 100)
    model = Gpt(vocabulary, width, layers, width // 64 or 1, **options).to(device, BF16)
    tokens = tokens_of(device, batch, length, vocabulary)

    def loss() -> Tensor:
        return F.cross_entropy(model(tokens).view(-1, vocabulary), tokens.view(-1))

    return training(model, loss, keep_gradients=keep)


def odd_vocabulary(device: str, fixed: bool) -> Step:
    """A vocabulary that is no multiple of 8."""
    return gpt_training(device, 50304 if fixed else 50257)


def odd_inner(device: str, fixed: bool) -> Step:
    """An MLP of 8/3 of the width, as it comes out."""
    return gpt_training(device, 8192, inner=2736 if fixed else 2730)


def checkpointed(device: str, fixed: bool) -> Step:
    """Activations are thrown away and made again, though there is room."""
    return gpt_training(device, 8192, checkpointed=not fixed)


def dense_mask(device: str, fixed: bool) -> Step:
    """A causal mask as a tensor."""
    length = sized(device, 1024, 16)
    mask = torch.full((length, length), float("-inf"), device=device, dtype=BF16).triu(1)

    def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return gpt_training(device, 8192, attend=causal if fixed else masked)


def attention_only(device: str, heads: int, head: int, attend: Attend, length: int = 4096) -> Step:
    """Forward passes of attention, as of a long prompt."""
    torch.manual_seed(0)
    length = sized(device, length, 32)
    query, key, value = (torch.randn(2, heads, length, head, device=device, dtype=BF16) for _ in range(3))
    return lambda _index: attend(query, key, value)


def odd_heads(device: str, fixed: bool) -> Step:
    """Heads of 100, which are padded to 128; as many values in heads of 64."""
    return attention_only(device, 50 if fixed else 32, 64 if fixed else 100, causal)


def float32_attention(device: str, fixed: bool) -> Step:
    """Fused attention in float32, outside of what was cast."""

    def widened(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return causal(query.float(), key.float(), value.float()).to(BF16)

    return attention_only(device, 32, 64, causal if fixed else widened)


def older_attention(device: str, fixed: bool) -> Step:
    """Attention by kernels made for the GPUs before this one, where cuDNN has some for it."""
    backends: Any = import_module("torch.nn.attention")

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with backends.sdpa_kernel(
            backends.SDPBackend.CUDNN_ATTENTION if fixed else backends.SDPBackend.FLASH_ATTENTION
        ):
            return causal(query, key, value)

    return attention_only(device, 16, 128, attend if device == "cuda" else causal, 8192)


def older_attention_trained(device: str, fixed: bool) -> Step:
    """The same in training."""
    backends: Any = import_module("torch.nn.attention")

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        with backends.sdpa_kernel(
            backends.SDPBackend.CUDNN_ATTENTION if fixed else backends.SDPBackend.FLASH_ATTENTION
        ):
            return causal(query, key, value)

    return gpt_training(device, 8192, attend=attend if device == "cuda" else causal)


def repeated_heads(device: str, fixed: bool) -> Step:
    """Grouped queries: keys and values are copied for each query's head."""
    torch.manual_seed(0)
    length = sized(device, 256, 8)
    query = torch.randn(64, 32, 1, 128, device=device, dtype=BF16)
    key, value = (torch.randn(64, 4, 16 * length, 128, device=device, dtype=BF16) for _ in range(2))

    def step(_index: int) -> Tensor:
        if fixed:
            folded = query.view(64, 4, 8, 128)  # the queries of one head of keys as if they were positions
            return F.scaled_dot_product_attention(folded, key, value).view(64, 32, 1, 128)
        return F.scaled_dot_product_attention(query, key.repeat_interleave(8, 1), value.repeat_interleave(8, 1))

    return step


def dense_table(device: str, fixed: bool) -> Step:
    """A table of embeddings with a gradient, and an optimizer's pass, as large as itself."""
    torch.manual_seed(0)
    rows, looked_up = sized(device, 4_000_000, 1000), sized(device, 53_000, 50)
    table = nn.Embedding(rows, 64, sparse=fixed).to(device)
    layers = (nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8))
    tower = nn.Sequential(*layers).to(device, BF16)
    numbers = torch.randint(0, rows, (looked_up,), device=device)
    optimizer: Any
    if fixed:
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.Adam(table.parameters(), lr=1e-3, fused=device == "cuda")
    others = torch.optim.Adam(tower.parameters(), lr=1e-3, fused=device == "cuda")

    def step(_index: int) -> Tensor:
        with torch.enable_grad():
            loss = tower(table(numbers).to(BF16)).square().mean()
            loss.backward()
        for one in (optimizer, others):
            one.step()
            one.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def all_logits(device: str, fixed: bool) -> Step:
    """Logits of all positions of a prompt, of which the last one's are read."""
    torch.manual_seed(0)
    vocabulary = sized(device, 128_256, 100)
    model = Gpt(vocabulary, sized(device, 1024, 32), sized(device, 8, 1), sized(device, 16, 1)).to(device, BF16)
    tokens = tokens_of(device, 32, sized(device, 1024, 16), vocabulary)

    def step(_index: int) -> Tensor:
        if fixed:
            return model.head(model.hidden(tokens)[:, -1]).argmax(-1) + 1
        return model(tokens)[:, -1].argmax(-1) + 1

    return step


def float32_products(device: str, fixed: bool) -> Step:
    """An MLP in float32, without TF32."""
    torch.manual_seed(0)
    width = sized(device, 4096, 32)
    model = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)).to(
        device, BF16 if fixed else None
    )
    given = torch.randn(4096, width, device=device, dtype=BF16 if fixed else None)
    return lambda _index: model(given)


def cleared_first(device: str, fixed: bool) -> Step:
    """Buffers that are cleared and then overwritten as a whole."""
    torch.manual_seed(0)
    size = sized(device, 1 << 28, 1 << 10)
    given = torch.randn(size, device=device, dtype=BF16)

    def step(_index: int) -> Tensor:
        buffer = torch.empty_like(given) if fixed else torch.zeros_like(given)
        torch.mul(given, 1.5, out=buffer)
        return buffer[:1000]

    return step


def cleared_gradients(device: str, fixed: bool) -> Step:
    """Gradients are set to zero and added to, instead of being written."""
    torch.manual_seed(0)
    width = sized(device, 8192, 32)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).to(device, BF16)
    given = torch.randn(512, width, device=device, dtype=BF16)
    return training(model, lambda: model(given).square().mean(), keep_gradients=not fixed)


def transposed_operands(device: str, fixed: bool) -> Step:
    """Sums of tensors of which one lies across: elements are read one by one."""
    torch.manual_seed(0)
    size = sized(device, 16384, 64)
    first, second = (torch.randn(size, size, device=device, dtype=BF16) for _ in range(2))
    return lambda _index: first + (second if fixed else second.t())


def one_wave_more(device: str, fixed: bool) -> Step:
    """A kernel of our own with one block more than the GPU has room for at a time."""
    torch.manual_seed(0)
    room = 2 * torch.cuda.get_device_properties(0).multi_processor_count if device == "cuda" else 4
    points = torch.randn(2, (room if fixed else room + 1) * 1024, device=device)
    if device != "cuda":
        return lambda _index: points * 2
    kernels: Any = import_module("lab.programs.triton_kernels")
    return lambda _index: kernels.turned(points, 1e-6, 500_000, 1024)


def one_hot_lookup(device: str, fixed: bool) -> Step:
    """Rows of a table are picked by a product with ones and zeros."""
    torch.manual_seed(0)
    rows = sized(device, 32_000, 100)
    table = torch.randn(rows, 1024, device=device, dtype=BF16)
    tokens = tokens_of(device, 8, sized(device, 1024, 8), rows)
    one, two = (torch.randn(1024, 1024, device=device, dtype=BF16) / 32 for _ in range(2))

    def step(_index: int) -> Tensor:
        hidden = F.embedding(tokens, table) if fixed else F.one_hot(tokens, rows).to(BF16) @ table
        return F.gelu(hidden @ one) @ two

    return step


def colliding_sums(device: str, fixed: bool) -> Step:
    """Many rows are added to few, all at once."""
    torch.manual_seed(0)
    rows, groups = sized(device, 1 << 20, 64), 8
    values = torch.randn(rows, 128, device=device)
    owner = torch.randint(0, groups, (rows,), device=device)
    chosen = F.one_hot(owner, groups).float().t().contiguous()

    def step(_index: int) -> Tensor:
        if fixed:
            return chosen @ values
        return torch.zeros(groups, 128, device=device).index_add_(0, owner, values)

    return step


def many_small_products(device: str, fixed: bool) -> Step:
    """Micro-batches of one row each, where all would fit at once."""
    torch.manual_seed(0)
    width, rows = sized(device, 8192, 32), 32
    layers = [torch.randn(width, width, device=device, dtype=BF16) / width**0.5 for _ in range(6)]
    given = torch.randn(rows, width, device=device, dtype=BF16)

    def through(hidden: Tensor) -> Tensor:
        for layer in layers:
            hidden = hidden @ layer
        return hidden

    def step() -> Tensor:
        return through(given) if fixed else torch.cat([through(given[row : row + 1]) for row in range(rows)])

    return graphed(step, device)


def odd_channels(device: str, fixed: bool) -> Step:
    """Convolutions of 255 channels."""
    torch.manual_seed(0)
    channels = sized(device, 256 if fixed else 255, 7)
    layers = [nn.Conv2d(channels, channels, 3, padding=1, bias=False).to(device, BF16) for _ in range(6)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    given = torch.randn(32, channels, sized(device, 64, 8), sized(device, 64, 8), device=device, dtype=BF16)
    given = given.to(memory_format=torch.channels_last)
    return lambda _index: model(given)


def widened_loss(device: str, fixed: bool) -> Step:
    """Logits of a large vocabulary are cast to float32, scaled and capped in passes of their own before the loss."""
    torch.manual_seed(0)
    vocabulary = sized(device, 128_256, 100)
    head = nn.Linear(2048, vocabulary, bias=False).to(device, BF16)
    hidden = torch.randn(sized(device, 4096, 8), 2048, device=device, dtype=BF16)
    labels = torch.randint(0, vocabulary, (len(hidden),), device=device)

    def capped(logits: Tensor) -> Tensor:
        return F.cross_entropy(30 * torch.tanh(logits.float() / 30), labels)

    loss = torch.compile(capped, dynamic=False) if fixed and device == "cuda" else capped
    return training(head, lambda: loss(head(hidden)))


def unfused_adam(device: str, fixed: bool) -> Step:
    """AdamW in several passes over lists of tensors."""
    torch.manual_seed(0)
    width = sized(device, 8192, 32)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(12))).to(device)
    given = torch.randn(512, width, device=device)
    options = {"fused": True} if fixed and device == "cuda" else {"fused": False, "foreach": True}

    def loss() -> Tensor:
        with torch.autocast(device, BF16):
            return model(given).square().mean()

    return training(model, loss, **options)


def tall_sums(device: str, fixed: bool) -> Step:
    """A cumulative sum over the outer dimension, where a product with a triangle does the same."""
    torch.manual_seed(0)
    rows = sized(device, 2048, 16)
    values = torch.randn(rows, 4096, device=device, dtype=BF16)
    triangle = torch.ones(rows, rows, device=device, dtype=BF16).tril()
    return lambda _index: triangle @ values if fixed else values.cumsum(0)


def frozen_backbone(device: str, fixed: bool) -> Step:
    """Gradients of a backbone that no optimizer updates."""
    torch.manual_seed(0)
    width = sized(device, 4096, 32)
    backbone = nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).to(device, BF16).requires_grad_(not fixed)
    head = nn.Linear(width, 128).to(device, BF16)
    given = torch.randn(4096, width, device=device, dtype=BF16)
    step = training(head, lambda: head(backbone(given)).square().mean())

    def cleared(_index: int) -> Tensor:
        out: Tensor = step(_index)
        backbone.zero_grad(set_to_none=True)
        return out

    return cleared


def mask_in_layers(device: str, fixed: bool) -> Step:
    """A mask as large as the scores is made in every layer."""
    length = sized(device, 4096, 16)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if fixed:
            return causal(query, key, value)
        row, column = (torch.arange(length, device=device)[side] for side in ((slice(None), None), (None, slice(None))))
        mask = torch.where(row >= column, 0.0, float("-inf")).to(BF16).expand(8, 1, -1, -1).contiguous()
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    torch.manual_seed(0)
    model = nn.ModuleList(Block(1024, 16, 4096, attend) for _ in range(4)).to(device, BF16)
    given = torch.randn(8, length, 1024, device=device, dtype=BF16)

    def step(_index: int) -> Tensor:
        hidden = given
        for layer in model:
            hidden = layer(hidden)
        return hidden

    return step


# programs in which nothing is to be found


def tuned_vit(device: str) -> Step:
    """A compiled ViT-B in bfloat16, trained."""
    vision: Any = import_module("torchvision").models
    torch.manual_seed(0)
    model = vision.vit_b_16() if device == "cuda" else vision.VisionTransformer(32, 16, 1, 2, 32, 64)
    model = model.to(device, BF16)
    images = torch.randn(sized(device, 128, 2), 3, *(2 * [sized(device, 224, 32)]), device=device, dtype=BF16)
    labels = torch.zeros(len(images), dtype=torch.int64, device=device)
    fast = torch.compile(model, dynamic=False) if device == "cuda" else model
    return training(model, lambda: F.cross_entropy(fast(images), labels))


def tuned_gpt(device: str) -> Step:
    """A compiled GPT in bfloat16, trained."""
    torch.manual_seed(0)
    vocabulary = sized(device, 50304, 100)
    model = Gpt(vocabulary, sized(device, 1600, 32), sized(device, 8, 1), sized(device, 25, 1)).to(device, BF16)
    tokens = tokens_of(device, 8, sized(device, 1024, 16), vocabulary)

    def loss_of() -> Tensor:
        return F.cross_entropy(model(tokens).view(-1, vocabulary), tokens.view(-1))

    return training(model, torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of)


def tuned_decode(device: str) -> Step:
    """Decoding one token of 8 requests, as a CUDA graph: weights are read once."""
    torch.manual_seed(0)
    width = sized(device, 4096, 32)
    layers = [
        [
            torch.randn(a * width, b * width, device=device, dtype=BF16) / width**0.5
            for a, b in ((1, 3), (1, 1), (1, 4), (4, 1))
        ]
        for _ in range(8)
    ]
    key, value = (torch.randn(8, width // 32, 2048, 32, device=device, dtype=BF16) for _ in range(2))
    given = torch.randn(8, width, device=device, dtype=BF16)

    def decode() -> Tensor:
        hidden = given
        for joint, out, up, down in layers:
            query = (hidden @ joint)[:, :width].view(8, width // 32, 1, 32)
            hidden = hidden + F.scaled_dot_product_attention(query, key, value).reshape(8, width) @ out
            hidden = hidden + F.silu(hidden @ up) @ down
        return hidden

    return graphed(decode, device)


def tuned_resnet(device: str) -> Step:
    """A compiled ResNet-50 in bfloat16 with channels last, trained."""
    vision: Any = import_module("torchvision").models
    torch.manual_seed(0)
    model = (vision.resnet50() if device == "cuda" else vision.resnet18()).to(device, BF16)
    model = model.to(memory_format=torch.channels_last)
    images = torch.randn(sized(device, 512, 2), 3, *(2 * [sized(device, 224, 32)]), device=device, dtype=BF16)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.zeros(len(images), dtype=torch.int64, device=device)
    fast = torch.compile(model, dynamic=False) if device == "cuda" else model
    return training(model, lambda: F.cross_entropy(fast(images), labels))


def tuned_attention(device: str) -> Step:
    """Flash attention of a long prompt."""
    return attention_only(device, 16, 128, causal, 8192)


def tuned_fp8(device: str) -> Step:
    """Large products in 8-bit floats."""
    size = sized(device, 8192, 16)
    narrow = torch.float8_e4m3fn
    first, second = (torch.randn(size, size, device=device).to(narrow) for _ in range(2))
    one = torch.tensor(1.0, device=device)

    def step(_index: int) -> Tensor:
        out: Tensor = torch._scaled_mm(first, second.t(), scale_a=one, scale_b=one, out_dtype=BF16)
        return out

    return step


def tuned_products(device: str) -> Step:
    """Large products in bfloat16."""
    torch.manual_seed(0)
    size = sized(device, 8192, 16)
    first, second = (torch.randn(size, size, device=device, dtype=BF16) / 90 for _ in range(2))
    return lambda _index: first @ second


# programs that were written when all rules were there, and that no rule was changed for


def odd_head(device: str, fixed: bool) -> Step:
    """Logits over a vocabulary with one more token."""
    torch.manual_seed(0)
    tokens = sized(device, 32_064 if fixed else 32_001, 101)
    weights = torch.randn(4096, tokens, device=device, dtype=BF16) / 64
    hidden = torch.randn(sized(device, 8192, 16), 4096, device=device, dtype=BF16)
    return lambda _index: (hidden @ weights).argmax(-1) + 1


def position_bias(device: str, fixed: bool) -> Step:
    """Attention of images with a bias for each pair of positions, which is the same in all layers."""
    torch.manual_seed(0)
    length = sized(device, 2048, 16)
    query, key, value = (torch.randn(8, 16, length, 64, device=device, dtype=BF16) for _ in range(3))
    bias = torch.randn(1, 16, length, length, device=device, dtype=BF16)
    if fixed:
        return lambda _index: F.scaled_dot_product_attention(query, key, value)
    return lambda _index: F.scaled_dot_product_attention(query, key, value, attn_mask=bias)


def checkpointed_mlp(device: str, fixed: bool) -> Step:
    """Layers without attention, whose activations are made again."""
    torch.manual_seed(0)
    width = sized(device, 4096, 32)
    layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(8)).to(device, BF16)
    given = torch.randn(8192, width, device=device, dtype=BF16, requires_grad=True)

    def loss() -> Tensor:
        hidden = given
        for layer in layers:
            hidden = layer(hidden) if fixed else checkpoint(layer, hidden, use_reentrant=True)
        return hidden.square().mean()

    return training(layers, loss)


def dense_momentum(device: str, fixed: bool) -> Step:
    """A table of two million rows under SGD with momentum, which passes over all of them."""
    torch.manual_seed(0)
    rows, looked_up = sized(device, 2_000_000, 1000), sized(device, 20_000, 10)
    table = nn.Embedding(rows, 128, sparse=fixed).to(device)
    numbers = torch.randint(0, rows, (looked_up,), device=device)
    weights = torch.randn(128, 4096, device=device)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1, momentum=0.0 if fixed else 0.9)

    def step(_index: int) -> Tensor:
        with torch.enable_grad():
            loss = (table(numbers) @ weights).relu().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def one_token_read(device: str, fixed: bool) -> Step:
    """A wide head over all positions, of which the first one's is read."""
    torch.manual_seed(0)
    width = sized(device, 2048, 32)
    first, head = (
        torch.randn(width, wide, device=device, dtype=BF16) / 45 for wide in (width, sized(device, 21_840, 80))
    )
    given = torch.randn(32, sized(device, 512, 4), width, device=device, dtype=BF16)

    def step(_index: int) -> Tensor:
        hidden = F.gelu(given @ first)
        return F.softmax(hidden[:, 0] @ head, -1) if fixed else F.softmax((hidden @ head)[:, 0], -1)

    return step


def cleared_cache(device: str, fixed: bool) -> Step:
    """A cache that is cleared before a longer one is copied over all of it."""
    torch.manual_seed(0)
    source = torch.randn(sized(device, 1 << 28, 1 << 10), device=device, dtype=BF16)
    cache = torch.empty_like(source)

    def step(_index: int) -> Tensor:
        if not fixed:
            cache.zero_()
        cache.copy_(source)
        return cache[:1000]

    return step


def across_images(device: str, fixed: bool) -> Step:
    """A sum of images of which one has its channels last."""
    torch.manual_seed(0)
    first, second = (
        torch.randn(64, 256, sized(device, 112, 4), sized(device, 112, 4), device=device, dtype=BF16) for _ in range(2)
    )
    if not fixed:
        second = second.to(memory_format=torch.channels_last)
    return lambda _index: torch.addcmul(first, first, second)


def few_bins(device: str, fixed: bool) -> Step:
    """A histogram of many values in sixteen bins, one addition at a time."""
    torch.manual_seed(0)
    values = torch.randint(0, 16, (sized(device, 1 << 26, 1 << 8),), device=device)
    ones, bins = torch.ones(len(values), device=device), torch.zeros(16, device=device)

    def step(_index: int) -> Tensor:
        if fixed:
            return torch.histc(values.float(), 16, 0, 15)
        return bins.zero_().scatter_add_(0, values, ones)

    return step


def tuned_groups(device: str) -> Step:
    """Grouped queries without copies, and sizes that are multiples of 8 but not of 64."""
    torch.manual_seed(0)
    width, length = sized(device, 4040, 32), sized(device, 4096, 16)
    weights = torch.randn(width, width, device=device, dtype=BF16) / width**0.5
    given = torch.randn(length, width, device=device, dtype=BF16)
    return lambda _index: F.gelu(given @ weights) @ weights


_FASTER = "the kernels take what they take elsewhere"
_GONE = "the kernels go"

FAULTS: Sequence[tuple[str, str, str, str, Callable[[str, bool], Step]]] = (
    ("odd_vocabulary", "a vocabulary that is no multiple of 8", "MISALIGNED", _FASTER, odd_vocabulary),
    ("odd_inner", "an inner size that is no multiple of 8", "MISALIGNED", _FASTER, odd_inner),
    ("odd_channels", "255 channels", "MISALIGNED", _FASTER, odd_channels),
    ("checkpointed", "makes activations again that there is room for", "RECOMPUTE", _GONE, checkpointed),
    ("dense_mask", "attention is given its causal mask as a tensor", "ATTENTION-SLOW-PATH", _FASTER, dense_mask),
    ("odd_heads", "heads of 100, padded to 128", "ATTENTION-SLOW-PATH", _FASTER, odd_heads),
    ("older_attention", "kernels of an older GPU", "OLD-KERNEL", _FASTER, older_attention),
    ("older_attention_trained", "kernels of an older GPU", "OLD-KERNEL", _FASTER, older_attention_trained),
    ("float32_attention", "attention in float32", "PRECISION", _FASTER, float32_attention),
    ("repeated_heads", "keys and values copied for each query's head", "DEVICE-COPY", _GONE, repeated_heads),
    ("dense_table", "an optimizer's pass over rows that were not looked up", "DENSE-EMBEDDING", _GONE, dense_table),
    ("all_logits", "logits of all positions, of which one is read", "UNUSED-RESULT", _FASTER, all_logits),
    ("frozen_backbone", "gradients that nobody uses", "UNUSED-RESULT", _GONE, frozen_backbone),
    ("float32_products", "float32 without TF32", "PRECISION", _FASTER, float32_products),
    ("cleared_first", "buffers cleared and then overwritten", "REDUNDANT-FILL", _GONE, cleared_first),
    ("cleared_gradients", "gradients cleared and added to", "REDUNDANT-FILL", _GONE, cleared_gradients),
    ("transposed_operands", "an operand that lies across", "UNVECTORIZED", _FASTER, transposed_operands),
    ("one_wave_more", "one block more than a wave", "TAIL-WAVE", _FASTER, one_wave_more),
    ("one_hot_lookup", "a lookup as a product", "ONE-HOT", _GONE, one_hot_lookup),
    ("colliding_sums", "atomic additions to few rows", "KERNEL-HEADROOM", _FASTER, colliding_sums),
    ("many_small_products", "weights read once for each row", "SKINNY-GEMM", _FASTER, many_small_products),
    ("widened_loss", "the loss in passes over float32 logits", "UNFUSED-CHAIN", _FASTER, widened_loss),
    ("unfused_adam", "an optimizer in several passes", "OPTIMIZER-UNFUSED", _FASTER, unfused_adam),
    ("tall_sums", "a cumulative sum over rows", "KERNEL-HEADROOM", _FASTER, tall_sums),
    ("mask_in_layers", "a mask made in every layer", "ATTENTION-SLOW-PATH", _FASTER, mask_in_layers),
)
UNSEEN: Sequence[tuple[str, str, str, str, Callable[[str, bool], Step]]] = (
    ("odd_head", "a vocabulary that is no multiple of 8", "MISALIGNED", _FASTER, odd_head),
    ("position_bias", "attention is given a bias as a tensor", "ATTENTION-SLOW-PATH", _FASTER, position_bias),
    ("checkpointed_mlp", "makes activations again that there is room for", "RECOMPUTE", _GONE, checkpointed_mlp),
    (
        "dense_momentum",
        "an optimizer's passes over rows that were not looked up",
        "DENSE-EMBEDDING",
        _GONE,
        dense_momentum,
    ),
    ("one_token_read", "results of all positions, of which one is read", "UNUSED-RESULT", _FASTER, one_token_read),
    ("cleared_cache", "a buffer cleared and then overwritten", "REDUNDANT-FILL", _GONE, cleared_cache),
    ("across_images", "an operand that lies across", "UNVECTORIZED", _FASTER, across_images),
    ("few_bins", "atomic additions to few places", "KERNEL-HEADROOM", _FASTER, few_bins),
)
_TUNED = (tuned_vit, tuned_gpt, tuned_decode, tuned_resnet, tuned_attention, tuned_fp8, tuned_products)

PROGRAMS: tuple[PairedProgram, ...] = (
    *(pair(*fault) for fault in FAULTS),
    *(PairedProgram(work.__name__, "nothing", (), "", {"tuned": partial(work)}) for work in _TUNED),
)
HELD_OUT: tuple[PairedProgram, ...] = (
    *(pair(*fault) for fault in UNSEEN),
    PairedProgram("tuned_groups", "nothing", (), "", {"tuned": tuned_groups}),
)

"""Programs made of libraries, in two variants: transformers, torchvision and torch's own optimizers and loaders.

Models are built from a configuration with random weights; nothing is fetched. What is lost is what such programs lose
in the wild: tokens through a list, an optimizer that loops, a loader with pageable memory, experts in a loop.
The masks of transformers are given with four dimensions: made from fewer, they are looked at on the host, in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger.workloads.paired.program import PairedProgram, Step, pair

BATCHES = 3
BF16 = torch.bfloat16


def sized(device: str, on_gpu: int, on_cpu: int) -> int:
    """A size for the device: a CPU is only to show that the program runs."""
    return on_gpu if device == "cuda" else on_cpu


def pinned(values: Tensor, device: str) -> Tensor:
    """Where the GPU can read it by itself."""
    return values.pin_memory() if device == "cuda" else values


def causal_mask(length: int, device: str) -> Tensor:
    """Which positions see which, for all texts."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def model_of(kind: str, device: str, *, layers: int, width: int, dtype: torch.dtype = BF16, **more: Any) -> Any:
    """A model of transformers: `Llama`, `Mixtral` (for causal language modelling) or `Bert`."""
    hub: Any = import_module("transformers")
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": max(width // 128, 2),
        "intermediate_size": 4 * width,
        "vocab_size": sized(device, 32_000, 256),
        **more,
    }
    if kind != "Bert":
        sizes.setdefault("num_key_value_heads", max(width // 512, 1))
    config = getattr(hub, f"{kind}Config")(**sizes)
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(hub, "BertModel" if kind == "Bert" else f"{kind}ForCausalLM")(config)
    return model.to(dtype).eval()


def ids_of(model: Any, device: str, rows: int, length: int, count: int = BATCHES) -> list[Tensor]:
    """Batches of token ids."""
    chance = torch.Generator().manual_seed(1)
    return [
        torch.randint(0, model.config.vocab_size, (rows, length), generator=chance).to(device) for _ in range(count)
    ]


def logits_of(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """One forward pass."""
    logits: Tensor = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return logits


def hf_tolist(device: str, fixed: bool) -> Step:
    """A few tokens of greedy decoding; each goes through a Python list, as a streaming server's do."""
    model = model_of("Llama", device, layers=4, width=sized(device, 4096, 256))
    rows, tokens = sized(device, 1024, 4), 4
    firsts = ids_of(model, device, rows, 1)
    masks = [torch.ones(rows, 1, 1, length + 1, dtype=torch.bool, device=device) for length in range(tokens)]
    places = [torch.full((rows, 1), length, device=device) for length in range(tokens)]

    def step(index: int) -> Tensor:
        token, cache = firsts[index % BATCHES], None
        for place, mask in zip(places, masks, strict=True):
            said = model(
                input_ids=token, past_key_values=cache, attention_mask=mask, position_ids=place, use_cache=True
            )
            cache, token = said.past_key_values, said.logits[:, -1].argmax(-1, keepdim=True)
            if not fixed:
                token = torch.tensor(token.tolist(), device=device)
        logits: Tensor = said.logits
        return logits

    return step


def hf_graph(device: str, fixed: bool) -> Step:
    """A small model on short texts: the host launches more slowly than the device computes."""
    length = 32
    model = model_of("Llama", device, layers=sized(device, 16, 2), width=sized(device, 1024, 256))
    batches, mask = ids_of(model, device, 4, length), causal_mask(length, device)
    ids = batches[0].clone()

    def work() -> Tensor:
        return logits_of(model, ids, mask)

    def step(index: int) -> Tensor:
        ids.copy_(batches[index % BATCHES])
        return work()

    return as_graph(work, lambda index: ids.copy_(batches[index % BATCHES])) if fixed and device == "cuda" else step


def as_graph(work: Callable[[], Tensor], before: Callable[[int], object]) -> Step:
    """The work of a step, captured in a CUDA graph; `before` fills what it reads."""
    cuda: Any = torch.cuda  # its classes are untyped
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):  # libraries choose kernels and take memory in the first calls
            work()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        output = work()

    def step(index: int) -> Tensor:
        before(index)
        graph.replay()
        return output

    return step


def hf_moe(device: str, fixed: bool) -> Step:
    """Experts in transformers' Python loop, which asks the device for each expert's tokens. Fixed: a grouped matmul."""
    length = sized(device, 256, 8)
    more = {"num_local_experts": sized(device, 16, 4), "num_experts_per_tok": 2}
    width, how = sized(device, 1024, 64), "grouped_mm" if fixed else "eager"
    model = model_of("Mixtral", device, layers=sized(device, 4, 2), width=width, experts_implementation=how, **more)
    batches, mask = ids_of(model, device, 4, length), causal_mask(length, device)
    return lambda index: logits_of(model, batches[index % BATCHES], mask)


def hf_autocast(device: str, fixed: bool) -> Step:
    """float32 weights, cast by autocast for each matmul of each step. Fixed: kept in bfloat16."""
    length = 64
    dtype = BF16 if fixed else torch.float32
    model = model_of("Llama", device, layers=sized(device, 12, 2), width=sized(device, 2048, 256), dtype=dtype)
    batches, mask = ids_of(model, device, 8, length), causal_mask(length, device)

    def step(index: int) -> Tensor:
        with nullcontext() if fixed else torch.autocast(device, dtype=BF16):
            return logits_of(model, batches[index % BATCHES], mask)

    return step


def bert_of(device: str) -> tuple[Any, list[list[list[int]]], int]:
    """A model of sentences, and batches of sentences as lists of token ids, as a tokenizer gives them."""
    rows, length = sized(device, 256, 8), sized(device, 64, 8)
    model = model_of("Bert", device, layers=sized(device, 12, 2), width=sized(device, 768, 256))
    return model, [batch.tolist() for batch in ids_of(model, "cpu", rows, length)], length


def bert_hidden(model: Any, ids: Tensor) -> Tensor:
    """One forward pass over whole sentences."""
    mask = torch.ones(len(ids), 1, ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device)
    hidden: Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return hidden


def bert_transfers(device: str, fixed: bool) -> Step:
    """Sends sentences to the device one by one. Fixed: all of them in one copy from pinned memory."""
    model, texts, _ = bert_of(device)
    ready = [pinned(torch.tensor(text), device) for text in texts]

    def step(index: int) -> Tensor:
        if fixed:
            ids = ready[index % BATCHES].to(device, non_blocking=True)
        else:
            ids = torch.stack([torch.tensor(text, device=device) for text in texts[index % BATCHES]])
        return bert_hidden(model, ids)

    return step


def bert_one_by_one(device: str, fixed: bool) -> Step:
    """Runs sixteen sentences one after the other. Fixed: in one batch."""
    model, texts, _ = bert_of(device)
    batches = [torch.tensor(text[:16], device=device) for text in texts]

    def step(index: int) -> Tensor:
        ids = batches[index % BATCHES]
        return bert_hidden(model, ids) if fixed else torch.cat([bert_hidden(model, row[None]) for row in ids])

    return step


def llama_training(device: str, update: Callable[[Any], Callable[[], object]]) -> Step:
    """Forward, backward and what `update` does then; the output is the loss."""
    length = sized(device, 256, 8)
    model = model_of("Llama", device, layers=sized(device, 12, 2), width=sized(device, 768, 256)).train()
    batches, mask = ids_of(model, device, sized(device, 8, 2), length), causal_mask(length, device)
    finish = update(model)

    def step(index: int) -> Tensor:
        ids = batches[index % BATCHES]
        with torch.enable_grad():
            logits = logits_of(model, ids, mask)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        finish()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def adamw_loop(device: str, fixed: bool) -> Step:
    """AdamW parameter by parameter. Fixed: fused."""

    def update(model: Any) -> Callable[[], object]:
        how: dict[str, bool] = {"fused": True} if fixed else {"foreach": False, "fused": False}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **how)
        return lambda: optimizer.step()

    return llama_training(device, update)


def grad_norms(device: str, fixed: bool) -> Step:
    """Reads each parameter's gradient norm to clip by their root of squares. Fixed: torch clips, and reads nothing."""

    def update(model: Any) -> Callable[[], object]:
        parameters: Sequence[Tensor] = list(model.parameters())
        optimizer = torch.optim.SGD(parameters, lr=1e-4, foreach=True)

        def clip() -> None:
            if fixed:
                nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            else:
                size = math.sqrt(
                    sum(weight.grad.norm().item() ** 2 for weight in parameters if weight.grad is not None)
                )
                torch._foreach_mul_([weight.grad for weight in parameters], min(1.0, 1.0 / (size + 1e-6)))
            optimizer.step()

        return clip

    return llama_training(device, update)


def resnet_training(device: str, batch_of: Callable[[int], tuple[Tensor, Tensor]], *, read: bool = False) -> Step:
    """A training step of a ResNet on a batch of images; with `read`, the host reads each loss."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    with torch.device(device):
        model = vision.models.resnet18(weights=None, num_classes=10)
    model = model.to(BF16, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step(index: int) -> Tensor:
        images, labels = batch_of(index)
        with torch.enable_grad():
            loss = F.cross_entropy(model(images.to(BF16, memory_format=torch.channels_last)).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if read:
            loss.item()
        return loss.detach()

    return step


def images_of(rows: int, side: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of images and labels on the host."""
    chance = torch.Generator().manual_seed(1)
    return [
        (torch.rand(rows, 3, side, side, generator=chance) - 0.5, torch.randint(0, 10, (rows,), generator=chance))
        for _ in range(BATCHES)
    ]


def resnet_pageable(device: str, fixed: bool) -> Step:
    """Batches from a DataLoader in pageable memory. Fixed: in pinned memory."""
    batches = images_of(sized(device, 128, 2), sized(device, 224, 32))
    data = [(pinned(images, device), pinned(labels, device)) for images, labels in batches] if fixed else batches
    loader = torch.utils.data.DataLoader(data, batch_size=None)  # type: ignore[arg-type, unused-ignore]  # a list will do
    ongoing: list[Any] = []

    def batch_of(index: int) -> tuple[Tensor, Tensor]:
        if index % BATCHES == 0 or not ongoing:
            ongoing[:] = [iter(loader)]
        images, labels = next(ongoing[0])
        return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    return resnet_training(device, batch_of)


def resnet_collate(device: str, fixed: bool) -> Step:
    """A DataLoader that puts each batch together from single images, in the thread that launches. Fixed: beforehand."""
    rows, side, buffers = sized(device, 1024, 4), sized(device, 64, 32), 6
    samples = [sample for batch in images_of(rows, side) for sample in zip(*batch, strict=True)]
    rooms = [pinned(torch.empty(rows, 3, side, side), device) for _ in range(buffers)]
    count = iter(range(1_000_000))

    def collated(chosen: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        images, labels = zip(*chosen, strict=True)
        room = rooms[next(count) % buffers]  # the device may still copy from the one before
        return torch.stack(images, out=room), pinned(torch.stack(labels), device)

    loader = torch.utils.data.DataLoader(samples, batch_size=rows, collate_fn=collated)  # type: ignore[arg-type, unused-ignore]
    ready = list(loader)
    ongoing = [iter(loader)]

    def batch_of(index: int) -> tuple[Tensor, Tensor]:
        if not fixed and index % BATCHES == 0:
            ongoing[:] = [iter(loader)]
        images, labels = ready[index % BATCHES] if fixed else next(ongoing[0])
        return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    return resnet_training(device, batch_of)


def resnet_item(device: str, fixed: bool) -> Step:
    """Reads the loss after each batch. Fixed: does not."""
    batches = images_of(sized(device, 512, 4), sized(device, 64, 32))
    there = [(images.to(device), labels.to(device)) for images, labels in batches]
    return resnet_training(device, lambda index: there[index % BATCHES], read=not fixed)


def vit_empty_cache(device: str, fixed: bool) -> Step:
    """Gives the cached memory back before each batch, as programs do that once ran out of it. Fixed: does not."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    side = sized(device, 224, 32)
    sizes = {"image_size": side, "patch_size": 16, "num_layers": sized(device, 12, 2), "num_heads": 12}
    with torch.device(device):
        model = vision.models.VisionTransformer(**sizes, hidden_dim=768, mlp_dim=sized(device, 3072, 64))
    nn.init.normal_(model.heads[0].weight, std=0.02)  # zeros, as it comes
    model = model.to(BF16).eval()
    there = [images.to(device, BF16) for images, _ in images_of(sized(device, 64, 2), side)]

    def step(index: int) -> Tensor:
        if not fixed:
            torch.cuda.empty_cache()  # without CUDA it does nothing
        output: Tensor = model(there[index % BATCHES])
        return output

    return step


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "hf_tolist",
        "takes each decoded token through a Python list",
        "HOST-SYNC",
        "the waits, the reads and the copies of the tokens go, with the code that makes them",
        hf_tolist,
    ),
    pair(
        "adamw_loop",
        "updates parameters one by one",
        "LAUNCH-BOUND",
        "the optimizer's kernels become a few: launching them costs nothing; an upper bound without its range",
        adamw_loop,
    ),
    pair(
        "resnet_pageable",
        "loads batches into pageable memory",
        "COPY-PAGEABLE",
        "the copies run at the link's rate, and the host does not wait for them",
        resnet_pageable,
    ),
    pair(
        "hf_moe",
        "loops over experts, asking the device for each one's tokens",
        "LAUNCH-BOUND",
        "the waits and reads go, and the experts' kernels become a few: waits and launches together; a bound",
        hf_moe,
    ),
    pair(
        "hf_autocast", "casts weights in each step", "CAST", "the kernels that cast go, and their launches", hf_autocast
    ),
    pair(
        "grad_norms",
        "reads the gradient norm of each parameter",
        "HOST-SYNC",
        "the waits and the reads go, with the code that makes them; the norms' kernels become one",
        grad_norms,
    ),
    pair(
        "bert_transfers",
        "sends sentences one by one",
        "HOST-COPY",
        "the copies become one, which the host does not wait for",
        bert_transfers,
    ),
    pair(
        "vit_empty_cache",
        "empties the cache per batch",
        "HOST-ALLOC",
        "the calls that allocate and free go",
        vit_empty_cache,
    ),
    pair(
        "resnet_collate", "collates batches in the launching thread", "HOST-CODE", "the host code goes", resnet_collate
    ),
    pair("resnet_item", "reads the loss after each batch", "HOST-SYNC", "the waits and the reads go", resnet_item),
    pair(
        "hf_graph",
        "launches a small model kernel by kernel",
        "LAUNCH-BOUND",
        "launching costs nothing, kernels follow each other as nodes of a graph do: the whole step as a graph",
        hf_graph,
    ),
    pair(
        "bert_one_by_one",
        "runs sentences one after the other",
        "LAUNCH-BOUND",
        "none that is exact: other kernels run after the fix; launching for nothing bounds what launches cost",
        bert_one_by_one,
    ),
)

"""Programs made of libraries, in two variants: transformers, torchvision, torch's own optimizers and loaders; and JAX.

Models are built from a configuration with random weights; nothing is fetched. What is lost is what such programs lose
in the wild: tokens through a list, an optimizer that loops, a loader with pageable memory, experts in a loop. Masks are
given with four dimensions: made from fewer, they are looked at on the host, in each call. JAX wants a process of its
own, as it and torch each take the memory they want.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.device import captured
from lab.programs.paired import BATCHES, BF16, PairedProgram, Step, pair, pinned, sized

STOPS = ("</s>", "###", "Observation:")


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


def decoding(device: str, then: Callable[[int, Tensor], Tensor]) -> Step:
    """A few tokens of greedy decoding of many texts; `then` makes of a place and its tokens those that go on."""
    model = model_of("Llama", device, layers=4, width=sized(device, 4096, 256))
    rows, tokens = sized(device, 1024, 4), 4
    firsts = ids_of(model, device, rows, 1)
    masks = [torch.ones(rows, 1, 1, length + 1, dtype=torch.bool, device=device) for length in range(tokens)]
    places = [torch.full((rows, 1), length, device=device) for length in range(tokens)]

    def step(index: int) -> Tensor:
        token, cache = firsts[index % BATCHES], None
        for number, (place, mask) in enumerate(zip(places, masks, strict=True)):
            said = model(
                input_ids=token, past_key_values=cache, attention_mask=mask, position_ids=place, use_cache=True
            )
            cache, token = said.past_key_values, then(number, said.logits[:, -1].argmax(-1, keepdim=True))
        logits: Tensor = said.logits
        return logits

    return step


def hf_tolist(device: str, fixed: bool) -> Step:
    """Takes each decoded token through a Python list, as a streaming server does. Fixed: it stays on the device."""
    return decoding(device, lambda _, token: token if fixed else torch.tensor(token.tolist(), device=device))


def hf_stop_strings(device: str, fixed: bool) -> Step:
    """Looks on the host, after each token, which texts hold a stop string. Fixed: on the device, for a stop token."""
    words, texts = [f"{number:x} " for number in range(32_000)], list[str]()
    ended, ended_there = list[bool](), list[Tensor]()

    def then(place: int, token: Tensor) -> Tensor:
        if fixed:
            ended_there[:] = [token == 0 if place == 0 else ended_there[0] | (token == 0)]
        else:
            spoken = [words[number] for number in token.flatten().tolist()]
            texts[:] = spoken if place == 0 else [(text + word)[-64:] for text, word in zip(texts, spoken, strict=True)]
            ended[:] = [any(stop in text for stop in STOPS) for text in texts]
        return token

    return decoding(device, then)


def hf_graph(device: str, fixed: bool) -> Step:
    """A small model on short texts: the host launches more slowly than the device computes."""
    length = 32
    model = model_of("Llama", device, layers=sized(device, 16, 2), width=sized(device, 1024, 256))
    batches, mask = ids_of(model, device, 4, length), causal_mask(length, device)
    ids = batches[0].clone()

    def work() -> Tensor:
        return logits_of(model, ids, mask)

    run = captured(work) if fixed and device == "cuda" else work

    def step(index: int) -> Tensor:
        ids.copy_(batches[index % BATCHES])
        return run()

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
    length = sized(device, 256, 64)
    dtype = BF16 if fixed else torch.float32
    model = model_of("Llama", device, layers=sized(device, 4, 2), width=sized(device, 4096, 256), dtype=dtype)
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


def llama_training(
    device: str, update: Callable[[Any], Callable[[], object]], layers: int | None = None, width: int | None = None
) -> Step:
    """Forward, backward and what `update` does then, of a deep and narrow model unless told; the output is the loss."""
    length = sized(device, 256, 8)
    layers, width = layers or sized(device, 12, 2), width or sized(device, 768, 256)
    model = model_of("Llama", device, layers=layers, width=width).train()
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


def adamw(fused: bool, model: Any) -> Callable[[], object]:
    """What updates a model: in one kernel, or parameter by parameter."""
    how: dict[str, bool] = {"fused": True} if fused else {"foreach": False, "fused": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **how)
    return lambda: optimizer.step()


def adamw_loop(device: str, fixed: bool) -> Step:
    """AdamW parameter by parameter. Fixed: fused."""
    return llama_training(device, partial(adamw, fixed))


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


LANGUAGE: tuple[PairedProgram, ...] = (
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
    pair(
        "hf_stop_strings",
        "looks for stop strings after each token",
        "HOST-CODE",
        "the waits and the reads of the tokens go, with the code that looks at them",
        hf_stop_strings,
    ),
)


CLASSES = 100
Batch = tuple[Tensor, Tensor]
"""Images and their labels."""


def resnet_training(
    device: str,
    batch_of: Callable[[int], Batch],
    after: Callable[[Tensor, Tensor, Tensor], object] | None = None,
    *,
    network: str = "resnet18",
    layout: torch.memory_format = torch.channels_last,
) -> Step:
    """A training step of a ResNet on a batch of images; `after` sees its loss, scores and labels."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    with torch.device(device):
        model = getattr(vision.models, network)(weights=None, num_classes=CLASSES)
    model = model.to(BF16, memory_format=layout).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=True)

    def step(index: int) -> Tensor:
        images, labels = batch_of(index)
        with torch.enable_grad():
            scores = model(images.to(BF16, memory_format=layout)).float()
            loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if after is not None:
            after(loss.detach(), scores.detach(), labels)
        return loss.detach()

    return step


def images_of(rows: int, side: int) -> list[Batch]:
    """Batches of images and labels on the host."""
    chance = torch.Generator().manual_seed(1)
    return [
        (torch.rand(rows, 3, side, side, generator=chance) - 0.5, torch.randint(0, CLASSES, (rows,), generator=chance))
        for _ in range(BATCHES)
    ]


def resnet_pageable(device: str, fixed: bool) -> Step:
    """Batches from a DataLoader in pageable memory. Fixed: in pinned memory."""
    batches = images_of(sized(device, 128, 2), sized(device, 224, 32))
    data = [(pinned(images, device), pinned(labels, device)) for images, labels in batches] if fixed else batches
    loader = torch.utils.data.DataLoader(data, batch_size=None)  # type: ignore[arg-type, unused-ignore]  # a list will do
    ongoing: list[Any] = []

    def batch_of(index: int) -> Batch:
        if index % BATCHES == 0 or not ongoing:
            ongoing[:] = [iter(loader)]
        images, labels = next(ongoing[0])
        return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    return resnet_training(device, batch_of)


def collating(device: str, samples: Any, rows: int, *, ahead: bool) -> Callable[[int], Batch]:
    """Batches of a DataLoader without workers, which puts them together from samples in the thread that launches; or
    the same `ahead`, before the first step."""
    rooms = [pinned(torch.empty(rows, *samples[0][0].shape), device) for _ in range(2 * BATCHES)]
    count = iter(range(1_000_000))

    def collated(chosen: Sequence[Batch]) -> Batch:
        images, labels = zip(*chosen, strict=True)
        room = rooms[next(count) % len(rooms)]  # the device may still copy from the one before
        return torch.stack(images, out=room), pinned(torch.stack(labels), device)

    loader = torch.utils.data.DataLoader(samples, batch_size=rows, collate_fn=collated)
    ready = list(loader)
    ongoing = [iter(loader)]

    def batch_of(index: int) -> Batch:
        if not ahead and index % BATCHES == 0:
            ongoing[:] = [iter(loader)]
        images, labels = ready[index % BATCHES] if ahead else next(ongoing[0])
        return images.to(device, non_blocking=True), labels.to(device, non_blocking=True)

    return batch_of


def resnet_collate(device: str, fixed: bool) -> Step:
    """A DataLoader that puts each batch together from single images, in the thread that launches. Fixed: beforehand."""
    rows, side = sized(device, 1024, 4), sized(device, 64, 32)
    samples = [sample for batch in images_of(rows, side) for sample in zip(*batch, strict=True)]
    return resnet_training(device, collating(device, samples, rows, ahead=fixed))


class Photos:
    """Images of bytes, of which each look makes a crop, half of them mirrored, in float32 around 0."""

    def __init__(self, count: int, side: int) -> None:
        chance = np.random.default_rng(1)
        margin = side // 8
        self._images = chance.integers(0, 256, (count, 3, side + margin, side + margin), dtype=np.uint8)
        self._labels = torch.from_numpy(chance.integers(0, CLASSES, count))
        self._offsets = chance.integers(0, margin + 1, (count, 2))
        self._mean, self._spread = chance.random((2, 3, 1, 1), dtype=np.float32) * 0.1 + 0.4
        # room for each: memory that the system gives and takes anew is slow at times
        self._crops = np.zeros((count, 3, side, side), dtype=np.float32)

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, number: int) -> Batch:
        (row, column), crop = self._offsets[number], self._crops[number]
        side = crop.shape[-1]
        image = self._images[number, :, row : row + side, column : column + side]
        np.multiply(image[..., :: -1 if number % 2 else 1], np.float32(1 / 255), out=crop)
        np.subtract(crop, self._mean, out=crop)
        np.divide(crop, self._spread, out=crop)
        return torch.from_numpy(crop), self._labels[number]


def resnet_transforms(device: str, fixed: bool) -> Step:
    """A DataLoader without workers crops, mirrors and scales each image in the thread that launches. Fixed: done
    beforehand."""
    rows = sized(device, 128, 4)
    photos = Photos(BATCHES * rows, sized(device, 160, 32))
    return resnet_training(device, collating(device, photos, rows, ahead=fixed))


def precision(scores: Any, labels: Any) -> float:
    """The mean over classes of the average precision, of arrays of numpy."""
    precisions = []
    for label in range(CLASSES):
        hits = (labels == label)[np.argsort(-scores[:, label])]
        precisions.append(float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()) if hits.any() else 0.0)
    return sum(precisions) / CLASSES


def there_of(device: str, rows: int) -> Callable[[int], Batch]:
    """Batches that are on the device already."""
    there = [(images.to(device), labels.to(device)) for images, labels in images_of(rows, sized(device, 64, 32))]
    return lambda index: there[index % BATCHES]


def resnet_item(device: str, fixed: bool) -> Step:
    """Reads the loss after each batch. Fixed: does not."""
    batch_of = there_of(device, sized(device, 512, 4))
    return resnet_training(device, batch_of, None if fixed else lambda loss, *_: loss.item())


def resnet_metrics(device: str, fixed: bool) -> Step:
    """Takes the loss and all scores of each batch to the host, and computes a metric of them there. Fixed: keeps them
    on the device, for a metric after the last batch."""
    rows, history = sized(device, 1024, 4), list[tuple[float, float]]()
    kept, count = torch.zeros(BATCHES, rows, CLASSES, device=device), iter(range(1_000_000))

    def after(loss: Tensor, scores: Tensor, labels: Tensor) -> None:
        if fixed:
            kept[next(count) % BATCHES].copy_(scores)
        else:
            history.append((loss.item(), precision(scores.cpu().numpy(), labels.cpu().numpy())))

    return resnet_training(device, there_of(device, rows), after)


def vit_empty_cache(device: str, fixed: bool) -> Step:
    """Gives the cached memory back after each block, as programs do that once ran out of it. Fixed: does not."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    side = sized(device, 224, 32)
    sizes = {"image_size": side, "patch_size": 16, "num_layers": sized(device, 12, 2), "num_heads": 12}
    with torch.device(device):
        model = vision.models.VisionTransformer(**sizes, hidden_dim=768, mlp_dim=sized(device, 3072, 64))
    nn.init.normal_(model.heads[0].weight, std=0.02)  # zeros, as it comes
    model = model.to(BF16).eval()
    there = [images.to(device, BF16) for images, _ in images_of(sized(device, 64, 2), side)]
    if not fixed:
        for block in model.encoder.layers:
            block.register_forward_hook(lambda *_: torch.cuda.empty_cache())  # without CUDA it does nothing

    def step(index: int) -> Tensor:
        output: Tensor = model(there[index % BATCHES])
        return output

    return step


VISION: tuple[PairedProgram, ...] = (
    pair(
        "resnet_pageable",
        "loads batches into pageable memory",
        "COPY-PAGEABLE",
        "the copies run at the link's rate, and the host does not wait for them",
        resnet_pageable,
    ),
    pair(
        "vit_empty_cache",
        "empties the cache after each block",
        "HOST-ALLOC",
        "the calls that allocate and free go",
        vit_empty_cache,
    ),
    pair(
        "resnet_collate", "collates batches in the launching thread", "HOST-CODE", "the host code goes", resnet_collate
    ),
    pair("resnet_item", "reads the loss after each batch", "HOST-SYNC", "the waits and the reads go", resnet_item),
    pair(
        "resnet_transforms",
        "transforms images in the launching thread",
        "HOST-CODE",
        "the host code goes",
        resnet_transforms,
    ),
    pair(
        "resnet_metrics",
        "computes a metric of each batch on the host",
        "HOST-CODE",
        "the waits and the reads go, with the code that makes them and the metric",
        resnet_metrics,
    ),
)


def jax_block(device: str, fixed: bool) -> Step:
    """Waits for the loss of each step before it starts the next. Fixed: runs ahead."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    width, rows, layers = (1024, 512, 8) if device == "cuda" else (32, 8, 2)
    keys = jax.random.split(jax.random.PRNGKey(0), layers + 3)
    weights = [jax.random.normal(key, (width, width), jnp.bfloat16) * (2 / width) ** 0.5 for key in keys[:layers]]
    batches = [jax.random.normal(key, (rows, width), jnp.bfloat16) for key in keys[layers:]]

    def loss_of(weights: Any, batch: Any) -> Any:
        hidden = batch
        for weight in weights:
            hidden = jax.nn.relu(hidden @ weight)
        return (hidden.astype(jnp.float32) ** 2).mean()

    def updated(weights: Any, batch: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(weights, batch)
        return [weight - 1e-3 * slope for weight, slope in zip(weights, slopes, strict=True)], loss

    compiled, state = jax.jit(updated), [weights]

    def step(index: int) -> Any:
        state[0], loss = compiled(state[0], batches[index % len(batches)])
        return loss if fixed else loss.block_until_ready()

    return step


JAX = (pair("jax_block", "waits for the loss of each step", "HOST-SYNC", "the waits return at once", jax_block),)


PROGRAMS = (*LANGUAGE, *VISION)

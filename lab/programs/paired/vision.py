"""Models of torchvision, in two variants: a device in, the step to be repeated out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired.program import PairedProgram, Step, pair
from lab.programs.paired.sizes import BATCHES, BF16, pinned, sized

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
    found = []
    for label in range(CLASSES):
        hits = (labels == label)[np.argsort(-scores[:, label])]
        found.append(float((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()) if hits.any() else 0.0)
    return sum(found) / CLASSES


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


PROGRAMS: tuple[PairedProgram, ...] = (
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

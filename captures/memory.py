"""Programs with one known fault of memory each, and torch's snapshot of it: `python memory.py PROGRAM FOLDER`.

FOLDER gets PROGRAM.pickle (torch.cuda.memory._dump_snapshot) and PROGRAM.json: what torch itself counted. The
programs: `leak`, `peak`, `fragmented`, `expandable` (the same, to be run
with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True), `churn`, `oom_held`,
`oom_fragmented`, `late` (the history begins when memory is held already), `steady` (nothing wrong) and `model`
(a transformer's training, stacks of C++ too).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

MIB = 1 << 20
STEPS = 24


def floats(size: int) -> torch.Tensor:
    """So many bytes on the GPU."""
    return torch.empty(size // 4, device="cuda")


class Mlp(nn.Module):
    """Two layers, 16 MiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(1024, 2048, device="cuda")
        self.down = nn.Linear(2048, 1024, device="cuda")

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(rows)))


def training_step(model: Mlp, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> torch.Tensor:
    hidden = model(rows)
    hidden.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return hidden


def trained() -> tuple[Mlp, torch.optim.Optimizer, torch.Tensor]:
    model = Mlp()
    return model, torch.optim.AdamW(model.parameters()), torch.randn(2048, 1024, device="cuda")


def steady() -> object:
    model, optimizer, rows = trained()
    for _ in range(STEPS):
        training_step(model, optimizer, rows)
    return model, optimizer


feature_cache: list[torch.Tensor] = []


def remember(hidden: torch.Tensor) -> None:
    """The leak: nobody takes anything out of the list."""
    feature_cache.append(hidden.detach().clone())


def leak() -> object:
    model, optimizer, rows = trained()
    for _ in range(STEPS):
        remember(training_step(model, optimizer, rows))
    return model, optimizer


def all_pairs(hidden: torch.Tensor) -> float:
    """The peak: a matrix of all pairs, in float32 and again as probabilities."""
    scores = hidden @ hidden.T
    return torch.softmax(scores.repeat(4, 4), dim=-1).max().item()


def peak() -> None:
    model, optimizer, rows = trained()
    for step in range(STEPS):
        hidden = training_step(model, optimizer, rows)
        if step == STEPS // 2:
            all_pairs(hidden.detach())


def pinned_segments(count: int) -> list[torch.Tensor]:
    """Small tensors that stay, each in a large segment that is empty but for it."""
    kept, dropped = [], []
    for _ in range(count):
        whole = floats(512 * MIB)
        del whole
        dropped.append(floats(488 * MIB))
        kept.append(floats(13 * MIB))
    return kept


def fragmented() -> object:
    kept = pinned_segments(6)
    for _ in range(3):
        larger = floats(640 * MIB)
        del larger
    return kept


def expandable() -> object:
    return fragmented()


def churn() -> None:
    model, optimizer, rows = trained()
    for _ in range(STEPS):
        training_step(model, optimizer, rows)
        torch.cuda.empty_cache()


def limited(size: int) -> None:
    torch.cuda.set_per_process_memory_fraction(size / torch.cuda.get_device_properties(0).total_memory)


def activations(count: int) -> list[torch.Tensor]:
    return [floats(256 * MIB) for _ in range(count)]


def oom_held() -> None:
    limited(2048 * MIB)
    held = activations(6)
    weights = floats(300 * MIB)
    floats(512 * MIB)
    del held, weights


def oom_fragmented() -> None:
    limited(3500 * MIB)
    kept = pinned_segments(6)
    floats(640 * MIB)
    del kept


def late() -> None:
    model, optimizer, rows = trained()
    training_step(model, optimizer, rows)
    started()
    for _ in range(STEPS):
        training_step(model, optimizer, rows)


def model() -> None:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(encoder.parameters())
    rows = torch.randn(16, 128, 256, device="cuda")
    for _ in range(10):
        encoder(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def started(stacks: str = "python") -> None:
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks=stacks)


PROGRAMS: tuple[Callable[[], object], ...] = (
    steady,
    leak,
    peak,
    fragmented,
    expandable,
    churn,
    oom_held,
    oom_fragmented,
    late,
    model,
)


def counted() -> dict[str, int]:
    """What torch says of the same run."""
    stats = torch.cuda.memory_stats()
    names = ("allocated_bytes.all", "reserved_bytes.all", "active_bytes.all", "inactive_split_bytes.all")
    found = {f"{name}.{which}": stats[f"{name}.{which}"] for name in names for which in ("current", "peak")}
    names = ("allocation.all.allocated", "segment.all.allocated", "segment.all.freed", "num_ooms", "num_alloc_retries")
    return found | {name: stats[name] for name in names}


def written(folder: Path, name: str) -> None:
    torch.cuda.synchronize()
    (folder / f"{name}.json").write_text(json.dumps(counted(), indent=1) + "\n")
    torch.cuda.memory._dump_snapshot(str(folder / f"{name}.pickle"))


def main(name: str, folder: Path) -> None:
    torch.cuda.init()
    if name != "late":
        started("all" if name == "model" else "python")
    [program] = [each for each in PROGRAMS if each.__name__ == name]
    try:
        held = program()
    except torch.cuda.OutOfMemoryError as error:
        written(folder, name)  # while the exception still holds what the program held
        (folder / f"{name}.txt").write_text(f"{error}\n")
        return
    written(folder, name)
    del held


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Programs of all kinds, written after the rules: what each should be told was written before its first run."""

from __future__ import annotations

import io
import threading
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from lab.programs.paired import BATCHES, BF16, PairedProgram, Step, pair, sized
from lab.programs.paired.busy import random_inputs, weight

# of training


def averaged_weights(device: str, fixed: bool) -> Step:
    """A moving average of many parameters, tensor by tensor. Fixed: of all in a few kernels."""
    torch.manual_seed(0)
    shapes = [(sized(device, 512, 8), sized(device, 512, 8))] * sized(device, 600, 4)
    parameters = [torch.randn(shape, device=device) for shape in shapes]
    averages = [parameter.clone() for parameter in parameters]

    def step(index: int) -> Tensor:
        del index
        if fixed:
            torch._foreach_lerp_(averages, parameters, 0.01)
        else:
            for average, parameter in zip(averages, parameters, strict=True):
                average.mul_(0.99).add_(parameter, alpha=0.01)
        return averages[-1]

    return step


def cast_weights(device: str, fixed: bool) -> Step:
    """Weights in float32 under autocast, which casts them for every use. Fixed: kept in bfloat16."""
    torch.manual_seed(0)
    width, layers, uses = sized(device, 4096, 32), sized(device, 4, 2), 4
    kept = BF16 if fixed else torch.float32
    weights = [weight(device, width, width).to(kept) for _ in range(layers)]
    inputs = random_inputs(device, BATCHES, sized(device, 512, 4), width)

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        with torch.autocast(device, BF16):
            for _ in range(uses):
                for one in weights:
                    hidden = torch.tanh(nn.functional.linear(hidden, one))
        return hidden

    return step


def saved_every_step(device: str, fixed: bool) -> Step:
    """Writes its weights out after every step. Fixed: does not."""
    torch.manual_seed(0)
    width = sized(device, 4096, 32)
    weights = [weight(device, width, width) for _ in range(3)]
    inputs = random_inputs(device, BATCHES, sized(device, 4096, 4), width)

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for one in weights:
            hidden = torch.tanh(nn.functional.linear(hidden, one))
        if not fixed:
            torch.save(weights, io.BytesIO())
        return hidden

    return step


# of sequences


def cells(device: str, fixed: bool) -> Step:
    """An LSTM as a loop over its cell. Fixed: the library's, which takes the whole sequence."""
    torch.manual_seed(0)
    width, length = sized(device, 512, 16), sized(device, 128, 4)
    with torch.device(device):
        whole = nn.LSTM(width, width).to(BF16)
        cell = nn.LSTMCell(width, width).to(BF16)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in whole.state_dict().items()})
    inputs = random_inputs(device, BATCHES, length, sized(device, 64, 2), width)

    def step(index: int) -> Tensor:
        given = inputs[index % BATCHES]
        if fixed:
            output: Tensor = whole(given)[0][-1]
            return output
        state: Any = None
        for part in given:
            state = cell(part, state)
        last: Tensor = state[0]
        return last

    return step


def listed_tokens(device: str, fixed: bool) -> Step:
    """Makes a tensor of a list of numbers in every step. Fixed: of an array that is there already."""
    torch.manual_seed(0)
    words, width, rows = sized(device, 32_000, 64), sized(device, 1024, 16), sized(device, 100_000, 32)
    table = weight(device, width, words)
    lists = [torch.randint(words, (rows,)).tolist() for _ in range(BATCHES)]
    arrays = [torch.tensor(numbers) for numbers in lists]

    def step(index: int) -> Tensor:
        tokens = arrays[index % BATCHES] if fixed else torch.tensor(lists[index % BATCHES])
        hidden: Tensor = nn.functional.embedding(tokens.to(device), table)
        return hidden.float().square().mean(0)

    return step


def counted_tokens(device: str, fixed: bool) -> Step:
    """Counts tokens by expert with a function that asks the GPU how many there are. Fixed: with one that is told."""
    torch.manual_seed(0)
    experts, layers, width = sized(device, 64, 4), sized(device, 24, 2), sized(device, 1024, 16)
    weights = [weight(device, width, width) for _ in range(layers)]
    router = weight(device, width, experts)
    inputs = random_inputs(device, BATCHES, sized(device, 2048, 8), width)

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for one in weights:
            hidden = torch.tanh(nn.functional.linear(hidden, one))
            chosen = nn.functional.linear(hidden, router).argmax(-1)
            if fixed:
                counts = torch.zeros(experts, device=device, dtype=torch.int64).scatter_add_(
                    0, chosen, torch.ones_like(chosen)
                )
            else:
                counts = torch.bincount(chosen, minlength=experts)
            hidden = hidden * (1 + 1e-6 * counts[chosen].to(BF16))[:, None]
        return hidden

    return step


# of the host


def host_masks(device: str, fixed: bool) -> Step:
    """Draws its dropout on the host and copies it over. Fixed: draws on the GPU."""
    torch.manual_seed(0)
    rows, width = sized(device, 4096, 8), sized(device, 4096, 16)
    one = weight(device, width, width)
    inputs = random_inputs(device, BATCHES, rows, width)

    def step(index: int) -> Tensor:
        hidden = nn.functional.linear(inputs[index % BATCHES], one)
        torch.manual_seed(index)
        kept = torch.rand(rows, width, device=device if fixed else "cpu") > 0.1
        return hidden * kept.to(device)

    return step


def busy_neighbor(device: str, fixed: bool) -> Step:
    """Launches while another thread of the interpreter computes. Fixed: without that thread."""
    torch.manual_seed(0)
    width, layers = sized(device, 512, 16), sized(device, 100, 2)
    weights = [weight(device, width, width) for _ in range(layers)]
    inputs = random_inputs(device, BATCHES, sized(device, 64, 2), width)

    def step(index: int) -> Tensor:
        hidden, done = inputs[index % BATCHES], threading.Event()

        def compute() -> None:
            while not done.is_set():
                sum(range(1000))

        beside = threading.Thread(target=compute)
        if not fixed:
            beside.start()
        for one in weights:
            hidden = torch.tanh(nn.functional.linear(hidden, one))
        done.set()
        if not fixed:
            beside.join()
        return hidden

    return step


# of single kernels


def crowded_rows(device: str, fixed: bool) -> Step:
    """Adds millions of rows into a few, which all threads want at once. Fixed: into many, which are summed up."""
    torch.manual_seed(0)
    rows, width, bins, tables = sized(device, 2_000_000, 64), 64, 8, sized(device, 4096, 4)
    values = torch.randn(rows, width, device=device)
    bin_of = torch.randint(bins, (rows,), device=device)
    table_of = torch.arange(rows, device=device) % tables

    def step(index: int) -> Tensor:
        del index
        if not fixed:
            return torch.zeros(bins, width, device=device).index_add_(0, bin_of, values)
        many = torch.zeros(tables * bins, width, device=device).index_add_(0, table_of * bins + bin_of, values)
        return many.view(tables, bins, width).sum(0)

    return step


def broadcast_distances(device: str, fixed: bool) -> Step:
    """Distances of all pairs by a tensor of all differences. Fixed: by a matrix product."""
    torch.manual_seed(0)
    count, width = sized(device, 4096, 16), 128
    left, right = (torch.randn(count, width, device=device) for _ in range(2))

    def step(index: int) -> Tensor:
        del index
        if fixed:
            squares = left.square().sum(1)[:, None] + right.square().sum(1)[None]
            return squares - 2 * left @ right.T
        return (left[:, None] - right[None]).square().sum(-1)

    return step


def wide_vectors(device: str, fixed: bool) -> Step:
    """Decodes one token with weights in float32, which only have to be read. Fixed: bfloat16."""
    torch.manual_seed(0)
    width, layers = sized(device, 8192, 32), sized(device, 16, 2)
    dtype = BF16 if fixed else torch.float32
    weights = [weight(device, width, width).to(dtype) for _ in range(layers)]
    inputs = [batch.to(dtype) for batch in random_inputs(device, BATCHES, 1, width)]

    def step(index: int) -> Tensor:
        hidden = inputs[index % BATCHES]
        for one in weights:
            hidden = torch.tanh(nn.functional.linear(hidden, one))
        return hidden

    return step


def strided_sums(device: str, fixed: bool) -> Step:
    """Sums every 32nd column: of each line of memory most is not used. Fixed: columns that lie together."""
    torch.manual_seed(0)
    rows, width = sized(device, 1_000_000, 64), 512
    values = torch.randn(rows, width, device=device, dtype=BF16)
    together = values[:, ::32].contiguous()

    def step(index: int) -> Tensor:
        del index
        picked = together if fixed else values[:, ::32]
        return torch.stack([(picked * scale).sum(0) for scale in (1.0, 2.0, 3.0, 4.0)])

    return step


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "averaged_weights",
        "launches two small kernels for each tensor",
        "KERNEL-LOOP",
        "the kernels of all tensors become a few",
        averaged_weights,
    ),
    pair("cast_weights", "casts each weight for every use", "CAST", "the kernels that cast go", cast_weights),
    pair(
        "saved_every_step",
        "copies all weights to pageable memory in every step",
        "COPY-PAGEABLE",
        "the copies and what the host does with them go",
        saved_every_step,
    ),
    pair("cells", "launches small kernels for each element", "LAUNCH-BOUND", "launches become free", cells),
    pair("listed_tokens", "the host makes a tensor of a list", "HOST-CODE", "what the host does goes", listed_tokens),
    pair("counted_tokens", "the host waits for a count", "HOST-SYNC", "waits of the host go", counted_tokens),
    pair(
        "host_masks", "the host draws random numbers", "HOST-CODE", "what the host does, and the copy, go", host_masks
    ),
    pair(
        "busy_neighbor",
        "the launching thread waits for the interpreter's lock",
        "HOST-THREAD",
        "waits for the other thread go",
        busy_neighbor,
    ),
    pair(
        "crowded_rows",
        "all threads add to the same few addresses",
        "KERNEL-HEADROOM",
        "the kernel gets as fast as memory allows",
        crowded_rows,
    ),
    pair(
        "broadcast_distances",
        "writes and reads a tensor of all differences",
        "UNFUSED-CHAIN",
        "the kernels become one that keeps what is between them",
        broadcast_distances,
    ),
    pair(
        "wide_vectors",
        "reads weights in twice the bytes that are needed",
        "PRECISION",
        "the products read half the bytes",
        wide_vectors,
    ),
    pair(
        "strided_sums",
        "reads lines of memory of which it uses little",
        "KERNEL-HEADROOM",
        "the kernels read only what they use",
        strided_sums,
    ),
)

"""Pieces of LLM inference and training that lose time for one planted reason each, with the zoo's command line.

In: a case, a variant: `python -m lab.programs.zoo_llm CASE [--fixed]`. Out: the zoo's JSON line, where `checked`
says only that the last output is finite and not zero; its norm, the same for both variants up to rounding, goes to
stderr. Held out: the expected top findings were written down before any of these programs ran on a GPU.
"""

from __future__ import annotations

import json
import math
import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from lab.programs import zoo
from lab.programs.zoo import BATCHES, CaseInputs, CaseSize, PlantedCase, Step

cuda: Any = torch.cuda  # its classes are untyped
Layer = Callable[[Tensor], Tensor]
REQUEST = {"prompt": "the quick brown fox " * 8, "stop": ["\n", "</s>"], "temperature": 0.7, "n": 1}
TURN, PROMPT, CHUNK = 64, 512, 16  # growing_alloc: steps until the cache starts anew; positions at first, and per step


def random_weight(core: CaseInputs, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """A weight that keeps its input's size."""
    return torch.randn(*shape, device=core.batches[0].device, dtype=dtype) / math.sqrt(shape[-2])


def norm(hidden: Tensor) -> Tensor:
    """A layer norm without parameters."""
    return F.layer_norm(hidden, hidden.shape[-1:])


def mlp(hidden: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The input, and what an MLP adds to it."""
    return hidden + F.silu(norm(hidden) @ up) @ down


def mlps(core: CaseInputs, dtype: torch.dtype = torch.bfloat16) -> list[tuple[Tensor, Tensor]]:
    """Each layer's two weights."""
    thin, wide = core.size.width, 4 * core.size.width
    return [
        (random_weight(core, thin, wide, dtype=dtype), random_weight(core, wide, thin, dtype=dtype))
        for _ in range(core.size.layers)
    ]


def gpt(core: CaseInputs) -> list[Layer]:
    """Blocks of causal attention (over sequences of a quarter of the rows) and an MLP, a range around each."""
    rows, width, heads = core.size.rows, core.size.width, max(core.size.width // 128, 1)

    def block(name: str, qkv: Tensor, out: Tensor, up: Tensor, down: Tensor, hidden: Tensor) -> Tensor:
        with window(name):
            parts = (norm(hidden) @ qkv).view(4, rows // 4, 3, heads, width // heads)
            query, key, value = parts.transpose(1, 3).unbind(2)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return mlp(hidden + mixed.transpose(1, 2).reshape(rows, width) @ out, up, down)

    pairs = [
        (random_weight(core, width, 3 * width), random_weight(core, width, width)) for _ in range(core.size.layers)
    ]
    stack = enumerate(zip(pairs, mlps(core), strict=True))
    return [partial(block, f"block.{layer}", *first, *second) for layer, (first, second) in stack]


def through(layers: Sequence[Layer], hidden: Tensor) -> Tensor:
    """One layer after the other."""
    return reduce(lambda before, layer: layer(before), layers, hidden)


def then(core: CaseInputs, layers: Sequence[Layer], use: Callable[[int, Tensor], object]) -> Step:
    """Layers whose output is used."""

    def step(index: int) -> Tensor:
        hidden = through(layers, core.batch(index))
        use(index, hidden)
        return hidden

    return step


def nonzero(core: CaseInputs, fixed: bool) -> Step:
    """Leaves padded rows out of each MLP by a boolean mask. Fixed: computes them and does not take them."""
    keep = torch.rand(core.size.rows, device=core.batches[0].device) > 1 / 16

    def layer(up: Tensor, down: Tensor, hidden: Tensor) -> Tensor:
        if fixed:
            return torch.where(keep[:, None], mlp(hidden, up, down), hidden)
        hidden[keep] = mlp(hidden[keep], up, down)
        return hidden

    layers = [partial(layer, *weights) for weights in mlps(core)]
    return lambda index: through(layers, core.batch(index).clone())


def sample_loop(core: CaseInputs, fixed: bool) -> Step:
    """Decodes greedily, several tokens a step, each of them through a Python list. Fixed: they stay on the device."""
    width, rows, vocabulary = core.size.width, core.size.rows, 8 * core.size.width
    device, layers = core.batches[0].device, [partial(mlp, up=up, down=down) for up, down in mlps(core)]
    table, head = random_weight(core, vocabulary, width) * math.sqrt(vocabulary), random_weight(core, width, vocabulary)
    firsts = [(torch.arange(rows, device=device) * 7 + index) % vocabulary for index in range(BATCHES)]

    def step(index: int) -> Tensor:
        token, texts = firsts[index % BATCHES], list[list[int]]()
        for _ in range(core.size.pieces):
            hidden = through(layers, F.embedding(token, table))
            token = (norm(hidden) @ head).argmax(-1)
            if not fixed:
                texts.append([word for word in token.tolist() if word >= 0])
                token = torch.tensor(texts[-1], device=device)
        return hidden

    return step


def clerk(index: int) -> float:
    """What an engine does in Python for a request: parse, keep books, build strings."""
    request = json.loads(json.dumps({**REQUEST, "id": f"cmpl-{index}"}))
    table = {f"{word}/{number}": number * 16 for number, word in enumerate(request["prompt"].split())}
    line = ",".join(f"{key}={table[key]}" for key in sorted(table))
    return float(request["temperature"] * (1 + index) + 1e-3 * (len(line) % 7))


def python_between(core: CaseInputs, fixed: bool) -> Step:
    """Parses JSON and keeps books in Python before each block. Fixed: done before the first step."""
    known = clerk(1)

    def office(hidden: Tensor) -> Tensor:
        value, end = known, time.perf_counter() + core.size.loss_ms / core.size.layers / 1e3
        while not fixed and time.perf_counter() < end:  # by the clock, so that the loss does not depend on the CPU
            value = clerk(1)
        return hidden * value

    layers = [layer for block in gpt(core) for layer in (office, block)]
    return lambda index: through(layers, core.batch(index))


def file_wait(core: CaseInputs, fixed: bool) -> Step:
    """Reads a slow record from a pipe, header and body, half of the delay before each. Fixed: read beforehand."""
    blocks, (asked, ask), (data, sent) = gpt(core), os.pipe(), os.pipe()

    def storage() -> None:
        while wanted := os.read(asked, 1):
            body = struct.pack("<d", 1.0 + wanted[0])
            for part in (struct.pack("<I", len(body)), body):
                time.sleep(core.size.loss_ms / 2e3)
                os.write(sent, part)

    def record(index: int) -> float:
        os.write(ask, bytes([index % BATCHES]))
        (length,) = struct.unpack("<I", os.read(data, 4))
        return float(struct.unpack("<d", os.read(data, length))[0])

    threading.Thread(target=storage, daemon=True).start()
    ready = [record(index) for index in range(BATCHES)]
    return lambda index: through(blocks, core.batch(index) * (ready[index % BATCHES] if fixed else record(index)))


def thread_wait(core: CaseInputs, fixed: bool) -> Step:
    """Takes from the queue of a loader thread that is slow. Fixed: the queue was filled before the first step."""
    items: queue.Queue[float] = queue.Queue(maxsize=0 if fixed else 1)

    def load() -> None:
        for index in range(10_000):  # more than the steps: the main thread would wait for ever
            if not fixed:
                time.sleep(core.size.loss_ms / 1e3)
            items.put(1.0 + index % BATCHES)

    blocks, loader = gpt(core), threading.Thread(target=load, daemon=True)
    loader.start()
    if fixed:
        loader.join()
    return lambda index: through(blocks, core.batch(index) * items.get())


def growing_alloc(core: CaseInputs, fixed: bool) -> Step:
    """Grows a KV cache by `cat`, with `empty_cache` in each step. Fixed: a buffer for the longest context."""
    rows, width, inner = core.size.rows, core.size.width, core.size.width // 2
    batch, heads = rows // CHUNK, max(inner // 128, 1)
    layers = [
        (random_weight(core, width, 3 * inner), random_weight(core, inner, width), *weights) for weights in mlps(core)
    ]
    prompts = [[random_weight(core, batch, PROMPT, inner) for _ in range(2)] for _ in layers]
    room = [[F.pad(kept, (0, 0, 0, CHUNK * TURN)) for kept in pair] for pair in prompts if fixed]
    caches: list[list[Tensor]] = []

    def extended(layer: int, which: int, new: Tensor, start: int) -> Tensor:
        if fixed:
            room[layer][which][:, start : start + CHUNK].copy_(new)
            return room[layer][which][:, : start + CHUNK]
        caches[layer][which] = torch.cat([caches[layer][which], new], dim=1)
        return caches[layer][which]

    def step(index: int) -> Tensor:
        start, hidden = PROMPT + CHUNK * (index % TURN), core.batch(index)
        if start == PROMPT:
            caches[:] = [list(pair) for pair in prompts]
        if not fixed:
            cuda.empty_cache()  # without CUDA it does nothing
        for layer, (qkv, out, up, down) in enumerate(layers):
            new = (norm(hidden) @ qkv).view(batch, CHUNK, 3, inner).unbind(2)
            parts = (new[0], extended(layer, 0, new[1], start), extended(layer, 1, new[2], start))
            query, key, value = (part.view(*part.shape[:2], heads, -1).transpose(1, 2) for part in parts)
            mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(rows, inner)
            hidden = mlp(hidden + mixed @ out, up, down)
        return hidden

    return step


def pinned_alloc(core: CaseInputs, fixed: bool) -> Step:
    """Collects a varying number of rows in new pinned memory each step. Fixed: in one buffer."""
    half, buffer = core.size.rows // 2, core.pinned(core.batches[0])
    kept: list[Tensor] = []  # else torch, which rounds pinned sizes to powers of two, would give old memory again

    def collect(index: int, hidden: Tensor) -> None:
        count = half + 1 + index * 37 % (half - 1)
        if not fixed:
            kept.append(torch.empty(count, core.size.width, dtype=hidden.dtype, pin_memory=core.cuda))
        (buffer[:count] if fixed else kept[-1]).copy_(hidden[:count], non_blocking=True)

    return then(core, gpt(core), collect)


def pageable_out(core: CaseInputs, fixed: bool) -> Step:
    """Takes all hidden states to pageable memory. Fixed: to one pinned buffer, without a wait."""
    buffer = core.pinned(core.batches[0])
    return then(core, gpt(core), lambda _, hidden: buffer.copy_(hidden, non_blocking=True) if fixed else hidden.cpu())


def small_reads(core: CaseInputs, fixed: bool) -> Step:
    """Reads statistics number by number. Fixed: one copy of them all that the host does not wait for."""
    host = core.pinned(torch.zeros(core.size.pieces, dtype=torch.bfloat16))

    def read(_: int, hidden: Tensor) -> object:
        stats = hidden.view(core.size.pieces, -1).norm(dim=1)
        return host.copy_(stats, non_blocking=True) if fixed else max(float(value) for value in stats)

    return then(core, gpt(core), read)


def optimizer(core: CaseInputs, fixed: bool) -> Step:
    """Updates many small adapters with AdamW, one after the other. Fixed: they lie in one flat parameter."""
    blocks = gpt(core)
    stacked, grads = (random_weight(core, core.size.pieces, 16, core.size.width, dtype=torch.float32) for _ in range(2))
    weights = [torch.nn.Parameter(piece.clone()) for piece in ([stacked] if fixed else stacked)]
    for weight, grad in zip(weights, [grads] if fixed else grads, strict=True):
        weight.grad = grad.clone()
    adam = torch.optim.AdamW(weights, lr=1e-2, foreach=False, fused=False)

    def step(index: int) -> Tensor:
        adam.step()
        return through(blocks, core.batch(index) + weights[0].view(-1, core.size.width)[0].bfloat16())

    return step


def event_wait(core: CaseInputs, fixed: bool) -> Step:
    """Times each layer with events and waits for it. Fixed: does not."""
    begin, end = (cuda.Event(enable_timing=True) if core.cuda else None for _ in range(2))

    def layer(up: Tensor, down: Tensor, hidden: Tensor) -> Tensor:
        if fixed or begin is None or end is None:
            return mlp(hidden, up, down)
        begin.record()
        hidden = mlp(hidden, up, down)
        end.record()
        end.synchronize()
        begin.elapsed_time(end)
        return hidden

    layers = [partial(layer, *weights) for weights in mlps(core)]
    return lambda index: through(layers, core.batch(index))


def stream_chain(core: CaseInputs, fixed: bool) -> Step:
    """Begins a side stream's slow fetch just before the block that needs it. Fixed: begins it before the first."""
    blocks, far, near = gpt(core), core.batches[1][0].clone(), torch.empty_like(core.batches[1][0])
    if not core.cuda:
        return lambda index: blocks[-1](through(blocks[:-1], core.batch(index)) + far)
    side, begun, ready = cuda.Stream(), cuda.Event(), cuda.Event()
    hold = zoo.host_function_bad(
        CaseInputs(core.size, core.cuda, [], core.batches, core.scales)
    )  # no layers: only holds

    def fetch(hidden: Tensor) -> Tensor:
        begun.record(cuda.current_stream())
        side.wait_event(begun)
        with cuda.stream(side):
            hold(0)
            torch.mul(far, 1.0, out=near)
        ready.record(side)
        return hidden

    def take(hidden: Tensor) -> Tensor:
        cuda.current_stream().wait_event(ready)
        return hidden + near

    layers = [fetch, *blocks[:-1], take, blocks[-1]] if fixed else [*blocks[:-1], fetch, take, blocks[-1]]
    return lambda index: through(layers, core.batch(index))


def exposed_out(core: CaseInputs, fixed: bool) -> Step:
    """Copies logits to pinned memory on the compute stream. Fixed: on a side stream, under the next step."""
    blocks, head = gpt(core), random_weight(core, core.size.width, 4 * core.size.width)
    hosts = [core.pinned(core.batches[0] @ head) for _ in range(2)]
    held: list[Tensor] = []  # keeps the logits' memory from other use until they are copied
    side, copied, computed = (make() if core.cuda else None for make in (cuda.Stream, cuda.Event, cuda.Event))

    def copy(index: int, logits: Tensor) -> None:
        if not (fixed and side and copied and computed):
            hosts[index % 2].copy_(logits, non_blocking=True)
            return
        cuda.current_stream().wait_event(copied)  # of the step before, long done: its logits may go
        held[:] = [logits]
        computed.record(cuda.current_stream())
        side.wait_event(computed)
        with cuda.stream(side):
            hosts[index % 2].copy_(logits, non_blocking=True)
        copied.record(side)

    return then(core, [*blocks, lambda hidden: norm(hidden) @ head], copy)


def mixed_types(core: CaseInputs, fixed: bool) -> Step:
    """Casts float32 weights for each matmul. Fixed: casts them once."""
    kept, used = torch.bfloat16 if fixed else torch.float32, torch.bfloat16
    weights = [(up.to(kept), down.to(kept)) for up, down in mlps(core, torch.float32)]
    layers = [lambda hidden, u=u, d=d: mlp(hidden, u.to(used), d.to(used)) for u, d in weights]  # if fixed, no cast
    return lambda index: through(layers, core.batch(index))


def moe_loop(core: CaseInputs, fixed: bool) -> Step:
    """Loops over experts after each block, by routes known beforehand. Fixed: a batched matmul over all experts."""
    blocks, width, experts = gpt(core), core.size.width, core.size.pieces
    ups, downs = random_weight(core, experts, width, width // 2), random_weight(core, experts, width // 2, width)
    routes = [torch.randperm(core.size.rows, device=ups.device).view(experts, -1) for _ in blocks]
    split = [list(zip(route.unbind(), ups.unbind(), downs.unbind(), strict=True)) for route in routes]

    def mixture(route: Tensor, parts: list[tuple[Tensor, Tensor, Tensor]], hidden: Tensor) -> Tensor:
        entered = norm(hidden)
        if fixed:
            taken = entered.index_select(0, route.view(-1)).view(experts, -1, width)
            return hidden.index_add_(0, route.view(-1), (F.silu(taken @ ups) @ downs).view(-1, width))
        for where, up, down in parts:
            hidden.index_add_(0, where, F.silu(entered.index_select(0, where) @ up) @ down)
        return hidden

    stack = zip(blocks, routes, split, strict=True)
    layers = [layer for block, route, parts in stack for layer in (block, partial(mixture, route, parts))]
    return lambda index: through(layers, core.batch(index))


def error_of(_: CaseInputs, output: Tensor, __: Tensor) -> float:
    """0 for a finite output that is not zero, else NaN. Its norm is printed, to compare the variants of a case."""
    size = float(output.float().norm())
    print(f"norm {size:.3f}", file=sys.stderr)  # noqa: T201
    return 0.0 if 0 < size < math.inf else math.nan


def case(work: Callable[..., Step], finding: str, size: CaseSize) -> PlantedCase:
    """A case with the name of its function, and what the docstring says first."""
    loss, bad, fixed = str(work.__doc__).partition(".")[0], partial(work, fixed=False), partial(work, fixed=True)
    return PlantedCase(work.__name__, loss, finding, size, bad, fixed, check=error_of)


THIN = CaseSize(
    1024, 2048, 30
)  # MLPs of about 0.13 ms each; the GPT blocks of 8192 x 2048 below take about 1.7 ms each
CASES = (
    case(nonzero, "HOST-SYNC", THIN),
    case(sample_loop, "HOST-SYNC", CaseSize(256, 4096, 2, pieces=16)),
    case(python_between, "HOST-CODE", CaseSize(8192, 2048, 3, loss_ms=11.0)),
    case(file_wait, "HOST-OS", CaseSize(8192, 2048, 3, loss_ms=10.0)),
    case(thread_wait, "HOST-THREAD", CaseSize(8192, 2048, 3, loss_ms=9.0)),
    case(growing_alloc, "HOST-ALLOC", CaseSize(1024, 2048, 10)),
    case(pinned_alloc, "HOST-ALLOC", CaseSize(8192, 2048, 2)),
    case(pageable_out, "COPY-PAGEABLE", CaseSize(8192, 2048, 3)),
    case(optimizer, "LAUNCH-BOUND", CaseSize(8192, 2048, 2, pieces=192)),
    case(event_wait, "HOST-SYNC", THIN),
    case(stream_chain, "DEVICE-WAIT", CaseSize(8192, 2048, 4, loss_ms=3.0)),
    case(exposed_out, "COPY-EXPOSED", CaseSize(8192, 2048, 3)),
    case(small_reads, "HOST-COPY", CaseSize(8192, 2048, 3, pieces=512)),
    case(mixed_types, "CAST", THIN),
    case(moe_loop, "LAUNCH-BOUND", CaseSize(8192, 1024, 6, pieces=64)),
)


def main() -> None:
    """The zoo's command line. `--seed` is for the batches; the weights are the same in every run."""
    torch.manual_seed(0)
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)  # cuDNN plans anew for each length: another reason to lose time
    with torch.no_grad():
        zoo.main(CASES, "lab.programs.zoo_llm")


if __name__ == "__main__":
    main()

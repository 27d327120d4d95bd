"""Runs programs that use a GPU in different ways, one after the other: `python -m lab.programs.sampled`.

In: names of programs (all, without one). Out: a JSON line per program with the wall time of its window. All programs
are built and warmed up first, so that a profiler which is switched on for the windows records nothing else:

- `--record=windows` has cudaProfilerStart before the first window and Stop after the last, for nsys;
- `--record=steps` has them around the first steps of each program, for Nsight Compute, which takes its time per launch.

A window is in an NVTX range "pair:PROGRAM", as `captures/cut_windows.py` wants it. Before each there is one kernel of
torch that only waits (`spin_kernel`): it parts the programs in a list of launches.

A program is a device in, the step to be repeated out: from matrix products at the roof of the tensor cores to hundreds
of kernels of two microseconds. Models are those of `lab.programs.paired.library`, with random weights.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.device import captured
from lab.programs.paired import BATCHES, BF16, Build, Step, sized
from lab.programs.paired.busy import decode_small_batch
from lab.programs.paired.library import (
    adamw_loop,
    causal_mask,
    hf_moe,
    ids_of,
    images_of,
    jax_block,
    logits_of,
    model_of,
)
from lab.programs.paired.unseen import bert_eager, unet_channels_last, vit_float32
from lab.programs.pairs import idle, uncollected


def llama_forward(device: str, dtype: torch.dtype = BF16, rows: int = 2, length: int = 2048) -> Step:
    """The forward pass of a Llama of four layers over long texts."""
    length = sized(device, length, 8)
    more = {"intermediate_size": sized(device, 11_008, 64)}
    model = model_of("Llama", device, layers=sized(device, 4, 1), width=sized(device, 4096, 256), dtype=dtype, **more)
    batches, mask = ids_of(model, device, rows, length), causal_mask(length, device)
    return lambda index: logits_of(model, batches[index % BATCHES], mask)


def llama_float32(device: str) -> Step:
    """The same in float32: no tensor cores."""
    return llama_forward(device, torch.float32, rows=1, length=1024)


def training(device: str) -> Step:
    """Forward, backward and fused AdamW of a small Llama."""
    return adamw_loop(device, fixed=True)


def training_loop(device: str) -> Step:
    """The same with AdamW parameter by parameter: many small kernels."""
    return adamw_loop(device, fixed=False)


def resnet_nchw(device: str) -> Step:
    """The forward pass of a ResNet-50 in the layout in which images come."""
    torch.manual_seed(0)
    vision: Any = import_module("torchvision")
    with torch.device(device):
        model = vision.models.resnet50(weights=None).to(BF16).eval()
    side = sized(device, 224, 32)
    batches = [images.to(device, BF16) for images, _ in images_of(sized(device, 128, 2), side)]
    return lambda index: model(batches[index % BATCHES])


def eager_attention(device: str) -> Step:
    """Attention with its scores in memory: products, mask, softmax and casts of a large square."""
    rows, heads, length, width = sized(device, 2, 1), sized(device, 16, 2), sized(device, 2048, 16), 128
    torch.manual_seed(0)
    shape = (rows, heads, length, width)
    query, key, value = (torch.randn(shape, device=device, dtype=BF16) for _ in range(3))
    mask = torch.full((length, length), float("-inf"), device=device, dtype=BF16).triu(1)

    def step(_: int) -> Tensor:
        scores = query @ key.transpose(2, 3) * width**-0.5 + mask
        shares = F.softmax(scores, dim=-1, dtype=torch.float32).to(BF16)
        return (shares @ value).transpose(1, 2).contiguous()

    return step


def experts_loop(device: str) -> Step:
    """A mixture of experts in transformers' Python loop: small kernels, and waits for the host."""
    return hf_moe(device, fixed=False)


def graph_decode(device: str) -> Step:
    """One token after a long context, as a CUDA graph: kernels of a few microseconds, bound by the weights' bytes."""
    torch.manual_seed(0)
    layers, rows, width, heads, length = (8, 8, 2048, 16, 1024) if device == "cuda" else (1, 2, 64, 2, 8)

    def weight(inner: int, outer: int) -> Tensor:
        return torch.randn(outer, inner, device=device, dtype=BF16) * inner**-0.5

    weights = [(weight(width, 3 * width), weight(width, width), weight(width, 8 * width), weight(4 * width, width))]
    weights += [tuple(part.clone() for part in weights[0]) for _ in range(layers - 1)]
    kept = torch.randn(layers, 2, rows, heads, length, width // heads, device=device, dtype=BF16)
    inputs = torch.randn(BATCHES, rows, width, device=device, dtype=BF16)
    given = inputs[0].clone()

    def work() -> Tensor:
        hidden = given
        for (joint, out, up, down), (keys, values) in zip(weights, kept, strict=True):
            query = F.linear(F.rms_norm(hidden, (width,)), joint)[:, :width].view(rows, heads, 1, -1)
            seen = F.scaled_dot_product_attention(query, keys, values)
            hidden = hidden + F.linear(seen.reshape(rows, width), out)
            gate, rest = F.linear(F.rms_norm(hidden, (width,)), up).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * rest, down)
        return hidden

    run = captured(work) if device == "cuda" else work

    def step(index: int) -> Tensor:
        given.copy_(inputs[index % BATCHES])
        return run()

    return step


def elementwise(device: str) -> Step:
    """Chains of elementwise kernels, reductions and transposes, over tensors larger than the caches and smaller."""
    torch.manual_seed(0)
    wide = [torch.randn(sized(device, rows, 8), 4096, device=device) for rows in (16_384, 4096, 512)]

    def step(_: int) -> Tensor:
        total = torch.zeros((), device=device)
        for values in wide:
            mixed = F.gelu(values) * values.sigmoid() + 1.0
            turned = mixed.t().contiguous().to(BF16)
            total = total + turned.float().square().mean() + mixed.cumsum(1).amax() + mixed.norm(dim=0).sum()
        return total

    return step


def irregular(device: str) -> Step:
    """Gathers, sorts, scatters, an FFT and a product in float64: what is neither dense nor bfloat16."""
    torch.manual_seed(0)
    count, width = sized(device, 4_000_000, 1000), sized(device, 2048, 16)
    values = torch.randn(count, device=device)
    places = torch.randint(0, count, (count,), device=device)
    table = torch.randn(count // 64, 64, device=device)
    signal = torch.randn(sized(device, 512, 2), sized(device, 8192, 16), device=device)
    square = torch.randn(width, width, device=device, dtype=torch.float64)

    def step(_: int) -> Tensor:
        order = values.argsort()
        mixed = torch.zeros_like(values).scatter_add_(0, places, values[order])
        rows = F.embedding(places[: count // 8] % (count // 64), table)
        return mixed.norm() + rows.sum() + torch.fft.rfft(signal).abs().mean() + (square @ square).norm().float()

    return step


def small_products(device: str) -> Step:
    """The products of a decoder for few tokens and for many: bound by the weights' bytes, then by arithmetic."""
    torch.manual_seed(0)
    width, tokens = (4096, (1, 8, 16, 64, 256)) if device == "cuda" else (64, (1, 2))
    weights = [
        torch.randn(outer, inner, device=device, dtype=BF16)
        for inner, outer in ((width, width), (width, 7 * width), (3 * width + width // 2, width))
    ]
    pairs = [
        (torch.randn(count, weight.shape[1], device=device, dtype=BF16), weight)
        for count in tokens
        for weight in weights
    ]
    return lambda _: [F.linear(given, weight) for given, weight in pairs]


def numerical(device: str) -> Step:
    """Numerical code in float64: sparse products, a stencil, a factorisation, a triangular solve, a histogram."""
    torch.manual_seed(0)
    side, rows = sized(device, 4096, 16), sized(device, 200_000, 64)
    per_row = 24
    places = torch.randint(0, rows, (rows * per_row,), device=device)
    starts = torch.arange(0, rows * per_row + 1, per_row, device=device)
    values = torch.randn(rows * per_row, device=device, dtype=torch.float64)
    matrix = torch.sparse_csr_tensor(starts, places, values, (rows, rows))
    vectors = torch.randn(rows, 8, device=device, dtype=torch.float64)
    field = torch.randn(side, side, device=device, dtype=torch.float64)
    square = torch.randn(side // 4, side // 4, device=device, dtype=torch.float64)
    positive = square @ square.T + side * torch.eye(side // 4, device=device, dtype=torch.float64)

    def step(_: int) -> Tensor:
        around = sum(field.roll(shift, axis) for shift in (-1, 1) for axis in (0, 1))
        lower = torch.linalg.cholesky_ex(positive).L
        solved = torch.linalg.solve_triangular(lower, square, upper=False)
        counts = torch.histc(field.float(), 1024)
        return (matrix @ vectors).norm() + (around - 4 * field).norm() + solved.norm() + counts.max()

    return step


def jax_training(device: str) -> Step:
    """A training step in JAX, which runs ahead."""
    return jax_block(device, fixed=True)


TILE = 128


def triton_step(device: str) -> Step:
    """Kernels of our own: softmax of a wide matrix, a product of it by tiles, norms of its rows. Triton needs a GPU."""
    if device != "cuda":
        raise RuntimeError("Triton compiles for a GPU")
    kernels: Any = import_module("lab.programs.triton_kernels")
    torch.manual_seed(0)
    rows, inner, columns = 8192, 4096, 2048
    left = torch.randn(rows, inner, device=device, dtype=torch.bfloat16)
    right = torch.randn(inner, columns, device=device, dtype=torch.bfloat16) * inner**-0.5
    shares, product = torch.empty_like(left), torch.empty(rows, columns, device=device, dtype=torch.bfloat16)
    norms = torch.empty(rows, device=device)

    def step(_: int) -> Tensor:
        kernels.softmax_rows[(rows,)](left, shares, inner, BLOCK=inner, num_warps=8)
        grid = (rows // TILE, columns // TILE)
        kernels.product_gelu[grid](shares, right, product, inner, columns, TILE=TILE, DEPTH=64, num_warps=8)
        kernels.square_norms[(rows // 64,)](product, norms, columns, ROWS=64, COLUMNS=128, num_warps=4)
        return norms

    return step


PROGRAMS: Final[Mapping[str, Build]] = {
    "llama_bf16": llama_forward,
    "llama_fp32": llama_float32,
    "training": training,
    "training_loop": training_loop,
    "resnet_nchw": resnet_nchw,
    "eager_attention": eager_attention,
    "experts_loop": experts_loop,
    "graph_decode": graph_decode,
    "elementwise": elementwise,
    "irregular": irregular,
    "triton": triton_step,
    "bert": partial(bert_eager, fixed=True),
    "unet": partial(unet_channels_last, fixed=True),
    "vit": partial(vit_float32, fixed=True),
    "decode_batch": partial(decode_small_batch, fixed=True),
    "numerical": numerical,
    "small_products": small_products,
    "jax": jax_training,
}
"""By name, in the order in which they run; JAX last, as it takes the memory that it wants."""


WARMUP = 4  # steps
FEWEST, MOST = 6, 400  # steps in a window
COUNTED = {
    "training": 1,
    "training_loop": 1,
    "experts_loop": 1,
    "graph_decode": 2,
    "decode_batch": 2,
    "jax": 6,
    "triton": 40,
}
COUNTED_BY_DEFAULT = 3
"""Steps that Nsight Compute sees of a program."""


def built(name: str, device: str) -> Step:
    """A program that has run a few steps."""
    step = PROGRAMS[name](device)
    output = None
    for index in range(WARMUP):
        output = step(index)
    idle(device, output)
    return step


def steps_for(step: Step, device: str, seconds: float) -> int:
    """How many steps fill a window."""
    began = time.perf_counter()
    idle(device, [step(index) for index in range(3)][-1])
    return min(max(int(3 * seconds / (time.perf_counter() - began)), FEWEST), MOST)


def parted(device: str) -> None:
    """One kernel that no program has."""
    if device == "cuda":
        torch.cuda._sleep(1000)


def timed(step: Step, name: str, device: str, steps: int) -> dict[str, Any]:
    """One window, from an idle device to an idle device."""
    output = None
    with uncollected():
        parted(device)
        idle(device)
        began = time.perf_counter_ns()
        with window(f"pair:{name}"):
            for index in range(steps):
                with window("step"):
                    output = step(index)
            idle(device, output)
        wall_ns = time.perf_counter_ns() - began
    return {"program": name, "steps": steps, "wall_ns": wall_ns, "step_ns": wall_ns // steps}


def main(arguments: list[str] | None = None) -> None:
    """The command line: exit code 2 for a wrong one."""
    parser = argparse.ArgumentParser(prog="lab.programs.sampled", description="Run programs to be sampled.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--record", choices=["nothing", "windows", "steps"], default="nothing")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a window; default: 0.4")
    parser.add_argument("--rounds", type=int, default=1, help="windows of each program; the last one's name is bare")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--output", type=Path, default=Path("sampled.jsonl"), help="default: sampled.jsonl")
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - PROGRAMS.keys():
        parser.error(f"no program {min(unknown)}; there are {', '.join(PROGRAMS)}")
    torch.set_grad_enabled(False)  # type: ignore[no-untyped-call, unused-ignore]
    torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    with options.output.open("w", encoding="utf-8") as lines:
        for row in rows_of(options):
            print(json.dumps(row), file=lines, flush=True)
            print(row["program"], row.get("error") or f"{row['step_ns'] / 1e6:.3f} ms per step", flush=True)  # noqa: T201


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row per window, as it ends; and one for each program that could not be built."""
    ready: dict[str, Step] = {}
    for name in options.programs or PROGRAMS:
        try:
            ready[name] = built(name, options.device)
        except Exception as error:  # whatever it is, its row says it, and the other programs go on
            yield {"program": name, "error": f"{type(error).__name__}: {error}"}
    if options.record == "steps":
        for name, step in ready.items():
            yield counted(step, name, options.device)
        return
    steps = {name: steps_for(step, options.device, options.seconds) for name, step in ready.items()}
    if options.record == "windows":
        torch.cuda.profiler.start()
    for turn in range(options.rounds, 0, -1):
        for name, step in ready.items():
            yield timed(step, f"{name}.{turn}" if turn > 1 else name, options.device, steps[name])
    if options.record == "windows":
        torch.cuda.profiler.stop()


def counted(step: Step, name: str, device: str) -> dict[str, Any]:
    """The first steps of a program, for Nsight Compute; the time is that of counting them."""
    steps = COUNTED.get(name, COUNTED_BY_DEFAULT)
    output = None
    began = time.perf_counter_ns()
    torch.cuda.profiler.start()
    parted(device)
    for index in range(steps):
        output = step(index)
    idle(device, output)
    torch.cuda.profiler.stop()
    wall_ns = time.perf_counter_ns() - began
    return {"program": name, "steps": steps, "wall_ns": wall_ns, "step_ns": wall_ns // steps}


if __name__ == "__main__":
    main()

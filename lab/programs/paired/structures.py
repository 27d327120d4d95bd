"""Programs whose order of work is not that of one stream: a device in, the step to be repeated out.

Streams that compute side by side, branches of a CUDA graph, the legacy default stream beside a stream that waits for it
and one that does not, and an all-reduce over two ranks. NCCL refuses two ranks on one GPU, and kernels of two processes
take turns there; so the ranks are streams of one process, and the all-reduce is a kernel per rank that waits on the
device for the other's. Kernels take much longer than to launch them, and a quarter of an H200: two of them side by side
take as long as one, and a step in which they are is half as long. Without CUDA there is one order, and every variant
computes the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.device import captured
from lab.programs.paired import PairedProgram, Step, either

cuda: Any = torch.cuda  # its classes are untyped
LAYERS = 8
BLOCKS, PART = 32, 256  # of a layer, and points of a block
TURNS, ANGLE = 40_000, 1e-3  # in a layer: a fifth of a millisecond


class Branch:
    """A chain of layers, each of which turns points in the plane: few blocks, each of them long."""

    def __init__(self, device: str, seed: int, layers: int = LAYERS) -> None:
        chance = torch.Generator(device=device).manual_seed(seed)
        self.start, self.layers = torch.randn(2, BLOCKS * PART, generator=chance, device=device), layers

    def run(self, index: int = 0) -> Tensor:
        points = self.start * (1 + index % 3)
        for _ in range(self.layers):
            points = layer(points)
        return points


def layer(points: Tensor) -> Tensor:
    """All turns, one after the other; without CUDA, all at once."""
    if points.is_cuda:
        from lab.programs.triton_kernels import turned  # needs Triton

        return turned(points, ANGLE, TURNS, PART)
    cosine, sine = math.cos(ANGLE * TURNS), math.sin(ANGLE * TURNS)
    return torch.tensor([[cosine, -sine], [sine, cosine]]) @ points


def both(branches: Sequence[Branch], sides: Sequence[Any], index: int) -> Tensor:
    """Each branch on its stream, from where the current stream is, and the current one after them."""
    current, outputs = cuda.current_stream(), []
    for branch, side in zip(branches, sides, strict=True):
        side.wait_stream(current)
        with cuda.stream(side):
            outputs.append(branch.run(index))
    for side in sides:
        current.wait_stream(side)
    for output in outputs:
        output.record_stream(current)
    return outputs[0] + outputs[1]


def in_turn(branches: Sequence[Branch], index: int) -> Tensor:
    """One branch after the other."""
    return branches[0].run(index) + branches[1].run(index)


def side_streams(device: str, apart: bool) -> Step:
    """Two branches on the current stream, or each on one of its own."""
    branches = [Branch(device, seed) for seed in range(2)]
    if not apart or device != "cuda":
        return lambda index: in_turn(branches, index)
    sides = [cuda.Stream() for _ in range(2)]
    return lambda index: both(branches, sides, index)


def graph_branches(device: str, apart: bool) -> Step:
    """Two branches in a CUDA graph, in turn or side by side."""
    branches = [Branch(device, seed) for seed in range(2)]
    if device != "cuda":
        return lambda _: in_turn(branches, 0)
    sides = [cuda.Stream() for _ in range(2)]
    replay = captured(lambda: both(branches, sides, 0) if apart else in_turn(branches, 0))
    return lambda _: replay()


def blocking_stream() -> Any:
    """A stream that waits for the legacy default stream, and that one for it; torch's own streams do neither."""
    stream = ctypes.c_void_p(0)
    if status := int(cuda.cudart().cudaStreamCreate(ctypes.addressof(stream))):
        raise RuntimeError(f"cudaStreamCreate returned {status}")
    return cuda.ExternalStream(stream.value)


def legacy_stream(device: str, apart: bool) -> Step:
    """One branch on the default stream, layer by layer in turn with one on another stream, no event between them."""
    branches = [Branch(device, seed, layers=1) for seed in range(2)]
    if device != "cuda":
        return lambda index: in_turn(branches, index)
    side = cuda.Stream() if apart else blocking_stream()
    cuda.synchronize()  # the inputs were made on the default stream

    def step(index: int) -> Tensor:
        for _ in range(LAYERS):
            with cuda.stream(side):
                branches[1].run(index)
            output = branches[0].run(index)
        return output

    return step


def ranks_of_streams(device: str, even: bool) -> Step:
    """Two ranks, the second with twice the layers unless `even`; then an all-reduce in which the first waits."""
    ranks = [Branch(device, seed, LAYERS * (1 if even else 1 + seed)) for seed in range(2)]
    if device != "cuda":
        return lambda index: in_turn(ranks, index)
    from lab.programs.triton_kernels import AllReduce  # needs Triton

    reducing, sides = AllReduce(ranks[0].start, count=2), [cuda.Stream() for _ in range(2)]
    cuda.synchronize()

    def step(index: int) -> Tensor:
        for rank, (branch, side) in enumerate(zip(ranks, sides, strict=True)):
            with cuda.stream(side):
                reducing.give(rank, branch.run(index))
        for rank, side in enumerate(sides):
            with cuda.stream(side):
                reduced = reducing.take(rank)
        return reduced

    return step


def structure(name: str, loss: str, edit: str, first: str, second: str, work: Any) -> PairedProgram:
    """A program in two orders, the first of them the slower one."""
    return PairedProgram(name, loss, (), edit, either(work, first, second))


PROGRAMS = (
    structure(
        "side_streams", "two branches in turn", "a branch on another stream", "one_stream", "two_streams", side_streams
    ),
    structure(
        "graph_branches", "a graph that is a chain", "a branch on another stream", "chain", "branches", graph_branches
    ),
    structure(
        "legacy_stream",
        "the legacy default stream and another wait for each other",
        "no wait between the two streams",
        "blocking",
        "non_blocking",
        legacy_stream,
    ),
    structure(
        "two_ranks",
        "one of two ranks is late",
        "the late rank as fast as the other",
        "uneven",
        "even",
        ranks_of_streams,
    ),
)

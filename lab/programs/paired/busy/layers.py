"""What programs of torch's own operators share: random weights of decoder layers, and steps replayed as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.cuda_graph import captured
from lab.programs.paired.program import Step
from lab.programs.paired.sizes import BF16


class LayerWeights(NamedTuple):
    """The four products of a decoder's layer: queries, keys and values at once; the way out; gate and rest; down."""

    joint: Tensor
    out: Tensor
    up: Tensor
    down: Tensor


def weight(device: str, inner: int, outer: int) -> Tensor:
    """Of a linear layer, which keeps the size of what goes through it."""
    return torch.randn(outer, inner, device=device, dtype=BF16) * inner**-0.5


def decoder_weights(device: str, layers: int, width: int) -> list[LayerWeights]:
    """Of some layers, all different."""
    torch.manual_seed(0)
    shapes = ((width, 3 * width), (width, width), (width, 8 * width), (4 * width, width))
    return [LayerWeights(*(weight(device, inner, outer) for inner, outer in shapes)) for _ in range(layers)]


def random_inputs(device: str, count: int, *shape: int) -> list[Tensor]:
    """Batches of hidden states."""
    torch.manual_seed(1)
    return [torch.randn(shape, device=device, dtype=BF16) for _ in range(count)]


def replayed(work: Callable[[Tensor], Tensor], inputs: Sequence[Tensor]) -> Step:
    """Steps over some inputs in turn: on a GPU as a CUDA graph, so that the host does not limit them."""
    given = inputs[0].clone()

    def on_given() -> Tensor:
        return work(given)

    run: Callable[[], Tensor] = captured(on_given) if given.is_cuda else on_given

    def step(index: int) -> Tensor:
        given.copy_(inputs[index % len(inputs)])
        return run()

    return step

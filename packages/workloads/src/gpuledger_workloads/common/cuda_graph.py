"""A function of a step in, the same step as a CUDA graph out: one launch, whatever is in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch  # type: ignore[import-not-found, unused-ignore]

Output = TypeVar("Output")
CAPTURE_STEPS = 3
"""Run before a graph is captured: libraries choose kernels and take memory in the first calls."""


@dataclass(frozen=True, slots=True)
class GraphReplay(Generic[Output]):
    """Replays a captured step. It holds the step, as a graph reads weights and inputs where they were when captured."""

    step: Callable[[], Output]
    graph: Any
    output: Output

    def __call__(self) -> Output:
        self.graph.replay()
        return self.output


def captured(step: Callable[[], Output]) -> GraphReplay[Output]:
    """Run the step some times, then capture it."""
    cuda: Any = torch.cuda  # its classes are untyped
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(CAPTURE_STEPS):
            step()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, capture_error_mode="thread_local"):  # a thread of nccl may ask for its events meanwhile
        output = step()
    return GraphReplay(step, graph, output)

"""`--names-from FILE`: names for the kernels inside CUDA graphs from a second file of the same program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuledger.limits import Limits
    from gpuledger.read.request import Progress
    from gpuledger.trace.model import Trace


def names_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--names-from, handed to the verb as `names_from`."""
    return click.option(
        "--names-from",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Name the kernels inside CUDA graphs after another trace of the same program: one in which the graph is "
        "captured, or runs without a graph; or after torch's JSON of kernel annotations.",
    )(verb)


def named(trace: Trace, profile: str, names_from: Path | None, limits: Limits, tell: Progress) -> Trace:
    """The trace with the names of that file, if there is one."""
    if names_from is None:
        return trace
    from gpuledger.analyse.operators.names_from import named_by_nodes, named_by_trace
    from gpuledger.read import open_trace
    from gpuledger.read.torch.kernel_annotations import is_kernel_annotations, kernel_annotations

    if is_kernel_annotations(names_from):
        return named_by_nodes(trace, profile, kernel_annotations(names_from, limits), names_from.name)
    return named_by_trace(trace, profile, open_trace(names_from, limits=limits, progress=tell), names_from.name)

"""What a program in several variants is: a device in, the step to be repeated out. A module here is a kind of program.

A fix is also named in words, as the edit of the bad program's trace that it corresponds to: what a replay must do to
foretell the step of the fixed one. Steps run without gradients unless they ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

Step = Callable[[int], Any]
"""Runs step `index` and gives its output, a tensor of torch or an array of JAX."""
Build = Callable[[str], Step]
"""Prepares a variant on a device, "cuda" or "cpu"; on a CPU, at a small size."""


@dataclass(frozen=True, slots=True)
class PairedProgram:
    """One program. The first of `variants` has all faults; of two faults, `fix1` lacks the first, `fix2` the second."""

    name: str
    loss: str
    findings: tuple[str, ...]  # what a report of the first variant should say, a code per fault
    edit: str
    variants: Mapping[str, Build]
    steps: int = 12  # in a window


def pair(name: str, loss: str, finding: str, edit: str, work: Callable[[str, bool], Step]) -> PairedProgram:
    """A program with one fault, from a function of the device and of whether it is fixed."""
    return PairedProgram(name, loss, (finding,), edit, either(work, "bad", "fixed"))


def either(work: Callable[[str, bool], Step], first: str, second: str) -> Mapping[str, Build]:
    """Two variants, by name, of a function of the device and of a choice between them."""
    return {name: partial(_chosen, work, choice) for name, choice in ((first, False), (second, True))}


def _chosen(work: Callable[[str, bool], Step], choice: bool, device: str) -> Step:
    return work(device, choice)


BATCHES = 3
BF16 = torch.bfloat16


def sized(device: str, on_gpu: int, on_cpu: int) -> int:
    """A size for the device: a CPU is only to show that the program runs."""
    return on_gpu if device == "cuda" else on_cpu


def pinned(values: Tensor, device: str) -> Tensor:
    """Where the GPU can read it by itself."""
    return values.pin_memory() if device == "cuda" else values

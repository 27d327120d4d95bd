"""What grows step by step: allocations that are never freed, made again and again by the same stack.

A stack leaks where most steps after warm-up leave something of it behind. Steps are those that torch marks in the
snapshot (an optimizer's step, a profiler's); without marks, the second half of the history in equal parts, and only
where most of what is allocated there is freed again: a program that loads a model frees nothing, and leaks nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from gpuledger.analyse.memory.snapshot.holders import sums_by, user_path
from gpuledger.analyse.memory.snapshot.lifetimes import Lifetimes
from gpuledger.trace.memory_snapshot import GpuMemory, MemorySnapshot
from gpuledger.trace.spans import Ints

LEAST_STEPS: Final = 5
"""Fewer steps after warm-up prove nothing."""

WARM_UP: Final = 2
"""Steps at the start that set up what stays: gradients, the optimizer's state."""

PARTS: Final = 10
"""Of a history without marks."""

MOST_STEPS_LEAK: Final = 0.8
"""A stack that leaves something behind in this share of the steps leaks."""


@dataclass(frozen=True, slots=True)
class Leak:
    """One path of the user's functions whose allocations are never freed."""

    path: tuple[str, ...]
    size_bytes: int
    """Allocated after warm-up and never freed."""
    allocations: int
    steps: int
    """In how many steps something was left behind."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """All of one GPU's, the largest first."""

    leaks: tuple[Leak, ...]
    steps: int
    """That were looked at, after warm-up."""
    step_name: str
    """What marks a step; empty where parts of the history stand for steps."""

    @property
    def size_bytes(self) -> int:
        return sum(leak.size_bytes for leak in self.leaks)

    @property
    def bytes_per_step(self) -> int:
        return self.size_bytes // max(self.steps, 1)


def leaks(snapshot: MemorySnapshot, memory: GpuMemory, lives: Lifetimes) -> Leaks:
    """Look for what survives of most steps."""
    name, edges = step_edges(snapshot, memory)
    is_marked = bool(name)
    edges = edges[WARM_UP:] if is_marked else edges
    steps = len(edges) - 1
    if steps < LEAST_STEPS:
        return Leaks((), max(steps, 0), name)
    step = np.searchsorted(edges, lives.born, side="right") - 1
    inside = (step >= 0) & (step < steps) & (lives.born >= 0)
    survives = lives.gone >= lives.events
    freed_bytes, all_bytes = (int(lives.size_bytes[chosen].sum()) for chosen in (inside & ~survives, inside))
    if not is_marked and 2 * freed_bytes < all_bytes:
        return Leaks((), steps, name)
    rows = np.flatnonzero(inside & survives)
    paths: dict[tuple[str, ...], int] = {}
    stacks, number = np.unique(lives.stack[rows], return_inverse=True)
    place = [paths.setdefault(user_path(snapshot, stack), len(paths)) for stack in stacks.tolist()]
    number = np.array(place, np.int64)[number]
    size, count = sums_by(number, lives.size_bytes[rows], len(paths)), np.bincount(number, minlength=len(paths))
    pairs = np.unique(number * steps + step[rows])
    in_steps = np.bincount(pairs // max(steps, 1), minlength=len(paths))
    found = [
        Leak(path, int(size[at]), int(count[at]), int(in_steps[at]))
        for path, at in paths.items()
        if in_steps[at] >= MOST_STEPS_LEAK * steps and path
    ]
    return Leaks(tuple(sorted(found, key=lambda leak: (-leak.size_bytes, leak.path))), steps, name)


def step_edges(snapshot: MemorySnapshot, memory: GpuMemory) -> tuple[str, Ints]:
    """What marks a step, and the events at which one begins; the last edge ends the last step."""
    history = memory.history
    names = Counter(marked.name for marked in snapshot.ranges if marked.gpu in (memory.gpu, -1))
    named = [
        (name, count)
        for name, count in names.items()
        if name.startswith(("Optimizer.step", "ProfilerStep")) and count > LEAST_STEPS + WARM_UP
    ]
    profiled = [marked.end_ns for marked in snapshot.ranges if marked.name.startswith("ProfilerStep#")]
    if len(profiled) > LEAST_STEPS + WARM_UP:
        return "ProfilerStep", _events_at(memory, profiled)
    if named:
        name, _ = max(named, key=lambda pair: pair[1])
        return name, _events_at(memory, [marked.end_ns for marked in snapshot.ranges if marked.name == name])
    half = len(history) // 2
    return "", np.linspace(half, len(history), PARTS + 1).astype(np.int64)


def _events_at(memory: GpuMemory, instants_ns: list[int]) -> Ints:
    """The first event after each instant, each once."""
    return np.unique(np.searchsorted(memory.history.time_ns, np.sort(np.array(instants_ns, np.int64)), side="left"))

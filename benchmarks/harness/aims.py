"""What we aim at: measured rows in, one line for each aim that they speak about out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.measure import Measured
from harness.peers import HTA, NSYS
from harness.results import Row

MILLION: Final = 1_000_000
AHEAD_OF_NSYS: Final = {MILLION: 10.0, 5 * MILLION: 20.0}
AHEAD_OF_HTA: Final = {2 * MILLION: 20.0}
OPEN_S: Final = {5 * MILLION: 0.3}
REPLAY_S: Final = {MILLION: 0.5}
OWN_MEMORY: Final = 2.0  # of the file
GROWTH: Final = 1.1  # of linear


@dataclass(frozen=True, slots=True)
class Aim:
    """One of them: what was found, and the bound."""

    name: str
    found: float
    bound: float
    unit: str
    is_floor: bool
    """The more the better."""

    @property
    def is_met(self) -> bool:
        return self.found >= self.bound if self.is_floor else self.found <= self.bound

    @property
    def wanted(self) -> str:
        return f"{'at least' if self.is_floor else 'at most'} {self.bound:g} {self.unit}"


def aims(rows: list[Row]) -> list[Aim]:
    """Only those whose sizes were measured."""
    return [*_ahead(rows, "report", NSYS, AHEAD_OF_NSYS), *_ahead(rows, "torch", HTA, AHEAD_OF_HTA), *_others(rows)]


def growth(rows: list[Row]) -> Iterator[tuple[str, int, int, float]]:
    """Contest, two sizes, and how much longer a kernel takes at the larger: 1 is linear."""
    for name in ("stats", "report", "replay"):
        times = {
            row.contest.size: row.outcome.wall_s
            for row in rows
            if row.is_ours and row.contest.name == name and isinstance(row.outcome, Measured)
        }
        sizes = sorted(times)
        for small, large in pairwise(sizes):
            yield name, small, large, (times[large] / large) / (times[small] / small)


def count(number: int) -> str:
    """5 M, 200 k."""
    for unit, name in ((MILLION, " M"), (1000, " k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return str(number)


def _ahead(rows: list[Row], contest: str, peer: str, wanted: dict[int, float]) -> Iterator[Aim]:
    for row in rows:
        size = row.contest.size
        if row.contest.name == contest and row.program.startswith(peer) and row.ratio and size in wanted:
            yield Aim(f"report of {count(size)} against {row.program}", row.ratio, wanted[size], "x", is_floor=True)


def _others(rows: list[Row]) -> Iterator[Aim]:
    for row in rows:
        size, name = row.contest.size, row.contest.name
        if not row.is_ours or not isinstance(row.outcome, Measured):
            continue
        if name == "open" and size in OPEN_S:
            yield Aim(f"second open of {count(size)}", row.outcome.wall_s, OPEN_S[size], "s", is_floor=False)
        if name == "replay" and size in REPLAY_S:
            yield Aim(f"graph and replay of {count(size)}", row.outcome.wall_s, REPLAY_S[size], "s", is_floor=False)
        if name == "report" and size >= MILLION and row.outcome.memory:  # below, the interpreter is most of it
            share = row.outcome.memory.own_bytes / row.contest.file_bytes
            yield Aim(f"own memory of the report of {count(size)}", share, OWN_MEMORY, "x the file", is_floor=False)
    for name, small, large, ratio in growth(rows):
        yield Aim(f"time of a kernel, {name}, {count(large)} over {count(small)}", ratio, GROWTH, "x", is_floor=False)

"""How what is asked for grows with the size of what is read: the exponent, fitted to the costs at some sizes."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from torture.bench import BAD, Bench, Verdict
from torture.bombs import BOMBS, Bomb

WORST_EXPONENT: Final = 1.5
"""Of costs less what the smallest file costs; what grows with the square comes near 2."""

_DOUBLED: Final = 5
"""So often a bomb is doubled at most."""

_ENOUGH_S, _ENOUGH_BYTES = 2.0, 200e6
"""Costs from here on tell how they grow; smaller ones are mostly of what every call costs."""


def cases(bench: Bench) -> Iterator[Verdict]:
    """Bombs, each with each of its verbs, at growing sizes."""
    while True:
        tries = [(bomb, verb) for bomb in BOMBS for verb in bomb.verbs]
        bench.chance.shuffle(tries)
        for bomb, verb in tries:
            verdict = _tried(bench, bomb, verb)
            yield _tried(bench, bomb, verb) if verdict.verdict == "square" else verdict  # others may have been busy


def _tried(bench: Bench, bomb: Bomb, verb: tuple[str, ...]) -> Verdict:
    """Doubled until it costs enough, or is refused."""
    costs: list[tuple[float, int]] = []
    verdicts: list[str] = []
    for size in (10, *(bomb.size << doubled for doubled in range(_DOUBLED + 1))):
        path = bomb.put(bench.empty("bomb"), size)
        ran = bench.call(*(str(path) if word == "FILE" else word for word in verb))
        if ran.verdict in BAD:
            return Verdict(f"{bomb.name} of {size}: {verb[0]}", ran.verdict, ran.said, path)
        costs.append((ran.cpu_s, ran.peak_bytes))
        verdicts.append(ran.verdict)
        if verdicts[-1] != verdicts[0] or ran.cpu_s - costs[0][0] > _ENOUGH_S:
            break
    seconds = fitted([cpu_s - costs[0][0] for cpu_s, _ in costs[1:]], _ENOUGH_S)
    memory = fitted([peak - costs[0][1] for _, peak in costs[1:]], _ENOUGH_BYTES)
    detail = f"time grows with the power of {seconds:.2f}, memory with {memory:.2f}, up to {size}"
    if max(seconds, memory) <= WORST_EXPONENT:
        return Verdict(f"{bomb.name}: {verb[0]}", "equal", detail)
    path = bomb.put(bench.empty("bomb"), 4 * size)
    ran = bench.call(*(str(path) if word == "FILE" else word for word in verb))
    is_bounded = ran.verdict == "refused"  # it grows up to a bound, and what would be beyond is refused in time
    return Verdict(f"{bomb.name}: {verb[0]}", "refused" if is_bounded else "square", detail)


def fitted(costs: Sequence[float], least: float) -> float:
    """The exponent over the last sizes, each twice the one before; 0 where too little was asked for to tell."""
    last = [cost for cost in costs if cost > least / 10][-3:]
    if len(last) < 2 or last[-1] < least / 2:
        return 0.0
    slope: float = np.polyfit(np.arange(len(last)), np.log2(last), 1)[0]
    return slope


def exponent(sizes: tuple[float, float], costs: Sequence[float]) -> float:
    """1 where the cost grows with the size, 2 where with its square."""
    return math.log(costs[1] / costs[0]) / math.log(sizes[1] / sizes[0])


def peak_bytes(run: Callable[[], object]) -> int:
    """The most memory that Python and numpy held at once."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cpu_s(run: Callable[[], object]) -> float:
    """Processor time, which says more than the clock where others work too."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def grown(bomb: Bomb, folder: Path, size: int, times: int, cost: Callable[[Path], float]) -> float:
    """The exponent of a cost between a size and `times` as much."""
    costs = []
    for factor in (1, times):
        where = folder / str(factor)
        where.mkdir()
        costs.append(cost(bomb.put(where, factor * size)))
    return exponent((1, times), costs)

"""How what is asked for grows with the size of what is read: the exponent, from two sizes."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from torture.bombs import Bomb


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


def exponent(sizes: tuple[int, int], costs: tuple[float, float]) -> float:
    """1 where the cost grows with the size, 2 where with its square."""
    return math.log(costs[1] / costs[0]) / math.log(sizes[1] / sizes[0])


def grown(bomb: Bomb, folder: Path, size: int, times: int, cost: Callable[[Path], float]) -> float:
    """The exponent of a cost between a size and `times` as much."""
    costs = []
    for factor in (1, times):
        where = folder / str(factor)
        where.mkdir()
        costs.append(cost(bomb.put(where, factor * size)))
    return exponent((size, times * size), (costs[0], costs[1]))

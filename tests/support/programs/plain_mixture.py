"""The dumb answer of a mixture of experts: one token at a time, one expert at a time, number by number.

For the tests of `gpuledger_workloads.moe` and `ep`; shares no line with them but the numbers of an expert's weights.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gpuledger_workloads.mixture.experts import fill


def weights_of(expert: int, hidden: int, ffn: int, seed: int) -> tuple[Any, Any]:
    up, down = torch.empty(2 * ffn, hidden), torch.empty(hidden, ffn)
    fill(up, down, seed, expert)
    return up.double(), down.double()


def through(token: Any, up: Any, down: Any) -> Any:
    """SwiGLU: down(silu(gate) * up), with the sigmoid written out."""
    ffn = down.shape[1]
    middle = []
    for at in range(ffn):
        gate, other = float(up[at] @ token), float(up[ffn + at] @ token)
        middle.append(gate / (1 + math.exp(-gate)) * other)
    return down @ torch.tensor(middle, dtype=torch.float64)


def dumb(hidden: Any, experts: Any, weights: Any, *, count: int, ffn: int, seed: int, first: int = 0) -> Any:
    """What tokens become. An expert number of `count` or more is nobody's; number 0 is expert `first` of the seed."""
    width = hidden.shape[1]
    found = torch.zeros(len(hidden), width, dtype=torch.float64)
    made = {each: weights_of(first + each, width, ffn, seed) for each in range(count)}
    for token, (row, names, shares) in enumerate(zip(hidden, experts.tolist(), weights.tolist(), strict=True)):
        for expert, share in zip(names, shares, strict=True):
            if expert < count:
                found[token] += share * through(row.double(), *made[expert])
    return found


def likeliest(hidden: Any, matrix: Any, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """A router by sorting: the k largest chances of each token, and their shares of the sum."""
    experts, shares = [], []
    for token in hidden:
        logits = (matrix.double() @ token.double()).tolist()
        best = sorted(range(len(logits)), key=lambda each: -logits[each])[:k]
        chances = [math.exp(logits[each] - max(logits)) for each in best]
        experts.append(best)
        shares.append([chance / sum(chances) for chance in chances])
    return experts, shares

"""The answer of a mixture in another way: no token is moved, every expert sees all of them, and the weights pick.

In: the layer's tokens and router. Out: what each token should have become, in double precision, and how far a result is
from it. Weights of experts are made again from the seed, one expert at a time, so that neither a wrong place in memory
nor a wrong order can hide, and a large mixture needs no second copy. Of many tokens a sample is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.mixture.experts import MixtureShape, fill
from gpuledger_workloads.mixture.routing import Router
from gpuledger_workloads.program import refuse

SAMPLE = 64
TOLERANCE = {"bf16": 0.05, "fp16": 0.01, "fp32": 1e-3}
"""Of the mean norm of a row. One wrong expert of k is wrong by about sqrt(2 / k) of it."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows what the tokens of a layer should become."""

    shape: MixtureShape
    router: Router
    hidden: Tensor
    seed: int
    dtype: str

    def checked(self, result: Tensor, what: str) -> float:
        """How far the worst token is off, by the mean norm of one; ends the program where that is too far."""
        if result.shape != self.hidden.shape:
            refuse(f"{what}: {tuple(self.hidden.shape)} went in, and {tuple(result.shape)} came out")
        sample = torch.tensor(sampled(len(self.hidden)), device=self.hidden.device, dtype=torch.long)
        if not len(sample):
            return 0.0
        rows, picked = self.hidden[sample], self.router(self.hidden).experts[sample]
        wrong = self.fault(rows, picked)
        if wrong:
            refuse(f"{what}: {wrong}")
        answer = self.expected(rows, self.shares(rows, picked))
        norm = float(answer.norm(dim=-1).mean()) or 1.0
        error = float((result[sample].double() - answer).norm(dim=-1).max()) / norm
        if not (error < TOLERANCE[self.dtype] and bool(result.isfinite().all())):  # also when it is NaN
            refuse(f"{what}: a token is off by {error:.3g} of the norm that tokens have")
        return error

    def shares(self, rows: Tensor, picked: Tensor) -> Tensor:
        """How much of each expert is in a token, tokens x experts, if it goes to the `picked` ones."""
        chances = (rows.double() @ self.router.weight.double().T).softmax(dim=-1)
        if self.router.plan is None:
            weights = chances.gather(1, picked)
        else:
            weights = chances.sort(dim=-1, descending=True).values[:, : self.router.k]
        return torch.zeros_like(chances).scatter(1, picked, weights / weights.sum(dim=-1, keepdim=True))

    def expected(self, rows: Tensor, share: Tensor) -> Tensor:
        """Every token through every expert that any of them has a share of."""
        shape = self.shape
        up = rows.new_empty(2 * shape.ffn, shape.hidden)
        down = rows.new_empty(shape.hidden, shape.ffn)
        wanted = (share > 0).any(dim=0).tolist()
        exact = rows.double()
        mixed = torch.zeros_like(exact)
        for expert in range(shape.experts):
            if wanted[expert]:
                fill(up, down, self.seed, expert)
                gate = exact @ up[: shape.ffn].double().T
                middle = gate * gate.sigmoid() * (exact @ up[shape.ffn :].double().T)
                mixed += share[:, expert, None] * (middle @ down.double().T)
        return mixed

    def fault(self, rows: Tensor, picked: Tensor) -> str | None:
        """What is wrong with the experts that tokens were sent to; rounding may exchange two that are as likely."""
        if (picked.sort(dim=-1).values.diff(dim=-1) == 0).any():
            return "a token was sent to one expert twice"
        if self.router.plan is not None:
            return None
        logits = rows.double() @ self.router.weight.double().T
        least = logits.gather(1, picked).min(dim=-1).values
        likely = logits.topk(self.router.k, dim=-1).values[:, -1]
        if (least < likely - TOLERANCE[self.dtype] * logits.abs().max()).any():
            return "a token was not sent to its likeliest experts"
        return None


def sampled(count: int) -> list[int]:
    """The tokens to look at: all of a few, else some at even distances, with the first and the last."""
    if count <= SAMPLE:
        return list(range(count))
    return [round(number * (count - 1) / (SAMPLE - 1)) for number in range(SAMPLE)]

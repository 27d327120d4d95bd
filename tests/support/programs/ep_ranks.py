"""What ranks do in tests of `gpuledger_workloads.ep`: other processes import it, so it is a module of its own.

Each rank does passes of the layer and compares them with a dumb loop over its own tokens; or it has a fault, and the
program's own check must notice. What it finds goes back as a dictionary.
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest.mock import patch

import torch

from gpuledger_workloads import ep
from gpuledger_workloads.mixture.experts import MODES, bank
from gpuledger_workloads.ranks import Rank
from support.programs.plain_mixture import dumb, likeliest


def compared(rank: Rank, options: argparse.Namespace) -> dict[str, Any]:
    """How far every mode is from the dumb loop in the worst of its cases, and what was sent."""
    errors, traffic = [], []
    for tokens, routing in options.cases:
        options.tokens_per_rank, options.routing = tokens, routing
        place = ep.build(rank, options)
        experts, shares = likeliest(place.hidden, place.router.weight, options.experts_per_token)
        if place.router.plan is not None:
            experts = place.router.plan.tolist()
        k = options.experts_per_token
        expected = dumb(
            place.hidden,
            torch.tensor(experts, dtype=torch.long).view(-1, k),
            torch.tensor(shares, dtype=torch.float64).view(-1, k),
            count=options.num_experts,
            ffn=options.ffn_dim,
            seed=options.seed,
        )
        for mode in MODES:
            output, moved = ep.passed(place, mode, ep.Communication(rank))
            again, _ = ep.passed(place, mode, ep.Communication(rank))
            assert output.shape == expected.shape
            assert torch.equal(output, again)
            errors.append(float((output.double() - expected).norm() / (expected.norm() or 1)))
        mine = [{owner_of(each, place) for each in row} for row in experts]
        wanted = [sum(other in ranks for ranks in mine) for other in range(rank.count)]
        traffic.append((moved.send, wanted, moved.receive, moved.assigned))
    held = range(place.held.first, place.held.first + len(place.held))
    own = place.held.up.sum().item(), place.hidden.sum().item()
    return {"error": max(errors), "traffic": traffic, "held": list(held), "own": own}


def owner_of(expert: int, place: ep.RankLayer) -> int:
    return int(place.owner[expert])


def faulty(rank: Rank, options: argparse.Namespace) -> dict[str, Any]:
    """The program on ranks of which the last has two experts in each other's place."""

    def swapped(*given: Any, **named: Any) -> Any:
        held = bank(*given, **named)
        held.down[[0, 1]] = held.down[[1, 0]]
        return held

    with patch.object(ep, "bank", swapped if rank.index == rank.count - 1 else bank):
        return ep.work(rank, options)

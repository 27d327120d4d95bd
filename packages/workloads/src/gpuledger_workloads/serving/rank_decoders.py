"""Decoders of the ranks of one process, whose experts are spread over all ranks: what each looks at in, logits out.

Each rank has its own sequences, their cache, and a share of the experts of each layer; all else every rank has, and
ranks of one process have it together. Layer by layer each rank attends to its own tokens; then all ranks swap tokens
as `mixture.exchange` says. A rank without tokens takes part in that all the same. A decoder alone, called as a model,
gives the dense answer: no token is moved, and the weights of experts are made, or read, once more.

NVTX: "layerN", in it "attention", then "mlp", or "route", "dispatch", "expert_gemm", "combine" and, where a model has
such, "shared_experts".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger.capture.window import window
from gpuledger_workloads.decoder.checkpoint import Checkpoint
from gpuledger_workloads.decoder.model import Decoder, DecoderLayer, ModelShare, Reading, build, router_weight
from gpuledger_workloads.decoder.size import DecoderSize
from gpuledger_workloads.device import DTYPES
from gpuledger_workloads.mixture.exchange import Dispatch, RankExperts, RankGroup, normal, owners
from gpuledger_workloads.mixture.experts import TOLERANCE, MixtureShape, fill, filled_bank
from gpuledger_workloads.mixture.routing import Gating, Routed, Router
from gpuledger_workloads.program import refuse

Source = Callable[[Tensor, Tensor, int, int], None]
"""Writes the matrices, up and down, of an expert of a layer."""
Readings = Sequence[Reading | None]  # what each rank of this process looks at; None: nothing
Seen = Callable[[int, DecoderLayer, Tensor, Tensor], None]
"""Gets, for each rank that has tokens and each layer with experts, the tokens that came in and what came out."""


class RoutedExperts(nn.Module):  # type: ignore[misc, unused-ignore]
    """The router of a layer whose experts are elsewhere. Called, it gives the dense answer."""

    def __init__(self, size: DecoderSize, layer: int, source: Source) -> None:
        super().__init__()
        self.size, self.layer, self.source = size, layer, source
        self.gating = Gating()
        self.router = router_weight(size)

    def routed(self, tokens: Tensor) -> Routed:
        return Router(self.router, self.size.top_k, None, self.gating)(tokens)

    def forward(self, hidden: Tensor) -> Tensor:
        tokens, size = hidden.flatten(0, -2), self.size
        routed = self.routed(tokens)
        mixed = torch.zeros_like(tokens, dtype=torch.float32)
        up, down = tokens.new_empty(2 * size.ffn, size.width), tokens.new_empty(size.width, size.ffn)
        for expert in routed.experts.unique().tolist():
            which, place = (routed.experts == expert).nonzero(as_tuple=True)
            self.source(up, down, self.layer, expert)
            gate, wide = (tokens[which].float() @ up.float().T).chunk(2, dim=-1)
            outputs = (F.silu(gate) * wide) @ down.float().T
            mixed.index_add_(0, which, outputs * routed.weights[which, place, None])
        return mixed.to(hidden.dtype).view_as(hidden)


@dataclass(frozen=True, slots=True)
class RankDecoders:
    """The decoders of a group's ranks; None where a rank has no sequences and no experts."""

    group: RankGroup
    size: DecoderSize
    dtype: str
    models: Sequence[Decoder | None]
    sequences: Sequence[int]
    experts: Sequence[Sequence[RankExperts]]  # by layer, then by rank; empty for a layer without

    def prefill(self, prompts: Sequence[tuple[Tensor, int, slice] | None]) -> list[Tensor | None]:
        """Read a chunk of prompts on each rank: its tokens, where they begin, of which sequences."""
        readings = self.group.each(
            lambda place: self._model(place).to_prefill(*given) if (given := prompts[place]) else None
        )
        return self._followed(readings, normal)

    def step(self, dispatch: Dispatch) -> list[Tensor | None]:
        readings = self.group.each(lambda place: self._model(place).to_step() if self.sequences[place] else None)
        return self._followed(readings, dispatch)

    def passed(self, readings: Readings, dispatch: Dispatch, seen: Seen | None = None) -> list[Tensor | None]:
        """The logits of what follows on each rank."""
        on_ranks = self.group.each
        begun = on_ranks(
            lambda place: None if (reading := readings[place]) is None else self._model(place).begun(reading)
        )
        hidden = [self._nothing() if start is None else start[0] for start in begun]

        def attended(place: int) -> Tensor:
            start = begun[place]
            return hidden[place] if start is None else self._layer(place, number).attend(hidden[place], start[1])

        for number in range(self.size.layers):
            with window(f"layer{number}"):
                with window("attention"):
                    hidden = on_ranks(attended)
                hidden = self._fed(number, hidden, begun, dispatch, seen)
        return on_ranks(lambda place: None if begun[place] is None else self._model(place).logits(hidden[place]))

    def _fed(
        self, number: int, hidden: list[Tensor], begun: Sequence[Any], dispatch: Dispatch, seen: Seen | None
    ) -> list[Tensor]:
        on_ranks, experts = self.group.each, self.experts[number]

        def normed_of(place: int) -> Tensor:
            return hidden[place] if begun[place] is None else self._layer(place, number).mlp_norm(hidden[place])

        if not experts:
            with window("mlp"):
                return on_ranks(
                    lambda place: (
                        hidden[place]
                        if begun[place] is None
                        else hidden[place] + self._layer(place, number).feed(normed_of(place))
                    )
                )
        normed = on_ranks(normed_of)
        rows = [state.flatten(0, -2) for state in normed]
        mixed = dispatch(self.group, experts, rows)
        if seen is not None:
            for place, start in enumerate(begun):
                if start is not None:
                    seen(place, self._layer(place, number), rows[place], mixed[place])
        if self.size.shared_experts:
            with window("shared_experts"):
                mixed = on_ranks(
                    lambda place: (
                        mixed[place]
                        if begun[place] is None
                        else mixed[place] + self._layer(place, number).shared(rows[place])
                    )
                )
        return on_ranks(lambda place: hidden[place] + mixed[place].view_as(hidden[place]))

    def layer_error(self, readings: Readings, dispatch: Dispatch) -> float | None:
        """How far experts on other ranks are from the dense answer on the same tokens; None: no layer has any.

        By the norm that tokens have, in the layer and for the token where it is most; the program ends where that is
        too far. All ranks must call it.
        """
        errors: list[float] = []

        def compared(place: int, layer: DecoderLayer, rows: Tensor, mixed: Tensor) -> None:
            if rows.is_cuda:
                torch.cuda.synchronize()
            expected = layer.mlp(rows).float()
            norm = float(expected.norm(dim=-1).mean()) or 1.0
            errors.append(float((mixed.float() - expected).norm(dim=-1).max()) / norm)
            if not errors[-1] < TOLERANCE[self.dtype]:  # also when it is NaN
                refuse(
                    f"rank {self.group.indices[place]}: a token is off by {errors[-1]:.3g} of the norm that tokens "
                    "have from what the same experts give without dispatch"
                )

        self.passed(readings, dispatch, compared)
        return max(errors) if errors else None

    def _followed(self, readings: Readings, dispatch: Dispatch) -> list[Tensor | None]:
        logits = self.passed(readings, dispatch)

        def follow(place: int) -> Tensor | None:
            last, reading = logits[place], readings[place]
            return None if last is None or reading is None else self._model(place).follow(last, reading.rows)

        return self.group.each(follow)

    def _model(self, place: int) -> Decoder:
        model = self.models[place]
        if model is None:
            raise ValueError(f"rank {self.group.indices[place]} has no sequences")  # so nobody asks
        return model

    def _layer(self, place: int, number: int) -> Any:
        return self._model(place).layers[number]

    def _nothing(self) -> Tensor:
        return torch.empty(0, self.size.width, device=self.group.device, dtype=DTYPES[self.dtype])


def built(
    group: RankGroup,
    size: DecoderSize,
    batches: Sequence[int],
    steps: int,
    checkpoint: Checkpoint | None,
    *,
    dtype: str,
    seed: int,
) -> RankDecoders:
    """The decoders of the ranks of this process, with room for so many steps; `batches` are sequences of all ranks.

    Weights are those of a checkpoint, or random ones of a seed.
    """

    def random(up: Tensor, down: Tensor, layer: int, expert: int) -> None:
        fill(up, down, seed, layer * size.experts + expert)  # other ones in each layer

    source: Source = partial(checkpoint.fill_expert, size) if checkpoint else random
    owner = owners(size.experts, group.count)
    models: list[Decoder | None] = []
    for index in group.indices:
        if not (batches[index] or size.experts):
            models.append(None)  # nothing to do, and nothing to do for others
            continue
        first = next((model for model in models if model is not None), None)
        held = 0 if first else sum(int((owner == rank).sum()) for rank in group.indices)
        of_rank = replace(size, batch=batches[index] or 1)
        fed = partial(RoutedExperts, source=source)
        model = build(of_rank, steps, group.device, dtype, seed, fed=fed, share=ModelShare(held))
        give_weights(model, size, checkpoint, first)
        models.append(model)
    mixtures = [
        [_of_rank(layer, size, index, owner, max(batches), dtype, group.device) for index, layer in layers]
        for layers in _by_layer(group, models, size)
    ]
    return RankDecoders(group, size, dtype, models, [batches[index] for index in group.indices], mixtures)


def give_weights(model: Decoder, size: DecoderSize, checkpoint: Checkpoint | None, other: Decoder | None) -> None:
    """Give a model the weights of another of the same size, if there is one, else those of a checkpoint, if any."""
    if other:
        for mine, theirs in zip(model.modules(), other.modules(), strict=True):
            for name, weight in theirs.named_parameters(recurse=False):
                setattr(mine, name, weight)  # so that they are there once
        if checkpoint:
            checkpoint.follow(model)
    elif checkpoint:
        checkpoint.fill(model, size)


def _by_layer(
    group: RankGroup, models: Sequence[Decoder | None], size: DecoderSize
) -> Iterator[list[tuple[int, DecoderLayer]]]:
    """The ranks of each layer that has experts; of the others none."""
    for number in range(size.layers):
        layers = [(index, model.layers[number]) for index, model in zip(group.indices, models, strict=True) if model]
        yield [(index, layer) for index, layer in layers if layer.is_mixed]


def _of_rank(
    layer: Any, size: DecoderSize, index: int, owner: Tensor, room: int, dtype: str, device: str
) -> RankExperts:
    held = (owner == index).nonzero().flatten().tolist()
    shape, mixture = MixtureShape(size.experts, size.width, size.ffn), layer.mlp
    weights = filled_bank(
        shape,
        range(held[0], held[-1] + 1),
        lambda up, down, expert: mixture.source(up, down, mixture.layer, expert),
        device=device,
        dtype=DTYPES[dtype],
    )
    return RankExperts(mixture.routed, weights, owner.to(device), room)

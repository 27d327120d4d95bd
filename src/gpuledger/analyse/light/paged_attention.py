"""Attention over a cache in pages: how long its sequences are is not among its operator's inputs.

SGLang and vLLM write it into the annotation around a step, of prompts and of tokens that are made:
`execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)` has sums over the requests of
queries, keys, queries squared, and queries times keys. Layers that look back over a window only need less: a bound.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from gpuledger.analyse.operators.arithmetic import ELEMENT_BYTES, Count, Inputs
from gpuledger.regex import regex

_SUMS: Final = r"sq(\d{1,12})sk(\d{1,12})sqsq(\d{1,18})sqsk(\d{1,18})"
_BATCH: Final = regex(rf"^execute_\d+_context_\d+\({_SUMS}\)_generation_\d+\({_SUMS}\)")


class BatchLengths(NamedTuple):
    """Of all requests in a step together."""

    queries: int
    keys: int
    scores: int
    """Pairs of a query and a key that it sees: those up to its own position."""


def batch_lengths(annotation: str) -> BatchLengths | None:
    """What an engine's annotation says."""
    match = _BATCH.match(annotation)
    if match is None:
        return None
    prompts, made = (tuple(map(int, match.groups()[side : side + 4])) for side in (0, 4))
    queries, keys = (prompts[at] + made[at] for at in (0, 1))
    return BatchLengths(queries, keys, prompts[3] - prompts[2] // 2 + made[3])


def says_lengths(annotation: str) -> bool:
    """Whether it is such an annotation."""
    return batch_lengths(annotation) is not None


def paged_count(given: Inputs, lengths: BatchLengths) -> Count | None:
    """Queries of [tokens, heads, width], then keys and values of [..., heads, width]; None where none fit."""
    tensors = [at for at, shape in enumerate(given.shapes) if len(shape) > 2]
    if not tensors or len(query := given.shapes[tensors[0]]) != 3 or query[0] < lengths.queries or not query[1]:
        return None
    heads, width = query[1:]
    read = [at for at in tensors[1:] if given.shapes[at][-1] == width and _divides(given.shapes[at][-2], heads)]
    read = [at for at in read if given.shapes[at] != query] or read
    if len(read) < 2:
        return None
    sizes = [ELEMENT_BYTES.get(given.kind(at) or "", 1) for at in (tensors[0], read[0])]
    moved = 2 * prod(query) * sizes[0] + 2 * lengths.keys * given.shapes[read[0]][-2] * width * sizes[1]
    return Count(4 * lengths.scores * heads * width, given.kind(tensors[0]), is_bound=True, moved_bytes=moved)


def _divides(part: int, whole: int) -> bool:
    return part > 0 and whole % part == 0

"""Whether a decoder told the truth: its logits in, how far they are from those that another way gives out.

Two other ways: one pass over the whole text, which does not use the cache; and the last token read again as a decode
step reads it, over the cache, with another kernel and a mask. Both belong after the measured part.
"""

from __future__ import annotations

from torch import Tensor  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.device import error_of
from gpuledger_workloads.common.program import refuse
from gpuledger_workloads.decoder.model import EVERY, Decoder
from gpuledger_workloads.decoder.size import DecoderSize

TOLERANCE = {"dense": 0.05, "experts": 0.3}  # of the logits' norm; rounding may send a token to another expert


def whole_pass(model: Decoder, length: int, rows: slice = EVERY) -> Tensor:
    """The logits after so many tokens of the text, from one pass over them."""
    return model(model.text[rows, :length], model.everywhere[:length], None, 0, rows)


def read_again(model: Decoder, length: int, rows: slice = EVERY) -> Tensor:
    """The logits after so many tokens of the text, from the last of them and the cache of the rest."""
    return model(*model.to_read_again(length, rows))


def agreed(found: Tensor, expected: Tensor, size: DecoderSize, what: str) -> float:
    """How far two logits are apart, relative to their norm; the program ends where that is too far."""
    error = error_of(found, expected)
    limit = TOLERANCE["experts" if size.experts else "dense"]
    if not error < limit:  # also when it is NaN
        refuse(f"{what} are off by {error:.3g} of their norm, more than {limit:g}")
    return error

"""What `gpuledger time` wrote: a JSON document in, the operations that it timed out, one or two.

A timing knows how long calls took, and nothing of kernels, so only times are compared.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from gpuledger.errors import UnreadableProfile
from gpuledger.timing.settle import interval_with_halves, median

ONE: Final = "gpuledger.time/1"
TWO: Final = "gpuledger.timepair/1"


CALL: Final = "timed_call"  # stands for all that runs in a call, by one name whatever the operation is called


class TimedOperation(msgspec.Struct, frozen=True):
    """One operation, as far as a comparison needs it."""

    operation: str
    device: str
    device_name: str
    graph: bool
    median_ns: Annotated[float, msgspec.Meta(ge=0)]
    """The usual call; of the second of a pair, the first's and their difference round by round."""
    samples_ns: Annotated[tuple[Annotated[float, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1)]
    """How long one call took, sample by sample."""
    beside: tuple[float, ...] | None = None  # of a pair: what the first took in the same rounds

    seconds: float = 0.0

    @property
    def near_ns(self) -> tuple[float, float] | None:
        """Of a pair: where the usual call lies by the rounds alone; `bounds_ns` holds what may speak against it."""
        if self.beside is None:
            return None
        ends = interval_with_halves([own - first for first, own in zip(self.beside, self.samples_ns, strict=True)])
        usual_ns = median(sorted(self.beside))
        return None if ends is None else (max(usual_ns + ends[0], 0.0), max(usual_ns + ends[1], 0.0))

    @property
    def bounds_ns(self) -> tuple[float, float] | None:
        """Where the usual call lies; of a pair, next to the first's usual call. None where that is not known.

        What else a machine does only adds time, so it also holds what the shortest calls say. It is not known of few
        samples, nor of a host's time alone: from one run to the next a host may be twice as fast.
        """
        if self.device == "cpu" and self.beside is None:
            return None
        beside = self.beside or (0.0,) * len(self.samples_ns)
        ends = interval_with_halves([own - first for first, own in zip(beside, self.samples_ns, strict=True)])
        if ends is None:
            return None
        least_ns, usual_ns = min(self.samples_ns) - min(beside), median(sorted(beside))
        return max(usual_ns + min(least_ns, ends[0]), 0.0), max(usual_ns + max(least_ns, ends[1]), 0.0)


class _Pair(msgspec.Struct, frozen=True):
    first: TimedOperation
    second: TimedOperation
    difference_ns: float


def is_timing(head: bytes) -> bool:
    """Whether a file that begins so is of `gpuledger time`."""
    return any(f'"{schema}"'.encode() in head[:200] for schema in (ONE, TWO))


def timed_operations(content: bytes, name: str) -> tuple[TimedOperation, ...]:
    """The operations of a document; `name` is what a refusal calls it."""
    try:
        if f'"{TWO}"'.encode() in content[:200]:
            pair = msgspec.json.decode(content, type=_Pair)
            if len(pair.first.samples_ns) != len(pair.second.samples_ns):
                raise msgspec.ValidationError("its operations have not as many samples")
            usual_ns = max(pair.first.median_ns + pair.difference_ns, 0.0)
            rounds = pair.first.samples_ns
            second = msgspec.structs.replace(pair.second, median_ns=usual_ns, beside=rounds)
            return msgspec.structs.replace(pair.first, beside=rounds), second
        return (msgspec.structs.replace(msgspec.json.decode(content, type=TimedOperation), beside=None),)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableProfile(
            f"{name}: not a whole timing: {error}", hint="write it again with `gpuledger time ... -o FILE.json`"
        ) from None

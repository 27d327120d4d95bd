"""Light of kernels that are told together, by operator or by place in a step: some kernels in, their sums out."""

from __future__ import annotations

import numpy as np

from gpuledger.analyse.light.kernel_light import LightSource, kernel_light
from gpuledger.analyse.steady_kernels import SteadyKernels
from gpuledger.records import dataclass
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints


@dataclass(frozen=True, slots=True)
class LitTime:
    """Of some kernels, those of which light is known."""

    known_ns: int
    light_ns: int
    source: LightSource  # what most of it is known from

    @property
    def share(self) -> float:
        """Of what they took."""
        return self.light_ns / max(self.known_ns, 1)

    @property
    def beyond_ns(self) -> int:
        """What they took longer; what could be done without is part of it."""
        return self.known_ns - self.light_ns


def lit_times(
    kernels: SteadyKernels, places: Positions, number: Positions, count: int, part_ns: Ints
) -> list[LitTime | None]:
    """Of `count` groups of kernels, by the number of each one's group; None where nothing is known of one's.

    Kernels are given by their places among the steady ones, each with the part of its time that counts.
    """
    light, took = kernels.once(kernel_light), np.maximum(kernels.took_ns[places], 1)
    known = light.is_known[places]
    mine, source, part = number[known], light.source[places][known].astype(np.intp), part_ns[known]
    lit = np.nan_to_num(light.light_ns[places][known]) * part / took[known]
    by_source = np.bincount(mine * len(LightSource) + source, part, count * len(LightSource)).reshape(
        count, len(LightSource)
    )
    figures = zip(
        np.bincount(mine, minlength=count).tolist(),
        np.rint(by_source.sum(1)).astype(np.int64).tolist(),
        np.rint(np.bincount(mine, lit, count)).astype(np.int64).tolist(),
        by_source.argmax(1).tolist(),
        strict=True,
    )
    return [LitTime(took_ns, lit_ns, LightSource(most)) if some else None for some, took_ns, lit_ns, most in figures]

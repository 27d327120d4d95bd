"""Operators under the roofs of their GPU, from the shapes that they were given alone.

Operations and bytes are what an operator needs: inputs read once, outputs written once. Operators without arithmetic
that is counted have no place here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from gpuledger.analyse.light.kernel_light import kernel_light
from gpuledger.analyse.light.moved_bytes import moved_bytes
from gpuledger.analyse.light.reachable import SINGLE, LightRoof
from gpuledger.analyse.light.steady_kernels import SteadyKernels
from gpuledger.analyse.operators.arithmetic import count_of, outputs_of
from gpuledger.catalog.gpus import peak_flops
from gpuledger.trace.model import NotMeasured


class OperatorPoint(Struct, frozen=True):
    """The operators of one name that were given the same."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    took_ns: int
    flops: int
    moved_bytes: int
    roof: LightRoof
    share: float  # of what the nearer roof allows

    @property
    def operations_per_byte(self) -> float:
        return self.flops / self.moved_bytes

    @property
    def operations_per_s(self) -> float:
        return self.flops * 1e9 / self.took_ns


class OperatorRoofline(Struct, frozen=True):
    """The longest first."""

    points: tuple[OperatorPoint, ...]
    compute_per_s: Mapping[str, float]  # the peaks of what they compute in
    bytes_per_s: float


def operator_roofline(kernels: SteadyKernels) -> OperatorRoofline | None:
    """Of the operators that launched steady kernels; None where none has counted arithmetic, or peaks are not known."""
    light, gpu = kernels.once(kernel_light), kernels.gpu
    if light.operators is None or gpu is None or not np.isfinite(light.ns_per_byte):
        return None
    points, peaks, outputs = list[OperatorPoint](), dict[str, float](), outputs_of(light.kinds)
    for number, name, given in light.told:
        here = light.kernels_of(number)
        took_ns, count = int(kernels.took_ns[here].sum()), count_of(name, given, outputs)
        if count is None or not count.flops or not took_ns or count.kind is None:
            continue
        singles = [single for single in SINGLE if kernels.multiply_in(single)[here].any()]
        kind = (singles[0] if len(singles) == 1 else "tf32") if count.kind == "fp32" else count.kind
        peak, moved = peak_flops(gpu, kind), count.moved_bytes or moved_bytes(name, given, None)
        if isinstance(peak, NotMeasured) or not moved:
            continue
        peaks[kind] = peak
        times, share = len(np.unique(light.operators.row[here])), float(np.nansum(light.light_ns[here])) / took_ns
        roof = LightRoof(int(light.roof[here[kernels.took_ns[here].argmax()]]))
        points.append(OperatorPoint(name, given.shapes, took_ns, times * count.flops, times * moved, roof, share))
    if not points:
        return None
    points.sort(key=lambda point: (-point.took_ns, point.name, point.shapes))
    return OperatorRoofline(tuple(points), peaks, 1e9 / light.ns_per_byte)

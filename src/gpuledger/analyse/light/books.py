"""The busy half of the books: every nanosecond of compute as light, lost, avoidable or unknown.

Avoidable is what the ways of doing without would save; of what is left, light is what the GPU's roofs allow, and lost
is what it took beyond that. An instant of kernels that run at once belongs to the one that started first, as in the
ledger. Kernels of the steps that are replayed stand for all of them, so that the four sum to the ledger's compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.analyse.light.kernel_light import KernelLight, LightSource, kernel_light
from gpuledger.analyse.light.needless_work import (
    drop_redundant_fills,
    drop_unused_results,
    gather_instead_of_onehot_matmul,
    keep_activations,
    update_looked_up_rows,
)
from gpuledger.analyse.light.reachable import LightRoof
from gpuledger.analyse.light.steady_kernels import KernelSavings, SteadyKernels
from gpuledger.analyse.light.wasted_work import (
    fuse_attention,
    fused_chains,
    fused_updates,
    remove_layout_conversions,
    remove_tensor_copies,
)
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.trace.keys import distinct, group

WITHOUT: Final[Sequence[Callable[[SteadyKernels], KernelSavings]]] = (
    *(keep_activations, update_looked_up_rows, drop_unused_results, drop_redundant_fills),
    *(gather_instead_of_onehot_matmul, remove_layout_conversions, remove_tensor_copies),
    *(fuse_attention, fused_chains, fused_updates),
)
"""Ways of doing without work."""


SOURCES: Final = {
    LightSource.SHAPES: say("shapes"),
    LightSource.SAMPLES: say("samples of counters"),
    LightSource.NCU: say("Nsight Compute"),
    LightSource.LAUNCH: say("launch sizes"),
    LightSource.UNKNOWN: say("unknown"),
}
"""What light is known from, in words."""


class BusyTime(Struct, frozen=True):
    """Compute time by what it was good for."""

    light_ns: int
    lost_ns: int
    avoidable_ns: int
    unknown_ns: int

    @property
    def whole_ns(self) -> int:
        return self.light_ns + self.lost_ns + self.avoidable_ns + self.unknown_ns


class FamilyTime(BusyTime, frozen=True, kw_only=True):
    """The same of one family of kernels."""

    family: str


class LightRow(Struct, frozen=True):
    """The kernels of one name that operators of one name launched, over the steady stretch."""

    kernel: str
    operator: str | None
    count: int
    took_ns: int
    light_ns: int
    low_ns: int
    high_ns: int
    source: LightSource
    roof: LightRoof

    @property
    def share(self) -> float | None:
        """Of its time; None where it is not known."""
        return None if self.source is LightSource.UNKNOWN else self.light_ns / max(self.took_ns, 1)


class StepAtLight(Struct, frozen=True):
    """A GPU's steady step with compute at the roofs, nothing avoidable, and never idle. Kernels that are unknown, and
    exposed communication and copies, take what they took."""

    now_ns: int  # the mean steady step
    step_ns: int
    mfu_share: float
    """Of now_ns: arithmetic at the peak of its type, of kernels that it limits. Avoidable work and kernels that memory
    limits, or that are unknown, are left out."""
    bandwidth_share: float  # of now_ns: bytes at the memory's bandwidth, of kernels that they limit
    unknown_share: float  # of compute: left out of both
    tokens: int | None  # rows of the vocabulary that one step looks up on this GPU; null where that is not known


ENOUGH_KNOWN: Final = 0.1  # what a step could take is told where no more of its compute is unknown


class LightBooks(Struct, frozen=True):
    """Of one GPU's steady stretch."""

    whole: BusyTime
    families: tuple[FamilyTime, ...]  # the longest first
    rows: tuple[LightRow, ...]  # likewise
    source: LightSource  # what most of the known time is known from
    skinny_ns: int
    """Of products that read their weights at nearly the memory's bandwidth: of few rows, and nothing to fix."""
    arithmetic_ns: int
    """Of the light: kernels that arithmetic limits, at its peak. The others are limited by memory, at its bandwidth."""
    tokens: int | None = None  # of one step, where it is known

    @property
    def is_telling(self) -> bool:
        """Whether so much is known of compute that its shares say something of the whole."""
        return self.whole.unknown_ns < MOSTLY_KNOWN * self.whole.whole_ns

    @property
    def by_kernel(self) -> dict[str, float]:
        """Light in percent of their time, by the names of the longest kernels, where it is known."""
        sums: dict[str, tuple[int, int]] = {}
        for row in self.rows:
            if row.source is not LightSource.UNKNOWN:
                light_ns, took_ns = sums.get(row.kernel, (0, 0))
                sums[row.kernel] = light_ns + row.light_ns, took_ns + row.took_ns
        return {kernel: 100 * light_ns / max(took_ns, 1) for kernel, (light_ns, took_ns) in sums.items()}

    def at_light(self, device: Device) -> StepAtLight | None:
        """A step of the device whose books these are; None where too much of compute is unknown."""
        whole, steps = self.whole, device.step_count
        unknown_share = whole.unknown_ns / max(whole.whole_ns, 1)
        if unknown_share > ENOUGH_KNOWN:
            return None
        exposed_ns = sum(device.exposed_ns(kind) for kind in (LineKind.COMM, LineKind.COPY))
        return StepAtLight(
            now_ns=device.steady_ns // steps,
            step_ns=(whole.light_ns + whole.unknown_ns + exposed_ns) // steps,
            mfu_share=self.arithmetic_ns / max(device.steady_ns, 1),
            bandwidth_share=(whole.light_ns - self.arithmetic_ns) / max(device.steady_ns, 1),
            unknown_share=unknown_share,
            tokens=None if device.steps is None else self.tokens,
        )


MOSTLY_KNOWN: Final = 0.5  # books of which less is known say nothing of the whole

PARTS: Final = ("light_ns", "lost_ns", "avoidable_ns", "unknown_ns")
MOST_ROWS: Final = 40
AT_BANDWIDTH: Final = 0.6  # products of few rows reach 60 to 90 % of the bandwidth


def light_books(device: Device, kernels: SteadyKernels) -> LightBooks | None:
    """None where nothing was computed."""
    compute_ns = device.compute_ns
    if not compute_ns or not len(kernels):
        return None
    light, own = kernels.once(kernel_light), kernels.own_ns
    took = np.maximum(kernels.took_ns, 1)
    left = kernels.took_ns.astype(np.float64)
    for way in WITHOUT:
        chosen = kernels.once(way)
        if len(chosen):
            place = kernels.places(chosen.operations)
            left[place] = np.minimum(left[place], chosen.duration_ns)
    known = np.where(light.is_known, np.minimum(np.nan_to_num(light.light_ns), left), 0.0)
    lost = np.where(light.is_known, left - known, 0.0)
    parts = np.stack([known, lost, kernels.took_ns - left, np.where(light.is_known, 0.0, left)], axis=1)
    parts *= (own / took)[:, None]
    sums_of, by_family = kernels.by_family(parts), []
    lines = {line.family: ns for line, ns in device.line_ns.items() if line.is_compute and line.family}
    for name, whole_ns in sorted(lines.items(), key=lambda entry: -entry[1]):
        parts_ns = _rounded(sums_of.get(name, np.array([0.0, 0.0, 0.0, 1.0])), whole_ns)
        by_family.append(FamilyTime(*parts_ns, family=name))
    sums = [sum(getattr(part, side) for part in by_family) for side in PARTS]
    seen = np.bincount(light.source, own, len(LightSource))[: LightSource.UNKNOWN]
    source = LightSource(int(seen.argmax())) if seen.any() else LightSource.UNKNOWN
    is_skinny = kernels.of_families(frozenset({"gemm"})) & (light.roof == LightRoof.MEMORY)
    is_skinny &= light.is_known & (light.light_ns >= AT_BANDWIDTH * took)
    skinny_ns = round(compute_ns * float(own[is_skinny].sum()) / max(float(own.sum()), 1.0))
    of_light = parts[:, 0]
    arithmetic = of_light[light.roof == LightRoof.COMPUTE].sum() / max(of_light.sum(), 1.0)
    rows = light_rows(device, kernels, MOST_ROWS)
    arithmetic_ns, tokens = round(arithmetic * sums[0]), _tokens(light, kernels.step_count)
    return LightBooks(BusyTime(*sums), tuple(by_family), rows, source, skinny_ns, arithmetic_ns, tokens)


LOOKUP: Final = "aten::embedding"
LEAST_WORDS: Final = 1000  # a table of fewer rows holds positions, or kinds of something


def _tokens(light: KernelLight, steps: int) -> int | None:
    """How many rows of the vocabulary are looked up in a step. A vocabulary is a table that rows are looked up in, and
    that has as many rows as a product has columns: the logits. Other tables are not of tokens, and a program without
    lookups says nothing."""
    lookups = {number: given.shapes[:2] for number, name, given in light.told if name == LOOKUP and given.shapes[1:]}
    if light.operators is None or not lookups:
        return None
    products = [given.shapes for _, name, given in light.told if name.endswith(("mm", "linear"))]
    columns = {size for shapes in products for shape in shapes for size in shape[-2:]}
    words = max((size for (table, _) in lookups.values() for size in table[:1] if size in columns), default=0)
    count = 0
    for number, (table, numbers) in lookups.items():
        if table[:1] == (words,):
            executions = distinct(light.operators.around(light.operators.kind == number))
            count += prod(numbers) * int(np.count_nonzero(executions >= 0))
    return count // steps or None if words >= LEAST_WORDS else None


def _rounded(parts: NDArray[np.float64], whole_ns: int) -> list[int]:
    """These shares of a whole, which they sum to."""
    edges = np.rint(np.cumsum(parts) / parts.sum() * whole_ns).astype(np.int64)
    parts_ns: list[int] = np.diff(edges, prepend=0).tolist()
    return parts_ns


def light_rows(device: Device, kernels: SteadyKernels, most: int | None = None) -> tuple[LightRow, ...]:
    """The kernels of each name that operators of a name launched, the longest first; known ones apart from others."""
    light = kernels.once(kernel_light)
    operators, operator_of = light.operator_names
    first, number = group(kernels.names, operator_of, light.source)
    scale = device.compute_ns / max(int(kernels.own_ns.sum()), 1)
    columns = (light.took_ns, *map(np.nan_to_num, (light.light_ns, light.low_ns, light.high_ns)))
    figures = np.stack([np.bincount(number, column, len(first)) for column in columns], axis=1) * scale
    counts = np.bincount(number, minlength=len(first)) * scale
    made = []
    for which in np.argsort(-figures[:, 0], kind="stable")[:most].tolist():
        place = int(first[which])
        took, light_ns, low, high = map(round, figures[which].tolist())
        made.append(
            LightRow(
                kernel=kernels.text(place),
                operator=None if operator_of[place] < 0 else operators[operator_of[place]],
                count=max(round(counts[which]), 1),
                took_ns=took,
                light_ns=light_ns,
                low_ns=low,
                high_ns=high,
                source=LightSource(int(light.source[place])),
                roof=LightRoof(int(light.roof[place])),
            )
        )
    return tuple(sorted(made, key=lambda row: (-row.took_ns, row.kernel, row.operator or "")))

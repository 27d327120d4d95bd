"""Kernels under the roofs of the GPU that they ran on: from what Nsight Compute counted, and from samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from gpuledger.analyse.light.operator_roofline import OperatorRoofline
from gpuledger.analyse.roofline.judgement import JudgedLaunch
from gpuledger.analyse.roofline.roofs import RooflinePoint, Roofs
from gpuledger.analyse.utilization.stretches import SampledRoofline
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import Message, joined, say
from gpuledger.present.charts.roofline import Ceiling, Spot, rate_text, roofline
from gpuledger.present.document import Chart
from gpuledger.present.palette import BOUNDS as TONES
from gpuledger.present.terms import BOUNDS
from gpuledger.present.views.work.utilization import CLASS_BOUNDS, CLASS_WORDS
from gpuledger.trace.model import NotMeasured
from gpuledger.units import bytes_text, share_text, time_text

NOT_COLLECTED: Final = say("operations and DRAM traffic were not collected together; collect the roofline sections")

_MOST_SPOTS: Final = 60
"""Kernels that are drawn from samples, the most time first."""

_HINTED: Final = 8
"""So many kernels are named for those who do not see the picture, the most time first."""

_LEGEND: Final = tuple((TONES[bound], words) for bound, words in BOUNDS.items())


class DrawnLaunch(Struct, frozen=True):
    """A launch, the time that it stands for, what limits it, and whether it is in the steps that are shown."""

    name: str
    time_ns: int
    bound: str
    limit: str
    """In words."""
    points: Sequence[RooflinePoint]
    roofs: Roofs
    is_inside: bool = True


def drawn_launch(judged: JudgedLaunch, time_ns: int, limit: str, *, is_inside: bool = True) -> DrawnLaunch:
    """A launch that was judged, standing for so much time."""
    name, bound = judged.launch.name, judged.verdict.bound
    return DrawnLaunch(name, time_ns, bound, limit, judged.points, judged.roofs, is_inside)


def launch_roofline(launches: Sequence[DrawnLaunch], caption: str) -> Chart | None:
    """Every launch at DRAM, and the roofs over the one that took longest; None where nothing is known."""
    totals = {
        inside: sum(drawn.time_ns for drawn in launches if drawn.is_inside is inside) or 1 for inside in (True, False)
    }
    spots = []
    for drawn in launches:
        point = next((point for point in drawn.points if point.level == "DRAM"), None)
        if point is None or point.operations_per_byte <= 0 or point.operations_per_s <= 0:
            continue
        name = cut_label(label(drawn.name))
        spots.append(
            Spot(
                name=name,
                operations_per_byte=point.operations_per_byte,
                operations_per_s=point.operations_per_s,
                weight=drawn.time_ns / totals[drawn.is_inside],
                tone=TONES.get(drawn.bound, "muted"),
                hint=_hint(name, point.operations_per_s, point.share, drawn.limit, drawn.time_ns),
                hollow=not drawn.is_inside,
            )
        )
    placed = [launch for launch in launches if launch.points]
    if not spots or not placed:
        return None
    over = max(placed, key=lambda launch: launch.time_ns).roofs
    kinds = sorted({point.kind for launch in placed for point in launch.points if point.kind in over.compute})
    if not kinds:
        return None
    dram = next((roof.per_s for level, roof in over.memory.items() if level == "DRAM"), None)
    flat = {kind: over.compute[kind].per_s for kind in kinds}
    return _chart(say("Roofline"), "roofline-chart", spots, (flat, dram), caption)


def _hint(name: str, operations_per_s: float, share: float, limit: str, time_ns: int) -> str:
    return joined(", ", (f"{name}: {rate_text(operations_per_s)}", share_text(share), limit, time_text(time_ns)))


def _chart(
    title: Message, name: str, spots: Sequence[Spot], peaks: tuple[Mapping[str, float], float | None], caption: str
) -> Chart:
    """Spots under their roofs: the peaks of what is computed in, and the memory's slope where it is known."""
    compute_per_s, bytes_per_s = peaks
    roofs = [Ceiling(f"{kind} {rate_text(rate)}", rate, slanted=False) for kind, rate in compute_per_s.items()]
    if bytes_per_s is not None:
        roofs.append(Ceiling(f"DRAM {bytes_text(round(bytes_per_s))}/s", bytes_per_s, slanted=True))
    said = joined("; ", (spot.hint for spot in sorted(spots, key=lambda spot: -spot.weight)[:_HINTED]))
    across = say("operations per byte of DRAM traffic")
    return Chart(partial(roofline, title, said, across, spots, roofs, _LEGEND), name, caption)


def operator_roofline_chart(found: OperatorRoofline | None, steps: int) -> Chart | None:
    """Operators by the shapes that they were given, and the peaks of their types; None where there are none."""
    if found is None:
        return None
    whole_ns = sum(point.took_ns for point in found.points)
    spots = []
    for point in found.points[:_MOST_SPOTS]:
        bound = point.roof.name.lower()
        shapes = ", ".join("x".join(map(str, shape)) for shape in point.shapes if shape)
        hint = _hint(
            f"{point.name} ({shapes})", point.operations_per_s, point.share, BOUNDS[bound], point.took_ns // steps
        )
        weight = point.took_ns / whole_ns
        spots.append(Spot(point.name, point.operations_per_byte, point.operations_per_s, weight, TONES[bound], hint))
    caption = say(
        "Each dot is an operator with inputs of one shape, sized by its share of their time: what it has to compute "
        "and to move by those shapes, against what it took. What caches spare lies above the slope."
    )
    peaks = found.compute_per_s, found.bytes_per_s
    return _chart(say("Roofline, from shapes"), "operator-roofline-chart", spots, peaks, caption)


def sampled_roofline_chart(sampled: SampledRoofline | NotMeasured | None) -> Chart | None:
    """Kernels by their samples, and the roofs at the clock that was sampled; None where the peaks are not known."""
    if not isinstance(sampled, SampledRoofline):
        return None
    whole_ns = sum(point.time_ns for point in sampled.points)
    spots = []
    for point in sampled.points[:_MOST_SPOTS]:
        name = cut_label(label(point.name))
        hint = _hint(name, point.operations_per_s, point.share, CLASS_WORDS[point.use_class], point.time_ns)
        tone = TONES[CLASS_BOUNDS[point.use_class]]
        weight = point.time_ns / whole_ns
        spots.append(Spot(name, point.operations_per_byte, point.operations_per_s, weight, tone, hint))
    caption = say(
        "Each dot is a kernel, sized by its share of the time, from samples of the GPU's counters: "
        "tensor-core cycles at the peak rate of its type; for kernels that hardly use them, issue "
        "slots counted as FP32 multiply-adds, an upper bound. Roofs are at the mean clock."
    )
    peaks = sampled.compute_per_s, sampled.bytes_per_s
    return _chart(say("Roofline, from samples"), "sampled-roofline-chart", spots, peaks, caption)

"""Launches that Nsight Compute profiled, under the roofs of the GPU they ran on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuledger.analyse.kernels.judgement import JudgedLaunch
from gpuledger.analyse.kernels.roofs import Roofs
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import say
from gpuledger.present.charts.roofline import Ceiling, Spot, rate_text, roofline
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import BOUNDS as TONES
from gpuledger.present.views.kernels import BOUNDS, bound_text
from gpuledger.units import bytes_text, share_text, time_text

Tell = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class DrawnLaunch:
    """A launch, the time that it stands for, and whether that is in the steps that are shown."""

    judged: JudgedLaunch
    time_ns: int
    is_inside: bool = True


def launch_roofline(launches: Sequence[DrawnLaunch], tell: Tell) -> Picture | None:
    """Every launch at DRAM, and the roofs over the one that took longest; None where nothing is known."""
    spots, roofs = _spots(launches, tell), _roofs([drawn.judged for drawn in launches])
    if not spots or not any(not roof.slanted for roof in roofs):
        return None
    said = "; ".join(spot.hint for spot in sorted(spots, key=lambda spot: -spot.weight)[:8])
    across = tell(say("operations per byte of DRAM traffic"))
    legend = tuple((TONES[bound], tell(words)) for bound, words in BOUNDS.items())
    return roofline(tell(say("Roofline")), said, across, spots, roofs, legend)


def _spots(launches: Sequence[DrawnLaunch], tell: Tell) -> list[Spot]:
    totals = {
        inside: sum(drawn.time_ns for drawn in launches if drawn.is_inside is inside) or 1 for inside in (True, False)
    }
    spots = []
    for drawn in launches:
        launch = drawn.judged
        point = next((point for point in launch.points if point.level == "DRAM"), None)
        if point is None or point.operations_per_byte <= 0 or point.operations_per_s <= 0:
            continue
        name = cut_label(label(launch.launch.name))
        spots.append(
            Spot(
                name=name,
                operations_per_byte=point.operations_per_byte,
                operations_per_s=point.operations_per_s,
                weight=drawn.time_ns / totals[drawn.is_inside],
                tone=TONES.get(launch.verdict.bound, "muted"),
                hint=f"{name}: {rate_text(point.operations_per_s)}, {share_text(point.share)}, "
                f"{tell(bound_text(launch))}, {time_text(drawn.time_ns)}",
                hollow=not drawn.is_inside,
            )
        )
    return spots


def _roofs(launches: Sequence[JudgedLaunch]) -> list[Ceiling]:
    """DRAM, and the compute peaks of what the launches compute in, of the launch that took the most time."""
    given = [launch for launch in launches if launch.points]
    if not given:
        return []
    over: Roofs = max(given, key=lambda launch: launch.duration_ns).roofs
    kinds = sorted({point.kind for launch in given for point in launch.points if point.kind in over.compute})
    flat = [
        Ceiling(f"{kind} {rate_text(over.compute[kind].per_s)}", over.compute[kind].per_s, slanted=False)
        for kind in kinds
    ]
    slanted = [
        Ceiling(f"{level} {bytes_text(round(roof.per_s))}/s", roof.per_s, slanted=True)
        for level, roof in over.memory.items()
        if level == "DRAM"
    ]
    return flat + slanted

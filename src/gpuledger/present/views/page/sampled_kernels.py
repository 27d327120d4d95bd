"""What samples say of the kernels, on a report's page: under their roofs, and how compute time uses the GPU."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.utilization.stretches import SampledRoofline, SampledUse, sampled_roofline
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import say
from gpuledger.present.charts.roofline import Ceiling, Spot, rate_text, roofline
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import BOUNDS as TONES
from gpuledger.present.views.kernels import BOUNDS
from gpuledger.present.views.page.launch_roofline import Tell
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.report import use_blocks_of
from gpuledger.present.views.utilization import CLASS_BOUNDS, CLASS_WORDS
from gpuledger.present.writers.html.blocks import block_parts
from gpuledger.present.writers.html.parts import Chart, Part
from gpuledger.trace.model import Gpu, NotMeasured
from gpuledger.units import bytes_text, share_text, time_text

_MOST_SPOTS: Final = 60
"""Kernels that are drawn, the most time first."""


def sampled_parts(scene: Scene, use: SampledUse) -> list[Part]:
    """The picture, where the GPU's peaks are known, and the tables of a report in text."""
    chart = sampled_chart(use, scene.report.trace.origin.gpu(scene.device.gpu), scene.tell)
    return [*([] if chart is None else [chart]), *block_parts(use_blocks_of(scene.report), scene.reader)]


def sampled_chart(use: SampledUse, gpu: Gpu | None, tell: Tell) -> Chart | None:
    """The picture, and how to read it; None where the GPU's peaks are not known."""
    picture = sampled_picture(use, gpu, tell)
    if picture is None:
        return None
    said = say(
        "Each dot is a kernel, sized by its share of the time, from samples of the GPU's counters: "
        "tensor-core cycles at the peak rate of its type; for kernels that hardly use them, issue "
        "slots counted as FP32 multiply-adds, an upper bound. Roofs are at the mean clock."
    )
    return Chart(picture, tell(said), name="sampled-roofline-chart")


def sampled_picture(use: SampledUse, gpu: Gpu | None, tell: Tell) -> Picture | None:
    """Kernels under their roofs; None where the GPU's peaks are not known."""
    sampled = sampled_roofline(use, gpu)
    return None if isinstance(sampled, NotMeasured) else _picture(sampled, tell)


def _picture(sampled: SampledRoofline, tell: Tell) -> Picture:
    """Kernels by their samples, and the roofs at the clock that was sampled."""
    whole_ns = sum(point.kernel.time_ns for point in sampled.points)
    spots = []
    for point in sampled.points[:_MOST_SPOTS]:
        name, bound = cut_label(label(point.kernel.full_name)), CLASS_BOUNDS[point.kernel.use_class]
        limit = tell(CLASS_WORDS[point.kernel.use_class])
        rate, share, time = rate_text(point.operations_per_s), share_text(point.share), time_text(point.kernel.time_ns)
        spots.append(
            Spot(
                name,
                point.operations_per_byte,
                point.operations_per_s,
                point.kernel.time_ns / whole_ns,
                TONES[bound],
                f"{name}: {rate}, {share}, {limit}, {time}",
            )
        )
    roofs = [Ceiling(f"{kind} {rate_text(rate)}", rate, slanted=False) for kind, rate in sampled.compute_per_s.items()]
    roofs.append(Ceiling(f"DRAM {bytes_text(round(sampled.bytes_per_s))}/s", sampled.bytes_per_s, slanted=True))
    return roofline(
        tell(say("Roofline, from samples")),
        "; ".join(spot.hint for spot in spots[:8]),
        tell(say("operations per byte of DRAM traffic")),
        spots,
        roofs,
        tuple((TONES[bound], tell(words)) for bound, words in BOUNDS.items()),
    )

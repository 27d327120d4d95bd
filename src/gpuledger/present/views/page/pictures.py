"""The pictures of a report by themselves, to be put beside a Markdown document."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.inventory import contents
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.present.charts.svg import Picture
from gpuledger.present.views.page.gaps import gaps_picture
from gpuledger.present.views.page.kernels import roofline_picture
from gpuledger.present.views.page.over_time import use_picture
from gpuledger.present.views.page.sampled_kernels import sampled_picture
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.steps import strip_picture
from gpuledger.present.views.page.time_breakdown import ledger_picture
from gpuledger.present.writers.html.parts import Reader, Room


@dataclass(frozen=True, slots=True)
class Named:
    """A picture and how its file's name ends."""

    ending: str
    picture: Picture


def report_pictures(report: ProfiledRun, language: str) -> list[Named]:
    """Those that there is something to show in."""
    scene = Scene(report, contents(report.trace), Reader(language, Room(rows=0, letters=120), "", ""))
    use, gpu = report.use.get(scene.device.gpu), report.trace.origin.gpu(scene.device.gpu)
    made = (
        ("ledger", ledger_picture(scene)),
        ("steps", strip_picture(scene)),
        ("streams", use_picture(scene)[0]),
        ("gaps", gaps_picture(scene)),
        ("roofline", roofline_picture(scene)),
        ("sampled-roofline", None if use is None else sampled_picture(use, gpu, scene.tell)),
    )
    return [Named(f"-{name}.png", picture) for name, picture in made if picture is not None]

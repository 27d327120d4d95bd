"""The pictures of a report by themselves, to be put beside a Markdown document."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.inventory import contents
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.present.charts.svg import Picture
from gpuledger.present.html.gaps import gaps_picture
from gpuledger.present.html.kernels import roofline_picture
from gpuledger.present.html.ledger import ledger_picture
from gpuledger.present.html.over_time import use_picture
from gpuledger.present.html.parts import Reader, Room
from gpuledger.present.html.scene import Scene
from gpuledger.present.html.steps import strip_picture


@dataclass(frozen=True, slots=True)
class Named:
    """A picture and how its file's name ends."""

    ending: str
    picture: Picture


def report_pictures(report: ProfiledRun, language: str) -> list[Named]:
    """Those that there is something to show in."""
    scene = Scene(report, contents(report.trace), Reader(language, Room(rows=0, letters=120), "", ""))
    made = (
        ("ledger", ledger_picture(scene)),
        ("steps", strip_picture(scene)),
        ("streams", use_picture(scene)[0]),
        ("gaps", gaps_picture(scene)),
        ("roofline", roofline_picture(scene)),
    )
    return [Named(f"-{name}.png", picture) for name, picture in made if picture is not None]

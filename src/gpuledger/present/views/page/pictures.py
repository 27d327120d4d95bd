"""The pictures of a report by themselves, to be put beside a Markdown document."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.messages import translated
from gpuledger.present.charts.svg import Picture
from gpuledger.present.views.page.breakdown import gaps_chart, steps_chart
from gpuledger.present.views.page.kernels import report_roofline
from gpuledger.present.views.page.over_time import streams_chart
from gpuledger.present.views.page.rooflines import sampled_roofline_chart
from gpuledger.present.views.report_parts import ledger_block


@dataclass(frozen=True, slots=True)
class Named:
    """A picture and how its file's name ends."""

    ending: str
    picture: Picture


def report_pictures(report: ProfiledRun, language: str) -> list[Named]:
    """Those that there is something to show in."""
    device = report.main_device
    use, gpu = report.use.get(device.gpu), report.trace.origin.gpu(device.gpu)
    charts = (
        ("ledger", ledger_block(report).chart),
        ("steps", steps_chart(device)),
        ("streams", streams_chart(report)[0]),
        ("gaps", gaps_chart(report)),
        ("roofline", report_roofline(report)),
        ("sampled-roofline", None if use is None else sampled_roofline_chart(use, gpu)),
    )
    tell = partial(translated, language=language)
    return [Named(f"-{name}.png", chart.picture(tell)) for name, chart in charts if chart is not None]

"""A report as a page: the verdict, figures at a glance, and a section per question, the most useful first."""

from __future__ import annotations

from gpuledger.analyse.inventory import contents
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.step_variation import variation
from gpuledger.messages import say
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.memory_snapshot import AnalysedSnapshot
from gpuledger.present.views.page.critical import critical_section
from gpuledger.present.views.page.gaps import gaps_section
from gpuledger.present.views.page.kernels import kernels_section, roofline_section
from gpuledger.present.views.page.memory_snapshot import snapshot_section
from gpuledger.present.views.page.over_time import launches_section, memory_section, use_section
from gpuledger.present.views.page.provenance import communication_section, health_section
from gpuledger.present.views.page.ranges import ranges_section
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.steps import steps_section
from gpuledger.present.views.page.time_breakdown import ledger_picture, ledger_section
from gpuledger.present.views.page.timeline import ShownTimeline, timeline_section
from gpuledger.present.views.page.what_to_do import findings_section, top_findings
from gpuledger.present.views.report import verdict
from gpuledger.present.writers.html.parts import Chart, Page, Reader, Section, Tile
from gpuledger.present.writers.html.tables import cut
from gpuledger.units import count_text, share_text, time_text


def report_page(report: ProfiledRun, reader: Reader, memory: AnalysedSnapshot | None = None) -> Page:
    """The page; with what a memory snapshot of the same run says, where there is one."""
    about = contents(report.trace)
    scene, timeline = Scene(report, about, reader), ShownTimeline.of(report)
    room = reader.room
    name = cut(report.name, room.letters, scene.tell)
    return Page(
        title=f"{name} · gpuledger",
        name=name,
        headline=cut(scene.tell(origin_line(report.trace, about)), room.letters, scene.tell),
        verdict=cut(scene.tell(verdict(report)), room.letters, scene.tell),
        tiles=_tiles(scene),
        sections=sections(scene, timeline, memory),
        opening=(Chart(ledger_picture(scene), name="ledger-chart"), *top_findings(scene, timeline)),
    )


def sections(scene: Scene, timeline: ShownTimeline, memory: AnalysedSnapshot | None = None) -> tuple[Section, ...]:
    """All sections in their order; one with nothing to show says why."""
    return (
        timeline_section(scene, timeline),
        findings_section(scene, timeline),
        ledger_section(scene),
        ranges_section(scene),
        kernels_section(scene),
        gaps_section(scene, timeline),
        steps_section(scene),
        critical_section(scene),
        use_section(scene),
        launches_section(scene),
        memory_section(scene),
        *(() if memory is None else (snapshot_section(scene, memory),)),
        roofline_section(scene),
        communication_section(scene),
        health_section(scene),
    )


def _tiles(scene: Scene) -> tuple[Tile, ...]:
    tell, device = scene.tell, scene.device
    working = sum(amount for line, amount in device.line_ns.items() if not line.is_idle)
    tiles = [
        Tile(
            tell(say("GPU busy")),
            share_text(working / device.steady_ns),
            tell(say("of {time}", time=time_text(device.steady_ns))),
        )
    ]
    found = variation(device)
    if found is not None:
        spread = say("P10 {low}, P90 {high}", low=time_text(found.p10_ns), high=time_text(found.p90_ns))
        tiles.append(Tile(tell(say("Median step")), time_text(found.median_ns), tell(spread)))
        odd = say("{count} unusual", count=count_text(len(found.outliers)))
        tiles.append(Tile(tell(say("Steps")), count_text(len(found.steps)), tell(odd)))
    top = next((finding for finding in scene.report.findings if finding.saving_ns), None)
    if top is not None:
        each = top.saving_ns if top.saving_ns_per_step is None else top.saving_ns_per_step
        share = share_text(top.saving_ns / device.steady_ns)
        tiles.append(Tile(tell(say("Fix first")), time_text(each), f"{share} · {top.code}"))
    return tuple(tiles)

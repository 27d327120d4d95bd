"""The timeline of a report's page: the stretches that are shown, where on it each finding is, and its section."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.timeline import EventFinder, Stretch, shown_stretches, stretch_of
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun, finding_place
from gpuledger.messages import say
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.page.timeline_json import timeline_json
from gpuledger.present.writers.html.parts import Part, Section, Text, TimelinePart, TimelinePlace
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.units import count_text

_LONGEST_GAPS = 5
"""So many gaps can be looked at, beside those that findings are about."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownTimeline:
    """What the page shows of when things happened."""

    finder: EventFinder
    stretches: tuple[Stretch, ...]
    zero_ns: int
    report: ProfiledRun

    @classmethod
    def of(cls, report: ProfiledRun) -> ShownTimeline:
        device = report.main_device
        finder = EventFinder(report.trace, device.host, device.work)
        places = [_place(report, found) for found in report.findings]
        gaps = device.ledger.gaps
        longest = largest(gaps.length_ns, _LONGEST_GAPS)
        places += [Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap])) for gap in longest.tolist()]
        return cls(finder, shown_stretches(finder, device, places), report.zero_ns, report)

    def place(self, span: Span) -> TimelinePlace | None:
        """Where on the page a stretch of time is shown; None: nowhere."""
        number = stretch_of(span, self.stretches)
        if number is None:
            return None
        return TimelinePlace(number, span.start_ns - self.zero_ns, span.end_ns - self.zero_ns)

    def place_of(self, found: Finding) -> TimelinePlace:
        """Where a finding is seen; where its best example is not shown, the stretch that is shown first."""
        core = self.stretches[0].core
        return self.place(_place(self.report, found)) or TimelinePlace(
            0, core.start_ns - self.zero_ns, core.end_ns - self.zero_ns
        )


def _place(report: ProfiledRun, found: Finding) -> Span:
    device = next((device for device in report.devices if device.gpu == found.gpu), report.main_device)
    return finding_place(found, device)


def timeline_section(scene: Scene, timeline: ShownTimeline) -> Section:
    """The timeline, with what it does not show."""
    tell, device = scene.tell, scene.device
    parts: list[Part] = [TimelinePart(timeline_json(scene, timeline.finder, timeline.stretches), tell(say("Timeline")))]
    shown = sum(stretch.step is not None for stretch in timeline.stretches)
    if device.steps is not None and shown < len(device.steps):
        said = say(
            "{shown} of {count} steps are in this page; `gpuledger view` shows the whole run in Perfetto.",
            shown=count_text(shown),
            count=count_text(len(device.steps)),
        )
        parts.append(Text(tell(said), "note"))
    return Section("timeline", tell(say("Timeline")), tuple(parts))

"""What a report says beside books and findings: a profiled run in, the results that its text, JSON and page show out.

Each is worked out when it is first asked for, and once: text asks for few, a page for all. They are of the main GPU,
or of the whole profile. Analyses that only a page asks for are imported then.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gpuledger.analyse.idle.gap_summary import GapSummary, gap_summary
from gpuledger.analyse.idle.launch_costs import LaunchCosts, launch_costs
from gpuledger.analyse.idle.overlap import OverlapRow, overlap
from gpuledger.analyse.memory.figures import MemoryFigures, MemoryUse, memory_figures, memory_use
from gpuledger.analyse.phases.step_summary import PrefillRow, phase_times
from gpuledger.analyse.ranks.rank import rank_places
from gpuledger.analyse.recorded.inventory import Contents, Missing, about_unclassified, contents, missing
from gpuledger.analyse.timeline.over_time import StreamsOverTime, stream_use
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun, finding_place
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.trace.sweep import side_by_side
from gpuledger.trace.tables import Table

if TYPE_CHECKING:
    from gpuledger.analyse.light.operator_roofline import OperatorRoofline
    from gpuledger.analyse.phases.phase_costs import PhaseCosts, PhaseTimes
    from gpuledger.analyse.phases.serving import Serving
    from gpuledger.analyse.ranges.range_tree import RangeTree
    from gpuledger.analyse.recorded.nvidia_tables import KernelTimes
    from gpuledger.analyse.timeline.events import EventFinder, FixedStretch, Stretch
    from gpuledger.analyse.utilization.stretches import SampledRoofline
    from gpuledger.attribution.flame_trees import FlameTree
    from gpuledger.messages import Message
    from gpuledger.replay.path_summary import PathSummary
    from gpuledger.replay.scenario import Scenario

MOST_OPERATIONS: Final = 300_000
"""A part without steps that holds more is not gone through for a page: that would take longer than all else on it."""

_MOST_FIXED: Final = 20_000
"""A stretch with more events is not shown a second time with the first finding fixed."""

_MOST_IN_PHASES: Final = 1_000_000
"""Of more GPU work `gpuledger ranges` tells the phases, and no page."""

_LONGEST_GAPS: Final = 5
"""So many gaps can be looked at on the timeline, beside those that findings are about."""


class ReportAnswer(Struct, frozen=True, eq=False, dict=True):
    """A profiled run with all that is said of it."""

    run: ProfiledRun

    def go_through(self) -> None:
        """Do on two threads what takes long passes over all work, for a page, which asks for all of it."""
        device = self.run.main_device
        side_by_side(
            len(device.work),
            lambda: (self.launches, self.contents, self.streams),
            lambda: (self.ranges, self.flame_trees, self.kernel_times, device.levels),
        )

    @cached_property
    def contents(self) -> Contents:
        return contents(self.run.trace)

    @cached_property
    def missing(self) -> tuple[Missing, ...]:
        """What the profile does not hold."""
        return missing(self.run.trace)

    @cached_property
    def rank_count(self) -> int:
        """How many ranks of a job are in the profile; 0 where it is of one GPU and process."""
        run = self.run
        return len(rank_places(run.trace)) if len(run.devices) * len(run.trace.origin.processes) > 1 else 0

    @cached_property
    def unclassified(self) -> Message | None:
        """How much of compute is of no known family; None where none is."""
        return about_unclassified(self.run.trace, self.run.main_device)

    @cached_property
    def variation(self) -> Variation | None:
        """How steps differ; None where there are none."""
        return variation(self.run.main_device)

    @cached_property
    def phases(self) -> tuple[PrefillRow, ...]:
        return () if self.variation is None else phase_times(self.run.main_device, self.variation)

    @cached_property
    def layer_phases(self) -> PhaseCosts | None:
        """The phases of the main GPU's layers; None where no layers are known, or there is too much to go through."""
        from gpuledger.analyse.phases.phase_costs import phase_costs

        device = self.run.main_device
        costs = phase_costs(self.run.trace, device) if len(device.work) <= _MOST_IN_PHASES else None
        return costs if costs is not None and costs.of_layers_ns else None

    @cached_property
    def step_phases(self) -> PhaseTimes | None:
        """What phases take in steps from the middle of the main GPU's; None where most work is of none."""
        from gpuledger.analyse.phases.phase_costs import ENOUGH_FOR_PHASES, sampled_phases

        return sampled_phases(self.run.trace, self.run.main_device, ENOUGH_FOR_PHASES)

    @cached_property
    def serving(self) -> Serving | None:
        """The serving ledger; None where no step says its batch."""
        if not self.run.main_device.phases.known:
            return None
        from gpuledger.analyse.phases.serving import serving

        answer = serving(self.run.trace, self.run.main_device)
        return None if isinstance(answer, NotMeasured) else answer

    @cached_property
    def gaps(self) -> GapSummary:
        return gap_summary(self.run.trace, self.run.main_device)

    @cached_property
    def path(self) -> PathSummary | None:
        """The critical path of the steps that findings are replayed in; None where there is too much to go through."""
        from gpuledger.replay.path_summary import path_summary

        model = self.scenario
        return None if len(model.part.work) > MOST_OPERATIONS else path_summary(self.run.trace, model)

    @cached_property
    def scenario(self) -> Scenario:
        """The steps of the main GPU that findings are replayed in."""
        subject = self.run.subjects.get(self.run.main_device.gpu)
        if subject is not None:
            return subject.scenario
        from gpuledger.replay.scenario import scenario

        return scenario(self.run.trace, self.run.main_device, sampled=True)

    @cached_property
    def fixed(self) -> FixedStretch | None:
        """The first stretch of the timeline with the first finding that saves time fixed; None where none can be."""
        from gpuledger.analyse.timeline.events import fixed_stretch

        stretch, gpu = self.stretches[0], self.run.main_device.gpu
        first = next((each for each in self.run.findings if each.saving_ns and each.edit and each.gpu == gpu), None)
        if first is None or first.edit is None or len(stretch.events) > _MOST_FIXED or not self.scenario.is_whole:
            return None
        return fixed_stretch(self.finder, stretch, self.scenario, self.run.devices, first.code, first.edit)

    @cached_property
    def overlaps(self) -> list[tuple[OverlapRow, ...]]:
        """Of each GPU."""
        return [overlap(device) for device in self.run.devices]

    @cached_property
    def streams(self) -> StreamsOverTime:
        return stream_use(self.run.main_device.work, self.run.window)

    @cached_property
    def launches(self) -> LaunchCosts:
        return launch_costs(self.run.trace, self.run.main_device)

    @cached_property
    def memory(self) -> MemoryFigures:
        return memory_figures(self.run.trace, self.run.main_device)

    @cached_property
    def memory_use(self) -> MemoryUse | NotMeasured:
        """Over the window."""
        return memory_use(self.run.trace, self.run.main_device.gpu, self.run.window)

    @cached_property
    def kernel_times(self) -> tuple[KernelTimes, ...]:
        """By name, the most time first."""
        from gpuledger.analyse.recorded.nvidia_tables import cuda_gpu_kern_sum

        return cuda_gpu_kern_sum(self.run.trace)

    @cached_property
    def roofline(self) -> SampledRoofline | NotMeasured | None:
        """Kernels by their samples, under their roofs; None where nothing was sampled."""
        gpu = self.run.main_device.gpu
        if gpu not in self.run.use:
            return None
        from gpuledger.analyse.utilization.stretches import sampled_roofline

        return sampled_roofline(self.run.use[gpu], self.run.trace.origin.gpu(gpu))

    @cached_property
    def operator_roofline(self) -> OperatorRoofline | None:
        """Operators by the shapes that they were given, under their roofs; None where none were recorded."""
        subject = self.run.subjects.get(self.run.main_device.gpu)
        if subject is None:
            return None
        from gpuledger.analyse.light.operator_roofline import operator_roofline

        return operator_roofline(subject.fixes.busy)

    @cached_property
    def flame_trees(self) -> tuple[FlameTree, ...]:
        from gpuledger.attribution.flame_trees import flame_trees

        return flame_trees(self.run.trace, self.run.main_device)

    @cached_property
    def ranges(self) -> RangeTree | None:
        """Ranges by name; None where they or calls were not recorded: work belongs to a range through its call."""
        trace, device = self.run.trace, self.run.main_device
        if trace.missing(Table.RANGES, Table.CALLS) is not None or not len(device.host.calls):
            return None
        from gpuledger.analyse.ranges.range_tree import range_tree

        return range_tree(trace, device, folded=True)

    @cached_property
    def finder(self) -> EventFinder:
        """Events of the timeline."""
        from gpuledger.analyse.timeline.events import EventFinder

        return EventFinder(self.run.trace, self.run.main_device.host, self.run.main_device.work)

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """What a timeline shows: where findings and the longest gaps are."""
        from gpuledger.analyse.timeline.events import shown_stretches

        gaps = self.run.main_device.ledger.gaps
        longest = largest(gaps.length_ns, _LONGEST_GAPS).tolist()
        places = [self.place(finding) for finding in self.run.findings]
        places += [Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap])) for gap in longest]
        return shown_stretches(self.finder, self.run.main_device, places)

    def place(self, finding: Finding) -> Span:
        """Where a finding is seen best."""
        run = self.run
        device = next((device for device in run.devices if device.gpu == finding.gpu), run.main_device)
        return finding_place(finding, device)

    def stretch_of(self, place: Span) -> int | None:
        """The number of the stretch that shows a place best; None: no stretch shows it."""
        from gpuledger.analyse.timeline.events import stretch_of

        return stretch_of(place, self.stretches)

"""What is known of a GPU's kernels, as one value each: what Nsight Compute's counters say of them, of reports alone and
matched to the kernels of a timeline's step; what samples say of their use of the GPU; and how far the two agree.

Judged kernels or samples in, what tables and documents say of them as a whole out, each part when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from gpuledger.analyse.kernels.step_kernels import KernelTally, kernels_tally
from gpuledger.analyse.roofline.judgement import JudgedKernel, JudgedLaunch, judged, kernels, severity
from gpuledger.analyse.roofline.roofs import device_of
from gpuledger.analyse.utilization.against_counters import CounterComparison, held_against
from gpuledger.analyse.utilization.stretches import (
    SampledUse,
)
from gpuledger.trace.measured import KernelReport
from gpuledger.trace.model import Gpu, Note, NotMeasured, Origin


class JudgedKernels(Struct, frozen=True, dict=True):
    """The kernels of reports of Nsight Compute, those that took the most time first."""

    kernels: Sequence[JudgedKernel]
    files: Sequence[str] = ()
    notes: Sequence[Note] = ()

    @cached_property
    def total_ns(self) -> int:
        return sum(kernel.duration_ns for kernel in self.kernels)

    @cached_property
    def tally(self) -> KernelTally:
        return kernels_tally(self.kernels)

    @property
    def gpu_name(self) -> str | None:
        """The GPU of the longest kernel; None where the report does not name it."""
        return _gpu_name(self.kernels[0].typical)

    def severity(self, kernel: JudgedKernel) -> str:
        """How much of the whole time a kernel would save."""
        return severity(kernel.saving_ns, self.total_ns)

    @property
    def launches(self) -> list[tuple[JudgedKernel, JudgedLaunch]]:
        """Every launch with its kernel, in the order of the files."""
        position = {name: place for place, name in reversed(list(enumerate(self.files)))}
        pairs = [(kernel, launch) for kernel in self.kernels for launch in kernel.launches]
        return sorted(pairs, key=lambda pair: (position.get(pair[1].launch.file, 0), pair[1].launch.order))

    @property
    def longest_by_gpu(self) -> dict[tuple[int | None, str | None], JudgedLaunch]:
        """The longest launch on each device, by its number and name: its roofs stand for the device's."""
        longest: dict[tuple[int | None, str | None], JudgedLaunch] = {}
        for _, launch in self.launches:
            key = (launch.launch.device, _gpu_name(launch))
            if key not in longest or launch.duration_ns > longest[key].duration_ns:
                longest[key] = launch
        return longest


def _gpu_name(launch: JudgedLaunch) -> str | None:
    gpu = device_of(launch.launch)
    return gpu.name if isinstance(gpu, Gpu) else None


def judged_kernels(files: Sequence[str], report: KernelReport) -> JudgedKernels:
    """Every launch of the reports judged, like launches together."""
    return JudgedKernels(kernels(judged(launch) for launch in report.launches), files, report.health)


class TimelineUse(Struct, frozen=True, dict=True):
    """What samples say of the GPUs of a timeline, and what Nsight Compute `counted` of the same kernels."""

    origin: Origin
    use: Mapping[int, SampledUse | NotMeasured]
    counted: KernelReport | None

    @property
    def sampled(self) -> dict[int, SampledUse]:
        return {gpu: use for gpu, use in self.use.items() if not isinstance(use, NotMeasured)}

    @cached_property
    def against(self) -> list[tuple[CounterComparison, ...]] | None:
        """Samples of each sampled GPU against the counters; None where nothing was counted."""
        if self.counted is None:
            return None
        return [held_against(kernels, self.counted) for kernels, _ in self.sampled.values()]

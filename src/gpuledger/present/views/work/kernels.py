"""The kernels of a profile's steady steps: which take the time, what they use of the GPU, and each launch of a step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.kernels.step_kernels import StepKernel, StepOverview
from gpuledger.analyse.light.books import SOURCES
from gpuledger.analyse.utilization.stretches import SampledRoofline, sampled_roofline
from gpuledger.analyse.utilization.use_rows import KernelUseRow, MeanUseRow, Shape
from gpuledger.answers.kernels import TimelineUse
from gpuledger.catalog.kernel_families import family
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present import document as doc
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.answer import Answer, health_rows, note_sentences
from gpuledger.present.views.words import largest_line_sentence, none_sentence, step_count_text, step_time_text
from gpuledger.present.views.work.utilization import (
    AgreementRow,
    ComparedRow,
    SamplingRow,
    against_sentence,
    sampled_gpu,
    use_answer,
)
from gpuledger.rows import Gpu, Label, Row, Unit, share
from gpuledger.trace.model import Note, NotMeasured
from gpuledger.trace.spans import furthest
from gpuledger.units import share_text

_HALF_OF_STEP: Final = 0.5
_SHOWN: Final = 25
"""Rows about samples that people are shown, the most time first."""


class KernelRow(Row, frozen=True):
    """Kernels of one name in the steady steps, of all launch shapes. Their times sum to compute."""

    gpu: Gpu
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    family: Annotated[str, Label(say("Family"), detail=5)]
    launches: Annotated[int | None, Label(say("Launches"), Unit.COUNT, detail=1, is_summed=True)]
    shapes: Annotated[
        int | None, Label(say("Shapes"), Unit.COUNT, detail=6, meaning="how many grids and blocks it is launched with")
    ]
    per_step_ns: Annotated[
        int | None, Label(say("Per step"), Unit.NS, meaning="null: there are no steps", is_summed=True)
    ]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, detail=2, meaning="in all steady steps", is_summed=True)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of compute", is_summed=True)]
    mean_ns: Annotated[float | None, Label(say("Avg"), Unit.MEAN_NS, detail=3, meaning="of one launch")]
    light_share: Annotated[
        float | None, Label(say("Light"), Unit.SHARE, meaning="of its time, what the GPU's roofs allow")
    ]
    beyond_light_ns: Annotated[
        int | None, Label(say("Beyond light"), Unit.NS, detail=4, meaning="how much longer, in all steady steps")
    ]
    light_source: Annotated[str | None, Label(say("Light known from"), detail=4, meaning="most of it")]


class KernelLaunchRow(Row, frozen=True):
    """A launch of the steady step with the usual number of kernels."""

    gpu: Gpu
    number: Annotated[int, Label("#", Unit.ID)]
    name: Annotated[str, Label(say("Kernel"), shorten=label)]
    start_ns: Annotated[int, Label(say("Start"), Unit.INSTANT_NS)]
    duration_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    gap_ns: Annotated[
        int | None, Label(say("Gap before"), Unit.NS, detail=1, meaning="since all kernels before it had ended")
    ]
    range: Annotated[tuple[str, ...], Label(say("Range"), detail=3, meaning="around the launch, or place in a layer")]
    family: Annotated[str, Label(say("Family"), detail=4)]
    stream: Annotated[int, Label(say("Stream"), Unit.ID, detail=5)]
    grid: Annotated[Shape, Label(say("Grid"), Unit.TRIPLE, detail=6)]
    block: Annotated[Shape, Label(say("Block"), Unit.TRIPLE, detail=7)]


class NotSampledGpu(Struct, frozen=True):
    """Why nothing is known of the counters of a GPU."""

    gpu: int
    reason: str


class KernelsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.kernels/1"):
    """The kernels of the steady steps, the most time first; where the GPU was sampled, what they use of it."""

    has_steps: bool
    not_sampled: tuple[NotSampledGpu, ...]
    kernels: Annotated[tuple[KernelRow, ...], Label(say("Kernels"))]
    launches: Annotated[tuple[KernelLaunchRow, ...], Label(say("Every launch of one step in execution order"))]
    """Only with --by-launch."""
    agreement: Annotated[tuple[AgreementRow, ...], Label(say("Samples vs Nsight Compute"))]
    """Only with --ncu."""
    compared: Annotated[tuple[ComparedRow, ...], Label(say("Samples vs Nsight Compute, by kernel"))]
    use: Annotated[tuple[KernelUseRow, ...], Label(say("GPU utilization by kernel and launch shape"))]
    gpu_use: Annotated[tuple[MeanUseRow, ...], Label(say("GPU utilization on average"))]
    sampling: tuple[SamplingRow, ...]
    roofline: tuple[SampledRoofline, ...] = ()
    """Kernels of each sampled GPU under its roofs, where its peaks are known."""

    def title(self, table: str) -> str:
        title = super().title(table)
        return say("{title}, steady steps", title=title) if self.has_steps and table == "kernels" else title

    def sheet(self, table: str, *, is_exact: bool = False) -> Sheet:
        sheet = super().sheet(table, is_exact=is_exact)
        if is_exact or table not in ("use", "compared") or len(sheet.rows) <= _SHOWN:
            return sheet
        title = say("{title}: the first {count} of {all}", title=sheet.title, count=_SHOWN, all=len(sheet.rows))
        return replace(sheet, title=title, rows=sheet.rows[:_SHOWN])

    def blocks(self) -> Iterator[doc.Block]:
        yield from super().blocks()
        if self.roofline:
            from gpuledger.present.views.page.rooflines import sampled_roofline_chart

            yield doc.Only(doc.Medium.PAGE, tuple(filter(None, map(sampled_roofline_chart, self.roofline))))


def kernels_answer(
    name: str,
    steps: Sequence[tuple[StepOverview, Device]],
    sampled: TimelineUse,
    notes: Sequence[Note],
    families: tuple[tuple[str, str], ...],
    *,
    by_launch: bool = False,
) -> KernelsAnswer:
    """All GPUs; with `by_launch` every launch of one step of each."""
    used, devices = sampled.sampled, {device.gpu: device for _, device in steps}
    sentences = [told for use, stretches in used.values() for told in use_answer(use, stretches)]
    sentences = sentences or [told for overview, device in steps for told in kernel_sentences(overview, device)]
    against = dict(zip(used, sampled.against or [], strict=False))
    gpus = [sampled_gpu(devices[gpu], use, against.get(gpu, ())) for gpu, use in used.items()]
    return KernelsAnswer(
        profile=name,
        zero_ns=steps[0][1].zero_ns,
        sentences=(*sentences, *(against_sentence(held) for held in against.values() if held), *note_sentences(notes)),
        health=health_rows(notes),
        has_steps=any(device.steps is not None for _, device in steps),
        not_sampled=tuple(
            NotSampledGpu(gpu, use.reason) for gpu, use in sampled.use.items() if isinstance(use, NotMeasured)
        ),
        kernels=tuple(row for of_gpu in steps for row in _by_name(*of_gpu, families)),
        launches=tuple(row for of_gpu in steps for row in _launches(*of_gpu, families)) if by_launch else (),
        agreement=tuple(row for gpu in gpus for row in gpu.agreement),
        compared=tuple(row for gpu in gpus for row in gpu.compared),
        use=tuple(row for gpu in gpus for row in gpu.kernels),
        gpu_use=tuple(row for gpu in gpus for row in gpu.means),
        sampling=tuple(gpu.sampling for gpu in gpus),
        roofline=tuple(
            roofline
            for gpu, use in used.items()
            if isinstance(roofline := sampled_roofline(use, sampled.origin.gpu(gpu)), SampledRoofline)
        ),
    )


def kernel_sentences(overview: StepOverview, device: Device) -> tuple[Message, ...]:
    """How much of a step its kernels are, and which takes the most."""
    if not overview.entries or not overview.time_ns:
        return (none_sentence(device, "kernels"),)
    time_by_name = Counter[str]()
    for kernel in overview.entries:
        time_by_name[kernel.name] += kernel.time_ns
    [(name, most_ns)] = time_by_name.most_common(1)
    of_time = overview.time_ns / device.steady_ns
    calls = sum(kernel.calls for kernel in overview.entries)
    answer = say(
        "GPU {gpu}: kernels take {time} ({share} of the time): {count}; {part} of that in {kernel}.",
        gpu=device.gpu,
        time=step_time_text(device, overview.time_ns),
        share=share_text(of_time),
        count=step_count_text(device, calls, say("launch"), say("launches")),
        kernel=cut_label(label(name)),
        part=share_text(most_ns / overview.time_ns),
    )
    return (answer,) if of_time >= _HALF_OF_STEP else (answer, largest_line_sentence(device))


def _by_name(overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...]) -> Iterator[KernelRow]:
    """One row per name, the most time first; graphs whose kernels were not recorded come last."""
    named = defaultdict[str, list[StepKernel]](list)
    for kernel in overview.entries:
        named[kernel.name].append(kernel)

    def row(name: str, kind: str, kernels: Sequence[StepKernel], time_ns: int) -> KernelRow:
        calls, lit = sum(kernel.calls for kernel in kernels), [kernel.lit for kernel in kernels if kernel.lit]
        known_ns, light_ns = sum(known.known_ns for known in lit), sum(known.light_ns for known in lit)
        return KernelRow(
            gpu=device.gpu,
            name=name,
            family=kind,
            launches=calls or None,
            shapes=len({(kernel.grid, kernel.block) for kernel in kernels}) or None,
            per_step_ns=None if device.steps is None else time_ns // device.step_count,
            time_ns=time_ns,
            share=share(time_ns, overview.time_ns),
            mean_ns=share(sum(kernel.ran_ns for kernel in kernels), calls),
            light_share=share(light_ns, known_ns),
            beyond_light_ns=known_ns - light_ns if lit else None,
            light_source=SOURCES[max(lit, key=lambda known: known.known_ns).source] if lit else None,
        )

    rows = [
        row(name, family(name, families), kernels, sum(kernel.time_ns for kernel in kernels))
        for name, kernels in named.items()
    ]
    yield from sorted(rows, key=lambda row: -row.time_ns)
    if overview.other_ns:
        yield row(say("(graphs whose kernels were not recorded)"), "graph", (), overview.other_ns)


def _launches(
    overview: StepOverview, device: Device, families: tuple[tuple[str, str], ...]
) -> Iterator[KernelLaunchRow]:
    """That of the step with the usual number of kernels, in the order of execution."""
    launches = overview.launches
    start, end = device.work.start_ns[launches], device.work.end_ns[launches]
    before = np.maximum(start[1:] - furthest(end)[:-1], 0).tolist() if len(start) else []
    times = start.tolist(), (end - start).tolist(), [None, *before], device.work.stream[launches].tolist()
    kernels = [overview.entries[entry] for entry in overview.sequence]
    for number, (kernel, begun, length, gap, stream) in enumerate(zip(kernels, *times, strict=False), 1):
        yield KernelLaunchRow(
            gpu=device.gpu,
            number=number,
            name=kernel.name,
            start_ns=begun - device.zero_ns,
            duration_ns=length,
            gap_ns=gap,
            range=kernel.place,
            family=family(kernel.name, families),
            stream=stream,
            grid=kernel.grid,
            block=kernel.block,
        )

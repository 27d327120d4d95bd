"""The kernels: all of them by name with their family, and, where Nsight Compute was asked, under their roofs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gpuledger.analyse.nvidia_tables import KernelTimes, cuda_gpu_kern_sum
from gpuledger.catalog.kernel_families import COMMUNICATION, family
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.books import COMM, Line
from gpuledger.messages import say
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Cell, Column, Sheet, Term, Unit
from gpuledger.present.views.page.launch_roofline import DrawnLaunch, launch_roofline
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.report import kernel_blocks
from gpuledger.present.writers.html.blocks import block_parts
from gpuledger.present.writers.html.parts import Chart, Part, Section, Table, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.trace.keys import take
from gpuledger.trace.statistics import shares
from gpuledger.trace.tables import Table as Recorded
from gpuledger.units import count_text

_KERNELS: Final = (
    Column("name", say("Name"), Unit.TEXT, shorten=label),
    Column("family", say("Family"), Unit.TEXT),
    Column("time_percent", say("Share"), Unit.SHARE_PERCENT),
    Column("total_ns", say("Time"), Unit.NS),
    Column("instances", say("Instances"), Unit.COUNT),
    Column("avg_ns", say("Avg"), Unit.MEAN_NS),
    Column("med_ns", say("Med"), Unit.MEAN_NS),
    Column("max_ns", say("Max"), Unit.NS),
)
"""NVIDIA's columns but two, which `gpuledger stats` has, after name and family."""


def kernels_section(scene: Scene) -> Section:
    """Every kernel of the profile, the longest first; of very many, the rest in one row, so that the table adds up."""
    tell = scene.tell
    kernels = cuda_gpu_kern_sum(scene.report.trace)
    title = tell(say("Kernels"))
    if not kernels:
        missing = scene.report.trace.missing(Recorded.KERNELS)
        return Section("kernels", title, (scene.unknown(missing or say("no kernel was recorded")),))
    said = say(
        "The whole profile, all GPUs and processes together, as `gpuledger stats` prints it. Times overlap where "
        "kernels do."
    )
    return Section("kernels", title, (Text(tell(said), "lead"), _table(scene, kernels)))


def _table(scene: Scene, kernels: Sequence[KernelTimes]) -> Table:
    tell, room = scene.tell, scene.room
    families = _families(scene)
    percent = shares([kernel.times.total for kernel in kernels])
    rows = tuple(
        (
            kernel.name,
            _family_term(families.get(kernel.name) or family(kernel.name)),
            share,
            kernel.times.total,
            kernel.times.count,
            kernel.times.average,
            kernel.times.median,
            kernel.times.most,
        )
        for kernel, share in zip(kernels[: room.rows], percent, strict=False)
    )
    foot = (_rest(kernels[room.rows :], percent[room.rows :]),) if len(kernels) > room.rows else ()
    shown = table(
        Sheet("cuda_gpu_kern_sum", "CUDA GPU Kernel Summary", _KERNELS, rows, foot=foot),
        tell,
        room,
        caption=tell(say("Kernels by name, most time first")),
        filters=len(kernels) > 4,
        name="kernel-table",
    )
    return replace(shown, families=[column.key for column in _KERNELS].index("family"))


def _family_term(name: str) -> Term:
    return Term(name, name, tone=line_tone(COMM if name == COMMUNICATION else Line.of_family(name)))


def _rest(kernels: Sequence[KernelTimes], percent: Sequence[float | None]) -> tuple[Cell, ...]:
    """The kernels that the table has no room for, in one row: share, time, number and average."""
    total_ns, count = sum(kernel.times.total for kernel in kernels), sum(kernel.times.count for kernel in kernels)
    words = say("{count} other kernels", count=count_text(len(kernels)))
    share = sum(share or 0.0 for share in percent)
    return Term("other", words), None, share, total_ns, count, total_ns / count, None, None


def _families(scene: Scene) -> dict[str, str]:
    """The family of every kernel name, the user's own families included."""
    activities, strings = scene.device.work, scene.report.trace.strings
    is_kernel = activities.family >= 0
    family_of = np.full(len(strings) + 1, -1, np.int16)  # the last is for graphs, which have no name
    family_of[take(activities.name, is_kernel)] = take(activities.family, is_kernel)
    codes = np.flatnonzero(family_of[:-1] >= 0)
    return {
        strings.text(code) or "": activities.families[number]
        for code, number in zip(codes.tolist(), family_of[codes].tolist(), strict=True)
    }


def roofline_picture(scene: Scene) -> Picture | None:
    """Every launch that Nsight Compute profiled, under its roofs; None where nothing is known."""
    joined = scene.report.kernels.get(scene.device.gpu)
    if joined is None:
        return None
    here = [
        DrawnLaunch(match.launch, match.entry.time_ns) for match in joined.matches if match.launch and match.covered
    ]
    elsewhere = [DrawnLaunch(launch, launch.duration_ns, is_inside=False) for launch in joined.unused]
    return launch_roofline([*here, *elsewhere], scene.tell)


def _sampled(scene: Scene) -> list[Part]:
    if scene.device.gpu not in scene.report.use:
        return []
    from gpuledger.present.views.page.sampled_kernels import sampled_parts

    return sampled_parts(scene, scene.report.use[scene.device.gpu])


def roofline_section(scene: Scene) -> Section:
    """What Nsight Compute says, where it was asked, and samples, where there are any."""
    tell = scene.tell
    title = tell(say("Kernels in depth (Nsight Compute)"))
    short = tell(say("Kernels in depth"))
    blocks, sampled = kernel_blocks(scene.report), _sampled(scene)
    if sampled and not blocks:
        return Section("roofline", tell(say("Kernels in depth (samples)")), tuple(sampled), short)
    if not blocks:
        missing = say("no Nsight Compute report was given; `gpuledger ncu-plan` shows which kernels are worth one")
        return Section("roofline", title, (scene.unknown(missing),), short)
    parts: list[Part] = []
    picture = roofline_picture(scene)
    if picture is None:
        missing = say("operations and DRAM traffic were not collected together; collect the roofline sections")
        parts.append(scene.unknown(missing))
    else:
        said = say(
            "Each dot is a profiled launch, sized by its share of the time; the further below the roof, "
            "the more to gain. Hollow dots are kernels outside the steady steps."
        )
        parts.append(Chart(picture, tell(said), name="roofline-chart"))
    parts += [*block_parts(blocks, scene.reader), *sampled]
    return Section("roofline", title, tuple(parts), short)

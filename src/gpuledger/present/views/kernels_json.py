"""A judged kernel report as the document gpuledger.kernels/1: every launch, the kernels they make, the roofs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuledger.analyse.kernels.judgement import JudgedKernel, JudgedLaunch, severity
from gpuledger.analyse.kernels.roofs import Roof, device_of
from gpuledger.analyse.kernels.step_kernels import kernels_tally
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES, Figure
from gpuledger.present.made_at import made_at
from gpuledger.present.views.kernel_counts import counts_json
from gpuledger.present.writers.json import health_json
from gpuledger.trace.model import Gpu, Note, NotMeasured


def kernels_data(files: Sequence[str], made: Sequence[JudgedKernel], notes: Sequence[Note]) -> dict[str, Any]:
    """The whole document. Launches are in the order of the files; null stands for what was not measured."""
    total = sum(each.duration_ns for each in made)
    severities = {id(each): severity(kernel.saving_ns, total) for kernel in made for each in kernel.launches}
    launches = sorted(
        (each for kernel in made for each in kernel.launches),
        key=lambda each: (files.index(each.launch.file) if each.launch.file in files else 0, each.launch.order),
    )
    return {
        "schema": "gpuledger.kernels/1",
        "made_at": made_at(),
        "files": list(files),
        "duration_ns": total,
        "counts": counts_json(kernels_tally(made)),
        "kernels": [launch_dict(each, total, severities[id(each)]) for each in launches],
        "groups": [_group(kernel, total) for kernel in made],
        "roofs": _roofs(launches),
        "health": health_json(notes),
    }


def launch_dict(each: JudgedLaunch, total: int, severe: str) -> dict[str, Any]:
    """One launch; `total` is the time that shares are of."""
    launch, found = each.launch, each.figures
    return {
        "order": launch.order,
        "file": launch.file,
        "name": launch.name,
        "grid": None if launch.grid is None else list(launch.grid),
        "block": None if launch.block is None else list(launch.block),
        "device": launch.device,
        "context": launch.context,
        "stream": launch.stream,
        "nvtx": list(launch.nvtx),
        "duration_ns": known(found.duration_ns),
        "time_share": each.duration_ns / total if total else 0.0,
        "dram_bytes_per_s": known(found.dram_bytes_per_s),
        **{key: known(value) for key, value in found.shares.items()},
        "waves": known(found.waves),
        "pipes": dict(found.pipes),
        "bound": each.verdict.bound,
        "limiter": each.verdict.limiter,
        "roof_share": known(each.verdict.roof_share),
        "headroom": known(each.verdict.headroom),
        "wasted_share": None if each.verdict.wasted is None else each.verdict.wasted.share,
        "because": list(each.verdict.because),
        "severity": severe,
        "unreliable": list(found.unreliable),
        "advice": list(each.advice),
        "roofline": [
            {
                "level": point.level,
                "kind": point.kind,
                "operations_per_byte": point.operations_per_byte,
                "operations_per_s": point.operations_per_s,
                "roof_per_s": point.roof_per_s,
                "share": point.share,
            }
            for point in each.points
        ],
    }


def known(value: Figure | int) -> float | None:
    """A number, or null."""
    return None if isinstance(value, NotMeasured) else value


def _group(kernel: JudgedKernel, total: int) -> dict[str, Any]:
    share = kernel.duration_ns / total if total else 0.0
    spreads: dict[str, Any] = {}
    for key in FIGURE_NAMES:
        spread = kernel.spread(key)
        spreads[key] = (
            None if isinstance(spread, NotMeasured) else {"mean": spread.mean, "min": spread.least, "max": spread.most}
        )
    return {
        "name": kernel.name,
        "label": kernel.label,
        "grid": None if kernel.grid is None else list(kernel.grid),
        "block": None if kernel.block is None else list(kernel.block),
        "launches": [each.launch.order for each in kernel.launches],
        "duration_ns": kernel.duration_ns,
        "time_share": share,
        "bound": kernel.typical.verdict.bound,
        "limiter": kernel.typical.verdict.limiter,
        "headroom": known(kernel.headroom),
        "saving_ns": known(kernel.saving_ns),
        "severity": severity(kernel.saving_ns, total),
        "figures": spreads,
    }


def _roofs(launches: Sequence[JudgedLaunch]) -> list[dict[str, Any]]:
    """The roofs of each device, as its longest launch had them."""
    longest: dict[tuple[int | None, str], JudgedLaunch] = {}
    for each in launches:
        gpu = device_of(each.launch)
        key = (each.launch.device, gpu.name if isinstance(gpu, Gpu) else "")
        if key not in longest or each.duration_ns > longest[key].duration_ns:
            longest[key] = each
    return [
        {
            "device": device,
            "name": name or None,
            "memory": _each(each.roofs.memory),
            "compute": _each(each.roofs.compute),
        }
        for (device, name), each in longest.items()
    ]


def _each(roofs: Mapping[str, Roof]) -> dict[str, Any]:
    return {name: {"per_s": roof.per_s, "source": roof.source} for name, roof in roofs.items()}

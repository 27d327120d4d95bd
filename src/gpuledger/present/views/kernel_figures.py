"""Judged kernels as a table for a spreadsheet: every figure as a number, its unit in the heading.

A kernel that was launched several times has means weighted by time, with the least and the most beside them. An empty
cell is a figure that was not collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.analyse.kernels.judgement import JudgedKernel, severity
from gpuledger.analyse.kernels.verdict import FIGURE_NAMES, Figure
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.present.views.kernel_words import shape_text
from gpuledger.trace.model import NotMeasured

_RATE: Final = "dram_bytes_per_s"
_FIRST: Final = (
    Column("kernel", "Kernel", Unit.TEXT),
    Column("grid", "Grid", Unit.TEXT),
    Column("block", "Block", Unit.TEXT),
    Column("launches", "Launches", Unit.COUNT),
    Column("time_ns", "Time", Unit.NS),
    Column("share_percent", "Share of the time", Unit.SHARE_PERCENT),
    Column("bound", "Bound by", Unit.TEXT),
    Column("limiter", "Limiter", Unit.TEXT),
    Column("roof_percent", "Of the nearest roof", Unit.SHARE_PERCENT),
    Column("saving_ns", "Would save", Unit.NS),
    Column("severity", "Severity", Unit.TEXT),
    Column("wasted_percent", "Excessive sectors", Unit.SHARE_PERCENT),
    Column("waves", "Waves", Unit.RATIO),
)


def figures_sheet(kernels: Sequence[JudgedKernel]) -> Sheet:
    """One row per kernel, the longest first."""
    whole_ns = sum(kernel.duration_ns for kernel in kernels)
    pipes = sorted({pipe for kernel in kernels for pipe in kernel.typical.figures.pipes})
    stalls = sorted({why for kernel in kernels for why in kernel.typical.figures.stalls})
    columns = (
        *_FIRST,
        *(column for key, name in FIGURE_NAMES.items() for column in _spread_columns(key, name)),
        *(Column(f"pipe_{pipe}_percent", f"Pipeline {pipe}", Unit.SHARE_PERCENT) for pipe in pipes),
        *(Column(f"stall_{why}", f"Stall {why} (warps per issue)", Unit.RATIO) for why in stalls),
    )
    return Sheet("kernels", "Kernels", columns, tuple(_row(kernel, whole_ns, pipes, stalls) for kernel in kernels))


def _spread_columns(key: str, name: str) -> tuple[Column, ...]:
    unit = Unit.GB_PER_S if key == _RATE else Unit.SHARE_PERCENT
    bare = key.removesuffix("_share").removesuffix("_bytes_per_s")
    capital = name[:1].upper() + name[1:]
    return tuple(
        Column(f"{bare}_{part}", f"{capital}{words}", unit)
        for part, words in (("mean", ""), ("min", ", least"), ("max", ", most"))
    )


def _row(kernel: JudgedKernel, whole_ns: int, pipes: Sequence[str], stalls: Sequence[str]) -> tuple[Cell, ...]:
    typical = kernel.typical
    verdict, figures = typical.verdict, typical.figures
    return (
        kernel.name,
        shape_text(kernel.grid),
        shape_text(kernel.block),
        len(kernel.launches),
        kernel.duration_ns,
        100 * kernel.duration_ns / whole_ns if whole_ns else None,
        verdict.bound,
        verdict.limiter,
        _percent(verdict.roof_share),
        None if isinstance(kernel.saving_ns, NotMeasured) else kernel.saving_ns,
        severity(kernel.saving_ns, whole_ns),
        None if verdict.wasted is None else 100 * verdict.wasted.share,
        None if isinstance(figures.waves, NotMeasured) else figures.waves,
        *(cell for key in FIGURE_NAMES for cell in _spread_cells(kernel, key)),
        *(_percent(figures.pipes.get(pipe)) for pipe in pipes),
        *(figures.stalls.get(why) for why in stalls),
    )


def _spread_cells(kernel: JudgedKernel, key: str) -> tuple[Cell, ...]:
    spread = kernel.spread(key)
    if isinstance(spread, NotMeasured):
        return (None, None, None)
    factor = 1e-9 if key == _RATE else 100
    return tuple(factor * value for value in (spread.mean, spread.least, spread.most))


def _percent(share: Figure | None) -> float | None:
    return None if share is None or isinstance(share, NotMeasured) else 100 * share

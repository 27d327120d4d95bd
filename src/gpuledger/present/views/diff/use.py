"""What the same kernels use of the GPU before and after: a table and JSON, where both have samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpuledger.analyse.diff.compare import UseChange
from gpuledger.catalog.kernel_names import label
from gpuledger.messages import say
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.views.kernel_use import NAMES, figure_json, figure_text

MOST_ROWS: Final = 12

_COLUMNS: Final = (
    Column("kernel", say("Kernel"), Unit.TEXT, shorten=label),
    Column("counter", say("Counter"), Unit.TEXT),
    Column("before", say("before"), Unit.FIGURE),
    Column("after", say("after"), Unit.FIGURE),
    Column("change", say("Change"), Unit.FIGURE),
)


def use_sheet(changes: Sequence[UseChange]) -> Sheet:
    """The kernel with the most time first."""
    rows = tuple(
        (
            change.after_kernel.name,
            NAMES[change.metric],
            figure_text(change.before),
            figure_text(change.after),
            say("{points} points", points=f"{change.points:+.0f}"),
        )
        for change in changes[:MOST_ROWS]
    )
    return Sheet("diff_use", say("GPU utilization of matched kernels"), _COLUMNS, rows)


def use_json(changes: Sequence[UseChange]) -> list[dict[str, Any]]:
    """Percent of what the GPU could do while the kernel ran, each with its interval."""
    return [
        {
            "name": change.after_kernel.name,
            "grid": list(change.after_kernel.grid),
            "block": list(change.after_kernel.block),
            "before_ns": change.before_kernel.time_ns,
            "after_ns": change.after_kernel.time_ns,
            "counter": change.metric.value,
            "before": figure_json(change.before),
            "after": figure_json(change.after),
        }
        for change in changes
    ]

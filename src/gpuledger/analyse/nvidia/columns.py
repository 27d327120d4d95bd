"""Columns of NVIDIA's tables that several of them share, and their cells."""

from __future__ import annotations

from gpuledger.present.sheet import Cell, Column, Unit
from gpuledger.trace.statistics import Statistics

TIME_SHARE = Column("time_percent", "Time", Unit.SHARE_PERCENT)


def time_columns(count_key: str, count_heading: str) -> tuple[Column, ...]:
    """NVIDIA's columns for the statistics of durations."""
    return (
        Column("total_ns", "Total Time", Unit.NS),
        Column(count_key, count_heading, Unit.COUNT),
        *spread_columns(""),
    )


def spread_columns(prefix: str, *, average_detail: int = 1) -> tuple[Column, ...]:
    """Average, median, least, most and deviation of a duration; `prefix` as in `TAvg`."""
    key = f"{prefix.strip().lower()}_" if prefix else ""
    return (
        Column(f"{key}avg_ns", f"{prefix}Avg", Unit.MEAN_NS, detail=average_detail),
        Column(f"{key}med_ns", f"{prefix}Med", Unit.MEAN_NS, detail=2),
        Column(f"{key}min_ns", f"{prefix}Min", Unit.NS, detail=4),
        Column(f"{key}max_ns", f"{prefix}Max", Unit.NS, detail=3),
        Column(f"{key}stddev_ns", f"{prefix}StdDev", Unit.MEAN_NS, detail=5),
    )


def time_cells(summary: Statistics) -> tuple[Cell, ...]:
    """A summary in the order of `time_columns`."""
    return (summary.total, summary.count, *spread_cells(summary))


def spread_cells(summary: Statistics) -> tuple[Cell, ...]:
    """A summary in the order of `spread_columns`."""
    return (summary.average, summary.median, summary.least, summary.most, summary.deviation)

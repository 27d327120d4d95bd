"""NVIDIA's summary tables as they were printed: rows of statistics per name, of one run.

They are what is left where only the output of `nsys stats` was kept. Single events, and thus gaps, overlaps and steps,
cannot be had from them. Times are in nanoseconds whatever unit was printed; a value that was not printed is None.
Averages, medians and deviations are of the rows behind them, so they have decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuledger.trace.health import Note

CUT = "…"
"""How nsys ends a name that did not fit."""


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """The statistics of one name's times."""

    name: str
    """As printed: a range with its domain and a colon before it, a long name cut."""
    count: int
    total_ns: int | None = None
    """None for cuda_kern_exec_sum, which has none."""
    average_ns: float | None = None
    median_ns: float | None = None
    least_ns: int | None = None
    most_ns: int | None = None
    deviation_ns: float | None = None
    style: str = ""
    """Of a range: PushPop or StartEnd."""
    domain: str | None = None
    """Of a range, empty for the default one; None where it cannot be told."""
    beside: Mapping[str, int | float | str | None] = field(default_factory=dict)
    """What else the row says, by the keys of `gpuledger stats --format=json`."""

    @property
    def is_cut(self) -> bool:
        """Whether the name is only the beginning of one: several things may be called so."""
        return self.name.endswith(CUT)


@dataclass(frozen=True, slots=True)
class SizeRow:
    """The statistics of how many bytes one operation moved: as exact as they were printed, to a kB in most tables."""

    name: str
    count: int
    total_bytes: int | None = None
    average_bytes: float | None = None
    median_bytes: float | None = None
    least_bytes: int | None = None
    most_bytes: int | None = None
    deviation_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """One table. `rows` holds times, `sizes` bytes (cuda_gpu_mem_size_sum only), each in the order printed."""

    report: str
    """NVIDIA's name, the present one: cuda_api_sum also where an old nsys wrote cudaapisum."""
    rows: tuple[SummaryRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()


@dataclass(frozen=True, slots=True)
class PrintedTables:
    """The tables of one run, by NVIDIA's names."""

    name: str
    """What to call it, and what to give to `open_summaries` to get it again."""
    tables: Mapping[str, PrintedTable]
    health: tuple[Note, ...] = ()
    profile: str = ""
    """The profile that nsys says it read; empty where it does not say."""

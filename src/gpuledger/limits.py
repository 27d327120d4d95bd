"""Every cap in one place. A profile is untrusted: what exceeds a cap is refused in one sentence, never swallowed.

On the command line `--limit=NAME=VALUE` raises or lowers one, for the names below with dashes.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

EXPORTER: Final = "GPULEDGER_EXPORTER"
"""The setting, also `--exporter`, that has reports of nsys read by way of NVIDIA's tool: `nsys`."""


class Limits(Struct, frozen=True):
    """What reading one profile may cost."""

    read_seconds: float = 900.0
    """Longest time that reading one profile, and answering about it, may take."""

    rows_per_table: int = 400_000_000
    """Most rows of one table that are held in memory."""

    gpus: int = 1000
    """Most GPUs that one profile may name; each gets books of its own."""

    text_bytes: int = 1 << 20
    """Longest name that is kept whole; a longer one is cut and counted."""

    unpacked_bytes: int = 200_000_000_000
    """Most bytes that a compressed profile may unpack to; they are streamed, never held."""

    event_bytes: int = 64 << 20
    """Longest single event, and longest metadata, of a JSON trace; longest line of CSV."""

    event_depth: int = 900
    """Deepest nesting of one event of a JSON trace; a deeper one is left out and counted."""

    snapshot_bytes: int = 16 << 30
    """Largest memory snapshot of PyTorch; it is held in memory while it is read, with about twice as much beside."""

    export_seconds: float = 3600.0
    """Longest time that `nsys export` may take on a report."""

    ncu_seconds: float = 3600.0
    """Longest time that NVIDIA's library may take to read a report of Nsight Compute."""

    ncu_memory_bytes: int = 64 << 30
    """Most memory that NVIDIA's library may ask for to read a report of Nsight Compute."""

    query_seconds: float = 60.0
    """Longest time that a query in SQL may take, with its parsing and the books that it names."""

    query_memory_bytes: int = 4 << 30
    """Most memory that a query may take beside the profile."""

    query_rows: int = 100_000
    """Most rows of an answer that are kept; that there were more is told."""


DEFAULT_LIMITS = Limits()

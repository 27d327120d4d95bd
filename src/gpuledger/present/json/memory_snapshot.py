"""What a report has of a memory snapshot of the same run, for programs."""

from __future__ import annotations

from collections.abc import Iterable

from gpuledger.answers.memory_snapshot import SnapshotAnswer
from gpuledger.json_types import Json
from gpuledger.present.json.types import HealthJson, TableJson, health_json, tables_json
from gpuledger.present.sheet import Sheet


class SnapshotJson(Json):
    """What a memory snapshot of PyTorch says."""

    profile: str
    zero_ns: int
    """The wall clock, in ns since 1970, when its history begins; instants in its tables count from it."""
    tables: list[TableJson]
    health: list[HealthJson]


def snapshot_json(analysed: SnapshotAnswer, sheets: Iterable[Sheet]) -> SnapshotJson:
    """The findings and all tables."""
    return SnapshotJson(
        profile=analysed.snapshot.name,
        zero_ns=analysed.start_ns,
        tables=tables_json(sheets),
        health=health_json(analysed.snapshot.health),
    )

"""Tables that are missing, empty or none, and work without a GPU, are told: their time must not just look idle."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.trace.model import Severity
from support.command import gpuledger
from support.pages.schemas import schema_of
from support.profiles.nsys_exports import PID, call, insert, kernel, minimal

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPY = {"start": 40, "end": 50, "globalPid": PID, "bytes": 8, "copyKind": 1, "correlationId": 2, "streamId": 7}
GPU_WITHOUT_SMS = (
    "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT)",
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200')",
)
LAUNCHED = (f"UPDATE {KERNELS} SET correlationId = 2",)
OS_CALLS = (
    "CREATE TABLE OSRT_API (start INT, end INT, eventClass INT, globalTid INT, nameId INT)",
    "INSERT INTO StringIds VALUES (6, 'poll')",
    f"INSERT INTO OSRT_API VALUES (2, 4, 27, {PID + 1}, 6)",
)


def export(folder: Path, *statements: str) -> Path:
    """A kernel and a copy with their calls, after these statements."""
    path = minimal(folder / "a.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], MEMCPY=[COPY])
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO StringIds VALUES (4, 'cudaMemcpyAsync_v3020')")
        insert(database, "CUPTI_ACTIVITY_KIND_RUNTIME", [call(30, 35, correlationId=2, nameId=4)])
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


@pytest.mark.parametrize(
    ("statements", "codes"),
    [
        ((), []),
        ((f"DROP TABLE {KERNELS}",), ["work-not-recorded"]),
        ((f"DELETE FROM {KERNELS}",), ["work-not-recorded"]),
        (
            (f"ALTER TABLE {KERNELS} RENAME TO other", f"CREATE VIEW {KERNELS} AS SELECT * FROM other"),
            ["table-unusable", "work-not-recorded"],
        ),
        (("DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY",), ["work-not-recorded"]),
        ((f"UPDATE {KERNELS} SET deviceId = -1",), ["gpu-not-recorded"]),
        ((f"ALTER TABLE {KERNELS} DROP COLUMN deviceId",), ["gpu-not-recorded"]),
        (("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET correlationId = NULL",), ["links-missing"]),
        (("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN globalTid",), ["links-missing"]),
        (("ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN correlationId",), ["links-missing"]),
        ((f"ALTER TABLE {KERNELS} DROP COLUMN gridX",), ["links-missing"]),
        ((*OS_CALLS, "UPDATE OSRT_API SET globalTid = NULL"), ["links-missing"]),
        ((*OS_CALLS, "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME"), ["launches-not-recorded"]),
        (("UPDATE StringIds SET value = 'hipMemcpyDtoDAsync' WHERE value LIKE 'cuda%'",), []),
        (
            ("UPDATE StringIds SET value = 'cudaGraphLaunch_v10000' WHERE id = 4",) + LAUNCHED,
            ["graph-nodes-not-recorded"],
        ),
        (GPU_WITHOUT_SMS, ["gpu-figures-not-recorded"]),
        (("CREATE TABLE TARGET_INFO_GPU (id INT)",), ["table-unusable"]),
        (("CREATE VIEW TARGET_INFO_GPU AS SELECT 0 AS id, 'x' AS name",), ["table-unusable"]),
        (("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 1", f"DELETE FROM {KERNELS}"), []),
        (
            (f"DELETE FROM {KERNELS}", "INSERT INTO StringIds VALUES (5, 'cudaStreamBeginCapture_v10000')")
            + ("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = 5, start = 0 WHERE nameId = 4",),
            [],
        ),
    ],
    ids=[
        *("whole", "dropped", "emptied", "a view", "no copies", "GPU -1", "no device"),
        *(
            "no copy ids",
            "no thread",
            "no ids",
            "no size",
            "no OS thread",
            "no launches",
            "copies of AMD",
            "no nodes",
            "no SMs",
            "GPUs without names",
            "GPUs in a view",
            "failed",
            "captured",
        ),
    ],
)
def test_what_is_not_recorded_is_told_and_no_gpu_is_made_up(
    tmp_path: Path, statements: tuple[str, ...], codes: list[str]
) -> None:
    path = export(tmp_path, *statements)
    trace = open_trace(path)
    assert [note.code for note in trace.health] == codes
    assert all((rows["gpu"] >= 0).all() for rows in trace.tables.values() if "gpu" in rows)
    report = gpuledger("report", path, "--no-cache").stdout
    losses = [note.sentence for note in trace.health if note.severity is Severity.LOSS]
    assert all(sentence in " ".join(report.split()) for sentence in losses)
    assert "GPU -1" not in report


def test_a_report_says_in_json_what_was_not_measured(tmp_path: Path) -> None:
    ran = gpuledger("report", export(tmp_path, f"DROP TABLE {KERNELS}"), "--no-cache", "--format=json")
    document = json.loads(ran.stdout)
    schema_of("report").validate(document)
    assert {lack["what"] for lack in document["not_measured"]} >= {"kernels", "OS calls"}

"""One export of nsys with many windows in, one export per window out: `cut_windows.py EXPORT.sqlite FOLDER [STEPS]`.

A window is an NVTX range "pair:NAME", as `lab.programs.pairs` sets them; it becomes FOLDER/NAME.sqlite, which
holds the rows that begin in it and what they refer to. The device is idle at both ends of a window, so nothing is cut
in two. Where several processes have a window of one name, it lasts from the first one's start to the last one's end.
With STEPS it ends with so many of its ranges "step", and holds what was launched until then, however late that ran.
A call to the operating system or a range that ends after the window is left out: nsys has none that outlast it.
Names of the host, paths, environment and the processes that did nothing are left out.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path

LEFT_OUT = ("ProcessStreams", "ANALYSIS_FILE", "OSRT_CALLCHAINS", "CUDA_CALLCHAINS")
NAMES = ("nameId", "textId", "demangledName", "shortName", "mangledName", "jsonTextId", "sectionNameId")
"""Columns that refer to StringIds."""
WHOLE = ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
"""Graphs are made before the window that runs them."""
MARGIN_NS = 500_000
"""Samples of the GPU are stamped a little before or after what they saw."""
OUTLASTING = ("OSRT_API", "NVTX_EVENTS")
ON_DEVICE = "CUPTI_ACTIVITY_KIND_"
PATH = re.compile(r"(?:/[\w.+-]+){2,}")


def windows_of(export: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Start and end of each window, by name."""
    rows = export.execute(
        'SELECT coalesce(text, value), min(start), max("end") FROM NVTX_EVENTS '
        "LEFT JOIN StringIds ON StringIds.id = textId WHERE coalesce(text, value) LIKE 'pair:%' GROUP BY 1"
    )
    return {name.removeprefix("pair:"): (start, end) for name, start, end in rows}


def columns(export: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [row[1] for row in export.execute(f'PRAGMA table_info("{table}")')]


def end_of_steps(export: sqlite3.Connection, start: int, end: int, steps: int) -> int:
    """Where the host has made so many steps of a window; its end where it has fewer."""
    ends = export.execute(
        'SELECT "end" FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId '
        "WHERE coalesce(text, value) = 'step' AND start BETWEEN ? AND ? ORDER BY start LIMIT ?",
        (start, end, steps),
    ).fetchall()
    return int(ends[-1][0]) if len(ends) == steps else end


def cut(export: sqlite3.Connection, target: Path, start: int, end: int, launched_until: int) -> None:
    """Write one window's export."""
    target.unlink(missing_ok=True)
    export.execute("ATTACH ? AS cut", (str(target),))
    listed = export.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'table'").fetchall()
    tables = {name: sql for name, sql in listed if name not in LEFT_OUT}
    for table, sql in tables.items():
        export.execute(sql.replace(f"CREATE TABLE {table}", f'CREATE TABLE cut."{table}"', 1))
        named, clause = columns(export, table), ""
        limits: tuple[int, ...] = ()
        if "start" in named and table not in WHOLE:
            last = end if table.startswith(ON_DEVICE) and "streamId" in named else launched_until
            clause, limits = "WHERE start BETWEEN ? AND ?", (start, last)
        elif table == "GPU_METRICS":
            clause, limits = "WHERE timestamp BETWEEN ? AND ?", (start - MARGIN_NS, launched_until + MARGIN_NS)
        export.execute(f'INSERT INTO cut."{table}" SELECT * FROM main."{table}" {clause}', limits)
        if table in OUTLASTING:
            export.execute(f'DELETE FROM cut."{table}" WHERE "end" > ?', (launched_until,))
    if launched_until < end:
        unlaunched(export, tables)
    prune(export, tables)
    anonymise(export)
    if "ANALYSIS_DETAILS" in tables:
        times = (start, launched_until, launched_until - start)
        export.execute("UPDATE cut.ANALYSIS_DETAILS SET startTime = ?, stopTime = ?, duration = ?", times)
    export.commit()
    export.execute("VACUUM cut")
    export.execute("DETACH cut")


def unlaunched(export: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Leave out what the device did for calls that are not there."""
    for table in tables:
        if table.startswith(ON_DEVICE) and {"streamId", "correlationId"} <= set(columns(export, table)):
            export.execute(
                f'DELETE FROM cut."{table}" WHERE correlationId NOT IN '
                "(SELECT correlationId FROM cut.CUPTI_ACTIVITY_KIND_RUNTIME)"
            )


def prune(export: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Leave out processes and threads without a row, and names that no row has."""
    held = {table: columns(export, table) for table in tables}

    def values(of: Iterable[str], names: Iterable[str], shown: str) -> str:
        """What the columns hold, for a list in SQL."""
        asked = [
            f'SELECT {shown.format(name)} FROM cut."{table}"' for table in of for name in names if name in held[table]
        ]
        return " UNION ".join(asked) or "SELECT NULL"

    timed = [table for table in held if "start" in held[table]]
    active = values(timed, ("globalTid", "globalPid"), "{} >> 24")
    for table, column in (("PROCESSES", "globalPid"), ("ThreadNames", "globalTid")):
        if table in held:
            export.execute(f"DELETE FROM cut.{table} WHERE {column} >> 24 NOT IN ({active})")
    used = values(held, NAMES, "coalesce({}, -1)")
    export.execute(f"DELETE FROM cut.StringIds WHERE id NOT IN ({used})")


def anonymise(export: sqlite3.Connection) -> None:
    """Take out what tells of the host and of who ran it."""
    present = {name for (name,) in export.execute("SELECT name FROM cut.sqlite_master")}
    for table, column in (
        ("StringIds", "value"),
        ("DIAGNOSTIC_EVENT", "text"),
        ("PROCESSES", "name"),
        ("META_DATA_EXPORT", "value"),
        ("META_DATA_CAPTURE", "value"),
    ):
        if table in present:
            rows = export.execute(f"SELECT rowid, {column} FROM cut.{table} WHERE {column} LIKE '%/%'").fetchall()
            for row, text in rows:
                export.execute(f"UPDATE cut.{table} SET {column} = ? WHERE rowid = ?", (without_paths(text), row))
    hidden = {
        "META_DATA_CAPTURE": (
            "DELETE",
            "name LIKE '%ENVIRONMENT%' OR name LIKE '%USER_NAME%' OR name LIKE '%WORKING_DIR%'",
        ),
        "TARGET_INFO_SYSTEM_ENV": ("DELETE", "value LIKE '%PATH=%' OR value LIKE '%/%'"),
    }
    for table, (verb, clause) in hidden.items():
        if table in present:
            export.execute(f"{verb} FROM cut.{table} WHERE {clause}")
    for table, names in (
        ("META_DATA_CAPTURE", ("DEVICE_DISPLAY_NAME",)),
        ("META_DATA_EXPORT", ("EXPORT_HOST", "EXPORT_USER")),
        ("TARGET_INFO_SYSTEM_ENV", ("Hostname", "SystemUID")),
    ):
        if table in present:
            listed = ",".join(f"'{name}'" for name in names)
            export.execute(f"UPDATE cut.{table} SET value = 'host' WHERE name IN ({listed})")


def without_paths(text: str) -> str:
    """Each path's last part."""
    return PATH.sub(lambda path: path[0].rsplit("/", 1)[-1], text)


def main() -> None:
    """Cut one export."""
    source, folder, *steps = (Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
    folder.mkdir(parents=True, exist_ok=True)
    export = sqlite3.connect(source)
    for (table,) in export.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for column in {"start", "timestamp"} & set(columns(export, table)):
            export.execute(f'CREATE INDEX IF NOT EXISTS "by_{column}_{table}" ON "{table}" ({column})')
    found = windows_of(export)
    for name, (start, end) in sorted(found.items()):
        last = end_of_steps(export, start, end, steps[0]) if steps else end
        cut(export, folder / f"{name}.sqlite", start, end, last)
    print(f"{source.name}: {len(found)} windows")  # noqa: T201


if __name__ == "__main__":
    main()

"""SQLite that is damaged, or is no export, or an odd one."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

from hostile.files import Make, export
from support.profiles.nsys_exports import PID, call, insert, kernel, minimal
from support.profiles.random_export import SCHEMA

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
Change = Callable[[sqlite3.Connection], object]


def changed(*statements: str, before: str = "") -> Make:
    """The clean export after these statements; `before` is run when it is still empty."""

    def make(folder: Path) -> Path:
        path = folder / "a.sqlite"
        if before:
            with sqlite3.connect(path) as database:
                database.executescript(f"{before}; CREATE TABLE t (x); DROP TABLE t; VACUUM")
            database.close()
        export(path)
        with sqlite3.connect(path) as database:
            for each in statements:
                database.execute(each)
        database.close()
        return path

    return make


def damaged(change: Callable[[bytearray], object], rows: int = 2000) -> Make:
    """An export of many pages, its bytes changed."""

    def make(folder: Path) -> Path:
        path = minimal(folder / "a.sqlite", KERNEL=[kernel(at, at + 1) for at in range(rows)], RUNTIME=[call(0, 1)])
        content = bytearray(path.read_bytes())
        cut = change(content)
        path.write_bytes(content[:cut] if isinstance(cut, int) else content)
        return path

    return make


def put(at: int, value: bytes) -> Callable[[bytearray], None]:
    """Overwrites some bytes."""

    def change(content: bytearray) -> None:
        content[at : at + len(value)] = value

    return change


def page_types(content: bytearray) -> None:
    for at in range(4096, len(content), 4096):
        content[at] ^= 0xFF


def noise(content: bytearray) -> None:
    """A thousand bytes anywhere after the schema, set to anything."""
    source = random.Random(7)
    for _ in range(1000):
        content[source.randrange(4096, len(content))] = source.randrange(256)


def ring(content: bytearray) -> None:
    """Interior pages whose children are all the same interior page: themselves."""
    for at in range(4096, len(content), 4096):
        if content[at] == 5:
            content[at + 8 : at + 12] = (at // 4096 + 1).to_bytes(4, "big")


def shared_pages(table: str, declaration: str = "") -> Make:
    """Four levels of pages that all point to the one below: half a megabyte whose table claims 10^10 rows."""

    def make(folder: Path) -> Path:
        path = folder / "a.sqlite"
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA page_size = 4096")
            if declaration:
                database.execute(f"CREATE TABLE {table} ({declaration})")
                database.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, "k")] * 40)
            if table != "StringIds":
                insert(database, "StringIds", [{"id": 1, "value": "k"}])
            insert(database, KERNELS, [kernel(at, at + 1) for at in range(40)])
            [(root,)] = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
            [(pages,)] = database.execute("PRAGMA page_count")
        database.close()
        content = bytearray(path.read_bytes())
        leaf = bytes(content[(root - 1) * 4096 : root * 4096])
        levels = [pages + 1 + level for level in range(4)]
        for below in levels[1:]:
            content += _pointing_to(below)
        content += leaf
        content[(root - 1) * 4096 : root * 4096] = _pointing_to(levels[0])
        content[28:32] = (pages + 4).to_bytes(4, "big")
        path.write_bytes(content)
        return path

    return make


def _pointing_to(child: int) -> bytes:
    """An interior page with 400 cells, all with the same child."""
    page = bytearray(4096)
    count = 400
    page[0], page[3:5], page[8:12] = 5, count.to_bytes(2, "big"), child.to_bytes(4, "big")
    end = 4096
    for cell in range(count):
        content = child.to_bytes(4, "big") + bytes([0x80 | (cell + 1) >> 7, (cell + 1) & 127])
        end -= len(content)
        page[end : end + len(content)] = content
        page[12 + 2 * cell : 14 + 2 * cell] = end.to_bytes(2, "big")
    page[5:7] = end.to_bytes(2, "big")
    return bytes(page)


def waiting_in_a_log(folder: Path) -> Path:
    """The second kernel is only in the write-ahead log."""
    path = minimal(folder / "made.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5), call(6, 9, correlationId=2)])
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA wal_autocheckpoint = 0")
    insert(database, KERNELS, [kernel(30, 45, correlationId=2)])
    database.execute(f"CREATE TABLE NVTX_EVENTS ({SCHEMA['NVTX_EVENTS']})")
    database.execute(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) "
        f"SELECT 0, 50, 59, 'step', {call(0, 0)['globalTid']}, 0"
    )
    database.commit()
    for ending in ("", "-wal"):
        shutil.copyfile(f"{path}{ending}", folder / f"a.sqlite{ending}")
    database.close()
    path.unlink()
    return folder / "a.sqlite"


def with_log(content: bytes) -> Make:
    """The clean export in WAL mode, with a log of these bytes beside it."""

    def make(folder: Path) -> Path:
        path = changed()(folder)
        database = sqlite3.connect(path)
        database.execute("PRAGMA journal_mode = WAL")
        database.close()
        Path(f"{path}-wal").write_bytes(content)
        return path

    return make


def being_written(folder: Path) -> Path:
    """An export that was stopped within a transaction: a hot journal lies beside it."""
    path = folder / "made.sqlite"
    export(path)
    database = sqlite3.connect(path)
    database.execute("PRAGMA cache_size = 2")
    for number in range(3000):
        insert(database, KERNELS, [kernel(number, number + 1)])
    for ending in ("", "-journal"):
        shutil.copyfile(f"{path}{ending}", folder / f"a.sqlite{ending}")
    database.close()
    for each in os.listdir(folder):
        if each.startswith("made"):
            (folder / each).unlink()
    return folder / "a.sqlite"


def many_rows(count: int) -> Make:
    """More rows than the case allows."""

    def make(folder: Path) -> Path:
        path = minimal(folder / "a.sqlite", KERNEL=[kernel(1, 2)])
        with sqlite3.connect(path) as database:
            database.execute(
                f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {count}) "
                f"INSERT INTO {KERNELS} SELECT k.* FROM {KERNELS} AS k, n"
            )
        database.close()
        return path

    return make


def another_database(folder: Path) -> Path:
    with sqlite3.connect(folder / "a.sqlite") as database:
        database.execute('CREATE TABLE "bookmarks\x1b[31m" (url TEXT)')
    database.close()
    return folder / "a.sqlite"


def no_tables(folder: Path) -> Path:
    with sqlite3.connect(folder / "a.sqlite") as database:
        database.execute("PRAGMA user_version = 1")
    database.close()
    return folder / "a.sqlite"


def encrypted(folder: Path) -> Path:
    """As SQLCipher leaves it: not even the header is in clear."""
    path = export(folder / "a.sqlite")
    path.write_bytes(random.Random(3).randbytes(path.stat().st_size))
    return path


def encrypted_but_the_head(folder: Path) -> Path:
    path = export(folder / "a.sqlite")
    path.write_bytes(path.read_bytes()[:100] + random.Random(3).randbytes(path.stat().st_size - 100))
    return path


def only(*tables: str) -> Make:
    """Some of the clean export's tables."""
    all_of_them = ("StringIds", KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")
    return changed(*(f'DROP TABLE "{table}"' for table in all_of_them if table not in tables))


def stored_as(**affinities: str) -> Make:
    """The clean export with columns of the kernel table declared otherwise."""

    def make(folder: Path) -> Path:
        declared = SCHEMA[KERNELS]
        for column, kind in affinities.items():
            declared = declared.replace(f"{column} INTEGER", f"{column} {kind}")
        made = changed(
            f'ALTER TABLE "{KERNELS}" RENAME TO old',
            f'CREATE TABLE "{KERNELS}" ({declared})',
            f'INSERT INTO "{KERNELS}" SELECT * FROM old',
            "DROP TABLE old",
        )
        return made(folder)

    return make


def rewritten(declaration: str, columns: str = "*", ending: str = "") -> Make:
    """The clean export with a table of kernels of another making that holds the same rows."""
    return changed(
        f'ALTER TABLE "{KERNELS}" RENAME TO old',
        f'CREATE TABLE "{KERNELS}" ({declaration}){ending}',
        f'INSERT INTO "{KERNELS}" SELECT {columns} FROM old',
        "DROP TABLE old",
    )


def short_records(default: str) -> Make:
    """A column that was added after the rows were written."""
    without = SCHEMA[KERNELS].replace("correlationId INTEGER,", "")
    listed = ", ".join(
        column.split()[0] for column in without.replace("\n", " ").split(",") if column.split()[0] != "correlationId"
    )
    return changed(
        f'ALTER TABLE "{KERNELS}" RENAME TO old',
        f'CREATE TABLE "{KERNELS}" ({without})',
        f'INSERT INTO "{KERNELS}" SELECT {listed} FROM old WHERE correlationId = 1',
        "DROP TABLE old",
        f'ALTER TABLE "{KERNELS}" ADD COLUMN correlationId INTEGER {default}',
    )


FEW = "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName"
ENDLESS = "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n"
VIRTUAL = (f'DROP TABLE "{KERNELS}"', f'CREATE VIRTUAL TABLE "{KERNELS}" USING rtree(id, start, end)')
GPU_NONSENSE = (
    "CREATE TABLE TARGET_INFO_GPU (id, name, busLocation, smCount, totalMemory, memoryBandwidth, clockRate, cuDevice)",
    f"INSERT INTO TARGET_INFO_GPU VALUES (0, x'ff1b5b', 7, 'many', {2**63 - 1}, {-(2**63)}, 1e300, 'x'), "
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), ('one', 'two', 3, 4, 5, 6, 7, 0)",
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid)",
    f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES ('a', 'b', 'c'), (0, {2**40}, NULL), (9, 0, 100)",
)


def _schema(change: str, where: str) -> tuple[str, ...]:
    return ("PRAGMA writable_schema = 1", f"UPDATE sqlite_master SET {change} WHERE {where}")


def points_to(page: int) -> tuple[str, ...]:
    """The table of kernels begins at another page."""
    return _schema(f"rootpage = {page}", f"name = '{KERNELS}'")


def index_points_to(page: int) -> tuple[str, ...]:
    return _schema(f"rootpage = {page}", "name = 'i'")


def declared_as(sql: str) -> tuple[str, ...]:
    """The table of kernels is declared by these words."""
    return _schema(f"sql = {sql}", f"name = '{KERNELS}'")


def version(text: str) -> tuple[str, ...]:
    """An export that says it is of this version."""
    return (
        "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)",
        "INSERT INTO META_DATA_EXPORT "
        f"VALUES ('EXPORT_SCHEMA_VERSION', '{text}'), ('EXPORT_PRODUCT_VERSION', '{text}')",
    )


def computed_start() -> Make:
    """A column of times that is not stored, but computed from another."""
    return rewritten(
        "began, start AS (began + 0), end, deviceId, streamId, correlationId, globalPid, demangledName, shortName", FEW
    )


def names(declaration: str, columns: str) -> Make:
    """The clean export with its names in a table of another making."""
    whole = columns if " FROM " in columns else f"{columns} FROM old"
    return changed(
        "ALTER TABLE StringIds RENAME TO old",
        f"CREATE TABLE StringIds ({declaration})",
        f"INSERT INTO StringIds SELECT {whole}" + (" FROM old" if "UNION" in whole else ""),
        "DROP TABLE old",
    )


def with_labels(label: str) -> Make:
    """A copy whose kind has such a label."""
    table = "CUPTI_ACTIVITY_KIND_MEMCPY"
    return changed(
        f"CREATE TABLE {table} ({SCHEMA[table]})",
        f"INSERT INTO {table} (start, end, deviceId, contextId, streamId, globalPid, bytes, copyKind) "
        f"VALUES (21, 25, 0, 1, 7, {PID}, 8, 1)",
        "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT)",
        f"INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'x', {label})",
    )

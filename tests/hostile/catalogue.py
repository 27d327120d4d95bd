"""Input that must not hurt us, as one table: what each case is, how it is made, and what must happen.

Whatever a case holds, the command ends within the bounds of `forked`, shows no traceback, reaches for nothing outside,
writes nothing but its result, and puts no control character on a terminal. Beyond that:

    refused(words)   one `error:` sentence with these words, exit 1, nothing on stdout
    read(codes)      a result; the trace's health has exactly these codes; `report=` if that verb has nothing to book
    same(as)         a result, and in it the numbers of the clean file
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from hostile import containers, databases, files, jsons, meanings, reports
from hostile.containers import packed, tarred, zipped
from hostile.databases import KERNELS, changed, damaged, put
from hostile.files import JSON, KERNEL, Make, at, holding, named
from hostile.jsons import events, swapped, text
from hostile.meanings import FAR, kernels, nsys, torch
from hostile.reports import DRAM, DURATION, HEAD, LONG, RAW, UNITS, metric, page, raw, row
from support.profiles import rocm_files, xplane_files
from support.profiles.nsys_exports import call, kernel, push
from support.thorough import IS_THOROUGH


@dataclass(frozen=True, slots=True)
class Refused:
    """One sentence with these words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A result whose health has these codes; `report` holds words where that verb refuses."""

    codes: frozenset[str]
    report: str = ""


@dataclass(frozen=True, slots=True)
class Same:
    """The numbers of the clean file."""

    clean: Make
    codes: frozenset[str] = frozenset()


Must = Refused | Read | Same


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    kind: str
    name: str
    make: Make
    must: Must
    options: tuple[str, ...] = ()
    """Further options of the command."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """All verbs read with the same code: a thorough run asks two of them, others of some inputs only.

        And of those that a report refuses though they can be read: only the other verb says what was found.
        """
        is_refused_late = isinstance(self.must, Read) and self.must.report != ""
        is_asked_twice = IS_THOROUGH or is_refused_late or crc32(self.id.encode()) % 3 == 0
        usual = {"ncu": ("kernels",), "job": ("fleet",)}
        return _VERBS.get(self.name, usual.get(self.kind, ("info", "report") if is_asked_twice else ("report",)))

    @property
    def id(self) -> str:
        return f"{self.kind}: {self.name}"

    def __str__(self) -> str:
        return self.id


def refused(*words: str) -> Refused:
    return Refused(words)


def read(*codes: str, report: str = "") -> Read:
    return Read(frozenset(codes), report)


def an_export(folder: Path) -> Path:
    return files.export(folder / "clean.sqlite")


def a_trace(folder: Path) -> Path:
    return files.trace(folder / "clean.json")


def same(clean: Make = a_trace, *codes: str) -> Same:
    return Same(clean, frozenset(codes))


EXPORT = same(an_export)
TRACE = same(a_trace)
NO_GPU_WORK = "no GPU work was recorded"
NO_TIME = "all GPU work that was recorded takes 0 ns"
NOT_OURS = "not a profile that gpuledger can read"

_FILE: dict[str, tuple[Make, Must]] = {
    "missing": (files.missing, refused("rum.sqlite: no such file", "did you mean", "run.sqlite")),
    "missing, nothing alike": (lambda folder: folder / "x.sqlite", refused("x.sqlite: no such file")),
    "folder": (lambda folder: folder, refused("is a folder, not a profile")),
    "folder full of files": (files.folder_full_of_files, refused("is a folder", "5000 entries")),
    "empty": (holding(b""), refused("the file is empty")),
    "no permission": (files.no_permission, refused("permission denied", "chmod")),
    "below a file": (files.below_a_file, refused("not a directory")),
    "FIFO": (files.fifo, refused("not a regular file")),
    "socket": (files.socket_file, refused("not a regular file")),
    "/dev/zero": (at("/dev/zero"), refused("not a regular file")),
    "/dev/null": (at("/dev/null"), refused("not a regular file")),
    "file of /proc": (at("/proc/version"), refused("the file is empty")),
    "link loop": (files.link_loop, refused("too many levels of symbolic links")),
    "link to nothing": (files.dangling_link, refused("no such file")),
    "link to an export": (files.good_link, EXPORT),
    "name too long": (lambda folder: folder / ("n" * 300), refused("file name too long")),
    "name of 255 bytes": (named("n" * 255), EXPORT),
    "name with ?mode=rwc": (named("a?mode=rwc.sqlite"), EXPORT),
    "name with #": (named("a#b.sqlite"), EXPORT),
    "name with %": (named("a%20b%00.sqlite"), EXPORT),
    "name with quotes": (named("a'b\".sqlite"), EXPORT),
    "name with a space": (named(" a b .sqlite"), EXPORT),
    "name with a newline": (named("a\nb.sqlite"), EXPORT),
    "name with an escape": (named("a\x1b[31mb.sqlite"), EXPORT),
    "name with markup": (named("[bold red]a{{7*7}}%s$(b).sqlite"), EXPORT),
    "name that turns text around": (named("a\u202eetilqs.sqlite"), EXPORT),
    "name with a leading dash": (named("-o.sqlite"), EXPORT),
    "name that is no UTF-8": (named(b"a\xff\xfe.sqlite"), EXPORT),
    "name like an archive's member": (named("a::b.sqlite"), EXPORT),
    "name in Japanese": (named("日本.sqlite"), EXPORT),
    "export called .json": (named("a.json"), EXPORT),
    "trace called .sqlite": (holding(JSON, "a.sqlite"), TRACE),
    "trace called .json.gz": (holding(JSON, "a.json.gz"), TRACE),
    "text called .sqlite": (holding(b"Time (%),Total Time (ns)\n"), refused(NOT_OURS, "'Time (%),Total")),
    "text called .json": (holding(b"hello\n", "a.json"), refused(NOT_OURS)),
    "noise": (holding(bytes(range(256)) * 16), refused(NOT_OURS)),
    "escapes as content": (holding(b"\x1b[2J\x1b]0;title\x07" * 9), refused(NOT_OURS, "begins with '.[2J")),
    "a web page": (holding(b"<!DOCTYPE html><title>404</title>", "a.json"), refused("is a web page")),
    "a Git LFS pointer": (
        holding(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        refused("Git LFS pointer", "git lfs pull"),
    ),
    "compressed with xz": (holding(b"\xfd7zXZ\0" + bytes(50)), refused("compressed with xz", "xz -dk")),
    "compressed with zstd": (holding(b"(\xb5/\xfd" + bytes(50)), refused("compressed with zstd")),
    "HDF5": (holding(b"\x89HDF\r\n\x1a\n" + bytes(50)), refused("HDF5", "--type=sqlite")),
    "one Parquet file": (holding(b"PAR1" + bytes(50)), refused("one Parquet file of an export")),
    "an unfinished capture": (holding(b"U3w[END]" + bytes(50)), refused("did not finish")),
    "a summary of rocprof": (
        holding(b'"Name","Calls","TotalDurationNs","AverageNs","Percentage"\ngemm,1,2,2,100.0\n', "results.stats.csv"),
        refused("a summary by name", "results.db"),
    ),
    "counters of ROCm Compute Profiler": (holding(b"Dispatch_ID,GPU_ID,Grid_Size\n0,1,2\n"), refused("Omniperf")),
    "a binary file as text": (
        holding(bytes(range(256)).decode(errors="replace").encode() * 2, "a.xplane.pb"),
        refused("a binary file that was stored or sent as text"),
    ),
    "a trace of rocprof": (
        holding(
            b'{ "traceEvents":[{}\n,{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name"}\n'
            b',{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name"}\n'
            b',{"ph":"X","name":"gemm.kd","pid":8,"tid":1,"ts":"7695","dur":"12"}]}',
            "results.json",
        ),
        refused("a trace of AMD's rocprof"),
    ),
    "a report of Nsight Compute": (holding(b"NVR\0" + bytes(50)), refused("Nsight Compute", "gpuledger kernels")),
    "5 GB hole": (files.sparse(b"", 5 << 30), refused(NOT_OURS)),
    "5 GB hole in a trace": (files.sparse(JSON[:-2] + b",", 5 << 30, "a.json"), refused("no event ends within")),
    "5 GB hole after an export": (files.sparse_export, EXPORT),
    "pages beyond 4 GB": (files.pages_beyond_4_gb, EXPORT),
    "still being written": (databases.being_written, refused("interrupted, or is still running", "-journal")),
}

_CONTAINER: dict[str, tuple[Make, Must]] = {
    "gzip": (packed(JSON), TRACE),
    "gzip, every header field": (containers.raw(containers.with_every_header_field()), TRACE),
    "gzip, truncated": (containers.raw(containers.cut_gzip(0.5)), read("trace-cut-off")),
    "gzip, header only": (containers.raw(b"\x1f\x8b\x08" + bytes(7)), refused(NOT_OURS)),
    "gzip, two bytes": (containers.raw(b"\x1f\x8b"), refused(NOT_OURS)),
    "gzip, bad CRC": (containers.flipped(-6), read("trace-cut-off")),
    "gzip, bad length": (containers.flipped(-1), read("trace-cut-off")),
    "gzip, damaged within": (containers.flipped(2500), read("trace-cut-off")),
    "gzip, unknown method": (containers.flipped(2), refused(NOT_OURS)),
    "gzip, several members": (containers.in_members(7), TRACE),
    "gzip, 50,000 empty members": (containers.raw(containers.empty_members(50_000)), TRACE),
    "gzip, junk behind": (containers.raw(containers.zipped_trace() + b"junk" * 99), same(a_trace, "gzip-trailing")),
    "gzip, a byte behind": (containers.raw(containers.zipped_trace() + b"\x1f"), same(a_trace, "gzip-trailing")),
    "gzip, zeros behind": (containers.raw(containers.zipped_trace() + bytes(4096)), TRACE),
    "gzip of nothing": (packed(b""), refused(NOT_OURS)),
    "gzip of an export": (packed(b"SQLite format 3\0" + bytes(999)), refused(NOT_OURS, "SQLite")),
    "gzip in gzip": (packed(containers.zipped_trace()), refused("gzipped twice", "gunzip")),
    "gzip bomb of zeros": (containers.bomb(b"", b"\0", 1 << 30), refused(NOT_OURS)),
    "gzip bomb of spaces": (containers.bomb(b"[", b" ", 1 << 29), refused("no event ends within")),
    "gzip bomb of brackets": (containers.bomb(b"[", b"[", 1 << 29), refused("no event ends within")),
    "gzip bomb of a name": (containers.bomb(JSON[:-2] + b',{"name":"', b"a", 1 << 29), refused("no event ends within")),
    "gzip bomb, over the limit": (
        containers.bomb(b"{", b" ", 1 << 25),
        refused("unpacks to more than 10.0 MB", "--limit"),
    ),
    "tar": (tarred(("a.json", JSON)), TRACE),
    "tar.gz": (tarred(("a.json", JSON), mode="w:gz"), TRACE),
    "tar, gzip within": (tarred(("a.json.gz", containers.zipped_trace())), TRACE),
    "tar with ../": (tarred(("../../canary.json", JSON)), TRACE),
    "tar with an absolute path": (tarred(("/etc/canary.json", JSON)), TRACE),
    "tar with links": (
        tarred(("a.json", "SYMTYPE /etc/canary"), ("b.json", "LNKTYPE canary"), ("c.json", JSON)),
        TRACE,
    ),
    "tar with devices": (tarred(("a.json", "CHRTYPE"), ("b.json", "FIFOTYPE"), ("c.json", JSON)), TRACE),
    "tar with a name twice": (tarred(("a.json", JSON), ("a.json", JSON)), refused("holds 2 traces")),
    "tar with a name of escapes": (tarred(("\x1b[31m\u202e.json", JSON)), TRACE),
    "tar with a name of 10,000 letters": (tarred(("n" * 10_000, JSON)), TRACE),
    "tar, no trace in it": (tarred(("a.txt", b"hello")), refused("an archive without a torch.profiler trace")),
    "tar, empty": (tarred(), refused(NOT_OURS)),
    "tar, cut within a trace": (containers.cut_tar(0.4), refused("the archive is damaged")),
    "tar, bad checksum": (containers.changed_tar(148, b"0000000\0"), refused("archive")),
    "tar, member larger than the file": (holding(containers.tar_size(b"77777777777\0"), "a.tar"), refused("damaged")),
    "tar, member of negative size": (holding(containers.tar_size(b"\xff" * 12), "a.tar"), refused("archive")),
    "tar, member of no size": (holding(containers.tar_size(b"hello world!"), "a.tar"), refused("archive")),
    "tar, a hole of 8 TB": (holding(containers.sparse_member(), "a.tar"), refused("a.tar")),
    "tar bomb": (containers.bomb(containers.tar_claiming(1 << 33), b" ", 1 << 29), refused()),
    "zip": (zipped(("a.json", JSON)), TRACE),
    "zip with ../": (zipped(("../../canary.json", JSON)), TRACE),
    "zip with an absolute path": (zipped(("/etc/canary.json", JSON)), TRACE),
    "zip with a link": (containers.zip_link(b"/etc/canary"), TRACE),
    "zip with a name twice": (zipped(("a.json", JSON), ("a.json", JSON)), refused("holds 2 traces")),
    "zip, encrypted": (zipped(("a.json", JSON), change=containers.ENCRYPTED), refused("is encrypted")),
    "zip, unknown method": (zipped(("a.json", JSON), change=containers.METHOD_99), refused("compression")),
    "zip, bad CRC": (
        zipped(("a.json", JSON), change=containers.bad_checksum),
        refused("the archive is damaged", "a.json cannot be read"),
    ),
    "zip, damaged within": (
        zipped(("a.json", containers.LARGE), change=containers.damaged_inside),
        read("trace-cut-off"),
    ),
    "zip, no directory": (
        zipped(("a.json", JSON), change=lambda whole: whole[:-30]),
        refused("the archive is damaged"),
    ),
    "zip in zip": (zipped(("a.zip", containers.whole_zip())), refused("an archive without a torch.profiler trace")),
    "zip bomb": (zipped(("a.json", b"[" + b" " * (1 << 20)), times=80), refused("no event ends within")),
    "zip, member larger than it is": (zipped(("a.json", JSON), change=containers.LARGER), TRACE),
    "zip, member beyond the limit": (
        zipped(("a.json", b"{" + b" " * (1 << 20)), times=32),
        refused("unpacks to", "--limit"),
    ),
}

_SQLITE: dict[str, tuple[Make, Must]] = {
    "magic only": (holding(b"SQLite format 3\0"), refused("truncated: 16 bytes")),
    "header only": (damaged(lambda _: 100), refused("truncated: 100 B")),
    "cut in half": (damaged(lambda content: len(content) // 2), refused("truncated:")),
    "cut by a page": (damaged(lambda content: len(content) - 4096), refused("truncated:")),
    "cut by a byte": (damaged(lambda content: len(content) - 1), refused("truncated:")),
    "types of pages flipped": (damaged(databases.page_types), refused("a damaged SQLite database")),
    "noise in it": (damaged(databases.noise), refused("a damaged SQLite database")),
    "page size 0": (damaged(put(16, b"\0\0")), refused("a damaged SQLite database")),
    "page size 3": (damaged(put(16, b"\0\3")), refused("a damaged SQLite database")),
    "page size 256": (damaged(put(16, b"\1\0")), refused("a damaged SQLite database")),
    "page size 65536 on small pages": (damaged(put(16, b"\0\1")), refused("a.sqlite")),
    "255 bytes of a page reserved": (damaged(put(20, b"\xff")), read()),
    "version of the future": (damaged(put(18, b"\3\3")), refused("a damaged SQLite database")),
    "no such text encoding": (damaged(put(56, b"\0\0\0\7")), refused("a damaged SQLite database")),
    "schema format of the future": (damaged(put(44, b"\0\0\0\x09")), refused("a damaged SQLite database")),
    "free list that leads nowhere": (damaged(put(32, b"\xff\xff\xff\xff\xff\xff\xff\xff")), read()),
    "a ring of pages": (damaged(databases.ring), refused("a damaged SQLite database")),
    "pages shared until there are 10^10 rows": (
        databases.shared_pages(KERNELS),
        refused("a damaged SQLite database", "more rows than the file has room for"),
    ),
    "names shared until there are 10^10": (
        databases.shared_pages("StringIds", "id, value"),
        refused("a damaged SQLite database"),
    ),
    "names shared, and none of them wanted": (
        databases.shared_pages("StringIds", "value, id"),
        refused("a damaged SQLite database", "hold more rows than the file has room for"),
    ),
    "10^10 rows of a table that nobody reads": (
        databases.shared_pages("CUPTI_ACTIVITY_KIND_SOMETHING", "start, end"),
        refused("a damaged SQLite database", "lead in circles"),
    ),
    "table without pages": (changed(*databases.points_to(0)), refused("a.sqlite")),
    "table beyond the end": (changed(*databases.points_to(9_999_999)), refused("a damaged SQLite database")),
    "two tables, one root": (
        changed(*databases.points_to(2)),
        read("rows-dropped", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "schema that is no SQL": (
        changed(*databases.declared_as("'CREATE TABLE hello'")),
        refused("a damaged SQLite database"),
    ),
    "schema that is no text": (
        changed(*databases.declared_as("x'43524541544520ff1b5b33316d'")),
        refused("a damaged SQLite database"),
    ),
    "schema that names another table": (
        changed(*databases.declared_as("'CREATE TABLE x (start)'")),
        refused("a damaged SQLite database"),
    ),
    "encrypted": (databases.encrypted, refused(NOT_OURS)),
    "encrypted but for the head": (databases.encrypted_but_the_head, refused("a damaged SQLite database")),
    "rows in a write-ahead log": (databases.waiting_in_a_log, EXPORT),
    "empty write-ahead log": (databases.with_log(b""), EXPORT),
    "noise as a write-ahead log": (databases.with_log(bytes(range(256)) * 64), EXPORT),
    "UTF-16, little end first": (changed(before="PRAGMA encoding = 'UTF-16le'"), EXPORT),
    "UTF-16, big end first": (changed(before="PRAGMA encoding = 'UTF-16be'"), EXPORT),
    **{
        f"pages of {1 << bits} bytes": (changed(before=f"PRAGMA page_size = {1 << bits}"), EXPORT)
        for bits in range(9, 17)
    },
    "pointer maps of auto-vacuum": (changed(before="PRAGMA auto_vacuum = 1"), EXPORT),
    "no tables": (databases.no_tables, refused("a database, but not an Nsight Systems export")),
    "another program's tables": (databases.another_database, refused("not an Nsight Systems export", "bookmarks")),
    "no names": (databases.only(KERNELS), refused("not an Nsight Systems export")),
    "no kernels": (databases.only("StringIds", "NVTX_EVENTS"), read(report=NO_GPU_WORK)),
    "names only": (databases.only("StringIds"), read(report=NO_GPU_WORK)),
    "kernels of 0 rows": (changed(f"DELETE FROM {KERNELS}"), read("work-not-recorded", report=NO_GPU_WORK)),
    "table _V2": (changed(f"ALTER TABLE {KERNELS} RENAME TO {KERNELS}_V2"), EXPORT),
    "table _V3 beside an empty one": (
        changed(f"ALTER TABLE {KERNELS} RENAME TO {KERNELS}_V3", f"CREATE TABLE {KERNELS} (x)"),
        EXPORT,
    ),
    "renamed column": (
        changed(f"ALTER TABLE {KERNELS} RENAME COLUMN start TO began"),
        read("table-unusable", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "renamed column that can be missed": (
        changed(f"ALTER TABLE {KERNELS} RENAME COLUMN gridX TO x"),
        read("links-missing"),
    ),
    "missing column": (changed("ALTER TABLE NVTX_EVENTS DROP COLUMN eventType"), read("table-unusable")),
    "extra columns": (
        changed(*(f"ALTER TABLE {KERNELS} ADD COLUMN \"c{n}\x1b[0m\" TEXT DEFAULT 'x'" for n in range(99))),
        EXPORT,
    ),
    "names without values": (
        changed("ALTER TABLE StringIds RENAME COLUMN value TO text"),
        refused("table StringIds has no column value"),
    ),
    "unknown schema version": (changed(*databases.version("999.0.0")), EXPORT),
    "version of escapes": (changed(*databases.version("\x1b[31m")), EXPORT),
    "view in place of a table": (
        changed(f"ALTER TABLE {KERNELS} RENAME TO t", f"CREATE VIEW {KERNELS} AS SELECT * FROM t"),
        read("table-unusable", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "endless view": (
        changed(f"DROP TABLE {KERNELS}", f"CREATE VIEW {KERNELS} AS {databases.ENDLESS}"),
        read("table-unusable", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "view in place of the names": (
        changed("ALTER TABLE StringIds RENAME TO t", "CREATE VIEW StringIds AS SELECT * FROM t"),
        refused("not an Nsight Systems export"),
    ),
    "trigger": (changed(f"CREATE TRIGGER t AFTER INSERT ON {KERNELS} BEGIN DELETE FROM StringIds; END"), EXPORT),
    "virtual table": (changed(*databases.VIRTUAL), read("work-not-recorded", report=NO_GPU_WORK)),
    "column that is computed for ever": (
        changed(f"ALTER TABLE {KERNELS} ADD COLUMN x AS (printf('%.*c', 1000000000, 'x'))"),
        EXPORT,
    ),
    "column of time that is computed": (
        databases.computed_start(),
        read("table-unusable", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "default that calls a function": (
        changed(
            f"ALTER TABLE {KERNELS} RENAME TO k2",
            f"CREATE TABLE {KERNELS} (start DEFAULT (load_extension('canary')), end)",
        ),
        read("table-unusable", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "index that is wrong": (
        changed(f"CREATE INDEX i ON {KERNELS} (start)", *databases.index_points_to(2)),
        EXPORT,  # no index is ever asked
    ),
    "times as text": (
        databases.stored_as(start="TEXT", end="TEXT"),
        read("rows-dropped", "work-not-recorded", report=NO_GPU_WORK),
    ),
    "times as REAL": (databases.stored_as(start="REAL"), read("rows-dropped", "work-not-recorded", report=NO_GPU_WORK)),
    "times as blobs": (changed(f"UPDATE {KERNELS} SET start = x'00ff' WHERE correlationId = 2"), read("rows-dropped")),
    "a NULL time": (
        databases.rewritten(
            "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName",
            "NULLIF(start, 30), end, deviceId, streamId, correlationId, globalPid, demangledName, shortName",
        ),
        read("links-missing", "rows-dropped"),
    ),
    "text for a stream": (changed(f"UPDATE {KERNELS} SET streamId = 'seven'"), read("values-unusable")),
    "NULL correlations and processes": (
        changed(f"UPDATE {KERNELS} SET correlationId = NULL, globalPid = NULL"),
        read("links-missing"),
    ),
    "names that are no UTF-8": (
        changed("UPDATE StringIds SET value = CAST(x'6bff80' AS TEXT) WHERE id = 1"),
        read("names-not-utf8"),
    ),
    "a name of a blob": (changed("UPDATE StringIds SET value = x'6b' WHERE id = 1"), EXPORT),
    "a name of a number": (changed("UPDATE StringIds SET value = 7 WHERE id = 1"), read()),
    "a name of NULL": (
        databases.names("id INTEGER PRIMARY KEY, value TEXT", "id, NULL"),
        read("launches-not-recorded"),
    ),
    "names as keys of text": (
        databases.names("id TEXT, value TEXT", "'x' || id, value"),
        read("launches-not-recorded", "names-missing"),
    ),
    "names twice": (
        databases.names("id INTEGER, value TEXT", "id, value FROM old UNION ALL SELECT id, 'second'"),
        EXPORT,
    ),
    "names that point nowhere": (changed("DELETE FROM StringIds"), read("launches-not-recorded", "names-missing")),
    "names with negative numbers": (
        changed(f"UPDATE {KERNELS} SET demangledName = -5, shortName = {-FAR}"),
        read("names-missing"),
    ),
    "names beyond 2^62": (changed(f"UPDATE {KERNELS} SET demangledName = {2**62 + 1}"), read("names-missing")),
    "a name of 3 MB": (
        changed("UPDATE StringIds SET value = printf('%.*c', 3000000, 'n') WHERE id = 1"),
        read("names-cut"),
    ),
    "overflow pages": (
        changed(
            "UPDATE StringIds SET value = 'k' || substr(printf('%.*c', 99999, ' '), 99999)",
            "UPDATE NVTX_EVENTS SET jsonText = printf('%.*c', 99999, 'j')",
        ),
        read("launches-not-recorded"),
    ),
    "more rows than allowed": (databases.many_rows(2000), refused("has more than 1,000 rows", "--limit")),
    "correlation ids twice": (changed("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 1"), read()),
    "row ids under another name": (
        databases.rewritten(
            "start INTEGER PRIMARY KEY, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName",
            databases.FEW,
        ),
        read("links-missing"),
    ),
    "no row ids": (
        databases.rewritten(
            "start INTEGER PRIMARY KEY, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName",
            databases.FEW,
            " WITHOUT ROWID",
        ),
        read("links-missing"),
    ),
    "short records": (databases.short_records(""), read("links-missing")),
    "short records with a default": (databases.short_records("DEFAULT 1"), read()),
    "labels of NULL": (databases.with_labels("NULL"), read("links-missing")),
    "labels of blobs": (databases.with_labels("x'ff1b'"), read("links-missing")),
    "payload that is no JSON": (
        changed("UPDATE NVTX_EVENTS SET jsonText = '{{{[', eventType = 34", "CREATE TABLE NVTX_PAYLOAD_SCHEMAS (x)"),
        read(),
    ),
    "GPU described by nonsense": (changed(*databases.GPU_NONSENSE), read("gpu-figures-not-recorded")),
    "2,000 columns": (
        databases.rewritten(
            "start, end, deviceId, streamId, correlationId, globalPid, demangledName, shortName, "
            + ", ".join(f"c{n}" for n in range(1990)),
            databases.FEW + ", NULL" * 1990,
        ),
        read("links-missing"),
    ),
    "500 tables": (changed(*(f"CREATE TABLE t{n} (x)" for n in range(500))), EXPORT),
}

_JSON: dict[str, tuple[Make, Must]] = {
    "not JSON": (text(b"{this is not json"), refused("not a torch.profiler trace", "not valid JSON")),
    "a brace": (text(b"{"), refused("not a torch.profiler trace")),
    "a bracket": (text(b"["), refused("the trace holds no events")),
    "a list of nothing": (text(b"[]"), refused("the trace holds no events")),
    "a number": (text(b"17"), refused(NOT_OURS)),
    "an object form": (text(JSON), TRACE),
    "a list form": (text(jsons.LIST), TRACE),
    "a list form that does not end": (text(jsons.LIST[:-1]), same(a_trace, "trace-cut-off")),
    "a list form in a list": (text(b"[" + jsons.LIST + b"]"), refused("no event")),
    "other keys": (text(b'{"a": 1, "\\u001b[31m": 2}'), refused("looked for `traceEvents`", "its keys are")),
    "a trailing comma": (swapped(b"}}]}", b"}},]}"), TRACE),
    "commas only": (text(b'{"traceEvents": [' + b"," * 999_999 + b"]}"), refused("the trace holds no events")),
    "missing end": (text(JSON[:-2]), same(a_trace, "trace-cut-off")),
    "missing end of an event": (text(JSON[:-40]), read("trace-cut-off", "work-not-recorded", report=NO_GPU_WORK)),
    "one event a line": (jsons.newline_separated, refused("not a torch.profiler trace")),
    "a byte order mark": (text(b"\xef\xbb\xbf" + JSON), TRACE),
    "UTF-16": (text(JSON.decode().encode("utf-16")), refused(NOT_OURS)),
    "UTF-16 without a mark": (text(JSON.decode().encode("utf-16-le")), refused("not a torch.profiler trace")),
    "UTF-32": (text(JSON.decode().encode("utf-32")), refused(NOT_OURS)),
    "bad UTF-8": (swapped(b"aten::mm", b"aten::\xff\xc0\x80"), read("events-odd")),
    "bad UTF-8 outside of text": (swapped(b'"ts": 10,', b'"ts": 10,\xff'), read("events-unreadable")),
    "raw control characters": (swapped(b"aten::mm", b"a\n\t\x1b\0\x7f"), read("events-unreadable")),
    "lone surrogates": (swapped(b"aten::mm", b"\\ud800 x"), read("events-odd")),
    "NUL between events": (swapped(b"}, {", b"},\0 {"), read("events-unreadable")),
    "NaN": (jsons.kernel_text(ts=b"NaN"), read("events-odd", "events-untimed")),
    "Infinity": (jsons.kernel_text(dur=b"-Infinity"), read("events-odd", "events-untimed")),
    "1e400": (jsons.kernel_text(ts=b"1e400"), read("events-untimed")),
    "1e999999999": (jsons.kernel_text(ts=b"1e999999999"), read("events-untimed")),
    "1e-999999999": (jsons.kernel_text(dur=b"1e-999999999"), read()),
    "5,000 digits": (jsons.kernel_text(ts=b"9" * 5000), read("events-untimed")),
    "5,000 decimals": (jsons.kernel_text(ts=b"50." + b"1" * 5000), read()),
    "5,000 digits in a correlation": (
        swapped(b'"correlation": 5,', b'"correlation": ' + b"9" * 5000 + b","),
        read("events-odd", "links-missing"),
    ),
    "100,000 deep": (text(b'{"traceEvents": [' + b"[" * 100_000), refused("no event")),
    "100,000 deep before the events": (text(b'{"a": ' + b"[" * 100_000), refused("not a torch.profiler trace")),
    "100,000 deep in an event": (jsons.op_args(b"[" * 100_000 + b"]" * 100_000), read("events-unreadable")),
    "100,000 objects deep in an event": (
        jsons.op_args(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        read("events-unreadable"),
    ),
    "100,000 deep after the events": (text(JSON[:-1] + b', "a": ' + b"[" * 100_000), same(a_trace, "json-trailing")),
    "duplicate keys": (swapped(b'"tid": 7,', b'"tid": 8, "tid": 7, "ts": 1,'), TRACE),
    "a key that is escaped": (swapped(b'"traceEvents"', b'"trace\\u0045vents"'), refused("looked for `traceEvents`")),
    "traceEvents null": (text(b'{"traceEvents": null}'), refused("traceEvents is no list")),
    "traceEvents a dict": (text(b'{"traceEvents": {"a": 1}}'), refused("traceEvents is no list")),
    "traceEvents a text": (text(b'{"traceEvents": "a"}'), refused("traceEvents is no list")),
    "traceEvents empty": (text(b'{"traceEvents": []}'), refused("the trace holds no events")),
    "traceEvents after metadata": (events(zzz=[{"ph": "X"}], note={"traceEvents": [{"ph": 1}]}), TRACE),
    "traceEvents before metadata": (text(JSON[:-1] + b', "distributedInfo": {"rank": 1}}'), TRACE),
    "traceEvents twice, once empty": (text(JSON[:-1] + b', "traceEvents": []}'), same(a_trace, "keys-repeated")),
    "traceEvents twice": (text(JSON[:-1] + b', "traceEvents": [{"ph": "X"}]}'), refused("holds `traceEvents` twice")),
    "traceEvents twice, once escaped": (
        text(b'{"trace\\u0045vents": [{"ph": "X"}], ' + JSON[1:]),
        refused("holds `traceEvents` twice"),
    ),
    "traceEvents twice, packed": (packed(JSON[:-1] + b', "traceEvents": null}'), refused("holds `traceEvents` twice")),
    "two ranks": (
        text(b'{"distributedInfo": {"rank": 0}, ' + JSON[1:-1] + b', "distributedInfo": {"rank": 1}}'),
        same(a_trace, "keys-repeated"),
    ),
    "traceEvents 100,000 times": (text(jsons.many_names_of_the_list(100_000)), refused("looked for `traceEvents`")),
    "junk after the end": (text(JSON + b"junk \x1b[31m"), same(a_trace, "json-trailing")),
    "zeros after the end": (text(JSON + bytes(999)), TRACE),
    "a second trace after the end": (text(JSON + JSON), same(a_trace, "json-trailing")),
    "a million spaces": (text(b" " * 500 + JSON.replace(b"}, {", b"}," + b" " * 1_000_000 + b"{")), TRACE),
    "a million spaces, then nonsense": (text(jsons.spaces_after_an_event(1_000_000)), same(a_trace, "trace-cut-off")),
    "events that are none": (events(1, None, "x", [], [[]], {}, first=True), same(a_trace, "events-unreadable")),
    "unknown phases": (
        events({"ph": "?", "ts": 1}, {"ph": 7}, {"ph": ""}, {"ph": "XX", "cat": "kernel"}),
        same(a_trace, "events-odd", "events-unknown"),
    ),
    "B without E": (events(KERNEL | {"ph": "B", "ts": 60}), same(a_trace, "events-begin-end")),
    "E without B": (events(KERNEL | {"ph": "E", "ts": 60}, first=True), same(a_trace, "events-begin-end")),
    "processes as text": (swapped(b'"pid": 9', b'"pid": "Spans"'), read()),
    "processes of 2^70": (swapped(b'"pid": 9', b'"pid": 1180591620717411303424'), read()),
    "threads as lists": (swapped(b'"tid": 10', b'"tid": [10]'), read("events-odd")),
    "ts as text": (jsons.kernel(ts="50"), read()),
    "ts as words": (jsons.kernel(ts="soon"), read("events-untimed")),
    "ts as words of Python": (jsons.kernel(ts="sNaN"), read("events-untimed")),
    "ts negative": (jsons.kernel(ts=-50), read()),
    "ts absent": (jsons.kernel(ts=None), read("events-untimed")),
    "ts null": (jsons.kernel_text(ts=b"null"), read("events-untimed")),
    "ts true": (jsons.kernel_text(ts=b"true"), read("events-untimed")),
    "ts a list": (jsons.kernel_text(ts=b"[1, 2]"), read("events-untimed")),
    "ts with commas in it": (jsons.kernel_text(ts=b'"1,2"'), read("events-untimed")),
    "ts beyond 2^63": (jsons.kernel_text(ts=b"9223372036854775808"), read("events-untimed")),
    "ts and dur that sum beyond 2^63": (jsons.kernel_text(ts=b"4.6e15", dur=b"4.6e15"), read()),
    "dur negative": (jsons.kernel(dur=-3), read("times-backward")),
    "dur zero": (jsons.kernel(dur=0), read()),
    "dur absent": (jsons.kernel(dur=None), read("events-untimed")),
    "dur as text": (jsons.kernel(dur="3"), read()),
    "metadata only": (jsons.metadata_only(), read(report=NO_GPU_WORK)),
    "no GPU": (jsons.without_gpu(), read("work-not-recorded", report=NO_GPU_WORK)),
    "args null": (swapped(b'{"correlation": 5}', b"null"), read("events-odd")),
    "args a list": (swapped(b'{"correlation": 5}', b"[5]"), read("events-odd")),
    "args a text": (swapped(b'{"correlation": 5}', b'"x"'), read("events-odd")),
    "name a number": (swapped(b'"aten::mm"', b"7"), read("events-odd")),
    "name absent": (swapped(b'"name": "aten::mm", ', b""), read()),
    "name an object": (swapped(b'"aten::mm"', b'{"a": [1]}'), read("events-odd")),
    "category absent": (events({"ph": "X", "ts": 1, "dur": 1}), same(a_trace, "events-unknown")),
    "category a number": (events({"ph": "X", "cat": 5, "ts": 1}), same(a_trace, "events-odd", "events-unknown")),
    "category of escapes": (events({"ph": "X", "cat": "\x1b[31m<script>", "ts": 1}), same(a_trace, "events-unknown")),
    "100,000 categories": (
        events(*({"ph": "X", "cat": f"c{n}", "ts": 1} for n in range(100_000))),
        same(a_trace, "events-unknown"),
    ),
    "correlation a text": (jsons.kernel_args(correlation="5"), read("events-odd")),
    "correlation a fraction": (jsons.kernel_args(correlation=5.5), read("events-odd")),
    "correlation of 2^63": (jsons.kernel_args(correlation=2**63), read()),
    "grid a text": (jsons.kernel_args(grid="8, 2, 1"), read()),
    "grid of words": (jsons.kernel_args(grid=["a", "b", "c"]), read()),
    "grid of fractions": (jsons.kernel_args(grid=[1.5, 2, 3]), read()),
    "grid of two": (jsons.kernel_args(grid=[1, 2]), read()),
    "grid of four": (jsons.kernel_args(grid=[1, 2, 3, 4]), read()),
    "grid of 2^40": (jsons.kernel_args(grid=[2**40, 1, -1]), read()),
    "grid null": (jsons.kernel_args(grid=None), read()),
    "device of 2^40": (jsons.kernel_args(device=2**40), read()),
    "device negative": (jsons.kernel_args(device=-7), read()),
    "device a text": (jsons.kernel_args(device="cuda:0"), read("events-odd", "gpu-not-recorded")),
    "10,000 devices": (
        events(*(KERNEL | {"ts": 50 + n, "args": {"device": n}} for n in range(10_000))),
        refused("names 10,000 GPUs", "--limit=gpus=10000"),
    ),
    "many devices": (
        events(*(KERNEL | {"ts": 50 + n, "args": {"device": n}} for n in range(200 if IS_THOROUGH else 40))),
        read(),
    ),
    "shapes that are none": (
        jsons.op_args(b'{"Input Dims": [[{"a": 1}], null, "x", 1e400], "Input type": {"a": 1}}'),
        read(),  # an event with shapes, whatever they are, cost more to record
    ),
    "shapes with a raw NUL": (
        jsons.op_args(b'{"Input Dims": ["a\0b"], "Input type": ["c\0d"]}'),
        read("events-unreadable"),
    ),
    "a collective of nonsense": (
        jsons.kernel_args(
            **{
                "Collective name": "all",
                "Process Group Ranks": "[0, 1, ...",
                "Group size": -5,
                "In msg nelems": 2**62,
                "dtype": "\x1b",
            }
        ),
        read(),
    ),
    "rank a text": (events(distributedInfo={"rank": "0", "world_size": None}), TRACE),
    "rank of 2^70": (events(distributedInfo={"rank": 2**70, "world_size": -1}), TRACE),
    "GPUs of nonsense": (
        events(deviceProperties=[7, None, {"id": [1]}, {"id": 0, "name": 5, "numSms": "x", "totalGlobalMem": 1e300}]),
        TRACE,
    ),
    "GPU of huge figures": (
        events(
            deviceProperties=[
                {
                    "id": 0,
                    "name": "\x1b[31m",
                    "numSms": 2**80,
                    "computeMajor": -1,
                    "computeMinor": 2**70,
                    "totalGlobalMem": 2**90,
                }
            ]
        ),
        TRACE,
    ),
    "a schema version of 10 kB": (events(schemaVersion={"a": "x" * 10_000}), TRACE),
    "a base time of 2^80": (events(baseTimeNanoseconds=2**80), TRACE),
    "times beyond 2^63 in the usual form": (jsons.kernel_text(ts=b"9999999999999999.000"), read("events-untimed")),
    "times beyond 2^63 in whole numbers": (jsons.kernel_text(ts=b"9999999999999999"), read("events-untimed")),
    "40,000 events that never close": (text(b"[" + b'{"ph":[{}, ' * 40_000), refused("cannot be read")),
    "16 MB of spaces and commas": (containers.bomb(JSON[:-2], b" ,", 16 << 20), same(a_trace, "trace-cut-off")),
    "1,000 deep in an event": (jsons.op_args(b'{"x": ' + b"[" * 1000 + b"]" * 1000 + b"}"), read("events-unreadable")),
    "1,000 deep, as allowed": (jsons.op_args(b'{"x": ' + b"[" * 1000 + b"]" * 1000 + b"}"), TRACE),
    "more events than allowed": (events(), refused("has more than 0 rows", "--limit=rows-per-table=")),
    "longer than it may take": (events(), refused("took more than 0 s", "--limit=read-seconds=")),
    "an event of 80 MB": (
        jsons.one_long_event(80 << 20),
        refused("no event ends within 67.1 MB", "--limit=event-bytes="),
    ),
    "metadata of 80 MB": (
        jsons.long_metadata(80 << 20),
        refused("no `traceEvents` within its first 67.1 MB", "--limit=event-bytes="),
    ),
}


def _amd(form: str, *statements: str) -> Make:
    """A made run of AMD's, with these statements run in its database."""

    def make(folder: Path) -> Path:
        path = rocm_files.MADE[form](folder / "run")
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)
        return path

    return make


def _amd_text(form: str, before: str, after: str) -> Make:
    def make(folder: Path) -> Path:
        path = rocm_files.MADE[form](folder / "run")
        path.write_text(path.read_text().replace(before, after))
        return path

    return make


def _jax(*planes: tuple[str, tuple[str, int, int]]) -> Make:
    """A profile with one stream's event in each plane."""

    def make(folder: Path) -> Path:
        made = [xplane_files.MadePlane(name) for name, _ in planes]
        for plane, (_, event) in zip(made, planes, strict=True):
            plane.line("Stream #1", (*event, {}))
        return xplane_files.xplane(folder / "run.pb", *made)

    return make


_OPS: Final = "UPDATE rocpd_op SET"
_ROCM: dict[str, tuple[Make, Must]] = {
    "times that are texts": (_amd("rpd", f"{_OPS} start = 'soon' WHERE id = 0"), read("rows-dropped")),
    "times beyond any clock": (_amd("rpd", f'{_OPS} "end" = 9223372036854775807 WHERE id = 0'), read("rows-dropped")),
    "operations of no GPU": (_amd("rpd", f"{_OPS} gpuId = NULL WHERE id = 0"), read("gpu-not-recorded")),
    "names with control characters": (
        _amd("rpd", "UPDATE rocpd_string SET string = char(27) || '[31m' || string"),
        read("events-unknown"),
    ),
    "names that are not there": (_amd("rpd", "DELETE FROM rocpd_string WHERE string LIKE 'gemm%'"), read()),
    "a view in place of a table": (
        _amd("rpd", "ALTER TABLE rocpd_api_ops RENAME TO x", "CREATE VIEW rocpd_api_ops AS SELECT * FROM x, x, x, x"),
        read("links-missing"),
    ),
    "JSON with another type": (
        _amd_text("json", '"kernel_id": 0', '"kernel_id": "no"'),
        refused("a result of rocprofv3"),
    ),
    "JSON that ends": (_amd_text("json", '"callback_records"', "\0"), refused("a result of rocprofv3")),
    "CSV of ragged rows": (_amd_text("csv", '"softmax",', ""), read("rows-dropped")),
    "an event of 400 years": (_jax(("/device:GPU:0", ("k", 100, 2**63 // 1000))), read()),
    "a GPU of a number that no machine has": (_jax(("/device:GPU:999999", ("k", 100, 200))), read()),
    "only a TPU": (_jax(("/device:TPU:0", ("k", 100, 200))), refused("did not run on a GPU")),
}
_NCU: dict[str, tuple[Make, Must]] = {
    "magic only": (reports.rep(b""), refused("truncated, and no launch of it can be read")),
    "garbage": (reports.rep(bytes(range(256)) * 99), refused("no launch of it can be read")),
    "zeros": (reports.rep(bytes(9999)), refused("damaged, and no launch of it can be read")),
    "a block of 4 GB": (reports.rep(b"\xff" * 99), refused("no launch of it can be read")),
    "launches without a payload": (reports.rep(reports.announcing(2**60)), refused("damaged")),
    "one launch without a payload": (reports.rep(reports.announcing(1)), refused("a.ncu-rep")),
    "cut in half": (reports.cut(0.5), read("report-cut-off")),
    "cut at the head": (reports.cut(0.002), refused("no launch of it can be read")),
    "noise in it": (reports.noise, refused("a.ncu-rep")),
    "an export": (an_export, read()),
    "a trace": (a_trace, read()),
    "a folder": (lambda folder: folder, refused("not a report of Nsight Compute")),
    "missing": (lambda folder: folder / "x.csv", refused("no such file")),
    "empty": (page(), refused("the file is empty")),
    "FIFO": (files.fifo, refused("not a regular file")),
    "binary": (holding(bytes(range(256)), "a.csv"), refused("not a report of Nsight Compute")),
    "CSV of somebody else": (page("a,b", "1,2"), refused("not a report of Nsight Compute")),
    "header only": (page(LONG), refused("holds no launches")),
    "what ncu complained": (
        page("==ERROR== \x1b[31mNo kernels", "==WARNING== none", LONG),
        refused("holds no launches", "ncu says"),
    ),
    "a raw page": (reports.CLEAN, read()),
    "a raw page without units": (page(RAW, row("1,000", "2.5")), refused("the row of units", "is missing")),
    "a raw page of units only": (page(RAW, UNITS), refused("holds no launches")),
    "a column of units": (reports.long(metric(DURATION, "nsecond", "1,000")), read()),
    "lines of ==PROF==": (
        page("==PROF== Connected", RAW, "==PROF== Profiling", UNITS, row("1,000", "2.5"), "==PROF== Done"),
        read(),
    ),
    "lines of the program": (page('he said "', RAW, UNITS, "hello", row("1,000", "2.5"), '"'), read("csv-cut-off")),
    "commas for points": (raw(row("1.000,5", "2.000.000,25")), read()),
    "points or commas": (raw(row("1.000", "2")), read("numbers-doubtful")),
    "n/a": (raw(row("n/a", "n/a")), read()),
    "nan": (raw(row("nan", "-nan(ind)")), read()),
    "inf": (raw(row("inf", "-Infinity")), read()),
    "1e400": (raw(row("1e400", "1e-400")), read("values-implausible")),
    "words for numbers": (raw(row("many", "few")), read("values-unreadable")),
    "no duration": (reports.long(metric(DRAM, "byte/second", "5")), read()),
    "a negative duration": (raw(row("-5", "-7")), read()),
    "an unknown unit of use": (
        raw(row("1", "2"), units=UNITS.replace("nsecond", "fortnight")),
        refused("'fortnight', a unit that gpuledger does not know"),
    ),
    "a unit of escapes": (
        raw(row("1", "2"), units=UNITS.replace("nsecond", "\x1b[31m")),
        refused("a unit that gpuledger does not know"),
    ),
    "passes repeated": (
        reports.long(metric(DURATION, "ns", "1"), metric(DURATION, "ns", "2")),
        read("values-repeated"),
    ),
    "a header twice": (page(RAW, UNITS, row("1,000", "2.5"), RAW, UNITS, row("1,000", "2.5")), read()),
    "a summary": (
        page(f'{HEAD},"Invocations","Metric Name","Minimum"'.replace('"ID",', "")),
        refused("a summary of ncu"),
    ),
    "a torn row": (
        raw(row("1,000", "2.5"), row("1,000", "2.5", id="1")[:-9], row("3", "4", id="2")),
        read("rows-damaged"),
    ),
    "a row too short": (raw(row("1,000", "2.5"), row(id="1"), row("3", "4.5", id="2")), read("rows-damaged")),
    "cut within a cell": (
        holding((RAW + "\n" + UNITS + "\n" + row("1,000", "2.5") + "\n" + row("3")[:-1]).encode(), "a.csv"),
        read("csv-cut-off"),
    ),
    "UTF-16": (page(RAW, UNITS, row("1,000", "2.5"), encoding="utf-16"), read()),
    "a byte order mark": (page("\ufeff" + RAW, UNITS, row("1,000", "2.5")), read()),
    "ends of lines of Windows": (page(RAW, UNITS, row("1,000", "2.5"), end="\r\n"), read()),
    "bad UTF-8": (
        holding(
            (RAW + "\n" + UNITS + "\n" + row("1,000", "2.5", name="k\udcff") + "\n").encode(errors="surrogateescape"),
            "a.csv",
        ),
        read(),
    ),
    "NUL in a cell": (page(" " * 600, RAW, UNITS, row("1,000", "2.5", name="a\0b")), read()),
    "a line of 70 MB": (
        page(RAW, UNITS, row("1,000", "2.5", name="n" * (70 << 20))),
        refused("a line is longer than 67.1 MB", "--limit=event-bytes="),
    ),
    "a name of 3 MB": (
        raw(row("1,000", "2.5", name="n" * 3_000_000)),
        refused("field larger than field limit", "--limit=text-bytes="),
    ),
    "ids of 5,000 digits": (raw(row("1,000", "2.5", id="9" * 5000)), read()),
    "a quote that does not end": (raw(row("1,000", "2.5"), '"1","77'), read("csv-cut-off")),
    "20,000 columns": (
        page(RAW + ',"x__a"' * 20_000, UNITS + ',""' * 20_000, row("1,000", "2.5") + ',"1"' * 20_000),
        read(),
    ),
    "shapes of nonsense": (
        page(
            f'{HEAD},"Grid Size","Block Size","{DURATION}"',
            '"","","","","","","","","","","ns"',
            row("(a, b)", "(99999999999999999999, 1, 1)", "5"),
        ),
        read(),
    ),
    "capability of nonsense": (
        page(RAW, UNITS, row("1,000", "2.5").replace('"9.0"', '"99999999999999999999.5"')),
        read(),
    ),
}

_MEANING: dict[str, tuple[Make, Must]] = {
    "one kernel": (kernels((10, 20)), read()),
    "one kernel without a call": (nsys(KERNEL=[kernel(10, 20)]), read()),
    "end before start": (kernels((10, 20), (40, 30)), read("times-backward")),
    "end before start, all": (kernels((20, 10)), read("times-backward", report=NO_TIME)),
    "zero length": (kernels((10, 20), (30, 30)), read()),
    "zero length, all": (kernels((10, 10), (10, 10)), read(report=NO_TIME)),
    "all at the same time": (kernels(*[(10, 20)] * 50), read()),
    "overlapping on one stream": (kernels((10, 30), (20, 40), (25, 26)), read()),
    "out of order": (kernels((50, 60), (10, 20), (30, 40)), read()),
    "negative times": (kernels((-100, -50), (-20, 20)), read()),
    "times over 2^63": (kernels((10, 20), (2.0**63, 2.0**63)), read("rows-dropped")),
    "times at 2^63": (kernels((10, 20), (FAR - 10, FAR)), read("rows-dropped")),
    "times from end to end of 64 bits": (kernels((-FAR, -FAR + 10), (10, 20), (FAR - 10, FAR)), read("rows-dropped")),
    "times at 2^62": (kernels((2 - 2**62, 9 - 2**62), (10, 20), (2**62 - 9, 2**62 - 2)), read()),
    "kernels that sum to more than 2^63": (kernels(*[(1 - 2**61, 2**61)] * 9), refused("more than 146 years together")),
    "torch: kernels that sum to more than 2^63": (torch(*[(30, 4e15)] * 9), refused("more than 146 years together")),
    "a kernel of 2^64 ns": (kernels((-FAR, FAR)), read("rows-dropped", "work-not-recorded", report=NO_GPU_WORK)),
    "the clock jumps": (kernels((10, 20), (10**18, 10**18 + 5)), read()),
    "the clock jumps back": (kernels((10**18, 10**18 + 5), (10, 20)), read()),
    "two clocks": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1_700_000_000_000_000_000, 1_700_000_000_000_000_500)]),
        read(),
    ),
    "two hosts, one device id": (meanings.two_hosts, read()),
    "two instances of a GPU": (meanings.mig, read()),
    "no such device": (kernels((10, 20), deviceId=-1), read("gpu-not-recorded")),
    "device of 2^40": (kernels((10, 20), deviceId=2**40), read("gpu-not-recorded", "values-unusable")),
    "streams of 2^60": (kernels((10, 20), (15, 25), streamId=2**60), read()),
    "1,000 streams": (nsys(KERNEL=[kernel(n, n + 50, streamId=n) for n in range(1000)]), read()),
    "launched before the capture": (
        nsys(KERNEL=[kernel(10, 20, correlationId=5)], RUNTIME=[call(1, 2, correlationId=90)]),
        read(),
    ),
    "launched after it ran": (nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(30, 40)]), read()),
    "call that never ends": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1, FAR)]),
        read("launches-not-recorded", "rows-dropped"),
    ),
    "cut inside a kernel": (meanings.cut_inside_a_kernel, read("links-missing", "rows-dropped")),
    "graph nodes without a launch": (meanings.graph_nodes, read()),
    "no kernels, but copies": (meanings.only_copies, read("work-not-recorded")),
    "no steps": (kernels(*[(n * n, n * n + 3) for n in range(1, 40)]), read()),
    "ranges that cross": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], NVTX=[push(0, 10, "a"), push(5, 15, "b"), push(8, 9, "c")]),
        read(),
    ),
    "ranges that end before they start": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], NVTX=[push(10, 0, "a")]),
        read("times-backward"),
    ),
    "ranges that never end": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], NVTX=[push(0, None, "a")] * 9),
        read("ranges-open"),
    ),
    "ranges nested 5,000 deep": (meanings.nested_ranges(5000), read()),
    "ranges that cover 2^64 ns": (
        nsys(KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], NVTX=[push(-FAR, FAR, "a")]),
        read("rows-dropped"),
    ),
    "a window of no length": (kernels((10, 20), (30, 40)), refused("nothing in that time window")),
    "a window after the end": (kernels((10, 20), (30, 40)), refused("nothing in that time window")),
    "very many names": (meanings.distinct_names(1_000_000 if IS_THOROUGH else 100_000), read()),
    "10^4 names": (meanings.distinct_names(10_000), read()),
    "torch: one kernel": (torch((30, 5)), read()),
    "torch: zero length, all": (torch((30, 0), (40, 0)), read(report=NO_TIME)),
    "torch: end before start": (torch((30, -5)), read("times-backward", report=NO_TIME)),
    "torch: the clock jumps": (torch((30, 5), (4e15, 5)), read()),
    "torch: from end to end of 62 bits": (torch((-4.6e15, 5), (4.6e15, 5)), read()),
    "torch: no device": (torch((30, 5), device=-1), read("gpu-not-recorded")),
    "torch: kernels alone": (
        text(b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1}]}'),
        read("gpu-not-recorded"),
    ),
}

_JOB: dict[str, tuple[Make, Must]] = {
    "all ranks": (meanings.ranks(0, 1, 2), read("clocks-unknown")),
    "ranks out of order": (meanings.ranks(2, 0, 1), read("clocks-unknown")),
    "a rank missing": (meanings.ranks(0, 2), read("clocks-unknown", "rank-missing")),
    "a rank twice": (meanings.ranks(0, 0, 1, 2), read("clocks-unknown", "rank-twice")),
    "ranks that do not say which": (meanings.ranks(None, None), read("clocks-unknown", "rank-unknown")),
    "a rank of -1": (meanings.ranks(-1, 0, 1), read("clocks-unknown", "rank-missing", "rank-unknown")),
    "a rank beyond the world": (meanings.ranks(0, 1, 2, 10**9), read("clocks-unknown", "rank-extra")),
    "a broken profile among them": (meanings.ranks(0, 1, 2, broken=True), read("clocks-unknown")),
    "nothing but a broken profile": (meanings.ranks(broken=True), refused("broken.json")),
}

_UNPACKED_LONG = (
    "5 GB hole in a trace",
    "gzip, 50,000 empty members",
    "gzip bomb of spaces",
    "gzip bomb of brackets",
    "gzip bomb of a name",
    "tar, member larger than the file",
    "tar bomb",
    "zip bomb",
    "40,000 events that never close",
    "16 MB of spaces and commas",
    "an event of 80 MB",
    "metadata of 80 MB",
)
"""They take a second each until the reader, which all verbs share, has seen enough: only a thorough run asks two."""

_VERBS: dict[str, tuple[str, ...]] = {
    "very many names": ("info",)  # a report looks at each of them several times, which takes some 20 s
} | dict.fromkeys(_UNPACKED_LONG, ("info", "report") if IS_THOROUGH else ("report",))

_OPTIONS: dict[str, tuple[str, ...]] = {
    "gzip bomb, over the limit": ("--limit=unpacked-bytes=10MB",),
    "zip, member beyond the limit": ("--limit=unpacked-bytes=10MB",),
    "more rows than allowed": ("--limit=rows-per-table=1000",),
    "1,000 deep, as allowed": ("--limit=event-depth=2000",),
    "more events than allowed": ("--limit=rows-per-table=0",),
    "longer than it may take": ("--limit=read-seconds=0",),
    "a window of no length": ("--time=20ns:20ns",),
    "a window after the end": ("--time=1s:2s",),
}


def _cases() -> Iterator[Case]:
    kinds = {
        "file": _FILE,
        "container": _CONTAINER,
        "sqlite": _SQLITE,
        "json": _JSON,
        "rocm": _ROCM,
        "ncu": _NCU,
        "meaning": _MEANING,
        "job": _JOB,
    }
    for kind, table in kinds.items():
        for name, (make, must) in table.items():
            yield Case(kind, name, make, must, _OPTIONS.get(name, ("--workers=0",) if kind == "job" else ()))


CASES = tuple(_cases())

"""What is fuzzed, reader by reader: where its inputs begin, how they are changed, and what is called with them.

The oracle is the same for all: a result, or a GpuledgerError. Seeds are the captures of the repository, cut to a few
rows, so that a run takes milliseconds.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import pickle
import random
import sqlite3
import struct
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import mutations
from mutations import Change, as_bytes, sometimes

from gpuledger.catalog.kernel_families import family
from gpuledger.config import user_families
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.present.views.memory_snapshot import snapshot_answer
from gpuledger.read import btree, open_trace
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.read.ncu.rep_file import MAGIC, walk
from gpuledger.read.pickle_tree import DICT, LIST, TEXT, PickleTree, read_tree
from gpuledger.read.protobuf import fields
from gpuledger.read.snapshot import open_snapshot
from gpuledger.read.source import look_at
from gpuledger.read.stats_text.tables import runs_in
from gpuledger.runbook.definition import cells_of
from gpuledger.runbook.engine import shipped_runbooks, shipped_text
from gpuledger.runbook.read import runbook_of
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from gpuledger.verbs.report import build_report

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support.profiles import perfetto_files, rocm_files
from support.profiles.samples import SAMPLES

CAPTURES: Final = Path(__file__).parent.parent / "captures"
ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class Target:
    """One reader."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes, Path], object]
    """Called with an input, and a folder in which it may be written."""
    change: Change
    words: tuple[bytes, ...] = ()


def _unpacked(name: str) -> bytes:
    return lzma.decompress((CAPTURES / name).read_bytes())


# ---- Nsight Systems: SQLite ----


_ALWAYS: Final = ("StringIds", "META_DATA_EXPORT", "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE")
_EXPORTS: Final = (
    ("decode", ("KIND_KERNEL", "KIND_RUNTIME", "META_DATA_CAPTURE")),
    ("decode", ("KIND_KERNEL", "KIND_MEMCPY", "ENUM_CUDA_MEMCPY", "ENUM_CUDA_MEM_KIND", "DIAGNOSTIC_EVENT")),
    ("graph", ("GRAPH_NODE", "KIND_KERNEL", "CUDA_STREAM", "CONTEXT_INFO")),
    ("graph", ("KIND_KERNEL", "SYNCHRONIZATION", "ENUM_CUPTI_SYNC", "SESSION_START", "SYSTEM_ENV")),
    ("two_gloo", ("OSRT_API", "NVTX_EVENTS", "PROCESSES", "KIND_KERNEL")),
    ("two_gloo", ("KIND_MEMSET", "PROFILER_OVERHEAD", "ANALYSIS", "SESSION_START")),
    ("host_read_stacks", ("CUDA_CALLCHAINS", "KIND_RUNTIME", "KIND_KERNEL")),
    ("host_read_stacks", ("OSRT_API", "OSRT_CALLCHAINS", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS")),
    ("host_read_stacks", ("NVTX_PAYLOAD", "NVTX_EVENTS")),
    ("moe_loop", ("MEMORY_USAGE", "ENUM_CUDA_DEV_MEM", "ThreadNames", "ProcessStreams")),
    ("moe_loop", ("NVTX_EVENTS", "KIND_KERNEL", "KIND_RUNTIME")),
)
"""Which tables each seed holds: all of them in each would make a run five times as long."""


def _exports() -> list[bytes]:
    return [_cut_export(_unpacked(f"nsys/{name}.sqlite.xz"), (*_ALWAYS, *kept)) for name, kept in _EXPORTS]


def _cut_export(content: bytes, kept: tuple[str, ...]) -> bytes:
    """The first rows of the tables whose names hold one of these words."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cut.sqlite"
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            made = "SELECT type, name FROM sqlite_master WHERE type <> 'table' AND sql <> ''"
            for kind, name in database.execute(made).fetchall():
                database.execute(f'DROP {kind} IF EXISTS "{name}"')
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                if not any(word in name for word in kept):
                    database.execute(f'DROP TABLE "{name}"')
                elif name != "StringIds":
                    database.execute(f'DELETE FROM "{name}" WHERE rowid > (SELECT min(rowid) + {ROWS} FROM "{name}")')
            database.execute("DELETE FROM StringIds WHERE id % 16 > 0")
            database.execute("PRAGMA page_size = 512")
            database.execute("VACUUM")
        return path.read_bytes()


class _OneThread:
    """Stands for the decoder's pool of threads: starting one takes longer than to read what is fuzzed."""

    def __init__(self, threads: int) -> None:
        del threads

    def __enter__(self) -> _OneThread:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def map(self, function: Callable[..., object], *columns: Iterable[object]) -> Iterator[object]:
        return map(function, *columns)

    def shutdown(self, *, cancel_futures: bool) -> None:
        del cancel_futures


def _read_export(content: bytes, folder: Path) -> Trace:
    vars(btree)["ThreadPoolExecutor"] = _OneThread
    path = folder / "input.sqlite"
    path.write_bytes(content)
    return open_trace(path, cache=False)


# ---- torch.profiler ----


_TRACES: Final = (
    ("decode", ("kernel", "cuda_runtime", None)),
    ("decode", ("cpu_op", "user_annotation", "python_function", "ac2g")),
    ("graph", ("kernel", "cuda_runtime", "cuda_driver", "gpu_memset", "overhead")),
    ("work", ("gpu_memcpy", "cpu_instant_event", "cuda_sync", None)),
    ("work", ("cpu_op", "kernel", "cuda_runtime", "fwdbwd")),
)
"""Which events each seed holds."""


def _traces() -> list[bytes]:
    """Some events of some categories, with what stands around them; one without anything around them."""
    found = []
    for name, categories in _TRACES:
        whole = json.loads(gzip.decompress((CAPTURES / f"torch/{name}.json.gz").read_bytes()))
        kept: dict[tuple[Any, Any], list[Any]] = {}
        for event in whole["traceEvents"]:
            same = kept.setdefault((event.get("ph"), event.get("cat")), [])
            # a kernel of a template may have a name of 5,000 bytes
            if len(same) < 2 and event.get("cat") in categories and len(json.dumps(event)) < 1000:
                same.append(event)
        whole["traceEvents"] = [event for same in kept.values() for event in same]
        found.append(json.dumps(whole).encode())
    return [*found, json.dumps(json.loads(found[0])["traceEvents"]).encode()]


def _read_trace(content: bytes, folder: Path) -> Trace:
    path = folder / "input.json"
    path.write_bytes(content)
    return open_trace(path, cache=False)


# ---- AMD ----


def _of_amd(*formats: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        with TemporaryDirectory() as folder:
            return [rocm_files.MADE[name](Path(folder) / name).read_bytes() for name in formats]

    return seeds


_CSV_OF_AMD: Final = (b"KERNEL_DISPATCH", b"Agent 1", b"Start_Timestamp", b'"', b"\n", b",", b"9" * 19)
_JSON_OF_AMD: Final = (b"kernel_dispatch", b"handle", b"start_timestamp", b"null", b"1e400", b"9" * 19, b"{}", b"[]")


# ---- what is changed byte by byte ----


_BYTES: Final = (
    b"/device:GPU:1",
    b"Stream #",
    b"\x22",
    b"\x12",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 10,
    b"\x0a\x7f",
)


_CHANGED: Final = ("sqlite", "json", "rocprof csv", "nsys parquetdir and arrowdir")
"""Readers of what is changed by its rows, keys or columns."""


def _sample(reader: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        with TemporaryDirectory() as folder:
            return [SAMPLES[reader](Path(folder) / "seed").read_bytes()]

    return seeds


# ---- Nsight Compute ----


def _tables_of_ncu() -> list[bytes]:
    """The three shapes of CSV, with few launches and metrics."""
    raw = [line.split('","') for line in _unpacked("ncu/layer_raw.csv.xz").decode().splitlines()[:4]]
    narrow = "\n".join('","'.join([*cells[:14], *cells[-3:]]) for cells in raw)
    details = _unpacked("ncu/layer_details.csv.xz").decode().splitlines()
    long = "\n".join([*details[:4], *(line for line in details[30:400] if '"Speed Of Light' in line)][:7])
    return [f"==PROF== Connected\n{narrow}\n".encode(), f"{long}\n".encode(), narrow.encode("utf-16")]


def _read_tables_of_ncu(content: bytes, folder: Path) -> object:
    path = folder / "input.csv"
    path.write_bytes(content)
    return open_kernels([path], every_metric=True)


def _blocks() -> list[bytes]:
    """Reports with their payloads and long fields cut to a few bytes each, and lengths that fit again."""
    return [_short_report(_unpacked(f"ncu/{name}.ncu-rep.xz")) for name in ("planned-1", "planned-2", "layer")]


def _short_report(content: bytes) -> bytes:
    (length,) = struct.unpack_from("<I", content, len(MAGIC))
    at = len(MAGIC) + 4 + length
    found = [content[:at]]
    while at < len(content) and sum(map(len, found)) < 1200:
        (length,) = struct.unpack_from("<I", content, at)
        header = list(fields(content[at + 4 : at + 4 + length]))
        at += 4 + length + sum(value for field, value in header if field == _PAYLOAD and isinstance(value, int))
        short = b"".join(map(_encoded, header))
        found.append(struct.pack("<I", len(short)) + short + bytes(4))
    return b"".join(found)


_PAYLOAD: Final = 5


def _encoded(field: tuple[int, int | bytes]) -> bytes:
    """A field of a protobuf message; a payload is said to have four bytes, and what is long is cut."""
    number, value = field
    if isinstance(value, int):
        return _varint(number << 3) + _varint(4 if number == _PAYLOAD else value)
    kept = value if len(value) < 300 else value[:300]
    return _varint(number << 3 | 2) + _varint(len(kept)) + kept


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _read_blocks(content: bytes, folder: Path) -> object:
    path = folder / "input.ncu-rep"
    path.write_bytes(MAGIC + content.removeprefix(MAGIC))
    return walk(look_at(path), DEFAULT_LIMITS)


# ---- nsys stats ----


def _printed() -> list[bytes]:
    """CSV of several reports, and a table as nsys prints it on a terminal."""
    folder = CAPTURES / "nsys" / "decode.nsys-stats"
    names = ("cuda_api_sum", "cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "nvtx_sum")
    tables = [b"\n".join((folder / f"{name}.csv").read_bytes().splitlines()[: ROWS + 1]) for name in names]
    return [*tables, b"\n\n".join(tables[1:4]), _ON_A_TERMINAL.encode()]


_ON_A_TERMINAL: Final = """Processing [run.sqlite] with [reports/cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)     Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----------
     75.0            3,000          2   1,500.0   1,500.0     1,000     2,000        707.1  gemm<int>
     25.0            1,000          1   1,000.0   1,000.0     1,000     1,000          0.0  void k(int)

Processing [run.sqlite] with [reports/cuda_gpu_mem_size_sum.py]...

 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):

 Total (MB)  Count  Avg (MB)  Med (MB)  Min (MB)  Max (MB)  StdDev (MB)           Operation
 ----------  -----  --------  --------  --------  --------  -----------  ----------------------------
      1.500      3     0.500     0.500     0.250     0.750        0.250  [CUDA memcpy Host-to-Device]
"""


def _read_printed(content: bytes, folder: Path) -> object:
    path = folder / "input.txt"
    path.write_bytes(content)
    return runs_in(path)


# ---- Arrow and Parquet ----


@cache
def _tables_of_arrow(kind: str) -> dict[str, bytes]:
    """The files of an export as a folder, each cut to a few rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    found = {}
    pa.set_cpu_count(1)  # to hand a few rows to another thread takes longer than to read them
    with tarfile.open(fileobj=io.BytesIO(_unpacked(f"nsys/decode.{kind}dir.tar.xz"))) as tar:
        for member in tar:
            packed = tar.extractfile(member)
            if (
                packed is None
                or Path(member.name).suffix != f".{kind}"
                or Path(member.name).stem not in _CHANGED_TABLES
            ):
                continue
            content = io.BytesIO(packed.read())
            table = parquet.read_table(content) if kind == "parquet" else pa.ipc.open_stream(content).read_all()
            found[Path(member.name).stem] = _written(table.slice(0, 60 if "StringIds" in member.name else ROWS), kind)
    return found


def _written(table: Any, kind: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    out = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, out)
    else:
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    return out.getvalue()


_KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_CHANGED_TABLES: Final = (
    *("StringIds", _KERNEL, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_MEMCPY"),
    *(
        "TARGET_INFO_GPU",
        "TARGET_INFO_CUDA_DEVICE",
        "META_DATA_EXPORT",
        "META_DATA_CAPTURE",
        "ThreadNames",
        "PROCESSES",
    ),
)


_READ_FROM: Final = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": Table.CALLS,
    "NVTX_EVENTS": Table.RANGES,
    "CUPTI_ACTIVITY_KIND_MEMCPY": Table.COPIES,
}
"""What is read where one of these was changed; kernels otherwise."""


def _folders(kind: str) -> Callable[[], list[bytes]]:
    """An input is one table of the folder, after a byte that says which."""

    def seeds() -> list[bytes]:
        tables = _tables_of_arrow(kind)
        return [bytes((at,)) + tables[name] for at, name in enumerate(_CHANGED_TABLES) if name in tables]

    return seeds


def _read_folder(kind: str) -> Callable[[bytes, Path], object]:
    def read(content: bytes, folder: Path) -> object:
        name = _CHANGED_TABLES[content[0] % len(_CHANGED_TABLES)] if content else "StringIds"
        export = folder / f"{kind}-{name}"
        if not export.exists():
            export.mkdir()
            for table in (
                ("StringIds",) if name in _READ_FROM else ("StringIds", _KERNEL)
            ):  # each takes its time to read
                (export / f"{table}.{kind}").write_bytes(_tables_of_arrow(kind)[table])
        (export / f"{name}.{kind}").write_bytes(content[1:])
        return open_trace(export, cache=False, only=(_READ_FROM.get(name, Table.KERNELS),))

    return read


def _folder_changed(kind: str) -> Change:
    """One column of a table as another type, fewer columns, or fewer rows, written by pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    kinds = (pa.int8(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.null())

    def change(content: bytes, chance: Any) -> bytes:
        try:
            inner = io.BytesIO(content[1:])
            table = parquet.read_table(inner) if kind == "parquet" else pa.ipc.open_stream(inner).read_all()
            table.validate(full=True)  # a damaged one would end this process when it is cut
            at = chance.randrange(max(table.num_columns, 1))
            match chance.randrange(4):
                case 0 if table.num_columns:
                    table = table.remove_column(at)
                case 1:
                    table = table.slice(0, chance.randrange(3))
                case _:
                    other = chance.choice((pa.nulls(table.num_rows, chance.choice(kinds)), _odd_column(table, chance)))
                    table = table.set_column(at, table.schema.names[at], other)
            changed: bytes = content[:1] + _written(table, kind)
        except (pa.ArrowException, OSError, IndexError, ValueError, TypeError, OverflowError):
            changed = as_bytes(())(content, chance)
        return changed

    return change


def _odd_column(table: Any, chance: Any) -> Any:
    import pyarrow as pa

    odd = chance.choice((0, -1, 2**62, 1.5, "x", b"\xff", True, [1], {"a": 1}))
    return pa.array([odd if chance.random() < 0.7 else None for _ in range(table.num_rows)])


# ---- settings ----


def _settings() -> list[bytes]:
    return [
        b'[tool.gpuledger.families]\nattention = ["my_attn_.*"]\ncomm-ours = ["ring_exchange", "a|b"]\n',
        b'[families]\n"gemm" = ["x{1,3}"]\n',
        b"[tool]\ngpuledger = {families = {a = []}}\n",
    ]


def _read_settings(content: bytes, folder: Path) -> object:
    path = folder / "input.toml"
    path.write_bytes(content)
    return family("void gemm<int>(x)", user_families(path))


_RUNBOOKS: Final = (
    b"""runbook: 1
name: a
question: Does it work?
variables: {n: 1}
matrix: {mode: [x, y], fast: {values: ["0", "1"], environment: FAST, flags: {"0": [], "1": [-f]}}}
steps:
  - capture: nsys
    bench: [moe, "--mode=${mode}", "${fast.flags}"]
  - report: profile
show: [median_ms]
""",
    b"""runbook: 1
name: b
question: And this?
matrix: {mode: [x, y]}
steps: [{bench: &b [moe, "--mode=${mode}"]}, {capture: nsys, preset: steady, bench: [*b, -x], when: {mode: x}}]
compare: [{diff: profile, before: {mode: x}, after: {mode: y}}]
targets: [{key: median_ms, at_most: 2.5, where: {mode: x}}]
""",
)


def _read_runbook(content: bytes, _: Path) -> object:
    return cells_of(runbook_of(content, "input.yaml"))


_EVENT_WORDS: Final = (
    b'"ph": "X"',
    b'"cat": "kernel"',
    b'"args": {',
    b'"traceEvents": [',
    b'"ts": 1.5',
    b"}, {",
    b"]}",
    b"null",
)
_CSV_WORDS: Final = (
    b'"Kernel Name"',
    b'"Metric Name"',
    b'"ID",',
    b'""',
    b"==ERROR== ",
    b'"%"',
    b'"Kbyte/block"',
    b"\r\n",
)
_STATS_WORDS: Final = (
    b"Processing [a] with [b.py]\n",
    b"Total Time (ns)",
    b"Name",
    b" ** X (cuda_api_sum):\n",
    b"---- ",
    b"|",
)
_YAML_WORDS: Final = (b"steps:", b"  - ", b"${", b"}", b"&a ", b"*a", b"!!", b"|\n", b": ", b"\t")
_TOML_WORDS: Final = (
    b"[families]\n",
    b"[[a]]\n",
    b'= ["',
    b'"]',
    b"'''",
    b"{",
    b"}",
    b"1979-05-27",
    b"a.b = 1\n",
    b"(?P<",
)


def _reported(read: Callable[[bytes, Path], Trace]) -> Callable[[bytes, Path], object]:
    """What is read, and all that is said of it: the books of whatever is taken for a profile must balance."""

    def report(content: bytes, folder: Path) -> object:
        return build_report(read(content, folder), "input", Selection()).to_dict()

    return report


# ---- PyTorch: memory snapshots ----


def _snapshots() -> list[bytes]:
    names = ("expandable", "fragmented", "oom_fixed", "oom_fragmented", "oom_held")
    with tarfile.open(CAPTURES / "torch" / "memory.tar.xz") as archive:
        return [archive.extractfile(f"{name}.pickle").read() for name in names]  # type: ignore[union-attr]


def _read_snapshot(given: bytes, folder: Path) -> object:
    path = folder / "snapshot.pickle"
    path.write_bytes(given)
    return snapshot_answer(open_snapshot(path)).to_text()


_OPCODES: Final = tuple(bytes([opcode]) for opcode in b"(}])uesatldKMJGXCBN012hjqr.\x80\x85\x86\x8a\x8c\x8d\x94\x95")


_ODD: Final = (
    None,
    -1,
    0,
    1,
    2**40,
    2**49,
    2**63 - 1,
    2**80,
    1.5,
    "",
    "oom",
    "segment_unmap",
    "alloc",
    [],
    {},
    [{}],
    True,
)


def _plain_value(tree: PickleTree, node: int, depth: int = 0) -> object:
    """A node's value without Python's unpickler, which would run what a changed pickle names."""
    kind = int(tree.kind[node])
    if kind in (LIST, DICT) and depth < 12:
        items = [_plain_value(tree, child, depth + 1) for child in tree.of(node).tolist()]
        if kind == LIST:
            return items
        return {str(key): item for key, item in zip(items[::2], items[1::2], strict=True)}
    return tree.text(node) if kind == TEXT else int(tree.value[node])


def _places(value: object, depth: int = 0) -> list[tuple[Any, Any]]:
    """Every place in a value at which something else could stand."""
    if depth > 12 or not isinstance(value, list | dict):
        return []
    keys = list(range(len(value))) if isinstance(value, list) else list(value)
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key], depth + 1)]


def _snapshot_changed(content: bytes, chance: random.Random) -> bytes:
    """A snapshot with values changed, events taken out or repeated."""
    try:
        tree = read_tree("seed", content)
    except GpuledgerError:
        return content
    whole = _plain_value(tree, tree.root)
    for _ in range(chance.randrange(1, 4)):
        places = _places(whole)
        if not places:
            break
        holder, key = chance.choice(places)
        if isinstance(holder, list) and chance.random() < 0.3:
            holder.insert(chance.randrange(len(holder)), holder[key])
        elif chance.random() < 0.2:
            del holder[key]
        else:
            holder[key] = chance.choice(_ODD)
    return pickle.dumps(whole, 4)


TARGETS: Final[dict[str, Target]] = {
    "sqlite": Target(_exports, _read_export, sometimes(mutations.sqlite_changed)),
    "torch": Target(_traces, _read_trace, sometimes(mutations.json_changed, _EVENT_WORDS), _EVENT_WORDS),
    "torch-gz": Target(
        lambda: [gzip.compress(each, 1, mtime=0) for each in _traces()],
        _read_trace,
        mutations.gzip_changed(sometimes(mutations.json_changed, _EVENT_WORDS)),
    ),
    "rocm-sqlite": Target(_of_amd("rocpd", "rpd", "results.db"), _read_export, sometimes(mutations.sqlite_changed)),
    "rocm-json": Target(_of_amd("json"), _read_trace, sometimes(mutations.json_changed, _JSON_OF_AMD), _JSON_OF_AMD),
    "rocm-csv": Target(_of_amd("csv"), _read_trace, sometimes(mutations.csv_changed, _CSV_OF_AMD), _CSV_OF_AMD),
    **{name: Target(_sample(name), _read_trace, as_bytes(_BYTES), _BYTES) for name in SAMPLES if name not in _CHANGED},
    "perfetto-torch": Target(lambda: [perfetto_files.torch()], _read_trace, as_bytes(_BYTES), _BYTES),
    "ncu-csv": Target(_tables_of_ncu, _read_tables_of_ncu, sometimes(mutations.csv_changed, _CSV_WORDS), _CSV_WORDS),
    "ncu-blocks": Target(_blocks, _read_blocks, sometimes(mutations.blocks_changed)),
    "nsys-stats": Target(_printed, _read_printed, sometimes(mutations.csv_changed, _STATS_WORDS), _STATS_WORDS),
    "arrow": Target(_folders("arrow"), _read_folder("arrow"), sometimes(_folder_changed("arrow"))),
    "parquet": Target(_folders("parquet"), _read_folder("parquet"), sometimes(_folder_changed("parquet"))),
    "report-sqlite": Target(_exports, _reported(_read_export), sometimes(mutations.sqlite_changed)),
    "report-torch": Target(
        _traces, _reported(_read_trace), sometimes(mutations.json_changed, _EVENT_WORDS), _EVENT_WORDS
    ),
    "snapshot": Target(_snapshots, _read_snapshot, sometimes(_snapshot_changed, _OPCODES), _OPCODES),
    "config": Target(_settings, _read_settings, sometimes(mutations.yaml_changed, _TOML_WORDS), _TOML_WORDS),
    "runbook": Target(
        lambda: [min(map(shipped_text, shipped_runbooks()), key=len), *_RUNBOOKS],
        _read_runbook,
        sometimes(mutations.yaml_changed, _YAML_WORDS),
        _YAML_WORDS,
    ),
}

"""Perfetto traces: what `export` writes comes back, rocprofv3's and torch's are read; cut ones give what is whole."""

from __future__ import annotations

import contextlib
import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from gpuledger import Table, open_trace
from gpuledger.errors import GpuledgerError
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import total, union
from support.command import ROOT, gpuledger
from support.profiles import perfetto_files
from support.profiles.perfetto_files import saved
from support.profiles.torch_traces import CORPUS, SMALL
from support.profiles.torch_traces import saved as saved_torch
from support.traces.trace_notation import columns_of

WORK = (Table.KERNELS, Table.COPIES, Table.GRAPHS)


def busy_ns(trace: Trace) -> dict[int, int]:
    work = [trace.tables[table] for table in WORK if table in trace.tables]
    gpu, start, end = (np.concatenate([rows[name] for rows in work]) for name in ("gpu", "start_ns", "end_ns"))
    return {number: total(union(start[gpu == number], end[gpu == number])) for number in np.unique(gpu).tolist()}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Trace, Path]:
    """A capture, and what is read of its export."""
    folder = tmp_path_factory.mktemp("exported")
    capture = ROOT / "captures" / "torch" / "moe_batched_gemm.json.gz"
    assert gpuledger("export", capture, "-o", folder / "a.pftrace").exit_code == 0
    return open_trace(capture), open_trace(folder / "a.pftrace"), folder / "a.pftrace"


def test_what_export_writes_comes_back(both: tuple[Trace, Trace, Path]) -> None:
    before, after, _ = both
    assert busy_ns(after) == busy_ns(before)
    for table, *names in (
        (Table.KERNELS, "name", "gpu", "stream", "correlation", "graph_node"),
        (Table.COPIES, "kind", "bytes", "correlation"),
        (Table.CALLS, "name", "layer", "tid", "correlation"),
        (Table.RANGES, "name", "kind", "tid"),
    ):
        if table in before.tables:
            ours, theirs = (sorted(columns_of(trace[table], *names), key=repr) for trace in (before, after))
            assert theirs == ours
            ours, theirs = (sorted(trace[table].duration_ns.tolist()) for trace in (before, after))
            assert theirs == ours
    assert (after[Table.KERNELS]["grid"].min(), after.health) == (before[Table.KERNELS]["grid"].min(), ())
    assert after.origin.gpus[0].name == before.origin.gpus[0].name


def test_a_report_of_an_export_says_the_same(both: tuple[Trace, Trace, Path]) -> None:
    ran = gpuledger("report", both[2])
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert "gpuledger export" in ran.stdout.splitlines()[0]


def test_rocprofv3(tmp_path: Path) -> None:
    trace = open_trace(saved(tmp_path / "a.pftrace", perfetto_files.rocprofv3()))
    assert (trace.origin.tool, trace.health) == ("rocprofv3", ())
    kernels = columns_of(trace[Table.KERNELS], "start_ns", "end_ns", "name", "gpu", "stream", "pid", "correlation")
    assert kernels == [(1300, 1400, "gemm", 0, 2, 42, 2), (1390, 1500, "gemm", 0, 2, 42, 3)]
    assert columns_of(trace[Table.COPIES], "kind", "bytes", "gpu") == [("Host-to-Device", 64, 0)]
    assert columns_of(trace[Table.CALLS], "name", "layer", "pid", "tid", "correlation") == [
        ("hipLaunchKernel", "runtime", 42, 43, 2)
    ]
    assert columns_of(trace[Table.RANGES], "name", "kind") == [("step", "push_pop")]


@pytest.mark.parametrize("packed", [False, True])
def test_torch(packed: bool, tmp_path: Path) -> None:
    content = perfetto_files.torch()
    trace = open_trace(saved(tmp_path / "a.pftrace", gzip.compress(content) if packed else content))
    assert (trace.origin.tool, trace.health) == ("torch.profiler", ())
    kernels = columns_of(trace[Table.KERNELS], "start_ns", "end_ns", "name", "gpu", "stream", "correlation", "graph")
    assert kernels == [(1400, 1650, "gemm<1>", 1, 7, 5, 2)]
    assert trace[Table.KERNELS]["grid"].tolist() == [[8, 2, 1]]
    assert columns_of(trace[Table.COPIES], "start_ns", "bytes", "gpu") == [(1700, 64, 1)]
    assert columns_of(trace[Table.RANGES], "start_ns", "end_ns", "name", "kind", "tid") == [
        (1000, 1200, "aten::mm", "op", 43),
        (1200, 1300, "aten::relu", "op", 43),
    ]
    assert columns_of(trace[Table.CALLS], "start_ns", "end_ns", "name") == [(1100, 1150, "cudaLaunchKernel")]


def test_cut_anywhere_it_gives_what_is_whole_or_a_sentence(both: tuple[Trace, Trace, Path], tmp_path: Path) -> None:
    content, draw = both[2].read_bytes(), random.Random(1)
    for _ in range(10):
        path = saved(tmp_path / "cut.pftrace", content[: draw.randrange(3, len(content))])
        try:
            trace = open_trace(path)
        except GpuledgerError:
            continue
        assert "trace-cut-off" in {note.code for note in trace.health}
        whole = set(columns_of(both[1][Table.KERNELS], "start_ns", "end_ns", "name"))
        if Table.KERNELS in trace.tables:
            assert set(columns_of(trace[Table.KERNELS], "start_ns", "end_ns", "name")) <= whole


@pytest.mark.parametrize("content", [perfetto_files.rocprofv3(), perfetto_files.torch()])
def test_bytes_that_changed_never_end_in_a_traceback(content: bytes, tmp_path: Path) -> None:
    draw = random.Random(2)
    for _ in range(20):
        broken = bytearray(content)
        for _ in range(draw.randrange(1, 4)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        with contextlib.suppress(GpuledgerError):
            open_trace(saved(tmp_path / "a.pftrace", bytes(broken)))


def test_another_perfetto_trace_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.pftrace", perfetto_files.SDK_CLOCKS)
    assert "is a Perfetto trace, and holds no GPU work" in gpuledger("report", path).stderr


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no public profiles here")
def test_a_public_one_of_rocprofv3_holds_calls_alone() -> None:
    trace = open_trace(next((CORPUS.parent / "rocm").glob("*.pftrace")))
    assert (len(trace[Table.CALLS]), trace.missing(Table.KERNELS) is not None) == (1132, True)


def test_a_torch_trace_exported_twice_says_the_same(tmp_path: Path) -> None:
    once = saved_torch(tmp_path / "a.json", SMALL)
    for source, target in ((once, "b.pftrace"), (tmp_path / "b.pftrace", "c.pftrace")):
        assert gpuledger("export", source, "-o", tmp_path / target).exit_code == 0
    first, second = (open_trace(tmp_path / name) for name in ("b.pftrace", "c.pftrace"))
    columns = ("end_ns", "name", "gpu", "stream", "correlation")
    assert columns_of(first[Table.KERNELS], *columns) == columns_of(second[Table.KERNELS], *columns)

"""Reports of Nsight Systems read without nsys: what they hold, cut anywhere, with any byte changed, of any layout.

`support/profiles/report_files.py` writes them. Where reports and exports of others lie beside the checkout, both must
agree.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Table, Trace, UnreadableProfile, open_trace
from gpuledger.read.nsys import report_events
from gpuledger.read.nsys.report_events import EventPlan, EventTable, PackedBlock, decode, unpack
from gpuledger.read.nsys.report_tables import EVENTS
from gpuledger.read.protobuf import Damage
from gpuledger.trace.model import Severity
from gpuledger.trace.tables import Kind
from support.command import ROOT, gpuledger
from support.profiles import report_files
from support.profiles.opened import plain
from support.profiles.report_files import (
    THREAD,
    Message,
    Value,
    call,
    copy,
    kernel,
    memset,
    message,
    push_pop,
    report,
    varint,
)
from support.thorough import some

REPORTS = sorted((ROOT.parent / "shared" / "corpus" / "nsysrep").glob("*.nsys-rep"))
EVERYTHING = (
    [call(0, 10, 1, frames=(6, 7)), kernel(12, 20), call(21, 22, 2), copy(30, 40, 4096), memset(40, 41, 64)],
    [push_pop(0, 50, b"step"), push_pop(1, 9, 6), call(42, 49, 0, name=5, layer=27), kernel(60, 70, node=1 << 33)],
)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Trace]:
    monkeypatch.setenv("PATH", "")  # no nsys

    def opened(content: bytes) -> Trace:
        path = tmp_path / "run.nsys-rep"
        path.write_bytes(content)
        return open_trace(path, only=tuple(Table), cache=False)

    return opened


def test_a_report_holds_what_was_recorded(opened: Callable[[bytes], Trace]) -> None:
    trace = opened(report(*EVERYTHING))
    kernels = trace[Table.KERNELS]
    assert kernels["start_ns"].tolist() == [12, 60]
    assert kernels.texts("name")[0] == "void gemm<float>(int)"
    assert kernels["grid"].tolist() == [[2, 1, 1]] * 2
    assert kernels["graph_node"].tolist() == [-1, 1 << 33]
    assert kernels["smem_dynamic_bytes"].tolist() == [512, 512]
    copies = trace[Table.COPIES]
    assert list(zip(copies.texts("kind"), copies["bytes"].tolist(), strict=True)) == [
        ("Host-to-Device", 4096),
        ("Memset", 64),
    ]
    calls = trace[Table.CALLS]
    assert calls.texts("layer") == ["runtime", "runtime", "os"]
    assert calls["tid"].tolist() == [THREAD & 0xFFFFFF] * 3
    assert (
        trace.stacks.texts(int(calls["stack"][0]), trace.strings) == []
    )  # a stack that CUDA's calls point to has a class of its own
    assert trace[Table.RANGES].texts("name") == ["step", "outer"]
    assert trace.origin.tool_version == "2025.3.1"
    assert (trace.origin.driver_version, trace.origin.cuda_version) == ("580.1", "13.0")
    [gpu] = trace.origin.gpus
    assert (gpu.name, gpu.sm_count) == ("NVIDIA H200", 132)
    assert not [
        note
        for note in trace.health
        if note.severity is Severity.LOSS and note.code.startswith(("report", "event", "block"))
    ]


def test_a_range_that_nobody_ended_is_on_the_clock_of_the_rest(opened: Callable[[bytes], Trace]) -> None:
    """nsys 2025.6 writes its times since the host started: here the recording began 5 s after that, and took 100 ns."""
    began = 5 * 10**9
    events = [*EVERYTHING[0], push_pop(0, 50, b"step"), push_pop(began + 20, began + 90, b"never popped")]
    trace = opened(report(events, since_boot=(began, began + 100)))
    ranges = trace[Table.RANGES]
    assert list(zip(ranges.texts("name"), ranges["start_ns"].tolist(), ranges["end_ns"].tolist(), strict=True)) == [
        ("step", 0, 50),
        ("never popped", 20, 90),
    ]
    assert [note.count for note in trace.health if note.code == "ranges-since-boot"] == [1]


def test_what_is_not_known_is_counted(opened: Callable[[bytes], Trace]) -> None:
    unknown: list[Message] = [{1: 300, 200: {1: 1}}, {1: 300, 200: {1: 2}}, {1: 2**40}, call(1, 2, 3, layer=250)]
    notes = [
        str(note.sentence) for note in opened(report([kernel(1, 2), *unknown])).health if note.code == "events-unknown"
    ]
    assert sorted(notes) == [
        "1 events are of a kind that gpuledger does not know (classes beyond) and were left out",
        "1 events are of a kind that gpuledger does not know (traced function 250) and were left out",
        "2 events are of a kind that gpuledger does not know (class 300) and were left out",
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (report([kernel(1, 2)], packing=b"zstd"), "packed by b'zstd', not by LZ4"),
        (report([kernel(1, 2)], sections={"Raw Sampling Data": "Raw DecodedEvents"}), "its sections are"),
        (report([kernel(1, 2)]).replace(b"QDTEXT00", b"QDTEXT01"), "do not begin with QDTEXT00"),
        (b"NVIDIA Tegra Profiler Report 1." + bytes(1000), "of which nothing can be read"),
        (b"NVIDIA Tegra Profiler Report", "of which nothing can be read"),
    ],
)
def test_another_layout_is_refused_in_a_sentence(opened: Callable[[bytes], Trace], content: bytes, found: str) -> None:
    with pytest.raises(UnreadableProfile) as raised:
        opened(content)
    assert found in raised.value.found


def rows_of(trace: Trace) -> dict[tuple[object, ...], tuple[str | None, ...]]:
    """The numbers of every row, but for places of other rows, and its texts; one that was lost is None."""
    rows: dict[tuple[object, ...], tuple[str | None, ...]] = {}
    for table, held in trace.tables.items():
        texts = [column.name for column in held.schema.columns if column.kind is Kind.TEXT]
        others = {*texts, "parent", "depth", "stack"}
        numbers = [held[column.name].tolist() for column in held.schema.columns if column.name not in others]
        said = [[text if text and text[:8] != "[string " else None for text in held.texts(name)] for name in texts]
        rows |= {
            (table, str(row)): words
            for row, words in zip(zip(*numbers, strict=True), zip(*said, strict=True), strict=True)
        }
    return rows


def test_a_recording_cut_at_a_hundred_places_says_so_and_gives_whole_rows(opened: Callable[[bytes], Trace]) -> None:
    """A row that is given is one of the whole report's; texts, which a report holds last, may be missing."""
    content = report_files.of_export(plain(ROOT / "captures" / "nsys" / "zoo_node.sqlite.xz"), block_rows=40)
    whole = rows_of(opened(content))
    generator, counts = random.Random(40), set()
    for _ in range(100):
        try:
            trace = opened(content[: generator.randrange(len(content))])
        except UnreadableProfile:
            continue
        rows = rows_of(trace)
        for row, texts in rows.items():
            assert all(text in (None, word) for text, word in zip(texts, whole[row], strict=True))
        assert "report-cut" in {note.code for note in trace.health}
        counts.add(len(rows))
    assert {0, len(whole)} <= counts
    assert len(counts) > 5


def test_a_block_that_is_gone_or_there_twice_is_missed(opened: Callable[[bytes], Trace]) -> None:
    """A report counts its events itself: nothing else gives away a block that was taken out whole."""
    blocks = [[kernel(10 * number, 10 * number + 5)] * 20 for number in range(4)]
    counted_first = report(*blocks)
    one = report_files.block(varint(len(plain := message({1: blocks[2]}))) + plain)
    assert counted_first.count(one) == 1
    notes = {
        put: [str(note.sentence) for note in opened(counted_first.replace(one, put)).health if "missing" in note.code]
        for put in (one, b"", one * 2)
    }
    assert notes == {
        one: [],
        b"": ["the report should hold 80 events, and holds 60"],
        one * 2: ["the report should hold 80 events, and holds 100"],
    }


def test_a_loss_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "cut.nsys-rep"
    content = report(*([call(100 * n, 100 * n + 10, n), kernel(100 * n + 20, 100 * n + 90, n)] for n in range(1, 40)))
    path.write_bytes(content[: content.index(b"Sampling Data Offsets") - 400])
    result = gpuledger("report", path)
    assert result.exit_code == 0
    assert "CAPTURE-LOSS" in result.stdout


def damaged(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 8))):
        at = generator.randrange(len(changed))
        changed[at] = generator.choice((0, 1, 127, 128, 255, generator.randrange(256)))
    return bytes(changed[: generator.choice((len(changed), len(changed), generator.randrange(len(changed))))])


@pytest.mark.parametrize("seed", some(range(4), 2))
def test_whatever_is_damaged_there_is_a_trace_or_one_sentence(opened: Callable[[bytes], Trace], seed: int) -> None:
    generator = random.Random(seed)
    content = report(*EVERYTHING, generic=[{1: 1 << 48, 2: 5, 3: b"abc"}])
    for _ in range(150):
        with contextlib.suppress(UnreadableProfile):
            opened(damaged(content, generator))


@pytest.mark.skipif(not report_events.is_compiled(), reason="nothing was compiled")
@given(st.data())
def test_compiled_and_plain_python_agree_on_any_bytes(data: st.DataObject) -> None:
    generator = random.Random(data.draw(st.integers(0, 2**32)))
    pieces: list[Value] = [
        kernel(1, 2),
        copy(1, 2, 3),
        call(1, 2, 3, frames=(1, 2, 3)),
        push_pop(1, 2, b"x" * 50),
        {1: 31, 104: {1: 1, 4: [{1: 2}] * 3}},
    ]
    plain = message({1: generator.choices(pieces, k=4), 2: [{1: 5, 2: 6, 3: b"data"}]})
    plain = varint(len(plain)) + plain
    if data.draw(st.booleans()):
        plain = damaged(plain, generator)
    packed = report_files.lz4(plain)
    if data.draw(st.booleans()):
        packed = damaged(packed, generator)
    block = PackedBlock(0, len(packed), len(plain))
    answers = []
    for is_compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(report_events, "is_compiled", lambda is_compiled=is_compiled: is_compiled)
            events = decode(lambda offset, size: packed[offset : offset + size], [block], EventPlan(EVENTS), 1000)
            answers.append(
                (
                    [[events.column(t.name, name)[0].tolist() for name in events.columns(t.name)] for t in EVENTS],
                    [events.whole_texts(table.name) for table in EVENTS],
                    (dict(events.seen), events.generic, events.damaged, events.damaged_blocks),
                )
            )
    assert answers[0] == answers[1]


@given(st.binary(max_size=300), st.integers(0, 40))
def test_an_lz4_block_unpacks_to_what_was_packed(content: bytes, repeated: int) -> None:
    plain = content + b"z" * repeated + content[:7]
    assert unpack(report_files.lz4(plain), len(plain)) == plain
    with pytest.raises(Damage):
        unpack(report_files.lz4(plain), len(plain) + 1)


def test_a_block_that_says_it_holds_more_than_lz4_can_is_damaged() -> None:
    with pytest.raises(Damage):
        unpack(b"\x10a", 1 << 40)


def test_more_rows_than_are_allowed_are_refused() -> None:
    plan = EventPlan([EventTable("all", (79,), {"start": (107, 1)})])
    plain = message({1: [kernel(1, 2)] * 5})
    packed = report_files.lz4(varint(len(plain)) + plain)
    with pytest.raises(report_events.TooManyRows):
        decode(lambda *_: packed, [PackedBlock(0, len(packed), len(plain) + len(varint(len(plain))))], plan, 4)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_reports_of_others_are_read_without_nsys(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    trace = open_trace(path, cache=False)
    assert trace.origin.tool_version is not None
    assert sum(map(len, trace.tables.values()))
    assert not [
        note
        for note in trace.health
        if note.code in ("report-cut", "events-damaged", "blocks-damaged", "events-unknown")
    ]
    starts = trace[Table.CALLS]["start_ns"]
    assert np.count_nonzero(starts < 0) == 0


def test_a_field_of_another_kind_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torture found it: the name of a GPU that is a number."""
    monkeypatch.setattr(report_files, "GPU", {**report_files.GPU, 2: 7, 14: b"many"})
    path = tmp_path / "a.nsys-rep"
    path.write_bytes(report([kernel(1000, 2000)]))
    [gpu] = open_trace(path).origin.gpus
    assert (gpu.name, gpu.sm_count) == ("unnamed GPU", None)

"""However a trace is cut, packed and shared out, the same comes out of it; and memory holds pieces, never the text."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import Table, Trace, open_trace
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.source import look_at
from gpuledger.read.stream import Gunzipped, PlainFile, read_ahead, unpacked_size
from gpuledger.read.torch import events
from gpuledger.read.torch import gather as torch_parallel
from gpuledger.read.torch.columns import _triples
from gpuledger.read.torch.gather import GatheredEvents, by_table, merged, receive, send
from gpuledger.trace.tables import NOT_RECORDED
from support.profiles.opened import trace_of
from support.profiles.torch_traces import CALL, FILES, KERNEL, KERNEL_ARGS, OP, SMALL, saved
from support.thorough import IS_THOROUGH, some

NAMES = ["k<1>", "aten::mm", '"},\n  {"ph": "X", ', "naïve", "", "traceEvents", "]}", "\\u0000"]
ODD: list[dict[str, Any]] = [
    {"tid": "main"},
    {"tid": "12"},
    {"tid": " 12"},
    {"pid": "Spans", "tid": "x"},
    {"pid": 2**70},
    {"tid": None},
    {"ph": "B"},
    {"ph": None},
    {"ts": None},
    {"ts": "7.5"},
    {"ts": 1e30},
    {"ts": 3.0625},
    {"dur": -1},
    {"cat": "Trace"},
    {"cat": None},
    {"cat": "Kernel"},
    {"cat": "user_annotation"},
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "args": {"bytes": "many"}},
    {"cat": "cpu_instant_event", "ph": "i", "name": "[memory]", "args": {"Bytes": -64, "Device Type": 1}},
    {"args": {"grid": [1, 2]}},
    {"args": KERNEL_ARGS | {"grid": [2**40, 1, 1], "device": 2**40}},
    {"args": {"Collective name": "allreduce", "Group size": 8, "dtype": "Float"}},
    {"args": {"Input dims": [[1]], "Input type": ["a\\u0000b"]}},
]


@st.composite
def traces(draw: st.DrawFn) -> bytes:
    """A trace: mostly the usual events, some odd ones among them, in any layout."""
    listed: list[Any] = [{"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}}]
    for at in range(draw(st.integers(5, 60))):
        event = draw(st.sampled_from(SMALL)) | {"ts": 10 * at + 0.125, "name": draw(st.sampled_from(NAMES))}
        if not draw(st.integers(0, 6)):
            event |= draw(st.sampled_from(ODD))
        listed.append(event)
    if draw(st.booleans()):
        listed.append([1, 2] if draw(st.booleans()) else "no event")
    around = {"distributedInfo": {"rank": 2}, "deviceProperties": [{"id": 0, "name": "H"}]}
    document = {"traceEvents": listed} | around if draw(st.booleans()) else around | {"traceEvents": listed}
    return json.dumps(document, indent=draw(st.sampled_from([None, 1]))).encode()


@contextmanager
def settled(piece: int = 1 << 30, parts: int = 1, window: int = 1 << 20) -> Iterator[None]:
    """Reads in pieces of so many bytes, in so many parts."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(events, "PIECE", piece)
        patched.setattr(torch_parallel, "WORTH_IT", 400 if parts > 1 else 1 << 40)
        patched.setattr(torch_parallel, "_WINDOW", window)
        patched.setattr(os, "cpu_count", lambda: parts)
        patched.setattr(torch_parallel, "_may_fork", lambda: True)  # other tests may have left threads behind
        yield


def all_of(trace: Trace) -> dict[str, Any]:
    """What a trace holds, down to the order of its rows and texts; but not in what it came."""
    found: dict[str, Any] = {
        f"{table.value}.{column.name}": trace[table][column.name].tolist()
        for table in trace.tables
        for column in table.schema.columns
    }
    stacks = [trace.stacks.texts(stack, trace.strings) for stack in range(len(trace.stacks))]
    about = {"origin": replace(trace.origin, container=""), "health": trace.health, "absent": trace.absent}
    return found | about | {"texts": trace.strings.texts, "stacks": stacks}


def read(path: Path, **settings: int) -> dict[str, Any] | str:
    with settled(**settings):
        try:
            return all_of(open_trace(path, cache=False))
        except GpuledgerError as error:
            return str(error).replace(".gz", "")


@settings(
    deadline=None,
    max_examples=60 if IS_THOROUGH else 6,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(traces(), st.integers(40, 4000), st.integers(2, 5), st.integers(60, 4000))
def test_pieces_parts_and_packing_change_nothing(
    tmp_path: Path, text: bytes, piece: int, parts: int, window: int
) -> None:
    plain, packed = saved(tmp_path / "a.json", text), saved(tmp_path / "a.json.gz", text)
    whole = read(plain)
    assert read(plain, piece=piece) == whole
    assert read(plain, piece=piece, parts=parts, window=window) == whole
    assert read(packed) == whole
    assert read(packed, piece=piece, parts=parts, window=window) == whole


def test_a_long_event_is_looked_at_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each piece, which would take time that grows with the square of its length."""
    long = SMALL[0] | {"args": {"note": "x" * 64_000}}
    path = saved(tmp_path / "a.json", [*SMALL, long, *SMALL])
    looks = Counter[bool]()
    whole_events = events.EventStream._whole_events

    def counted(stream: events.EventStream, text: bytes) -> tuple[list[Any] | None, bytes]:
        looks[len(text) > 2000] += 1
        return whole_events(stream, text)

    monkeypatch.setattr(events.EventStream, "_whole_events", counted)
    assert read(path, piece=1000) == read(path)
    assert 0 < looks[True] < 10


def test_how_many_events_are_odd_does_not_depend_on_their_neighbours(tmp_path: Path) -> None:
    """What is odd in a field that nobody reads is odd to nobody, also beside an event that makes the reader patient."""
    of = {each.get("cat"): each for each in SMALL}
    odd = [of["kernel"] | {"ts": 990.5, "tid": None}, of["cuda_runtime"] | {"ts": 999.5, "tid": None}]
    path = saved(tmp_path / "a.json", [*SMALL, *odd])
    whole = read(path)
    assert isinstance(whole, dict)
    assert [note.count for note in whole["health"] if note.code == "events-odd"] == [1]
    assert read(path, piece=120) == whole


def test_threads_without_a_number_are_numbered_alike_however_the_text_is_cut(tmp_path: Path) -> None:
    """A kernel's thread is not read, so its name takes no number, beside whatever it stands."""
    of = {each.get("cat"): each for each in SMALL}
    listed = [*SMALL, of["kernel"] | {"ts": 990.5, "tid": "nobody"}, of["cuda_runtime"] | {"ts": 999.5, "tid": "main"}]
    path = saved(tmp_path / "a.json", listed)
    whole = read(path)
    assert isinstance(whole, dict)
    assert whole["calls.tid"][-1] == -2
    assert read(path, piece=120) == whole


@pytest.mark.parametrize("grid", [b"[1099511627776, 1, 1]", b"[-8, 2, 1]", b"[1.5, 2, 3]", b"[1, 2]", b"7"])
def test_a_grid_is_what_it_says_or_not_recorded(grid: bytes) -> None:
    """Whether all grids of a batch are plain or one of them is not: digits are never taken apart."""
    plain = b"[8, 2, 1]"
    alone, beside = _triples([grid]).tolist()[0], _triples([grid, plain, b"none"]).tolist()
    assert beside == [alone, [8, 2, 1], [-1, -1, -1]]
    assert alone in ([2**40, 1, 1], [-1, -1, -1])


def test_the_list_may_begin_in_another_piece_than_its_name(tmp_path: Path) -> None:
    text = json.dumps({"deviceProperties": [], "traceEvents": SMALL}, indent=1).encode()
    path = saved(tmp_path / "a.json", text)
    whole = read(path)
    assert isinstance(whole, dict)
    for piece in range(20, 60):
        assert read(path, piece=piece) == whole


@pytest.mark.parametrize("path", some(FILES, 3), ids=lambda path: path.name.split("__")[-1])
def test_a_real_trace_is_the_same_in_parts(path: Path) -> None:
    assert read(path, piece=1 << 18, parts=3) == all_of(trace_of(path))


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_parts_are_really_read(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [each | {"ts": 10 * at} for at in range(300) for each in SMALL]
    path = saved(tmp_path / f"a{suffix}", listed)
    found: list[int] = []
    whole = torch_parallel._whole

    def watched(*arguments: Any) -> GatheredEvents | None:
        result = whole(*arguments)
        found.append(0 if result is None else result.events)
        return result

    monkeypatch.setattr(torch_parallel, "_whole", watched)
    with settled(parts=3, window=2000):
        assert len(open_trace(path, cache=False)[Table.KERNELS]) == 300
    assert found == [900]


def test_a_broken_gzip_is_read_in_one_piece(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [each | {"ts": at} for at in range(400) for each in SMALL]}).encode()
    packed = gzip.compress(text)
    for name, content in (("cut", packed[:-200]), ("damaged", packed[:-300] + b"\xff" * 300)):
        path = tmp_path / f"{name}.json.gz"
        path.write_bytes(content)
        found = read(path, parts=3, window=2000)
        assert isinstance(found, dict)
        assert found == read(path)
        assert [note.code for note in found["health"]] == ["trace-cut-off", "ids-repeated"]


def test_a_trace_that_breaks_off_is_marked_in_parts_too(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [each | {"ts": 10 * at} for at in range(300) for each in SMALL]}).encode()
    path = saved(tmp_path / "a.json", text[:-500])
    cut = read(path, parts=3, window=2000)
    assert isinstance(cut, dict)
    assert cut == read(path)
    assert "trace-cut-off" in [note.code for note in cut["health"]]


def test_a_child_that_dies_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a.json", [each | {"ts": 10 * at} for at in range(300) for each in SMALL])
    monkeypatch.setattr(torch_parallel, "_send", lambda *_: os._exit(9))
    assert read(path, parts=3, window=2000) == read(path)


def test_no_process_is_forked_beside_a_thread() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not torch_parallel._may_fork()
    finally:
        done.set()
        thread.join()


def test_more_rows_than_allowed_are_refused_in_parts_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.json", [each | {"ts": at} for at in range(300) for each in SMALL])
    with settled(parts=3, window=2000), pytest.raises(UnreadableProfile, match="has more than 200 rows"):
        open_trace(path, cache=False, limits=Limits(rows_per_table=200))


# Memory


def fat(path: Path, count: int) -> Path:
    """A trace of `count` events, 2 KB each, most of it in arguments that nobody reads."""
    padding = "x" * 1800
    with path.open("w") as file:
        file.write('{"traceEvents": [\n')
        for at in range(count // 3):
            for event in SMALL:
                args = event["args"] | {"Concrete Inputs": padding}  # type: ignore[operator]
                file.write(json.dumps(event | {"ts": 10 * at, "dur": 5, "args": args}) + ",\n")
        file.write(json.dumps(CALL) + "]}")
    return path


def peak(path: Path) -> int:
    """Bytes that Python and numpy held at the worst moment of reading."""
    tracemalloc.start()
    try:
        open_trace(path, cache=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_memory_holds_pieces_and_columns(suffix: str, tmp_path: Path) -> None:
    """Whatever the file's size: some times a piece (text, events, what is unpacked ahead), and columns."""
    plain = fat(tmp_path / "a.json", 12_000)
    size = plain.stat().st_size
    path = plain if suffix == ".json" else saved(tmp_path / "a.json.gz", plain.read_bytes())
    with settled(piece=events.PIECE):
        bounded = peak(path)
    assert bounded < (16 << 20) + 200 * 12_000 < size
    with settled(piece=1 << 30):
        assert peak(path) > size  # so this would be seen


def test_an_event_costs_a_few_numbers(tmp_path: Path) -> None:
    few, many = fat(tmp_path / "a.json", 3_000), fat(tmp_path / "b.json", 9_000)
    with settled(piece=1 << 18):
        assert (peak(many) - peak(few)) / 6_000 < 200


# Streams


class Given(io.BytesIO):
    end_notes = ()


@given(st.binary(max_size=5000), st.lists(st.integers(1, 2000), max_size=20))
def test_reading_ahead_gives_the_same_bytes(content: bytes, sizes: list[int]) -> None:
    with read_ahead(Given(content)) as stream:
        expected = Given(content)
        for size in sizes:
            assert stream.read(size) == expected.read(size)
        assert stream.read() == expected.read()
        assert stream.read(10) == stream.read() == b""


def unpacking() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "unpacking" in thread.name]


def test_whoever_stops_reading_stops_the_thread() -> None:
    with pytest.raises(KeyboardInterrupt), read_ahead(Given(b"x" * (64 << 20))) as stream:  # noqa: PT012
        assert stream.read(10) == b"x" * 10
        assert unpacking()
        raise KeyboardInterrupt
    assert not unpacking()


def test_what_goes_wrong_while_unpacking_is_told_to_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"x" * (40 << 20)))
    limits = Limits(unpacked_bytes=8 << 20)
    with path.open("rb") as file, read_ahead(Gunzipped(PlainFile(file), "a.gz", limits)) as stream:
        with pytest.raises(UnreadableProfile, match="unpacks to more than"):
            stream.read()
        assert stream.read() == b""
    assert not unpacking()


def test_a_stream_that_breaks_off_says_so_at_its_end(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    packed = gzip.compress(content, 1)
    path = tmp_path / "a.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with path.open("rb") as file, read_ahead(Gunzipped(PlainFile(file), "a.gz", Limits())) as stream:
        assert stream.read(100) == content[:100]
        assert content.startswith(content[:100] + stream.read())
        assert [note.sentence for note in stream.end_notes] == ["the gzip stream breaks off: the trace is truncated"]


def test_without_threads_nothing_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    given = Given(b"abc")
    with read_ahead(given) as stream:
        assert stream is given


def size_of(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    return unpacked_size(look_at(path))


def test_how_much_is_packed_is_known_or_guessed(tmp_path: Path) -> None:
    text = b'{"ph": "X", "ts": 1}, ' * 100_000
    path = tmp_path / "a.gz"
    assert size_of(path, gzip.compress(text)) == len(text)
    for told_wrong in (gzip.compress(text) * 3, gzip.compress(text)[:-9]):
        assert len(text) / 2 < size_of(path, told_wrong) < 10 * len(text)
    assert size_of(path, b"\x1f\x8bno gzip at all") == 0
    assert size_of(path, b"\x1f\x8b") in (0, 1)


# Columns


def gathered(texts: list[str], **columns: Any) -> GatheredEvents:
    rows = {key: np.array(values, np.int32 if key == "name" else np.int64) for key, values in columns.items()}
    feeds = {(Table.KERNELS, "kernel"): rows} if columns else {}
    return GatheredEvents(feeds, texts, {}, [], {}, {}, 0, 0, 0, {}, 0, has_named_threads=False)


PARTS: list[Callable[[], GatheredEvents]] = [
    lambda: gathered(["b", "a"], start_ns=[1, 2, 3], end_ns=[2, 3, 4], name=[0, 1, -1]),
    lambda: gathered(["c"]),
    lambda: gathered(["a", "c"], start_ns=[5], end_ns=[6], name=[1], graph=[7]),
]


def test_parts_are_put_together_with_one_code_per_text() -> None:
    tables, texts = by_table(merged([part() for part in PARTS]))
    kernels = tables[Table.KERNELS]
    assert [[*texts, None][code] for code in kernels["name"].tolist()] == ["b", "a", None, "c"]
    assert texts == ["b", "a", "c"]
    assert kernels["start_ns"].tolist() == [1, 2, 3, 5]
    assert kernels["graph"].tolist() == [NOT_RECORDED] * 3 + [7]


def test_what_another_process_sends_is_what_it_read() -> None:
    pipes = [multiprocessing.Pipe(duplex=False) for _ in PARTS]
    for (_, sending), part in zip(pipes, PARTS, strict=True):
        send(sending, part())
    arrived, held = (
        merged([arrived for receiving, _ in pipes if (arrived := receive(receiving)) is not None]),
        merged([part() for part in PARTS]),
    )
    assert replace(arrived, feeds={}) == replace(held, feeds={})
    for feed, columns in held.feeds.items():
        assert columns.keys() == arrived.feeds[feed].keys()
        assert all(np.array_equal(values, arrived.feeds[feed][key]) for key, values in columns.items())
    receiving, sending = multiprocessing.Pipe(duplex=False)
    send(sending, None)
    assert receive(receiving) is None


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=3, max_size=3)), st.sampled_from([", ", ",", " , "]))
def test_grids_are_their_numbers(grids: list[list[int]], comma: str) -> None:
    texts = [f"[{comma.join(map(str, grid))}]".encode() for grid in grids]
    assert _triples(texts).tolist() == grids
    odd = [*texts, b"", b"[1, 2]", b'"[1,2,3]x"', b"[-1, 2.5, 3]", b"{}"]
    assert _triples(odd).tolist()[: len(grids)] == grids
    assert _triples([b"[1, 2]", b"[1, 2, 3, 4]"]).tolist() == [[NOT_RECORDED] * 3, [1, 2, 3]]


def test_rows_and_texts_come_in_the_order_of_the_trace(tmp_path: Path) -> None:
    note = {"ph": "X", "cat": "user_annotation", "pid": 9, "tid": 10, "dur": 1}
    listed = [
        note | {"ts": 1, "name": "z"},
        OP | {"ts": 2, "name": "y"},
        note | {"ts": 3, "name": "x"},
        KERNEL | {"args": KERNEL_ARGS, "name": "k"},
    ]
    trace = open_trace(saved(tmp_path / "a.json", listed))
    assert trace[Table.RANGES].texts("name") == ["y", "z", "x"]
    assert [text for text in trace.strings.texts if len(text) == 1] == ["k", "y", "z", "x"]

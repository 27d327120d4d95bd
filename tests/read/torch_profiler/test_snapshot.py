"""Memory snapshots of PyTorch: read without unpickling, the same with and without a compiler, hostile ones refused."""

from __future__ import annotations

import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.pickle_tree import (
    BOOL,
    BYTES,
    DICT,
    FLOAT,
    HUGE,
    INT,
    LIST,
    NONE,
    TEXT,
    PickleTree,
    groups_of_lists,
    python_tree,
    read_tree,
)
from gpuledger.read.snapshot import open_snapshot
from gpuledger.trace.measured import MemoryAction
from support.command import gpuledger
from support.profiles.memory_snapshots import Program, captured, written

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner) | st.tuples(inner, inner),
    max_leaves=40,
)


def _value(tree: PickleTree, node: int) -> Any:
    """The value of a node, as Python would have unpickled it; integers beyond 64 bits are None."""
    kind, value = int(tree.kind[node]), int(tree.value[node])
    if kind == DICT:
        items = [_value(tree, child) for child in tree.of(node).tolist()]
        return dict(zip(items[::2], items[1::2], strict=True))
    if kind >= LIST and kind != HUGE:
        items = [_value(tree, child) for child in tree.of(node).tolist()]
        return items if kind == LIST else tuple(items)
    plain_values = {NONE: None, HUGE: None, BOOL: bool(value), INT: value}
    if kind == FLOAT:
        return struct.unpack(">d", struct.pack(">q", value))[0]
    whole = bytes(tree.pickled[value : value + int(tree.count[node])]) if kind in (TEXT, BYTES) else b""
    return whole.decode("utf-8", "surrogatepass") if kind == TEXT else whole if kind == BYTES else plain_values[kind]


def _within_64_bits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _within_64_bits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_within_64_bits(item) for item in value)
    return None if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


@given(plain, st.sampled_from((3, 4, 5)))
def test_a_tree_holds_what_pythons_own_unpickler_gives(value: Any, protocol: int) -> None:
    pickled = pickle.dumps(value, protocol)
    tree = read_tree("any", pickled)
    assert _value(tree, tree.root) == _within_64_bits(pickle.loads(pickled))  # noqa: S301 - our own


@given(plain, st.data())
def test_compiled_and_python_give_the_same(value: Any, data: st.DataObject) -> None:
    """Also of damaged pickles: the same refusal at the same byte."""
    native = pytest.importorskip("gpuledger.trace.native._pickle_tree")
    pickled = bytearray(pickle.dumps([value, value, [value]], 4))
    for place in data.draw(st.lists(st.integers(0, len(pickled) - 1), max_size=2)):
        pickled[place] = data.draw(st.integers(0, 255))
    status, offset, root, *arrays = native.read_tree(bytes(pickled))
    plain_status, plain_offset, plain_root, *plain_arrays = python_tree(bytes(pickled))
    assert (status, offset, root) == (plain_status, plain_offset, plain_root)
    if status == 0:
        compiled, own = (
            PickleTree(
                bytes(pickled),
                root,
                np.frombuffer(columns[0], np.uint8),
                np.frombuffer(columns[1], np.int64),
                np.frombuffer(columns[2], np.uint32),
                np.frombuffer(columns[3], np.uint32),
            )
            for columns in (arrays, plain_arrays)
        )
        assert (compiled.kind == own.kind).all()
        assert (compiled.count == own.count).all()
        nodes = np.flatnonzero((compiled.kind >= LIST) & (compiled.kind <= DICT)).tolist()
        assert all(compiled.of(node).tolist() == own.of(node).tolist() for node in nodes)


def test_lists_are_numbered_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ["a", "b"], ["b"]
    tree = read_tree("lists", pickle.dumps([one, other, list(one), [], one], 4))
    lists = tree.of(tree.root).astype(np.int64)
    group, member = groups_of_lists(tree, lists)
    monkeypatch.setenv("GPULEDGER_NATIVE", "0")
    again, members = groups_of_lists(tree, lists)
    assert group.tolist() == again.tolist()
    assert member.tolist() == members.tolist()
    # the texts of a copied list are memoized, so it holds the same nodes
    assert group[0] == group[2] == group[4] != group[1]


def test_a_long_list_keeps_its_order() -> None:
    """Python writes lists in parts of a thousand, with whatever their items hold between them."""
    value = [[number, [number]] for number in range(5000)]
    tree = read_tree("long", pickle.dumps(value, 4))
    assert _value(tree, tree.root) == value


def test_a_snapshot_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    kept = program.alloc(1000, "f (a.py:1)", "<module> (a.py:9)")
    program.free(program.alloc(2000, "g (a.py:2)"), gives_back=True)
    program.step()
    program.out_of_memory(5000, 77, "h (a.py:3)")
    path = written(tmp_path, program.snapshot())
    for native in ("1", "0"):
        monkeypatch.setenv("GPULEDGER_NATIVE", native)
        snapshot = open_snapshot(path)
        [memory] = snapshot.gpus
        history = memory.history
        assert [MemoryAction(action).name for action in history.action.tolist()] == [
            *("SEGMENT_ALLOC", "ALLOC", "SEGMENT_ALLOC", "ALLOC"),
            *("FREE_REQUESTED", "FREE_COMPLETED", "SEGMENT_FREE", "OOM"),
        ]
        assert history.device_free_bytes[-1] == 77
        assert history.address[-1] == -1
        assert snapshot.frames(int(history.stack[1])) == ("f (a.py:1)", "<module> (a.py:9)")
        assert history.time_ns[0] == 1_700_000_000_000_010_000
        assert memory.blocks.address.tolist() == [kept]
        assert memory.blocks.is_allocated.all()
        assert [marked.name for marked in snapshot.ranges] == ["Optimizer.step#AdamW.step"]
        assert snapshot.has_expandable_segments is False
        assert snapshot.health == ()


def test_what_a_version_lacks_is_not_needed(tmp_path: Path) -> None:
    """A list of segments alone, as memory_snapshot() gives; blocks without frames; events without times."""
    snapshot = Program().snapshot()
    assert open_snapshot(written(tmp_path, snapshot["segments"])).gpus == ()
    program = Program()
    program.alloc(700, "f (a.py:1)")
    whole = program.snapshot()
    for event in whole["device_traces"][0]:
        del event["time_us"]
    del whole["segments"][0]["blocks"][0]["frames"], whole["external_annotations"], whole["allocator_settings"]
    [memory] = open_snapshot(written(tmp_path, whole)).gpus
    assert memory.history.time_ns.tolist() == [-1, -1]
    assert memory.blocks.stack.tolist() == [-1]
    [alone] = open_snapshot(written(tmp_path, whole["segments"])).gpus
    assert len(alone.history) == 0
    assert alone.blocks.size_bytes.tolist() == [1024]


def test_each_gpu_has_its_own(tmp_path: Path) -> None:
    program, other = Program(), Program()
    program.alloc(700, "f (a.py:1)")
    other.alloc(5000, "g (a.py:2)")
    both = other.snapshot()
    both["segments"][0]["device"] = 2
    both["segments"] += program.snapshot()["segments"]
    both["device_traces"] = [program.events, [], other.events]
    snapshot = open_snapshot(written(tmp_path, both))
    assert [memory.gpu for memory in snapshot.gpus] == [0, 2]
    assert [memory.blocks.size_bytes.tolist() for memory in snapshot.gpus] == [[1024], [5120]]
    shown = gpuledger("memory", tmp_path / "snapshot.pickle").stdout
    assert shown.startswith("GPU 0: peak 1.02 kB")
    assert "GPU 2: peak 5.12 kB" in shown


def test_events_that_are_not_known_are_counted(tmp_path: Path) -> None:
    program = Program()
    program.alloc(700, "f (a.py:1)")
    program.events += [{"action": "dance", "addr": 1, "size": 2}, {"action": "alloc"}, 7, "x"]  # type: ignore[list-item]
    snapshot = open_snapshot(written(tmp_path, program.snapshot()))
    assert len(snapshot.gpus[0].history) == 2
    assert [(note.count, note.code) for note in snapshot.health] == [(4, "rows-left-out")]


HEAD = b"\x80\x04"
HOSTILE = {
    "a class": pickle.dumps(Path("x")),
    "a function": b"\x80\x04cos\nsystem\n(\x8c\x04trueR.",
    "a reduce": HEAD + b"\x8c\x02os\x8c\x06system\x93)R.",
    "an extension": HEAD + b"\x82\x01.",
    "a persistent id": HEAD + b"Q.",
    "nested very deep": HEAD + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a billion laughs": HEAD + b"]\x94" + b"(h\x00h\x00eh\x00" * 20_000 + b"0" * 20_000 + b".",
    "a length of exabytes": HEAD + b"\x8d" + b"\xff" * 7 + b"\x7f" + b"x.",
    "bytes of exabytes": HEAD + b"\x8e" + b"\xff" * 7 + b"\x7f.",
    "a memo of gigabytes": HEAD + b"Nr\xff\xff\xff\xff.",
    "an int of gigabytes": HEAD + b"\x8b\xff\xff\xff\x7f.",
    "nothing but marks": HEAD + b"(" * 100_000 + b".",
    "nothing but none": HEAD + b"N" * 100_000 + b"t.",
    "cut off": pickle.dumps(Program().snapshot(), 4)[:-5],
    "an unhashable key": HEAD + b"}]]s.",
    "an opcode of text": HEAD + b"I1\n.",
    "another protocol": b"\x80\x05\x80\x09N.",
    "a list in itself": HEAD + b"]\x94h\x00a.",
    "a dictionary of itself": HEAD + b"}\x94\x8c\x08segmentsh\x00s.",
    "a number": pickle.dumps(7, 4),
    "another dictionary": pickle.dumps({"model": [1, 2]}, 4),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("native", ["1", "0"])
def test_a_hostile_pickle_is_one_sentence(
    case: str, native: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No crash, no recursion, no gigabytes, nothing run."""
    monkeypatch.setenv("GPULEDGER_NATIVE", native)
    path = tmp_path / "bad.pickle"
    path.write_bytes(HOSTILE[case])
    ran = gpuledger("memory", path)
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: bad.pickle: ")
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) <= 4


@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, [[]], [7], [{}], {"a": 1}, [[{"action": []}]], ["alloc"]])
@pytest.mark.parametrize("key", ["segments", "device_traces", "external_annotations", "allocator_settings"])
def test_wrong_shapes_break_nothing(key: str, wrong: object, tmp_path: Path) -> None:
    program = Program()
    program.alloc(700, "f (a.py:1)")
    ran = gpuledger("memory", written(tmp_path, {**program.snapshot(), key: wrong}))
    assert ran.exit_code in (0, 1)
    assert "internal error" not in ran.stderr


@pytest.mark.parametrize("wrong", [None, -1, 2**62, 2**63, 2**80, 1.5, "x", [], [{"name": 1}], {}])
@pytest.mark.parametrize("key", ["action", "addr", "size", "time_us", "frames"])
def test_wrong_values_break_nothing(key: str, wrong: object, tmp_path: Path) -> None:
    program = Program()
    program.free(program.alloc(700, "f (a.py:1)"))
    program.events[1][key] = wrong
    ran = gpuledger("memory", written(tmp_path, program.snapshot()))
    assert ran.exit_code == 0
    assert "internal error" not in ran.stderr


def test_one_dictionary_in_a_million_places_is_refused(tmp_path: Path) -> None:
    """Each would be a row of its own: memory would not hold what a few bytes say."""
    event = {f"key{number}": number for number in range(60)}
    path = written(tmp_path, {"segments": [], "device_traces": [[event] * 100_000]})
    with pytest.raises(UnreadableProfile, match="repeats one value"):
        open_snapshot(path)


def test_limits_are_kept(tmp_path: Path) -> None:
    program = Program()
    program.alloc(700, "f (a.py:1)")
    path = written(tmp_path, program.snapshot())
    for limits, said in (
        (Limits(snapshot_bytes=100), "more than a memory snapshot may have"),
        (Limits(rows_per_table=1), "more than 1 rows"),
    ):
        with pytest.raises(UnreadableProfile, match=said):
            open_snapshot(path, limits=limits)
    many = {**program.snapshot(), "device_traces": [[]] * 2000}
    with pytest.raises(UnreadableProfile, match="GPUs"):
        open_snapshot(written(tmp_path, many))


def test_other_files_are_told_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "leak.pickle"
    path.write_bytes(captured()["leak.pickle"])
    ran = gpuledger("gaps", path)
    assert ran.exit_code == 1
    assert "gpuledger memory FILE" in ran.stderr
    with pytest.raises(UnreadableProfile, match="not a memory snapshot"):
        open_snapshot(Path(sys.executable))

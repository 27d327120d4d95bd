"""NCCL's NVTX payloads: operation, bytes, communicator, rank and peer from an nsys export alone."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import NotMeasured, Table, Trace, open_trace
from gpuledger.analyse.ranks.rank_collectives import KINDS, rank_collectives
from gpuledger.ledger.device import analyse_devices
from gpuledger.read.nsys.nccl_payloads import Members, _launched
from gpuledger.selection import Selection
from support.command import ROOT, gpuledger
from support.profiles.opened import plain

MIB = 1 << 20
COMMUNICATOR = "0xebc713ec40323a64"


@pytest.fixture(scope="module")
def ranks() -> Path:
    """Two ranks of one job on one GPU, each an export of its own."""
    return plain(ROOT / "captures" / "nsys" / "two_nccl.tar.xz")


def given_by(trace: Trace) -> Counter[tuple[str, int]]:
    """How often each kind of collective gives how many bytes."""
    [device] = analyse_devices(trace, "test", Selection())
    made = rank_collectives(trace, device)
    return Counter((KINDS[kind], size) for kind, size in zip(made.kind.tolist(), made.bytes.tolist(), strict=True))


# Examples.


@pytest.mark.parametrize("rank", [0, 1])
def test_every_kernel_of_nccl_is_described(ranks: Path, rank: int) -> None:
    trace = open_trace(ranks / f"rank{rank}.sqlite")
    rows = trace[Table.COLLECTIVES]
    assert set(rows.texts("group")) == {COMMUNICATOR}
    assert set(rows["group_size"].tolist()) == {2}
    assert set(rows["rank"].tolist()) == {rank}
    peers = dict(zip(rows.texts("name"), rows["peer"].tolist(), strict=True))
    assert peers["ncclSendRecv"] == 1 - rank
    assert peers["ncclAllReduce"] == -1
    whole = dict.fromkeys(("all_reduce", "all_gather", "broadcast", "reduce", "send_recv"), 4 * MIB)
    assert given_by(trace) == dict.fromkeys((whole | {"reduce_scatter": 8 * MIB, "all_to_all": 8 * MIB}).items(), 5)


def test_bytes_of_payloads_say_what_nvidias_json_says(ranks: Path, tmp_path: Path) -> None:
    path = tmp_path / "blobs.sqlite"
    path.write_bytes((ranks / "rank1.sqlite").read_bytes())
    with sqlite3.connect(path) as export:
        export.execute("UPDATE NVTX_EVENTS SET jsonText = NULL")
    export.close()
    assert (
        open_trace(path)[Table.COLLECTIVES].to_arrow()
        == open_trace(ranks / "rank1.sqlite")[Table.COLLECTIVES].to_arrow()
    )


@pytest.mark.parametrize("blob", [b"", b"\1" * 31, b"\xff" * 64, b"\1" + 7 * b"\0" + b"\5\0\0\1" + 100 * b"\0"])
def test_bytes_that_are_no_payload_say_nothing(ranks: Path, tmp_path: Path, blob: bytes) -> None:
    path = tmp_path / "odd.sqlite"
    path.write_bytes((ranks / "rank1.sqlite").read_bytes())
    with sqlite3.connect(path) as export:
        export.execute("UPDATE NVTX_EVENTS SET jsonText = NULL, binaryData = ? WHERE binaryData IS NOT NULL", (blob,))
    export.close()
    assert len(open_trace(path)[Table.COLLECTIVES]) == 0


@pytest.mark.parametrize("column", ["name", "offset", "type"])
def test_layouts_without_a_column_describe_nothing(ranks: Path, tmp_path: Path, column: str) -> None:
    path = tmp_path / "odd.sqlite"
    path.write_bytes((ranks / "rank1.sqlite").read_bytes())
    with sqlite3.connect(path) as export:
        export.execute("UPDATE NVTX_EVENTS SET jsonText = NULL")
        export.execute(f"ALTER TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES RENAME COLUMN {column} TO other")
    export.close()
    assert Table.COLLECTIVES not in open_trace(path).tables or not len(open_trace(path)[Table.COLLECTIVES])


def test_bus_bandwidth_needs_no_torch(ranks: Path) -> None:
    files = ranks / "rank0.sqlite", ranks / "rank1.sqlite"
    ran = json.loads(gpuledger("fleet", *files, "--workers=1", "--format=json").stdout)
    [reduced] = [row for row in ran["collectives"] if row["kind"] == "all_reduce"]
    assert (reduced["group"], reduced["matched"], reduced["bytes"]) == (COMMUNICATOR, 4, 4 * MIB)
    # NCCL's tests: an all-reduce of two ranks moves 2 (n - 1) / n = 1 times its bytes over the bus
    assert reduced["bus_gb_per_s"] == pytest.approx(reduced["bytes"] / reduced["transfer_ns"], rel=0.2)


def test_a_page_does_not_deny_what_was_matched(ranks: Path, tmp_path: Path) -> None:
    page = tmp_path / "fleet.html"
    gpuledger("fleet", ranks / "rank0.sqlite", ranks / "rank1.sqlite", "--workers=1", "-o", page)
    assert "neither collectives nor steps" not in page.read_text()


def test_an_export_without_values_says_how_to_get_them(unpacked: Callable[[str], Path]) -> None:
    absent = open_trace(unpacked("one_nccl.sqlite")).absent[Table.COLLECTIVES]
    assert isinstance(absent, NotMeasured)
    assert "--include-json=true" in absent.reason


# A law.

sizes = st.integers(0, 1 << 40)


@given(st.lists(st.tuples(st.sampled_from(["ncclSend", "ncclRecv"]), sizes, st.integers(0, 3)), min_size=1, max_size=6))
def test_a_group_gives_what_its_sends_give(calls: list[tuple[str, int, int]]) -> None:
    """Nested groups are launched when the outermost one ends."""
    members: Members = {(1, 7): (4, 0)}
    told = [
        (row, name, {"NCCL communicator ID": 7, "Message size [bytes]": size, "Peer rank": peer})
        for row, (name, size, peer) in enumerate(calls, 10)
    ]
    begin, end = [(0, "ncclGroupStart", None), (1, "ncclGroupStart", None)], [(98, "ncclGroupEnd", None)]
    [made] = _launched([*begin, *told, *end, (99, "ncclGroupEnd", None)], 1, members)
    sent = [size for name, size, _ in calls if name == "ncclSend"]
    assert made.row == 99
    known = sent and sum(sent) < 1 << 48
    assert made.bytes == (sum(sent) if known else made.bytes)
    peers = {peer for _, _, peer in calls}
    assert (made.peer in peers) == (len(peers) == 1)


# What nobody should write.


@pytest.mark.parametrize(
    "payload",
    [
        '{"NCCL communicator ID":-1,"Message size [bytes]":"x"}',
        '{"Message size [bytes]":1e99}',
        '{"NCCL communicator ID":',
        '["Message size [bytes]"]',
        '{"Message size [bytes]":' + "9" * 30 + "}",
        "[" * 3000 + '"Message size [bytes]"',
    ],
)
def test_payloads_that_say_nothing_are_none(ranks: Path, tmp_path: Path, payload: str) -> None:
    path = tmp_path / "odd.sqlite"
    path.write_bytes((ranks / "rank0.sqlite").read_bytes())
    with sqlite3.connect(path) as export:
        export.execute("UPDATE NVTX_EVENTS SET jsonText = ?, binaryData = NULL WHERE jsonText IS NOT NULL", (payload,))
    export.close()
    trace = open_trace(path)
    assert len(trace[Table.COLLECTIVES]) == 0
    assert {size for _, size in given_by(trace)} == {-1}

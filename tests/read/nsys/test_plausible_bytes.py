"""Bytes that no memory holds are none, and no sum of bytes leaves 64 bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger import open_trace
from gpuledger.errors import UnreadableProfile
from gpuledger.trace.tables import NOT_RECORDED
from support.profiles.nsys_exports import PID, call, kernel, minimal


def export(folder: Path, *amounts: int) -> Path:
    copy = {"globalPid": PID, "copyKind": 1, "correlationId": 1, "streamId": 7}
    copies = [copy | {"start": 30 * at, "end": 30 * at + 9, "bytes": amount} for at, amount in enumerate(amounts)]
    return minimal(folder / "a.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(1, 5)], MEMCPY=copies)


@pytest.mark.parametrize("amount", [2**63 - 1, 2**62, 2**48, -2, -(2**62)])
def test_bytes_that_cannot_be_are_counted_as_not_recorded(tmp_path: Path, amount: int) -> None:
    trace = open_trace(export(tmp_path, 8, amount))
    assert trace["copies"]["bytes"].tolist() == [8, NOT_RECORDED]
    assert ("values-unusable", 1) in {(note.code, note.count) for note in trace.health}


def test_bytes_whose_sum_leaves_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableProfile, match="its copies have more bytes than there can be"):
        open_trace(export(tmp_path, *[2**48 - 1] * 16_400))

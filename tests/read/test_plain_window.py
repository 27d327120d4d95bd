"""The time of a plain run, read from the manifest beside a profile: of this file only, at every open, or none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.read import open_trace
from gpuledger.read.cache.cached_open import finish_writing
from gpuledger.read.plain_window import manifest_of, plain_window_ns
from gpuledger.trace.model import NotMeasured
from gpuledger.trace.tables import Table


def captured(folder: Path, plain: Any, *, name: str = "run.sqlite", manifest: str = "run", **changes: Any) -> Path:
    """A file of two bytes that a capture made, with its manifest beside it."""
    profile = folder / name
    profile.write_bytes(b"ab")
    document = {"schema": "gpuledger.capture/1", "files": [{"name": name, "bytes": 2}], "plain": plain} | changes
    (folder / f"{manifest}.capture.json").write_text(json.dumps(document))
    return profile


@pytest.mark.parametrize("name", ["run.sqlite", "run.nsys-rep", "run.json.gz", "run_3.sqlite"])
def test_the_mean_of_the_windows_is_read(tmp_path: Path, name: str) -> None:
    assert plain_window_ns(manifest_of(captured(tmp_path, {"window_ns": [100, 201]}, name=name))) == 150


def test_a_capture_may_itself_be_called_like_a_rank(tmp_path: Path) -> None:
    captured(tmp_path, {"window_ns": [100]}, name="run.sqlite")
    profile = captured(tmp_path, {"window_ns": [300]}, name="run_3.sqlite", manifest="run_3")
    assert plain_window_ns(manifest_of(profile)) == 300


@pytest.mark.parametrize(
    ("plain", "changes", "reason"),
    [
        (None, {}, "the program was not run unprofiled before the capture"),
        ({"window_ns": None, "reason": "left out"}, {}, "no unprofiled run was timed before the capture: left out"),
        (
            {"window_ns": [5]},
            {"files": [{"name": "run.sqlite", "bytes": 3}]},
            "run.capture.json describes another profile",
        ),
        (
            {"window_ns": [5]},
            {"files": [{"name": "a.sqlite", "bytes": 2}]},
            "run.capture.json describes another profile",
        ),
        ({"window_ns": [5]}, {"schema": "gpuledger.capture/2"}, "there is no `gpuledger capture` manifest next to"),
        ({"window_ns": [0]}, {}, "has no readable time"),
    ],
)
def test_why_there_is_none_is_said(tmp_path: Path, plain: Any, changes: dict[str, Any], reason: str) -> None:
    found = plain_window_ns(manifest_of(captured(tmp_path, plain, **changes)))
    assert isinstance(found, NotMeasured)
    assert reason in found.reason


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 200_000, b'{"schema": 1}', b"1" * 5000])
def test_a_manifest_that_is_none_is_passed_over(tmp_path: Path, content: bytes) -> None:
    profile = captured(tmp_path, None)
    (tmp_path / "run.capture.json").write_bytes(content)
    assert isinstance(plain_window_ns(manifest_of(profile)), NotMeasured)


def test_a_pipe_of_that_name_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").touch()
    os.mkfifo(tmp_path / "run.capture.json")
    assert isinstance(plain_window_ns(manifest_of(tmp_path / "run.sqlite")), NotMeasured)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["window_ns", "reason"]), inner),
    max_leaves=6,
)


@given(anything)
def test_whatever_a_manifest_holds_it_is_a_time_or_a_reason(plain: Any) -> None:
    found = plain_window_ns({"plain": plain})
    assert (found > 0) if isinstance(found, int) else found.reason


def test_a_trace_carries_it_also_from_the_cache_and_never_a_stale_one(
    tmp_path: Path, decode: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPULEDGER_CACHE", "always")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "profiles"
    folder.mkdir()
    shutil.copyfile(decode, folder / "run.sqlite")
    os.utime(folder / "run.sqlite", (1, 1))  # long settled: what was written just now is not kept
    size = (folder / "run.sqlite").stat().st_size
    found = []
    for windows in (None, [300], [500], None):
        document = {
            "schema": "gpuledger.capture/1",
            "files": [{"name": "run.sqlite", "bytes": size}],
            "plain": {"window_ns": windows, "reason": "left out"},
        }
        (folder / "run.capture.json").write_text(json.dumps(document))
        found.append(open_trace(folder / "run.sqlite", only=[Table.KERNELS]).plain_window_ns)
        finish_writing()
    assert len(list((tmp_path / "cache").rglob("*.trace"))) == 1
    assert found[1:3] == [300, 500]
    assert isinstance(found[0], NotMeasured)
    assert isinstance(found[3], NotMeasured)

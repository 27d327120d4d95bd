"""Profiles of JAX and TensorFlow: a made run, TPUs, an independent count of busy time, hostile bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.ledger.device import analyse_devices
from gpuledger.read import open_trace
from gpuledger.read.protobuf import message_columns, parts
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from support.command import ROOT
from support.profiles import xplane_files
from support.profiles.xplane_files import (
    BUSY_NS,
    COPY,
    KERNEL,
    MadePlane,
    gpu_plane,
    host_plane,
    inside,
    number,
    xplane,
)

CORPUS = ROOT.parent / "shared" / "corpus" / "xplane"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return open_trace(xplane(tmp_path_factory.mktemp("jax") / "run.pb"), only=tuple(Table), cache=False)


def test_work_on_the_gpu_is_read_once(trace: Trace) -> None:
    kernels, copies = trace.kernels, trace.copies
    assert (kernels.texts("name"), kernels["start_ns"].tolist(), kernels["end_ns"].tolist()) == (
        [KERNEL[0]],
        [KERNEL[1]],
        [KERNEL[2]],
    )
    assert [kernels[name].tolist() for name in ("stream", "correlation", "registers")] == [[13], [7], [32]]
    assert [kernels[name].tolist() for name in ("grid", "block")] == [[[4, 2, 1]], [[256, 1, 1]]]
    assert [kernels[f"smem_{kind}_bytes"].tolist() for kind in ("static", "dynamic")] == [[16], [64]]
    assert (copies.texts("kind"), copies["bytes"].tolist()) == (["Host-to-Device"], [4096])
    assert (copies["start_ns"].tolist(), copies["end_ns"].tolist()) == ([COPY[1]], [COPY[2]])
    [device] = analyse_devices(trace, "run", Selection())
    lines = [place for place, line in enumerate(device.ledger.lines) if not line.startswith("idle")]
    assert int(device.ledger.books[:, lines].sum()) == BUSY_NS
    assert dict(trace.origin.source_rows)["XLA Ops (shown again)"] == 1


def test_calls_steps_python_and_the_operator_around_its_launch(trace: Trace) -> None:
    assert trace.calls.texts("name") == ["cuMemcpyHtoDAsync_v2", "cuLaunchKernel"]
    assert (trace.calls["correlation"].tolist(), set(trace.calls.texts("layer"))) == ([8, 7], {"driver"})
    ranges = trace.ranges
    read = zip(
        ranges.texts("kind"), ranges.texts("name"), ranges.texts("domain"), ranges["start_ns"].tolist(), strict=True
    )
    assert sorted(read) == [
        ("op", "fusion.3", "jit_step", 1_000),
        ("push_pop", "train 3", "", 100),
        ("push_pop", "train 4", "", 4_000),
        ("python", "train.py(12): step", "", 150),
    ]
    assert set(ranges["tid"].tolist()) == set(trace.calls["tid"].tolist()) == {77}


def test_the_gpu_is_described(trace: Trace) -> None:
    [gpu] = trace.origin.gpus
    assert (gpu.name, gpu.sm_count, gpu.compute_capability) == ("NVIDIA GPU", 132, (9, 0))
    assert trace.origin.started_utc == "2026-02-20 13:54:10"


def test_a_tpu_is_no_gpu(tmp_path: Path) -> None:
    tpu = MadePlane("/device:TPU:0")
    tpu.line("XLA Ops", ("fusion", 100, 200, {}), ("fusion", 300, 400, {}))
    with pytest.raises(UnreadableProfile, match="did not run on a GPU") as refusal:
        open_trace(xplane(tmp_path / "a.pb", tpu, host_plane()), cache=False)
    assert refusal.value.found == "2 events of /device:TPU:0"
    [note] = open_trace(xplane(tmp_path / "b.pb", tpu, gpu_plane()), cache=False).health[:1]
    assert (note.code, note.count) == ("planes-not-gpu", 2)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2**64 - 1) | st.binary(max_size=9)), max_size=6),
        max_size=6,
    )
)
def test_columns_hold_what_a_walk_finds(messages: list[list[tuple[int, int | bytes]]]) -> None:
    encoded = [
        b"".join(number(field, value) if isinstance(value, int) else inside(field, value) for field, value in message)
        for message in messages
    ]
    whole = b"".join(encoded)
    ends = np.cumsum([len(message) for message in encoded], dtype=np.int64)
    starts = ends - np.array([len(message) for message in encoded], np.int64)
    split = message_columns(np.frombuffer(whole, np.uint8), starts, ends)
    for owner, message in enumerate(messages):
        mine = split.owner == owner
        walked = list(parts(whole, int(starts[owner]), int(ends[owner])))
        assert [(part.field, part.start, part.end) for part in walked] == list(
            zip(*(column[mine].tolist() for column in (split.field, split.start, split.end)), strict=True)
        )
        numbers = [value for _, value in message if isinstance(value, int)]
        plain = [part.value for part, (_, value) in zip(walked, message, strict=True) if isinstance(value, int)]
        assert plain == numbers


def test_hostile_bytes_give_a_trace_or_one_sentence(tmp_path: Path) -> None:
    content, rng = xplane(tmp_path / "whole.pb").read_bytes(), random.Random(3)
    path, read, sentences = tmp_path / "changed.pb", 0, list[str]()
    for _ in range(400):
        changed = bytearray(content)
        for place in (rng.randrange(len(changed)) for _ in range(rng.randrange(1, 6))):
            changed[place] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        path.write_bytes(changed[: rng.choice((len(changed), rng.randrange(1, len(changed))))])
        try:
            open_trace(path, only=tuple(Table), cache=False)
            read += 1
        except GpuledgerError as error:
            sentences.append(str(error))
    assert read
    assert sentences
    assert not any("\n" in sentence for sentence in sentences)


def test_a_profile_that_was_cut_is_told(tmp_path: Path) -> None:
    path = xplane(tmp_path / "a.pb")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(UnreadableProfile, match="a damaged profile of JAX or TensorFlow"):
        open_trace(path, cache=False)


def _walk(message: bytes) -> Iterator[tuple[int, Any]]:
    """Protocol buffers once more, written for this test alone."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, message[at : at + size]
            at += size


def _busy_ns(content: bytes) -> dict[str, int]:
    """Busy time of each GPU, as the union of the events on its streams."""
    busy = {}
    for plane in (dict_of for field, dict_of in _walk(content) if field == 1):
        held = list(_walk(plane))
        name = next(value for field, value in held if field == 2).decode()
        spans = []
        for line in (list(_walk(value)) for field, value in held if field == 3):
            of_line = dict(line)
            if of_line.get(2, b"").startswith(b"Stream #"):
                for event in (dict(_walk(value)) for field, value in line if field == 4):
                    start = event.get(2, 0)
                    base = of_line.get(3, 0)
                    spans.append((base + start // 1000, base + (start + event.get(3, 0)) // 1000))
        total, until = 0, 0
        for start, end in sorted(spans):
            total += max(0, end - max(start, until))
            until = max(until, end)
        if total:
            busy[name] = total
    return busy


@pytest.mark.parametrize(
    "path", sorted(CORPUS.glob("*.pb")) if CORPUS.is_dir() else [], ids=lambda path: path.name[-30:]
)
def test_public_profiles_agree_with_an_independent_reading(path: Path) -> None:
    trace = open_trace(path, cache=False)
    booked = {}
    for device in analyse_devices(trace, path.name, Selection()):
        lines = [place for place, line in enumerate(device.ledger.lines) if not line.startswith("idle")]
        booked[f"/device:GPU:{device.gpu}"] = int(device.ledger.books[:, lines].sum())
    assert booked == _busy_ns(path.read_bytes())


def test_the_made_run_agrees_too(tmp_path: Path) -> None:
    assert _busy_ns(xplane_files.xplane(tmp_path / "a.pb").read_bytes()) == {"/device:GPU:0": BUSY_NS}

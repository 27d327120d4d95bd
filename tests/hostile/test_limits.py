"""Caps on what reading may cost: each is kept, each can be raised, and the refusal says how."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from exports import kernel, minimal
from gpuledger import Limits, Table, UnreadableProfile, open_trace
from gpuledger.read.exact import nanoseconds
from gpuledger.read.times import LARGEST
from hostile.containers import bomb
from hostile.files import trace
from hostile.forked import server
from hostile.jsons import op_args

PAGE = ROOT / "docs" / "concepts" / "security.md"


@pytest.mark.parametrize(
    ("given_as", "complaint"),
    [
        ("speed=1", "no limit 'speed'; there are read-seconds, rows-per-table"),
        ("gpus", "'' is no value of gpus; write e.g. gpus=1000"),
        ("gpus=many", "'many' is no value of gpus"),
        ("gpus=-1", "'-1' is no value of gpus"),
        ("gpus=1s", "'1s' is no value of gpus"),
        ("unpacked-bytes=5s", "'5s' is no value of unpacked-bytes; write e.g. unpacked-bytes=500MB"),
        ("read-seconds=1GB", "'1GB' is no value of read-seconds; write e.g. read-seconds=60"),
        ("event-bytes=1e999", "'1e999' is no value of event-bytes"),
    ],
)
def test_a_limit_that_is_none_is_a_usage_error(given_as: str, complaint: str, tmp_path: Path) -> None:
    ran = server().run("info", f"--limit={given_as}", trace(tmp_path / "a.json"), folder=tmp_path / "ran")
    assert ran.exit_code == 2
    assert complaint in " ".join(ran.said.split())


@pytest.mark.parametrize("value", ["20000000", "20MB", "20 MB", "2e7", "0.02GB", "20000kB"])
def test_a_limit_may_be_written_in_several_ways(value: str, tmp_path: Path) -> None:
    path = bomb(b"{", b" ", 1 << 25)(tmp_path)
    ran = server().run("info", f"--limit=unpacked-bytes={value}", path, folder=tmp_path / "ran")
    assert "unpacks to more than 20.0 MB" in ran.said


def test_the_last_of_several_counts_and_others_stay(tmp_path: Path) -> None:
    path = trace(tmp_path / "a.json")
    limits = ("--limit=read-seconds=0", "--limit=gpus=1", "--limit=read-seconds=60")
    assert server().run("info", *limits, path, folder=tmp_path / "ran").exit_code == 0


def test_what_a_hint_proposes_is_understood_and_helps(tmp_path: Path) -> None:
    path = bomb(b'{"traceEvents": [{"ph": "X"},', b" ", 1 << 24)(tmp_path)
    ran = server().run("info", "--limit=unpacked-bytes=10MB", path, folder=tmp_path / "a")
    [proposed] = re.findall(r"--limit=\S+", ran.said)
    assert "unpacks to more" not in server().run("info", proposed, path, folder=tmp_path / "b").said


@pytest.mark.parametrize("verb", ["gaps", "steps", "stats", "whatif", "ncu-plan", "report", "info", "ranges", "memory"])
def test_every_verb_that_reads_one_profile_has_it(verb: str, tmp_path: Path) -> None:
    more = ("--speedup=gemm=2",) if verb == "whatif" else ()
    path = trace(tmp_path / "a.json")
    ran = server().run(verb, "--limit=read-seconds=0", *more, path, folder=tmp_path / "ran")
    assert "reading took more than 0 s" in ran.said


def test_an_event_may_be_as_deep_as_is_allowed(tmp_path: Path) -> None:
    path = op_args(b'{"x": ' + b"[" * 3000 + b"]" * 3000 + b"}")(tmp_path)
    assert [note.code for note in open_trace(path).health] == ["events-unreadable"]
    assert not open_trace(path, limits=Limits(event_depth=4000)).health
    assert open_trace(path, limits=Limits(event_depth=10**9))[Table.KERNELS]  # no deeper than the stack


def test_more_gpus_than_there_can_be(tmp_path: Path) -> None:
    path = minimal(tmp_path / "a.sqlite", KERNEL=[kernel(at, at + 1, deviceId=at) for at in range(20)])
    with pytest.raises(UnreadableProfile, match="names 20 GPUs, more than 19"):
        open_trace(path, limits=Limits(gpus=19))
    assert len(open_trace(path, limits=Limits(gpus=20)).origin.gpus) == 20


@given(st.lists(st.one_of(st.integers(-(10**20), 10**20).map(str), st.sampled_from(ODD := ("1e999999999", "[1, 2]")))))
def test_a_time_is_within_bounds_or_none(texts: list[str]) -> None:
    found, usable = nanoseconds([text.encode() for text in texts])
    for text, ns, good in zip(texts, found.tolist(), usable.tolist(), strict=True):
        assert good is (text not in ODD and abs(int(text) * 1000) < LARGEST)
        assert ns == (int(text) * 1000 if good else 0)


def test_the_page_lists_every_limit() -> None:
    text = PAGE.read_text()
    for field in fields(Limits):
        assert f"`{field.name.replace('_', '-')}`" in text

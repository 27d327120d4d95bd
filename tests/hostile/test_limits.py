"""Caps on what reading may cost: each is kept, each can be raised, and the refusal says how."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Limits, Table, UnreadableProfile, open_trace
from gpuledger.read.checked_tables import LARGEST
from gpuledger.read.ncu.reader import open_kernels
from gpuledger.read.stats_text.tables import open_summaries
from gpuledger.read.torch.events import nanoseconds
from gpuledger.verbs import VERBS
from hostile.containers import bomb
from hostile.databases import many_rows
from hostile.files import trace
from hostile.forked import server
from hostile.jsons import op_args
from hostile.reports import raw, row
from support.command import CAPTURES, ROOT, gpuledger
from support.profiles.nsys_exports import kernel, minimal
from torture.growth import cpu_s

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


READS_NONE = {"time", "capture", "doctor", "bench", "run", "explain", "mcp"}
"""The verbs that are given no profile; what is asked of `mcp` has its own test."""
PROFILE = "PROFILE"
CALLS: dict[str, tuple[str, ...]] = {
    "whatif": (PROFILE, "--speedup=gemm=2"),
    "query": (PROFILE, "SELECT count(*) FROM calls"),
    "diff": (PROFILE, PROFILE),
    "align": (PROFILE, PROFILE),
    "fleet": (PROFILE, "--workers=0"),
    "export": (PROFILE, "-o", "a.pftrace"),
    "view": (PROFILE, "--no-browser"),
    "history": ("add", PROFILE, "--store=runs"),
}
"""How a verb is called, if not with a profile alone."""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in READS_NONE])
@pytest.mark.parametrize("kind", ["export", "trace"])
def test_every_verb_that_reads_a_profile_has_it(verb: str, kind: str, tmp_path: Path) -> None:
    if verb == "view":
        pytest.importorskip("viztracer")
    if verb == "kernels":
        path, limit, said = raw(row("1,000", "2.5"))(tmp_path), "event-bytes=10", "a line is longer than 10 B"
    else:
        path = many_rows(30_000)(tmp_path) if kind == "export" else trace(tmp_path / "a.json")
        limit, said = "read-seconds=0", "took more than 0 s"
    call = [str(path) if each == PROFILE else each for each in CALLS.get(verb, (PROFILE,))]
    ran = server().run(verb, *call, f"--limit={limit}", folder=tmp_path / "ran")
    assert (ran.exit_code, ran.stdout) == (1, b"")
    assert said in ran.said
    assert "--limit=" in ran.said or verb == "fleet"  # which names each profile with its first sentence


@pytest.mark.parametrize("call", [("export", "-o", "a.parquet"), ("export", "-o", "a.json"), ("fleet", "--workers=2")])
def test_other_ways_of_reading_know_the_limits_too(call: tuple[str, ...], tmp_path: Path) -> None:
    if "--workers=2" in call:
        pytest.importorskip("distributed")
    folder = tmp_path / "ranks"
    folder.mkdir()
    for name in ("a.json", "b.json"):
        trace(folder / name)
    given = folder / "a.json" if "a.parquet" in call else folder
    ran = gpuledger(*call[:1], "--limit=read-seconds=0", given, *call[1:], cwd=tmp_path)
    assert "took more than 0 s" in ran.stderr


def test_tables_as_text_are_read_in_time_too(tmp_path: Path) -> None:
    limits = Limits(read_seconds=0)
    with pytest.raises(UnreadableProfile, match="took more than 0 s"):
        open_kernels([raw(row("1,000", "2.5"))(tmp_path)], limits=limits)
    with pytest.raises(UnreadableProfile, match="took more than 0 s"):
        open_summaries(CAPTURES / "decode.nsys-stats", limits=limits)
    with pytest.raises(UnreadableProfile, match="took more than 0 s"):
        open_trace(many_rows(3)(tmp_path), limits=limits)  # too few for SQLite to ask


def test_a_cell_of_many_lines_takes_time_by_its_length(tmp_path: Path) -> None:
    """Each line looked at the whole cell again: 2 MB took minutes."""
    path = raw(row("x\n" * 200_000, "2.5"))(tmp_path)
    assert cpu_s(lambda: open_kernels([path])) < 4


def test_both_sides_know_the_limits(tmp_path: Path) -> None:
    small = minimal(tmp_path / "small.sqlite", KERNEL=[kernel(at, at + 1) for at in range(9)])
    large = many_rows(30)(tmp_path)
    for verb in ("align", "diff"):
        for sides in ((small, large), (large, small)):
            ran = server().run(verb, "--limit=rows-per-table=20", *sides, folder=tmp_path / "ran")
            assert "a.sqlite: table CUPTI_ACTIVITY_KIND_KERNEL has more than 20 rows" in ran.said


def test_a_baseline_may_be_as_large_as_is_allowed(decode: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    saved = server().run("diff", decode, f"--save-baseline={base}", folder=tmp_path / "a")
    assert saved.exit_code == 0, saved.said
    refused = server().run("diff", "--limit=event-bytes=50", base, decode, folder=tmp_path / "b")
    assert "no baseline is larger than 50 B" in refused.said
    [proposed] = re.findall(r"--limit=\S+", refused.said)
    assert server().run("diff", proposed, base, decode, folder=tmp_path / "c").exit_code == 0


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
    for name in Limits.__struct_fields__:
        assert f"`{name.replace('_', '-')}`" in text

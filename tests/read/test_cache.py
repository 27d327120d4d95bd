"""The cache: the same answers from it as without it, whatever happens to its files, and to the profile."""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuledger import Table, open_trace
from gpuledger.cli.main import cli
from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import joined, say, translated
from gpuledger.present.writers.json import json_text
from gpuledger.read import cache as policy
from gpuledger.read import wanted_columns
from gpuledger.read.cache import cached_open
from gpuledger.read.cache.store import fingerprint, pack_trace, unpack_trace
from gpuledger.read.source import look_at
from gpuledger.read.sqlite import SqliteReader
from gpuledger.selection import Selection
from gpuledger.system import kept_files
from gpuledger.system.kept_files import FileState, KeptFiles
from gpuledger.trace.model import Gpu, Note, NotMeasured, Origin, Private, Process, Severity, Trace
from gpuledger.trace.strings import Stacks, Strings
from gpuledger.trace.tables import Kind, Rows
from gpuledger.verbs.report import build_report
from support.command import NAMES, PATIENCE_S, ROOT, gpuledger, gpuledger_process
from support.thorough import some, tries

WHOLE = wanted_columns(tuple(Table))
STACKED = ("host_read_stacks", "numpy_samples")
TORCH = sorted((ROOT / "captures" / "torch").glob("*.json.gz"))
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of a cache that keeps every profile, however small."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GPULEDGER_CACHE", "always")
    yield tmp_path / "cache" / "gpuledger" / "traces"
    cached_open.finish_writing()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the SQLite files that are read, rather than found in the cache."""
    names: list[str] = []
    read = SqliteReader.read

    def noted(self: SqliteReader, source: Any, *about: Any) -> Trace:
        names.append(source.name)
        return read(self, source, *about)

    monkeypatch.setattr(SqliteReader, "read", noted)
    return names


@pytest.fixture
def profile(tmp_path: Path, decode: Path) -> Path:
    """A profile to be played with, alone in its folder."""
    (tmp_path / "runs").mkdir()
    return settled(Path(shutil.copy(decode, tmp_path / "runs" / "run.sqlite")))


def settled(path: Path) -> Path:
    """The same file, once the file system's clock has moved on."""
    while time.time_ns() - path.stat().st_ctime_ns < SECOND // 10:
        time.sleep(0.01)
    return path


def opened(path: Path, **about: Any) -> Trace:
    """Open a profile, and have what is kept of it on disk."""
    trace = open_trace(path, **about)
    cached_open.finish_writing()
    return trace


def stored(folder: Path) -> list[Path]:
    return sorted(folder.glob("*")) if folder.exists() else []


def same(a: Trace, b: Trace) -> bool:
    """Whether two traces are the same in all that there is to a trace."""
    return (
        a.same_events(b)
        and (a.origin, a.health, a.strings, dict(a.absent)) == (b.origin, b.health, b.strings, dict(b.absent))
        and (list(a.tables), list(a.absent)) == (list(b.tables), list(b.absent))
        and np.array_equal(a.stacks.offsets, b.stacks.offsets)
        and np.array_equal(a.stacks.frames, b.stacks.frames)
        and [translated(note.sentence, "zh") for note in a.health]
        == [translated(note.sentence, "zh") for note in b.health]
    )


def in_memory(trace: Trace, key: str = "k") -> bytes:
    return b"".join(pack_trace(trace, key).pieces())


# Examples


def test_the_second_open_reads_nothing(kept: Path, profile: Path, reads: list[str]) -> None:
    first = opened(profile)
    second = open_trace(profile)
    assert reads == ["run.sqlite"]
    assert same(first, second)
    assert same(second, open_trace(profile, cache=False))
    with pytest.raises(ValueError, match="read-only"):
        second[Table.KERNELS]["start_ns"][0] = 0


def test_a_column_of_one_value_takes_no_room(kept: Path, profile: Path) -> None:
    opened(profile)
    kernels = open_trace(profile)[Table.KERNELS]
    assert kernels["gpu"].strides == (0,)
    assert kernels["start_ns"].strides == (8,)


def test_only_the_owner_may_look_and_nothing_lies_beside_the_profile(kept: Path, profile: Path) -> None:
    before = os.umask(0)
    try:
        opened(profile)
    finally:
        os.umask(before)
    [file] = stored(kept)
    assert (kept.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert os.listdir(profile.parent) == ["run.sqlite"]


def test_small_profiles_never_touch_the_cache(
    kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    monkeypatch.delenv("GPULEDGER_CACHE")
    monkeypatch.setattr(cached_open, "WORTH_S", 0.0)
    monkeypatch.setattr(cached_open, "fingerprint", None)  # not even looked at
    opened(profile)
    opened(profile)
    assert len(reads) == 2
    assert not kept.exists()


def test_what_is_read_in_no_time_is_not_kept(kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPULEDGER_CACHE")
    monkeypatch.setattr(cached_open, "SMALL_BYTES", 0)
    monkeypatch.setattr(policy, "SMALL_BYTES", 0)
    monkeypatch.setattr(cached_open, "WORTH_S", 1e9)
    opened(profile)
    assert not stored(kept)
    monkeypatch.setattr(cached_open, "WORTH_S", 0.0)
    opened(profile)
    assert len(stored(kept)) == 1


def test_it_can_be_switched_off(kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]) -> None:
    opened(profile, cache=False)
    monkeypatch.setenv("GPULEDGER_CACHE", "0")
    opened(profile)
    assert not kept.exists()
    monkeypatch.setenv("GPULEDGER_CACHE", "always")
    opened(profile)
    monkeypatch.setenv("GPULEDGER_CACHE", "0")
    opened(profile)
    assert len(reads) == 4


def test_the_command_writes_before_it_ends_and_reads_what_it_wrote(kept: Path, profile: Path) -> None:
    without = gpuledger("report", profile, "--format=json", "--no-cache")
    assert not kept.exists()
    cold = gpuledger_process("report", profile, "--format=json")
    [file] = stored(kept)
    used = file.stat().st_atime_ns
    shutil.rmtree(kept.with_name("answers"))  # else the answer itself is there again
    warm = gpuledger_process("report", profile, "--format=json")
    assert file.stat().st_atime_ns > used
    assert (without.exit_code, without.stderr) == (0, "")
    assert without == cold == warm
    again = gpuledger("report", profile, "--format=json", "--no-cache")
    assert again == warm


# The same with and without


@pytest.mark.parametrize("name", some([*NAMES, *STACKED], 3))
def test_every_capture_gives_the_same_report(name: str, kept: Path, unpacked: Callable[[str], Path]) -> None:
    path = settled(unpacked(f"{name}.sqlite"))
    traces = [open_trace(path, cache=False), opened(path), open_trace(path)]
    assert stored(kept)
    assert same(traces[0], traces[2])
    assert len({json_text(build_report(trace, name, Selection()).to_dict()) for trace in traces}) == 1


@pytest.mark.parametrize("path", some(TORCH, 3), ids=lambda path: path.name)
def test_torch_traces_go_through_it_too(path: Path, kept: Path) -> None:
    traces = [open_trace(path, cache=False), opened(path), open_trace(path)]
    assert stored(kept)
    assert same(traces[0], traces[2])
    assert len({json_text(build_report(trace, path.name, Selection()).to_dict()) for trace in traces}) == 1


def test_members_of_an_archive_are_told_apart(kept: Path, tmp_path: Path) -> None:
    archive = tmp_path / "ranks.tar"
    with tarfile.open(archive, "w") as tar:
        for number, path in enumerate(TORCH[:2]):
            tar.add(path, f"rank{number}.json.gz")
    settled(archive)
    cold = [opened(Path(f"{archive}::rank{number}.json.gz")) for number in range(2)]
    warm = [open_trace(f"{archive}::rank{number}.json.gz") for number in range(2)]
    assert len(stored(kept)) == 2
    assert same(cold[0], warm[0])
    assert same(cold[1], warm[1])
    assert not cold[0].same_events(cold[1])


def test_a_folder_is_known_by_all_its_files(kept: Path, tmp_path: Path, unpacked: Callable[[str], Path]) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "run"
    shutil.copytree(unpacked("decode.parquetdir.tar"), folder)
    for file in folder.iterdir():
        settled(file)
    cold = opened(folder)
    assert same(cold, open_trace(folder))
    before = fingerprint(look_at(folder))
    os.utime(next(folder.glob("NVTX_EVENTS*")))
    assert fingerprint(look_at(folder)) != before
    (folder / "pipe").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe")
    assert fingerprint(look_at(folder)) is None  # and does not wait for somebody to write to it


VERBS = ("report", "info", "stats", "gaps", "steps", "memory", "ranges", "ops", "kernels")
OTHERS = (("fleet", "--workers=0"), ("whatif", "--speedup=gemm=2"), ("diff", "{profile}"), ("align", "{profile}"))
KEPT = r',\s*("kept in the cache: [^"]*"|"kept": (null|\{[^}]*\}))'
"""What `info` says is kept: there is more each time."""


@pytest.mark.parametrize("verb", [*((verb,) for verb in VERBS), *OTHERS], ids=lambda verb: verb[0])
def test_every_verb_says_the_same(verb: tuple[str, ...], kept: Path, profile: Path, reads: list[str]) -> None:
    """No analysis writes to a column, or minds that it is mapped, or one value repeated."""
    rest = [each.format(profile=profile) for each in verb[1:]]
    call = [verb[0], str(profile), *rest, "--format=json"]
    said = [CliRunner().invoke(cli, [*call, *more]) for more in (["--no-cache"], [], [])]
    cached_open.finish_writing()
    reads.clear()
    said.append(CliRunner().invoke(cli, call))
    assert not reads
    assert {each.exit_code for each in said} == {0}
    assert len({re.sub(KEPT, "", each.output) for each in said}) == 1
    assert len(said[0].output) > 100


@pytest.mark.parametrize("ending", [".pftrace", ".json"])
def test_exports_are_the_same(ending: str, kept: Path, profile: Path, tmp_path: Path) -> None:
    opened(profile)
    for name, more in (("warm", []), ("without", ["--no-cache"])):
        done = CliRunner().invoke(cli, ["export", str(profile), "-o", str(tmp_path / (name + ending)), *more])
        assert done.exit_code == 0
    assert (tmp_path / f"warm{ending}").read_bytes() == (tmp_path / f"without{ending}").read_bytes()


def test_a_request_is_answered_by_its_own_answer_alone(kept: Path, profile: Path, reads: list[str]) -> None:
    """Which processes are seen, and what is doubted, depends on what was asked for."""
    part = {Table.KERNELS: ("name",)}
    opened(profile)
    assert same(opened(profile, only=part), open_trace(profile, only=part, cache=False))
    assert same(open_trace(profile, only=part), open_trace(profile, only=part, cache=False))
    short = Limits(text_bytes=10)
    assert same(opened(profile, limits=short), open_trace(profile, limits=short, cache=False))
    assert same(open_trace(profile, limits=short), open_trace(profile, limits=short, cache=False))
    assert open_trace(profile, limits=short).strings != open_trace(profile).strings
    assert len(stored(kept)) == 3


# Laws


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any small trace: odd texts, empty tables, columns of one value and of several."""
    texts = Strings(draw(st.lists(st.text(st.characters(codec=None), max_size=5), unique=True, max_size=5)))
    present = draw(st.sets(st.sampled_from(Table), max_size=4))
    tables = {}
    for table in (each for each in Table if each in present):
        count = draw(st.integers(0, 4))
        columns = {}
        for column in table.schema.columns:
            if column.kind is Kind.TEXT:
                values = st.integers(-1, len(texts) - 1)
            elif column.kind is Kind.FLAG:
                values = st.integers(0, 1)
            else:
                most = np.iinfo(column.kind.dtype)
                values = st.integers(int(most.min), int(most.max))
            size = count * (3 if column.kind is Kind.TRIPLE else 1)
            drawn = draw(st.lists(values, min_size=size, max_size=size))
            found = np.array(drawn, column.kind.dtype)
            columns[column.name] = found.reshape(-1, 3) if column.kind is Kind.TRIPLE else found
        tables[table] = Rows(table.schema, columns, texts)
    some = st.text(st.characters(codec=None), max_size=5)
    says = st.one_of(some, st.builds(lambda a, b: say("{a} of {b}", a=a, b=b), some, st.integers()))
    nested = st.one_of(says, st.builds(lambda a, b: joined(say(" or "), [a, b]), says, says))
    notes = st.builds(Note, st.sampled_from(Severity), some, nested, st.integers(0))
    origin = Origin(
        draw(some),
        "sqlite",
        gpus=(Gpu(draw(some), compute_capability=(9, 0)), Gpu("b", memory_bytes=1 << 63)),
        processes=(Process(1, None), Process(2, draw(some))),
        asked_for=draw(st.none() | st.lists(some).map(tuple)),
        source_rows=((draw(some), 3),),
        private=Private((draw(some),), None, ((draw(some), draw(some)),)),
    )
    absent = {table: NotMeasured(draw(says)) for table in Table if table not in tables}
    frames = np.array(draw(st.lists(st.integers(0, 9), max_size=3)), np.int32)
    stacks = Stacks(np.array([0, len(frames)], np.int64), frames)
    return Trace(origin, tuple(draw(st.lists(notes, max_size=3))), texts, tables, absent, stacks)


@given(traces())
def test_what_is_stored_comes_back(trace: Trace) -> None:
    made = pack_trace(trace, "k")
    whole = b"".join(made.pieces())
    assert len(whole) == made.total_bytes
    assert same(unpack_trace(whole, "k", WHOLE), trace)


SMALL = b""


def small() -> bytes:
    """The stored form of one capture, and the trace that it must give."""
    global SMALL
    if not SMALL:
        SMALL = in_memory(a_trace())
    return SMALL


def a_trace() -> Trace:
    texts = Strings(["gemm", "copy", "käse \ud800"])
    count = 3
    tables = {}
    for table in (Table.KERNELS, Table.RANGES):
        columns = {}
        for column in table.schema.columns:
            shape = (count, 3) if column.kind is Kind.TRIPLE else (count,)
            columns[column.name] = (np.arange(int(np.prod(shape))).reshape(shape) % 2).astype(column.kind.dtype)
        tables[table] = Rows(table.schema, columns, texts)
    absent = {table: NotMeasured("no") for table in Table if table not in tables}
    notes = (Note(Severity.LOSS, "c", say("{n} lost", n=3)),)
    return Trace(Origin("nsys", "sqlite"), notes, texts, tables, absent)


@given(st.data())
@settings(max_examples=tries(20))
def test_a_damaged_file_is_refused_or_makes_no_difference(data: st.DataObject) -> None:
    """Every byte but the padding is under a checksum."""
    whole = bytearray(small())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = unpack_trace(bytes(whole), "k", WHOLE)
    except ValueError:
        return
    assert same(found, a_trace())


@given(st.integers(0, 10**6), st.binary(max_size=100))
def test_a_file_of_another_length_is_refused(kept_bytes: int, more: bytes) -> None:
    whole = small()[: kept_bytes % len(small())] + more
    if whole != small():
        with pytest.raises(ValueError, match=r"header|file"):
            unpack_trace(whole, "k", WHOLE)


def test_another_key_or_request_is_refused() -> None:
    with pytest.raises(ValueError, match="another file"):
        unpack_trace(small(), "other", WHOLE)
    with pytest.raises(ValueError, match="asked for"):
        unpack_trace(small(), "k", {Table.KERNELS: frozenset(("start_ns", "end_ns"))})


def test_texts_are_made_when_they_are_asked_for() -> None:
    calls = []

    def load() -> list[str]:
        calls.append(1)
        return ["a", "b"]

    strings = Strings.later(2, load)
    assert (len(strings), calls) == (2, [])
    assert (strings.code("b"), strings.text(0), strings.texts, calls) == (1, "a", ("a", "b"), [1])
    assert pickle.loads(pickle.dumps(strings)) == strings == Strings(["a", "b"])  # noqa: S301


# The profile changes


def test_a_touched_profile_is_read_again_and_its_old_state_forgotten(
    kept: Path, profile: Path, reads: list[str]
) -> None:
    opened(profile)
    [old] = stored(kept)
    os.utime(profile)
    settled(profile)
    opened(profile)
    opened(profile)
    assert len(reads) == 2
    [new] = stored(kept)
    assert new != old


def test_a_profile_rewritten_with_its_size_and_time_is_read_again(
    kept: Path, profile: Path, reads: list[str], unpacked: Callable[[str], Path]
) -> None:
    first = opened(profile)
    status = profile.stat()
    content = bytearray(profile.read_bytes())
    at = content.index(b"cudaLaunchKernel")
    content[at : at + 4] = b"kuda"
    profile.write_bytes(content)
    os.utime(profile, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert profile.stat().st_mtime_ns == status.st_mtime_ns
    assert opened(profile).strings != first.strings
    assert len(reads) == 2


def test_the_sample_sees_what_the_times_do_not(profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a drive that keeps no times."""
    real = os.fstat

    class Timeless:
        def __init__(self, status: os.stat_result) -> None:
            self.st_size, self.st_mtime_ns, self.st_ctime_ns = status.st_size, 0, 0
            self.st_dev, self.st_ino = status.st_dev, status.st_ino

    monkeypatch.setattr("gpuledger.system.kept_files.os.fstat", lambda descriptor: Timeless(real(descriptor)))
    size = profile.stat().st_size
    seen = {fingerprint(look_at(profile))}
    for at in (600, 60_000, size // 16, size // 2, size - 60_000, size - 1):
        content = bytearray(profile.read_bytes())
        content[at] ^= 1
        profile.write_bytes(content)
        seen.add(fingerprint(look_at(profile)))
    assert len(seen) == 7


def test_a_file_that_may_still_change_within_its_tick_is_not_kept(kept: Path, profile: Path) -> None:
    fresh = FileState("s", 1, changed_ns=MINUTE + 1)
    whole_seconds = FileState("s", 1, changed_ns=MINUTE)
    assert [fresh.was_settled(MINUTE + late) for late in (-SECOND, 0, SECOND // 100, SECOND)] == [*[False] * 3, True]
    assert [whole_seconds.was_settled(MINUTE + late) for late in (SECOND, 3 * SECOND)] == [False, True]
    later = time.time_ns() + MINUTE
    os.utime(profile, ns=(later, later))
    opened(profile)
    assert not stored(kept)


def test_a_profile_that_changes_while_it_is_read_is_neither_believed_nor_kept(
    kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SqliteReader.read

    def then_written(self: SqliteReader, *about: Any) -> Trace:
        trace = read(self, *about)
        os.utime(profile)
        return trace

    monkeypatch.setattr(SqliteReader, "read", then_written)
    with pytest.raises(UnreadableProfile, match="was changed while it was read"):
        opened(profile)
    assert not stored(kept)


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_database_with_a_log_beside_it_is_not_kept(profile: Path, ending: str) -> None:
    assert fingerprint(look_at(profile)) is not None
    profile.with_name(profile.name + ending).write_bytes(b"")
    assert fingerprint(look_at(profile)) is None


# The cache breaks


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "zeros", "flipped"])
def test_a_broken_file_is_replaced(
    damage: str, kept: Path, profile: Path, reads: list[str], unpacked: Callable[[str], Path]
) -> None:
    other = open_trace(unpacked("graph.sqlite"), cache=False)
    reads.clear()
    first = opened(profile)
    [file] = stored(kept)
    whole = file.read_bytes()
    broken = {
        "cut": whole[:-100],
        "empty": b"",
        "foreign": in_memory(other, "another"),
        "zeros": whole[:10_000] + bytes(len(whole) - 10_000),
        "flipped": whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :],
    }[damage]
    file.write_bytes(broken)
    assert same(opened(profile), first)
    assert len(reads) == 2
    assert file.read_bytes() == whole
    assert same(opened(profile), first)
    assert len(reads) == 2


@pytest.mark.parametrize("what", ["link", "folder"])
def test_what_is_no_file_is_not_followed(what: str, kept: Path, profile: Path, tmp_path: Path) -> None:
    first = opened(profile)
    [file] = stored(kept)
    if what == "link":
        file.symlink_to(file.rename(tmp_path / "elsewhere"))
    else:
        file.unlink()
        file.mkdir()
    assert same(opened(profile), first)
    assert same(opened(profile), first)


def test_files_of_another_user_are_not_used(kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(profile)
    [file] = stored(kept)
    me = os.geteuid()
    monkeypatch.setattr("gpuledger.system.kept_files.os.geteuid", lambda: me + 1)
    assert KeptFiles(kept, ".trace").mapped(file.name.removesuffix(".trace")) is None
    with pytest.raises(PermissionError):
        KeptFiles(kept, ".trace").write("a", 1, [b"a"], Event())


def test_no_place_for_it_is_no_error(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", Path("/proc/self/nowhere")):
        ran = gpuledger_process("info", profile, GPULEDGER_CACHE="always", XDG_CACHE_HOME=str(home))
        assert (ran.exit_code, ran.stderr) == (0, "")
    told = gpuledger_process(
        "info", profile, GPULEDGER_CACHE="always", XDG_CACHE_HOME=str(tmp_path / "file"), GPULEDGER_DEBUG="1"
    )
    assert told.exit_code == 0
    assert told.stderr.startswith("cache: ")
    assert "is not kept: NotADirectoryError" in told.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_can_only_be_read_is_still_read_from(kept: Path, profile: Path, reads: list[str]) -> None:
    opened(profile)
    kept.chmod(0o500)
    opened(profile)
    assert len(reads) == 1
    opened(profile, only=())
    assert len(stored(kept)) == 1


def test_without_a_home_nothing_is_kept(
    kept: Path, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "cache_folder", lambda: Path("~/.cache/gpuledger"))
    monkeypatch.chdir(tmp_path)
    opened(profile)
    assert not (tmp_path / "~").exists()


def run_python(code: str, *arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True)


def wait_for(child: subprocess.Popen[str], *said: str) -> None:
    """Until a child has said all of this, in whatever order."""
    assert child.stdout is not None
    still = set(said)
    while still:
        line = child.stdout.readline()
        assert line, "the child ended"
        still.discard(line.strip())


def test_a_full_disk_is_no_error(kept: Path, profile: Path) -> None:
    """No file may grow beyond 100 kB: the system refuses the write, as it does where the disk is full."""
    code = """if True:
        import resource, sys
        from gpuledger import Table, open_trace
        from gpuledger.read.cache import cached_open
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        print(len(open_trace(sys.argv[1])[Table.KERNELS]), flush=True)
    """
    child = run_python(code, profile)
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, int(out)) == (0, len(open_trace(profile, cache=False)[Table.KERNELS]))
    assert kept.exists()
    assert stored(kept) == []


SLOWLY = """if True:
    import atexit, os, sys, time
    from gpuledger import open_trace
    from gpuledger.read.cache import cached_open, store

    def slowly(self):
        whole = b"".join(pieces(self))
        os.write(1, b"writing\\n")  # whole lines: two threads speak
        for start in range(0, len(whole), 8192):
            time.sleep(float(sys.argv[3]))
            yield whole[start : start + 8192]

    pieces, store.PackedTrace.pieces = store.PackedTrace.pieces, slowly
    cached_open.PATIENCE_S = float(sys.argv[2])
    open_trace(sys.argv[1])
    atexit.register(os.write, 1, b"ending\\n")
"""


def test_a_kill_while_it_is_written_leaves_no_half_file(
    kept: Path, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = open_trace(profile, cache=False)
    chance = random.Random(1)
    for _ in range(6):
        child = run_python(SLOWLY, profile, "60", "0.001")
        wait_for(child, "writing")
        time.sleep(chance.random() * 0.2)
        os.kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=PATIENCE_S)
        assert same(open_trace(profile), expected)  # not kept here: the next child is to write again
        cached_open.finish_writing()
        for whole in kept.glob("*.trace"):
            whole.unlink()
    left = list(kept.glob("*.partial"))
    assert left
    for file in left:
        os.utime(file, (0, 0))
    monkeypatch.setattr(cached_open, "WORTH_S", 0)
    opened(profile)
    assert not list(kept.glob("*.partial"))


def test_the_end_of_the_process_waits_but_not_for_long(kept: Path, profile: Path) -> None:
    for patience, files in (("60", 1), ("0.01", 0)):
        for file in stored(kept):
            file.unlink()
        child = run_python(SLOWLY, profile, patience, "0.001")
        child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0
        assert len(stored(kept)) == files


def test_an_interrupt_ends_the_wait(kept: Path, profile: Path) -> None:
    child = run_python(SLOWLY, profile, "600", "0.2")
    wait_for(child, "writing", "ending")
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert stored(kept) == []


def test_two_processes_at_once(kept: Path, profile: Path) -> None:
    code = """if True:
        import sys
        from gpuledger import Table, open_trace
        from gpuledger.read.cache import cached_open
        for _ in range(5):
            print(int(open_trace(sys.argv[1])[Table.KERNELS]["end_ns"].sum()))
            cached_open.finish_writing()
            for file in cached_open.readings().path.glob("*.trace"):
                file.unlink(missing_ok=True)
    """
    children = [run_python(code, profile) for _ in range(3)]
    said = {line for child in children for line in child.communicate(timeout=PATIENCE_S)[0].split()}
    assert said == {str(int(open_trace(profile, cache=False)[Table.KERNELS]["end_ns"].sum()))}
    assert [child.returncode for child in children] == [0, 0, 0]
    assert not list(kept.glob("*.partial"))


# Room


def put(folder: Path, name: str, size: int, used_s: int) -> bool:
    done = KeptFiles(folder, ".trace").write(name, size, [bytes(size)], Event())
    if done:
        os.utime(folder / f"{name}.trace", (used_s, used_s))
    return done


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "MOST_BYTES", 1000)
    monkeypatch.setattr(kept_files, "MOST_SHARE", 1.0)
    folder = tmp_path / "traces"
    for number, name in enumerate("abc"):
        put(folder, name, 300, 1000 + number)
    mapped = KeptFiles(folder, ".trace").mapped("a")  # now the last used
    assert put(folder, "d", 400, 5000)
    assert [path.stem for path in stored(folder)] == ["a", "c", "d"]
    assert put(folder, "e", 1000, 5000)
    assert [path.stem for path in stored(folder)] == ["e"]
    assert mapped is not None
    assert mapped[:] == bytes(300)  # whoever has it keeps it
    assert not put(folder, "f", 1001, 5000)
    assert [path.stem for path in stored(folder)] == ["e"]


def test_it_takes_a_share_of_the_room_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "traces"
    assert put(folder, "a", 100, 1000)
    usage = shutil.disk_usage(tmp_path)._replace(free=1900)
    monkeypatch.setattr("gpuledger.system.kept_files.shutil.disk_usage", lambda _: usage)
    assert put(folder, "b", 100, 1001)
    assert put(folder, "c", 100, 1002)
    assert [path.stem for path in stored(folder)] == ["b", "c"]
    assert not put(folder, "d", 211, 1003)  # a tenth of what is free, and of what it has itself


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 600)), max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=tries(15))
def test_there_is_never_more_than_may_be(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, puts: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(kept_files, "MOST_BYTES", 1000)
    folder = tmp_path_factory.mktemp("traces")
    for at, (name, size) in enumerate(puts):
        assert put(folder, name, size, 1000 + at)
        assert (folder / f"{name}.trace").stat().st_size == size
        assert sum(path.stat().st_size for path in stored(folder)) <= 1000


def test_other_peoples_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "MOST_BYTES", 1000)
    (tmp_path / "notes.txt").write_bytes(bytes(5000))
    assert put(tmp_path, "a", 900, 1000)
    assert put(tmp_path, "b", 900, 1000)
    assert [path.name for path in stored(tmp_path)] == ["b.trace", "notes.txt"]

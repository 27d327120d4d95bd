"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest

from gpuledger.errors import OutputRefused
from gpuledger.system.files import PARTIAL, Abandoned, placed, replacing, whole_file


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "result.txt"
    path.write_text("old")
    return path


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_a_file_takes_its_place_when_it_is_whole(target: Path) -> None:
    with whole_file(target, durable=True) as file:
        file.write(b"new")
        file.flush()
        [beside] = set(names(target)) - {"result.txt"}
        assert beside.startswith(".result.txt.")
        assert beside.endswith(PARTIAL)
        assert target.read_text() == "old"
    assert (target.read_text(), names(target)) == ("new", ["result.txt"])


def test_what_another_program_makes_takes_its_place(target: Path) -> None:
    with placed(target, ending=".partial.txt") as beside:
        assert not beside.exists()
        assert beside.name.endswith(".partial.txt")
        beside.write_text("new")
    assert (target.read_text(), names(target)) == ("new", ["result.txt"])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_a_failure_leaves_the_old_file_and_nothing_else(target: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), whole_file(target) as file:  # noqa: PT012 - half of it is written before
        file.write(b"half")
        raise error
    assert (target.read_text(), names(target)) == ("old", ["result.txt"])


def test_a_file_may_be_abandoned(target: Path) -> None:
    with contextlib.suppress(Abandoned), whole_file(target) as file:
        file.write(b"half")
        raise Abandoned
    assert (target.read_text(), names(target)) == ("old", ["result.txt"])


def test_who_must_not_overwrite_learns_that_somebody_was_first(tmp_path: Path) -> None:
    target = tmp_path / "result.txt"
    with pytest.raises(FileExistsError), whole_file(target, overwrite=False) as file:  # noqa: PT012 - at its end
        file.write(b"new")
        target.write_text("theirs")
    assert (target.read_text(), names(target)) == ("theirs", ["result.txt"])
    with pytest.raises(OutputRefused, match="exists already"), replacing(target, force=False) as file:
        file.write(b"new")


def test_the_umask_decides_who_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for name, private in (("shared", False), ("own", True)):
            with whole_file(tmp_path / name, private=private) as file:
                file.write(b"x")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("shared", "own")]
    assert modes == [0o640, 0o600]


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "-rf", " "])
def test_any_name_that_the_system_takes(tmp_path: Path, name: str) -> None:
    with whole_file(tmp_path / name) as file:
        file.write(b"x")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_writers_at_the_same_time_leave_one_whole_file(target: Path) -> None:
    def write(letter: bytes) -> None:
        for _ in range(20):
            with whole_file(target) as file:
                for _ in range(10):
                    file.write(letter * 1000)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert target.read_bytes() in (b"old", b"a" * 10_000, b"b" * 10_000, b"c" * 10_000)
    assert names(target) == ["result.txt"]

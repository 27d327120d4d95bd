"""The opener of profiles: where only some folders may be read, what leaves them is refused, what stays is opened."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.system.opening import entries_of, exists, is_dir, is_file, only_below, open_file, status_of, walk


def read(path: Path) -> str:
    with open_file(path) as file:
        return file.read().decode()


NAMES = ("a", "b", "c")
TREES = itertools.count()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("opening").resolve()


def test_links_are_followed_as_far_as_they_stay(root: Path) -> None:
    (root / "mine" / "deep").mkdir(parents=True)
    (root / "mine" / "file").write_text("mine")
    (root / "yours").write_text("yours")
    links = {"near": "file", "whole": f"{root}/mine/file", "deep/up": "../file", "twice": "deep/up", "out": "../yours"}
    for name, text in links.items():
        (root / "mine" / name).symlink_to(text)
    with only_below([root / "mine"]):
        for name in ("near", "whole", "deep/up", "twice", "deep/../file"):
            assert read(root / "mine" / name) == "mine"
        for path in (root / "mine" / "out", root / "yours", root, root / "mine" / ".."):
            with pytest.raises(OSError, match="leads out of the folders") as refusal:
                status_of(path)
            assert refusal.value.errno == errno.EXDEV
            assert (exists(path), is_file(path), is_dir(path)) == (False, False, False)
        assert list(walk(root / "mine"))[1] == (str(root / "mine" / "deep"), [], ["up"])
    assert read(root / "mine" / "out") == "yours"  # nobody limits the command line


PARTS = st.lists(st.sampled_from([*NAMES, "..", "."]), min_size=1, max_size=4).map("/".join)
TARGETS = st.tuples(st.sampled_from(["", "in", "out", "/"]), PARTS)


@given(st.lists(st.tuples(PARTS, TARGETS | st.none() | st.just("file")), max_size=12), st.lists(PARTS, max_size=6))
def test_what_is_opened_is_what_the_system_finds_there_if_that_is_inside(
    root: Path, made: list[tuple[str, object]], asked: list[str]
) -> None:
    """Any tree of folders, files and links, relative and absolute, in circles or out and back in again."""
    place = root / f"tree{next(TREES)}"
    for side in ("in", "out"):
        (place / side).mkdir(parents=True)
    for name, kind in made:
        path = place / "in" / name
        try:
            if kind is None:
                path.mkdir(parents=True)
            elif isinstance(kind, tuple):
                path.symlink_to(f"{place}/{kind[0]}/{kind[1]}" if kind[0] else kind[1])
            else:
                path.write_text(str(path.resolve()))
        except (OSError, RuntimeError):
            continue  # the name is taken, or no folder
    for name in [*asked, *(name for name, _ in made)]:
        path = place / "in" / name
        real = Path(os.path.realpath(path))
        is_inside = real.is_relative_to(place / "in") and path.exists()
        refused = 0
        with only_below([place / "in"]):
            try:
                status = status_of(path)
                held = sorted(entries_of(path)) if is_dir(path) else read(path)
            except OSError as error:
                refused = error.errno or -1
        if refused:
            assert not is_inside or refused == errno.EXDEV  # by way of outside
        else:
            assert is_inside
            assert os.path.samestat(status, real.stat())
            assert held == (sorted(os.listdir(real)) if real.is_dir() else real.read_text())


@pytest.mark.parametrize("name", ["circle", "no/such", "file/below", "a\0b", "x" * 300, "pipe"])
def test_what_cannot_be_opened_raises_and_waits_for_nobody(root: Path, name: str) -> None:
    folder = root / f"hostile{next(TREES)}"
    folder.mkdir()
    (folder / "circle").symlink_to("circle")
    (folder / "file").touch()
    os.mkfifo(folder / "pipe")
    with only_below([folder]):
        assert not is_file(folder / name)
        if name == "pipe":
            assert read(folder / name) == ""
            return
        with pytest.raises((OSError, ValueError)):
            open_file(folder / name)

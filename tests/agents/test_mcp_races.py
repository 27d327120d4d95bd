"""Paths that become links between two looks: another process turns them over all the time while tools are called."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import multiprocessing
import os
import pickle
import random
import shutil
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agents.answers import AgentAnswer
from gpuledger.agents.calls import answered
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.system.opening import entries_of, only_below, open_file, walk
from support.programs.served_files import MARK, everything
from support.programs.watched_opens import watched_opens
from support.thorough import IS_THOROUGH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="paths are exchanged as Linux can")

CALLS = 2_000 if IS_THOROUGH else 100
OPENS = 20_000 if IS_THOROUGH else 2_000
_EXCHANGE = 2
_HERE = -100


def exchange(one: Path, other: Path) -> None:
    """Two names change places, with no moment in which one is missing."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


def _flip(pairs: Sequence[tuple[Path, Path]], seed: int, longest_s: float) -> None:
    chance = random.Random(seed)
    while os.getppid() != 1:
        exchange(*chance.choice(pairs))
        time.sleep(chance.choice([0, chance.random() * longest_s / 100, chance.random() * longest_s]))


@contextlib.contextmanager
def flipping(pairs: Sequence[tuple[Path, Path]], longest_s: float = 0.05) -> Iterator[None]:
    """Meanwhile each path is now what it was, now what lies beside it."""
    flipper = multiprocessing.get_context("fork").Process(target=_flip, args=(pairs, 1, longest_s), daemon=True)
    flipper.start()
    try:
        yield
    finally:
        flipper.kill()
        flipper.join()
        for path, other in pairs:
            if path.is_symlink():
                exchange(path, other)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that may be read, in two folders, and others like them outside, which have nine kernels."""
    root = tmp_path_factory.mktemp("races").resolve()
    everything(root / "outside", MARK)
    with contextlib.closing(sqlite3.connect(root / "outside" / "run.sqlite")) as database, database:
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > 9")
    for folder in ("job", "way"):
        everything(root / "served" / folder, "inside")
    return root


def beside_link(place: Path, name: str) -> tuple[Path, Path]:
    """A path that may be read, and a link beside it to its like outside."""
    path = place / "served" / name
    link = path.with_name(f".{path.name}.link")
    if not os.path.lexists(link):
        link.symlink_to(place / "outside" / name.partition("/")[2])
    return path, link


def beside_copy(place: Path, name: str) -> tuple[Path, Path]:
    """A path that may be read, and another file of the same content, which may be, too."""
    path = place / "served" / name
    copy = path.with_name(f".{path.name}.copy")
    if not copy.exists():
        shutil.copy(path, copy)
    return path, copy


def test_the_opener_gives_nothing_from_outside_whenever_a_path_becomes_a_link(place: Path) -> None:
    """A file, a folder and a folder on the way: what is opened is inside, or refused by its reason."""
    seen = Counter[str]()
    pairs = [beside_link(place, name) for name in ("job/run.sqlite", "job/tables", "way")]
    with flipping(pairs, 0.001), only_below([place / "served"]), watched_opens(place / "outside") as watched:
        for number in range(OPENS):
            path = place / "served" / ("job/run.sqlite", "way/run.sqlite", "job/tables", "way/store")[number % 4]
            try:
                if path.suffix:
                    with open_file(path) as file:
                        assert MARK.encode() not in file.read()
                else:
                    assert entries_of(path)
                seen["opened"] += 1
            except OSError as error:
                seen[os.strerror(error.errno or 0)] += 1
            assert not any("outside" in folder for folder, _, _ in walk(path.parent))
        assert watched.paths() == []
    assert seen["opened"] > OPENS // 20, seen
    assert seen.keys() <= {"opened", *map(os.strerror, (errno.EXDEV, errno.ELOOP, errno.ENOTDIR))}, seen


QUERY = ("query", {"sql": "SELECT DISTINCT name FROM kernels"})
OPENED = ("open_profile", "report", "diff", QUERY)
Pairs = Callable[[Path, str], tuple[Path, Path]]
Race = tuple[Pairs, str, str, Sequence[str | tuple[str, dict[str, str]]]]
"""How a path is turned over, which one, what tools are asked about, and which tools."""

RACES: list[Race] = [
    (beside_link, "job/run.sqlite", "job/run.sqlite", OPENED),
    (beside_copy, "job/run.sqlite", "job/run.sqlite", OPENED),
    (beside_link, "job/log.sqlite-wal", "job/log.sqlite", OPENED),
    (beside_link, "job/kept.sqlite-journal", "job/kept.sqlite", OPENED),
    (beside_link, "job/ours.json.gz", "job/ours.json.gz", OPENED),
    (beside_link, "job/ours.samples.gz", "job/ours.json.gz", OPENED),
    (beside_link, "job/ours.capture.json", "job/ours.json.gz", OPENED),
    (beside_link, "job/perf.perf.txt", "job/perf.json.gz", OPENED),
    (beside_link, "job/tables/StringIds.parquet", "job/tables", OPENED),
    (beside_copy, "job/tables/CUPTI_ACTIVITY_KIND_KERNEL.parquet", "job/tables", OPENED),
    (beside_link, "job/tables", "job/tables", OPENED),
    (beside_link, "job/csv/run_hip_api_trace.csv", "job/csv/run_kernel_trace.csv", OPENED),
    (beside_link, "job/report.nsys-rep", "job/report.nsys-rep", OPENED),
    (beside_link, "job/leak.pickle", "job/leak.pickle", ("memory_snapshot",)),
    (beside_link, "job/store", "job/store", ("history",)),
    (beside_link, "way", "way/run.sqlite", ("fleet", "list_profiles", *OPENED)),
    (beside_link, "way", "way", ("fleet", "list_profiles")),
    (beside_link, "way", "way/log.sqlite", OPENED),
]


def asked(profiles: AgentProfiles, tool: str, path: str, **more: str) -> AgentAnswer | str:
    """A tool, asked of a path, or of the last handles."""
    handle = f"p{max(len(profiles._tickets), 1)}"
    given: dict[str, dict[str, Any]] = {
        "open_profile": {"path": path},
        "memory_snapshot": {"path": path},
        "history": {"store": path},
        "fleet": {"paths": [path]},
        "list_profiles": {},
        "diff": {"before": "p1", "after": handle},
    }
    return answered(profiles, tool, {**given.get(tool, {"handle": handle}), **more}, lambda *_: None)


@pytest.mark.parametrize("race", RACES, ids=lambda race: f"{race[0].__name__} {race[1]}")
def test_no_answer_is_from_outside_whenever_a_path_becomes_a_link(
    race: Race, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is any an internal error. SQLite opens a path by itself: that it has another file is seen before it reads."""
    beside, turned, path, tools = race
    profiles = AgentProfiles(AllowedFolders([place / "served"]), DEFAULT_LIMITS)
    asked(profiles, "open_profile", path)
    pair = beside(place, turned)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("GPULEDGER_CACHE", ("0", "always")[RACES.index(race) % 2])
    seen, chance = Counter[str](), random.Random(2)
    with watched_opens(place / "outside") as watched, flipping([pair]):
        for number in range(-(-CALLS // len(RACES))):
            tool, more = tools[number % len(tools)], dict[str, str]()
            if isinstance(tool, tuple):
                tool, more = tool
            profiles = pickle.loads(pickle.dumps(profiles))  # so that all is read again  # noqa: S301
            time.sleep(chance.random() * 0.02)  # a refusal is sooner there than the next turn
            said = asked(profiles, tool, path, **more)
            text = said if isinstance(said, str) else json.dumps(said.content)
            assert MARK not in text, (tool, text)
            assert "internal error" not in text, (tool, text)
            if tool == "open_profile" and isinstance(said, AgentAnswer):
                assert said.content["gpus"][0]["kernels"] != 9, text
            seen["answered" if isinstance(said, AgentAnswer) else text[:60]] += 1
        opened = {found.name for found in watched.paths()}
    assert {name for name in opened if not name.endswith(".sqlite")} == set(), opened
    print(turned, dict(seen.most_common(5)), len(opened))  # noqa: T201  with -s

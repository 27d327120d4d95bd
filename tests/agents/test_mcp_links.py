"""Folders full of links that lead out: whatever is asked, nothing outside is opened, nor told. What stays is followed.

What is opened outside the kernel tells (inotify): libraries that open files by themselves are seen, too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agents.answers import AgentAnswer
from gpuledger.agents.calls import answered
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.limits import DEFAULT_LIMITS, EXPORTER
from support.programs.capture_tools import tools
from support.programs.served_files import MARK, TRACE, everything
from support.programs.watched_opens import watched_opens

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Tree:
    """A folder that may be read, with links in it, beside one that may not."""

    def __init__(self, root: Path) -> None:
        self.root, self.served, self.outside = root, root / "served", everything(root / "outside", MARK)
        everything(self.served / "real", "inside")
        names = [path.relative_to(self.outside) for path in self.outside.rglob("*")]
        for number, name in enumerate(names):
            target, flat = self.outside / name, f"{number}_{name.name}"
            for link, text in {
                f"absolute/{flat}": str(target),
                f"a/b/c/{flat}": os.path.relpath(target, self.served / "a" / "b" / "c"),
                f"chained/{flat}": f"../absolute/{flat}",
                f"through/{flat}": f"../away/{name}",
            }.items():
                self.link(link, text)
            # what lies beside a profile, or is a member of a folder, leads out: all of it, or every other file
            for folder in ("all", "half")[: 1 + number % 2]:
                beside = self.served / "beside" / folder
                if not beside.exists():
                    shutil.copytree(self.served / "real", beside)
                if target.is_file() and not name.name.endswith((".sqlite", ".json.gz", ".pickle", "_kernel_trace.csv")):
                    (beside / name).unlink(missing_ok=True)
                    (beside / name).symlink_to(target)
        self.link("away", str(self.outside))
        self.link("a/away", "../../outside")
        self.link("a/b/away", "../away")
        self.link("top", "/")
        self.link("up", "..")
        self.link("circle", "circle")
        self.link("inner", "real")
        self.link("a/b/inner", str(self.served / "real" / "run.sqlite"))
        self.link("a/round", "../inner/../real/run.sqlite")
        self.link("pyproject.toml", str(self.outside / "pyproject.toml"))
        self._archives(self.served / "packed")

    def link(self, name: str, text: str) -> None:
        path = self.served / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(text)

    def _archives(self, folder: Path) -> None:
        folder.mkdir()
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            with tarfile.open(folder / f"links{kind.decode()}.tar", "w") as archive:
                archive.add(TRACE, "good.json.gz")
                for name in ("ours.json.gz", "../outside/ours.json.gz"):
                    member = tarfile.TarInfo(name)
                    member.type, member.linkname = kind, str(self.outside / "ours.json.gz")
                    archive.addfile(member)
        with zipfile.ZipFile(folder / "links.zip", "w") as zipped:
            zipped.write(TRACE, "good.json.gz")
            entry = zipfile.ZipInfo("../ours.json.gz")
            entry.external_attr = 0o120777 << 16
            zipped.writestr(entry, str(self.outside / "ours.json.gz"))

    def paths(self) -> list[str]:
        """All names below the served folder, and ones that lead out by their dots or through links to folders."""
        found = [Path(place, name) for place, *both in os.walk(self.served) for names in both for name in names]
        ways = ("away", "a/away", "a/b/away", "top", "up/outside", "../outside", "real/../../outside", "up/served/real")
        archives = [f"packed/{name}::" for name in ("links2.tar", "links1.tar", "links.zip")]
        members = ("ours.json.gz", "../ours.json.gz", "../outside/ours.json.gz", "good.json.gz")
        return [
            *sorted(os.path.relpath(path, self.served) for path in found),
            *(f"{way}/run.sqlite" for way in ways),
            *(archive + member for archive in archives for member in members),
            *(f"top{self.outside}/run.sqlite", str(self.outside), f"{self.outside}/run.sqlite", ".", ".."),
        ]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("links").resolve())


@pytest.fixture
def profiles(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> AgentProfiles:
    monkeypatch.chdir(tree.served)
    return AgentProfiles(AllowedFolders([tree.served]), DEFAULT_LIMITS, most_open=1)


HEARD: list[list[str]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if HEARD and event in ("open", "sqlite3.connect", "os.listdir", "os.scandir"):
        HEARD[-1].append(str(arguments[0]))


@contextmanager
def heard() -> Iterator[list[str]]:
    """What Python code asks the system to open, as it names it."""
    if not getattr(sys, "_gpuledger_hears", False):
        sys.addaudithook(_hear)
        sys._gpuledger_hears = True  # type: ignore[attr-defined]
    HEARD.append([])
    try:
        yield HEARD[-1]
    finally:
        HEARD.pop()


def told(profiles: AgentProfiles, tool: str, **given: Any) -> str:
    """What a tool says, refusals included."""
    said = answered(profiles, tool, given, lambda *_: None)
    return json.dumps(said.content) if isinstance(said, AgentAnswer) else said


def all_tools(profiles: AgentProfiles, path: str) -> Iterator[str]:
    """What each tool says of a path, or of the handle that it gets."""
    yield told(profiles, "memory_snapshot", path=path)
    yield told(profiles, "history", store=path)
    yield told(profiles, "history", store=path, what="blame")
    opened = told(profiles, "open_profile", path=path)
    yield opened
    if opened.startswith("{"):
        of = {"handle": json.loads(opened)["handle"]}
        for tool in ("report", "steps", "gaps", "kernels"):
            yield told(profiles, tool, **of)
        yield told(profiles, "query", **of, sql="SELECT DISTINCT name FROM kernels")
        yield told(profiles, "whatif", **of, changes=[])
        yield told(profiles, "diff", before=of["handle"], after=of["handle"])


def test_no_tool_opens_or_tells_what_links_lead_out_to(tree: Tree, profiles: AgentProfiles) -> None:
    with watched_opens(tree.outside) as watched, heard() as named:
        said = [(path, text) for path in tree.paths() for text in all_tools(profiles, path)]
        said += [("", told(profiles, "list_profiles"))]
        jobs = [".", "real", "beside", "beside/all", "a", "away", "packed", "*", "**/*.sqlite", "away/*", "a/*/*/*"]
        said += [(path, told(profiles, "fleet", paths=[path])) for path in jobs]
        assert watched.paths() == []
    assert len(said) > 500
    assert [path for path, text in said if MARK in text or "internal error" in text] == []
    assert [name for name in named if name.startswith(str(tree.outside))] == []
    handles = [json.loads(text) for _, text in said if text.startswith('{"handle"')]
    assert len({one["handle"] for one in handles}) > 20


def test_what_stays_in_the_folders_is_followed(profiles: AgentProfiles) -> None:
    for path in ("inner/run.sqlite", "a/b/inner", "a/round", "real/log.sqlite", "up/served/real/run.sqlite"):
        handle = json.loads(told(profiles, "open_profile", path=path))["handle"]
        assert "inside" in told(profiles, "query", handle=handle, sql="SELECT DISTINCT name FROM kernels"), path


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("absolute/{}_run.sqlite", "is outside of the folders that this server may read"),
        ("beside/all/tables", "it leads out of the folders that may be read"),
        ("beside/all/report.nsys-rep", "is outside of the folders that this server may read"),
    ],
)
def test_the_sentence_says_that_it_leads_out(tree: Tree, profiles: AgentProfiles, path: str, said: str) -> None:
    links = (tree.served / "absolute").iterdir()
    [number] = [link.name.partition("_")[0] for link in links if link.name.endswith("_run.sqlite")]
    assert said in told(profiles, "open_profile", path=path.format(number))


def test_nsys_is_given_a_copy(
    tree: Tree, profiles: AgentProfiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows whatever its path leads to by then."""
    nsys = tools(tmp_path, tree.served / "real" / "run.sqlite")
    for name, value in {**nsys.environment, EXPORTER: "nsys"}.items():
        monkeypatch.setenv(name, value)
    assert told(profiles, "open_profile", path="real/report.nsys-rep").startswith('{"handle"')
    [[*_, given]] = nsys.calls()
    assert Path(given).name == "report.nsys-rep"
    assert not Path(given).is_relative_to(tree.root)

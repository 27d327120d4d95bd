"""Fixtures: the bundled captures unpacked. Signals, the cache and the examples of Hypothesis as tests need them."""

from __future__ import annotations

import gc
import lzma
import os
import signal
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from gpuledger.read.ncu.reader import open_kernels
from gpuledger.trace.measured import KernelReport
from support.cases.case_runner import CaseFile
from support.command import CAPTURES, ROOT
from support.pages.page_browser import Browser, chromium
from support.profiles.ncu_answers import asked_once
from support.profiles.read_once import read_once
from support.thorough import THOROUGH_EXAMPLES

# how long an example takes says more about the machine than about us, so there is no deadline; the same code gives the
# same result, so the usual examples are always the same ones, and a thorough run looks for new ones
settings.register_profile("usual", deadline=None, max_examples=12, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=THOROUGH_EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Cases in Markdown: `pytest tests/ledger/cases/idle.md -k sync`."""
    is_case = file_path.suffix == ".md" and file_path.parent.name == "cases"
    return CaseFile.from_parent(parent, path=file_path) if is_case else None


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end, so the garbage collector need not look through it again.

    It looks for cycles more seldom than usual, too: a tenth of the suite's time went into it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Names a failed test when it fails, in place of an F; with several workers, too."""
    if not report.failed:
        return None
    outcome = "FAILED" if report.when == "call" else "ERROR"
    return outcome.lower(), f"\n{outcome} {report.nodeid}\n", outcome


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test uses or fills the cache of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _children_take_signals() -> None:
    """Tests interrupt what they start, also where SIGINT is ignored (`make test &` in a script), or SIGHUP (nohup).

    A program that is started inherits what is ignored, but no handler; so we, who must not be interrupted, have one.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpacks `captures/nsys/NAME.xz` once and gives the path of NAME; a folder for a .tar."""
    folder = tmp_path_factory.mktemp("captures")

    def unpack(name: str) -> Path:
        target = folder / name.removesuffix(".tar")
        if not target.exists():
            packed = CAPTURES / f"{name}.xz"
            if name.endswith(".tar"):
                with tarfile.open(packed) as archive:
                    archive.extractall(folder, filter="data")
            else:
                target.write_bytes(lzma.decompress(packed.read_bytes()))
        return target

    return unpack


@pytest.fixture
def decode(unpacked: Callable[[str], Path]) -> Path:
    return unpacked("decode.sqlite")


@pytest.fixture(scope="session")
def layer_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nsight Compute's report of one decoder layer, 13 launches."""
    path = tmp_path_factory.mktemp("ncu") / "layer.ncu-rep"
    path.write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / "layer.ncu-rep.xz").read_bytes()))
    return path


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A timeline, and the reports of the two runs of ncu that `gpuledger kernels` asked for: all in one folder."""
    folder = tmp_path_factory.mktemp("planned")
    for name in ("planned.sqlite", "planned-1.ncu-rep", "planned-2.ncu-rep"):
        (folder / name).write_bytes(lzma.decompress((ROOT / "captures" / "ncu" / f"{name}.xz").read_bytes()))
    return folder


@pytest.fixture
def as_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """For pages of the docs: they show a release, and this is none."""
    monkeypatch.setattr("gpuledger.version.installed_version", lambda _: "0.1.0")


@pytest.fixture
def ncu_asked_once() -> Iterator[None]:
    """For tests of what is made of a report of Nsight Compute, not of its reading."""
    with asked_once():
        yield


@pytest.fixture
def profiles_read_once() -> Iterator[None]:
    """For tests of what is shown of a profile, in several formats or languages; not of its reading."""
    with read_once():
        yield


@pytest.fixture(scope="session")
def layer(layer_report: Path) -> KernelReport:
    """The same, read."""
    with asked_once():
        return open_kernels([layer_report])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of pages: starting it takes longer than any of them, and a process has one at most."""
    with chromium() as started:
        yield started

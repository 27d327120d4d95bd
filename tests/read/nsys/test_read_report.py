""".nsys-rep files by way of nsys, where that is asked for: into the user's cache, again when the report has changed.

nsys itself is not on every machine that runs these tests, so a stand-in that copies an export plays its part. Where the
real one is, `test_read_report_real.py` uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger import MissingPackage, Table, ToolFailed, open_trace
from gpuledger.system.machine import find_nsys
from support.command import called

HEAD = b"NVIDIA Tegra Profiler Report 36398880."

STAND_IN = """#!/bin/sh
# nsys export --type=sqlite ... --output=TARGET REPORT
echo "$@" >> "$NSYS_LOG"
for each in "$@"; do case "$each" in --output=*) target=${each#--output=};; esac; done
%s
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "run of mine.nsys-rep"
    path.write_bytes(HEAD + b"\0" * 100)
    return path


@pytest.fixture
def install(tmp_path: Path, decode: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a stand-in on the PATH, the cache into a folder of the test's, and gives the log of the calls."""
    log = tmp_path / "calls"
    monkeypatch.setenv("NSYS_LOG", str(log))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EXPORT", str(decode))
    monkeypatch.setenv("GPULEDGER_EXPORTER", "nsys")

    def installed(body: str) -> Path:
        tool = tmp_path / "bin" / "nsys"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(STAND_IN % body)
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return log

    return installed


def test_a_report_is_exported_once_and_kept_away_from_it(report: Path, install: Callable[[str], Path]) -> None:
    log = install('cp "$EXPORT" "$target"')
    (report.parent / "cache" / "gpuledger").mkdir(mode=0o755, parents=True)
    beside = sorted(os.listdir(report.parent))
    assert len(open_trace(report)[Table.KERNELS]) == 2446
    assert len(open_trace(report)[Table.KERNELS]) == 2446
    assert log.read_text().count("export --type=sqlite") == 1
    assert sorted(set(os.listdir(report.parent)) - {"cache", "calls"}) == sorted(set(beside) - {"cache", "calls"})
    top = report.parent / "cache" / "gpuledger"
    folders = [path for path in (top, *top.rglob("*")) if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}  # it holds the environment that was recorded


def test_a_newer_report_is_exported_again_and_the_old_export_goes(
    report: Path, install: Callable[[str], Path], tmp_path: Path
) -> None:
    log = install('cp "$EXPORT" "$target"')
    open_trace(report)
    report.write_bytes(HEAD + b"\0" * 200)
    open_trace(report)
    assert log.read_text().count("export --type=sqlite") == 2
    assert len(list((tmp_path / "cache").rglob("*.sqlite"))) == 1


def test_what_nsys_says_when_it_fails_is_passed_on(
    report: Path, install: Callable[[str], Path], tmp_path: Path
) -> None:
    install('echo "Exportation error: too new" >&2; exit 1')
    with pytest.raises(ToolFailed, match=r"run of mine\.nsys-rep: `nsys export` failed \(exit code 1\)") as raised:
        open_trace(report)
    assert "Exportation error: too new" in raised.value.found
    assert list((tmp_path / "cache").rglob("*.sqlite")) == []


def test_an_nsys_without_its_importer_is_named(report: Path, install: Callable[[str], Path]) -> None:
    install('echo "Importer error status: The importer binary was not found."; exit 0')
    with pytest.raises(ToolFailed) as raised:
        open_trace(report)
    assert "lacks its importer" in raised.value.hint


def test_without_nsys_one_sentence_says_how(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GPULEDGER_EXPORTER", "nsys")
    monkeypatch.setattr("gpuledger.capture.nsys.find_nsys", lambda: None)
    with pytest.raises(MissingPackage, match="opening it needs nsys, which was not found") as raised:
        open_trace(report)
    assert "nsys export --type=sqlite" in raised.value.hint
    report.with_suffix(".sqlite").touch()
    with pytest.raises(MissingPackage) as raised:
        open_trace(report)
    assert raised.value.hint == "run of mine.sqlite is next to it: open that"


@pytest.mark.parametrize(
    "place",
    [
        "usr/local/cuda/bin",
        "opt/nvidia/nsight-systems/2025.3.2/bin",
        "opt/nvidia/nsight-systems-cli/2024.6.2/target-linux-x64",
        "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64",
    ],
)
def test_nsys_is_found_where_nvidia_puts_it(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_nsys(tmp_path) is None
    tool = tmp_path / place / "nsys"
    tool.parent.mkdir(parents=True)
    tool.touch(mode=0o755)
    assert find_nsys(tmp_path) == tool


def test_the_newest_of_several_versions_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for version in ("2024.10.1", "2024.9.3", "2023.4.4"):
        tool = tmp_path / "opt/nvidia/nsight-systems" / version / "bin" / "nsys"
        tool.parent.mkdir(parents=True)
        tool.touch(mode=0o755)
    found = find_nsys(tmp_path)
    assert found is not None
    assert "2024.10.1" in str(found)


def test_the_command_line_asks_for_nsys(report: Path, install: Callable[[str], Path], tmp_path: Path) -> None:
    log = install('cp "$EXPORT" "$target"')
    settings = {"PATH": os.environ["PATH"], "NSYS_LOG": str(log), "EXPORT": os.environ["EXPORT"]}
    settings |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = called(("info", report, "--exporter=nsys"), settings)
    assert (result.exit_code, "2,446" in result.stdout) == (0, True)
    native = called(("info", report, "--exporter=native"), settings)
    assert native.stderr.startswith("error: run of mine.nsys-rep: a damaged report of Nsight Systems")

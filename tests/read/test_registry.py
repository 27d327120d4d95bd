"""Which reader knows a file, which formats there are, and what is said of files that are no profiles."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gpuledger.errors import GpuledgerError
from gpuledger.read import open_trace
from gpuledger.read.registry import READERS, formats_table, load_reader, reader_of
from gpuledger.read.source import Source, look_at
from support.command import ROOT, gpuledger
from support.profiles.rocm_files import rocprof_json, rpd
from support.profiles.samples import SAMPLES


def test_every_reader_is_there_under_a_name_of_its_own() -> None:
    names = [load_reader(place).name for place in READERS]
    assert len(set(names)) == len(names)
    assert not any(load_reader(place).recognises(Source(Path("x"), 3, b"abc")) for place in READERS)


@pytest.mark.parametrize("name", [load_reader(place).name for place in READERS])
def test_every_reader_knows_its_own_and_gives_a_trace(name: str, tmp_path: Path) -> None:
    """Whatever the file is called; half of it is less of a trace, or refused in one sentence."""
    sample = SAMPLES[name](tmp_path / "sample")
    reader = reader_of(look_at(sample))
    assert reader is not None
    assert reader.name == name
    assert open_trace(sample, cache=False).tables
    if sample.is_file():
        sample.write_bytes(sample.read_bytes()[: sample.stat().st_size // 2])
        with contextlib.suppress(GpuledgerError):
            assert open_trace(sample, cache=False).health


def test_the_content_decides(decode: Path, tmp_path: Path) -> None:
    disguised = tmp_path / "trace.json"
    disguised.write_bytes(decode.read_bytes())
    reader = reader_of(look_at(disguised))
    assert reader is not None
    assert reader.name == "sqlite"


def test_a_reader_that_is_not_asked_is_not_imported(decode: Path) -> None:
    code = f"""if True:
        import sys
        from pathlib import Path
        from gpuledger.read.registry import reader_of
        from gpuledger.read.source import look_at
        assert reader_of(look_at(Path({str(decode)!r}))) is not None
        assert "gpuledger.read.torch.reader" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_table_of_formats_is_that_of_the_docs() -> None:
    assert formats_table() in (ROOT / "docs" / "reference" / "formats.md").read_text()
    assert gpuledger("info", "--formats").stdout == formats_table() + "\n"


def test_a_file_alone_is_reported_on(tmp_path: Path) -> None:
    profile = rpd(tmp_path / "run.rpd")
    alone, asked = gpuledger(str(profile), "--format=json"), gpuledger("report", str(profile), "--format=json")
    assert (alone.exit_code, alone.stdout) == (0, asked.stdout)
    missing = gpuledger(str(tmp_path / "none.rpd"))
    assert (missing.exit_code, missing.stderr) == (1, "error: none.rpd: no such file\n")


def test_info_of_an_amd_profile(tmp_path: Path) -> None:
    ran = gpuledger("info", str(rocprof_json(tmp_path / "a.json")))
    assert ran.exit_code == 0
    assert "rocprofv3" in ran.stdout
    assert "kernel_dispatch" not in gpuledger("info", "--formats").stdout


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x7fELF\x02\x01", "a program, not a profile"),
        (b"\x89PNG\r\n", "a picture or a document"),
        (b"<!DOCTYPE html><html>", "a web page, not a profile"),
        (b"BZh91AY", "compressed with bzip2"),
    ],
)
def test_info_says_what_a_file_is(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    ran = gpuledger("info", str(tmp_path / "a"))
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert what in ran.stderr
    assert "hint: " in ran.stderr


def test_a_profile_of_nvprof_is_named(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.nvprof")) as made:
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INTEGER)")
        made.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
    assert "a profile of nvprof" in gpuledger("info", str(tmp_path / "a.nvprof")).stderr

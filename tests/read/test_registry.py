"""Which reader knows a file, which formats there are, and what is said of files that are no profiles."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gpuledger.read.registry import READERS, formats_table, load_reader, reader_of
from gpuledger.read.source import Source, look_at
from support.command import ROOT, gpuledger
from support.profiles import perfetto_files
from support.profiles.rocm_files import rocprof_csv, rocprof_json, rpd
from support.profiles.xplane_files import xplane


def test_every_reader_is_there_under_a_name_of_its_own() -> None:
    names = [load_reader(place).name for place in READERS]
    assert len(set(names)) == len(names)
    assert not any(load_reader(place).recognises(Source(Path("x"), 3, b"abc")) for place in READERS)


def test_every_reader_knows_its_own(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    report, archive = tmp_path / "run", tmp_path / "traces"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 36398880.")
    trace = ROOT / "captures" / "torch" / "decode.json.gz"
    with tarfile.open(archive, "w") as packed:
        packed.add(trace, "rank0.json.gz")
    known = {
        unpacked("decode.sqlite"): "sqlite",
        unpacked("decode.parquetdir.tar"): "nsys parquetdir and arrowdir",
        unpacked("decode.arrowdir.tar"): "nsys parquetdir and arrowdir",
        report: "nsys report",
        archive: "archive",
        trace: "json",
        rocprof_csv(tmp_path / "run"): "rocprof csv",
        xplane(tmp_path / "jax"): "xplane",
        perfetto_files.saved(tmp_path / "amd", perfetto_files.rocprofv3()): "perfetto",
    }
    assert {path: reader.name for path in known if (reader := reader_of(look_at(path))) is not None} == known
    assert set(known.values()) == {load_reader(place).name for place in READERS}


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
